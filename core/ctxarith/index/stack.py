"""Several segments seen as one run of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.columns import Rows
from ctxarith.index.newness import newness
from ctxarith.index.segment import Segment
from ctxarith.model import Record


class Stack(Sequence[Record]):
    """The rows of all segments, numbered through; as a sequence, their records, read when asked for."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = tuple(segments)
        self.firsts: Rows = np.cumsum([0, *(len(one) for one in self.segments)])
        self._joined: dict[str, NDArray[Any]] = {}

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def __getitem__(self, row: Any) -> Any:
        segment, at = self.place(int(row))
        return segment.record(at)

    def place(self, row: int) -> tuple[Segment, int]:
        """The segment of a row, and its number there."""
        if len(self.segments) == 1:
            return self.segments[0], row
        part = int(np.searchsorted(self.firsts, row, side="right")) - 1
        return self.segments[part], row - int(self.firsts[part])

    def parts(self) -> Iterator[tuple[Segment, slice]]:
        """Each segment with the run of rows that is its own."""
        for segment, first in zip(self.segments, self.firsts.tolist(), strict=False):
            yield segment, slice(first, first + len(segment))

    def row(self, name: str) -> NDArray[Any]:
        """One array that is aligned with all rows; never vectors."""
        known = self._joined.get(name)
        if known is None:
            arrays = [segment.row(name) for segment in self.segments]
            known = arrays[0] if len(arrays) == 1 else np.concatenate([*arrays, *_NOTHING[: not arrays]])
            self._joined[name] = known
        return known

    def part_of(self, rows: Rows) -> Rows:
        """The number of each row's segment."""
        return np.searchsorted(self.firsts, rows, side="right") - 1

    def named(self, digests: NDArray[np.bytes_], by: str) -> tuple[Rows, Rows]:
        """The rows of ids or sources, dead ones too, as (which of the digests, row) pairs."""
        found = [(segment.named(digests, by), rows.start) for segment, rows in self.parts()]
        which = [pair[0] for pair, _ in found]
        rows = [pair[1] + first for pair, first in found]
        return np.concatenate([*which, _EMPTY]), np.concatenate([*rows, _EMPTY])

    def by_key(self, rows: Rows) -> Rows:
        """The rank of each of these rows, of one tenant, in the order of id, version and revision."""
        if len(self.segments) == 1:
            return self.segments[0].place[rows].astype(np.int64)
        prefix = self.row("prefix")[rows]
        order = np.argsort(prefix, kind="stable")
        order = without_ties(order, (prefix,), lambda tied: self._by_whole_key(rows[tied]))
        return _ranks(order)

    def _by_whole_key(self, rows: Rows) -> Rows:
        places = [self.place(int(row)) for row in rows]
        order = sorted(range(len(rows)), key=lambda n: places[n][0].key(places[n][1]))
        return _ranks(np.asarray(order, np.int64))

    def by_newness(self, rows: Rows, groups: NDArray[Any]) -> Rows:
        """The order that sorts rows by group, then from the oldest to the newest."""
        start, created, age = (self.row(name)[rows] for name in ("start", "created", "age"))
        part = self.part_of(rows)
        order = np.lexsort((age, part, created, start, groups))
        if len(self.segments) == 1 or len(order) < 2:
            return order
        first, second = order[:-1], order[1:]
        tied = (groups[first] == groups[second]) & (start[first] == start[second])
        tied &= created[first] == created[second]
        # Inside one segment `age` has settled what the times leave open.
        for begin, end in _runs(tied):
            run = order[begin:end].tolist()
            if len(set(part[run].tolist())) > 1:
                run.sort(key=lambda n: (newness(self[rows[n]]), self[rows[n]].tenant))
                order[begin:end] = run
        return order

    def older(self, one: Rows, other: Rows) -> NDArray[np.bool_]:
        """Whether each first row is older than the second of its pair, in the total order."""
        start, created, age = (self.row(name) for name in ("start", "created", "age"))
        earlier = start[one] < start[other]
        same = start[one] == start[other]
        earlier |= same & (created[one] < created[other])
        same &= created[one] == created[other]
        together = self.part_of(one) == self.part_of(other)
        earlier |= same & together & (age[one] < age[other])
        for n in np.flatnonzero(same & ~together).tolist():
            earlier[n] = newness(self[one[n]]) < newness(self[other[n]])
        return np.asarray(earlier, np.bool_)


def without_ties(order: Rows, keys: Sequence[NDArray[Any]], rank: Callable[[Rows], Rows]) -> Rows:
    """An order by `keys` in which equals stand by `rank`, which is asked about them alone.

    Args:
        order: positions, sorted by the keys.
        keys: arrays aligned with the positions.
        rank: a number for each of some positions, smaller first.
    """
    if len(order) < 2:
        return order
    first, second = order[:-1], order[1:]
    tied = np.logical_and.reduce([key[first] == key[second] for key in keys])
    if not tied.any():
        return order
    # All tied runs at once: by the run, then by the rank.
    begins = np.concatenate([[True], ~tied])
    among = np.zeros(len(order), np.bool_)
    among[1:] |= tied
    among[:-1] |= tied
    places = np.flatnonzero(among)
    run = np.cumsum(begins)[places]
    settled = order.copy()
    settled[places] = order[places][np.lexsort((rank(order[places]), run))]
    return settled


def _ranks(order: Rows) -> Rows:
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _runs(tied: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Where neighbours are tied: (first, one past the last) of each run of two or more."""
    edges = np.diff(tied.astype(np.int8), prepend=0, append=0)
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    yield from zip(begins.tolist(), (ends + 1).tolist(), strict=True)


_EMPTY: Rows = np.empty(0, np.int64)
_NOTHING = (_EMPTY,)
