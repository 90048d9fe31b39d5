"""Who is retired, by whom, and who stands in the place: every sentence of the rule."""

from __future__ import annotations

import math
from itertools import permutations
from operator import mul
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ctxarith import (
    ArgumentError,
    Corpus,
    Policy,
    Principal,
    Record,
    Result,
    Slot,
    drop_superseded,
    everyone,
    lexical,
    rrf,
    semantic,
    superseded,
    top,
)
from ctxarith.index.newness import natural
from tests.conftest import NOW
from tests.fakes import TableEmbedder, WordEmbedder

LATER, PAST = "2026-07-01", "2026-06-01"
ME = Principal("default")


def in_memory(*records: Record, **options: Any) -> Corpus:
    corpus = Corpus.in_memory(**{"clock": lambda: NOW, "embedder": WordEmbedder(), **options})
    corpus.add(records)
    return corpus


@pytest.fixture
def memory() -> Corpus:
    return in_memory()


def record(rid: str, text: str = "", **given: Any) -> Record:
    return Record(id=rid, text=text or f"the fee of {rid}", **given)


def fee(rid: str, value: object, date: str | None, text: str = "", **given: Any) -> Record:
    """A record that asserts lead/fee."""
    return record(rid, text, created_at=date, slots=[Slot("lead", "fee", value)], **given)  # type: ignore[arg-type]


def ids(result: Result) -> list[str]:
    return [hit.id for hit in result.hits]


def retired(result: Result) -> dict[str, tuple[str, ...]]:
    """The retirements that were met: who, and by whom."""
    return {drop.id: drop.by for drop in result.drops if drop.stage == "superseded"}


# What retires


def test_the_newer_assertion_of_a_slot_replaces_the_older(corpus: Corpus) -> None:  # SU-01
    office = [
        record(
            "f1", "Office of Dana is in Lyon", created_at="2025-01-10", slots=[Slot("dana", "office", "Lyon")]
        ),
        record(
            "f2",
            "Office of Dana is in Turin",
            created_at="2026-01-10",
            slots=[Slot("dana", "office", "Turin")],
        ),
    ]
    corpus.add(office)
    result = corpus.retrieve("Where is Dana's office?")
    assert ids(result) == ["f2"]
    assert result.hits[0].replaces == ("f1",)
    (drop,) = result.drops
    assert (drop.id, drop.stage, drop.by) == ("f1", "superseded", ("f2",))
    assert drop.reason == "superseded: dana/office is now 'Turin', was 'Lyon' (by f2)"


def test_a_link_replaces_without_any_slot(memory: Corpus) -> None:
    memory.add([record("old"), record("new", supersedes=["old"])])
    result = memory.retrieve("fee")
    assert ids(result) == ["new"]
    assert [drop.reason for drop in result.drops] == ["superseded: named in supersedes (by new)"]


def test_the_opposite_statement_leaves_exactly_one_current_fact(memory: Corpus) -> None:  # SU-02
    memory.add([record("l1", "Dana likes Thai food", created_at=PAST, slots=[Slot("dana", "thai", "likes")])])
    memory.add(
        [record("l2", "Dana dislikes Thai food", created_at=NOW, slots=[Slot("dana", "thai", "dislikes")])]
    )
    result = memory.retrieve("Thai food")
    assert (ids(result), retired(result)) == (["l2"], {"l1": ("l2",)})


def test_the_same_fact_again_never_retires_itself(corpus: Corpus) -> None:  # SU-03
    first = fee("f1", 10, PAST)
    corpus.add([first])
    assert [corpus.add([first]).unchanged for _ in range(2)] == [1, 1]
    assert ids(corpus.retrieve("fee")) == ["f1"]


def test_the_same_fact_under_a_new_id_leaves_one_current(memory: Corpus) -> None:  # SU-03
    memory.add([fee("f1", 10, PAST, "the fee is 10"), fee("f1b", 10, PAST, "the fee is 10")])
    result = memory.retrieve("fee")
    assert (ids(result), retired(result)) == (["f1b"], {"f1": ("f1b",)})


def test_a_mention_is_no_assertion() -> None:
    asked = record("asked", "she asked about the fee", created_at=NOW, slots=[Slot("lead", "fee")])
    assert set(ids(in_memory(fee("old", 10, PAST), asked).retrieve("fee"))) == {"old", "asked"}


def test_a_mention_is_never_retired_by_an_assertion() -> None:
    asked = record("asked", "she asked about the fee", created_at=PAST, slots=[Slot("lead", "fee")])
    assert set(ids(in_memory(asked, fee("new", 10, "2026-06-10")).retrieve("fee"))) == {"asked", "new"}


def test_a_falsy_value_is_an_assertion() -> None:
    corpus = in_memory(fee("old", 10, PAST), fee("new", 0, "2026-06-10"))
    assert ids(corpus.retrieve("fee")) == ["new"]
    corpus.add([fee("newest", False, "2026-06-11")])
    assert ids(corpus.retrieve("fee")) == ["newest"]


@pytest.mark.parametrize("slot", [Slot("other", "fee", 12), Slot("lead", "batch", 12)])
def test_another_subject_or_attribute_is_another_fact(slot: Slot) -> None:
    other = record("other", created_at="2026-06-10", slots=[slot])
    assert set(ids(in_memory(fee("f", 10, PAST), other).retrieve("fee"))) == {"f", "other"}


def test_another_tenant_asserts_its_own_facts() -> None:
    corpus = in_memory(fee("f", 10, PAST), fee("theirs", 12, "2026-06-10", tenant="beta"))
    assert ids(corpus.retrieve("fee", principal=ME)) == ["f"]


def test_a_link_into_another_tenant_retires_nothing() -> None:
    corpus = in_memory(
        record("f"), record("f", tenant="beta"), record("new", tenant="beta", supersedes=["f"])
    )
    assert ids(corpus.retrieve("fee", principal=ME)) == ["f"]
    assert ids(corpus.retrieve("fee", principal=Principal("beta"))) == ["new"]


def test_the_word_not_retires_nothing(memory: Corpus) -> None:  # SU-08
    memory.add(
        [
            record("m1", "Rinse the filter before fitting the cartridge", created_at=PAST),
            record("m2", "Do not forget to date the filter before fitting the cartridge", created_at=NOW),
        ]
    )
    assert set(ids(memory.retrieve("filter cartridge"))) == {"m1", "m2"}


def test_a_negated_correction_is_no_duplicate(memory: Corpus) -> None:  # SU-09
    allowed = "Night access to the plant is permitted"
    forbidden = "Night access to the plant is not permitted"
    memory.add([record("p1", allowed), record("p2", forbidden)])
    both = memory.retrieve("night access to the plant")
    assert set(ids(both)) == {"p1", "p2"}
    assert sorted(line[4:] for line in both.text.splitlines()) == [forbidden, allowed]
    memory.add([record("p2", forbidden, supersedes=["p1"])])
    assert memory.retrieve("night access to the plant").text == f"[1] {forbidden}"


def test_facts_of_different_people_stay_apart(memory: Corpus) -> None:  # SU-10
    memory.add(
        [
            record(
                "q1", "Ines Vogt is purchasing lead at Nordwind", slots=[Slot("ines", "role", "purchasing")]
            ),
            record("q2", "Tomas Rell is safety lead at Nordwind", slots=[Slot("tomas", "role", "safety")]),
            record("q3", "My sister's dentist is Dr. Hale"),
            record("q4", "My dentist is Dr. Okoro"),
        ]
    )
    result = memory.retrieve("Nordwind safety lead")
    assert ids(result)[0] == "q2"
    assert set(ids(result)) == {"q1", "q2", "q3", "q4"}


# Newer


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"created_at": "2026-01-01"}, {"created_at": "2026-02-01"}),
        ({"created_at": "2026-03-01", "valid_from": "2026-01-01"}, {"created_at": "2026-02-01"}),
        ({"valid_from": "2026-01-01"}, {"created_at": "2026-02-01"}),
        (
            {"created_at": "2026-01-01", "valid_from": "2026-03-01"},
            {"created_at": "2026-02-01", "valid_from": "2026-03-01"},
        ),
        ({}, {"created_at": "1970-01-01"}),
        ({"version": "v9"}, {"version": "v10"}),
        ({"version": "2026.9"}, {"version": "2026.10"}),
        ({"created_at": "2026-01-01", "version": "9"}, {"created_at": "2026-02-01", "version": "1"}),
    ],
)
def test_newer_goes_by_validity_then_assertion_then_version(
    older: dict[str, Any], newer: dict[str, Any]
) -> None:
    # The older one has the greater id and comes last, so neither decides.
    slot = [Slot("lead", "fee", 1)]
    corpus = in_memory(record("a", slots=slot, **newer))
    corpus.add([record("z", slots=slot, **older)])
    assert ids(corpus.retrieve("fee")) == ["a"]


def test_at_the_very_same_date_the_greater_id_counts_as_newer() -> None:
    for order in permutations([fee("a", 1, PAST), fee("b", 2, PAST), fee("c", 3, PAST)]):
        assert ids(in_memory(*order).retrieve("fee")) == ["c"]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("v9", "v10"),
        ("9", "10"),
        ("1.9.0", "1.10.0"),
        ("a", "b"),
        ("2024-12", "2025-1"),
        ("v2", "v2.1"),
        ("", "0"),
    ],
)
def test_versions_are_compared_in_natural_order(older: str, newer: str) -> None:
    assert natural(older) < natural(newer)


@pytest.mark.parametrize("version", ["②", "²", "v²", "٣", "三", "v-", "007"])
def test_any_version_that_is_accepted_can_be_compared(version: str) -> None:
    corpus = in_memory(record("a", version=version), record("a", version="v1"), record("b"))
    assert sorted(ids(corpus.retrieve("fee"))) == ["a", "b"]


def test_a_newer_version_closes_the_older_whatever_arrives_first() -> None:
    versions = [record("r", f"the fee is {v}", version=v) for v in ("v9", "v10", "v2")]
    for order in permutations(versions):
        corpus = in_memory()
        for one in order:
            corpus.add([one])
        result = corpus.retrieve("fee")
        assert [(hit.id, hit.record.version) for hit in result.hits] == [("r", "v10")]
        assert sorted(drop.record.version for drop in result.drops) == ["v2", "v9"]
        assert {drop.reason for drop in result.drops} == {"superseded: a newer version exists (by r)"}


def test_dates_of_versions_go_before_their_numbers(corpus: Corpus) -> None:
    corpus.add([record("r", "fee 12", version="1", created_at="2026-03-01")])
    corpus.add([record("r", "fee 10", version="2", created_at="2026-01-01")])
    assert corpus.retrieve("fee").text == "[1] (2026-03-01) fee 12"


def test_a_value_that_was_withdrawn_is_not_called_the_present_one() -> None:
    void = record("c", "void", created_at="2026-03-01", supersedes=["b"])
    corpus = in_memory(fee("a", 1, "2026-01-01"), fee("b", 2, "2026-02-01"), void)
    reasons = {drop.id: drop.reason for drop in corpus.retrieve("fee").drops}
    assert "was 1" in reasons["a"]
    assert "2" not in reasons["a"]


# Links and dates


def test_a_link_wins_against_the_dates_and_says_so(memory: Corpus) -> None:
    early = record("early", created_at="2026-01-01", supersedes=["late"])
    memory.add([record("late", created_at="2026-05-01"), early])
    result = memory.retrieve("fee")
    assert ids(result) == ["early"]
    assert result.hits[0].flags == ("link_against_dates",)
    assert ["against the dates" in drop.reason for drop in result.drops] == [True]


@pytest.mark.parametrize("dates", [{}, {"created_at": "2026-01-01"}])
def test_a_link_between_equal_dates_is_not_against_them(dates: dict[str, str]) -> None:
    result = in_memory(record("old", **dates), record("new", supersedes=["old"], **dates)).retrieve("fee")
    assert (ids(result), result.hits[0].flags) == (["new"], ())
    assert [drop.reason for drop in result.drops] == ["superseded: named in supersedes (by new)"]


def test_what_a_link_retires_against_the_dates_retires_nothing_by_its_slots() -> None:
    corpus = in_memory(
        fee("first", 1, "2026-01-01"),
        fee("mistaken", 99, "2026-05-01"),
        fee("right", 2, "2026-03-01", supersedes=["mistaken"]),
    )
    result = corpus.retrieve("fee")
    assert ids(result) == ["right"]
    assert retired(result) == {"mistaken": ("right",), "first": ("right",)}


def test_a_retraction_without_a_date_brings_no_older_fact_back() -> None:
    void = record("c", "void", supersedes=["b"])
    result = in_memory(fee("a", 1, "2026-01-01"), fee("b", 2, "2026-02-01"), void).retrieve("fee")
    assert (ids(result), retired(result)) == (["c"], {"a": ("c",), "b": ("c",)})


def test_a_link_wins_where_the_dates_say_nothing() -> None:
    corpus = in_memory(fee("z", 1, None), fee("a", 2, None, supersedes=["z"]))
    assert ids(corpus.retrieve("fee")) == ["a"]


def test_a_link_retires_every_version_of_the_id() -> None:
    corpus = in_memory(
        record("r", "fee 1", version="1"),
        record("r", "fee 2", version="2"),
        record("n", "fee 3", supersedes=["r"]),
    )
    result = corpus.retrieve("fee")
    assert ids(result) == ["n"]
    assert {(drop.record.version, drop.by) for drop in result.drops} == {("1", ("n",)), ("2", ("n",))}


# Chains and forks


def test_a_chain_resolves_to_its_head(memory: Corpus) -> None:
    memory.add([fee("f1", 1, "2026-01-01"), fee("f3", 3, "2026-03-01"), fee("f2", 2, "2026-02-01")])
    result = memory.retrieve("fee")
    assert (ids(result), retired(result)) == (["f3"], {"f1": ("f3",), "f2": ("f3",)})
    assert sorted(result.hits[0].replaces) == ["f1", "f2"]


def test_links_and_slots_and_versions_make_one_chain() -> None:
    corpus = in_memory(
        fee("a", 1, "2026-01-01"),
        fee("b", 2, "2026-02-01", version="1"),
        record("b", version="2", created_at="2026-03-01"),
        record("c", created_at="2026-04-01", supersedes=["b"]),
    )
    result = corpus.retrieve("fee")
    assert ids(result) == ["c"]
    assert {(drop.id, drop.record.version): drop.by for drop in result.drops} == {
        ("a", "1"): ("c",),
        ("b", "1"): ("c",),
        ("b", "2"): ("c",),
    }


FORK = [
    record("h0", "gate code 1111", valid_from="2026-01-01"),
    record("h1", "gate code 2222", valid_from="2026-02-01", supersedes=["h0"]),
    record("h2", "gate code 3333", valid_from="2026-02-01", supersedes=["h0"]),
]


def test_two_heirs_both_stand_and_are_flagged_in_any_order_of_arrival() -> None:  # SU-05
    texts = set()
    for order in permutations(FORK):
        corpus = in_memory()
        for one in order:
            corpus.add([one])
        result = corpus.retrieve("gate code 1111")
        assert {hit.id: hit.flags for hit in result.hits} == {"h1": ("conflict",), "h2": ("conflict",)}
        assert retired(result) == {"h0": ("h2", "h1")}
        texts.add(result.text)
    assert len(texts) == 1
    assert texts.pop().count("(conflicts with another record)") == 2


def test_the_heirs_take_the_place_newest_first() -> None:
    corpus = in_memory(
        record("h0", "gate code"),
        record("a", "one", supersedes=["h0"], created_at="2026-03-01"),
        record("b", "two", supersedes=["h0"], created_at="2026-02-01"),
        record("c", "three", supersedes=["h0"], created_at="2026-04-01"),
    )
    hits = corpus.run((lexical & everyone) - superseded, "gate").hits
    assert [(hit.id, hit.found_by[0].rank) for hit in hits] == [("c", 1), ("a", 2), ("b", 3)]


def test_rivals_are_flagged_though_the_record_that_they_replace_was_not_recalled() -> None:
    corpus = in_memory(
        record("h0", "gate"), record("h1", "lamp", supersedes=["h0"]), record("h2", "lamp", supersedes=["h0"])
    )
    hits = corpus.run((lexical & everyone) - superseded, "lamp").hits
    assert {hit.id: hit.flags for hit in hits} == {"h1": ("conflict",), "h2": ("conflict",)}


def test_rivals_at_the_end_of_a_chain_are_flagged_when_only_its_beginning_was_recalled() -> None:
    corpus = in_memory(
        record("a", "gate"),
        record("b", "door", supersedes=["a"]),
        record("c1", "lamp", supersedes=["b"]),
        record("c2", "lamp", supersedes=["b"]),
    )
    hits = corpus.run((lexical & everyone) - superseded, "gate").hits
    assert {hit.id: (hit.flags, hit.replaces) for hit in hits} == {
        "c1": (("conflict",), ("a",)),
        "c2": (("conflict",), ("a",)),
    }


def test_a_fork_that_one_heir_closes_is_no_conflict() -> None:
    corpus = in_memory(record("h0"), record("h1", supersedes=["h0"]), record("h2", supersedes=["h0", "h1"]))
    result = corpus.retrieve("fee")
    assert [(hit.id, hit.flags) for hit in result.hits] == [("h2", ())]


def test_two_paths_to_one_head_are_no_conflict() -> None:
    corpus = in_memory(
        record("a"),
        record("b", supersedes=["a"]),
        record("c", supersedes=["a"]),
        record("d", supersedes=["b", "c"]),
    )
    assert [(hit.id, hit.flags) for hit in corpus.retrieve("fee").hits] == [("d", ())]


# Several slots


def two_facts(rid: str = "both", date: str = "2026-01-01", **given: Any) -> Record:
    slots = [Slot("lead", "fee", 10), Slot("lead", "batch", "January")]
    return record(rid, "fee 10, January batch", created_at=date, slots=slots, **given)


def test_a_record_with_a_fresh_slot_stays_and_names_the_stale_one(corpus: Corpus) -> None:
    corpus.add([two_facts(), fee("new", 12, "2026-03-01", "fee 12")])
    result = corpus.retrieve("fee batch", rank="fused")
    stale = {hit.id: [slot.attribute for slot in hit.stale_slots] for hit in result.hits}
    assert stale == {"both": ["fee"], "new": []}
    assert "(2026-01-01) (out of date here: fee) fee 10, January batch" in result.text


def test_a_record_is_retired_when_the_last_of_its_slots_is_reasserted(memory: Corpus) -> None:
    batch = record("batch", "March batch", created_at="2026-02-01", slots=[Slot("lead", "batch", "March")])
    memory.add([two_facts(), fee("fee", 12, "2026-03-01", "fee 12"), batch])
    result = memory.retrieve("fee batch")
    assert (set(ids(result)), retired(result)) == ({"fee", "batch"}, {"both": ("fee", "batch")})
    fee_before_batch = "lead/fee is now 12, was 10; lead/batch is now 'March', was 'January'"
    assert fee_before_batch in result.drops[0].reason


def test_a_slot_is_reasserted_by_any_newer_record_also_one_that_is_retired_itself() -> None:
    corpus = in_memory(
        fee("old", 1, "2026-01-01"),
        two_facts("mid", "2026-02-01"),
        fee("new", 3, "2026-03-01"),
        record("batch", created_at="2026-04-01", slots=[Slot("lead", "batch", "March")]),
    )
    result = corpus.retrieve("fee")
    assert set(ids(result)) == {"new", "batch"}
    assert retired(result)["old"] == ("new",)


# Guessed slots


def guesses(*records: Record, cosine: float = 0.0) -> Corpus:
    """Texts "old" and "new" with this cosine; every other text is at right angles to them."""
    table = {
        "old": [1.0, 0.0, 0.0, 0.0],
        "new": [cosine, (1 - cosine**2) ** 0.5, 0.0, 0.0],
        "mid": [0.0, 0.0, 1.0, 0.0],
    }
    return in_memory(*records, embedder=TableEmbedder(table))


def guessed(rid: str, date: str, attribute: str = "fee") -> Record:
    return record(rid, rid, created_at=date, slots=[Slot("lead", attribute, 1, inferred=True)])


@pytest.mark.parametrize(("cosine", "left"), [(0.86, ["new"]), (0.84, ["new", "old"]), (0.1, ["new", "old"])])
@pytest.mark.parametrize("which", ["old", "new", "both"])
def test_a_guessed_slot_needs_similarity_on_either_side(cosine: float, left: list[str], which: str) -> None:
    old = guessed("old", "2026-01-01") if which != "new" else fee("old", 1, "2026-01-01", "old")
    new = guessed("new", "2026-02-01") if which != "old" else fee("new", 2, "2026-02-01", "new")
    assert sorted(ids(guesses(old, new, cosine=cosine).retrieve("?"))) == left


def test_a_declared_slot_needs_no_similarity() -> None:
    corpus = guesses(fee("old", 1, "2026-01-01", "old"), fee("new", 2, "2026-02-01", "new"), cosine=0.0)
    assert ids(corpus.retrieve("?")) == ["new"]


def test_a_failed_guess_does_not_hide_a_declared_one_between() -> None:
    corpus = guesses(
        fee("old", 1, "2026-01-01", "old"), fee("mid", 2, "2026-02-01", "mid"), guessed("new", "2026-03-01")
    )
    result = corpus.retrieve("?")
    assert (sorted(ids(result)), retired(result)) == (["mid", "new"], {"old": ("mid",)})


def test_an_older_alike_guess_counts_when_the_newest_fails() -> None:
    table = {"old": [1.0, 0.0], "twin": [1.0, 0.01], "far": [0.0, 1.0]}
    corpus = in_memory(
        guessed("old", "2026-01-01"),
        guessed("twin", "2026-02-01"),
        guessed("far", "2026-03-01"),
        embedder=TableEmbedder(table),
    )
    result = corpus.retrieve("?")
    assert (sorted(ids(result)), retired(result)) == (["far", "twin"], {"old": ("twin",)})


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("batches", [1, 5])
def test_guesses_mixed_with_assertions_retire_what_a_plain_reading_retires(seed: int, batches: int) -> None:
    draw = Random(seed)
    table = {
        "left": [1.0, 0.0, 0.0],
        "beside": [0.9, 0.436, 0.0],
        "beyond": [0.62, 0.785, 0.0],
        "up": [0.0, 0.0, 1.0],
    }
    world = [
        record(
            f"r{n:02d}",
            draw.choice(list(table)),
            created_at=1_700_000_000 + n,
            scope=draw.choice(["a", "b"]),
            slots=[Slot("lead", draw.choice(["fee", "date"]), n, inferred=draw.random() < 0.6)],
        )
        for n in range(24)
    ]
    written = draw.sample(world, len(world))
    corpus = in_memory(embedder=TableEmbedder(table))
    for n in range(batches):
        corpus.add(written[n::batches])

    def retires(new: Record, old: Record) -> bool:
        (one,), (other,) = new.slots, old.slots
        lengths = [math.hypot(*table[r.text]) for r in (new, old)]
        cosine = math.fsum(map(mul, table[new.text], table[old.text])) / math.prod(lengths)
        declared = not one.inferred and not other.inferred
        return one.attribute == other.attribute and (declared or cosine > 0.85)

    for caller in (Principal("default"), Principal("default", scopes=["a"])):
        seen = [r for r in world if r.scope == "a" or not caller.scopes]
        left = [old.id for n, old in enumerate(seen) if not any(retires(new, old) for new in seen[n + 1 :])]
        result = corpus.run((semantic & everyone) - superseded, "?", principal=caller)
        assert sorted(ids(result)) == left
        assert set(retired(result)) == {r.id for r in seen} - set(left)


def test_one_guess_does_not_make_the_other_slots_of_its_record_guesses() -> None:
    new = record(
        "new",
        "new",
        created_at="2026-02-01",
        slots=[Slot("lead", "fee", 2), Slot("lead", "batch", "March", inferred=True)],
    )
    old = record(
        "old", "old", created_at="2026-01-01", slots=[Slot("lead", "fee", 1), Slot("lead", "batch", "May")]
    )
    stale = {hit.id: [s.attribute for s in hit.stale_slots] for hit in guesses(old, new).retrieve("?").hits}
    assert stale == {"old": ["fee"], "new": []}


# The place of the old one


def test_a_successor_that_was_not_recalled_takes_the_place_of_the_old_one() -> None:
    corpus = in_memory(
        record("other", "gate of the plant"),
        record("old", "gate gate gate"),
        record("new", "the door opens with 2222", supersedes=["old"]),
    )
    (first, second) = corpus.run((lexical & everyone) - superseded, "gate").hits
    assert (first.id, first.replaces) == ("new", ("old",))
    assert [(found.rank, found.via) for found in first.found_by] == [(1, "old")]
    assert (second.id, second.replaces, second.found_by[0].via) == ("other", (), None)


def test_a_stale_record_goes_though_its_successor_is_far_from_the_question() -> None:
    corpus = in_memory(record("old", "gate code 1111"), record("new", "lamp", supersedes=["old"]))
    assert ids(corpus.run((lexical & everyone) - superseded >> top(1), "gate code")) == ["new"]


def test_the_better_of_own_and_inherited_evidence_counts() -> None:
    corpus = in_memory(
        record("old", "gate"),
        record("x", "gate lamp"),
        record("new", "gate gate gate gate", supersedes=["old"]),
    )
    hits = corpus.run((lexical & everyone) - superseded, "gate").hits
    assert [(hit.id, hit.found_by[0].via, hit.replaces) for hit in hits] == [
        ("new", None, ("old",)),
        ("x", None, ()),
    ]


def test_with_equal_scores_the_better_place_is_taken() -> None:
    corpus = in_memory(record("a", "gate"), record("b", "gate"), record("c", "gate", supersedes=["a"]))
    hits = corpus.run((lexical & everyone) - superseded, "gate").hits
    assert [(hit.id, hit.found_by[0].via) for hit in hits] == [("c", "a"), ("b", None)]


def test_a_successor_in_both_sources_keeps_what_each_inherited() -> None:
    table = {"gate": [1.0, 0.0], "lamp": [0.0, 1.0], "the gate": [1.0, 0.0]}
    corpus = in_memory(
        record("old", "gate"), record("new", "lamp", supersedes=["old"]), embedder=TableEmbedder(table)
    )
    (hit,) = corpus.retrieve("the gate").hits
    assert {found.source: (found.rank, found.via) for found in hit.found_by} == {
        "semantic": (1, "old"),
        "lexical": (1, "old"),
    }
    assert hit.found("semantic") is not None
    assert hit.found_by[0].score == pytest.approx(1.0)


def test_a_successor_inherits_the_place_that_an_identifier_gave() -> None:
    corpus = in_memory(
        record("old", "KYO-H12 torque is 35 Nm"),
        record("new", "Torque of that valve is 40 Nm", supersedes=["old"]),
        record("other", "KYO-H12 paint is blue"),
    )
    assert ids(corpus.retrieve("KYO-H12 torque")) == ["new", "other"]


def test_current_facts_are_found_behind_forty_nearer_stale_ones(corpus: Corpus) -> None:  # SU-07
    stale = [record(f"s{n}", f"Rate is {n} EUR") for n in range(40)]
    facts = [
        record("c1", "Rate of the night line: 7", supersedes=[f"s{n}" for n in range(40)]),
        record("c2", "Rate table for the year"),
        record("c3", "Rate changes are announced"),
    ]
    corpus.add([*stale, *facts])
    assert set(ids(corpus.retrieve("Rate is 7 EUR", top=3))) == {"c1", "c2", "c3"}
    narrow = (semantic(depth=3) | lexical(depth=3)) & everyone
    assert set(ids(corpus.run((narrow - superseded) >> rrf() >> top(3), "Rate is 7 EUR"))) == {
        "c1",
        "c2",
        "c3",
    }


# Successors that do not pass


@pytest.mark.parametrize("narrowed", [{"scope": "plant"}, {"where": {"kind": "note"}}])
def test_a_successor_outside_scope_or_filter_takes_no_place_and_is_named(narrowed: dict[str, Any]) -> None:
    corpus = in_memory(
        record("old", scope="plant", metadata={"kind": "note"}),
        record("new", scope="office", metadata={"kind": "memo"}, supersedes=["old"]),
    )
    result = corpus.retrieve("fee", **narrowed)
    assert result.hits == ()
    (drop,) = result.drops
    assert (drop.id, drop.by) == ("old", ("new",))
    assert drop.reason == "superseded_outside_filter: named in supersedes (by new)"


def test_of_two_heirs_only_the_one_inside_the_filter_takes_the_place() -> None:
    corpus = in_memory(
        record("old", metadata={"kind": "note"}),
        record("in", metadata={"kind": "note"}, supersedes=["old"]),
        record("out", metadata={"kind": "memo"}, supersedes=["old"]),
    )
    result = corpus.retrieve("fee", where={"kind": "note"})
    assert (ids(result), retired(result)) == (["in"], {"old": ("out", "in")})
    assert result.drops[0].reason.startswith("superseded: ")


FORBIDDEN: dict[str, dict[str, Any]] = {
    "audience": {"audience": ["board"]},
    "scope": {"scope": "hq"},
    "jurisdiction": {"jurisdiction": "JP"},
    "source type": {"source_type": "rumour"},
    "embargo": {"embargo_until": LATER},
    "retention": {"retain_until": PAST},
    "not yet valid": {"valid_from": LATER},
}
FACT = [Slot("lead", "fee", 1)]


def successor(by: str) -> dict[str, Any]:
    """What replaces a record `old` that asserts FACT."""
    if by == "version":
        return {"rid": "old", "version": "2"}
    return {"rid": "new", "supersedes": ["old"]} if by == "link" else {"rid": "new", "slots": FACT}


CALLER = Principal("default", groups=["sales"], scopes=["plant"], jurisdictions=["IN"])


@pytest.mark.parametrize("how", FORBIDDEN)
@pytest.mark.parametrize("by", ["link", "slot", "version"])
def test_a_successor_that_the_caller_may_not_see_does_not_exist(how: str, by: str) -> None:
    new = successor(by)
    place = {"scope": "plant", "source_type": "call"}
    corpus = in_memory(
        record("old", created_at="2026-01-01", slots=FACT, **place),
        record(**{"created_at": "2026-02-01", **place, **new, **FORBIDDEN[how]}),
        policy=Policy(source_types=("call",)),
    )
    result = corpus.retrieve("fee", principal=CALLER)
    assert [(hit.id, hit.record.version, hit.flags) for hit in result.hits] == [("old", "1", ())]
    assert result.drops == ()


def test_an_old_record_is_current_again_when_its_successor_is_deleted(corpus: Corpus) -> None:
    corpus.add([fee("old", 10, "2026-01-01"), fee("new", 12, "2026-02-01")])
    corpus.delete("new")
    result = corpus.retrieve("fee")
    assert (ids(result), result.drops) == (["old"], ())


def test_an_old_record_stays_retired_when_its_successor_is_retired(corpus: Corpus) -> None:
    corpus.add([fee("old", 10, "2026-01-01"), fee("new", 12, "2026-02-01")])
    corpus.retire("new")
    result = corpus.retrieve("fee")
    assert result.hits == ()
    (drop,) = result.drops
    assert (drop.id, drop.by) == ("old", ())
    assert "new" not in drop.reason
    assert "12" not in drop.reason
    assert str(result.why("new")) == "new: no such record for this caller"


@pytest.mark.parametrize("end", [PAST, NOW])
def test_an_old_record_stays_retired_when_its_successor_has_expired(memory: Corpus, end: Any) -> None:
    memory.add([record("old"), record("new", supersedes=["old"], valid_until=end)])
    result = memory.retrieve("fee")
    assert result.hits == ()
    assert [(drop.id, drop.by, drop.reason) for drop in result.drops] == [
        ("old", (), "superseded: named in supersedes")
    ]


def test_the_head_behind_an_expired_successor_takes_the_place() -> None:
    corpus = in_memory(
        record("a"), record("b", supersedes=["a"], valid_until=PAST), record("c", supersedes=["b"])
    )
    result = corpus.retrieve("fee")
    assert (ids(result), retired(result)) == (["c"], {"a": ("c",)})


@pytest.mark.parametrize("future", [{"created_at": LATER}, {"valid_from": LATER}])
@pytest.mark.parametrize("by", ["link", "slot", "version"])
def test_one_dated_in_the_future_retires_nothing_yet(future: dict[str, Any], by: str) -> None:
    new = successor(by)
    moment = NOW
    corpus = in_memory(
        record("old", slots=FACT, created_at=PAST), record(**new, **future), clock=lambda: moment
    )
    assert ("old", "1") in [(hit.id, hit.record.version) for hit in corpus.retrieve("fee").hits]
    moment = NOW.replace(month=7)
    assert [(hit.id, hit.record.version) for hit in corpus.retrieve("fee").hits] == [
        (new["rid"], new.get("version", "1"))
    ]


def test_the_end_of_validity_is_half_open_and_lies_in_the_future_until_then() -> None:  # SU-06
    moment = NOW
    corpus = in_memory(
        record("v1", valid_until="2026-07-01"),
        record("v2", valid_until="2026-06-15T12:00:00Z"),
        record("v3", valid_from="2026-07-01"),
        record("v4"),
        clock=lambda: moment,
    )
    assert sorted(ids(corpus.retrieve("fee"))) == ["v1", "v4"]
    moment = NOW.replace(month=7, day=1, hour=0)
    assert sorted(ids(corpus.retrieve("fee"))) == ["v3", "v4"]


# Keeping the old ones


@pytest.mark.parametrize("rank", ["auto", "fused", "composite"])
@pytest.mark.parametrize("dates", [("2026-01-01", "2026-02-01"), (None, None), ("2026-06-14", "2020-01-01")])
def test_old_ones_that_are_asked_for_stand_labelled_below_their_successors(
    rank: str, dates: tuple[str | None, str | None]
) -> None:  # SU-01
    corpus = in_memory(
        record("f1", "Office of Dana is in Lyon", created_at=dates[0]),
        record("f2", "Now Turin", created_at=dates[1], supersedes=["f1"]),
        record("x", "Office hours", created_at=dates[1]),
    )
    result = corpus.retrieve("Office of Dana", include_superseded=True, rank=rank)
    order = ids(result)
    assert order.index("f2") < order.index("f1")
    assert {hit.id: hit.superseded_by for hit in result.hits} == {"f1": ("f2",), "f2": (), "x": ()}
    (line,) = [line for line in result.text.splitlines() if "Lyon" in line]
    assert "(superseded) Office of Dana is in Lyon" in line
    assert result.drops == ()


def test_the_old_one_stands_below_a_successor_that_no_source_came_upon() -> None:
    corpus = in_memory(
        record("h0", "gate code"),
        record("h1", "lamp one", supersedes=["h0"]),
        record("h2", "lamp two", supersedes=["h0"]),
    )
    assert ids(corpus.run(lexical & everyone, "gate")) == ["h2", "h1", "h0"]


def test_an_old_one_of_the_same_score_stands_below_its_successor() -> None:
    corpus = in_memory(record("a", "gate"), record("b", "gate"), record("c", "gate", supersedes=["a"]))
    assert ids(corpus.run(lexical & everyone, "gate")) == ["c", "a", "b"]


def test_an_identifier_lifts_no_old_one_above_its_successor() -> None:
    corpus = in_memory(record("old", "GJ-4521 fee"), record("new", "the fee", supersedes=["old"]))
    assert ids(corpus.retrieve("GJ-4521", include_superseded=True)) == ["new", "old"]


def test_an_old_one_whose_successor_has_expired_is_labelled_too(memory: Corpus) -> None:
    memory.add([record("old", "fee 10"), record("new", supersedes=["old"], valid_until=PAST)])
    assert memory.retrieve("fee", include_superseded=True).text == "[1] (superseded) fee 10"


# The plain pairwise form


def test_the_pairwise_form_drops_what_is_too_like_a_newer_one() -> None:
    table = {"a": [1.0, 0.0], "b": [0.99, 0.1], "c": [0.0, 1.0], "q": [1.0, 0.0]}
    corpus = in_memory(
        record("a", "a", created_at="2026-01-01"),
        record("b", "b", created_at="2026-02-01"),
        record("c", "c"),
        embedder=TableEmbedder(table),
    )
    result = corpus.run((semantic & everyone) >> drop_superseded(0.85), "q")
    assert ids(result) == ["b", "c"]
    assert [(drop.id, drop.stage, drop.by) for drop in result.drops] == [("a", "drop_superseded", ("b",))]
    assert ids(corpus.run((semantic & everyone) >> drop_superseded(1), "q")) == ["a", "b", "c"]


@pytest.mark.parametrize("similarity", [0, -0.1, 1.01, float("nan"), True, "0.85"])
def test_a_similarity_outside_its_range_is_refused(similarity: float) -> None:
    with pytest.raises(ArgumentError, match="similarity="):
        drop_superseded(similarity)


# Every store


def test_a_retirement_survives_reopening(tmp_path: Path) -> None:
    with Corpus.open(tmp_path, clock=lambda: NOW, embedder=WordEmbedder()) as corpus:
        corpus.add([two_facts(), fee("new", 12, "2026-02-01"), guessed("old", "2026-01-01", "score")])
        corpus.add([record("link", supersedes=["old"])])
        before = corpus.retrieve("fee")
    with Corpus.open(tmp_path, clock=lambda: NOW, embedder=WordEmbedder()) as corpus:
        after = corpus.retrieve("fee")
    assert (after.hits, after.drops, after.text) == (before.hits, before.drops, before.text)
    assert retired(after) == {"old": ("link",)}


def test_how_records_stand_is_told_version_by_version(memory: Corpus) -> None:
    slots = [Slot("lathe", "fee", "1"), Slot("lathe", "length", "2")]
    memory.add([record("old", slots=slots, created_at="2026-01-01")])
    memory.add([record("old", version="2", slots=slots, created_at="2026-01-02")])
    memory.add([record("new", slots=slots[:1], created_at="2026-02-01")])
    stands = memory.standing(["new", "nobody", "old"])
    assert [(one.record.id, one.record.version, one.superseded, one.outdated) for one in stands] == [
        ("new", "1", False, ()),
        ("old", "1", True, ()),
        ("old", "2", False, ("fee",)),
    ]
    then = memory.standing(["old"], as_of="2026-01-15")
    assert [(one.record.version, one.superseded, one.outdated) for one in then][-1] == ("2", False, ())
