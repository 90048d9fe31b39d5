"""What a write is about to do, and what writes report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ctxarith.ingest.prepare import content_hash
from ctxarith.model import Record
from ctxarith.ports import Row, RowKey


@dataclass(frozen=True, slots=True)
class Added:
    """What an `add` did. `dangling` are ids named in `supersedes` that the corpus does not hold."""

    added: int = 0
    corrected: int = 0
    unchanged: int = 0
    embedded: int = 0
    dangling: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Synced:
    """What a look at the store found that others had done."""

    added: int = 0
    changed: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A write: rows to put, keys to take out, what the store holds of both now, and how the feed tells it.

    Args:
        rows: to insert or replace.
        leaving: keys to remove.
        before: the rows as they are now, to take the write back.
        dead: the numbers of the index's rows that the write replaces or removes.
        told: for each record that changes, its key and what it was.
    """

    rows: Sequence[Row] = ()
    leaving: Sequence[RowKey] = ()
    before: Sequence[Row] = ()
    dead: Sequence[int] = ()
    told: Sequence[tuple[RowKey, Record | None]] = ()


def ended(rows: Iterable[Row], now: datetime) -> Iterator[Row]:
    """The rows with their validity ended now; those that have ended already are left out."""
    for row in rows:
        record = row.record
        if record.valid_until is not None and record.valid_until <= now:
            continue
        over = replace(record, valid_until=max(now, record.valid_from) if record.valid_from else now)
        yield Row(replace(over, content_hash=content_hash(over)), row.vector)
