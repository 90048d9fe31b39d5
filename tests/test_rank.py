"""Relevance, recency and density in one score."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import (
    ArgumentError,
    Candidates,
    Corpus,
    Record,
    Result,
    Stage,
    auto,
    composite,
    everyone,
    lexical,
    rrf,
    semantic,
    top,
)
from ctxarith.stages.rank import density, recency
from tests import strategies
from tests.conftest import NOW
from tests.fakes import TableEmbedder

QUERY = "?"


def near(cosines: dict[str, float], *records: Record) -> Corpus:
    """Records whose texts have these cosines with the query; a token is a word."""
    table = {text: [c, (1 - c * c) ** 0.5, 0.0] for text, c in cosines.items()}
    corpus = Corpus.in_memory(
        clock=lambda: NOW,
        embedder=TableEmbedder({QUERY: [1.0, 0.0, 0.0], **table}),
        tokenizer=lambda text: len(text.split()),
    )
    corpus.add(records)
    return corpus


def record(rid: str, text: str = "", **given: Any) -> Record:
    return Record(id=rid, text=text or rid, **given)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def ids(result: Result) -> list[str]:
    return [hit.id for hit in result.hits]


def ranked(corpus: Corpus, stage: Stage, query: str = QUERY) -> Result:
    return corpus.run(((semantic | lexical) & everyone) >> rrf() >> stage, query)


TWO_IN_FOUR = "pays 12 of 34"
NONE_IN_FOUR = "plain words without figures"
ONE_IN_TEN = "one 7 in ten tokens of this long plain text"


@pytest.fixture(scope="module")
def three() -> Corpus:
    return near(
        {TWO_IN_FOUR: 0.8, NONE_IN_FOUR: 0.9, ONE_IN_TEN: 0.6},
        record("a", TWO_IN_FOUR, created_at=days_ago(30)),
        record("b", NONE_IN_FOUR, created_at=NOW),
        record("c", ONE_IN_TEN),
    )


def test_the_formula_by_hand_on_three_records(three: Corpus) -> None:
    scores = {hit.id: hit.score for hit in ranked(three, composite()).hits}
    assert scores == pytest.approx(
        {
            "b": 0.40 * 0.9 + 0.35 * 1.0 + 0.25 * 0.0,
            "a": 0.40 * 0.8 + 0.35 * 0.5 + 0.25 * (0.5 / 1.5),
            "c": 0.40 * 0.6 + 0.35 * 0.5 + 0.25 * (0.1 / 1.1),
        },
        abs=1e-9,
    )
    assert list(scores) == ["b", "a", "c"]


def test_the_weights_are_the_callers(three: Corpus) -> None:
    hits = ranked(three, composite(weights=(0, 0, 2), half_density=0.1)).hits
    assert [(hit.id, round(hit.score, 9)) for hit in hits] == [("a", 1.666666667), ("c", 1.0), ("b", 0.0)]


def test_the_scale_of_density_is_the_callers(three: Corpus) -> None:
    hits = ranked(three, composite(weights=(0, 0, 1), half_density=0.5)).hits
    assert {hit.id: hit.score for hit in hits} == pytest.approx({"a": 0.5, "c": 0.1 / 0.6, "b": 0.0})


def test_the_half_life_is_the_callers(three: Corpus) -> None:
    hits = {hit.id: hit.score for hit in ranked(three, composite(weights=(0, 1, 0), half_life_days=15)).hits}
    assert hits == pytest.approx({"b": 1.0, "c": 0.5, "a": 0.25}, abs=1e-12)


@pytest.mark.parametrize(
    ("age", "expected"), [(0, 1.0), (15, 0.7071067811865476), (30, 0.5), (60, 0.25), (300, 2**-10)]
)
def test_recency_halves_every_thirty_days(age: float, expected: float) -> None:
    assert recency(days_ago(age), NOW) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "dated",
    [
        NOW,
        NOW + timedelta(minutes=5),
        NOW + timedelta(days=10),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    ],
)
@pytest.mark.parametrize("half_life", [30, 0.001])
def test_a_date_in_the_future_is_age_nought(dated: datetime, half_life: float) -> None:  # RE-03
    assert recency(dated, NOW, half_life) == 1.0


@pytest.mark.parametrize("dated", [datetime(1970, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)])
@pytest.mark.parametrize("half_life", [30, 0.001])
def test_an_ancient_date_weighs_next_to_nothing(dated: datetime, half_life: float) -> None:  # RE-03
    assert 0.0 <= recency(dated, NOW, half_life) < 1e-100


def test_future_and_ancient_dates_rank_without_running_over() -> None:  # RE-03
    far = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    dates = {"a": NOW, "b": NOW + timedelta(days=10), "c": far, "d": datetime(1, 1, 1, tzinfo=UTC)}
    corpus = near(dict.fromkeys(dates, 0.8), *(record(rid, created_at=at) for rid, at in dates.items()))
    hits = ranked(corpus, composite(weights=(0, 1, 0))).hits
    assert [(hit.id, hit.score) for hit in hits] == [("c", 1.0), ("b", 1.0), ("a", 1.0), ("d", 0.0)]


@given(strategies.times(), st.sampled_from([0.001, 30, 1e6]))
def test_recency_stays_between_nought_and_one(dated: datetime, half_life: float) -> None:
    assert 0.0 <= recency(dated.astimezone(UTC), NOW, half_life) <= 1.0


def test_density_is_of_the_record_alone() -> None:
    assert density(record("a", entity_count=1, token_count=1)) == 0.5
    assert density(record("a", entity_count=1, token_count=4), half=0.75) == 0.25
    assert density(record("a", entity_count=0, token_count=0)) == density(record("a")) == 0.0


def test_no_date_is_neutral_and_noted() -> None:  # RE-05
    same = {text: 0.8 for text in ("today", "undated", "old", "valid")}
    corpus = near(
        same,
        record("n1", "today", created_at=NOW),
        record("n2", "undated"),
        record("n3", "old", created_at=days_ago(5 * 365)),
        record("n4", "valid", valid_from=days_ago(1)),
    )
    hits = ranked(corpus, composite(weights=(0.7, 0.3, 0.0))).hits
    assert [hit.id for hit in hits] == ["n1", "n4", "n2", "n3"]
    assert {hit.id: hit.notes for hit in hits if hit.notes} == {"n2": ("recency: neutral (no date)",)}
    assert hits[2].score == pytest.approx(0.56 + 0.15)
    assert hits[1].score == pytest.approx(0.56 + 0.3 * 2 ** (-1 / 30))


def test_the_ranking_date_is_the_assertion_before_the_validity() -> None:
    corpus = near({"a": 0.8}, record("a", created_at=days_ago(30), valid_from=days_ago(300)))
    (hit,) = ranked(corpus, composite(weights=(0, 1, 0))).hits
    assert hit.score == pytest.approx(0.5)


@pytest.mark.parametrize("stage", [auto(), composite(half_life_days=90, floor=0.5)])
def test_fresh_small_talk_does_not_beat_the_old_answer(stage: Stage) -> None:  # RE-06
    corpus = near(
        {"warranty": 0.90, "lunch": 0.15},
        record("a1", "warranty", created_at=days_ago(700)),
        record("a2", "lunch", created_at=days_ago(1 / 24)),
    )
    assert ids(ranked(corpus, stage)) == ["a1", "a2"]
    assert ids(ranked(corpus, composite(half_life_days=90))) == ["a2", "a1"]


def test_of_two_good_answers_the_fresh_one_wins() -> None:  # RE-06
    corpus = near(
        {"old": 0.80, "new": 0.79},
        record("b1", "old", created_at=days_ago(400)),
        record("b2", "new", created_at=days_ago(2)),
    )
    assert ids(corpus.retrieve(QUERY)) == ["b2", "b1"]


def test_a_hair_of_relevance_does_not_beat_a_generation() -> None:  # RE-07
    corpus = near(
        {"old": 0.861, "new": 0.857},
        record("old", created_at="2024-05-01"),
        record("new", created_at="2026-05-01"),
    )
    assert ids(corpus.retrieve(QUERY)) == ["new", "old"]
    assert ids(corpus.retrieve(QUERY, rank="fused")) == ["old", "new"]


def test_relevance_enters_rounded_to_a_hundredth() -> None:
    corpus = near({"x": 0.864, "y": 0.856}, record("x"), record("y", created_at="2020-01-01"))
    hits = {hit.id: hit for hit in ranked(corpus, composite(weights=(1, 0, 0))).hits}
    assert [hit.score for hit in hits.values()] == [0.86, 0.86]
    assert list(hits) == ["y", "x"]
    assert hits["x"].relevance == pytest.approx(0.864, abs=1e-6)


@pytest.mark.parametrize(("relevance", "order"), [(0.44, ["best", "fresh"]), (0.45, ["fresh", "best"])])
def test_less_than_half_the_best_relevance_is_lifted_by_nothing(relevance: float, order: list[str]) -> None:
    corpus = near(
        {"best": 0.90, "fresh": relevance},
        record("best", created_at="2020-01-01"),
        record("fresh", created_at=NOW),
    )
    assert ids(corpus.retrieve(QUERY)) == order


def test_auto_is_the_fused_order_when_nothing_is_dated() -> None:
    texts = {TWO_IN_FOUR: 0.5, NONE_IN_FOUR: 0.6, ONE_IN_TEN: 0.4}
    corpus = near(texts, *(record(f"r{n}", text) for n, text in enumerate(texts)))
    fused, found = corpus.retrieve(QUERY, rank="fused"), corpus.retrieve(QUERY)
    assert ids(found) == ids(fused) == ["r1", "r0", "r2"]
    assert [hit.score for hit in found.hits] == [hit.score for hit in fused.hits] == [1 / 61, 1 / 62, 1 / 63]
    assert ids(corpus.retrieve(QUERY, rank="composite")) == ["r0", "r1", "r2"]


def test_auto_ranks_by_the_formula_as_soon_as_one_is_dated() -> None:
    corpus = near({"x": 0.8, "y": 0.7}, record("x"), record("y", created_at=NOW))
    hits = corpus.retrieve(QUERY).hits
    assert [(hit.id, round(hit.score, 9)) for hit in hits] == [("y", 0.28 + 0.35), ("x", 0.32 + 0.175)]


def test_ties_go_to_the_newest_then_by_id() -> None:
    corpus = near(
        dict.fromkeys("abcd", 0.8),
        record("d"),
        record("c"),
        record("b", created_at=days_ago(9)),
        record("a", created_at=days_ago(9)),
    )
    assert ids(ranked(corpus, composite(weights=(1, 0, 0)))) == ["a", "b", "c", "d"]


def test_relevance_is_the_mean_of_what_the_sources_say() -> None:
    pump, gasket = record("a", "pump valve"), record("b", "gasket seal")
    corpus = near({"pump valve": 0.8, "gasket seal": 0.5, "a pump": 1.0}, pump, gasket)
    # BM25 gives "pump valve" 0.4 of its bound, and the other text nothing.
    relevance = {hit.id: hit.relevance for hit in ranked(corpus, composite(), "a pump").hits}
    assert relevance == pytest.approx({"a": 0.6, "b": 0.25}, abs=1e-6)


def test_the_plain_published_form_reads_the_cosine_alone() -> None:
    corpus = near({"a": 0.8}, record("a"))
    (hit,) = ranked(corpus, composite(relevance="cosine", weights=(1, 0, 0))).hits
    assert hit.relevance == pytest.approx(0.8, abs=1e-6)
    assert hit.score == 0.8


@pytest.mark.parametrize("rank", ["auto", "fused", "composite", "relevance"])
def test_the_record_of_the_identifier_stays_on_top_in_every_order(corpus: Corpus, rank: str) -> None:
    corpus.add(
        [
            record("named", "GJ-4521 paid nothing yet", created_at="2020-01-01"),
            record("fresh", "fee quote of 45,000 for GJ 4521", created_at=NOW),
            record("other", "fee quote fee quote", created_at=NOW),
        ]
    )
    hits = corpus.retrieve("fee quote GJ-4521", rank=rank).hits
    assert [(hit.id, hit.tier) for hit in hits[:1]] == [("named", 1)]
    assert [hit.tier for hit in hits[1:]] == [0, 0]


@pytest.mark.parametrize("source", [semantic, lexical])
def test_the_record_of_the_identifier_stands_on_top_of_a_single_source_too(source: Candidates) -> None:
    named = record("named", "much else that GJ-4521 has said in a long call of last year")
    corpus = near({"fee GJ 4521": 0.9, named.text: 0.1}, named, record("close", "fee GJ 4521"))
    assert ids(corpus.run(source & everyone, "fee GJ-4521")) == ["named", "close"]


def test_what_falls_below_the_count_is_named(three: Corpus) -> None:
    result = ranked(three, composite()).trace
    assert result.drops == ()
    cut = three.run(((semantic | lexical) & everyone) >> rrf() >> composite() >> top(1), QUERY)
    assert ids(cut) == ["b"]
    assert [(drop.id, drop.stage) for drop in cut.drops] == [("a", "top"), ("c", "top")]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"weights": (1, 0)}, "weights"),
        ({"weights": (1, 0, -1)}, "weights"),
        ({"weights": (1, math.nan, 0)}, "weights"),
        ({"weights": ("1", 0, 0)}, "weights"),
        ({"half_life_days": 0}, "half_life_days"),
        ({"half_life_days": math.inf}, "half_life_days"),
        ({"half_density": -0.1}, "half_density"),
        ({"floor": 1.1}, "floor"),
        ({"floor": True}, "floor"),
        ({"relevance": "bm25"}, "relevance"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{named}="):
        composite(**arguments)


@pytest.mark.parametrize("rank", ["newest", "", None])
def test_an_unknown_rank_is_refused_by_name(three: Corpus, rank: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^rank="):
        three.retrieve(QUERY, rank=rank)


def test_relevance_alone_hears_no_date_and_spells_out_as_the_formula_without_the_rest(three: Corpus) -> None:
    assert ids(three.retrieve(QUERY, rank="relevance")) == ["b", "a", "c"]
    assert ids(three.retrieve(QUERY, rank="composite")) == ids(ranked(three, composite()))
    assert ids(three.retrieve(QUERY, rank="relevance")) == ids(ranked(three, composite(weights=(1, 0, 0))))
    old = near({"x": 0.9, "y": 0.8}, record("x", created_at=days_ago(900)), record("y", created_at=NOW))
    assert ids(old.retrieve(QUERY, rank="composite")) == ["y", "x"]
    assert ids(old.retrieve(QUERY, rank="relevance")) == ["x", "y"]
