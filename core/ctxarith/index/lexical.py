"""BM25 over the permitted rows, with document frequencies and average length of those rows alone."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.analysis import Terms
from ctxarith.index.columns import Mask
from ctxarith.index.dense import Rows, Scores

K1 = 1.5
B = 0.75


class Vocabulary:
    """Term numbers, given once and never changed, shared by all snapshots of a corpus."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()

    def coded(self, terms: Terms) -> CodedTerms:
        """The terms of one row as numbers and counts, adding those not met before."""
        with self._lock:
            numbers = [self._numbers.setdefault(t, len(self._numbers)) for t in terms.counts]
        counts = list(terms.counts.values())
        return CodedTerms(np.asarray(numbers, np.int32), np.asarray(counts, np.int32), terms.length)

    def number(self, term: str) -> int | None:
        """The number of a known term."""
        return self._numbers.get(term)


@dataclass(frozen=True, slots=True)
class CodedTerms:
    """One row's terms: numbers and counts of equal length, and the row's length in words."""

    numbers: NDArray[np.int32]
    counts: NDArray[np.int32]
    length: int


class Lexical:
    """Postings (term to rows and counts) of one snapshot."""

    def __init__(self, rows: Sequence[CodedTerms], vocabulary: Vocabulary) -> None:
        self._coded = rows
        self._vocabulary = vocabulary

    @cached_property
    def _postings(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """(start of each term, rows, counts), sorted by term, then row."""
        if not self._coded:
            return np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
        numbers = np.concatenate([row.numbers for row in self._coded])
        counts = np.concatenate([row.counts for row in self._coded])
        sizes = [len(row.numbers) for row in self._coded]
        owners = np.repeat(np.arange(len(self._coded)), sizes)
        order = np.argsort(numbers, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))]).astype(np.int64)
        return starts, owners[order], counts[order]

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        return np.fromiter((row.length for row in self._coded), np.int64, len(self._coded))

    def holding(self, terms: Iterable[str], *, every: bool) -> Mask:
        """Rows that hold every one (or any one) of the terms."""
        masks = [self._holding(term) for term in terms]
        joined = np.logical_and if every else np.logical_or
        return joined.reduce(masks) if masks else np.full(len(self._coded), every, np.bool_)

    def _holding(self, term: str) -> Mask:
        mask = np.zeros(len(self._coded), np.bool_)
        mask[self._rows_of(term)[0]] = True
        return mask

    def scores(self, target: Mask, query: Mapping[str, int]) -> tuple[Rows, Scores, float]:
        """BM25 of the target rows that hold a query term, and the bound that no score reaches.

        `idf = ln(1 + (N - df + 0.5) / (df + 0.5))` is never negative (the smoothed form of Lucene),
        `tf (k1 + 1) / (tf + k1 (1 - b + b length / average))`, k1 = 1.5, b = 0.75 (Robertson and
        Zaragoza 2009). N, df and the average are those of the target rows. Terms are added in the
        order of the query, so that a score is the same to the last bit in whatever corpus it stands.
        """
        size = int(target.sum())
        total = np.zeros(len(self._coded))
        average = self._lengths[target].sum() / size if size else 0.0
        bound = 0.0
        for term, times in query.items():
            rows, counts = self._rows_of(term)
            inside = target[rows]
            rows, counts = rows[inside], counts[inside]
            idf = float(np.log(1 + (size - len(rows) + 0.5) / (len(rows) + 0.5)))
            bound += times * idf * (K1 + 1)
            if len(rows):
                norm = K1 * (1 - B + B * self._lengths[rows] / max(average, 1e-9))
                total[rows] += times * idf * counts * (K1 + 1) / (counts + norm)
        found = np.flatnonzero(total)
        return found, total[found], bound

    def _rows_of(self, term: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        starts, rows, counts = self._postings
        number = self._vocabulary.number(term)
        if number is None or number + 1 >= len(starts):
            return rows[:0], counts[:0]
        part = slice(starts[number], starts[number + 1])
        return rows[part], counts[part]
