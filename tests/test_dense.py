"""Exact cosine over the permitted records."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ctxarith import (
    Candidates,
    Corpus,
    Principal,
    Record,
    everyone,
    lexical,
    rrf,
    semantic,
    superseded,
    top,
    where,
)
from ctxarith.index.dense import Dense, unit
from tests.conftest import NOW
from tests.fakes import TableEmbedder, stacked

BY_MEANING = semantic & everyone
EAST = np.array([1, 0], np.float32)


def random_units(rows: int, dimension: int = 32, *, seed: int = 7) -> NDArray[np.float32]:
    return unit(np.random.default_rng(seed).normal(size=(rows, dimension)))


def every(rows: int) -> NDArray[np.bool_]:
    return np.ones(rows, np.bool_)


def near(**vectors: list[float]) -> Corpus:
    """Records named after their vectors, and the question "q" at [1, 0]."""
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=TableEmbedder({**vectors, "q": [1.0, 0.0]}))
    corpus.add([Record(id=name, text=name) for name in vectors])
    return corpus


def test_the_score_is_the_cosine_whatever_the_lengths() -> None:
    result = near(a=[3.0, 4.0], b=[0.8, 0.6], c=[-2.0, 0.0]).run(BY_MEANING, "q")
    scores = {hit.id: hit.found_by[0].score for hit in result.hits}
    assert scores == pytest.approx({"b": 0.8, "a": 0.6, "c": -1.0}, abs=1e-7)
    assert [hit.id for hit in result.hits] == ["b", "a", "c"]


def test_the_share_of_an_opposite_record_is_zero() -> None:
    result = near(a=[-1.0, 0.0], b=[0.6, 0.8]).run(BY_MEANING, "q")
    assert [hit.found_by[0].share for hit in result.hits] == pytest.approx([0.6, 0.0], abs=1e-7)


def test_equal_scores_go_by_date_then_id() -> None:
    corpus = near(b=[1.0, 1.0], a=[1.0, 1.0], d=[1.0, 1.0], c=[1.0, 1.0])
    corpus.add([{"id": "c", "text": "c", "created_at": "2026-03-01"}])
    corpus.add([{"id": "d", "text": "d", "created_at": "2026-04-01"}])
    assert [hit.id for hit in corpus.run(BY_MEANING, "q").hits] == ["d", "c", "a", "b"]


def test_a_record_without_direction_is_never_near() -> None:
    corpus = near(a=[1.0, 0.0], blank=[0.0, 0.0])
    assert [hit.id for hit in corpus.run(BY_MEANING, "q").hits] == ["a"]


def test_a_question_without_direction_is_equally_far_from_all() -> None:
    corpus = near(b=[1.0, 0.0], a=[0.0, 1.0], nil=[0.0, 0.0])
    hits = corpus.run(BY_MEANING, "nil").hits
    assert [(hit.id, hit.found_by[0].score) for hit in hits] == [("a", 0.0), ("b", 0.0)]


def test_recall_goes_down_to_its_depth() -> None:
    corpus = near(a=[1.0, 0.0], b=[1.0, 0.1], c=[1.0, 0.2])
    assert [hit.id for hit in corpus.run(semantic(depth=2) & everyone, "q").hits] == ["a", "b"]


def test_retired_rows_use_up_no_depth() -> None:
    corpus = near(old1=[1.0, 0.0], old2=[1.0, 0.1], new=[0.0, 1.0], other=[1.0, 0.5])
    corpus.add([{"id": "new", "text": "new", "supersedes": ["old1", "old2"]}])
    hits = corpus.run((semantic(depth=1) & everyone) - superseded, "q").hits
    assert {hit.id for hit in hits} == {"new", "other"}


def dense(vectors: NDArray[np.float32]) -> Dense:
    return Dense(stacked([Record(id=f"{n:06}", text="") for n in range(len(vectors))], vectors))


def test_a_filter_comes_before_the_nearest_are_chosen(corpus: Corpus) -> None:  # CH-20
    other = [Record(id=f"b{n}", text="refund window refund window", tenant="beta") for n in range(200)]
    ours = [Record(id=f"a{n}", text="refund and much else that is far away", tenant="acme") for n in range(5)]
    corpus.add([*other, *ours])
    acme = Principal("acme")
    for pipeline in (BY_MEANING >> top(5), ((semantic | lexical) & everyone) >> rrf() >> top(5)):
        result = corpus.run(pipeline, "refund window", principal=acme)
        assert {hit.id for hit in result.hits} == {"a0", "a1", "a2", "a3", "a4"}


BY_EITHER = [semantic & everyone, lexical & everyone]


@pytest.mark.parametrize("source", BY_EITHER)
@pytest.mark.parametrize(
    "since",
    [
        date(2026, 2, 1),
        datetime(2026, 2, 1, tzinfo=UTC),
        "2026-02-01",
        "2026-02-01T09:00:00+09:00",
    ],
)
def test_both_sources_search_under_the_same_dates(source: Candidates, since: Any) -> None:  # CH-05
    dates = {"e1": "2026-03-01T00:00:00Z", "e2": "2026-01-31T23:59:59Z", "e3": "2025-12-31"}
    corpus = near(fee=[1.0, 0.0])
    corpus.add([{"id": rid, "text": "fee", "created_at": at} for rid, at in dates.items()])
    result = corpus.run(source & where({"created_at": {"$gte": since}}), "fee")
    assert [hit.id for hit in result.hits] == ["e1"]


@pytest.mark.parametrize("source", BY_EITHER)
@pytest.mark.parametrize("condition", [{"status": {"$ne": "draft"}}, {"status": {"$nin": ["draft"]}}])
def test_both_sources_leave_out_what_lacks_the_key(
    source: Candidates, condition: dict[str, Any]
) -> None:  # CH-09
    corpus = near(fee=[1.0, 0.0])
    corpus.add([{"id": "p1", "text": "fee", "metadata": {"status": "draft"}}])
    corpus.add([{"id": "p2", "text": "fee", "metadata": {"status": "final"}}, {"id": "p3", "text": "fee"}])
    assert [hit.id for hit in corpus.run(source & where(condition), "fee").hits] == ["p2"]
    assert corpus.count(condition) == 1


def test_a_filter_comes_before_the_nearest_even_when_thousands_are_nearer() -> None:  # CH-20
    vectors = np.vstack([np.tile([1.0, 0.0], (6_000, 1)), np.tile([0.0, 1.0], (5, 1))])
    target = every(6_005)
    target[:6_000] = False
    rows, _ = dense(unit(vectors)).nearest(target, EAST, depth=5, counted=every(6_005))
    assert rows.tolist() == [6_000, 6_001, 6_002, 6_003, 6_004]


def test_the_last_bit_of_a_score_does_not_depend_on_the_rows_beside_it() -> None:
    vectors, query = random_units(9_000), random_units(1, seed=8)[0]
    whole = dense(vectors).cosines(np.arange(9_000), query)
    for rows in ([0], [4_095, 4_096], list(range(5, 9_000, 7)), [8_999]):
        alone = dense(vectors[rows]).cosines(np.arange(len(rows)), query)
        assert alone.tobytes() == whole[rows].tobytes()


@pytest.mark.parametrize("depth", [1, 10, 5_000, 20_000])
def test_the_quick_pass_over_many_rows_loses_none_of_the_nearest(depth: int) -> None:
    vectors, query = random_units(12_000), random_units(1, seed=8)[0]
    index, counted = dense(vectors), every(12_000)
    counted[::3] = False
    rows, scores = index.nearest(every(12_000), query, depth=depth, counted=counted)
    exact = vectors.astype(np.float64) @ query.astype(np.float64)
    competing = np.sort(exact[counted])[::-1]
    cut = competing[min(depth, len(competing)) - 1]
    assert set(np.flatnonzero(exact > cut + 1e-9)) <= set(rows.tolist())
    assert scores == pytest.approx(exact[rows], abs=1e-7)


def test_near_equal_rows_at_the_cut_are_all_scored_exactly() -> None:
    tied = np.tile(np.array([0.6, 0.8], np.float32), (9_000, 1))
    tied[7] = [0.8, 0.6]
    rows, _ = dense(tied).nearest(every(9_000), EAST, depth=3, counted=every(9_000))
    assert len(rows) == 9_000


def test_no_row_at_all_has_no_nearest() -> None:
    rows, scores = dense(random_units(3)).nearest(
        np.zeros(3, np.bool_), random_units(1)[0], depth=5, counted=every(3)
    )
    assert (rows.tolist(), scores.tolist()) == ([], [])


def test_unit_leaves_zero_rows_alone_and_keeps_tiny_ones() -> None:
    scaled = unit(np.array([[0.0, 0.0], [3e-30, 4e-30], [3e30, 4e30]]))
    assert scaled == pytest.approx(np.array([[0.0, 0.0], [0.6, 0.8], [0.6, 0.8]]), abs=1e-7)


def test_vectors_that_the_caller_brings_are_used_and_scaled() -> None:
    embedder = TableEmbedder({"q": [1.0, 0.0]})
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=embedder)
    given: list[Any] = [[0.0, 5.0], np.array([2.0, 0.0])]
    corpus.add([Record(id="a", text="a"), Record(id="b", text="b")], embeddings=given)
    hits = corpus.run(BY_MEANING, "q").hits
    assert [(hit.id, hit.found_by[0].score) for hit in hits] == [("b", 1.0), ("a", 0.0)]
