"""Text to terms: scripts, hyphens, codes, phrases."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith.index.analysis import Analyzer, english_stemmer
from tests import strategies

ENGLISH = Analyzer()
PLAIN = Analyzer(stem=False, stop_words=False)


def test_a_code_is_kept_whole_joined_and_split() -> None:  # LX-06
    assert sorted(ENGLISH.terms("Valve KYO-H12").counts) == ["h12", "kyo", "kyo-h12", "kyoh12", "valv"]


def test_the_extra_forms_of_a_code_make_no_text_longer() -> None:
    assert ENGLISH.terms("KYO-H12 leaks").length == ENGLISH.terms("KYO H12 leaks").length == 3


@pytest.mark.parametrize(
    "hyphen",
    ["-", "\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212", "\ufe58", "\ufe63", "\uff0d"],
)
def test_every_kind_of_hyphen_is_one(hyphen: str) -> None:
    assert ENGLISH.identifiers(f"KYO{hyphen}H12") == ["kyo-h12"]


def test_a_soft_hyphen_is_no_character() -> None:
    assert PLAIN.words("war\u00adranty") == ["warranty"]


def test_full_width_letters_are_letters() -> None:
    assert ENGLISH.identifiers("ＫＹＯ－Ｈ１２") == ["kyo-h12"]


def test_identifiers_are_named_once_in_reading_order() -> None:
    text = "JPN-2026-0417, GJ-4521 and kyo_h12; again (GJ-4521)."
    assert ENGLISH.identifiers(text) == ["jpn-2026-0417", "gj-4521", "kyo_h12"]


@pytest.mark.parametrize("text", ["2026-04-17", "well-known", "H12", "45,000", "v1.2", "and/or", "-H12", ""])
def test_what_has_no_joint_letter_and_digit_is_no_identifier(text: str) -> None:
    assert ENGLISH.identifiers(text) == []


@pytest.mark.parametrize(
    "text",
    ["7-day-old", "30-year", "2-fold", "3.5-fold", "24-hour", "12-kg", "2nd-line", "1st-year", "30–day"],
)
def test_a_number_that_plain_words_follow_is_no_identifier(text: str) -> None:
    assert ENGLISH.identifiers(f"a {text} case") == []


@pytest.mark.parametrize(
    "text",
    [
        *(
            "KYO-H12",
            "JPN-2026-0417",
            "GJ-4521",
            "INV_2024_07",
            "p53-null",
            "p53-R175H",
            "covid-19",
            "BRCA1-2",
        ),
        *("4521-B", "2026-JPN-0417", "30_day", "7-day-2", "10-K", "CVE-2023-4567", "4-1BB", "H1-day-old"),
    ],
)
def test_what_holds_more_than_a_measure_is_an_identifier(text: str) -> None:
    assert ENGLISH.identifiers(f"a {text} case") == [text.lower()]


def test_a_measure_lifts_nobody_and_is_still_found() -> None:
    counts = ENGLISH.terms("a 7-day-old kitten").counts
    assert {"7-day-old", "7dayold", "7", "day", "old"} <= set(counts)
    assert set(ENGLISH.query("7-day-old")) <= set(counts)


@pytest.mark.parametrize("text", ["GJ-4521's fee", "GJ-4521’s fee", "“GJ-4521”", "(gj-4521):", "GJ-4521."])
def test_what_stands_around_an_identifier_is_not_part_of_it(text: str) -> None:
    assert ENGLISH.identifiers(text) == ["gj-4521"]
    assert "gj-4521" in ENGLISH.terms(text).counts


def test_two_identifiers_with_a_slash_between_are_two() -> None:
    assert {"kyo-h12", "kyo-h21"} <= set(ENGLISH.terms("KYO-H12/KYO-H21").counts)
    assert ENGLISH.identifiers("KYO-H12/KYO-H21") == ["kyo-h12", "kyo-h21"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("નવી બેચ માર્ચમાં શરૂ થશે", ["નવી", "બેચ", "માર્ચમાં", "શરૂ", "થશે"]),
        ("हिन्दी में फीस", ["हिन्दी", "में", "फीस"]),
        ("Гарантия действует", ["гарантия", "действует"]),
        ("Die RÜCKGABE in Zürich", ["die", "rückgabe", "in", "zürich"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("ΛΌΓΟΣ λόγος", ["λόγοσ", "λόγοσ"]),
    ],
)
def test_words_of_many_scripts_stay_whole(text: str, words: list[str]) -> None:  # LX-08
    assert PLAIN.words(text) == words


def test_composed_and_decomposed_accents_are_the_same_word() -> None:  # LX-08
    assert PLAIN.words("cafe\u0301") == PLAIN.words("caf\u00e9") == ["caf\u00e9"]


def test_the_case_of_a_letter_with_two_accents_does_not_matter() -> None:
    assert PLAIN.words("\u03ab\u0301") == PLAIN.words("\u03b0")


def test_unsegmented_japanese_becomes_bigrams() -> None:  # LX-05
    assert PLAIN.words("返品は購入") == ["返品", "品は", "は購", "購入"]


def test_a_query_asks_for_bigrams_and_a_record_is_found_by_single_characters_too() -> None:
    assert PLAIN.query("返品") == {"返品": 1}
    assert PLAIN.query("返") == {"返": 1}
    assert set(PLAIN.terms("返品").counts) == {"返品", "返", "品"}


def test_digits_beside_japanese_are_a_word_of_their_own() -> None:
    assert PLAIN.words("2026年4月KYO-H12型") == ["2026", "年", "4", "月", "kyo", "h12", "型"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("This part is under Warranty.", ["part", "warranti"]),
        ("(Refund), then invoice:", ["refund", "invoic"]),
        ("Dana's office", ["dana", "offic"]),
        ("don't", ["don't"]),
    ],
)
def test_punctuation_case_stop_words_and_endings_are_taken_off(text: str, words: list[str]) -> None:  # LX-07
    assert ENGLISH.words(text) == words


def test_stemming_and_stop_words_can_be_switched_off() -> None:
    assert Analyzer(stem=False).words("The fees rise") == ["fees", "rise"]
    assert Analyzer(stop_words=False).words("The fees rise") == ["the", "fee", "rise"]


def test_phrases_are_read_from_straight_and_curly_quotes() -> None:
    assert ENGLISH.phrases('He said "annual fee" and “exam centre”, not «»') == [
        ["annual", "fee"],
        ["exam", "centr"],
    ]


@given(strategies.texts())
def test_a_text_holds_every_term_that_it_would_itself_ask_for(text: str) -> None:
    assert set(ENGLISH.query(text)) <= set(ENGLISH.terms(text).counts)


@given(st.text(st.characters(codec="ascii"), max_size=40))
def test_a_sign_of_another_script_after_a_text_changes_no_term(text: str) -> None:
    assert Analyzer().terms(text) == Analyzer().terms(f"{text}。")


@given(st.text(max_size=30), st.sampled_from(["\u2013", "\u2212", "-"]))
def test_any_text_is_read_without_an_error_and_blanks_around_it_change_nothing(text: str, dash: str) -> None:
    assert ENGLISH.terms(f"  {text} {dash} ") == ENGLISH.terms(text)


def test_an_older_stemmer_in_c_is_passed_over_and_the_stems_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["international", "evenings", "added", "emergency", "leaking", "fees"]
    today = [english_stemmer().stemWord(word) for word in words]
    assert today[:4] == ["internat", "evening", "add", "emergenc"]
    old = SimpleNamespace(version=lambda: "2.0.1", Stemmer=None)
    monkeypatch.setitem(sys.modules, "Stemmer", old)
    monkeypatch.setattr("ctxarith.index.analysis.find_spec", lambda name: name)
    assert [english_stemmer().stemWord(word) for word in words] == today
