"""BM25 over the permitted rows, with document frequencies and average length of those rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.columns import Mask, Rows
from ctxarith.index.dense import Scores
from ctxarith.index.stack import Stack
from ctxarith.index.vocabulary import MOST
from ctxarith.lazy import lazy

# For a word that the target rows do not hold: the terms taken for it, each with its weight below 1.
Near = Mapping[str, Mapping[str, float]]

K1 = 1.5
B = 0.75
_ALONE: Near = MappingProxyType({})


def idf(size: int, holders: int) -> float:
    """`ln(1 + (N - df + 0.5) / (df + 0.5))`: never negative (the smoothed form of Lucene)."""
    return float(np.log(1 + (size - holders + 0.5) / (holders + 0.5)))


class Lexical:
    """Postings (term to rows and counts) of all segments."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    @lazy
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

    def near(self, target: Mask, words: Iterable[str]) -> Near:
        """The terms that stand for each word that no target row holds; see `Vocabulary.near`.

        Only terms of the target rows count, so that a word which nobody may see is never met half-way.
        At most 50 terms stand for a word: those of the greatest weight, then in the order of the alphabet.
        """
        return {word: self._near(target, word) for word in words if not target[self._rows_of(word)[0]].any()}

    def _near(self, target: Mask, word: str) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for segment, run in self._stack.parts():
            found.update(segment.vocabulary.near(word, target[run]))
        best = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
        return dict(best[:MOST])

    def scores(
        self, target: Mask, query: Mapping[str, int], near: Near = _ALONE
    ) -> tuple[Rows, Scores, float]:
        """BM25 of the target rows that hold a query term, and the bound that no score reaches.

        `idf = ln(1 + (N - df + 0.5) / (df + 0.5))` is never negative (the smoothed form of Lucene),
        `tf (k1 + 1) / (tf + k1 (1 - b + b length / average))`, k1 = 1.5, b = 0.75 (Robertson and
        Zaragoza 2009). N, df and the average are those of the target rows. Terms are added in the
        order of the query, so that a score is the same to the last bit in whatever corpus it stands.

        The terms taken for one word count as one term: df are the rows that hold any of them, and a row
        scores by the best of them, times its weight.
        """
        size = int(target.sum())
        total = np.zeros(len(self._stack))
        average = self._lengths[target].sum() / size if size else 0.0
        bound = 0.0
        for term, times in query.items():
            rows, parts = self._parts(target, near.get(term) or {term: 1.0}, average)
            weight = idf(size, len(rows))
            bound += times * weight * (K1 + 1)
            total[rows] += times * weight * parts
        found = np.flatnonzero(total)
        return found, total[found], bound

    def _parts(self, target: Mask, terms: Mapping[str, float], average: float) -> tuple[Rows, Scores]:
        """The target rows that hold one of the terms, each once, and the frequency part of the best."""
        found = []
        for term, weight in terms.items():
            rows, counts = self._rows_of(term)
            inside = target[rows]
            rows, counts = rows[inside], counts[inside]
            norm = K1 * (1 - B + B * self._lengths[rows] / max(average, 1e-9))
            found.append((rows, weight * (counts * (K1 + 1) / (counts + norm))))
        if len(found) == 1:
            return found[0]
        rows = np.unique(np.concatenate([rows for rows, _ in found]))
        best = np.zeros(len(rows))
        for some, parts in found:
            at = np.searchsorted(rows, some)
            best[at] = np.maximum(best[at], parts)
        return rows, best

    def _rows_of(self, term: str) -> tuple[Rows, NDArray[np.int32]]:
        found = [(segment.postings(term), run.start) for segment, run in self._stack.parts()]
        rows = [pair[0].astype(np.int64) + first for pair, first in found]
        return np.concatenate([*rows, _NO_ROWS]), np.concatenate([*(p[1] for p, _ in found), _NO_COUNTS])


_NO_ROWS: Rows = np.empty(0, np.int64)
_NO_COUNTS: NDArray[np.int32] = np.empty(0, np.int32)
