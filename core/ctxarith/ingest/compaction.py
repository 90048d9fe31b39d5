"""Which segments should become one, and their becoming one.

Sizes are kept geometric: a segment is at least twice as large as all smaller ones together. So there
are few of them, each row is rewritten a logarithmic number of times, and a small write never rewrites
a large segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxarith.index.arrange import Arrays
from ctxarith.index.columns import Rows
from ctxarith.index.merge import merged, parts_of
from ctxarith.index.segment import Segment
from ctxarith.index.snapshot import Snapshot

RATIO = 2
# Up to this many rows a write takes the small segments into its own, at once.
ABSORBED = 4_096
# A segment with more than this share of dead rows is rewritten.
_WASTE = 0.25


def due(snapshot: Snapshot) -> list[Segment]:
    """The segments that should become one: a run of the smallest; or one that is mostly dead."""
    sizes = {segment.name: staying(segment, snapshot) for segment in snapshot.segments}
    ordered = sorted(snapshot.segments, key=lambda segment: -sizes[segment.name])
    for n, segment in enumerate(ordered):
        smaller = sum(sizes[other.name] for other in ordered[n + 1 :])
        if n + 1 < len(ordered) and sizes[segment.name] < RATIO * smaller:
            return ordered[n:]
    wasteful = (s for s in ordered if len(s) - sizes[s.name] > max(_WASTE * len(s), 1))
    return list(wasteful)[:1]


def wasted(snapshot: Snapshot) -> list[Segment]:
    """The segments with any dead row."""
    return [segment for segment in snapshot.segments if staying(segment, snapshot) < len(segment)]


def absorbed(snapshot: Snapshot, incoming: int) -> list[Segment]:
    """The small segments that a write of so many rows takes into its own."""
    chosen: list[Segment] = []
    total = incoming
    for segment in sorted(snapshot.segments, key=len):
        if len(segment) >= RATIO * total or total + len(segment) > ABSORBED:
            break
        chosen.append(segment)
        total += len(segment)
    return chosen


def staying(segment: Segment, snapshot: Snapshot) -> int:
    """How many rows of a segment are not dead."""
    return len(segment) - len(snapshot.dead.get(segment.name, ()))


@dataclass(frozen=True, slots=True)
class Merger:
    """Segments as one, and where each of their rows went.

    Args:
        segments: what was merged.
        arrays: the one segment.
        at: for each segment by name, the new number of each row; -1 for the dead.
    """

    segments: tuple[Segment, ...]
    arrays: Arrays
    at: Mapping[str, Rows]

    @classmethod
    def of(cls, segments: Sequence[Segment], dead: Mapping[str, Rows]) -> Merger:
        """Merge segments, leaving out their dead rows."""
        alive = [_alive(segment, dead) for segment in segments]
        parts = parts_of(segments, alive)
        arrays, order = merged(parts)
        at = {}
        for part in parts:
            numbers = part.at
            numbers[part.kept] = order[numbers[part.kept]]
            at[part.segment.name] = numbers
        return cls(tuple(segments), arrays, at)

    def moved(self, dead: Mapping[str, Rows]) -> Rows:
        """Rows of the merged segments that have died since, numbered as in the one segment."""
        moved = [self.at[name][rows] for name, rows in dead.items() if name in self.at]
        known = np.concatenate([np.empty(0, np.int64), *moved])
        return np.unique(known[known >= 0])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what was merged."""
        return tuple(segment.name for segment in self.segments)


def _alive(segment: Segment, dead: Mapping[str, Rows]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    alive = np.ones(len(segment), np.bool_)
    alive[np.asarray(dead.get(segment.name, ()), np.int64)] = False
    return alive
