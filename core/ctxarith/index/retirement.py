"""Who is retired, by whom and why: decided over all permitted records, for one caller and moment.

A record is retired when each slot that it asserts is reasserted by some newer permitted record, when a
newer version of its id exists, or when a permitted record names it in `supersedes`.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np

from ctxarith.index.columns import Mask, Rows
from ctxarith.index.graph import looping_rows
from ctxarith.index.heirs import SEVERAL, sole_heads, sole_heirs
from ctxarith.index.newness import newness
from ctxarith.index.slots import Links, Slots, asserted
from ctxarith.instant import iso
from ctxarith.lazy import lazy
from ctxarith.model import Slot

CONFLICT, LOOP, AGAINST_DATES, RETIRED = "conflict", "loop", "link_against_dates", "superseded"


class Retirement:
    """The masks of one caller and moment; who replaces whom is read from them when asked.

    Args:
        slots: the snapshot's assertions, versions and links.
        standing: rows the caller may see, the upper end of validity aside: an expired successor
            still keeps the old record retired.
        dated: rows whose own dates have come; one dated in the future retires nothing yet.
        visible: rows the caller may see now.
    """

    def __init__(self, slots: Slots, *, standing: Mask, dated: Mask, visible: Mask) -> None:
        self._slots = slots
        self._visible = visible
        active = standing & dated
        self._loops: set[int] = set()
        self._links = self._read_links(active, standing)
        fact_active = active.copy()
        # Else a record linked against the order would retire the very one that replaces it.
        fact_active[self._links.old[self._links.backwards]] = False
        self._fact_by = self._facts(fact_active, standing)
        self._version_by = self._versions(active)
        self.mask = self._mask(standing)
        # Only a link from the older to the newer can close a loop with slots.
        if self._links.older.any():
            self._find_loops()
        for row in self._loops:
            self.mask[row] &= bool(self.heirs(row))
        self._heads: dict[int, tuple[int, ...]] = {}

    def _read_links(self, active: Mask, standing: Mask) -> Links:
        links = self._slots.links
        links = links.taken(active[links.new] & standing[links.old])
        if not self._slots.has_link_loops:
            return links
        self._loops = looping_rows(links.new, links.old)
        members = list(self._loops)
        return links.taken(~(np.isin(links.new, members) & np.isin(links.old, members)))

    def _named(self, row: int) -> Links:
        """The links that name a row; they are sorted by the row they name."""
        low, high = np.searchsorted(self._links.old, [row, row + 1])
        return self._links.taken(slice(int(low), int(high)))

    def _facts(self, active: Mask, standing: Mask) -> Rows:
        """For each assertion the newest row that reasserts it, or -1. Guesses need similarity."""
        facts, table = self._slots.facts, self._slots.facts.table
        active = active[table.row]
        by = facts.newest(active & ~table.inferred)
        if not table.inferred.any():
            return by
        by[table.inferred] = -1
        doubtful = np.flatnonzero(standing[table.row] & (by < 0))
        return np.maximum(by, facts.newest_alike(active, doubtful, self._slots.alike))

    def _versions(self, active: Mask) -> Rows:
        by = np.full(len(active), -1, np.int64)
        rows = self._slots.versions.table.row
        by[rows] = self._slots.versions.newest(active[rows])
        return by

    def _mask(self, standing: Mask) -> Mask:
        rows, size = self._slots.facts.table.row, len(standing)
        asserting = np.bincount(rows, minlength=size)
        fresh = np.bincount(rows[self._fact_by < 0], minlength=size)
        self._by_facts: Mask = (asserting > 0) & (fresh == 0)
        mask = self._by_facts | (self._version_by >= 0)
        mask[self._links.old] = True
        retired: Mask = mask & standing
        return retired

    def _find_loops(self) -> None:
        """A link against the order can close a loop with slots: its members all stay."""
        old, new = map(np.concatenate, zip(*self._grounds, strict=True))
        known = np.zeros(len(self.mask), np.bool_)
        known[list(self._loops)] = True
        apart = ~(known[old] & known[new])
        self._loops |= looping_rows(new[apart], old[apart])

    def heirs(self, row: int) -> list[int]:
        """The rows that retire this one directly."""
        found: list[int] = self._named(row).new.tolist() if len(self._links.old) else []
        if self._version_by[row] >= 0:
            found.append(int(self._version_by[row]))
        if self._by_facts[row]:
            found += [int(self._fact_by[position]) for position in self._slots.pairs_of(row)]
        heirs = dict.fromkeys(found)
        return [heir for heir in heirs if not (row in self._loops and heir in self._loops)]

    def heads(self, row: int) -> tuple[int, ...]:
        """The visible rows at the ends of the chains from a retired row, newest first."""
        stack = [row]
        while stack:
            node = stack[-1]
            ahead = [heir for heir in self.heirs(node) if self.mask[heir] and heir not in self._heads]
            if node not in self._heads and ahead:
                stack.extend(ahead)
                continue
            if node not in self._heads:
                self._heads[node] = self._joined(self.heirs(node))
            stack.pop()
        return self._heads[row]

    @lazy
    def _grounds(self) -> list[tuple[Rows, Rows]]:
        """(retired rows, their heirs) by facts, by versions and by links."""
        rows = self._slots.facts.table.row
        settled = self._by_facts[rows]
        versions = np.flatnonzero(self._version_by >= 0)
        return [
            (rows[settled], self._fact_by[settled]),
            (versions, self._version_by[versions]),
            (self._links.old, self._links.new),
        ]

    @lazy
    def _sole(self) -> Rows:
        heirs = sole_heirs(len(self.mask), self._grounds)
        heirs[list(self._loops)] = SEVERAL
        return heirs

    @lazy
    def sole_heads(self) -> Rows:
        """For each retired row what `heads` gives, where that is one row or none (`NONE`), else `SEVERAL`."""
        return sole_heads(self._sole, self.mask, self._visible)

    def _joined(self, heirs: list[int]) -> tuple[int, ...]:
        ends = [self._heads[h] if self.mask[h] else ((h,) if self._visible[h] else ()) for h in heirs]
        if len(ends) == 1:
            return ends[0]
        rows = {row for end in ends for row in end}
        return tuple(sorted(rows, key=self._newness, reverse=True))

    def _newness(self, row: int) -> tuple[object, ...]:
        record = self._slots.records[row]
        return (*newness(record), record.tenant)

    def ground(self, row: int) -> str:
        """Why a row is retired, as a phrase for a drop."""
        named = self._named(row)
        if len(named.new):
            return "named in supersedes" + (", against the dates" if named.against.any() else "")
        if self._version_by[row] >= 0:
            return "a newer version exists"
        return "; ".join(self._change(at) for at in self._slots.pairs_of(row) if self._fact_by[at] >= 0)

    def _change(self, at: int) -> str:
        """What a fact was and is now; the value of a record that is gone itself stays unsaid."""
        slot, by = self._slots.slot(at), int(self._fact_by[at])
        fact = (slot.subject, slot.attribute)
        now = (s.value for s in asserted(self._slots.records[by]) if (s.subject, s.attribute) == fact)
        named = f"{slot.subject}/{slot.attribute}"
        if not self._visible[by] or self.mask[by]:
            return f"{named} was {_said(slot.value)} and has changed"
        value = next(now)
        if value == slot.value:
            return f"{named} is said again: {_said(value)}"
        return f"{named} is now {_said(value)}, was {_said(slot.value)}"

    def stale_slots(self, row: int) -> tuple[Slot, ...]:
        """The slots of a row that newer records reassert, whether or not the row is retired."""
        positions = self._slots.pairs_of(row)
        return tuple(self._slots.slot(at) for at in positions if self._fact_by[at] >= 0)

    def reasserted_by(self, row: int, subject: str, attribute: str) -> tuple[int, ...] | None:
        """The visible rows that hold a fact of this row now; `None` when this row holds it itself."""
        if self.mask[row]:
            return self.heads(row)
        for at in self._slots.pairs_of(row):
            slot, by = self._slots.slot(at), int(self._fact_by[at])
            if (slot.subject, slot.attribute) == (subject, attribute) and by >= 0:
                return self.heads(by) if self.mask[by] else ((by,) if self._visible[by] else ())
        return None

    def flags(self, row: int) -> tuple[str, ...]:
        """What a reader should know of a row: a rival by link, a loop, a link against the dates."""
        retired = (RETIRED,) if self.mask[row] else ()
        loop = (LOOP,) if row in self._loops else ()
        against = (AGAINST_DATES,) if row in self._against else ()
        conflict = (CONFLICT,) if row in self._rivals else ()
        return (*retired, *loop, *against, *conflict)

    @lazy
    def _against(self) -> frozenset[int]:
        return frozenset(self._links.new[self._links.against].tolist())

    @lazy
    def _rivals(self) -> frozenset[int]:
        """The rows that replace one record together, by a link at least, and come from several sources."""
        named = np.unique(self._links.old)
        rivals: set[int] = set()
        for old in named[self._sole[named] == SEVERAL].tolist():
            heads = self.heads(old) if len(self.heirs(old)) > 1 else ()
            # The chunks of one document do not contradict each other.
            if len({self._slots.records[row].source_id for row in heads}) > 1:
                rivals.update(heads)
        return frozenset(rivals)


def _said(value: object) -> str:
    return iso(value) if isinstance(value, datetime) else repr(value)
