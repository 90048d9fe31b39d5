"""Words that are misspelt or unfinished: what they are taken for, what it costs, and what never happens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import ArgumentError, Corpus, Principal, Record, Result, everyone, field, lexical, semantic
from ctxarith.index.analysis import Terms
from ctxarith.index.build import segment_arrays
from ctxarith.index.lexical import Lexical
from ctxarith.index.segment import Segment
from ctxarith.index.stack import Stack
from ctxarith.ports import Row
from tests.conftest import NOW, MakeCorpus
from tests.fakes import WordEmbedder

FUZZY = lexical(fuzzy_prefix=True) & everyone
CODES = ("Valve KYO-H12 needs 35 Nm.", "Valve KYO-H21 needs 40 Nm.", "See CVE-2023-4567 before upgrade.")


def holding(*texts: str, **options: Any) -> Corpus:
    corpus = Corpus.in_memory(**{"clock": lambda: NOW, "embedder": WordEmbedder(), **options})
    corpus.add([Record(id=f"r{n}", text=text) for n, text in enumerate(texts, start=1)])
    return corpus


def found(corpus: Corpus, query: str, **options: Any) -> list[str]:
    return [hit.id for hit in corpus.run(FUZZY, query, **options).hits]


def note(result: Result) -> str:
    return next(step.note for step in result.trace.steps if step.stage == "lexical")


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("vavle", ["r1"]),  # neighbours change places
        ("warrenty", ["r2"]),
        ("invoise", ["r3"]),
        ("ahmadebad", ["r3"]),  # two edits, from eight letters
        ("warr", ["r2"]),
        ("inv", ["r3"]),
        ("in", []),
        ("wa", []),
        ("vulbe", []),  # two edits in five letters
    ],
)
def test_a_misspelt_or_unfinished_word_finds_what_was_meant(query: str, ids: list[str]) -> None:
    corpus = holding("the valve leaks", "warranty of the pump", "an invoice, Ahmedabad")
    assert found(corpus, query) == ids
    assert corpus.run(lexical & everyone, query).hits == ()


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("KYO-H1", ["r1"]),
        ("kyo-h2", ["r2"]),
        ("KYOH1", ["r1"]),
        ("CVE-2023-45", ["r3"]),
        ("KXO-H12", ["r1"]),
        ("KYO-H", ["r1", "r2"]),
    ],
)
def test_an_unfinished_code_finds_those_that_begin_with_it(query: str, ids: list[str]) -> None:
    assert found(holding(*CODES), query)[: len(ids)] == ids


def test_a_digit_is_never_edited() -> None:
    corpus = holding("GJ-4521 called", "fee 12000", "in 2026")
    assert found(corpus, "4512") == found(corpus, "1200") == found(corpus, "2025") == []
    assert [hit.tier for hit in corpus.run(FUZZY, "GJ-452").hits] == [0]
    assert "4521" not in note(corpus.run(FUZZY, "GJ-4512"))


def test_a_word_that_some_record_holds_is_taken_as_it_stands() -> None:
    corpus = holding("pump", "dump", "pumpkin")
    assert found(corpus, "pump") == ["r1"]
    assert found(corpus, "pumb") == ["r1"]
    assert corpus.run(FUZZY, "pump").hits == corpus.run(lexical & everyone, "pump").hits


def test_a_match_counts_by_the_share_of_characters_that_agree() -> None:
    plain = holding("valve", "lamp", "seal").run(lexical & everyone, "valve").hits[0].score
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder(), stem=False)
    corpus.add([Record(id=f"r{n}", text=text) for n, text in enumerate(("valve", "lamp", "seal"))])
    assert corpus.run(FUZZY, "vavle").hits[0].score == pytest.approx(plain * 4 / 5)
    assert corpus.run(FUZZY, "val").hits[0].score == pytest.approx(plain * 3 / 5)


def test_terms_for_one_word_count_as_one_term_and_the_best_of_them_counts() -> None:
    corpus = holding("warrant", "warranted warrantor", "lamp", stem=False)
    one, two = corpus.run(FUZZY, "warra").hits
    assert (one.id, two.id) == ("r1", "r2")
    # Both hold one of the terms: df is 2, and the longer text scores by its nearer word alone.
    idf, average = np.log(1 + 1.5 / 2.5), 4 / 3
    assert one.score == pytest.approx(idf * 5 / 7 * 2.5 / (1 + 1.5 * (0.25 + 0.75 / average)))
    assert two.score == pytest.approx(idf * 5 / 9 * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 2 / average)))


def test_quotation_marks_keep_a_word_as_it_stands() -> None:
    corpus = holding("the valve leaks")
    assert found(corpus, '"vavle" leaks') == ["r1"]
    assert "vav" not in note(corpus.run(FUZZY, '"vavle" leaks'))
    assert found(corpus, '"vavle"') == found(corpus, "“KYO-H1”") == []


def test_a_named_code_stands_above_what_merely_looks_like_it() -> None:
    corpus = holding("KYO-H12", "KYO-H123 KYO-H124 leaks leaks", "leaks")
    first = corpus.run(FUZZY, "KYO-H12 leaksx").hits[0]
    assert (first.id, first.tier) == ("r1", 1)


@pytest.mark.parametrize(("query", "ids"), [("ગુજરાત", ["r1"]), ("гаранти", ["r2"]), ("caffe", ["r3"])])
def test_words_of_other_scripts_are_completed_and_mended_too(query: str, ids: list[str]) -> None:
    assert found(holding("ગુજરાતીમાં", "Гарантия действует", "café lease"), query) == ids


def test_the_trace_says_what_a_word_was_taken_for() -> None:
    corpus = holding("the valve leaks", "warranty")
    assert note(corpus.run(FUZZY, "vavle warr pump")) == "vavl as valv; warr as warranti"
    assert note(corpus.run(lexical & everyone, "vavle")) == ""


HIDDEN: list[dict[str, Any]] = [{"audience": ["board"]}, {"tenant": "beta"}, {"embargo_until": "2027-01-01"}]


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("apart", [False, True])
def test_a_term_that_only_forbidden_records_hold_changes_nothing(
    make_corpus: MakeCorpus, hidden: dict[str, Any], apart: bool
) -> None:
    seen = [Record(id=f"r{n}", text=text) for n, text in enumerate(("warranty", "warranties lapse", "lamp"))]
    closed = [Record(id="x", text="warrent warr warra vavle lampe", **hidden)]
    alone, both = make_corpus(), make_corpus()
    alone.add(seen)
    for batch in [closed, seen] if apart else [closed + seen]:
        both.add(batch)
    me = Principal("default")
    for query in ("warrent", "warr", "warra", "vavle", "lampe", "lamq"):
        one, other = (corpus.run(FUZZY, query, principal=me) for corpus in (alone, both))
        assert one.hits == other.hits
        assert note(one) == note(other)


def test_a_term_outside_scope_and_filter_is_not_there_either() -> None:
    corpus = holding("warranty")
    corpus.add([Record(id="x", text="warrant", metadata={"kind": "spam"})])
    assert [hit.id for hit in corpus.run(FUZZY & ~(field("kind") == "spam"), "warrant").hits] == ["r1"]
    assert found(corpus, "warrant") == ["x"]


# Held against the rule, term by term


LETTERS = "ab1-é日"
WORDS = st.text(LETTERS, min_size=1, max_size=9)


def edits(one: str, other: str) -> int:
    """Optimal string alignment, as it is defined."""
    table = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i, a in enumerate(one, start=1):
        for j, b in enumerate(other, start=1):
            ways = [table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a != b)]
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                ways.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(ways)
    return table[len(one), len(other)]


def expected(word: str, terms: set[str]) -> dict[str, float]:
    if word in terms:
        return {}
    allowed = 2 if len(word) >= 8 else 1 if len(word) >= 4 else 0
    digits = [c for c in word if c.isdigit()]
    weights = {}
    for term in terms:
        begins = len(word) >= 3 and term.startswith(word) and not word.isdigit()
        mended = edits(word, term) <= allowed and digits == [c for c in term if c.isdigit()]
        if begins or mended:
            weights[term] = 1 - edits(word, term) / max(len(word), len(term))
    return dict(sorted(weights.items(), key=lambda pair: (-pair[1], pair[0]))[:50])


@given(st.lists(st.lists(WORDS, max_size=6), max_size=6), st.integers(0, 6), WORDS, st.randoms())
def test_a_word_is_taken_for_what_the_rule_says_and_nothing_else(
    texts: list[list[str]], middle: int, word: str, chance: Any
) -> None:
    rows = [Row(Record(id=f"{n}", text="x"), np.ones(1, np.float32)) for n in range(len(texts))]
    terms = [Terms(dict.fromkeys(words, 1), len(words)) for words in texts]
    parts = [slice(0, middle), slice(middle, None)]
    stack = Stack([Segment(segment_arrays(rows[part], terms[part]), str(part)) for part in parts])
    target = np.asarray([chance.random() < 0.6 for _ in texts], np.bool_)
    held = {w for row, ok in enumerate(target) if ok for w in texts[int(stack[row].id)]}
    assert dict(Lexical(stack).near(target, [word]).get(word, {})) == expected(word, held)


def test_the_fifty_nearest_terms_stand_for_a_word() -> None:
    words = [f"abc{a}{b}" for a in "efghijklmn" for b in "efghijk"]
    corpus = holding(*words, "abcdefgh", stem=False)
    assert len(corpus.run(FUZZY, "abc").hits) == 50
    assert "r71" not in found(corpus, "abc")


# Through the front door


def test_a_question_says_how_its_words_are_taken(corpus: Corpus) -> None:
    corpus.add(
        [
            Record(id="r1", text="the annual fee"),
            Record(id="r2", text="a fee, annual"),
            Record(id="r3", text="lamp"),
        ]
    )
    lists = {
        words: corpus.retrieve('"annual fee" lapm', words=words).trace.steps
        for words in ("plain", "exact", "fuzzy_prefix")
    }
    counts = {words: {s.stage: s.count for s in steps} for words, steps in lists.items()}
    assert [counts[words]["lexical"] for words in counts] == [2, 1, 3]
    assert [hit.id for hit in corpus.retrieve('"annual fee"', words="exact").hits] == ["r1"]


def test_exact_search_by_meaning_is_among_what_holds_the_phrase() -> None:
    corpus = holding("the annual fee", "a fee, annual", "lamp")
    assert [hit.id for hit in corpus.run(semantic(exact=True) & everyone, '"annual fee"').hits] == ["r1"]
    assert corpus.run(semantic(exact=True) & everyone, '"fee annual fee"').hits == ()


@pytest.mark.parametrize("words", ["fuzzy", "", None, True, ["exact"]])
def test_another_way_of_taking_words_is_refused(corpus: Corpus, words: Any) -> None:
    with pytest.raises(ArgumentError, match=r"words.*plain, exact, fuzzy_prefix"):
        corpus.retrieve("fee", words=words)


def test_fuzzy_is_on_or_off() -> None:
    assert lexical(fuzzy_prefix=True)(depth=3).arms[0].fuzzy_prefix
    assert not lexical(fuzzy_prefix=True)(fuzzy_prefix=False).arms[0].fuzzy_prefix
    with pytest.raises(ArgumentError, match="fuzzy_prefix"):
        lexical(fuzzy_prefix="no")  # type: ignore[arg-type]
