"""Store and index change together, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from ctxarith.durable import HOLDS, NO, YES, Journal, Lock, Written
from ctxarith.errors import StoreError
from ctxarith.index.columns import Rows
from ctxarith.index.segment import Segment
from ctxarith.index.snapshot import Snapshot
from ctxarith.index.strings import Arrays
from ctxarith.ingest.change import Added, Change, Synced
from ctxarith.ingest.compaction import Merger, absorbed
from ctxarith.ingest.links import checked_links
from ctxarith.ingest.vectors import Embed, Given, Staging
from ctxarith.model import Record
from ctxarith.ports import Row, RowKey, Store, Vector

T = TypeVar("T")


class Segments(Protocol):
    """Where segments are kept: in files, or in memory."""

    def write(self, arrays: Arrays) -> Segment:
        """Keep a new segment."""
        ...

    def open(self, name: str) -> Segment:
        """A segment that was written before."""
        ...

    def names(self) -> Iterable[str]:
        """All that are kept."""
        ...

    def drop(self, names: Iterable[str]) -> None:
        """Let go of some."""
        ...

    def sweep(self, keep: Iterable[str]) -> None:
        """Let go of all others."""
        ...


class Writer:
    """The one writer of a corpus; its caller holds the lock.

    A write is first described in the journal (how to take it back), then done in the store, then laid
    out as a segment, then settled: one transaction of the journal makes it visible. If anything fails
    or the process dies before that, the description is used to put the store back as it was.
    """

    def __init__(self, store: Store, journal: Journal, lock: Lock, segments: Segments) -> None:
        self._store = store
        self._journal = journal
        self._lock = lock
        self._segments = segments
        self._staging = Staging()

    def take_lock(self, reason: str = "") -> None:
        """Become the one writer; a reader says why it must.

        Raises:
            StoreError: another process writes this corpus.
        """
        if not self._lock.take():
            if reason:
                raise StoreError(f"{reason}, and another process is writing this corpus: try again later")
            raise StoreError("another process is writing this corpus: close it there, or write through it")

    def recover(self) -> None:
        """Take the lock, and undo a write that was begun and never settled.

        Raises:
            StoreError: another process writes this corpus, or the store still fails; then the journal
                keeps the description.
        """
        self.take_lock()
        keys, before = self._journal.pending()
        if not keys and not before:
            return
        try:
            restored = {row.key for row in before}
            self._store.remove([key for key in keys if key not in restored])
            self._store.write(before)
        except Exception as error:
            message = (
                f"an interrupted write could not be taken back, {self._store.name} failed again: {error}"
            )
            raise StoreError(message, staged=[key.id for key in keys]) from error
        self._journal.settle()

    def add(
        self, records: Sequence[Record], snapshot: Snapshot, embed: Embed, given: Sequence[Vector | None]
    ) -> tuple[Added, Snapshot]:
        """Write prepared records and return what happened with the snapshot that holds them.

        Raises:
            RecordError: the links would close a loop; nothing is written.
            StoreError: the store failed; nothing is visible, and the vectors are kept for a retry.
        """
        self.recover()
        keys = [RowKey(*record.key) for record in records]
        known = snapshot.rows_of(keys)
        changed: list[Given] = [
            (record, vector)
            for record, key, vector in zip(records, keys, given, strict=True)
            if key not in known or snapshot.records[known[key]].content_hash != record.content_hash
        ]
        dangling = checked_links([record for record, _ in changed], snapshot)
        vectors, embedded = self._staging.vectors(changed, snapshot, embed)
        fresh = [Row(record, vector) for (record, _), vector in zip(changed, vectors, strict=True)]
        replaced = {row.key: known[row.key] for row in fresh if row.key in known}
        before = {key: snapshot.stored(row) for key, row in replaced.items()}
        change = Change(
            rows=[*(_as_revision(row, snapshot) for row in before.values()), *fresh],
            before=list(before.values()),
            dead=list(replaced.values()),
            told=[(row.key, before[row.key].record if row.key in before else None) for row in fresh],
        )
        after = self.write(change, snapshot)
        self._staging.clear()
        report = Added(
            added=len(fresh) - len(replaced),
            corrected=len(replaced),
            unchanged=len(records) - len(fresh),
            embedded=embedded,
            dangling=dangling,
        )
        return report, after

    def replace(self, rows: Sequence[Row], snapshot: Snapshot) -> Snapshot:
        """Write changed rows over their keys, without keeping a revision (a fact that ends)."""
        self.recover()
        known = snapshot.rows_of([row.key for row in rows])
        dead = [known[row.key] for row in rows]
        before = [snapshot.stored(row) for row in dead]
        told = [(row.key, row.record) for row in before]
        return self.write(Change(rows, (), before, dead, told), snapshot)

    def remove(self, tenant: str, ids: Iterable[str], snapshot: Snapshot) -> Snapshot:
        """Remove every version and revision of the ids."""
        self.recover()
        leaving = [row for rid in dict.fromkeys(ids) for row in snapshot.kept(tenant, rid)]
        rows = [snapshot.stored(row) for row in leaving]
        told = [(row.key, row.record) for row in rows if row.revision == 0]
        return self.write(Change((), [row.key for row in rows], rows, leaving, told), snapshot)

    def taken_over(self, rows: Iterable[Row], snapshot: Snapshot) -> tuple[Snapshot, Synced]:
        """Make the index agree with the rows of the store, in one write that leaves the store alone."""
        found = {row.key: row for row in rows}
        kept = np.flatnonzero(snapshot.staying).tolist()
        known = {snapshot.key(row): row for row in kept}
        gone = [row for key, row in known.items() if key not in found]
        fresh = [row for key, row in found.items() if key not in known or differs(row, known[key], snapshot)]
        dead = [*gone, *(known[row.key] for row in fresh if row.key in known)]
        before = {snapshot.key(row): snapshot.records[row] for row in dead}
        told = [(key, before.get(key)) for key in (*(row.key for row in fresh), *map(snapshot.key, gone))]
        change = Change(fresh, dead=dead, told=[one for one in told if one[0].revision == 0])
        changed = len(dead) - len(gone)
        return self.write(change, snapshot, to_store=False), Synced(len(fresh) - changed, changed, len(gone))

    def forget_staged(self) -> None:
        """Let go of vectors kept for a retry that can never succeed."""
        self._staging.clear()

    def scrub(self, snapshot: Snapshot) -> None:
        """Leave no trace of removed rows in any file of the store and the journal."""
        self.recover()
        self._staging.clear()
        try:
            self._store.scrub()
            self._journal.scrub(lambda tenant, rid: not snapshot.kept(tenant, rid))
        except Exception as error:
            message = f"the records are deleted and their traces are not yet removed, purge again: {error}"
            raise StoreError(message) from error

    def write(self, change: Change, snapshot: Snapshot, *, to_store: bool = True) -> Snapshot:
        """Do a write whole, or take it back; without `to_store` the store has it already."""
        if not change.rows and not change.dead:
            return snapshot
        if to_store:
            self._journal.intend([*(row.key for row in change.rows), *change.leaving], change.before)
        parted = snapshot.parted(change.dead)
        staged = [row.record.id for row in change.rows]
        small = absorbed(snapshot, len(change.rows)) if change.rows else []
        dead = snapshot.changed(None, parted, {}).dead
        if to_store:
            self._guarded(lambda: self._stored(change), staged)
        segment = self._guarded(lambda: self._laid_out(change, snapshot, small, dead), staged)
        merged = {one.name for one in small}
        left = bool(change.rows) or len(snapshot) > int(snapshot.live[list(change.dead)].sum())
        written = Written(
            added=[] if segment is None else [segment.name],
            dropped=sorted(merged),
            dead={name: rows.tolist() for name, rows in parted.items() if name not in merged},
            changed=change.told,
            settings={HOLDS: YES if left else NO},
        )
        watermarks = self._guarded(lambda: self._journal.settle(written), staged, written.added)
        self._segments.drop(merged)
        return snapshot.without(merged).changed(
            segment, {name: rows for name, rows in parted.items() if name not in merged}, watermarks
        )

    def _stored(self, change: Change) -> None:
        if change.leaving:
            self._store.remove(change.leaving)
        if change.rows:
            self._store.write(change.rows)

    def _laid_out(
        self, change: Change, snapshot: Snapshot, small: Sequence[Segment], dead: Mapping[str, Rows]
    ) -> Segment | None:
        if not change.rows:
            return None
        arrays = snapshot.indexer.arrays(change.rows)
        if small:
            arrays = Merger.of([*small, Segment(arrays)], dead).arrays
        return self._segments.write(arrays)

    def _guarded(self, action: Callable[[], T], staged: Sequence[str], made: Sequence[str] = ()) -> T:
        try:
            return action()
        except Exception as error:
            self._segments.drop(made)
            self.recover()
            message = f"{self._store.name} failed and the batch was taken back whole: {error}"
            raise StoreError(message, staged=staged) from error


def differs(row: Row, known: int, snapshot: Snapshot) -> bool:
    """Whether a row of the store has another content or vector than the index has."""
    if snapshot.records[known].content_hash != row.record.content_hash:
        return True
    return not np.array_equal(snapshot.vector(known), row.vector)


def _as_revision(row: Row, snapshot: Snapshot) -> Row:
    """The row as the next numbered revision of its key."""
    kept = snapshot.kept(row.record.tenant, row.record.id)
    same = (at for at in kept if snapshot.records[at].version == row.record.version)
    return replace(row, revision=1 + max(int(snapshot.records.row("revision")[at]) for at in same))
