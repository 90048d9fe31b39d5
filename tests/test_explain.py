"""The funnel, the drops, and why a record is where it is."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from ctxarith import (
    AlgebraError,
    ArgumentError,
    Corpus,
    Policy,
    Principal,
    PrincipalRequired,
    Record,
    Result,
    auto,
    budget,
    everyone,
    field,
    lexical,
    rrf,
    scope,
    semantic,
    superseded,
    top,
)
from tests import strategies
from tests.conftest import NOW
from tests.fakes import WordEmbedder

ME = Principal("default")


def in_memory(*records: Record) -> Corpus:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder())
    corpus.add(records)
    return corpus


def record(rid: str, text: str = "", **given: Any) -> Record:
    return Record(id=rid, text=text or f"the fee of {rid}", **given)


CASE = [
    record("forbidden", audience=["board"]),
    record("theirs", tenant="beta"),
    record("elsewhere", scope="office"),
    record("draft", scope="plant", metadata={"status": "draft"}),
    record("old", "fee fee 10", scope="plant", metadata={"status": "final"}),
    record("new", "fee 12", scope="plant", metadata={"status": "final"}, supersedes=["old"]),
    record("a", "fee of gate a", scope="plant", metadata={"status": "final"}),
    record("b", "lamp", scope="plant", metadata={"status": "final"}),
    record("c", "fee " * 60, scope="plant", metadata={"status": "final"}),
]
PIPELINE = (
    (((semantic | lexical) & scope("plant") & (field("status") == "final")) - superseded)
    >> rrf()
    >> auto()
    >> top(3)
    >> budget(20)
)


@pytest.fixture
def result() -> Result:
    return in_memory(*CASE).run(PIPELINE, "fee", principal=ME)


def steps(result: Result) -> dict[str, int]:
    return {step.stage: step.count for step in result.trace.steps}


def test_the_funnel_counts_what_is_left_after_each_stage(result: Result) -> None:
    assert list(steps(result).items()) == [
        ("permitted", 7),
        ("scope", 6),
        ("metadata", 5),
        ("current", 4),
        ("semantic", 4),
        ("lexical", 3),
        ("recalled", 4),
        ("rrf", 4),
        ("rank", 4),
        ("top", 3),
        ("budget", 2),
    ]
    assert {hit.id for hit in result.hits} == {"new", "a"}


def test_the_funnel_starts_at_what_the_caller_may_see(corpus: Corpus) -> None:
    corpus.add(CASE)
    everything = corpus.retrieve("fee", principal=ME)
    assert steps(everything)["permitted"] == corpus.count(principal=ME) == 7


def test_included_and_dropped_are_what_was_recalled(result: Result) -> None:
    dropped = [(drop.id, drop.stage) for drop in result.drops]
    assert dropped == [("old", "superseded"), ("b", "top"), ("c", "budget")]
    later = [stage for _, stage in dropped if stage != "superseded"]
    assert len(result.hits) + len(later) == steps(result)["recalled"]


@settings(max_examples=50)
@given(strategies.records(min_size=1, facts=True), st.integers(1, 4), st.integers(0, 60))
def test_counts_and_drops_always_add_up(records: list[Record], count: int, tokens: int) -> None:
    found = in_memory(*records).retrieve("pump valve lamp", principal=ME, top=count, tokens=tokens)
    left = steps(found)
    by_stage = {stage: sum(drop.stage == stage for drop in found.drops) for stage in left}
    assert left["recalled"] - left["top"] == by_stage["top"]
    assert left["top"] - left["budget"] == by_stage["budget"]
    assert left["budget"] == len(found.hits)
    assert sum(left["recalled"] - n for n in (left["rrf"], left["rank"])) == 0
    retired = [drop for drop in found.drops if drop.stage == "superseded"]
    assert len(found.hits) + len(found.drops) == left["recalled"] + len(retired)
    assert not {hit.key for hit in found.hits} & {(d.id, d.record.version) for d in found.drops}


def test_tokens_delivered_stand_in_the_trace(result: Result) -> None:
    said = result.explain().as_dict()
    assert (said["tokens"], said["naive_tokens"]) == (result.tokens, result.naive_tokens)


# Before a run


def test_explaining_a_query_touches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = in_memory(*CASE)
    monkeypatch.setattr(WordEmbedder, "embed_query", lambda *_: pytest.fail("it was run"))
    monkeypatch.setattr("ctxarith.running.run", lambda *_, **__: pytest.fail("it was run"))
    said = str(corpus.explain(PIPELINE, principal=ME))
    parts = [
        "tenant = 'default'",
        "semantic",
        "lexical",
        "scope plant",
        "status = 'final'",
        "superseded",
        "Top",
    ]
    assert [part for part in parts if part not in said] == []


def test_a_plan_of_an_empty_corpus_needs_no_record(corpus: Corpus) -> None:
    assert "semantic" in str(corpus.explain(semantic & everyone))


def test_a_plan_says_what_the_store_could_do_itself(corpus: Corpus) -> None:
    lines = str(corpus.explain(semantic & everyone & (field("status") == "final"))).splitlines()
    assert any("status" in line and "the store can too" in line for line in lines)


def test_explaining_needs_the_principal_that_running_needs() -> None:
    corpus = in_memory(*CASE)
    with pytest.raises(PrincipalRequired):
        corpus.explain(PIPELINE)
    with pytest.raises(PrincipalRequired):
        corpus.explain(PIPELINE, "fee")


def test_explaining_with_a_text_runs_and_counts() -> None:
    corpus = in_memory(*CASE)
    said = corpus.explain(PIPELINE, "fee", principal=ME)
    assert [step.count for step in said.trace.steps] == [7, 6, 5, 4, 4, 3, 4, 4, 4, 3, 2]


def test_explaining_something_else_is_refused() -> None:
    with pytest.raises(AlgebraError):
        in_memory().explain("fee")  # type: ignore[call-overload]


# Why


@pytest.mark.parametrize(
    ("rid", "parts"),
    [
        ("new", ["in the context at place", "replaces old", "semantic rank", "lexical rank"]),
        ("old", ["superseded", "named in supersedes", "new"]),
        ("b", ["top", "below the first 3"]),
        ("c", ["over_budget"]),
        ("elsewhere", ["outside scope plant"]),
        ("draft", ["fails status = 'final'"]),
    ],
)
def test_why_says_what_became_of_a_record(result: Result, rid: str, parts: list[str]) -> None:
    why = result.why(rid)
    assert why.found
    assert [part for part in parts if part not in str(why)] == []


def test_why_names_every_condition_that_fails() -> None:
    corpus = in_memory(record("a", metadata={"kind": "memo", "year": 2020}))
    result = corpus.retrieve(
        "fee", where={"kind": "note", "year": {"$gte": 2024}, "kept": {"$exists": False}}
    )
    assert str(result.why("a")) == "a: fails kind = 'note'; fails year >= 2024"


def test_why_says_that_no_source_came_upon_a_record() -> None:
    corpus = in_memory(record("a", "lamp"), record("old", "lamp"), record("x", "fee", supersedes=["old"]))
    result = corpus.run((lexical & everyone) - superseded, "fee")
    assert "not recalled" in str(result.why("a"))
    assert "superseded" in str(result.why("old"))


def test_why_tells_every_version_of_an_id() -> None:
    corpus = in_memory(record("r", "fee 10", version="1"), record("r", "fee 12", version="2"))
    lines = corpus.retrieve("fee").why("r").lines
    assert [line.split(":")[0] for line in lines] == ["version 1", "version 2"]
    assert "a newer version exists" in lines[0]
    assert "in the context at place 1 of 1" in lines[1]


HIDDEN: list[dict[str, Any]] = [
    {"audience": ["board"]},
    {"tenant": "beta"},
    {"scope": "hq"},
    {"jurisdiction": "JP"},
    {"embargo_until": "2026-07-01"},
    {"retain_until": "2026-06-01"},
    {"valid_until": "2026-06-01"},
    {"valid_from": "2026-07-01"},
]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_not_permitted_is_answered_like_unknown(hidden: dict[str, Any]) -> None:
    me = Principal("default", groups=["sales"], scopes=["plant"], jurisdictions=["IN"])
    place: dict[str, Any] = {"scope": "plant"}
    with_it = in_memory(record("a", **place), record("hid", **(place | hidden)))
    without = in_memory(record("a", **place))
    answers = [corpus.retrieve("fee", principal=me).why("hid") for corpus in (with_it, without)]
    assert answers[0] == answers[1]
    assert answers[0].lines == ("no such record for this caller",)
    assert not answers[0].found


# The auditor's view


AUDITED = Policy("7", source_types=["contract"], require_jurisdiction=True, auditors=["compliance"])
AUDITOR = Principal("default", groups=["sales", "compliance"], scopes=["plant"], jurisdictions=["IN"])
FAILED: list[tuple[dict[str, Any], list[str]]] = [
    ({"audience": ["board"]}, ["audience"]),
    ({"scope": "hq"}, ["scope"]),
    ({"jurisdiction": "JP"}, ["jurisdiction"]),
    ({"jurisdiction": None}, ["jurisdiction"]),
    ({"source_type": "mail"}, ["source type"]),
    ({"embargo_until": "2026-07-01"}, ["embargo"]),
    ({"retain_until": "2026-06-01"}, ["retention"]),
    ({"valid_until": "2026-06-01"}, ["validity"]),
    ({"valid_from": "2026-07-01"}, ["validity"]),
    ({"scope": "hq", "audience": ["board"], "embargo_until": "2026-07-01"}, ["audience", "scope", "embargo"]),
]
OURS: dict[str, Any] = {"scope": "plant", "jurisdiction": "IN", "source_type": "contract"}


def audited(*records: Record, policy: Policy = AUDITED) -> Corpus:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder(), policy=policy)
    corpus.add([record("a", **OURS), *records])
    return corpus


@pytest.mark.parametrize(("closed", "failed"), FAILED)
def test_an_auditor_is_told_which_conditions_fail(closed: dict[str, Any], failed: list[str]) -> None:
    corpus = audited(record("hid", **(OURS | closed)))
    said = corpus.retrieve("fee", principal=AUDITOR).why("hid")
    assert said.found
    (line,) = said.lines
    assert line.startswith("not permitted: ")
    assert [one.split(" (fails ")[0] for one in line.removeprefix("not permitted: ").split("; ")] == failed


@pytest.mark.parametrize(("closed", "_"), FAILED)
def test_everybody_else_hears_the_same_of_closed_and_unknown_ids(closed: dict[str, Any], _: object) -> None:
    hidden = record("hid", **(OURS | closed))
    others = [
        (AUDITED, replace(AUDITOR, groups=["sales"])),
        (AUDITED, replace(AUDITOR, groups=["Compliance", "compliance ", "auditors"])),
        (replace(AUDITED, auditors=()), AUDITOR),
    ]
    for policy, who in others:
        with_it, without = audited(hidden, policy=policy), audited(policy=policy)
        one, other = (corpus.retrieve("fee", principal=who).why("hid") for corpus in (with_it, without))
        assert one == other
        assert not one.found


def test_an_auditor_learns_nothing_of_other_tenants() -> None:
    corpus = audited(record("hid", **OURS, tenant="beta"), record("both", **(OURS | {"scope": "hq"})))
    corpus.add([record("both", **OURS, tenant="beta")])
    result = corpus.retrieve("fee", principal=AUDITOR)
    assert result.why("hid").lines == ("no such record for this caller",)
    assert len(result.why("both").lines) == 1
    theirs = corpus.retrieve("fee", principal=replace(AUDITOR, tenant="beta"))
    assert theirs.why("a").lines == ("no such record for this caller",)


def test_no_filter_makes_an_auditor() -> None:
    corpus = audited(record("hid", **(OURS | {"audience": ["board"]})))
    who = replace(AUDITOR, groups=["sales"])
    claims: list[Any] = [
        {"audience": {"$contains": "compliance"}},
        {"auditor": True},
        {"groups": {"$in": ["compliance"]}},
        {"auditors": "sales"},
        field("audience").contains("compliance") | field("tenant").exists(),
    ]
    for where in claims:
        assert not corpus.retrieve("fee", principal=who, where=where).why("hid").found


def test_auditing_changes_nothing_but_why() -> None:
    corpus = audited(record("hid", **(OURS | {"audience": ["board"]})), record("b", **OURS))
    plain = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder(), policy=replace(AUDITED, auditors=()))
    plain.add([record("a", **OURS), record("hid", **(OURS | {"audience": ["board"]})), record("b", **OURS)])
    one, other = (held.retrieve("fee", principal=AUDITOR) for held in (corpus, plain))
    assert (one.text, one.hits, one.drops) == (other.text, other.hits, other.drops)
    assert steps(one) == steps(other)
    assert one.why("a") == other.why("a")
    assert corpus.get(["hid"], principal=AUDITOR) == []


def test_an_auditor_sees_open_and_closed_versions_of_an_id_and_what_time_was_asked_about() -> None:
    corpus = audited(
        record("r", **OURS, version="1", created_at="2026-01-01"),
        record("r", **(OURS | {"audience": ["board"]}), version="2", created_at="2026-05-01"),
    )
    lines = corpus.retrieve("fee", principal=AUDITOR).why("r").lines
    assert lines[0].startswith("version 1: in the context")
    assert lines[1].startswith("version 2: not permitted: audience")
    (before,) = corpus.retrieve("fee", principal=AUDITOR, as_of="2025-01-01").why("r").lines[1:]
    assert "audience" in before
    assert "assertion" in before


def test_an_auditor_draws_the_funnel_in_the_published_order() -> None:
    ours = OURS | {"metadata": {"status": "final"}}
    corpus = audited(
        record("new", **ours, supersedes=["old"]),
        record("old", **ours),
        record("draft", **(OURS | {"metadata": {"status": "draft"}})),
        record("office", **(ours | {"scope": "plant/office"})),
        record("board", **(ours | {"audience": ["board"]})),
        record("theirs", **ours, tenant="beta"),
        record("lamp", "lamp", **(ours | {"scope": "hq"})),
    )
    query = ((semantic(depth=5) | lexical) & scope("plant") & (field("status") == "final")) - superseded
    result = corpus.run(query >> rrf() >> top(1) >> budget(40), "fee lamp", principal=AUDITOR)
    drawn = result.explain(as_published=True).as_dict()["funnel"]
    assert [(step["stage"], step["count"]) for step in drawn] == [
        ("records", 7),  # the other tenant's is not counted
        ("semantic", 5),
        ("lexical", 7),
        ("recalled", 7),
        ("permitted", 5),
        ("scope", 5),
        ("metadata", 3),
        ("current", 2),
        ("rrf", 2),
        ("top", 1),
        ("budget", 1),
    ]
    assert steps(result)["permitted"] == 5
    assert "records" not in steps(result)


@pytest.mark.parametrize("policy", [AUDITED, replace(AUDITED, auditors=()), None])
def test_nobody_else_draws_it(policy: Policy | None) -> None:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder(), policy=policy)
    corpus.add([record("a", **OURS)])
    result = corpus.retrieve("fee", principal=replace(AUDITOR, groups=["sales"]))
    with pytest.raises(ArgumentError, match="for auditors"):
        result.explain(as_published=True)


@pytest.mark.parametrize("auditors", ["compliance", [1], None, True])
def test_auditors_are_a_list_of_groups(auditors: Any) -> None:
    with pytest.raises(ArgumentError, match="auditors"):
        Policy(auditors=auditors)


def test_filters_hold_counts_and_no_names(result: Result) -> None:
    said = json.dumps(result.explain().as_dict()) + str(result.explain())
    for name in ("forbidden", "theirs", "elsewhere", "draft"):
        assert name not in said


# On a screen


HOSTILE = "<script>alert(1)</script> [bold]&amp;[/bold] \"'"


@pytest.fixture
def hostile() -> Result:
    odd = record(HOSTILE, "fee of long " + "words " * 50, metadata={"k": HOSTILE})
    return in_memory(odd).retrieve(f"fee {HOSTILE}", where={"k": HOSTILE}, tokens=9)


def test_the_notebook_form_escapes_what_records_and_filters_say(hostile: Result) -> None:
    page = hostile.explain()._repr_html_()
    assert "<script" not in page
    # Once in the note of the filter, once in the name of what was left out.
    assert page.count("&lt;script&gt;") == page.count("&amp;amp;") == 2


def test_the_terminal_form_takes_nothing_for_markup(hostile: Result) -> None:
    out = io.StringIO()
    Console(file=out, width=300).print(hostile.explain())
    assert "[bold]" in out.getvalue()


def test_the_text_form_has_a_line_for_each_stage_and_each_drop(result: Result) -> None:
    lines = str(result.explain()).splitlines()
    assert [line.split()[0] for line in lines[:11]] == list(steps(result))
    assert [line.split()[1].rstrip(":") for line in lines if line.startswith("  - ")] == ["old", "b", "c"]
    assert repr(result.explain()) == str(result.explain())


def test_the_bars_are_drawn_to_the_largest_count(result: Result) -> None:
    lines = str(result.explain()).splitlines()[:11]
    bars = [line.count("█") for line in lines]
    assert bars[0] == max(bars)
    assert bars == sorted(bars[:4], reverse=True) + bars[4:]


def test_the_dictionary_form_is_plain_json(result: Result) -> None:
    said = json.loads(json.dumps(result.explain().as_dict()))
    assert [step["count"] for step in said["funnel"]] == [7, 6, 5, 4, 4, 3, 4, 4, 4, 3, 2]
    assert [(drop["id"], drop["by"]) for drop in said["drops"]] == [("old", ["new"]), ("b", []), ("c", [])]


def test_an_empty_result_can_be_explained_too(corpus: Corpus) -> None:
    explanation = corpus.retrieve("fee").explain()
    assert "permitted" in str(explanation)
    assert "<table" in explanation._repr_html_()
