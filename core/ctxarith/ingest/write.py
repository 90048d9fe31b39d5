"""Store and index change together, or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ctxarith.errors import EmbeddingError, RecordError, StoreError
from ctxarith.fields import Field
from ctxarith.index.graph import looping
from ctxarith.index.snapshot import Snapshot
from ctxarith.model import Record
from ctxarith.ports import Journal, Lock, Row, RowKey, Store, Vector
from ctxarith.predicate import And

Embed = Callable[[Sequence[str]], Iterable[Sequence[Vector]]]


@dataclass(frozen=True, slots=True)
class Added:
    """What an `add` did. `dangling` are ids named in `supersedes` that the corpus does not hold."""

    added: int = 0
    corrected: int = 0
    unchanged: int = 0
    embedded: int = 0
    dangling: tuple[str, ...] = ()


class Writer:
    """The one writer of a corpus; its caller holds the lock.

    A write is first described in the journal (how to take it back), then done in the store, then
    settled. If the store fails, or the process dies in between, the description is used to put the
    store back as it was: so a batch is seen whole or not at all.
    """

    def __init__(self, store: Store, journal: Journal, lock: Lock) -> None:
        self._store = store
        self._journal = journal
        self._lock = lock
        self._staged: dict[str, Vector] = {}
        self._revisions: dict[RowKey, int] = {}

    def opening_rows(self) -> list[Row]:
        """The current rows of the store, without what is half-way.

        What a dead process left half-way is taken back. What a living one is writing just now is left
        to it, and read as it was before.
        """
        keys, before = self._journal.pending()
        in_flight: set[RowKey] = set()
        if keys and self._lock.take():
            # The lock is kept from here on: the store is open for writing.
            self.recover()
        elif keys:
            in_flight = set(keys)
        rows = [row for row in self._store.rows() if row.key not in in_flight]
        for row in rows:
            if row.revision:
                self._note_revision(row.key)
        return [row for row in (*rows, *(before if in_flight else ())) if row.revision == 0]

    def recover(self) -> None:
        """Take the lock, and undo a write that was begun and never settled.

        Raises:
            StoreError: another process writes this corpus, or the store still fails; then the journal
                keeps the description.
        """
        if not self._lock.take():
            raise StoreError("another process is writing this corpus: close it there, or write through it")
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
        changed = [(r, v) for r, v in zip(records, given, strict=True) if not _same(r, snapshot)]
        dangling = _checked_links([record for record, _ in changed], snapshot)
        vectors, embedded = self._vectors(changed, snapshot, embed)
        fresh = [Row(record, vector) for (record, _), vector in zip(changed, vectors, strict=True)]
        replaced = [old for row in fresh if (old := _stored(row.key, snapshot)) is not None]
        revisions = [self._as_revision(row) for row in replaced]
        self._put([*revisions, *fresh], replaced)
        for row in revisions:
            self._note_revision(row.key)
        self._staged.clear()
        report = Added(
            added=len(fresh) - len(replaced),
            corrected=len(replaced),
            unchanged=len(records) - len(fresh),
            embedded=embedded,
            dangling=dangling,
        )
        return report, snapshot.changed(fresh, ())

    def replace(self, rows: Sequence[Row], snapshot: Snapshot) -> Snapshot:
        """Write changed rows over their keys, without keeping a revision (a fact that ends)."""
        self.recover()
        before = [old for row in rows if (old := _stored(row.key, snapshot)) is not None]
        self._put(rows, before)
        return snapshot.changed(rows, ())

    def remove(self, tenant: str, ids: Iterable[str], snapshot: Snapshot) -> Snapshot:
        """Remove every version and revision of the ids."""
        self.recover()
        rows = [row for rid in dict.fromkeys(ids) for row in self.all_rows(tenant, rid, snapshot)]
        keys = [row.key for row in rows]
        self._journal.intend(keys, rows)
        self._apply(lambda: self._store.remove(keys), [])
        for key in keys:
            self._revisions.pop(_current(key), None)
        return snapshot.changed((), keys)

    def forget_staged(self) -> None:
        """Let go of vectors kept for a retry that can never succeed."""
        self._staged.clear()

    def scrub(self) -> None:
        """Leave no trace of removed rows in any file."""
        self.recover()
        self._staged.clear()
        try:
            self._store.scrub()
            self._journal.scrub()
        except Exception as error:
            message = f"the records are deleted and their traces are not yet removed, purge again: {error}"
            raise StoreError(message) from error

    def all_rows(self, tenant: str, record_id: str, snapshot: Snapshot) -> list[Row]:
        """The rows of an id: the current ones from the index, corrected ones from the store."""
        keys = [RowKey(*snapshot.records[row].key) for row in snapshot.named(tenant, record_id)]
        rows = [old for key in keys if (old := _stored(key, snapshot)) is not None]
        if any(key in self._revisions for key in keys):
            same = And.of(Field("tenant") == tenant, Field("id") == record_id)
            stored = self._store.select(same)
            # Not yet noted: the revision of a correction that is under way in another thread.
            rows += [row for row in stored if 0 < row.revision <= self._revisions.get(_current(row.key), 0)]
        return rows

    def _put(self, rows: Sequence[Row], before: Sequence[Row]) -> None:
        if rows:
            self._journal.intend([row.key for row in rows], before)
            self._apply(lambda: self._store.write(rows), [row.record.id for row in rows])

    def _apply(self, change: Callable[[], None], staged: Sequence[str]) -> None:
        try:
            change()
        except Exception as error:
            self.recover()
            message = f"{self._store.name} failed and the batch was taken back whole: {error}"
            raise StoreError(message, staged=staged) from error
        self._journal.settle()

    def _vectors(
        self, changed: Sequence[tuple[Record, Vector | None]], snapshot: Snapshot, embed: Embed
    ) -> tuple[list[Vector], int]:
        """A vector for each record: given, known from the same text, staged before, or embedded now."""
        texts = [snapshot.passage(record) for record, _ in changed]
        known = {_digest(t): v for (_, v), t in zip(changed, texts, strict=True) if v is not None}
        for (record, _), text in zip(changed, texts, strict=True):
            for row in snapshot.named(record.tenant, record.id):
                if snapshot.passage(snapshot.records[row]) == text:
                    known.setdefault(_digest(text), snapshot.vector(row))
        missing = {d: t for t in texts if (d := _digest(t)) not in known and d not in self._staged}
        digests = iter(missing)
        try:
            for batch in embed(list(missing.values())):
                # Kept batch by batch, so that a failure further on costs only what is still missing.
                self._staged.update((digest, vector) for vector, digest in zip(batch, digests, strict=False))
        except EmbeddingError as error:
            staged = [r.id for (r, _), t in zip(changed, texts, strict=True) if _digest(t) in self._staged]
            raise EmbeddingError(str(error), staged=staged) from error
        found = {**self._staged, **known}
        own = [v for _, v in changed]
        return [found[_digest(t)] if v is None else v for v, t in zip(own, texts, strict=True)], len(missing)

    def _as_revision(self, row: Row) -> Row:
        return Row(row.record, row.vector, self._revisions.get(row.key, 0) + 1)

    def _note_revision(self, key: RowKey) -> None:
        current = _current(key)
        self._revisions[current] = max(self._revisions.get(current, 0), key.revision)


def _current(key: RowKey) -> RowKey:
    return RowKey(key.tenant, key.id, key.version)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _same(record: Record, snapshot: Snapshot) -> bool:
    known = snapshot.get(RowKey(*record.key))
    return known is not None and known.record.content_hash == record.content_hash


def _stored(key: RowKey, snapshot: Snapshot) -> Row | None:
    entry = snapshot.get(_current(key))
    return None if entry is None else Row(entry.record, np.array(entry.unit))


def _checked_links(records: Sequence[Record], snapshot: Snapshot) -> tuple[str, ...]:
    """Refuse links that close a loop; return the ids that they name and nobody holds."""
    if not any(record.supersedes for record in records):
        return ()
    coming = {record.key for record in records}
    standing = (record for record in snapshot.linked if record.key not in coming)
    edges = [((r.tenant, r.id), (r.tenant, old)) for r in (*standing, *records) for old in r.supersedes]
    loops = looping(edges)
    for record in records:
        if (record.tenant, record.id) in loops:
            members = sorted(rid for tenant, rid in loops if tenant == record.tenant)
            rule = f"would close a loop of records that replace each other: {', '.join(members)}"
            raise RecordError(record.id, "supersedes", record.supersedes, rule)
    ids = {(record.tenant, record.id) for record in records}
    named = {(r.tenant, old) for r in records for old in r.supersedes}
    return tuple(sorted(old for tenant, old in named - ids if not snapshot.linked_to(tenant, old)))
