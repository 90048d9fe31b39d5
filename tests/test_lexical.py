"""BM25 over the permitted records: scores by hand, scripts and codes, exact phrases."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from ctxarith import (
    ArgumentError,
    Candidates,
    Corpus,
    Principal,
    Record,
    Result,
    everyone,
    field,
    lexical,
    rrf,
    scope,
    semantic,
    top,
)
from ctxarith.index.analysis import Analyzer
from ctxarith.index.lexical import Lexical
from tests.conftest import NOW, MakeCorpus
from tests.fakes import WordEmbedder, stacked

BY_WORDS = lexical & everyone


def holding(*texts: str) -> Corpus:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder())
    corpus.add([Record(id=f"r{n}", text=text) for n, text in enumerate(texts, start=1)])
    return corpus


def found(corpus: Corpus, query: str) -> list[str]:
    return [hit.id for hit in corpus.run(BY_WORDS, query).hits]


def scores(result: Result) -> dict[str, float]:
    return {hit.id: hit.found_by[0].score for hit in result.hits}


def test_scores_of_one_term_by_hand() -> None:
    result = holding("pump valve", "pump pump seal", "gasket").run(BY_WORDS, "pump")
    # idf = ln(1 + 1.5 / 2.5); r1: 1 * 2.5 / (1 + 1.5); r2: 2 * 2.5 / (2 + 2.0625)
    assert scores(result) == pytest.approx({"r2": 0.5784660052255209, "r1": 0.4700036292457356}, abs=1e-9)
    assert [hit.id for hit in result.hits] == ["r2", "r1"]


def test_terms_add_up_and_a_term_asked_twice_counts_twice() -> None:
    corpus = holding("pump valve", "pump pump seal", "gasket")
    # idf of valve = ln(1 + 2.5 / 1.5) = 0.980829253
    assert scores(corpus.run(BY_WORDS, "pump valve"))["r1"] == pytest.approx(1.4508328822574619, abs=1e-9)
    assert scores(corpus.run(BY_WORDS, "valve pump valve"))["r1"] == pytest.approx(
        2.431662135269188, abs=1e-9
    )


def test_the_share_is_the_part_of_a_bound_that_no_score_reaches() -> None:
    (hit,) = holding("pump valve", "gasket seal").run(BY_WORDS, "pump").hits
    # The term part is 1 of at most k1 + 1 = 2.5.
    assert hit.found_by[0].share == pytest.approx(0.4, abs=1e-9)


def test_statistics_are_those_of_the_permitted_rows_alone() -> None:
    corpus = holding("pump valve", "pump pump seal", "gasket")
    before = scores(corpus.run(BY_WORDS, "pump", principal=Principal("default")))
    corpus.add([Record(id=f"x{n}", text="pump " * 50, tenant="beta") for n in range(3)])
    corpus.add([Record(id="y", text="pump " * 50, audience=("board",))])
    assert scores(corpus.run(BY_WORDS, "pump", principal=Principal("default"))) == before


def test_statistics_are_those_of_the_rows_within_scope_and_filter() -> None:
    corpus = holding("pump valve", "pump pump seal", "gasket")
    corpus.add([Record(id="x", text="pump " * 9, scope="other", metadata={"kind": "spam"})])
    expected = pytest.approx({"r2": 0.5784660052255209, "r1": 0.4700036292457356}, abs=1e-9)
    assert scores(corpus.run(BY_WORDS & ~(field("kind") == "spam"), "pump")) == expected
    assert scores(corpus.run(BY_WORDS & ~scope("other"), "pump")) == expected


WORDS = ("pump", "valve", "lamp", "fund", "seal")


@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), min_size=1, max_size=6),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True),
)
def test_the_term_part_is_that_of_rank_bm25(texts: list[list[str]], query: list[str]) -> None:
    oracle = BM25Okapi(texts, k1=1.5, b=0.75)
    # Its IDF can be negative; ours is put in its place, the rest of its formula is sound.
    holders = {word: sum(word in text for text in texts) for word in WORDS}
    oracle.idf = {w: math.log(1 + (len(texts) - df + 0.5) / (df + 0.5)) for w, df in holders.items()}
    rows, values = _bm25(texts, query)
    expected = oracle.get_scores(query)
    assert rows == np.flatnonzero(expected).tolist()
    assert values == pytest.approx(expected[rows].tolist(), abs=1e-9)


def _bm25(texts: Sequence[Sequence[str]], query: Sequence[str]) -> tuple[list[int], list[float]]:
    analyzer = Analyzer(stem=False)
    records = [Record(id=f"{n:06}", text=" ".join(text)) for n, text in enumerate(texts)]
    index = Lexical(stacked(records, analyzer=analyzer))
    rows, values, bound = index.scores(np.ones(len(texts), np.bool_), analyzer.query(" ".join(query)))
    assert all(0 < value < bound for value in values)
    return rows.tolist(), values.tolist()


def test_no_record_at_all_is_an_empty_result(corpus: Corpus) -> None:  # LX-01, A
    result = corpus.retrieve("refund window")
    assert (result.hits, result.text, result.tokens) == ((), "", 0)
    assert result.explain().as_dict()["funnel"][0]["count"] == 0


def test_no_permitted_record_is_an_empty_result_and_the_funnel_says_where(corpus: Corpus) -> None:  # LX-01, B
    corpus.add([Record(id=f"b{n}", text="Refund window", tenant="beta") for n in range(3)])
    result = corpus.retrieve("refund window", principal=Principal("acme"))
    assert (result.hits, result.drops) == ((), ())
    assert (result.trace.steps[0].stage, result.trace.steps[0].count) == ("permitted", 0)


def test_a_lexical_stage_without_rows_leaves_the_dense_ones(corpus: Corpus) -> None:  # LX-01, C
    corpus.add([Record(id="d1", text="Refunds take a week"), Record(id="d2", text="Pump manual")])
    result = corpus.retrieve("一")
    assert {hit.id for hit in result.hits} == {"d1", "d2"}
    assert all(hit.found("lexical") is None for hit in result.hits)


def test_blank_records_are_never_hits(corpus: Corpus) -> None:  # LX-02
    corpus.add([Record(id=f"b{n}", text=text) for n, text in enumerate(["", "   \n", "--- !!!"])])
    assert corpus.retrieve("warranty").hits == ()
    corpus.add([Record(id="w", text="Warranty lasts 24 months")])
    result = corpus.retrieve("warranty")
    assert [hit.id for hit in result.hits] == ["w"]
    assert [found.rank for found in result.hits[0].found_by] == [1, 1]


def test_a_term_in_half_of_the_records_scores_above_zero() -> None:  # LX-03
    corpus = holding("KYO-H12 valve leak", "KYO-H12 valve spares list", "pump manual", "pump wiring")
    result = scores(corpus.run(BY_WORDS, "KYO-H12"))
    assert sorted(result) == ["r1", "r2"]
    assert min(result.values()) > 0


def test_one_of_two_records_is_found_by_its_word() -> None:  # LX-03
    corpus = holding("refund window is thirty days", "shipping takes five days")
    # tf part 1 for a text of average length, but the lengths are 4 and 4: idf = ln(1 + 1.5 / 1.5)
    assert scores(corpus.run(BY_WORDS, "refund")) == pytest.approx({"r1": math.log(2)}, abs=1e-9)


def test_the_only_record_scores_above_zero() -> None:  # LX-04, A
    corpus = holding("refund window is thirty days")
    assert scores(corpus.run(BY_WORDS, "refund")) == pytest.approx({"r1": math.log(4 / 3)}, abs=1e-9)


def test_a_word_that_all_records_hold_still_counts() -> None:  # LX-04, B
    result = holding("valve valve valve torque", "valve").run(BY_WORDS, "valve torque")
    assert [hit.id for hit in result.hits] == ["r1", "r2"]
    assert min(scores(result).values()) > 0


@pytest.mark.parametrize(("query", "ids"), [("返品", ["r1"]), ("配送料", ["r2"]), ("保証書", [])])
def test_unsegmented_japanese_is_found_exactly(query: str, ids: list[str]) -> None:  # LX-05
    texts = ("返品は購入後三十日以内に限ります", "配送料は全国一律五百円です", "営業時間は午前九時からです")
    assert found(holding(*texts), query) == ids


CODES = ("Valve KYO-H12 needs 35 Nm.", "Valve KYO-H21 needs 40 Nm.", "See CVE-2023-4567 before upgrade.")


@pytest.mark.parametrize("query", ["KYO-H12", "kyo-h12", "KYO H12", "KYOH12", "H12", "KYO–H12"])
def test_a_code_is_found_whole_joined_and_in_parts(query: str) -> None:  # LX-06
    assert found(holding(*CODES), query)[0] == "r1"


def test_half_a_code_finds_only_what_holds_it() -> None:  # LX-06
    assert found(holding(*CODES), "H12") == ["r1"]
    assert found(holding(*CODES), "2023-4567") == ["r3"]


@pytest.mark.parametrize(
    ("query", "ids"), [("warranty", ["r1"]), ("WARRANTY?", ["r1"]), ("refund", ["r2"]), ("invoice", ["r2"])]
)
def test_punctuation_and_case_do_not_hide_a_word(query: str, ids: list[str]) -> None:  # LX-07
    assert (
        found(holding("This part is under Warranty.", "(Refund), then invoice:", "Pump manual"), query) == ids
    )


@pytest.mark.parametrize(
    ("query", "best"), [("гарантия", "r1"), ("εγγύηση", "r2"), ("ZÜRICH", "r3"), ("caf\u00e9", "r4")]
)
def test_words_of_other_alphabets_are_found(query: str, best: str) -> None:  # LX-08
    texts = (
        "Гарантия действует два года",
        "Η εγγύηση λήγει αύριο",
        "Die Rückgabe in Zürich",
        "cafe\u0301 lease",
    )
    assert found(holding(*texts), query) == [best]


@pytest.mark.parametrize("source", [lexical, semantic, lexical | semantic])
def test_asking_for_more_than_there_is_gives_what_there_is(source: Candidates) -> None:  # LX-09
    corpus = holding("Lease ends in May")
    assert [hit.id for hit in corpus.run((source & everyone) >> rrf() >> top(20), "lease").hits] == ["r1"]


@pytest.mark.parametrize("count", [0, -1, True, 2.0, "5"])
def test_a_count_below_one_is_refused_before_anything_runs(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:  # LX-09
    corpus = holding("Lease ends in May")
    monkeypatch.setattr(WordEmbedder, "embed_query", lambda *_: pytest.fail("a stage ran"))
    with pytest.raises(ArgumentError, match="top="):
        corpus.retrieve("lease", top=count)


def test_a_searchable_title_is_found_by_both_stages(make_corpus: MakeCorpus) -> None:  # LX-10
    embedder = WordEmbedder()
    corpus = make_corpus(embedder=embedder, searchable=["title"])
    corpus.add(
        [
            Record(id="t1", text="Keys are with the porter.", metadata={"title": "Site KYO handover"}),
            Record(id="t2", text="Porter roster"),
        ]
    )
    assert found(corpus, "KYO handover") == ["t1"]
    assert "Site KYO handover\nKeys are with the porter." in embedder.embedded


def test_an_undeclared_title_is_seen_by_no_stage(make_corpus: MakeCorpus) -> None:  # LX-10
    embedder = WordEmbedder()
    corpus = make_corpus(embedder=embedder)
    title = {"title": "Site KYO handover"}
    corpus.add([Record(id="t1", text="Keys are with the porter.", metadata=title)])
    assert found(corpus, "KYO handover") == []
    assert embedder.embedded == ["Keys are with the porter."]


def test_exact_mode_wants_quoted_phrases_word_by_word() -> None:
    corpus = holding("the annual fee is due", "annual report on a fee", "fee, annual")
    exact = lexical(exact=True) & everyone
    assert [hit.id for hit in corpus.run(exact, '"annual fee" due').hits] == ["r1"]
    assert [hit.id for hit in corpus.run(exact, "annual fee").hits] == ["r3", "r1", "r2"]


def test_exact_mode_wants_every_identifier() -> None:
    corpus = holding("KYO-H12 for GJ-4521", "KYO-H12 valve", "KYO H12 and GJ 4521")
    exact = lexical(exact=True) & everyone
    assert [hit.id for hit in corpus.run(exact, "KYO-H12 GJ-4521").hits] == ["r1"]


def test_a_record_of_the_named_identifier_stands_above_better_scores() -> None:
    corpus = holding("GJ-4521", "fee fee fee fee quote quote quote quote", "fee quote")
    corpus.add([Record(id="long", text="GJ-4521 called once about a batch, a fee and much else besides")])
    result = corpus.retrieve("fee quote of GJ-4521")
    assert {hit.id for hit in result.hits[:2]} == {"r1", "long"}
    assert [hit.tier for hit in result.hits] == [1, 1, 0, 0]


def test_a_possessive_names_the_identifier_too() -> None:
    corpus = holding("fee fee fee quote", "GJ-4521 asked again")
    assert corpus.retrieve("GJ-4521's fee quote").hits[0].id == "r2"


def test_a_longer_code_is_not_the_identifier() -> None:
    corpus = holding("GJ-45210 fee", "GJ-4521-B fee", "GJ-4521 fee")
    assert {hit.id: hit.tier for hit in corpus.retrieve("GJ-4521").hits} == {"r3": 1, "r1": 0, "r2": 0}
