"""The permitted rows, scored by meaning and by words. No row outside the target is ever scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ctxarith.algebra import Arm
from ctxarith.evidence import SEMANTIC
from ctxarith.index.columns import Mask, Rows
from ctxarith.index.dense import Scores
from ctxarith.index.lexical import Near
from ctxarith.index.snapshot import Snapshot
from ctxarith.index.stack import without_ties
from ctxarith.lazy import lazy
from ctxarith.ports import Vector

_TOLD = 3


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows in an order, best first, with their scores and the scores' shares of 0 to 1.

    `via` is the retired row whose place a row took, or -1. `note` says how the question was taken.
    """

    rows: Rows
    scores: Scores
    shares: Scores
    via: Rows
    note: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: NDArray[np.int64] | slice) -> Ranking:
        """Some of the rows, in the order chosen."""
        return Ranking(self.rows[chosen], self.scores[chosen], self.shares[chosen], self.via[chosen])


class Query:
    """A question in the forms that the sources need, each made when first asked for."""

    def __init__(self, text: str, snapshot: Snapshot, embed: Callable[[str], Vector]) -> None:
        self.text = text
        self._snapshot = snapshot
        self._embed = embed

    @lazy
    def vector(self) -> Vector:
        """The embedding, shape (dimension,)."""
        return self._embed(self.text)

    @lazy
    def terms(self) -> dict[str, int]:
        """The terms to look up, with their counts."""
        return self._snapshot.analyzer.query(self.text)

    @lazy
    def unquoted(self) -> list[str]:
        """The terms outside quotation marks."""
        return self._snapshot.analyzer.unquoted(self.text)

    @lazy
    def identifiers(self) -> list[str]:
        """The codes that the question names."""
        return self._snapshot.analyzer.identifiers(self.text)

    @lazy
    def named(self) -> Mask:
        """The rows that hold exactly one of the identifiers."""
        return self._snapshot.lexical.holding(self.identifiers, every=False)


def recall(arm: Arm, query: Query, snapshot: Snapshot, *, target: Mask, retired: Mask) -> Ranking:
    """Rank the target rows by one source, best first; equal scores newest first, then by id.

    Retired rows are ranked only to find the place of their successors, and use up no depth.
    """
    near: Near = {}
    if arm.source == SEMANTIC:
        rows, scores, shares = _by_meaning(arm, query, snapshot, target, ~retired)
    else:
        near = snapshot.lexical.near(target, query.unquoted) if arm.fuzzy_prefix else {}
        rows, scores, shares = _by_words(arm, query, snapshot, target, near)
    reaching = _within(scores, ~retired[rows], arm.depth)
    rows, scores, shares = rows[reaching], scores[reaching], shares[reaching]
    dates = snapshot.dates[rows]
    order = np.lexsort((-dates, -scores))
    order = without_ties(order, (dates, scores), lambda tied: snapshot.records.by_key(rows[tied]))
    counted = np.cumsum(~retired[rows[order]])
    # Everything above the last counted row within the depth, and retired rows in between.
    order = order[: int(np.searchsorted(counted, arm.depth, side="right"))]
    via = np.full(len(order), -1)
    return Ranking(rows[order], scores[order], shares[order], via, _taken_for(near))


def _within(scores: Scores, counted: Mask, depth: int) -> Mask:
    """Everything that scores no less than the last counted row within the depth."""
    competing = scores[counted]
    if len(competing) <= depth:
        return np.ones(len(scores), np.bool_)
    last = np.partition(competing, len(competing) - depth)[len(competing) - depth]
    return np.asarray(scores >= last, np.bool_)


def _by_meaning(
    arm: Arm, query: Query, snapshot: Snapshot, target: Mask, counted: Mask
) -> tuple[Rows, Scores, Scores]:
    if arm.exact:
        narrowed = np.flatnonzero(target)
        target = np.zeros(len(target), np.bool_)
        target[narrowed[exactly(query.text, snapshot, narrowed.tolist())]] = True
    if not target.any():
        return _nothing()
    rows, cosines = snapshot.dense.nearest(target, query.vector, depth=arm.depth, counted=counted)
    return rows, cosines, np.clip(cosines, 0.0, 1.0)


def _by_words(
    arm: Arm, query: Query, snapshot: Snapshot, target: Mask, near: Near
) -> tuple[Rows, Scores, Scores]:
    rows, scores, bound = snapshot.lexical.scores(target, query.terms, near)
    if arm.exact:
        fits = exactly(query.text, snapshot, rows.tolist())
        rows, scores = rows[fits], scores[fits]
    return rows, scores, scores / bound if bound else scores


def exactly(text: str, snapshot: Snapshot, rows: Sequence[int]) -> Mask:
    """Which rows hold every quoted phrase of a query, word by word, and every identifier."""
    analyzer = snapshot.analyzer
    phrases = analyzer.phrases(text)
    terms = [*analyzer.identifiers(text), *(word for phrase in phrases for word in phrase)]
    fits = snapshot.lexical.holding(dict.fromkeys(terms), every=True)[list(rows)]
    for phrase in phrases:
        for n in np.flatnonzero(fits).tolist():
            words = analyzer.words(snapshot.passage(snapshot.records[rows[n]]))
            fits[n] = any(words[at : at + len(phrase)] == phrase for at in range(len(words)))
    return fits


def _taken_for(near: Near) -> str:
    """`vavl as valv`: what stood in for the words that no record holds, the likeliest first."""
    told = [f"{word} as {' or '.join([*terms][:_TOLD])}" for word, terms in near.items() if terms]
    return "; ".join(told[:_TOLD])


def _nothing() -> tuple[Rows, Scores, Scores]:
    return np.empty(0, np.int64), np.empty(0), np.empty(0)
