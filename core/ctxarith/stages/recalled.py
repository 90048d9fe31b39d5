"""The rankings of all sources become one set of candidates, each with who found it and at which rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxarith.evidence import Found, Hit
from ctxarith.index.columns import Mask, Rows
from ctxarith.scene import Scene
from ctxarith.stages.pool import Pool, Ranks, Table
from ctxarith.stages.retrieve import Query, Ranking
from ctxarith.stages.supersede import Succession


def pooled(scene: Scene, rankings: Mapping[str, Ranking], query: Query, succession: Succession) -> Pool:
    """A pool over the rows of all rankings; a single ranking is an order already, several have none."""
    snapshot = scene.snapshot
    rows = np.unique(np.concatenate([ranking.rows for ranking in rankings.values()]))
    at = {name: np.searchsorted(rows, ranking.rows) for name, ranking in rankings.items()}
    found = {name: _spread(ranking, at[name], len(rows)) for name, ranking in rankings.items()}
    tier = _tiers(rows, query.named, succession)
    table = Table(
        found=found,
        tier=tier,
        dates=snapshot.dates[rows],
        per_token=snapshot.entities_per_token[rows],
        superseded=scene.retired[rows],
        by_key=lambda some: snapshot.records.by_key(rows[some]),
        make=_Maker(scene, rankings, found, rows, tier, succession),
    )
    (first, *more) = at.values()
    order = _unordered(scene, rows) if more else first
    # The tier stands above a single source's order as above every other.
    order = order[np.argsort(-tier[order], kind="stable")]
    scores = next(iter(found.values())).score
    for ranks in reversed(found.values()):
        scores = np.where(ranks.rank > 0, ranks.score, scores)
    return Pool(table, order, score=scores)


def _unordered(scene: Scene, rows: Rows) -> Rows:
    """Any order will do for a stage that makes one; else that of the keys, whatever the segments."""
    stages = scene.plan.stages
    if stages and stages[0].makes_order:
        return np.arange(len(rows))
    return np.argsort(scene.snapshot.records.by_key(rows))


def _spread(ranking: Ranking, at: Rows, size: int) -> Ranks:
    rank = np.zeros(size, np.int64)
    score, share = np.zeros(size), np.zeros(size)
    rank[at] = np.arange(1, len(at) + 1)
    score[at], share[at] = ranking.scores, ranking.shares
    return Ranks(rank, score, share)


def _tiers(rows: Rows, named: Mask, succession: Succession) -> Rows:
    """1 for a row that holds a named identifier, or took the place of one that does."""
    return (named[rows] | np.isin(rows, succession.heirs_of(named))).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the hit of a row of the table when somebody looks at it."""

    scene: Scene
    rankings: Mapping[str, Ranking]
    found: Mapping[str, Ranks]
    rows: Rows
    tier: Rows
    succession: Succession

    def __call__(self, number: int, changes: Mapping[str, Any]) -> Hit:
        scene, row = self.scene, int(self.rows[number])
        records = scene.snapshot.records
        found = tuple(self._found(number))
        return Hit(
            record=records[row],
            decision=scene.plan.permission.decision,
            found_by=found,
            tier=int(self.tier[number]),
            replaces=tuple(records[old].id for old in self.succession.replaced_by(row)),
            superseded_by=scene.successors(row),
            stale_slots=scene.retirement.stale_slots(row),
            flags=scene.retirement.flags(row),
            **{"score": found[0].score, **changes},
        )

    def _found(self, number: int) -> Iterator[Found]:
        for name, ranks in self.found.items():
            rank = int(ranks.rank[number])
            if rank:
                via = int(self.rankings[name].via[rank - 1])
                named = None if via < 0 else self.scene.snapshot.records[via].id
                yield Found(name, rank, float(ranks.score[number]), float(ranks.share[number]), named)
