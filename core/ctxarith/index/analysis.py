"""Text becomes terms, the same way for records and for queries.

NFKC and case folding; every kind of hyphen is one; words are Unicode letters, marks and digits, so
Gujarati and Hindi words keep their vowel signs; Chinese, Japanese kana and Korean run as character
bigrams. A code such as `KYO-H12` is indexed whole, joined (`kyoh12`) and split (`kyo`, `h12`).
English stop words are left out and English words are stemmed (Snowball), both switchable.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The default list of Lucene's StandardAnalyzer.
STOP_WORDS = frozenset(
    {
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    }
)
_HYPHENS = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"), "-")
_HYPHENS[0xAD] = ""  # the soft hyphen is a place to break, not a character
_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}ー"
_WORD = rf"[\p{{L}}\p{{M}}\p{{N}}--[{_CJK}]]+"
_COMPOUND = rf"[{_CJK}]+|{_WORD}(?:[-_./]{_WORD})*(?:['’]{_WORD})?"
_QUOTED = r'["“”«»„]([^"“”«»„]+)["“”«»„]'


@dataclass(frozen=True, slots=True)
class Terms:
    """A text's terms with their counts, and its length in words.

    Extra forms of a code count as terms and not as length, so that a code makes no text longer.
    """

    counts: dict[str, int]
    length: int


@dataclass(frozen=True)
class Analyzer:
    """Turns text into terms. The same settings must serve a corpus for its whole life.

    >>> sorted(Analyzer().terms("The valve KYO-H12 leaks").counts)
    ['h12', 'kyo', 'kyo-h12', 'kyoh12', 'leak', 'valv']
    """

    stem: bool = True
    stop_words: bool = True

    def terms(self, text: str) -> Terms:
        """Every term with its count; the length counts each word once."""
        counts: Counter[str] = Counter()
        length = 0
        for words, extra in self._pieces(text):
            counts.update(words)
            counts.update(extra)
            length += len(words)
        return Terms(dict(counts), length)

    def query(self, text: str) -> dict[str, int]:
        """The terms to look up. A run of CJK is asked for by its bigrams alone."""
        counts: Counter[str] = Counter()
        for words, extra in self._pieces(text):
            counts.update(words)
            counts.update(form for form in extra if len(form) > 1)
        return dict(counts)

    def words(self, text: str) -> list[str]:
        """The words in reading order, for phrases."""
        return [word for words, _ in self._pieces(text) for word in words]

    def identifiers(self, text: str) -> list[str]:
        """The codes that a text names: joined by a hyphen or underscore, with a letter and a digit.

        >>> Analyzer().identifiers("Is kyo-h12 ready for JPN-2026-0417 in 2026-04?")
        ['kyo-h12', 'jpn-2026-0417']
        """
        found = (token.group() for token in _compounds(normalised(text)))
        return list(dict.fromkeys(code for code in found if is_identifier(code)))

    def phrases(self, text: str) -> list[list[str]]:
        """The word sequences inside quotation marks."""
        quoted = _pattern(_QUOTED).findall(unicodedata.normalize("NFKC", text))
        return [words for words in map(self.words, quoted) if words]

    def _pieces(self, text: str) -> Iterator[tuple[list[str], list[str]]]:
        """Each token as (its words, the extra forms it is also found by)."""
        cjk = _pattern(rf"[{_CJK}]+")
        for token in _compounds(normalised(text)):
            whole = token.group()
            if cjk.fullmatch(whole):
                bigrams = [whole[n : n + 2] for n in range(len(whole) - 1)]
                yield (bigrams, list(whole)) if bigrams else ([whole], [])
                continue
            parts = _pattern(r"[-_./]").split(whole)
            words = [form for part in parts if (form := self._word(part))]
            is_code = len(parts) > 1 and any(c.isdigit() for c in whole)
            yield words, [whole, "".join(parts)] if is_code else []

    def _word(self, raw: str) -> str:
        word = raw.split("'")[0].split("’")[0] if raw.endswith(("'s", "’s")) else raw
        if self.stop_words and word in STOP_WORDS:
            return ""
        if self.stem and word.isascii() and word.isalpha():
            return self._stemmed(word)
        return word

    @cached_property
    def _stemmed(self) -> Callable[[str], str]:
        import snowballstemmer

        stemmer = snowballstemmer.stemmer("english")
        return lru_cache(maxsize=200_000)(stemmer.stemWord)


def normalised(text: str) -> str:
    """NFKC, case folded, one kind of hyphen."""
    return unicodedata.normalize("NFKC", text).translate(_HYPHENS).casefold()


def is_identifier(token: str) -> bool:
    """Whether a normalised token is a code: a hyphen or underscore inside, a letter and a digit."""
    joined = "-" in token or "_" in token
    return joined and any(c.isalpha() for c in token) and any(c.isdigit() for c in token)


@lru_cache(maxsize=16)
def _pattern(source: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - regex ships no types
    # `regex`, since `re` knows no Unicode properties and so cuts Indic words at their vowel signs.
    import regex

    return regex.compile(source, regex.VERSION1)


def _compounds(text: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    return _pattern(_COMPOUND).finditer(text)
