"""Relevance, recency and density in one score; and the plain cut by number."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from ctxarith.algebra import Kept, Moment, Stage
from ctxarith.errors import ArgumentError
from ctxarith.evidence import SEMANTIC, Drop, Hit
from ctxarith.index.dense import Scores
from ctxarith.model import Record
from ctxarith.stages.order import seconds
from ctxarith.stages.pool import Left, Pool, Table

HALF_LIFE_DAYS = 30.0
WEIGHTS = (0.40, 0.35, 0.25)
NEUTRAL_RECENCY = 0.5
# Entities per token at which density is one half. Prose has 0.01 to 0.2, so that density decides between
# texts of like relevance. At 0.1 it decided against relevance: benchmarks/ranking.py lost a sixth of
# SciFact's nDCG@10 when all documents bear one date.
HALF_DENSITY = 1.0
# Recency and density lift no record of less than this part of the best relevance above one that has it.
FLOOR = 0.5
EVIDENCE, COSINE = "evidence", "cosine"


def recency(dated: datetime | None, now: datetime, half_life_days: float = HALF_LIFE_DAYS) -> float:
    """`exp(-ln 2 * age_days / half_life_days)`; a future date counts as age 0, no date as one half.

    >>> from datetime import UTC, timedelta
    >>> now = datetime(2026, 3, 31, tzinfo=UTC)
    >>> recency(now - timedelta(days=30), now)
    0.5
    """
    moment = np.asarray([seconds(dated)])
    return float(_recencies(moment, seconds(now), half_life_days)[0])


def _recencies(dates: Scores, now: float, half_life_days: float) -> Scores:
    age_days = np.maximum(0.0, now - dates) / 86_400
    recent: Scores = np.exp(-math.log(2) * age_days / half_life_days)
    recent[~np.isfinite(dates)] = NEUTRAL_RECENCY
    return recent


def density(record: Record, half: float = HALF_DENSITY) -> float:
    """Entities per token d, as `d / (d + half)`: no record's density depends on another's."""
    per_token = (record.entity_count or 0) / max(record.token_count or 0, 1)
    return float(_densities(np.asarray([per_token]), half)[0])


def _densities(per_token: Scores, half: float) -> Scores:
    return per_token / (per_token + half)


@dataclass(frozen=True, slots=True)
class Composite(Stage):
    """See `composite` and `auto`."""

    weights: tuple[float, float, float] = WEIGHTS
    half_life_days: float = HALF_LIFE_DAYS
    half_density: float = HALF_DENSITY
    relevance: str = EVIDENCE
    floor: float = 0.0
    only_dated: bool = False
    name = "rank"
    makes_order = True

    def __call__(self, hits: Sequence[Hit], moment: Moment, /) -> Kept:
        """Score and order; nothing is dropped."""
        pool = Pool.of(hits)
        relevance = self._relevance(pool)
        weighed = replace(pool, relevance=relevance)
        if self._stands_still(pool):
            return weighed, []
        rounded: Scores = np.round(relevance, 2)
        least = self.floor * rounded[pool.order].max(initial=0.0)
        level = (rounded >= least).astype(np.int64)
        if pool.reranked is not None and self.relevance == EVIDENCE:
            # A mapped score and the evidence of the rest are on two scales: the scored stay above.
            level = (pool.reranked.rank > 0) * (1 + level)
        scored = replace(weighed, score=self._scores(pool.table, rounded, moment.now), neutral=True)
        return scored.by_score(newest=True, level=level), []

    def note(self, kept: Sequence[Hit], dropped: Sequence[Drop], moment: Moment, /) -> str:
        """Which order was taken."""
        pool = Pool.of(kept)
        if self._stands_still(pool):
            return f"as {'fused' if pool.reranked is None else 'reranked'}: nothing is dated"
        one, two, three = self.weights
        return f"{one:g} relevance + {two:g} recency + {three:g} density"

    def _stands_still(self, pool: Pool) -> bool:
        return self.only_dated and not np.isfinite(pool.table.dates[pool.order]).any()

    def _scores(self, table: Table, rounded: Scores, now: datetime) -> Scores:
        alpha, beta, gamma = self.weights
        scores: Scores = alpha * rounded
        scores = scores + beta * _recencies(table.dates, seconds(now), self.half_life_days)
        return scores + gamma * _densities(table.per_token, self.half_density)

    def _relevance(self, pool: Pool) -> Scores:
        found = pool.table.found
        if self.relevance == COSINE:
            found = {name: ranks for name, ranks in found.items() if name.startswith(SEMANTIC)}
        total = np.zeros(len(pool.table))
        for ranks in found.values():
            total = np.maximum(total, ranks.share) if self.relevance == COSINE else total + ranks.share
        searched = [name for name, ranks in found.items() if (ranks.rank[pool.order] > 0).any()]
        if self.relevance == COSINE:
            return total
        total = total / max(len(searched), 1)
        return (
            total if pool.reranked is None else np.where(pool.reranked.rank > 0, pool.reranked.share, total)
        )


def composite(
    *,
    weights: tuple[float, float, float] = WEIGHTS,
    half_life_days: float = HALF_LIFE_DAYS,
    half_density: float = HALF_DENSITY,
    relevance: str = EVIDENCE,
    floor: float = 0.0,
) -> Stage:
    """Order by `0.40 * relevance + 0.35 * recency + 0.25 * density`.

    Args:
        weights: of relevance, recency and density.
        half_life_days: the age at which recency is one half.
        half_density: entities per token at which density is one half.
        relevance: "evidence" is the reranker's mapped score where there is one, else the mean over the
            sources of each score's share of its scale (the cosine; BM25 over the bound that the query
            allows); "cosine" is the plain published form. The reranked stand above the rest.
        floor: no record of less than this part of the best relevance stands above one that has it.

    Relevance enters rounded to 0.01, so that near-equal texts are decided by date. Ties: newest, id.

    Raises:
        ArgumentError: names the parameter.
    """
    if (
        not isinstance(weights, list | tuple)
        or len(weights) != 3
        or not all(finite(w) and w >= 0 for w in weights)
    ):
        raise ArgumentError("weights", weights, "three finite numbers, zero or more")
    for name, value in (("half_life_days", half_life_days), ("half_density", half_density)):
        if not finite(value) or value <= 0:
            raise ArgumentError(name, value, "a finite number above 0")
    if not finite(floor) or not 0 <= floor <= 1:
        raise ArgumentError("floor", floor, "a number from 0 to 1")
    if not isinstance(relevance, str) or relevance not in (EVIDENCE, COSINE):
        raise ArgumentError("relevance", relevance, f"{EVIDENCE!r} or {COSINE!r}")
    one, two, three = (float(w) for w in weights)
    return Composite((one, two, three), float(half_life_days), float(half_density), relevance, float(floor))


def auto() -> Stage:
    """The default: the order as it is when no candidate is dated, else `composite(floor=0.5)`."""
    return Composite(floor=FLOOR, only_dated=True)


@dataclass(frozen=True, slots=True)
class Top(Stage):
    """See `top`."""

    count: int
    name = "top"
    needs_order = True

    def __call__(self, hits: Sequence[Hit], moment: Moment, /) -> Kept:
        """Keep the first; name the rest."""
        pool = Pool.of(hits)
        return pool[: self.count], Left(pool[self.count :], self.name, f"below the first {self.count}")

    @property
    def limit(self) -> int | None:
        """The count."""
        return self.count


def top(count: int) -> Stage:
    """A stage that keeps the first `count` hits.

    Raises:
        ArgumentError: for anything but a positive whole number.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ArgumentError("top", count, "a positive whole number of records")
    return Top(count)


def finite(value: object) -> bool:
    """Whether a parameter is a number that can be reckoned with."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # A whole number may be too large to be a float at all.
    return -sys.float_info.max <= value <= sys.float_info.max
