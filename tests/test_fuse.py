"""Reciprocal rank fusion: the published formula, its edges, and sources with several chunks."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import (
    ArgumentError,
    Corpus,
    Drop,
    Hit,
    Record,
    Stage,
    at_least,
    composite,
    everyone,
    lexical,
    reciprocal_rank_fusion,
    rrf,
    semantic,
    superseded,
    top,
)
from ctxarith.algebra import Moment
from tests.conftest import NOW
from tests.fakes import TableEmbedder

BOTH = (semantic | lexical) & everyone
QUERY = "the valve"


def ranked(*, by_meaning: Sequence[str], texts: dict[str, str], query: str = QUERY) -> Corpus:
    """Records with these texts, whose cosines with the query fall in the order of `by_meaning`."""
    angle = {rid: 0.1 * (n + 1) for n, rid in enumerate(by_meaning)}
    table = {texts[rid]: [math.cos(a), math.sin(a), 0.0] for rid, a in angle.items()}
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=TableEmbedder({**table, query: [1.0, 0.0, 0.0]}))
    corpus.add([Record(id=rid, text=text) for rid, text in texts.items()])
    return corpus


def fused(corpus: Corpus, stage: Stage, query: str = QUERY) -> dict[str, float]:
    return {hit.id: hit.score for hit in corpus.run(BOTH >> stage, query).hits}


def test_the_worked_example_of_the_formula() -> None:
    scores = reciprocal_rank_fusion([["D1", "D4", "D2"], ["D2", "D1", "D4"]])
    assert list(scores) == ["D1", "D2", "D4"]
    assert [round(score, 6) for score in scores.values()] == [0.032522, 0.032266, 0.032002]


def test_the_worked_example_through_a_pipeline() -> None:
    texts = {"D1": "valve valve pump", "D2": "valve valve valve", "D4": "valve pump pump"}
    result = ranked(by_meaning=["D1", "D4", "D2"], texts=texts).run(BOTH >> rrf(), QUERY)
    assert [(hit.id, round(hit.fused or 0.0, 6)) for hit in result.hits] == [
        ("D1", 0.032522),
        ("D2", 0.032266),
        ("D4", 0.032002),
    ]
    ranks = {hit.id: {found.source: found.rank for found in hit.found_by} for hit in result.hits}
    assert ranks == {
        "D1": {"semantic": 1, "lexical": 2},
        "D2": {"semantic": 3, "lexical": 1},
        "D4": {"semantic": 2, "lexical": 3},
    }


def test_an_absent_id_adds_nothing_and_ranks_begin_at_one() -> None:  # FU-04
    scores = reciprocal_rank_fusion([["north", "east", "both"], ["south", "west", "both"]])
    assert list(scores) == ["both", "north", "south", "east", "west"]
    assert list(scores.values()) == pytest.approx([2 / 63, 1 / 61, 1 / 61, 1 / 62, 1 / 62], abs=1e-12)


def test_two_fourth_places_beat_one_first_place() -> None:  # FU-05
    scores = reciprocal_rank_fusion([["v1", "v2", "v3", "both"], ["w1", "w2", "w3", "both"]])
    assert list(scores)[:3] == ["both", "v1", "w1"]
    assert scores["both"] == pytest.approx(0.03125, abs=1e-12)


def test_the_constant_stands_in_the_trace() -> None:  # FU-05
    texts = {"a": "valve", "b": "valve pump"}
    result = ranked(by_meaning=["a", "b"], texts=texts).run(BOTH >> rrf(), QUERY)
    assert "k=60" in result.trace.stages[0]


@pytest.mark.parametrize("k", [-1, math.nan, math.inf, "60", None, True])
def test_an_impossible_constant_is_refused_by_name(k: float) -> None:  # FU-06
    with pytest.raises(ArgumentError, match=r"^k="):
        rrf(k=k)
    with pytest.raises(ArgumentError, match=r"^k="):
        reciprocal_rank_fusion([["a"]], k=k)


@pytest.mark.parametrize(("k", "score"), [(0, 1.0), (0.5, 2 / 3)])
def test_small_constants_give_finite_scores(k: float, score: float) -> None:  # FU-06
    assert reciprocal_rank_fusion([["a"]], k=k) == {"a": pytest.approx(score)}


def test_an_id_twice_in_one_list_is_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match="'b'"):
        reciprocal_rank_fusion([["a"], ["a", "b", "c", "b"]])


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [1.0, math.nan], [1.0, "2"], [1.0, True]])
def test_weights_that_do_not_fit_are_refused(weights: list[float]) -> None:
    with pytest.raises(ArgumentError, match=r"^weights="):
        reciprocal_rank_fusion([["a"], ["b"]], weights=weights)


def test_weights_multiply_what_a_list_adds() -> None:
    scores = reciprocal_rank_fusion([["a", "b"], ["b", "a"]], weights=[2, 0.5])
    assert scores == pytest.approx({"a": 2 / 61 + 0.5 / 62, "b": 2 / 62 + 0.5 / 61}, abs=1e-12)


def test_weights_of_the_stage_go_by_source() -> None:
    corpus = ranked(by_meaning=["a", "b"], texts={"a": "valve pump", "b": "valve"})
    scores = fused(corpus, rrf(weights={"lexical": 3}))
    assert scores == pytest.approx({"b": 1 / 62 + 3 / 61, "a": 1 / 61 + 3 / 62}, abs=1e-12)
    assert list(scores) == ["b", "a"]


def test_no_list_and_empty_lists_fuse_to_nothing() -> None:
    assert reciprocal_rank_fusion([]) == reciprocal_rank_fusion([[], []]) == {}


RANKINGS = st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=4)


@given(RANKINGS)
def test_the_lists_are_left_as_they_were(rankings: list[list[str]]) -> None:
    before = copy.deepcopy(rankings)
    reciprocal_rank_fusion(rankings)
    assert rankings == before


@given(RANKINGS, st.randoms(use_true_random=False))
def test_the_order_of_the_lists_changes_nothing(rankings: list[list[str]], random: object) -> None:  # FU-09
    first = reciprocal_rank_fusion(rankings)
    for shuffled in permutations(rankings):
        assert list(reciprocal_rank_fusion(shuffled).items()) == list(first.items())


def test_equal_places_in_three_lists_tie_and_go_by_id() -> None:
    # z at 1, 2, 7 and a at 1, 7, 2 of the lists: the same sum, if it is rounded only once.
    rankings = [
        ["z", "p1", "p2", "p3", "p4", "p5", "a"],
        ["a", "z", "q2", "q3", "q4", "q5", "q6"],
        ["r1", "a", "r2", "r3", "r4", "r5", "z"],
    ]
    scores = reciprocal_rank_fusion([rankings[n] for n in (1, 0, 2)])
    assert list(scores)[:2] == ["a", "z"]
    assert scores["a"] == scores["z"]


def test_ties_go_by_id_and_not_by_who_found_them() -> None:  # FU-09
    corpus = ranked(by_meaning=["a1"], texts={"a1": "lamp", "a2": "valve"})
    only_own = (semantic(depth=1) | lexical) & everyone
    for _ in range(50):
        hits = corpus.run(only_own >> rrf(), QUERY).hits
        assert [(hit.id, hit.score) for hit in hits] == [("a1", 1 / 61), ("a2", 1 / 61)]


def test_the_same_text_twice_stays_two_records() -> None:  # FU-01
    corpus = ranked(by_meaning=[], texts={"x": "unrelated"}, query="rent")
    rent = "Rent is 900 EUR"
    corpus.add(
        [
            {"id": "n1", "text": rent, "source_id": "lease-2025.pdf", "created_at": "2025-02-01"},
            {"id": "n2", "text": rent, "source_id": "lease-2026.pdf", "created_at": "2026-02-01"},
        ]
    )
    result = corpus.retrieve("rent")
    sources = {hit.id: hit.record.source_id for hit in result.hits if hit.id != "x"}
    assert sources == {"n1": "lease-2025.pdf", "n2": "lease-2026.pdf"}
    assert result.text.count("(2025-02-01) Rent is 900 EUR") == 1


def test_twins_of_two_documents_can_both_be_cited(corpus: Corpus) -> None:  # FU-02
    sign = "Visitors sign in at the desk"
    twins = [
        Record(id="s1", text=sign, source_id="handbook-A"),
        Record(id="s2", text=sign, source_id="handbook-B"),
    ]
    corpus.add(twins)
    assert [hit.id for hit in corpus.retrieve("visitors sign in").hits] == ["s1", "s2"]
    one = corpus.retrieve("visitors sign in", tokens=10)
    assert one.citations == {1: ("handbook-A", "1")}
    assert [(drop.id, drop.stage) for drop in one.drops] == [("s2", "budget")]


def chunks(*named: tuple[str, str, str]) -> list[Record]:
    return [Record(id=rid, text=text, source_id=source) for rid, source, text in named]


def test_a_source_counts_once_in_each_list_at_its_best_rank() -> None:  # FU-03
    texts = {
        "S1": "valve valve valve valve",
        "L1": "valve valve valve pump",
        "L2": "valve valve pump pump",
        "L3": "valve pump pump pump",
    }
    corpus = ranked(by_meaning=["S1", "L2"], texts=texts)
    corpus.add(chunks(*((rid, rid[0], text) for rid, text in texts.items())))
    pipeline = (semantic(depth=2) | lexical) & everyone
    result = corpus.run(pipeline >> rrf(group_by="source"), QUERY)
    assert {hit.record.source_id: hit.score for hit in result.hits} == pytest.approx(
        {"S": 2 / 61, "L": 2 / 62}, abs=1e-12
    )
    assert [hit.record.source_id for hit in result.hits] == ["S", "L"]


def test_the_rank_of_a_source_counts_the_chunks_above_it() -> None:
    texts = {
        "L1": "valve valve valve valve",
        "L2": "valve valve valve pump",
        "L3": "valve valve pump pump",
        "T1": "valve pump pump pump",
    }
    corpus = ranked(by_meaning=[], texts=texts | {"x": "lamp"})
    corpus.add(chunks(*((rid, rid[0], text) for rid, text in texts.items())))
    result = corpus.run((lexical & everyone) >> rrf(group_by="source"), QUERY)
    scores = {hit.record.source_id: hit.score for hit in result.hits}
    assert scores == pytest.approx({"L": 1 / 61, "T": 1 / 64}, abs=1e-12)


def test_a_cut_before_fusion_does_not_move_the_ranks() -> None:
    corpus = ranked(by_meaning=["a", "b", "c"], texts={"a": "pump", "b": "lamp", "c": "valve"})
    pipeline = BOTH >> at_least(lexical=0.1) >> rrf()
    (hit,) = corpus.run(pipeline, QUERY).hits
    assert {found.source: found.rank for found in hit.found_by} == {"semantic": 3, "lexical": 1}
    assert hit.score == pytest.approx(1 / 63 + 1 / 61, abs=1e-12)


def test_a_document_of_many_chunks_takes_one_place(corpus: Corpus) -> None:  # FU-10
    big = [Record(id=f"big#{n}", text=f"audit audit audit {n}", source_id="big") for n in range(30)]
    corpus.add([*big, *(Record(id=f"m{n}", text=f"audit of plant {n}") for n in range(1, 5))])
    result = corpus.retrieve("audit", top=5, group_by="source")
    assert {hit.record.source_id for hit in result.hits} == {"big", "m1", "m2", "m3", "m4"}
    capped = [drop for drop in result.drops if drop.stage == "rrf"]
    assert len(capped) == 29
    assert all(drop.reason.startswith("more than 1 of ") for drop in capped)


def test_several_chunks_of_a_source_may_stay() -> None:
    texts = {"a1": "valve valve", "a2": "valve pump", "a3": "pump lamp", "b1": "lamp"}
    corpus = ranked(by_meaning=["a1", "a2", "a3", "b1"], texts=texts)
    corpus.add(chunks(*((rid, rid[0], text) for rid, text in texts.items())))
    result = corpus.run(BOTH >> rrf(group_by="source", per_source=2), QUERY)
    assert [hit.id for hit in result.hits] == ["a1", "a2", "b1"]


def test_a_superseded_chunk_stays_below_its_successor_when_grouped() -> None:
    texts = {"a0": "valve valve valve", "old": "valve pump", "new": "lamp"}
    corpus = ranked(by_meaning=["a0", "old"], texts=texts)
    corpus.add(
        [Record(id="a0", text=texts["a0"], source_id="A"), Record(id="old", text="valve pump", source_id="A")]
    )
    corpus.add([{"id": "new", "text": "lamp", "source_id": "B", "supersedes": ["old"]}])
    hits = corpus.run(BOTH >> rrf(group_by="source", per_source=2), QUERY).hits
    assert [hit.id for hit in hits] == ["a0", "new", "old"]


@pytest.mark.parametrize(
    "arguments", [{"group_by": "doc"}, {"per_source": 0}, {"per_source": True}, {"weights": {"semantic": -1}}]
)
def test_arguments_out_of_range_are_refused_at_construction(arguments: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        rrf(**arguments)  # type: ignore[arg-type]


def test_a_threshold_names_the_scale_that_it_cuts_on() -> None:  # FU-07
    corpus = ranked(by_meaning=["a", "b", "c"], texts={"a": "valve", "b": "valve pump", "c": "lamp valve"})
    result = corpus.run(BOTH >> at_least(semantic=0.3) >> rrf() >> top(1), QUERY)
    assert [hit.id for hit in result.hits] == ["a"]
    with pytest.raises(TypeError):
        at_least(0.3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "arguments", [{}, {"semantic": 0.1, "lexical": 0.1}, {"semantic": math.nan}, {"semantic": True}]
)
def test_a_threshold_needs_exactly_one_finite_number(arguments: dict[str, float]) -> None:
    with pytest.raises(ArgumentError):
        at_least(**arguments)


def test_a_threshold_on_the_cosine_keeps_what_reaches_it() -> None:  # FU-08, without a reranker
    table = {"m1": [0.28, 0.96], "m2": [0.71, 0.7042], "q": [1.0, 0.0]}
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=TableEmbedder(table))
    corpus.add([Record(id="m1", text="m1"), Record(id="m2", text="m2")])
    result = corpus.run((semantic & everyone) >> at_least(semantic=0.5), "q")
    assert [hit.id for hit in result.hits] == ["m2"]
    assert [(drop.id, drop.reason) for drop in result.drops] == [("m1", "semantic score below 0.5")]


def test_fusion_of_a_current_set_ranks_the_survivors() -> None:
    texts = {"old": "valve valve", "new": "lamp", "b": "valve pump"}
    corpus = ranked(by_meaning=["old", "b"], texts=texts)
    corpus.add([{"id": "new", "text": "lamp", "supersedes": ["old"]}])
    hits: Sequence[Hit] = corpus.run((BOTH - superseded) >> rrf(), QUERY).hits
    assert [(hit.id, hit.score) for hit in hits] == [("new", 2 / 61), ("b", 2 / 62)]


@dataclass(frozen=True, slots=True)
class WithoutPumps(Stage):
    """A stage of a user's own, over plain hits."""

    name = "without_pumps"

    def __call__(self, hits: Sequence[Hit], moment: Moment, /) -> tuple[list[Hit], list[Drop]]:
        kept = [hit for hit in hits if "pump" not in hit.record.text]
        return kept, [Drop(hit.record, self.name, "a pump") for hit in hits if hit not in kept]


def test_a_stage_of_ones_own_may_stand_anywhere() -> None:
    texts = {"a": "valve pump", "b": "valve lamp", "c": "valve"}
    corpus = ranked(by_meaning=["a", "b", "c"], texts=texts)
    for pipeline in (BOTH >> WithoutPumps() >> rrf(), BOTH >> rrf() >> WithoutPumps()):
        result = corpus.run(pipeline >> composite() >> top(1), QUERY)
        assert [hit.id for hit in result.hits] == ["c"]
        assert [(drop.id, drop.stage) for drop in result.drops] == [("a", "without_pumps"), ("b", "top")]
