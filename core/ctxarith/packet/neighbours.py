"""The rows that hang together with some records: what a write can retire or revive lies among them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from ctxarith.index.columns import Mask
from ctxarith.index.slots import asserted
from ctxarith.index.snapshot import Snapshot
from ctxarith.model import Record
from ctxarith.predicate import Exists

# A component of the supersession graph that is larger is not compared: the write counts as related.
_LARGEST = 2_000


class TooLargeError(Exception):
    """More records hang together than are compared."""


class Neighbours:
    """The rows that hang together with some records by facts, ids and links, over any number of steps."""

    def __init__(self, snapshot: Snapshot, among: Mask) -> None:
        self._snapshot = snapshot
        self._among = among

    def of(self, records: Iterable[Record]) -> set[int]:
        """Row numbers.

        Raises:
            TooLargeError: they are too many to be compared.
        """
        found: set[int] = set()
        ahead = list(records)
        while ahead:
            for row in self._beside(ahead.pop()):
                if row not in found and self._among[row]:
                    found.add(row)
                    ahead.append(self._snapshot.records[row])
            if len(found) > _LARGEST:
                raise TooLargeError
        return found

    def touches(self, record: Record, inside: Mask) -> bool:
        """Whether a record hangs together with some row of a mask; too large to be sure counts."""
        try:
            return any(inside[row] for row in self.of([record]))
        except TooLargeError:
            return True

    def _beside(self, record: Record) -> Iterator[int]:
        snapshot, tenant = self._snapshot, record.tenant
        for slot in asserted(record):
            if slot.subject is not None:
                yield from map(int, snapshot.slots.of_fact(tenant, slot.subject, slot.attribute))
        yield from snapshot.named(tenant, record.id)
        for name in record.supersedes:
            yield from snapshot.linked_to(tenant, name)
        for name in {record.id, record.source_id}:
            yield from (row for row in self._linking.get(name, ()) if self._of(row) == tenant)

    def _of(self, row: int) -> str:
        tenant: str = self._snapshot.records[row].tenant
        return tenant

    @cached_property
    def _linking(self) -> dict[str, list[int]]:
        """The rows that name each name in `supersedes`, whether or not it is there."""
        rows = np.flatnonzero(self._snapshot.columns.mask(Exists("supersedes")) & self._among).tolist()
        by_name: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            for name in self._snapshot.records[row].supersedes:
                by_name[name].append(row)
        return by_name
