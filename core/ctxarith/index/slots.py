"""Who retires whom: decided over all permitted records, not over the candidates.

A record is retired when each slot that it asserts is reasserted by some newer permitted record, when a
newer version of its id exists, or when a permitted record names it in `supersedes`. Newer is a total
order: (`valid_from` or `created_at`, `created_at`, version in natural order, id).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.columns import Mask
from ctxarith.index.graph import heads, looping
from ctxarith.model import Record, Slot

SLOT, LINK, VERSION = "slot", "link", "version"
CONFLICT, LOOP, AGAINST_DATES = "conflict", "loop", "link_against_dates"

# The similarity that a guessed slot needs before it retires: see Record slots, `inferred`.
INFERRED_SIMILARITY = 0.85

_UNDATED = datetime.min.replace(tzinfo=UTC)


def newness(record: Record) -> tuple[datetime, datetime, tuple[tuple[int, int, str], ...], str]:
    """The key by which one assertion is newer than another; insertion order plays no part."""
    asserted = record.created_at or _UNDATED
    return (record.valid_from or asserted, asserted, natural(record.version), record.id)


def _seconds(moment: datetime | None) -> float:
    return (moment or _UNDATED).timestamp()


def natural(version: str) -> tuple[tuple[int, int, str], ...]:
    """Natural order: "v10" is newer than "v9".

    >>> natural("v10") > natural("v9")
    True
    """
    pieces = re.split(r"([0-9]+)", version)
    return tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in pieces if p)


@dataclass(frozen=True, slots=True)
class _Assertions:
    """(group, row) pairs sorted by group and newness: the newest permitted of each group is one pass."""

    groups: NDArray[np.int64]
    rows: NDArray[np.int64]
    guessed: Mask

    @classmethod
    def of(cls, pairs: Iterable[tuple[object, int, bool]], rank: NDArray[np.int64]) -> _Assertions:
        numbers: dict[object, int] = {}
        known = [(numbers.setdefault(group, len(numbers)), row, guess) for group, row, guess in pairs]
        known.sort(key=lambda pair: (pair[0], rank[pair[1]]))
        columns = list(zip(*known, strict=True)) or [(), (), ()]
        return cls(
            np.asarray(columns[0], np.int64),
            np.asarray(columns[1], np.int64),
            np.asarray(columns[2], np.bool_),
        )

    def newest(self, active: Mask, rank: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each pair the row of its group's newest active assertion, or -1."""
        if not len(self.rows):
            return self.rows
        by_rank = np.argsort(rank)
        ranks = np.where(active[self.rows], rank[self.rows], -1)
        starts = np.flatnonzero(np.diff(self.groups, prepend=-1))
        best = np.maximum.reduceat(ranks, starts)[np.cumsum(np.diff(self.groups, prepend=-1) > 0) - 1]
        return np.where(best >= 0, by_rank[best], -1)


class Slots:
    """The assertions, versions and links of one snapshot's rows."""

    def __init__(self, records: Sequence[Record], similarity: Callable[[int, int], float]) -> None:
        self._records = records
        self._similarity = similarity
        order = sorted(range(len(records)), key=lambda row: (newness(records[row]), records[row].tenant))
        self.rank = np.empty(len(records), np.int64)
        self.rank[order] = np.arange(len(records))
        # The ranking date of each row in epoch seconds, for ties; undated rows come last.
        self.dates = np.asarray([_seconds(record.dated) for record in records], np.float64)
        self._asserted = _Assertions.of(self._assertions(), self.rank)
        by_id: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row, record in enumerate(records):
            by_id[(record.tenant, record.id)].append(row)
        several = ((key, row, False) for key, rows in by_id.items() if len(rows) > 1 for row in rows)
        self._versions = _Assertions.of(several, self.rank)
        self._links = [
            (row, old)
            for row, record in enumerate(records)
            for named in record.supersedes
            for old in by_id.get((record.tenant, named), ())
        ]

    def _assertions(self) -> Iterable[tuple[object, int, bool]]:
        for row, record in enumerate(self._records):
            for slot in dict.fromkeys((s.subject, s.attribute, s.inferred) for s in asserted(record)):
                yield (record.tenant, *slot[:2]), row, slot[2]

    def retirement(self, standing: Mask, dated: Mask) -> Retirement:
        """Decide for one caller and one moment.

        Args:
            standing: rows the caller may see, the upper end of validity aside.
            dated: rows whose own dates have come; one dated in the future retires nothing yet.
        """
        active = standing & dated
        links = [(new, old) for new, old in self._links if active[new] and standing[old]]
        loops = looping(links)
        links = [(new, old) for new, old in links if not (new in loops and old in loops)]
        against = {old for new, old in links if self.rank[old] > self.rank[new]}
        by_slot = active.copy()
        by_slot[list(against)] = False
        draft = Retirement(self._records, against, loops)
        for new, old in links:
            draft.add(old, new, LINK)
        self._by_version(draft, active, standing)
        self._by_slot(draft, by_slot, standing)
        if against:
            draft.break_loops()
        return draft

    def _by_version(self, draft: Retirement, active: Mask, standing: Mask) -> None:
        newest = self._versions.newest(active, self.rank)
        for row, best in zip(self._versions.rows.tolist(), newest.tolist(), strict=True):
            if best >= 0 and standing[row] and self.rank[best] > self.rank[row]:
                draft.add(row, best, VERSION)

    def _by_slot(self, draft: Retirement, active: Mask, standing: Mask) -> None:
        table = self._asserted
        newest = table.newest(active, self.rank)
        found = standing[table.rows] & (newest >= 0)
        newer = found & (self.rank[newest] > self.rank[table.rows])
        fresh = np.zeros(len(self._records), np.int64)
        np.add.at(fresh, table.rows[~newer], 1)
        for at in np.flatnonzero(newer).tolist():
            row, best = int(table.rows[at]), int(newest[at])
            if self._guess_fails(at, row, best):
                fresh[row] += 1
            else:
                draft.stale(row, best, self._slot_of(row, best))
        draft.settle_slots(lambda row: fresh[row] == 0)

    def _guess_fails(self, at: int, row: int, best: int) -> bool:
        slots = {(s.subject, s.attribute) for s in asserted(self._records[row])}
        guessed = bool(self._asserted.guessed[at]) or any(
            s.inferred and (s.subject, s.attribute) in slots for s in asserted(self._records[best])
        )
        return guessed and self._similarity(row, best) <= INFERRED_SIMILARITY

    def _slot_of(self, row: int, best: int) -> tuple[Slot, ...]:
        newer = {(s.subject, s.attribute) for s in asserted(self._records[best])}
        return tuple(s for s in asserted(self._records[row]) if (s.subject, s.attribute) in newer)


def asserted(record: Record) -> tuple[Slot, ...]:
    """The slots that a record asserts; mentions are not among them."""
    return tuple(slot for slot in record.slots if slot.asserts)


class Retirement:
    """The answer for one caller and moment: which rows are retired, by whom, and on what ground."""

    def __init__(self, records: Sequence[Record], against: set[int], loops: set[int]) -> None:
        self._records = records
        self._against = against
        self._loops = set(loops)
        self._heirs: dict[int, dict[int, str]] = defaultdict(dict)
        self._stale: dict[int, dict[int, tuple[Slot, ...]]] = defaultdict(dict)

    def add(self, old: int, new: int, ground: str) -> None:
        """Record that `new` retires `old`."""
        self._heirs[old].setdefault(new, ground)

    def stale(self, row: int, by: int, slots: tuple[Slot, ...]) -> None:
        """Record that some slots of `row` are reasserted by the newer row `by`."""
        self._stale[row][by] = slots

    def settle_slots(self, all_stale: Callable[[int], bool]) -> None:
        """Retire the rows none of whose asserted slots is fresh."""
        for row, newer in self._stale.items():
            if all_stale(row):
                for by in newer:
                    self.add(row, by, SLOT)

    def break_loops(self) -> None:
        """Links against the dates can close a loop with slots: its members all stay."""
        edges = [(new, old) for old, news in self._heirs.items() for new in news]
        loops = looping(edges)
        for old in loops:
            self._heirs[old] = {n: g for n, g in self._heirs[old].items() if n not in loops}
            if not self._heirs[old]:
                del self._heirs[old]
        self._loops |= loops

    @property
    def rows(self) -> set[int]:
        """Every retired row."""
        return set(self._heirs)

    def mask(self, size: int) -> Mask:
        """The retired rows as a mask."""
        mask = np.zeros(size, np.bool_)
        mask[list(self._heirs)] = True
        return mask

    def heads(self, row: int) -> tuple[int, ...]:
        """The rows at the end of the chain that starts at a retired row, newest first."""
        ends = heads(row, self._heirs)
        return tuple(sorted(ends, key=lambda r: newness(self._records[r]), reverse=True))

    def ground(self, row: int) -> str:
        """Why a row is retired, as a sentence for a drop."""
        grounds = set(self._heirs[row].values())
        if LINK in grounds:
            return "named in supersedes" + (" (against the dates)" if row in self._against else "")
        if VERSION in grounds:
            return "a newer version exists"
        slots = [slot for news in self._stale[row].values() for slot in news]
        named = ", ".join(dict.fromkeys(f"{slot.subject}/{slot.attribute}" for slot in slots))
        return f"{named} reasserted"

    def stale_slots(self, row: int) -> tuple[Slot, ...]:
        """The slots of a row that newer records reassert, whether or not the row is retired."""
        return tuple(dict.fromkeys(s for news in self._stale.get(row, {}).values() for s in news))

    def flags(self, row: int) -> tuple[str, ...]:
        """What a reader should know: `loop`."""
        return (LOOP,) if row in self._loops else ()

    def heir_flags(self, row: int, among: Sequence[int]) -> tuple[str, ...]:
        """Flags for the heirs of a retired row: rivals by link are a conflict."""
        linked = [n for n, ground in self._heirs[row].items() if ground == LINK]
        flags = (CONFLICT,) if len(among) > 1 and len(linked) > 1 else ()
        return (*flags, AGAINST_DATES) if row in self._against else flags
