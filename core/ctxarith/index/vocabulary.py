"""The terms that a misspelt or unfinished word may stand for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.columns import Mask, Rows
from ctxarith.index.strings import Strings, spans
from ctxarith.lazy import lazy

# A word that many terms begin with says little; the shortest completions are kept.
MOST = 50
PREFIX_FROM = 3
EDITS_FROM = ((8, 2), (4, 1))


def edits_of(word: str) -> int:
    """How many edits a word may be away: 1 from 4 letters, 2 from 8."""
    return next((edits for length, edits in EDITS_FROM if len(word) >= length), 0)


class Vocabulary:
    """The sorted terms of a segment, searched by beginning and by edit distance.

    A signature of each term's characters, one bit each modulo 64, leaves few terms to be measured: an
    edit takes away one character and adds one at most, so it changes two bits at most.
    """

    def __init__(self, terms: Strings, starts: Rows, rows: NDArray[np.int32]) -> None:
        self._terms = terms
        self._starts = starts
        self._rows = rows

    def near(self, word: str, target: Mask) -> Iterator[tuple[str, float]]:
        """Terms of the target rows that begin with the word or are misspellings of it, with a weight.

        The weight is the share of characters that agree, `1 - edits / length of the longer`; letters
        that are yet to come count as edits.
        """
        begun = self._held(self._beginning(word), target)
        nearest = begun[np.argsort(self._lengths[begun], kind="stable")[:MOST]]
        numbers = np.union1d(nearest, self._held(self._misspelt(word), target))
        for term in self._named(numbers):
            yield term, 1 - distance(word, term) / max(len(word), len(term))

    def _beginning(self, word: str) -> Rows:
        # What is left of a number when its end is missing is another number.
        if len(word) < PREFIX_FROM or word.isdigit():
            return _NONE
        start = word.encode("utf-8", "surrogatepass")
        # No byte of UTF-8 is 255.
        return np.arange(bisect_left(self._terms, start), bisect_left(self._terms, start + b"\xff"))

    def _misspelt(self, word: str) -> Rows:
        most = edits_of(word)
        if not most:
            return _NONE
        (signature,) = _signatures(word, np.asarray([len(word)]))
        alike = np.abs(self._lengths - len(word)) <= most
        alike &= np.bitwise_count(self._signatures ^ signature) <= 2 * most
        numbers = np.flatnonzero(alike)
        terms = self._named(numbers)
        return numbers[[n for n in within(word, terms, most) if _digits(terms[n]) == _digits(word)]]

    def _held(self, numbers: Rows, target: Mask) -> Rows:
        """Those of the terms that some target row holds."""
        if not len(numbers):
            return numbers
        sizes = self._starts[numbers + 1] - self._starts[numbers]
        inside = target[self._rows[spans(self._starts[numbers], sizes)]]
        return numbers[np.logical_or.reduceat(inside, np.cumsum(sizes) - sizes)]

    def _named(self, numbers: Rows) -> list[str]:
        ends = self._ends[numbers]
        starts = ends - self._lengths[numbers]
        joined = self._joined
        return [joined[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    @lazy
    def _joined(self) -> str:
        # Cut out of one text, a term costs a tenth of what decoding it costs.
        return self._terms.data.tobytes().decode("utf-8", "surrogatepass")

    @lazy
    def _lengths(self) -> Rows:
        """Characters of each term: its bytes but those that continue a character."""
        begins = np.cumsum((self._terms.data & 0xC0) != 0x80)
        return np.diff(begins[self._terms.ends - 1], prepend=0) if len(self._terms) else _NONE

    @lazy
    def _ends(self) -> Rows:
        return np.cumsum(self._lengths)

    @lazy
    def _signatures(self) -> NDArray[np.uint64]:
        return _signatures(self._joined, self._lengths)


def distance(one: str, other: str) -> int:
    """Insertions, deletions, substitutions and transpositions of neighbours (optimal string alignment).

    >>> distance("vavle", "valve")
    1
    """
    from rapidfuzz.distance import OSA

    return int(OSA.distance(one, other))


def within(word: str, terms: Sequence[str], most: int) -> list[int]:
    """The places of the terms that are no more than so many edits away, in order."""
    from rapidfuzz.distance import OSA
    from rapidfuzz.process import extract

    found = extract(word, terms, scorer=OSA.distance, score_cutoff=most, limit=None)
    return sorted(place for _, _, place in found)


def _digits(text: str) -> list[str]:
    # Another digit is another code or another amount, and no misspelling.
    return [c for c in text if c.isdigit()]


def _signatures(joined: str, lengths: Rows) -> NDArray[np.uint64]:
    """The signature of each of the terms that stand joined in a text."""
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
    bits = np.left_shift(np.uint64(1), (points % 64).astype(np.uint64))
    starts = np.cumsum(lengths) - lengths
    return np.bitwise_or.reduceat(bits, starts) if len(lengths) else np.empty(0, np.uint64)


_NONE: Rows = np.empty(0, np.int64)
