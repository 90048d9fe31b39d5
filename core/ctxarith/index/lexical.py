"""BM25 over the permitted rows, with document frequencies and average length of those rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.columns import Mask, Rows
from ctxarith.index.dense import Scores
from ctxarith.index.stack import Stack

K1 = 1.5
B = 0.75


def idf(size: int, holders: int) -> float:
    """`ln(1 + (N - df + 0.5) / (df + 0.5))`: never negative (the smoothed form of Lucene)."""
    return float(np.log(1 + (size - holders + 0.5) / (holders + 0.5)))


class Lexical:
    """Postings (term to rows and counts) of all segments."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        return self._stack.row("length").astype(np.int64)

    def holding(self, terms: Iterable[str], *, every: bool) -> Mask:
        """Rows that hold every one (or any one) of the terms."""
        masks = [self._holding(term) for term in terms]
        joined = np.logical_and if every else np.logical_or
        return joined.reduce(masks) if masks else np.full(len(self._stack), every, np.bool_)

    def _holding(self, term: str) -> Mask:
        mask = np.zeros(len(self._stack), np.bool_)
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
        total = np.zeros(len(self._stack))
        average = self._lengths[target].sum() / size if size else 0.0
        bound = 0.0
        for term, times in query.items():
            rows, counts = self._rows_of(term)
            inside = target[rows]
            rows, counts = rows[inside], counts[inside]
            weight = idf(size, len(rows))
            bound += times * weight * (K1 + 1)
            if len(rows):
                norm = K1 * (1 - B + B * self._lengths[rows] / max(average, 1e-9))
                total[rows] += times * weight * counts * (K1 + 1) / (counts + norm)
        found = np.flatnonzero(total)
        return found, total[found], bound

    def _rows_of(self, term: str) -> tuple[Rows, NDArray[np.int32]]:
        found = [(segment.postings(term), run.start) for segment, run in self._stack.parts()]
        rows = [pair[0].astype(np.int64) + first for pair, first in found]
        return np.concatenate([*rows, _NO_ROWS]), np.concatenate([*(p[1] for p, _ in found), _NO_COUNTS])


_NO_ROWS: Rows = np.empty(0, np.int64)
_NO_COUNTS: NDArray[np.int32] = np.empty(0, np.int32)
