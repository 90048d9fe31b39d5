"""Who is retired, by whom and why: decided over all permitted records, for one caller and moment.

A record is retired when each slot that it asserts is reasserted by some newer permitted record, when a
newer version of its id exists, or when a permitted record names it in `supersedes`.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from functools import cached_property

import numpy as np

from ctxarith.index.columns import Mask
from ctxarith.index.graph import looping
from ctxarith.index.slots import INFERRED_SIMILARITY, Rows, Slots, asserted
from ctxarith.instant import iso
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
        self._named: dict[int, list[int]] = defaultdict(list)
        self._loops = self._read_links(active, standing)
        fact_active = active.copy()
        # Else a record linked against the order would retire the very one that replaces it.
        backwards = [old for old, news in self._named.items() if any(self._backwards(n, old) for n in news)]
        fact_active[backwards] = False
        self._fact_by = self._facts(fact_active)
        self._version_by = self._versions(active)
        self.mask = self._mask(standing)
        # Only a link from the older to the newer can close a loop with slots.
        rank = self._slots.rank
        suspects = [old for old, news in self._named.items() if any(rank[n] < rank[old] for n in news)]
        if suspects:
            self._find_loops(suspects)
        for row in self._loops:
            self.mask[row] &= bool(self.heirs(row))
        self._heads: dict[int, tuple[int, ...]] = {}

    def _read_links(self, active: Mask, standing: Mask) -> set[int]:
        links = [(new, old) for new, old in self._slots.links if active[new] and standing[old]]
        loops = looping(links) if self._slots.has_link_loops else set()
        for new, old in links:
            if not (new in loops and old in loops):
                self._named[old].append(new)
        return loops

    def _backwards(self, new: int, old: int) -> bool:
        """Whether a link goes against the dates, or against the order between two that assert one fact."""
        if self._slots.against_dates(new, old):
            return True
        return bool(self._slots.rank[new] < self._slots.rank[old]) and self._slots.rivals(new, old)

    def _facts(self, active: Mask) -> Rows:
        """For each assertion the newest row that reasserts it, or -1. Guesses need similarity."""
        slots, facts = self._slots, self._slots.facts
        guessed = slots.guessed
        by = facts.newest(active[facts.rows] & ~guessed, slots.rank, slots.by_rank)
        if not guessed.any():
            return by
        by[guessed] = -1
        doubtful = np.isin(facts.owner, facts.owner[guessed]) & (by < 0)
        for position in np.flatnonzero(doubtful).tolist():
            by[position] = self._alike(position, active)
        return by

    def _alike(self, position: int, active: Mask) -> int:
        """The newest active row of the group, newer and similar enough; guesses are on either side."""
        slots, facts = self._slots, self._slots.facts
        row = int(facts.rows[position])
        stop = int(np.searchsorted(facts.owner, facts.owner[position], side="right"))
        for other in range(stop - 1, position, -1):
            newer = int(facts.rows[other])
            if active[newer] and slots.similarity(row, newer) > INFERRED_SIMILARITY:
                return newer
        return -1

    def _versions(self, active: Mask) -> Rows:
        by = np.full(len(active), -1, np.int64)
        versions = self._slots.versions
        by[versions.rows] = versions.newest(active[versions.rows], self._slots.rank, self._slots.by_rank)
        return by

    def _mask(self, standing: Mask) -> Mask:
        rows, size = self._slots.facts.rows, len(standing)
        asserting = np.bincount(rows, minlength=size)
        fresh = np.bincount(rows[self._fact_by < 0], minlength=size)
        self._by_facts: Mask = (asserting > 0) & (fresh == 0)
        mask = self._by_facts | (self._version_by >= 0)
        mask[list(self._named)] = True
        retired: Mask = mask & standing
        return retired

    def _find_loops(self, start: list[int]) -> None:
        """A link against the order can close a loop with slots: its members all stay."""
        edges, seen, pending = [], set(start), list(start)
        while pending:
            old = pending.pop()
            for new in self.heirs(old):
                edges.append((new, old))
                if new not in seen:
                    seen.add(new)
                    pending.append(new)
        self._loops |= looping(edges)

    def heirs(self, row: int) -> list[int]:
        """The rows that retire this one directly."""
        found = list(self._named.get(row, ()))
        if self._version_by[row] >= 0:
            found.append(int(self._version_by[row]))
        if self._by_facts[row]:
            found += [int(self._fact_by[position]) for position in self._slots.pairs_of[row]]
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

    def _joined(self, heirs: list[int]) -> tuple[int, ...]:
        ends = [self._heads[h] if self.mask[h] else ((h,) if self._visible[h] else ()) for h in heirs]
        if len(ends) == 1:
            return ends[0]
        rows = {row for end in ends for row in end}
        return tuple(sorted(rows, key=lambda r: -int(self._slots.rank[r])))

    def ground(self, row: int) -> str:
        """Why a row is retired, as a phrase for a drop."""
        if row in self._named:
            backwards = any(self._slots.against_dates(new, row) for new in self._named[row])
            return "named in supersedes" + (", against the dates" if backwards else "")
        if self._version_by[row] >= 0:
            return "a newer version exists"
        return "; ".join(self._change(at) for at in self._slots.pairs_of[row] if self._fact_by[at] >= 0)

    def _change(self, at: int) -> str:
        """What a fact was and is now; the value of a record that is gone itself stays unsaid."""
        slot, by = self._slots.facts.slots[at], int(self._fact_by[at])
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
        positions = self._slots.pairs_of.get(row, ())
        return tuple(self._slots.facts.slots[at] for at in positions if self._fact_by[at] >= 0)

    def reasserted_by(self, row: int, subject: str, attribute: str) -> tuple[int, ...] | None:
        """The visible rows that hold a fact of this row now; `None` when this row holds it itself."""
        if self.mask[row]:
            return self.heads(row)
        for at in self._slots.pairs_of.get(row, ()):
            slot, by = self._slots.facts.slots[at], int(self._fact_by[at])
            if (slot.subject, slot.attribute) == (subject, attribute) and by >= 0:
                return self.heads(by) if self.mask[by] else ((by,) if self._visible[by] else ())
        return None

    def flags(self, row: int) -> tuple[str, ...]:
        """What a reader should know of a row: a rival by link, a loop, a link against the dates."""
        retired = (RETIRED,) if self.mask[row] else ()
        loop = (LOOP,) if row in self._loops else ()
        return (*retired, *loop, *self._linked_flags.get(row, ()))

    @cached_property
    def _linked_flags(self) -> dict[int, tuple[str, ...]]:
        flags: dict[int, dict[str, None]] = defaultdict(dict)
        for old, news in self._named.items():
            for new in news:
                if self._slots.against_dates(new, old):
                    flags[new][AGAINST_DATES] = None
            rivals = self.heads(old) if len(self.heirs(old)) > 1 else ()
            # The chunks of one document do not contradict each other.
            if len({self._slots.records[row].source_id for row in rivals}) > 1:
                for row in rivals:
                    flags[row][CONFLICT] = None
        return {row: tuple(names) for row, names in flags.items()}


def _said(value: object) -> str:
    return iso(value) if isinstance(value, datetime) else repr(value)
