"""Text becomes terms, the same way for records and for queries.

NFKC and case folding; every kind of hyphen is one; words are Unicode letters, marks and digits, so
Gujarati and Hindi words keep their vowel signs; Chinese, Japanese kana and Korean run as character
bigrams. A code such as `KYO-H12` is indexed whole, joined (`kyoh12`) and split (`kyo`, `h12`).
English stop words are left out and English words are stemmed (Snowball), both switchable.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ctxarith.index.stopwords import STOP_WORDS
from ctxarith.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

_HYPHENS = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"), "-")
_HYPHENS[0xAD] = ""  # the soft hyphen is a place to break, not a character
_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}ー"
_WORD = rf"[\p{{L}}\p{{M}}\p{{N}}--[{_CJK}]]+"
# The same in ASCII, where the standard library knows it all and is several times as fast.
_ASCII_COMPOUND = re.compile(r"[A-Za-z0-9]+(?:[-_./][A-Za-z0-9]+)*(?:'[A-Za-z0-9]+)?")
_COMPOUND = rf"[{_CJK}]+|{_WORD}(?:[-_./]{_WORD})*(?:['’]{_WORD})?"
# A number, or its ordinal.
_COUNTED = re.compile(r"\d+(?:st|nd|rd|th)?")
# The major version of the algorithm: an index and its questions must be stemmed alike.
_SNOWBALL = 3
# A Snowball stemmer works in its own buffers, so that two threads in it at once would mix their words.
_STEMMING = threading.Lock()

Forms = tuple[tuple[str, ...], tuple[str, ...]]

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
        counts: dict[str, int] = {}
        length = 0
        forms = self._forms
        for token, times in Counter(_tokens(text)).items():
            words, extra = forms(token)
            length += times * len(words)
            for form in words:
                counts[form] = counts.get(form, 0) + times
            for form in extra:
                counts[form] = counts.get(form, 0) + times
        return Terms(counts, length)

    def query(self, text: str) -> dict[str, int]:
        """The terms to look up. A run of CJK is asked for by its bigrams alone."""
        counts: dict[str, int] = {}
        for token, times in Counter(_tokens(text)).items():
            words, extra = self._forms(token)
            for form in (*words, *(form for form in extra if len(form) > 1)):
                counts[form] = counts.get(form, 0) + times
        return counts

    def unquoted(self, text: str) -> list[str]:
        """The terms to look up that stand outside quotation marks, where a word may be misspelt."""
        return list(self.query(_pattern(_QUOTED).sub(" ", unicodedata.normalize("NFKC", text))))

    def words(self, text: str) -> list[str]:
        """The words in reading order, for phrases."""
        return [word for token in _tokens(text) for word in self._forms(token)[0]]

    def identifiers(self, text: str) -> list[str]:
        """The codes that a text names: joined by a hyphen or underscore, with a letter and a digit.

        A number that plain words follow is none: a measure, an age.

        >>> Analyzer().identifiers("Is kyo-h12 ready for JPN-2026-0417, a 7-day-old case?")
        ['kyo-h12', 'jpn-2026-0417']
        """
        return list(dict.fromkeys(code for token in _tokens(text) for code in _codes(token)))

    def phrases(self, text: str) -> list[list[str]]:
        """The word sequences inside quotation marks."""
        quoted = _pattern(_QUOTED).findall(unicodedata.normalize("NFKC", text))
        return [words for words in map(self.words, quoted) if words]

    @lazy
    def _forms(self) -> Callable[[str], Forms]:
        # Texts repeat their tokens far more often than they bring new ones.
        return lru_cache(maxsize=500_000)(self._split)

    def _split(self, token: str) -> Forms:
        """A token as (its words, the extra forms it is also found by)."""
        if _pattern(rf"[{_CJK}]+").fullmatch(token):
            bigrams = tuple(token[n : n + 2] for n in range(len(token) - 1))
            return (bigrams, tuple(token)) if bigrams else ((token,), ())
        bare = _bare(token)
        parts = _pattern(r"[-_./]").split(bare)
        words = tuple(form for part in parts if (form := self._word(part)))
        numbered = len(parts) > 1 and any(c.isdigit() for c in bare)
        codes = dict.fromkeys([*_codes(token), *([bare] if numbered else [])])
        joined = (_pattern(r"[-_./]").sub("", code) for code in codes)
        return words, tuple(dict.fromkeys([*codes, *joined]))

    def _word(self, raw: str) -> str:
        if self.stop_words and raw in STOP_WORDS:
            return ""
        return self._stemmed(raw) if self.stem and raw.isascii() and raw.isalpha() else raw

    @lazy
    def _stemmed(self) -> Callable[[str], str]:
        stemmer = english_stemmer()

        def stem(word: str) -> str:
            with _STEMMING:
                return str(stemmer.stemWord(word))

        return stem


def english_stemmer() -> Any:
    """Snowball's English stemmer as of its version 3: in C if that is here, else in Python, the same stems.

    Other packages hold PyStemmer below version 3, which stems "international" like "interns".
    """
    import snowballstemmer.english_stemmer

    if find_spec("Stemmer") is not None:
        compiled = import_module("Stemmer")
        if int(compiled.version().partition(".")[0]) >= _SNOWBALL:
            return compiled.Stemmer("english")
    return snowballstemmer.english_stemmer.EnglishStemmer()


def normalised(text: str) -> str:
    """NFKC, case folded, one kind of hyphen."""
    folded = unicodedata.normalize("NFKC", text).translate(_HYPHENS).casefold()
    # Folding can take a composed letter apart.
    return unicodedata.normalize("NFKC", folded)


def _bare(token: str) -> str:
    """A token without the possessive."""
    return token[:-2] if token.endswith(("'s", "’s")) else token


def _codes(token: str) -> list[str]:
    """The identifiers in a token; a slash or a full stop joins several."""
    return [part for part in _pattern(r"[./]").split(_bare(token)) if is_identifier(part)]


def is_identifier(token: str) -> bool:
    """Whether a normalised token is a code: a hyphen or underscore inside, a letter and a digit.

    "7-day-old", "30-year" and "2nd-line" say how long, how old, which; they name nothing. A single
    letter is no plain word: 4521-b is a code.
    """
    joined = "-" in token or "_" in token
    if not (joined and any(c.isalpha() for c in token) and any(c.isdigit() for c in token)):
        return False
    number, *words = token.split("-")
    return not (_COUNTED.fullmatch(number) and all(len(word) > 1 and word.isalpha() for word in words))


@lru_cache(maxsize=16)
def _pattern(source: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - regex ships no types
    # `regex`, since `re` knows no Unicode properties and so cuts Indic words at their vowel signs.
    import regex

    return regex.compile(source, regex.VERSION1)


def _tokens(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_COMPOUND.findall(text.lower())
    tokens: list[str] = _pattern(_COMPOUND).findall(normalised(text))
    return tokens
