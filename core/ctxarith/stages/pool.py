"""Candidates held as columns. A stage orders arrays; a `Hit` is made only when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np

from ctxarith.evidence import RERANKED, Drop, Found, Hit
from ctxarith.index.columns import Mask, Rows
from ctxarith.index.dense import Scores
from ctxarith.index.stack import without_ties
from ctxarith.instant import EPOCH

_ABSENT = Found("", 0, 0.0)


@dataclass(frozen=True, slots=True)
class Ranks:
    """What one source says of each candidate: one-based rank (0: not found), and share of its scale."""

    rank: Rows
    score: Scores
    share: Scores


@dataclass(frozen=True, slots=True)
class Table:
    """The candidates of a run with what stages need of each, shape (n,); nothing here has an order.

    `dates` are epoch seconds, minus infinity without a date; `per_token` is entities per token;
    `by_key` ranks some of the rows by id and version; `make` gives the hit of a row as it was
    recalled, with what stages have set since.
    """

    found: Mapping[str, Ranks]
    tier: Rows
    dates: Scores
    per_token: Scores
    superseded: Mask
    by_key: Callable[[Rows], Rows]
    make: Callable[[int, Mapping[str, Any]], Hit]

    def __len__(self) -> int:
        return len(self.tier)

    @classmethod
    def of(cls, hits: Sequence[Hit]) -> Table:
        """The columns of given hits, for stages that are called with a plain list."""
        sources = dict.fromkeys(found.source for hit in hits for found in hit.found_by)
        order = sorted(range(len(hits)), key=lambda n: hits[n].key)
        place = np.empty(len(hits), np.int64)
        place[order] = np.arange(len(hits))

        def make(row: int, changes: Mapping[str, Any]) -> Hit:
            return replace(hits[row], **changes) if changes else hits[row]

        return cls(
            found={source: _ranks(source, hits) for source in sources},
            tier=np.asarray([hit.tier for hit in hits], np.int64),
            dates=np.asarray([_seconds(hit) for hit in hits], np.float64),
            per_token=np.asarray([entities_per_token(hit) for hit in hits], np.float64),
            superseded=np.asarray([bool(hit.superseded_by) for hit in hits], np.bool_),
            by_key=place.__getitem__,
            make=make,
        )


@dataclass(frozen=True, slots=True)
class Pool(Sequence[Hit]):
    """Some candidates of a table in an order, with the scores that stages gave them.

    `order` are rows of the table; the score columns are aligned with the table and `None` until a
    stage sets them; `reranked` has rank 0 for what no reranker scored. `neutral` says that undated
    candidates were given the neutral recency. `remark` is what the reranking stage has to say.
    """

    table: Table
    order: Rows
    score: Scores | None = None
    fused: Scores | None = None
    relevance: Scores | None = None
    neutral: bool = False
    reranked: Ranks | None = None
    remark: str = ""

    @classmethod
    def of(cls, hits: Sequence[Hit]) -> Pool:
        """The pool itself, or a pool of given hits in their order."""
        if isinstance(hits, Pool):
            return hits
        reranked = None
        if any(hit.reranked for hit in hits):
            reranked = _columns([hit.reranked or _ABSENT for hit in hits])
        return cls(Table.of(hits), np.arange(len(hits)), reranked=reranked)

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, at: int) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> Pool: ...
    def __getitem__(self, at: int | slice) -> Hit | Pool:
        if isinstance(at, slice):
            return replace(self, order=self.order[at])
        return self._hit(int(self.order[at]))

    def __iter__(self) -> Iterator[Hit]:
        return map(self._hit, self.order.tolist())

    def take(self, kept: Mask) -> Pool:
        """The candidates at the marked places, in the same order."""
        return replace(self, order=self.order[kept])

    def by_score(self, *, newest: bool, level: Rows | None = None) -> Pool:
        """Best first: tier, then `level`, then score; ties to the newer if `newest`, then by id.

        A superseded record that was asked for stands below its successors.
        """
        table, rows = self.table, self.order
        score = np.zeros(len(table)) if self.score is None else self.score
        age = -table.dates[rows] if newest else np.zeros(len(rows))
        lower = np.zeros(len(rows), np.int64) if level is None else -level[rows]
        keys = (age, -score[rows], lower, -table.tier[rows])
        order = without_ties(np.lexsort(keys), keys, lambda tied: table.by_key(rows[tied]))
        return replace(self, order=rows[order]).below_successors()

    def below_successors(self) -> Pool:
        """The same order, but each superseded hit stands after those that replace it."""
        if not self.table.superseded[self.order].any():
            return self
        hits = list(self)
        present = {hit.id for hit in hits if not hit.superseded_by}
        placed: list[int] = []
        waiting: list[int] = []
        seen: set[str] = set()
        for at, hit in enumerate(hits):
            free = set(hit.superseded_by) & present <= seen
            (placed if free else waiting).append(at)
            if not hit.superseded_by:
                seen.add(hit.id)
                ready = [w for w in waiting if set(hits[w].superseded_by) & present <= seen]
                placed.extend(ready)
                waiting = [w for w in waiting if w not in ready]
        return replace(self, order=self.order[np.asarray(placed + waiting, np.int64)])

    def _hit(self, row: int) -> Hit:
        changes: dict[str, object] = {}
        for name in ("score", "fused", "relevance"):
            column = getattr(self, name)
            if column is not None:
                changes[name] = float(column[row])
        if self.reranked is not None and self.reranked.rank[row]:
            ranks = self.reranked
            rank, score, share = int(ranks.rank[row]), float(ranks.score[row]), float(ranks.share[row])
            changes["reranked"] = Found(RERANKED, rank, score, share)
        hit = self.table.make(row, changes)
        if not self.neutral or np.isfinite(self.table.dates[row]):
            return hit
        return replace(hit, notes=(*hit.notes, "recency: neutral (no date)"))


@dataclass(frozen=True, slots=True)
class Left(Sequence[Drop]):
    """Candidates that a stage left out, all for one reason; each `Drop` is made when looked at."""

    pool: Pool
    stage: str
    reason: str
    _made: list[Drop] = field(default_factory=list, compare=False)

    def __len__(self) -> int:
        return len(self.pool)

    @overload
    def __getitem__(self, at: int) -> Drop: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Drop]: ...
    def __getitem__(self, at: int | slice) -> Drop | Sequence[Drop]:
        return self._all()[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(other)

    def __hash__(self) -> int:
        return hash((self.stage, self.reason, len(self)))

    def _all(self) -> list[Drop]:
        if len(self._made) != len(self.pool):
            self._made[:] = [Drop(hit.record, self.stage, self.reason) for hit in self.pool]
        return self._made


def entities_per_token(hit: Hit) -> float:
    """The density that ranking is based on, before it is put on its scale."""
    return (hit.record.entity_count or 0) / max(hit.record.token_count or 0, 1)


def _seconds(hit: Hit) -> float:
    dated = hit.record.dated
    return float("-inf") if dated is None else (dated - EPOCH).total_seconds()


def _ranks(source: str, hits: Sequence[Hit]) -> Ranks:
    return _columns([hit.found(source) or _ABSENT for hit in hits])


def _columns(found: Sequence[Found]) -> Ranks:
    return Ranks(
        np.asarray([one.rank for one in found], np.int64),
        np.asarray([one.score for one in found], np.float64),
        np.asarray([one.share for one in found], np.float64),
    )
