"""Arguments of the wrong type, filters of any depth and size, and callers' code run at a bad moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxarith import (
    ArgumentError,
    Corpus,
    CtxArithError,
    EmbeddingError,
    Policy,
    PredicateError,
    Principal,
    Record,
    RecordError,
    Rule,
    RuleSlots,
    ScopeError,
    Slot,
    Template,
    at_least,
    budget,
    compose_query,
    composite,
    drop_superseded,
    everyone,
    field,
    lexical,
    reciprocal_rank_fusion,
    rrf,
    scope,
    semantic,
    top,
    where,
)
from ctxarith.ports import Row
from ctxarith.predicate import And, Compare, Exists, Not, OneOf, Or, Predicate
from ctxarith.scopes import Scope
from ctxarith.stores.inmemory import InMemoryStore
from tests.conftest import NOW, MakeCorpus
from tests.fakes import WordEmbedder

HUGE = 10**400


def fee(rid: str, text: str, **fields: Any) -> Record:
    return Record(id=rid, text=text, slots=[Slot("lease", "fee", text)], **fields)


def in_memory(**options: Any) -> Corpus:
    return Corpus.in_memory(**{"clock": lambda: NOW, "embedder": WordEmbedder(), **options})


def asked(**options: Any) -> Any:
    """A question to a corpus of one record."""
    corpus = in_memory(**options)
    corpus.add([Record(id="r1", text="the fee is 12")])
    return corpus.retrieve("fee")


def table(*values: float) -> Any:
    """A numpy array: its truth value is an error of numpy's own."""
    return np.asarray(values or (1.0, 2.0))


Call = Callable[[Any], object]

CALLS: dict[str, tuple[type[CtxArithError], str, Call]] = {
    # Questions.
    "retrieve text": (ArgumentError, "text", lambda c: c.retrieve(5)),
    "retrieve template": (ArgumentError, "template", lambda c: c.retrieve("fee", template=5)),
    "retrieve template array": (ArgumentError, "template", lambda c: c.retrieve("fee", template=table())),
    "retrieve principal": (ArgumentError, "principal", lambda c: c.retrieve("fee", principal="me")),
    "retrieve scope": (ScopeError, "5", lambda c: c.retrieve("fee", scope=5)),
    "retrieve scope in a list": (ScopeError, "5", lambda c: c.retrieve("fee", scope=["a", 5])),
    "retrieve where": (PredicateError, "5", lambda c: c.retrieve("fee", where=5)),
    "retrieve where array": (PredicateError, "filter", lambda c: c.retrieve("fee", where=table())),
    "retrieve where value array": (PredicateError, "k", lambda c: c.retrieve("fee", where={"k": table()})),
    "retrieve top text": (ArgumentError, "top", lambda c: c.retrieve("fee", top="5")),
    "retrieve top array": (ArgumentError, "top", lambda c: c.retrieve("fee", top=table())),
    "retrieve tokens": (ArgumentError, "tokens", lambda c: c.retrieve("fee", tokens="400")),
    "retrieve as_of": (ArgumentError, "as_of", lambda c: c.retrieve("fee", as_of=[])),
    "retrieve rank list": (ArgumentError, "rank", lambda c: c.retrieve("fee", rank=[])),
    "retrieve rank array": (ArgumentError, "rank", lambda c: c.retrieve("fee", rank=table())),
    "retrieve order list": (ArgumentError, "order", lambda c: c.retrieve("fee", order=[])),
    "retrieve order array": (ArgumentError, "order", lambda c: c.retrieve("fee", order=table())),
    "retrieve group_by list": (ArgumentError, "group_by", lambda c: c.retrieve("fee", group_by=[])),
    "retrieve group_by array": (ArgumentError, "group_by", lambda c: c.retrieve("fee", group_by=table())),
    "retrieve include_superseded text": (
        ArgumentError,
        "include_superseded",
        lambda c: c.retrieve("fee", include_superseded="no"),
    ),
    "retrieve include_superseded array": (
        ArgumentError,
        "include_superseded",
        lambda c: c.retrieve("fee", include_superseded=table()),
    ),
    "run pipeline": (CtxArithError, "pipeline", lambda c: c.run(5, "fee")),
    "plan pipeline": (CtxArithError, "pipeline", lambda c: c.plan(None)),
    "explain pipeline": (CtxArithError, "pipeline", lambda c: c.explain("fee")),
    "explain text": (ArgumentError, "text", lambda c: c.explain(semantic & everyone, 5)),
    "why list": (ArgumentError, "record_id", lambda c: c.retrieve("fee").why([])),
    "why number": (ArgumentError, "record_id", lambda c: c.retrieve("fee").why(5)),
    "history subject list": (ArgumentError, "subject", lambda c: c.history([], "fee")),
    "history subject array": (ArgumentError, "subject", lambda c: c.history(table(), "fee")),
    "history attribute array": (ArgumentError, "attribute", lambda c: c.history("lease", table())),
    "count condition": (PredicateError, "5", lambda c: c.count(5)),
    "count scope": (ScopeError, "5", lambda c: c.count(scope=5)),
    "get number": (ArgumentError, "ids", lambda c: c.get(5)),
    "get none": (ArgumentError, "ids", lambda c: c.get(None)),
    "get list in a list": (RecordError, "id", lambda c: c.get([["r1"]])),
    "sole_principal groups": (ArgumentError, "groups", lambda c: c.sole_principal(groups=5)),
    # Writes.
    "add number": (ArgumentError, "records", lambda c: c.add(5)),
    "add a bare record": (ArgumentError, "records", lambda c: c.add(Record(id="a", text="b"))),
    "add a number in a list": (CtxArithError, "5", lambda c: c.add([5])),
    "add embeddings number": (
        ArgumentError,
        "embeddings",
        lambda c: c.add([{"id": "a", "text": "b"}], embeddings=5),
    ),
    "add embeddings too large": (
        ArgumentError,
        "embeddings",
        lambda c: c.add([{"id": "a", "text": "b"}], embeddings=[[HUGE]]),
    ),
    "add embeddings one dimension": (
        ArgumentError,
        "embeddings",
        lambda c: c.add([{"id": "a", "text": "b"}], embeddings=[HUGE]),
    ),
    "delete number": (ArgumentError, "ids", lambda c: c.delete(5)),
    "delete id number": (RecordError, "id", lambda c: c.delete([5])),
    "delete source_id number": (ArgumentError, "source_id", lambda c: c.delete(source_id=5)),
    "delete source_id array": (ArgumentError, "source_id", lambda c: c.delete(source_id=table())),
    "delete tenant": (ArgumentError, "tenant", lambda c: c.delete("a", tenant=5)),
    "purge number": (ArgumentError, "ids", lambda c: c.purge(5)),
    "purge source_id list": (ArgumentError, "source_id", lambda c: c.purge(source_id=[])),
    "retire number": (ArgumentError, "ids", lambda c: c.retire(5)),
    "holds list": (ArgumentError, "record_id", lambda c: c.holds([])),
    "holds tenant": (ArgumentError, "tenant", lambda c: c.holds("a", tenant=[])),
    "ids_of list": (ArgumentError, "source_id", lambda c: c.ids_of([])),
    # Opening.
    "option unknown": (ArgumentError, "options", lambda _: in_memory(colour="red")),
    "clock number": (ArgumentError, "clock", lambda _: in_memory(clock=5)),
    "clock zero": (ArgumentError, "clock", lambda _: in_memory(clock=0)),
    "clock that gives a number": (ArgumentError, "clock", lambda _: asked(clock=lambda: None)),
    "clock that gives no offset": (
        ArgumentError,
        "clock",
        lambda _: asked(clock=lambda: NOW.replace(tzinfo=None)),
    ),
    "slots number": (ArgumentError, "slots", lambda _: in_memory(slots=5)),
    "searchable number": (ArgumentError, "searchable", lambda _: in_memory(searchable=5)),
    "searchable text": (ArgumentError, "searchable", lambda _: in_memory(searchable="title")),
    "searchable surrogate": (ArgumentError, "searchable", lambda _: in_memory(searchable=["\ud800"])),
    "searchable line break": (ArgumentError, "searchable", lambda _: in_memory(searchable=["a\nb"])),
    "searchable list in a list": (ArgumentError, "searchable", lambda _: in_memory(searchable=[[]])),
    "subject_key list": (ArgumentError, "subject_key", lambda _: in_memory(subject_key=[])),
    "stem text": (ArgumentError, "stem", lambda _: in_memory(stem="no")),
    "stem array": (ArgumentError, "stem", lambda _: in_memory(stem=table())),
    "stop_words text": (ArgumentError, "stop_words", lambda _: in_memory(stop_words="no")),
    "embedder empty text": (ArgumentError, "embedder", lambda _: in_memory(embedder="")),
    "embedder zero": (ArgumentError, "embedder", lambda _: in_memory(embedder=0)),
    "embedder list": (ArgumentError, "embedder", lambda _: in_memory(embedder=[])),
    "embedder array": (ArgumentError, "embedder", lambda _: in_memory(embedder=table())),
    "policy number": (ArgumentError, "policy", lambda _: in_memory(policy=5)),
    "naive_zone number": (ArgumentError, "naive_zone", lambda _: in_memory(naive_zone=5)),
    "tokenizer number": (ArgumentError, "tokenizer", lambda _: in_memory(tokenizer=5)),
    "tokenizer that gives less than nothing": (
        ArgumentError,
        "tokenizer",
        lambda _: asked(tokenizer=lambda _: -5),
    ),
    "tokenizer that gives a half": (ArgumentError, "tokenizer", lambda _: asked(tokenizer=lambda _: 0.5)),
    "tokenizer that gives a truth": (ArgumentError, "tokenizer", lambda _: asked(tokenizer=lambda _: True)),
    "tokenizer that gives text": (ArgumentError, "tokenizer", lambda _: asked(tokenizer=lambda _: "")),
    "tokenizer that gives NaN": (
        ArgumentError,
        "tokenizer",
        lambda _: asked(tokenizer=lambda _: float("nan")),
    ),
    "tokenizer that gives nothing": (ArgumentError, "tokenizer", lambda _: asked(tokenizer=lambda _: None)),
    "open number": (ArgumentError, "path", lambda _: Corpus.open(5)),  # type: ignore[arg-type]
    "open NUL": (ArgumentError, "path", lambda _: Corpus.open("\x00")),
    "open surrogate": (CtxArithError, "ud800", lambda _: Corpus.open("/tmp/\ud800")),
    "open store number": (ArgumentError, "store", lambda _: Corpus.open("x", store=5)),  # type: ignore[arg-type]
    # Stages.
    "budget tokens": (ArgumentError, "tokens", lambda _: budget("90")),  # type: ignore[arg-type]
    "budget template": (ArgumentError, "template", lambda _: budget(9, template=5)),  # type: ignore[arg-type]
    "budget section": (
        ArgumentError,
        "section",
        lambda _: budget(90, order="sections", section=[]),  # type: ignore[arg-type]
    ),
    "composite weights number": (ArgumentError, "weights", lambda _: composite(weights=5)),  # type: ignore[arg-type]
    "composite weights huge": (ArgumentError, "weights", lambda _: composite(weights=(HUGE, 1, 1))),
    "composite half_life_days": (ArgumentError, "half_life_days", lambda _: composite(half_life_days=HUGE)),
    "composite half_density": (ArgumentError, "half_density", lambda _: composite(half_density=HUGE)),
    "composite floor": (ArgumentError, "floor", lambda _: composite(floor=HUGE)),
    "composite relevance array": (ArgumentError, "relevance", lambda _: composite(relevance=table())),
    "composite relevance list": (ArgumentError, "relevance", lambda _: composite(relevance=[])),  # type: ignore[arg-type]
    "at_least huge": (ArgumentError, "at_least", lambda _: at_least(semantic=HUGE)),
    "at_least array": (ArgumentError, "at_least", lambda _: at_least(lexical=table())),
    "drop_superseded": (ArgumentError, "similarity", lambda _: drop_superseded("0.9")),  # type: ignore[arg-type]
    "top array": (ArgumentError, "top", lambda _: top(table())),
    "rrf k huge": (ArgumentError, "k=", lambda _: rrf(k=HUGE)),
    "rrf k array": (ArgumentError, "k=", lambda _: rrf(k=table())),
    "rrf weights number": (ArgumentError, "weights", lambda _: rrf(weights=5)),  # type: ignore[arg-type]
    "rrf weights huge": (ArgumentError, "weights", lambda _: rrf(weights={"semantic": HUGE})),
    "rrf per_source": (ArgumentError, "per_source", lambda _: rrf(per_source=[])),  # type: ignore[arg-type]
    "fusion of a number": (ArgumentError, "rankings", lambda _: reciprocal_rank_fusion(5)),  # type: ignore[arg-type]
    "fusion of numbers": (ArgumentError, "rankings", lambda _: reciprocal_rank_fusion([5])),  # type: ignore[list-item]
    "fusion of lists of lists": (
        ArgumentError,
        "rankings",
        lambda _: reciprocal_rank_fusion([[[]]]),  # type: ignore[type-var]
    ),
    "fusion of mixed ids": (
        ArgumentError,
        "rankings",
        lambda _: reciprocal_rank_fusion([["a"], [5]]),  # type: ignore[list-item]
    ),
    "fusion weights": (
        ArgumentError,
        "weights",
        lambda _: reciprocal_rank_fusion([["a"]], weights=5),  # type: ignore[arg-type]
    ),
    "lexical exact": (ArgumentError, "exact", lambda _: lexical(exact="no")),  # type: ignore[arg-type]
    "semantic depth": (ArgumentError, "depth", lambda _: semantic(depth="9")),  # type: ignore[arg-type]
    "compose_query": (ArgumentError, "objective", lambda _: compose_query(objective=5)),  # type: ignore[arg-type]
    # Templates.
    "template profile": (ArgumentError, "profile", lambda _: Template(profile=5)),  # type: ignore[arg-type]
    "template interactions": (ArgumentError, "interactions", lambda _: Template(interactions="3")),  # type: ignore[arg-type]
    "template approach number": (ArgumentError, "approach", lambda _: Template(approach=5)),  # type: ignore[arg-type]
    "template approach text": (ArgumentError, "approach", lambda _: Template(approach="x")),  # type: ignore[arg-type]
    "rule when": (ArgumentError, "when", lambda _: Rule(5, "x")),  # type: ignore[arg-type]
    "rule say": (ArgumentError, "say", lambda _: Rule(everyone, 5)),  # type: ignore[arg-type]
    "approach that says nothing": (
        ArgumentError,
        "approach",
        lambda c: c.retrieve("fee", template=Template(approach=lambda _: None)),  # type: ignore[arg-type,return-value]
    ),
    "approach that says a number": (
        ArgumentError,
        "approach",
        lambda c: c.retrieve("fee", template=Template(approach=lambda _: 5)),  # type: ignore[arg-type,return-value]
    ),
    # Nouns.
    "record id": (RecordError, "'id'", lambda _: Record(id=5, text="a")),  # type: ignore[arg-type]
    "record text": (RecordError, "'text'", lambda _: Record(id="a", text=5)),  # type: ignore[arg-type]
    "record slots array": (RecordError, "'slots'", lambda _: Record(id="a", text="b", slots=table())),
    "record slot inferred": (
        RecordError,
        "slots.inferred",
        lambda _: Record(id="a", text="b", slots=[Slot("s", "f", 1, "no")]),  # type: ignore[arg-type]
    ),
    "record source_id array": (
        RecordError,
        "source_id",
        lambda _: Record(id="a", text="b", source_id=table()),
    ),
    "record metadata": (RecordError, "metadata", lambda _: Record(id="a", text="b", metadata=5)),  # type: ignore[arg-type]
    "rules number": (ArgumentError, "rules", lambda _: RuleSlots(5)),  # type: ignore[arg-type]
    "rules pattern": (ArgumentError, "rules", lambda _: RuleSlots({"fee": 5})),  # type: ignore[dict-item]
    "principal tenant": (ArgumentError, "tenant", lambda _: Principal(5)),  # type: ignore[arg-type]
    "principal groups array": (ArgumentError, "groups", lambda _: Principal("a", groups=table())),
    "principal scopes number": (ArgumentError, "scopes", lambda _: Principal("a", scopes=5)),  # type: ignore[arg-type]
    "principal inherit_grants": (
        ArgumentError,
        "inherit_grants",
        lambda _: Principal("a", inherit_grants="no"),  # type: ignore[arg-type]
    ),
    "policy version": (ArgumentError, "version", lambda _: Policy(version=5)),  # type: ignore[arg-type]
    "policy source_types": (ArgumentError, "source_types", lambda _: Policy(source_types="pdf")),
    "field list": (PredicateError, "field name", lambda _: field([])),  # type: ignore[arg-type]
    "field is_in number": (PredicateError, "'k'", lambda _: field("k").is_in(5)),  # type: ignore[arg-type]
    "field equals array": (PredicateError, "'k'", lambda _: field("k") == table()),
    "where list": (PredicateError, "filter", lambda _: where([])),  # type: ignore[arg-type]
    "scope inherit": (ScopeError, "inherit", lambda _: scope("x", inherit="no")),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module")
def one() -> Iterator[Corpus]:
    with in_memory() as corpus:
        corpus.add([Record(id="r1", text="the fee is 12")])
        yield corpus


@pytest.mark.parametrize(("kind", "named", "call"), CALLS.values(), ids=CALLS.keys())
def test_a_wrong_argument_is_refused_by_name(
    kind: type[CtxArithError], named: str, call: Call, one: Corpus, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as caught:
        call(one)
    assert named in str(caught.value)
    assert [record.id for record in one.get("r1")] == ["r1"]


class Given(WordEmbedder):
    """Gives whatever it was told to give instead of vectors."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def embed_documents(self, texts: list[str]) -> Any:
        return self.answer


@pytest.mark.parametrize(
    "answer", [None, 5, "x", [], [HUGE], [[HUGE]], [[]], [["x"]], [[None]], [{}], [[1e39]]], ids=str
)
def test_an_embedder_that_gives_no_vectors_is_an_error_and_nothing_is_added(answer: Any) -> None:
    corpus = in_memory(embedder=Given(answer))
    with pytest.raises(EmbeddingError):
        corpus.add([Record(id="a", text="fee")])
    assert corpus.count() == 0


@pytest.mark.parametrize("found", [None, 5, "x", [5], [None], ["x"]], ids=str)
def test_a_slot_extractor_that_gives_no_slots_is_an_error_and_nothing_is_added(found: Any) -> None:
    corpus = in_memory(slots=lambda _: found)
    with pytest.raises(CtxArithError, match="slots"):
        corpus.add([Record(id="a", text="fee")])
    assert corpus.count() == 0


# Filters of any depth.


def nested(depth: int) -> dict[str, Any]:
    condition: dict[str, Any] = {"k": "v"}
    for _ in range(depth):
        condition = {"$not": condition}
    return condition


def in_lists(depth: int) -> dict[str, Any]:
    condition: dict[str, Any] = {"k": "v"}
    for _ in range(depth):
        condition = {"$and": [condition]}
    return condition


def in_turn(depth: int) -> dict[str, Any]:
    condition: dict[str, Any] = {"k": "v"}
    for n in range(depth):
        condition = {("$and", "$or")[n % 2]: [condition, {"n": n}]}
    return condition


def within_itself() -> dict[str, Any]:
    condition: dict[str, Any] = {}
    condition["$not"] = condition
    return condition


@pytest.fixture
def tagged() -> Corpus:
    corpus = in_memory()
    corpus.add([Record(id="a", text="fee 10", metadata={"k": "v"}), Record(id="b", text="fee 12")])
    return corpus


@pytest.mark.parametrize(
    "condition",
    [nested(900), nested(20_000), in_lists(5_000), in_turn(300), in_turn(20_000), within_itself()],
    ids=["900 nots", "20,000 nots", "5,000 lists", "300 turns", "20,000 turns", "within itself"],
)
def test_a_filter_that_is_nested_too_deeply_is_refused(condition: dict[str, Any], tagged: Corpus) -> None:
    for ask in (lambda: tagged.count(condition), lambda: tagged.retrieve("fee", where=condition)):
        with pytest.raises(PredicateError, match="nested") as caught:
            ask()
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("depth", "ids"), [(60, ["a"]), (61, ["b"])])
def test_a_filter_of_sixty_levels_means_what_it_says(depth: int, ids: list[str], tagged: Corpus) -> None:
    result = tagged.retrieve("fee", where=nested(depth))
    assert [hit.id for hit in result.hits] == ids
    assert tagged.count(nested(depth)) == 1
    assert str(result.explain()) != ""
    assert "fails" in str(result.why({"a": "b", "b": "a"}[ids[0]]))


def deep_nots() -> Predicate:
    predicate = field("k") == "v"
    for _ in range(480):
        predicate = ~predicate
    return predicate


def deep_turns() -> Predicate:
    predicate = field("k") == "v"
    for n in range(2_000):
        predicate = (predicate & (field("n") == n)) | (field("m") == n)
    return predicate


def deep_subtractions() -> Any:
    candidates = semantic & everyone & (field("k") == "v")
    predicate: Predicate = field("k") == "v"
    for _ in range(480):
        predicate = Not(predicate)
    return candidates - predicate


@pytest.mark.parametrize("build", [deep_nots, deep_turns, deep_subtractions])
def test_a_condition_that_is_built_too_deep_is_refused_where_it_is_built(build: Callable[[], Any]) -> None:
    with pytest.raises(PredicateError, match="100 levels"):
        build()


def test_a_long_flat_conjunction_is_no_deep_one(tagged: Corpus) -> None:
    predicate = field("k") == "v"
    for n in range(1_500):
        predicate = predicate & (field("k") != f"x{n}")
    assert tagged.count(predicate) == 1


# Filters of any size: what is shown of them stays small.

LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ({"n": {"$in": list(range(50_000))}}, ["a"]),
        ({"n": {"$nin": list(range(50_000))}}, ["b"]),
        ({"$or": [{"n": n} for n in range(2_000)]}, ["a"]),
        ({"$and": [{"n": {"$ne": n + 2}} for n in range(2_000)]}, ["a", "b"]),
        ({"$not": {"$or": [{"n": n} for n in range(2_000)]}}, ["b"]),
        ({"n": {"$in": [1, LONG]}}, ["a"]),
        ({"$or": [{"n": 1}, {"k": LONG}]}, ["a"]),
        ({"$or": [{"n": 1}, {LONG: "k"}]}, ["a"]),
    ],
    ids=[
        "50,000 values",
        "50,000 values not",
        "2,000 alternatives",
        "2,000 conditions",
        "not 2,000 alternatives",
        "a long value in a list",
        "a long value",
        "a long name",
    ],
)
def test_a_huge_filter_is_shown_in_short(condition: dict[str, Any], ids: list[str]) -> None:
    corpus = in_memory()
    corpus.add([Record(id=rid, text="fee", metadata={"n": n}) for rid, n in (("a", 1), ("b", -1))])
    result = corpus.retrieve("fee", where=condition)
    assert [hit.id for hit in result.hits] == ids
    plan = corpus.explain(semantic & everyone & where(condition))
    shown = [str(result.explain()), str(plan), str(result.why("a")), str(result.why("b")), repr(result.trace)]
    assert max(map(len, shown)) < 10_000


def test_what_a_shortened_filter_leaves_out_is_counted() -> None:
    assert str(field("n").is_in(range(50_000))).endswith("and 49,980 more]")
    alternatives = where({"$or": [{"n": n} for n in range(2_000)]})
    assert str(alternatives).endswith("and 1,980 more")


def test_a_huge_scope_is_shown_in_short() -> None:
    corpus = in_memory()
    corpus.add([Record(id="a", text="fee", scope="s7"), Record(id="b", text="fee", scope="other")])
    result = corpus.retrieve("fee", scope=[f"s{n}" for n in range(2_000)])
    assert [hit.id for hit in result.hits] == ["a"]
    assert len(str(result.explain())) < 10_000


@pytest.mark.parametrize(
    "build",
    [
        lambda: scope("a" * 5_000),
        lambda: scope("a/" * 5_000 + ".."),
        lambda: Scope("a" * 5_000),  # type: ignore[arg-type]
        lambda: where({LONG: {"$eq": []}}),
        lambda: where({"k": {"$eq": [LONG]}}),
        lambda: where({"k": {LONG: 1}}),
        lambda: where({"k": {"$in": LONG}}),
        lambda: where({"$or": LONG}),
        lambda: where({"$" + LONG: 1}),
        lambda: where([LONG]),  # type: ignore[arg-type]
        lambda: field("created_at") == LONG,
        lambda: And((LONG,)),  # type: ignore[arg-type]
        lambda: in_memory().retrieve("fee", rank=LONG),
        lambda: Record(id=LONG, text="a"),
        lambda: Record(id="a", text="b", metadata={LONG: object()}),
    ],
    ids=[
        "long scope",
        "long scope with dots",
        "scope of a text",
        "long name",
        "long value",
        "long operator",
        "long list",
        "long branch",
        "long junction",
        "long filter",
        "long time",
        "long part",
        "long rank",
        "long id",
        "long metadata key",
    ],
)
def test_an_error_does_not_repeat_a_long_value_whole(build: Callable[[], object]) -> None:
    with pytest.raises(CtxArithError) as caught:
        build()
    assert len(str(caught.value)) < 600


# Conditions that are put together by hand.


@pytest.mark.parametrize(
    "build",
    [
        lambda: Scope((None,)),  # type: ignore[arg-type]
        lambda: Scope(5),  # type: ignore[arg-type]
        lambda: Scope("acme"),  # type: ignore[arg-type]
        lambda: Scope(("..",)),
        lambda: Scope(("acme",), "no"),  # type: ignore[arg-type]
        lambda: Scope([["acme"]]),  # type: ignore[arg-type]
        lambda: Compare("k", "regex", "x"),
        lambda: Compare("k", [], "x"),  # type: ignore[arg-type]
        lambda: Compare("k", "eq", ["v"]),  # type: ignore[arg-type]
        lambda: Compare("k", "eq", None),  # type: ignore[arg-type]
        lambda: Compare("k", "eq", {}),  # type: ignore[arg-type]
        lambda: Compare("k", "lt", True),
        lambda: Compare("k", "eq", float("nan")),
        lambda: Compare([], "eq", "v"),  # type: ignore[arg-type]
        lambda: Exists([]),  # type: ignore[arg-type]
        lambda: OneOf("k", 5),  # type: ignore[arg-type]
        lambda: OneOf("k", ["v"]),  # type: ignore[arg-type]
        lambda: OneOf([], frozenset()),  # type: ignore[arg-type]
        lambda: Not(None),  # type: ignore[arg-type]
        lambda: And((None,)),  # type: ignore[arg-type]
        lambda: Or(({"k": "v"},)),  # type: ignore[arg-type]
        lambda: And(5),  # type: ignore[arg-type]
    ],
    ids=[
        "scope of nothing",
        "scope of a number",
        "scope of a text",
        "scope above the root",
        "scope with inherit no",
        "scope of lists",
        "unknown comparison",
        "list as comparison",
        "list as operand",
        "nothing as operand",
        "dict as operand",
        "order of truths",
        "NaN as operand",
        "list as name",
        "list as name that exists",
        "one of a number",
        "one of bare values",
        "list as name of a set",
        "not nothing",
        "and of nothing",
        "or of a dict",
        "and of a number",
    ],
)
def test_a_condition_that_means_nothing_is_refused_where_it_is_built(build: Callable[[], object]) -> None:
    with pytest.raises((PredicateError, ScopeError)):
        build()


@pytest.mark.parametrize("paths", [["acme"], ("acme/",), ("acme", "acme")], ids=["list", "slash", "twice"])
def test_a_scope_put_together_by_hand_is_cleaned(paths: Any) -> None:
    corpus = in_memory()
    corpus.add([Record(id="a", text="fee", scope="acme/ops"), Record(id="b", text="fee", scope="acme-corp")])
    assert Scope(paths) == scope("acme")
    found = corpus.run(((semantic | lexical) & Scope(paths)) >> rrf(), "fee").hits
    assert [hit.id for hit in found] == ["a"]


# Code of the caller's own.


class Spy(Predicate):
    """Lets every record through, and remembers which it was shown."""

    def __init__(self, *, refuses: str = "") -> None:
        self.seen: set[str] = set()
        self.refuses = refuses

    def matches(self, record: Record) -> bool:
        self.seen.add(record.id)
        if record.id == self.refuses:
            raise ZeroDivisionError(record.id)
        return True


ME = Principal("me", scopes=["ops"])

MINE = Record(id="mine", text="fee 12", tenant="me", scope="ops")

OTHERS = [
    Record(id="other-tenant", text="fee 20", tenant="other", scope="ops"),
    Record(id="closed", text="fee 21", tenant="me", scope="ops", audience=["board"]),
    Record(id="embargoed", text="fee 22", tenant="me", scope="ops", embargo_until="2027-01-01"),
    Record(id="ended", text="fee 23", tenant="me", scope="ops", valid_until="2026-01-01"),
    Record(id="elsewhere", text="fee 24", tenant="me", scope="hr"),
]

ASKS: dict[str, Callable[[Corpus, Predicate], object]] = {
    "retrieve": lambda c, p: c.retrieve("fee", principal=ME, where=p),
    "retrieve not": lambda c, p: c.retrieve("fee", principal=ME, where=~p),
    "retrieve or": lambda c, p: c.retrieve("fee", principal=ME, where=(field("k") == "v") | ~(p & p)),
    "retrieve old": lambda c, p: c.retrieve("fee", principal=ME, where=p, include_superseded=True),
    "retrieve as of": lambda c, p: c.retrieve("fee", principal=ME, where=p, as_of="2026-06-14"),
    "run": lambda c, p: c.run((lexical & everyone & p) - ~p, "fee", principal=ME),
    "explain": lambda c, p: str(c.explain(semantic & everyone & p, "fee", principal=ME)),
    "why": lambda c, p: [c.retrieve("fee", principal=ME, where=~p).why(r.id) for r in (*OTHERS, MINE)],
    "count": lambda c, p: c.count(p, principal=ME),
    "count not": lambda c, p: c.count(~p, principal=ME),
    "rule": lambda c, p: c.retrieve("fee", principal=ME, template=Template(approach=[Rule(p, "ask")])),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS.keys())
def test_a_condition_of_the_callers_own_class_is_shown_permitted_records_alone(
    ask: Callable[[Corpus, Predicate], object],
) -> None:
    corpus = in_memory()
    corpus.add([MINE, *OTHERS])
    spy = Spy()
    ask(corpus, spy)
    assert spy.seen == {"mine"}


def test_a_scope_narrows_what_a_condition_of_the_callers_own_class_is_shown() -> None:
    corpus = in_memory()
    corpus.add([MINE, OTHERS[-1]])
    spy = Spy()
    corpus.retrieve("fee", principal=Principal("me"), scope="ops", where=spy)
    assert spy.seen == {"mine"}


def test_a_condition_that_fails_on_a_forbidden_record_fails_nobody() -> None:
    corpus = in_memory()
    corpus.add([MINE, *OTHERS])
    spy = Spy(refuses="closed")
    assert [hit.id for hit in corpus.retrieve("fee", principal=ME, where=spy).hits] == ["mine"]
    assert corpus.count(~spy, principal=ME) == 0


# Reads while a write is under way.


class Held:
    """Holds a thread at a gate until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.free = threading.Event()
        self.on = False

    def wait(self) -> None:
        if self.on:
            self.reached.set()
            assert self.free.wait(20)


class SlowEmbedder(WordEmbedder):
    def __init__(self, held: Held) -> None:
        super().__init__()
        self.held = held

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.held.wait()
        return super().embed_documents(texts)


class SlowStore(InMemoryStore):
    """Stands still when a write is in the store and not yet acknowledged."""

    def __init__(self, held: Held) -> None:
        super().__init__()
        self.held = held

    def write(self, rows: Sequence[Row]) -> None:
        super().write(rows)
        self.held.wait()


def while_adding(corpus: Corpus, record: Record, held: Held, look: Callable[[], Any]) -> Any:
    """What a reader sees while an `add` stands at the gate; a reader that waits fails the test."""
    seen: list[Any] = []
    held.on = True
    writer = threading.Thread(target=lambda: corpus.add([record]), daemon=True)
    writer.start()
    assert held.reached.wait(20)
    reader = threading.Thread(target=lambda: seen.append(look()), daemon=True)
    reader.start()
    reader.join(5)
    waited = reader.is_alive()
    held.free.set()
    reader.join(20)
    writer.join(20)
    assert not waited
    return seen[0]


READS: dict[str, tuple[Callable[[Corpus], Any], Any]] = {
    "history": (
        lambda c: [(a.value, a.status, a.revision) for a in c.history("lease", "fee")],
        [("fee 10", "corrected", 1), ("fee 12", "current", 0)],
    ),
    "retrieve": (lambda c: [h.record.text for h in c.retrieve("fee").hits], ["fee 12"]),
    "get": (lambda c: [r.text for r in c.get("a")], ["fee 12"]),
    "count": (lambda c: c.count(), 1),
    "holds": (lambda c: c.holds("b"), False),
    "ids_of": (lambda c: c.ids_of("a"), ["a"]),
}


@pytest.mark.parametrize(("look", "expected"), READS.values(), ids=READS.keys())
def test_a_reader_does_not_wait_for_a_slow_embedder(
    look: Callable[[Corpus], Any], expected: Any, make_corpus: MakeCorpus
) -> None:
    held = Held()
    corpus = make_corpus(embedder=SlowEmbedder(held))
    corpus.add([fee("a", "fee 10")])
    corpus.add([fee("a", "fee 12")])
    assert while_adding(corpus, fee("b", "fee 14"), held, lambda: look(corpus)) == expected
    assert corpus.holds("b")


@pytest.mark.parametrize(("look", "expected"), READS.values(), ids=READS.keys())
def test_a_reader_sees_nothing_of_a_write_that_is_half_way(
    look: Callable[[Corpus], Any], expected: Any, tmp_path: Path
) -> None:
    held = Held()
    store = SlowStore(held)
    with Corpus.open(tmp_path, store=store, clock=lambda: NOW, embedder=WordEmbedder()) as corpus:
        corpus.add([fee("a", "fee 10")])
        corpus.add([fee("a", "fee 12")])
        assert while_adding(corpus, fee("a", "fee 14"), held, lambda: look(corpus)) == expected
        chain = [(a.value, a.status, a.revision) for a in corpus.history("lease", "fee")]
        assert chain == [("fee 10", "corrected", 1), ("fee 12", "corrected", 2), ("fee 14", "current", 0)]


# Writes inside a write.


class Meddler(WordEmbedder):
    """Writes to its own corpus while it embeds."""

    def __init__(self, act: Callable[[Corpus], object]) -> None:
        super().__init__()
        self.act = act
        self.corpus: Corpus | None = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.corpus is not None:
            corpus, self.corpus = self.corpus, None
            self.act(corpus)
        return super().embed_documents(texts)


@pytest.mark.parametrize(
    "act",
    [
        lambda c: c.add([Record(id="inner", text="fee 13")]),
        lambda c: c.delete("old"),
        lambda c: c.retire("old"),
        lambda c: c.purge("old"),
    ],
    ids=["add", "delete", "retire", "purge"],
)
def test_a_write_inside_an_embedder_is_refused_and_index_and_store_agree(
    act: Callable[[Corpus], object], tmp_path: Path
) -> None:
    embedder, store = Meddler(act), InMemoryStore()
    with Corpus.open(tmp_path, store=store, clock=lambda: NOW, embedder=embedder) as corpus:
        corpus.add([Record(id="old", text="fee 10")])
        embedder.corpus = corpus
        with pytest.raises(CtxArithError, match="inside another"):
            corpus.add([Record(id="outer", text="fee 12")])
        assert [row.record.id for row in store.rows()] == ["old"]
        assert [record.id for record in corpus.get(["old", "inner", "outer"])] == ["old"]
        assert corpus.get("old")[0].valid_until is None
        corpus.add([Record(id="outer", text="fee 12")])
        assert sorted(row.record.id for row in store.rows()) == ["old", "outer"]
        assert corpus.count() == 2


def test_a_write_inside_a_question_is_a_write_like_any_other() -> None:
    class Noting(WordEmbedder):
        corpus: Corpus | None = None

        def embed_query(self, text: str) -> list[float]:
            if self.corpus is not None:
                self.corpus.add([Record(id="noted", text=text)])
            return super().embed_query(text)

    embedder = Noting()
    corpus = in_memory(embedder=embedder)
    corpus.add([Record(id="a", text="fee 12")])
    embedder.corpus = corpus
    assert [hit.id for hit in corpus.retrieve("fee").hits] == ["a"]
    assert [record.id for record in corpus.get("noted")] == ["noted"]
