from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import (
    ArgumentError,
    Candidates,
    Corpus,
    Pipeline,
    at_least,
    budget,
    composite,
    everyone,
    field,
    lexical,
    rrf,
    scope,
    semantic,
    superseded,
    top,
)
from ctxarith.predicate import Predicate
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.strategies import predicates

HERE = scope("acme")
LEASE = field("kind") == "lease"
RECENT = field("year") >= 2025


def test_the_owners_line_is_a_plain_value() -> None:
    query = (
        ((semantic | lexical) & HERE & LEASE) - superseded >> rrf() >> composite() >> top(5) >> budget(400)
    )
    again = (
        ((semantic | lexical) & HERE & LEASE) - superseded >> rrf() >> composite() >> top(5) >> budget(400)
    )
    assert isinstance(query, Pipeline)
    assert query == again
    assert hash(query) == hash(again)
    assert [stage.name for stage in query.stages] == ["rrf", "rank", "top", "budget"]


def test_operators_leave_their_operands_alone() -> None:
    before = repr((semantic, lexical))
    narrowed = (semantic | lexical) & HERE & LEASE
    _ = narrowed - superseded >> rrf()
    assert repr((semantic, lexical)) == before
    assert narrowed == (semantic | lexical) & HERE & LEASE


def test_a_query_cannot_be_changed() -> None:
    query = (semantic & HERE) >> top(5)
    with pytest.raises(FrozenInstanceError):
        query.stages = ()  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        semantic.arms = ()  # type: ignore[misc]


# Laws


def test_narrowing_spreads_over_the_ways_of_finding() -> None:
    assert (semantic | lexical) & LEASE == (semantic & LEASE) | (lexical & LEASE)
    assert (semantic | lexical) & HERE == (semantic & HERE) | (lexical & HERE)
    assert (semantic | lexical) - LEASE == (semantic - LEASE) | (lexical - LEASE)
    assert (semantic | lexical) - superseded == (semantic - superseded) | (lexical - superseded)


def test_taking_away_is_narrowing_by_the_complement() -> None:
    assert semantic - LEASE == semantic & ~LEASE


def test_the_order_of_scope_filter_and_superseded_makes_no_difference() -> None:
    assert (semantic & HERE & LEASE) - superseded == ((semantic - superseded) & LEASE) & HERE
    assert semantic & HERE & LEASE == semantic & LEASE & HERE


def test_superseded_is_taken_away_once() -> None:
    assert (semantic - superseded) - superseded == semantic - superseded


def test_conditions_may_be_joined_before_or_after() -> None:
    assert semantic & LEASE & RECENT == semantic & (LEASE & RECENT)
    assert semantic & HERE & LEASE == semantic & (HERE & LEASE) == semantic & (LEASE & HERE)
    assert semantic & everyone & LEASE == semantic & (everyone & LEASE)


def test_ways_of_finding_are_joined_in_any_grouping() -> None:
    deep = semantic(depth=7)
    assert (semantic | lexical) | deep == semantic | (lexical | deep)


def test_stages_may_be_added_one_by_one() -> None:
    ordered = (semantic & HERE) >> rrf()
    assert ordered >> top(5) == (semantic & HERE) >> rrf() >> top(5)


sources = st.recursive(
    st.sampled_from((semantic, lexical, semantic(depth=7))),
    lambda inner: st.builds(lambda a, b: a | b, inner, inner),
    max_leaves=3,
)


@given(sources, sources, predicates())
def test_a_condition_distributes_over_a_union(a: Candidates, b: Candidates, p: Predicate) -> None:
    assert (a | b) & p == (a & p) | (b & p)
    assert (a | b) - p == (a - p) | (b - p)


@given(sources, predicates(max_leaves=3), predicates(max_leaves=3))
def test_narrowing_twice_is_narrowing_by_both(a: Candidates, p: Predicate, q: Predicate) -> None:
    assert (a & p) & q == a & (p & q)
    assert (a & p) - superseded == (a - superseded) & p


# Depth and exactness


def test_a_source_may_be_asked_for_another_depth() -> None:
    assert [arm.depth for arm in (semantic | lexical)(depth=50).arms] == [50, 50]
    assert (semantic | lexical(depth=5)).arms[0].depth == 2_000


def test_exactness_is_asked_of_a_source() -> None:
    assert not lexical.arms[0].exact
    assert lexical(exact=True).arms[0].exact
    assert lexical(exact=True)(depth=3).arms[0].exact


@pytest.mark.parametrize("depth", [0, -1, True, 2.5, "5"])
def test_a_depth_is_a_positive_whole_number(depth: Any) -> None:  # LX-09
    with pytest.raises(ArgumentError, match=r"depth=.*positive whole number"):
        semantic(depth=depth)


# Arguments


@pytest.mark.parametrize("count", [0, -1, True, 2.5, "5", float("inf")])
def test_a_count_is_a_positive_whole_number(count: Any) -> None:  # LX-09
    with pytest.raises(ArgumentError, match=r"top=.*positive whole number"):
        top(count)


@pytest.mark.parametrize("tokens", [-1, True, 2.5, "400", float("nan")])
def test_a_budget_is_a_whole_number(tokens: Any) -> None:
    with pytest.raises(ArgumentError, match=r"tokens="):
        budget(tokens)


@pytest.mark.parametrize(
    "thresholds", [{}, {"semantic": 0.5, "lexical": 1.0}, {"semantic": float("nan")}, {"lexical": "1"}]
)
def test_a_threshold_names_one_source(thresholds: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="at_least"):
        at_least(**thresholds)


@pytest.mark.parametrize("k", [0, -1, True, 2.5, "5"])
def test_a_count_is_refused_before_any_stage_runs(k: Any) -> None:  # LX-09
    embedder = WordEmbedder()
    with Corpus.in_memory(embedder=embedder, clock=lambda: NOW) as corpus:
        corpus.add([{"id": "r1", "text": "Lease ends in May"}])
        asked: list[str] = []
        embedder.embed_query = asked.append  # type: ignore[method-assign, assignment]
        with pytest.raises(ArgumentError, match=r"top="):
            corpus.retrieve("lease", top=k)
        with pytest.raises(ArgumentError, match=r"tokens="):
            corpus.retrieve("lease", tokens=-1)
        with pytest.raises(ArgumentError, match=r"rank="):
            corpus.retrieve("lease", rank="best")
        with pytest.raises(ArgumentError, match=r"order="):
            corpus.retrieve("lease", order="best")
        with pytest.raises(ArgumentError, match=r"group_by="):
            corpus.retrieve("lease", group_by="tenant")
        assert asked == []


@pytest.mark.parametrize("text", [None, 5, b"lease", ["lease"]])
def test_a_question_is_text(text: Any) -> None:
    with Corpus.in_memory(embedder=WordEmbedder()) as corpus, pytest.raises(ArgumentError, match="text="):
        corpus.retrieve(text)


@pytest.mark.parametrize("found", [semantic, lexical, semantic | lexical], ids=["dense", "lexical", "hybrid"])
def test_asking_for_more_than_there_is_gives_what_there_is(
    corpus: Corpus, found: Candidates
) -> None:  # LX-09
    corpus.add([{"id": "r1", "text": "Lease ends in May"}])
    result = corpus.run((found & everyone) >> rrf() >> top(20), "lease")
    assert [hit.id for hit in result.hits] == ["r1"]
