"""Assertions, versions and links of all rows: the facts from which retirement is decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.build import fact_digest
from ctxarith.index.columns import Mask, Rows
from ctxarith.index.dense import Scores
from ctxarith.index.graph import looping_rows
from ctxarith.index.groups import NOTHING, Groups, joined, moved
from ctxarith.index.newness import UNDATED
from ctxarith.index.segment import FactTable, Segment
from ctxarith.index.stack import Stack
from ctxarith.lazy import lazy
from ctxarith.model import Record, Slot

# The similarity that a guessed slot needs with the newer record before it retires.
INFERRED_SIMILARITY = 0.85


def asserted(record: Record) -> tuple[Slot, ...]:
    """The slots that a record asserts; mentions are not among them."""
    return tuple(slot for slot in record.slots if slot.asserts)


@dataclass(frozen=True, slots=True)
class Links:
    """(newer, older) rows: the newer names the older's id, or its source, in `supersedes`.

    `against` says that the older is dated later than the one that names it; `older` that the one that
    names is the older in the order of all records; `backwards` that the link decides against that
    order between two that assert one fact, or against the dates.
    """

    new: Rows
    old: Rows
    against: Mask
    older: Mask
    backwards: Mask

    def taken(self, chosen: Mask | slice) -> Links:
        """Some of the links."""
        return Links(*(getattr(self, name)[chosen] for name in self.__slots__))


class Slots:
    """What the rows of one snapshot assert, which ids have versions, and who names whom."""

    def __init__(self, stack: Stack, live: Mask, similarity: Callable[[Rows, Rows], Scores]) -> None:
        self.records = stack
        self._similarity = similarity
        self._live = live

    def alike(self, rows: Rows, others: Rows) -> Mask:
        """Whether the texts of two rows are so similar that one may be guessed to replace the other."""
        return self._similarity(rows, others) > INFERRED_SIMILARITY

    @lazy
    def facts(self) -> Groups:
        """The assertions of each fact."""
        tables = [moved(segment.facts, run.start) for segment, run in self.records.parts()]
        return joined(tables, tables, self.records)

    @lazy
    def versions(self) -> Groups:
        """The rows of each id that has several."""
        tables = [moved(segment.versions, run.start) for segment, run in self.records.parts()]
        whole = [moved(_every_id(segment), run.start) for segment, run in self.records.parts()]
        return joined(tables, whole, self.records)

    def of_fact(self, tenant: str, subject: str, attribute: str) -> list[int]:
        """The rows that assert one fact."""
        group = np.frombuffer(fact_digest(tenant, subject, attribute), "S16")
        rows: list[int] = self.facts.table.row[self.facts.table.group == group].tolist()
        return rows

    def slot(self, position: int) -> Slot:
        """The assertion at a position of `facts`."""
        table = self.facts.table
        found: Slot = self.records[table.row[position]].slots[int(table.ordinal[position])]
        return found

    def pairs_of(self, row: int) -> list[int]:
        """The positions of a row's assertions in `facts`, in the record's own order."""
        if not self.asserting[row]:
            return []
        order, rows = self._by_row
        low, high = np.searchsorted(rows, [row, row + 1])
        positions: list[int] = order[low:high].tolist()
        return sorted(positions, key=lambda position: int(self.facts.table.ordinal[position]))

    @lazy
    def asserting(self) -> Mask:
        """The rows that assert anything."""
        mask = np.zeros(len(self.records), np.bool_)
        mask[self.facts.table.row] = True
        return mask

    @lazy
    def _by_row(self) -> tuple[Rows, Rows]:
        order = np.argsort(self.facts.table.row, kind="stable")
        return order, self.facts.table.row[order]

    @lazy
    def links(self) -> Links:
        """Who names whom; links to records that are not here are left out."""
        pairs = [(segment.links, run.start) for segment, run in self.records.parts()]
        naming = np.concatenate([_NO_ROWS, *(rows + first for (rows, _), first in pairs)])
        targets = np.concatenate([NOTHING.group, *(target for (_, target), _ in pairs)])
        stands = self._live[naming]
        naming, targets = naming[stands], targets[stands]
        which, found = self._named(targets, "id")
        known = np.zeros(len(targets), np.bool_)
        known[which] = True
        others = np.flatnonzero(~known)
        which_source, by_source = self._named(targets[others], "source")
        new = naming[np.concatenate([which, others[which_source]])]
        old = np.concatenate([found, by_source])
        order = np.lexsort((new, old))
        new, old = new[order], old[order]
        apart = new != old
        return self._judged(new[apart], old[apart])

    def _named(self, targets: NDArray[np.bytes_], by: str) -> tuple[Rows, Rows]:
        which, rows = self.records.named(targets, by)
        stands = self._live[rows]
        return which[stands], rows[stands]

    def _judged(self, new: Rows, old: Rows) -> Links:
        start = self.records.row("start")
        against = (start[old] > start[new]) & (start[new] != UNDATED)
        older = self.records.older(new, old)
        backwards = against.copy()
        for n in np.flatnonzero(older & ~against).tolist():
            backwards[n] = self.rivals(int(new[n]), int(old[n]))
        return Links(new, old, against, older, backwards)

    @lazy
    def has_link_loops(self) -> bool:
        """Whether any loop of links was met on disk; no subset of the links has one otherwise."""
        links = self.links
        # A loop cannot go from newer to older all the way round.
        return bool(links.older.any()) and bool(looping_rows(links.new, links.old))

    def rivals(self, one: int, other: int) -> bool:
        """Whether two rows assert the same fact."""
        first, second = ({(s.subject, s.attribute) for s in asserted(self.records[r])} for r in (one, other))
        return not first.isdisjoint(second)


_NO_ROWS: Rows = np.empty(0, np.int64)


def _every_id(segment: Segment) -> FactTable:
    group = segment.arrays["id.digest"]
    zero = np.zeros(len(group), np.int32)
    return FactTable(group, segment.arrays["id.row"].astype(np.int64), zero, zero.astype(np.bool_))
