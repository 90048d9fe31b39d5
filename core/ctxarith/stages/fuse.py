"""Several rankings become one, by reciprocal rank."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ctxarith.algebra import Kept, Moment, Stage
from ctxarith.errors import ArgumentError
from ctxarith.evidence import Hit
from ctxarith.index.columns import Rows
from ctxarith.index.dense import Scores
from ctxarith.stages.pool import Left, Pool

K = 60

Item = TypeVar("Item", str, tuple[str, str])


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Item]], *, k: float = K, weights: Sequence[float] | None = None
) -> dict[Item, float]:
    """Fuse ranked lists of ids: `sum of weight / (k + rank)`, one-based; absent adds nothing.

    Source: Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods", SIGIR 2009. Returned best first, ties by id ascending; the
    inputs are untouched.

    Raises:
        ArgumentError: for a k that is negative, not finite or not a number, a duplicate within a
            list, or weights that do not fit the lists.

    >>> fused = reciprocal_rank_fusion([["D1", "D4", "D2"], ["D2", "D1", "D4"]])
    >>> {id: round(score, 6) for id, score in fused.items()}
    {'D1': 0.032522, 'D2': 0.032266, 'D4': 0.032002}
    """
    k = checked_k(k)
    for name, given in (("rankings", rankings), ("weights", weights if weights is not None else ())):
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            raise ArgumentError(name, given, "a list")
    weights = [1.0] * len(rankings) if weights is None else [checked_weight(w) for w in weights]
    if len(weights) != len(rankings):
        raise ArgumentError("weights", weights, f"one weight for each of {len(rankings)} lists")
    for ranking in rankings:
        if isinstance(ranking, str | bytes) or not isinstance(ranking, Sequence) or not _are_items(ranking):
            raise ArgumentError("rankings", ranking, "lists of ids")
    found: dict[Item, list[float]] = defaultdict(list)
    for ranking, weight in zip(rankings, weights, strict=True):
        if len(set(ranking)) != len(ranking):
            twice = sorted({item for item in ranking if list(ranking).count(item) > 1})
            raise ArgumentError("rankings", twice, "an id stands at most once in a list")
        for rank, item in enumerate(ranking, start=1):
            found[item].append(weight / (k + rank))
    # fsum rounds once, so that the order of the lists cannot break a tie by the last bit.
    scores = {item: math.fsum(parts) for item, parts in found.items()}
    return dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))


def _are_items(ranking: Sequence[object]) -> bool:
    return all(isinstance(i, str) for i in ranking) or all(isinstance(i, tuple) for i in ranking)


def checked_k(k: object) -> float:
    """The constant of RRF: a finite number, zero or more."""
    return _checked("k", k)


def checked_weight(weight: object) -> float:
    """The weight of a list: a finite number, zero or more."""
    return _checked("weights", weight)


def _checked(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentError(name, value, "a finite number, zero or more")
    if not 0 <= value <= sys.float_info.max:
        raise ArgumentError(name, value, "a finite number, zero or more")
    return float(value)


@dataclass(frozen=True, slots=True)
class Rrf(Stage):
    """See `rrf`."""

    k: float = K
    weights: tuple[tuple[str, float], ...] = ()
    per_source: int | None = None
    name = "rrf"
    makes_order = True

    def __call__(self, hits: Sequence[Hit], moment: Moment, /) -> Kept:
        """Score every hit by the ranks at which it was found."""
        pool = Pool.of(hits)
        fused = self._fused({name: ranks.rank for name, ranks in pool.table.found.items()}, len(pool.table))
        ordered = replace(pool, score=fused, fused=fused).by_score(newest=False)
        return (ordered, []) if self.per_source is None else self._grouped(ordered, self.per_source)

    def _fused(self, ranks: Mapping[str, Rows], size: int) -> Scores:
        """`sum weight / (k + rank)`, rounded once, so that the order of the sources breaks no tie."""
        weights = dict(self.weights)
        parts = [
            np.where(rank > 0, weights.get(name.split("#")[0], 1.0) / (self.k + np.maximum(rank, 1)), 0.0)
            for name, rank in ranks.items()
        ]
        if len(parts) <= 2:
            total: Scores = np.sum(parts, axis=0) if parts else np.zeros(size)
            return total
        return np.asarray([math.fsum(own) for own in zip(*parts, strict=True)])

    def _grouped(self, pool: Pool, cap: int) -> Kept:
        """Sources by their best rank in each list; within a source its chunks as they stand."""
        sources = [hit.record.source_id for hit in pool]
        names = sorted(set(sources))
        number = np.searchsorted(np.asarray(names), np.asarray(sources)) if names else np.empty(0, np.int64)
        best = {}
        for name, ranks in pool.table.found.items():
            found = np.where(ranks.rank > 0, ranks.rank, np.iinfo(np.int64).max)[pool.order]
            lowest = np.full(len(names), np.iinfo(np.int64).max)
            np.minimum.at(lowest, number, found)
            best[name] = np.where(lowest < np.iinfo(np.int64).max, lowest, 0)
        score = self._fused(best, len(names))
        tier = np.zeros(len(names), np.int64)
        np.maximum.at(tier, number, pool.table.tier[pool.order])
        chunks = np.argsort(np.lexsort((np.arange(len(names)), -score, -tier)))[number]
        together = np.argsort(chunks, kind="stable")
        grouped = replace(pool, order=pool.order[together])
        begins = np.flatnonzero(np.diff(chunks[together], prepend=-1))
        nth = np.arange(len(pool)) - np.repeat(begins, np.diff([*begins, len(pool)]))
        shared = np.zeros(len(pool.table))
        shared[pool.order] = score[number]
        scored = replace(grouped, score=shared, fused=shared)
        left = Left(scored.take(nth >= cap), self.name, f"more than {cap} of one source")
        return scored.take(nth < cap).below_successors(), left


def rrf(
    *,
    k: float = K,
    weights: Mapping[str, float] | None = None,
    group_by: str | None = None,
    per_source: int = 1,
) -> Stage:
    """A stage that fuses by reciprocal rank: see `reciprocal_rank_fusion`.

    Args:
        k: the constant; 60 as in the paper.
        weights: by source, such as `{"semantic": 2}`; 1 where not named.
        group_by: "source" counts a source document once in each list, at its best rank.
        per_source: how many chunks of a source may stay when grouped.

    Raises:
        ArgumentError: names the parameter.
    """
    if group_by is not None and (not isinstance(group_by, str) or group_by != "source"):
        raise ArgumentError("group_by", group_by, "None or 'source'")
    if isinstance(per_source, bool) or not isinstance(per_source, int) or per_source < 1:
        raise ArgumentError("per_source", per_source, "a positive whole number")
    if weights is not None and not isinstance(weights, Mapping):
        raise ArgumentError("weights", weights, 'by source, such as {"semantic": 2}')
    pairs = tuple(sorted((str(name), checked_weight(w)) for name, w in (weights or {}).items()))
    return Rrf(checked_k(k), pairs, per_source if group_by else None)
