"""Errors and results that are pickled: sent to another process, or kept in a cache."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import ctxarith.errors
from ctxarith import (
    AlgebraError,
    ArgumentError,
    BudgetError,
    Corpus,
    CorpusClosed,
    CtxArithError,
    EmbedderMismatch,
    EmbeddingError,
    EncodingUnavailable,
    MissingExtra,
    PredicateError,
    Principal,
    PrincipalRequired,
    Record,
    RecordError,
    Result,
    Rule,
    ScopeError,
    Slot,
    StoreError,
    Template,
    Withheld,
    composite,
    everyone,
    field,
    semantic,
    top,
)
from ctxarith.explain import Explanation
from tests.conftest import NOW, MakeCorpus
from tests.fakes import WordEmbedder

ERRORS: list[CtxArithError] = [
    CtxArithError("plain"),
    AlgebraError("a precedence slip"),
    ScopeError("no scope"),
    PredicateError("'k' has an unknown operator"),
    ArgumentError("top", -1, "a positive whole number"),
    ArgumentError("weights", (1.0, "x"), "three numbers"),
    ArgumentError("options", ["colour"], "known options are few"),
    RecordError("r1", "created_at", datetime(2026, 3, 1, tzinfo=UTC), "an offset is needed"),
    RecordError(None, "id", {"a": [1]}, "ids are text"),
    PrincipalRequired("say who asks"),
    BudgetError(90, 40),
    EmbedderMismatch("small of dimension 64", "large"),
    EmbeddingError("the model failed", staged=["a", "b"]),
    EncodingUnavailable("no such encoding"),
    StoreError("Chroma failed", staged=["a"]),
    StoreError("Chroma failed"),
    CorpusClosed("it was closed"),
    MissingExtra(what="reranking", package="sentence-transformers", extra="rerank"),
    Withheld("deny", ["a member is closed to the caller"], "the packet is discarded"),
]


def test_every_error_class_is_in_the_list() -> None:
    tree = {
        kind
        for name, kind in vars(ctxarith.errors).items()
        if isinstance(kind, type) and issubclass(kind, CtxArithError) and not name.startswith("_")
    }
    assert {type(error) for error in ERRORS} == tree


def through_pickle(one: Any, protocol: int) -> Any:
    return pickle.loads(pickle.dumps(one, protocol))


ROUTES: dict[str, Callable[[Any], Any]] = {
    **{f"protocol {n}": partial(through_pickle, protocol=n) for n in range(6)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES.keys())
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_arrives_as_it_was_sent(error: CtxArithError, route: Callable[[Any], Any]) -> None:
    back = route(error)
    assert type(back) is type(error)
    assert (str(back), back.args) == (str(error), error.args)
    assert vars(back) == vars(error)
    for name in ("msg", "errno", "strerror"):
        assert getattr(back, name, None) == getattr(error, name, None)


@pytest.mark.parametrize(
    "value",
    [threading.Lock(), lambda: 5, (threading.Lock(),), [lambda: 5], {"k": threading.Lock()}],
    ids=["lock", "function", "tuple", "list", "dict"],
)
def test_a_value_that_cannot_be_pickled_travels_as_text(value: object) -> None:
    error = ArgumentError("approach", value, "a list of Rules")
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == str(error)
    assert isinstance(back.value, str)
    assert back.name == "approach"
    assert error.value is value


def test_an_error_keeps_the_notes_that_were_added_to_it() -> None:
    error = StoreError("Chroma failed", staged=["a"])
    error.add_note("in batch 7")
    back = pickle.loads(pickle.dumps(error))
    assert back.__notes__ == ["in batch 7"]
    assert back.staged == ("a",)


class Refused(ArgumentError):
    """An error of a caller's own, with other arguments than its parent's."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None, "refused")
        self.extra = 7


def test_an_error_class_of_the_callers_own_travels_too() -> None:
    back = pickle.loads(pickle.dumps(Refused("top")))
    assert (type(back), str(back), back.extra) == (Refused, "top=None is not allowed: refused", 7)


# Results.

ME = Principal("me", groups=["staff"])
SECRETS = ("zebra", "quagga", "okapi", "tapir", "lemur")

RECORDS = [
    Record(
        id="old", text="the fee is 10", tenant="me", created_at="2026-01-01", slots=[Slot("lease", "fee", 10)]
    ),
    Record(
        id="new", text="the fee is 12", tenant="me", created_at="2026-03-01", slots=[Slot("lease", "fee", 12)]
    ),
    Record(id="more", text="fee terms apply", tenant="me", created_at="2026-02-01", metadata={"n": [1, 2]}),
    Record(id="zebra", text="the fee of zebra is 20", tenant="other", metadata={"z": "zebra"}),
    Record(id="quagga", text="the fee of quagga is 21", tenant="me", audience=["board"]),
    Record(id="okapi", text="the fee of okapi is 22", tenant="me", embargo_until="2027-01-01"),
    Record(id="tapir", text="the fee of tapir is 23", tenant="me", retain_until="2026-01-01"),
    Record(
        id="lemur",
        text="the fee of lemur is 24",
        tenant="me",
        audience=["board"],
        created_at="2026-05-01",
        slots=[Slot("lease", "fee", "lemur")],
    ),
]


def filled(corpus: Corpus) -> Corpus:
    corpus.add(RECORDS)
    return corpus


@pytest.fixture
def result(make_corpus: MakeCorpus) -> Result:
    return filled(make_corpus()).retrieve("what is the fee?", principal=ME, top=1)


STORED: dict[str, Callable[[Result], object]] = {
    "result": lambda result: result,
    "trace": lambda result: result.trace,
    "drops": lambda result: result.trace.left,
    "explanation": lambda result: result.explain(),
    "hits": lambda result: result.hits,
    "why": lambda result: result.why("old"),
}


@pytest.mark.parametrize("part", STORED.values(), ids=STORED.keys())
def test_no_stored_part_of_a_result_holds_what_the_caller_may_not_see(
    part: Callable[[Result], object], result: Result
) -> None:
    stored = pickle.dumps(part(result))
    assert [word for word in SECRETS if word.encode() in stored] == []
    again = pickle.dumps(pickle.loads(stored))
    assert [word for word in SECRETS if word.encode() in again] == []


def test_a_stored_result_holds_no_passed_over_record_of_the_index(make_corpus: MakeCorpus) -> None:
    corpus = filled(make_corpus())
    stored = pickle.dumps(corpus.retrieve("fee", principal=ME, where=field("n").contains(1)))
    assert b"fee terms apply" in stored
    assert b"the fee is 12" not in stored


@pytest.mark.parametrize(
    "route",
    [lambda r: pickle.loads(pickle.dumps(r)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_a_stored_result_says_what_it_said(route: Callable[[Result], Result], result: Result) -> None:
    back = route(result)
    assert back.text == "[1] (2026-03-01) the fee is 12"
    assert [hit.id for hit in back.hits] == ["new"]
    assert back.hits == result.hits
    assert back.hits[0].replaces == ("old",)
    assert back.passages == result.passages
    assert back.citations == {1: ("new", "1")}
    assert sorted((drop.id, drop.stage, drop.by) for drop in back.drops) == [
        ("more", "top", ()),
        ("old", "superseded", ("new",)),
    ]
    assert back.drops == result.drops
    assert (back.tokens, back.naive_tokens) == (result.tokens, result.naive_tokens)
    assert str(back.explain()) == str(result.explain())
    assert back.explain().as_dict() == result.explain().as_dict()
    assert back.explain()._repr_html_() == result.explain()._repr_html_()
    assert back.trace.stages == result.trace.stages


def test_a_stored_explanation_says_what_it_said(result: Result) -> None:
    back = pickle.loads(pickle.dumps(result.explain()))
    assert isinstance(back, Explanation)
    assert str(back) == str(result.explain())


def test_why_of_a_stored_result_says_that_the_index_is_gone(result: Result) -> None:
    back = pickle.loads(pickle.dumps(result))
    with pytest.raises(CtxArithError, match="stored result"):
        back.why("zebra")
    assert str(result.why("zebra")) == "zebra: no such record for this caller"


def test_storing_a_result_leaves_it_as_it_was(result: Result) -> None:
    before = str(result.why("old"))
    pickle.dumps(result)
    copy.deepcopy(result)
    assert str(result.why("old")) == before
    assert before.startswith("old: left out, superseded")


def test_a_stored_result_outlives_its_corpus(make_corpus: MakeCorpus) -> None:
    corpus = filled(make_corpus())
    stored = pickle.dumps(corpus.retrieve("fee", principal=ME))
    corpus.close()
    back = pickle.loads(stored)
    assert [hit.id for hit in back.hits] == ["new", "more"]


def test_a_result_of_functions_and_rules_of_the_callers_own_can_be_stored() -> None:
    corpus = filled(
        Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder(), tokenizer=lambda text: len(text))
    )
    for template in (
        Template(approach=lambda hits: f"call about {hits[0].id}"),
        Template(approach=[Rule(everyone, "call")]),
    ):
        result = corpus.retrieve("fee", principal=ME, template=template)
        assert pickle.loads(pickle.dumps(result)).text == result.text


def test_a_result_without_hits_can_be_stored() -> None:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder())
    back = pickle.loads(pickle.dumps(corpus.retrieve("fee")))
    assert (back.text, back.hits, back.drops, back.citations) == ("", (), (), {})


def test_a_result_of_the_algebra_can_be_stored() -> None:
    corpus = filled(Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder()))
    result = corpus.run((semantic & everyone) >> composite() >> top(1), "fee", principal=ME)
    back = pickle.loads(pickle.dumps(result))
    assert [hit.id for hit in back.hits] == [hit.id for hit in result.hits]
    assert len(back.drops) == 2


def test_plan_and_condition_can_be_stored() -> None:
    corpus = filled(Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder()))
    view = corpus.explain(semantic & everyone & ~(field("n") == 5) & field("k").is_in(["a"]), principal=ME)
    assert str(pickle.loads(pickle.dumps(view))) == str(view)
