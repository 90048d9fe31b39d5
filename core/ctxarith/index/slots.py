"""Assertions, versions and links of a snapshot: the facts from which retirement is decided.

Newer is a total order: (`valid_from` or `created_at`, `created_at`, version in natural order, id).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.columns import Mask
from ctxarith.index.graph import looping
from ctxarith.model import Record, Slot

Rows = NDArray[np.int64]

# The similarity that a guessed slot needs with the newer record before it retires.
INFERRED_SIMILARITY = 0.85

_UNDATED = datetime.min.replace(tzinfo=UTC)


def newness(record: Record) -> tuple[datetime, datetime, tuple[tuple[int, int, str], ...], str]:
    """The key by which one assertion is newer than another; insertion order plays no part."""
    asserted_at = record.created_at or _UNDATED
    return (record.valid_from or asserted_at, asserted_at, natural(record.version), record.id)


def natural(version: str) -> tuple[tuple[int, int, str], ...]:
    """Natural order: "v10" is newer than "v9".

    >>> natural("v10") > natural("v9")
    True
    """
    pieces = re.split(r"([0-9]+)", version)
    return tuple((1, int(p), "") if p[0] in "0123456789" else (0, 0, p) for p in pieces if p)


def asserted(record: Record) -> tuple[Slot, ...]:
    """The slots that a record asserts; mentions are not among them."""
    return tuple(slot for slot in record.slots if slot.asserts)


@dataclass(frozen=True, slots=True)
class Groups:
    """(group, row) pairs sorted by group and newness: the newest of each group is one pass.

    A group is a fact (subject and attribute) or an id with several versions. `starts` are the
    positions at which groups begin, `owner` numbers each pair's group.
    """

    rows: Rows
    owner: Rows
    starts: Rows
    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[object, int, Slot]], rank: Rows) -> Groups:
        """Number the groups and sort the pairs."""
        numbers: dict[object, int] = {}
        known = [(numbers.setdefault(group, len(numbers)), row, slot) for group, row, slot in pairs]
        known.sort(key=lambda pair: (pair[0], rank[pair[1]]))
        owner = np.asarray([pair[0] for pair in known], np.int64)
        return cls(
            rows=np.asarray([pair[1] for pair in known], np.int64),
            owner=owner,
            starts=np.flatnonzero(np.diff(owner, prepend=-1)),
            slots=tuple(pair[2] for pair in known),
        )

    def newest(self, active: Mask, rank: Rows, by_rank: Rows) -> Rows:
        """For each pair the newest active row of its group if it is newer than the pair's own, else -1."""
        if not len(self.rows):
            return self.rows
        best = np.maximum.reduceat(np.where(active, rank[self.rows], -1), self.starts)[self.owner]
        return np.where(best > rank[self.rows], by_rank[best], -1)


class Slots:
    """What the rows of one snapshot assert, which ids have versions, and who names whom."""

    def __init__(
        self,
        records: Sequence[Record],
        similarity: Callable[[int, int], float],
        linked_to: Callable[[str, str], Sequence[int]],
    ) -> None:
        self.records = records
        self.similarity = similarity
        self._linked_to = linked_to
        self.by_rank = np.asarray(
            sorted(range(len(records)), key=lambda row: (newness(records[row]), records[row].tenant)),
            np.int64,
        )
        self.rank = np.empty(len(records), np.int64)
        self.rank[self.by_rank] = np.arange(len(records))
        self.facts = Groups.of(self._assertions(), self.rank)
        self.versions = Groups.of(self._version_pairs(), self.rank)

    @cached_property
    def guessed(self) -> Mask:
        """Which of the assertions were inferred by a model."""
        return np.fromiter((slot.inferred for slot in self.facts.slots), np.bool_, len(self.facts.slots))

    @cached_property
    def pairs_of(self) -> dict[int, list[int]]:
        """The positions of a row's assertions in `facts`."""
        positions: dict[int, list[int]] = defaultdict(list)
        for position, row in enumerate(self.facts.rows.tolist()):
            positions[row].append(position)
        # In the record's own order, which does not depend on what else there is.
        for row, own in positions.items():
            own.sort(key=lambda position: self.records[row].slots.index(self.facts.slots[position]))
        return positions

    @cached_property
    def links(self) -> list[tuple[int, int]]:
        """(newer, older) rows: the newer names the older's id, or its source, in `supersedes`."""
        return [
            (row, old)
            for row, record in enumerate(self.records)
            for named in record.supersedes
            for old in self._linked_to(record.tenant, named)
            if old != row
        ]

    @cached_property
    def has_link_loops(self) -> bool:
        """Whether any loop of links was met on disk; no subset of the links has one otherwise."""
        return bool(looping(self.links))

    def rivals(self, one: int, other: int) -> bool:
        """Whether two rows assert the same fact."""
        first, second = ({(s.subject, s.attribute) for s in asserted(self.records[r])} for r in (one, other))
        return not first.isdisjoint(second)

    def against_dates(self, new: int, old: int) -> bool:
        """Whether a link names a record that is dated later than the one that names it."""
        first, second = self.records[old], self.records[new]
        start, end = first.valid_from or first.created_at, second.valid_from or second.created_at
        return start is not None and end is not None and start > end

    def _assertions(self) -> Iterable[tuple[object, int, Slot]]:
        for row, record in enumerate(self.records):
            # A fact asserted twice by one record is declared if either says so.
            declared_last = sorted(asserted(record), key=lambda slot: not slot.inferred)
            for slot in {(slot.subject, slot.attribute): slot for slot in declared_last}.values():
                yield (record.tenant, slot.subject, slot.attribute), row, slot

    def _version_pairs(self) -> Iterable[tuple[object, int, Slot]]:
        version = Slot(None, "version")
        by_id: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row, record in enumerate(self.records):
            by_id[(record.tenant, record.id)].append(row)
        several = ((key, rows) for key, rows in by_id.items() if len(rows) > 1)
        return ((key, row, version) for key, rows in several for row in rows)
