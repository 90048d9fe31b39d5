"""Pairs of (group, row) of all segments as one table, and the newest active row of each group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.columns import Mask, Rows
from ctxarith.index.segment import FactTable
from ctxarith.index.stack import Stack
from ctxarith.index.strings import spans

NOTHING = FactTable(np.empty(0, "S16"), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.bool_))


@dataclass(frozen=True, slots=True)
class Groups:
    """Pairs of (group, row): each group one run of the table, from its oldest row to its newest.

    Args:
        table: the pairs; rows are numbered through all segments.
        last: the place of the last pair of each pair's group.
    """

    table: FactTable
    last: Rows

    @classmethod
    def of(cls, table: FactTable) -> Groups:
        """Mark the groups of a table in which each is one run."""
        group = table.group
        ends = np.append(np.flatnonzero(group[1:] != group[:-1]), len(group) - 1)
        return cls(table, np.repeat(ends, np.diff(ends, prepend=-1)))

    def newest(self, active: Mask) -> Rows:
        """For each pair the newest active row of its group if it is newer than the pair's own, else -1."""
        return self._rows(_latest(active)[self.last])

    def newest_alike(self, active: Mask, asked: Rows, alike: Callable[[Rows, Rows], Mask]) -> Rows:
        """As `newest`, for the asked pairs, among the active rows that `alike` finds like the pair's own.

        All pairs go back through their groups together, a step at a time, until each has its row.
        """
        latest, row = _latest(active), self.table.row
        found = np.full(len(row), -1, np.int64)
        places = latest[self.last[asked]]
        while len(asked):
            ahead = places > asked
            asked, places = asked[ahead], places[ahead]
            like = alike(row[asked], row[places])
            found[asked[like]] = places[like]
            asked, places = asked[~like], latest[places[~like] - 1]
        return self._rows(found)

    def _rows(self, places: Rows) -> Rows:
        return np.where(places > np.arange(len(places)), self.table.row[places], -1)


def joined(tables: Sequence[FactTable], whole: Sequence[FactTable], stack: Stack) -> Groups:
    """One table of all segments: the largest as it is, but for the groups that others add to.

    Args:
        tables: the pairs of each segment that matter already there.
        whole: the pairs of each segment that can matter together with others'; sorted by group.
        stack: tells the order of the rows within a group.
    """
    if len(tables) < 2:
        return Groups.of(_concatenated(tables))
    base = max(range(len(tables)), key=lambda n: len(whole[n]))
    rest = [table for n, table in enumerate(whole) if n != base]
    touched = np.unique(np.concatenate([NOTHING.group, *(table.group for table in rest)]))
    affected = _concatenated([_of_groups(whole[base], touched), *rest])
    affected = _taken(affected, stack.by_newness(affected.row, affected.group))
    if whole is not tables:
        affected = _taken(affected, np.flatnonzero(_several(affected.group)))
    left = np.ones(len(tables[base]), np.bool_)
    left[_places(tables[base], touched)] = False
    return Groups.of(_concatenated([_taken(tables[base], np.flatnonzero(left)), affected]))


def _latest(active: Mask) -> Rows:
    """The last active place at or before each place, -1 where there is none."""
    return np.maximum.accumulate(np.where(active, np.arange(len(active)), -1))


def moved(table: FactTable, first: int) -> FactTable:
    """A segment's table with its rows numbered from `first`."""
    return FactTable(table.group, table.row + first, table.ordinal, table.inferred)


def _taken(table: FactTable, chosen: Rows) -> FactTable:
    return FactTable(table.group[chosen], table.row[chosen], table.ordinal[chosen], table.inferred[chosen])


def _concatenated(tables: Sequence[FactTable]) -> FactTable:
    columns = ([getattr(table, name) for table in (NOTHING, *tables)] for name in FactTable.__slots__)
    return FactTable(*map(np.concatenate, columns))


def _places(table: FactTable, groups: NDArray[np.bytes_]) -> Rows:
    """Where the pairs of some groups stand in a table that is sorted by group."""
    low = np.searchsorted(table.group, groups, side="left")
    return spans(low, np.searchsorted(table.group, groups, side="right") - low)


def _of_groups(table: FactTable, groups: NDArray[np.bytes_]) -> FactTable:
    return _taken(table, _places(table, groups))


def _several(group: NDArray[np.bytes_]) -> Mask:
    same = group[1:] == group[:-1]
    several = np.zeros(len(group), np.bool_)
    several[1:] |= same
    several[:-1] |= same
    return several
