"""Retired records leave, and their successors take the places that they earned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ctxarith.algebra import Kept, Moment, Stage
from ctxarith.errors import ArgumentError
from ctxarith.evidence import Drop, Hit
from ctxarith.index.columns import Mask, Rows
from ctxarith.index.retirement import Retirement
from ctxarith.index.snapshot import Snapshot
from ctxarith.stages.order import newest_first
from ctxarith.stages.retrieve import Ranking

SUPERSEDED = "superseded"
OUTSIDE = "superseded_outside_filter"


@dataclass(slots=True)
class Succession:
    """What superseding did over all rankings of a run: who replaced whom, and what was dropped."""

    replaces: dict[int, dict[int, None]] = field(default_factory=dict)
    drops: dict[int, Drop] = field(default_factory=dict)


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
        heirs: list[int] = []
        places: list[int] = []
        nth: list[int] = []
        for place in np.flatnonzero(retired).tolist():
            following = self._succeed(int(ranking.rows[place]), succession)
            heirs.extend(following)
            places.extend([place] * len(following))
            nth.extend(range(-len(following), 0))
        own = np.arange(len(ranking)) if self.keep else np.flatnonzero(~retired)
        return _merged(ranking, own, np.asarray(heirs, np.int64), np.asarray(places, np.int64), nth)

    def _succeed(self, row: int, succession: Succession) -> list[int]:
        heads = self.retirement.heads(row)
        inside = [head for head in heads if self.target[head]]
        for head in inside:
            succession.replaces.setdefault(head, {})[row] = None
        if not self.keep:
            succession.drops.setdefault(row, self._drop(row, heads, inside))
        return inside

    def _drop(self, row: int, heads: Sequence[int], inside: Sequence[int]) -> Drop:
        records = self.snapshot.records
        # A successor that has expired retires without being named: the caller may not see it.
        by = tuple(dict.fromkeys(records[head].id for head in heads))
        word = OUTSIDE if heads and not inside else SUPERSEDED
        named = f" (by {', '.join(by)})" if by else ""
        return Drop(records[row], SUPERSEDED, f"{word}: {self.retirement.ground(row)}{named}", by)


def _merged(ranking: Ranking, own: Rows, heirs: Rows, places: Rows, nth: Sequence[int]) -> Ranking:
    """Rows in their own places and heirs in the places they inherit; each row once, at its best.

    With equal scores the better place decides.
    """
    place = np.concatenate([own, places])
    rows = np.concatenate([ranking.rows[own], heirs])
    step = np.concatenate([np.zeros(len(own), np.int64), np.asarray(nth, np.int64)])
    via = np.concatenate([np.full(len(own), -1), ranking.rows[places]])
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
