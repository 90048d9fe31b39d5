"""The chain of assertions about one fact."""

from __future__ import annotations

from typing import Any

import pytest

from ctxarith import Assertion, Corpus, Principal, PrincipalRequired, Record, Slot
from tests.conftest import NOW
from tests.fakes import WordEmbedder

ME = Principal("default")


@pytest.fixture
def memory() -> Corpus:
    return Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder())


def fee(rid: str, value: object, date: str | None, **given: Any) -> Record:
    slots = [Slot("lead", "fee", value)]  # type: ignore[arg-type]
    return Record(**{"id": rid, "text": f"fee {value}", "created_at": date, "slots": slots, **given})


def told(chain: list[Assertion]) -> list[tuple[str, object, str, tuple[str, ...]]]:
    return [(one.record.id, one.value, one.status, one.superseded_by) for one in chain]


def test_the_chain_is_told_oldest_first_with_its_holder(corpus: Corpus) -> None:
    corpus.add([fee("c", 3, "2026-03-01"), fee("a", 1, "2026-01-01"), fee("b", 2, "2026-02-01")])
    chain = corpus.history("lead", "fee")
    assert told(chain) == [
        ("a", 1, "superseded", ("c",)),
        ("b", 2, "superseded", ("c",)),
        ("c", 3, "current", ()),
    ]
    assert ["lead/fee" in one.reason for one in chain] == [True, True, False]


def test_a_fact_that_nobody_asserted_has_no_history(memory: Corpus) -> None:
    memory.add([fee("a", 1, None), Record(id="m", text="fee?", slots=(Slot("lead", "batch"),))])
    assert memory.history("lead", "batch") == memory.history("other", "fee") == memory.history("", "") == []


def test_a_correction_in_place_is_part_of_the_history(corpus: Corpus) -> None:
    corpus.add([fee("a", 1, "2026-01-01")])
    corpus.add([fee("a", 2, "2026-01-01")])
    corpus.add([fee("a", 3, "2026-01-01")])
    chain = corpus.history("lead", "fee")
    assert told(chain) == [
        ("a", 1, "corrected", ("a",)),
        ("a", 2, "corrected", ("a",)),
        ("a", 3, "current", ()),
    ]
    assert [one.revision for one in chain] == [1, 2, 0]


def test_versions_are_part_of_the_history(memory: Corpus) -> None:
    memory.add([fee("a", 1, "2026-01-01", version="1"), fee("a", 2, "2026-02-01", version="2")])
    assert [(one.record.version, one.status) for one in memory.history("lead", "fee")] == [
        ("1", "superseded"),
        ("2", "current"),
    ]


def test_a_link_is_told_as_the_reason(memory: Corpus) -> None:
    memory.add([fee("a", 1, None)])
    memory.add([Record(id="n", text="void", supersedes=("a",))])
    assert [(one.status, one.superseded_by, one.reason) for one in memory.history("lead", "fee")] == [
        ("superseded", ("n",), "named in supersedes")
    ]


def test_the_ended_and_the_coming_are_told_as_such(memory: Corpus) -> None:
    memory.add([fee("ended", 1, "2026-01-01", valid_until="2026-06-01"), fee("coming", 2, "2026-07-01")])
    assert told(memory.history("lead", "fee")) == [("ended", 1, "ended", ()), ("coming", 2, "coming", ())]


def test_a_holder_that_was_retired_has_ended_and_is_not_named(corpus: Corpus) -> None:
    corpus.add([fee("old", 1, "2026-01-01"), fee("new", 2, "2026-02-01")])
    corpus.retire("new")
    assert told(corpus.history("lead", "fee")) == [("old", 1, "superseded", ()), ("new", 2, "ended", ())]


def test_one_stale_slot_of_a_record_that_stays_is_superseded_in_its_own_history(memory: Corpus) -> None:
    both = [Slot("lead", "fee", 1), Slot("lead", "batch", "May")]
    memory.add([fee("old", 1, "2026-01-01", slots=both), fee("new", 2, "2026-02-01")])
    assert told(memory.history("lead", "fee")) == [
        ("old", 1, "superseded", ("new",)),
        ("new", 2, "current", ()),
    ]
    assert told(memory.history("lead", "batch")) == [("old", "May", "current", ())]


def test_a_deleted_assertion_leaves_the_history(corpus: Corpus) -> None:
    corpus.add([fee("old", 1, "2026-01-01"), fee("new", 2, "2026-02-01")])
    corpus.delete("new")
    assert told(corpus.history("lead", "fee")) == [("old", 1, "current", ())]


def test_falsy_values_are_values(memory: Corpus) -> None:
    memory.add([fee("zero", 0, "2026-01-01"), fee("no", False, "2026-02-01"), fee("blank", "", "2026-03-01")])
    assert [one.value for one in memory.history("lead", "fee")] == [0, False, ""]


FORBIDDEN: list[dict[str, Any]] = [
    {"audience": ["board"]},
    {"scope": "hq"},
    {"embargo_until": "2026-07-01"},
    {"retain_until": "2026-06-01"},
    {"tenant": "beta"},
]


@pytest.mark.parametrize("forbidden", FORBIDDEN)
def test_the_history_is_that_of_what_the_caller_may_see(memory: Corpus, forbidden: dict[str, Any]) -> None:
    memory.add([fee("old", 1, "2026-01-01", scope="plant")])
    caller = Principal("default", scopes=["plant"])
    before = memory.history("lead", "fee", principal=caller)
    memory.add([fee("new", 2, "2026-02-01", **{"scope": "plant", **forbidden})])
    assert memory.history("lead", "fee", principal=caller) == before
    assert told(before) == [("old", 1, "current", ())]


def test_a_correction_that_was_closed_to_the_caller_stays_closed(memory: Corpus) -> None:
    memory.add([fee("a", 1, "2026-01-01", audience=["board"])])
    memory.add([fee("a", 2, "2026-01-01")])
    assert told(memory.history("lead", "fee")) == [("a", 2, "current", ())]


def test_a_correction_is_numbered_among_those_that_the_caller_may_see(memory: Corpus) -> None:
    for value, audience in ((1, ["board"]), (2, []), (3, [])):
        memory.add([fee("a", value, "2026-01-01", audience=audience)])
    assert [(one.value, one.revision) for one in memory.history("lead", "fee")] == [(2, 1), (3, 0)]


def test_a_second_tenant_makes_the_principal_necessary(memory: Corpus) -> None:
    memory.add([fee("a", 1, None), fee("a", 2, None, tenant="beta")])
    with pytest.raises(PrincipalRequired):
        memory.history("lead", "fee")
    assert told(memory.history("lead", "fee", principal=ME)) == [("a", 1, "current", ())]
