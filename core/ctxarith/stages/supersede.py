"""Retired records leave, and their successors take the places that they earned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from ctxarith.algebra import Kept, Moment, Stage
from ctxarith.errors import ArgumentError
from ctxarith.evidence import Drop, Hit
from ctxarith.index.columns import Mask, Rows
from ctxarith.index.heirs import SEVERAL
from ctxarith.index.retirement import Retirement
from ctxarith.index.snapshot import Snapshot
from ctxarith.lazy import lazy
from ctxarith.stages.order import newest_first
from ctxarith.stages.retrieve import Ranking

SUPERSEDED = "superseded"
OUTSIDE = "superseded_outside_filter"


@dataclass(frozen=True, slots=True)
class Inherited:
    """(heir, retired row) pairs in the order of the places; of several heirs of a place the newest is first.

    `nth` is negative and puts heirs before what stands on their place already.
    """

    heirs: Rows
    rows: Rows
    places: Rows
    nth: Rows


@dataclass(slots=True)
class Succession:
    """What superseding did over all rankings of a run: who replaced whom, and what was left out."""

    pairs: list[Inherited] = field(default_factory=list)
    left: list[tuple[Supersession, Rows]] = field(default_factory=list)

    def heirs_of(self, marked: Mask) -> Rows:
        """The heirs of the marked rows."""
        return np.concatenate([_NO_ROWS, *(pair.heirs[marked[pair.rows]] for pair in self.pairs)])

    def replaced_by(self, heir: int) -> list[int]:
        """The rows whose place a row took, in the order in which it came upon them."""
        found = [row for pair in self.pairs for row in pair.rows[pair.heirs == heir].tolist()]
        return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Supersession:
    """The rule for one run: retired rows, where successors may stand, and whether the old ones stay."""

    snapshot: Snapshot
    retirement: Retirement
    target: Mask
    keep: bool

    def settle(self, ranking: Ranking, succession: Succession) -> Ranking:
        """Put each successor where the better of its own and the inherited evidence puts it.

        Chains resolve to their heads; several heirs all take the place, newest first. A successor
        that fails scope or filter takes no place, and the drop says so.
        """
        retired = self.retirement.mask[ranking.rows]
        if not retired.any():
            return ranking
        inherited = self._inherited(ranking, np.flatnonzero(retired))
        succession.pairs.append(inherited)
        if not self.keep:
            succession.left.append((self, ranking.rows[retired]))
        own = np.arange(len(ranking)) if self.keep else np.flatnonzero(~retired)
        return _merged(ranking, own, inherited)

    def _inherited(self, ranking: Ranking, places: Rows) -> Inherited:
        sole = self.retirement.sole_heads[ranking.rows[places]]
        single = (sole >= 0) & self.target[np.maximum(sole, 0)]
        heirs, where, nth = [sole[single]], [places[single]], [np.full(int(single.sum()), -1)]
        for place in places[sole == SEVERAL].tolist():
            inside = [head for head in self.retirement.heads(int(ranking.rows[place])) if self.target[head]]
            heirs.append(np.asarray(inside, np.int64))
            where.append(np.full(len(inside), place))
            nth.append(np.arange(-len(inside), 0))
        taken = np.concatenate(where)
        order = np.argsort(taken, kind="stable")
        taken = taken[order]
        return Inherited(np.concatenate(heirs)[order], ranking.rows[taken], taken, np.concatenate(nth)[order])

    def drop(self, row: int) -> Drop:
        """Why a retired row is left out, and in whose favour."""
        records, heads = self.snapshot.records, self.retirement.heads(row)
        # A successor that has expired retires without being named: the caller may not see it.
        by = tuple(dict.fromkeys(records[head].id for head in heads))
        outside = heads and not any(self.target[head] for head in heads)
        named = f" (by {', '.join(by)})" if by else ""
        word = OUTSIDE if outside else SUPERSEDED
        return Drop(records[row], SUPERSEDED, f"{word}: {self.retirement.ground(row)}{named}", by)


class Replaced(Sequence[Drop]):
    """The retired rows that a run left out, in the order of their keys; made when looked at."""

    def __init__(self, succession: Succession) -> None:
        rows = np.concatenate([_NO_ROWS, *(rows for _, rows in succession.left)])
        self._rows, first = np.unique(rows, return_index=True)
        bounds = np.cumsum([len(rows) for _, rows in succession.left])
        # Each by the rule of the source that came upon it first.
        self._rules = [succession.left[n][0] for n in np.searchsorted(bounds, first, side="right").tolist()]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Drop: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Drop]: ...
    def __getitem__(self, at: int | slice) -> Drop | Sequence[Drop]:
        return self._all[at]

    @lazy
    def _all(self) -> list[Drop]:
        pairs = zip(self._rules, self._rows.tolist(), strict=True)
        return sorted((rule.drop(row) for rule, row in pairs), key=lambda drop: drop.record.key)


_NO_ROWS: Rows = np.empty(0, np.int64)


def _merged(ranking: Ranking, own: Rows, inherited: Inherited) -> Ranking:
    """Rows in their own places and heirs in the places they inherit; each row once, at its best.

    With equal scores the better place decides.
    """
    place = np.concatenate([own, inherited.places])
    rows = np.concatenate([ranking.rows[own], inherited.heirs])
    step = np.concatenate([np.zeros(len(own), np.int64), inherited.nth])
    via = np.concatenate([np.full(len(own), -1), inherited.rows])
    best = np.lexsort((step, place, -ranking.scores[place], rows))
    best = best[np.flatnonzero(np.diff(rows[best], prepend=-1))]
    best = best[np.lexsort((step[best], place[best], -ranking.scores[place[best]]))]
    where = place[best]
    return Ranking(rows[best], ranking.scores[where], ranking.shares[where], via[best])


@dataclass(frozen=True, slots=True)
class DropSuperseded(Stage):
    """The plain pairwise form: see `drop_superseded`."""

    similarity: float
    name = "drop_superseded"

    def __call__(self, hits: Sequence[Hit], moment: Moment, /) -> Kept:
        """Drop each hit that is too similar to a newer one that stays."""
        newer: list[Hit] = []
        dropped: dict[int, Drop] = {}
        for position in newest_first(hits):
            hit = hits[position]
            twin = next((n for n in newer if moment.similarity(n, hit) > self.similarity), None)
            if twin is None:
                newer.append(hit)
                continue
            reason = f"cosine above {self.similarity} with the newer {twin.id}"
            dropped[position] = Drop(hit.record, self.name, reason, (twin.id,))
        kept = [hit for n, hit in enumerate(hits) if n not in dropped]
        return kept, [dropped[n] for n in sorted(dropped)]


def drop_superseded(similarity: float = 0.85) -> Stage:
    """A stage that drops what is nearly the same as a newer hit, by cosine alone.

    It knows no slots and no links: it merges "is permitted" with "is not permitted". Use
    `- superseded` wherever records say what they assert.

    Raises:
        ArgumentError: unless 0 < similarity <= 1.
    """
    if isinstance(similarity, bool) or not isinstance(similarity, int | float) or not 0 < similarity <= 1:
        raise ArgumentError("similarity", similarity, "a cosine above 0, at most 1")
    return DropSuperseded(float(similarity))
