"""One open corpus folder: store, journal and index, shared by every handle of this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from ctxarith.durable import HOLDS, NO, YES
from ctxarith.errors import CtxArithError, EmbeddingError, StoreError
from ctxarith.index.analysis import Analyzer
from ctxarith.index.snapshot import Indexer, Snapshot
from ctxarith.ingest.change import Added, Synced, ended
from ctxarith.ingest.keeper import Keeper
from ctxarith.ingest.vectors import Embed, renewed
from ctxarith.ingest.write import Writer
from ctxarith.model import Record
from ctxarith.parts import Parts, check_ours
from ctxarith.ports import Store, Vector
from ctxarith.progress import watching
from ctxarith.remembered import READING, check_model, check_whole, present, searchable_keys, settled

_REFILLING = "refilling"


class Shelf:
    """Readers take `snapshot` and need no lock; writers take turns."""

    def __init__(self, parts: Parts, wanted: Mapping[str, str]) -> None:
        self._held = parts.held
        self._file_lock = parts.lock
        self.threads, self.feed = parts.threads, parts.journal.feed
        self._store, self._journal = parts.held.store, parts.journal
        self.settings = settled(parts.journal, wanted)
        self._writer = Writer(self._store, parts.journal, parts.lock, parts.segments)
        self._lock = threading.RLock()
        analyzer = Analyzer(self.settings["stem"] == YES, self.settings["stop_words"] == YES)
        self.searchable = searchable_keys(self.settings)
        self._keeper = Keeper(parts.journal, parts.segments, Indexer(analyzer, self.searchable), self._lock)
        self._remembered = parts.journal.settings()
        self._compared = parts.held.adopted
        self._behind = self._inside = False
        self.looked = not parts.held.followed
        self.handles, self._process = 0, os.getpid()
        self._begin()

    @property
    def snapshot(self) -> Snapshot:
        """The present state; what another process has written is read first."""
        if self._journal.changed_elsewhere():
            self._behind = True
        if self._behind:
            with self._lock:
                self._follow()
        return self._keeper.snapshot

    def _begin(self) -> None:
        known = self._journal.settings()
        segments = self._journal.state().segments
        if HOLDS not in known and (segments or self._keeper.found()):
            raise StoreError("journal.sqlite is gone or has lost its settings: restore it from a copy")
        if segments and known.get(READING, self._held.reading) != self._held.reading:
            self._writer.take_lock("its rows are to be read in another way")
            self._rebuild()
        elif segments or (self._held.own and known.get(HOLDS) == NO):
            self._follow()
        elif self._held.may_hold() or known.get(HOLDS) == YES:
            self._writer.take_lock("the index is missing")
            self._rebuild()

    def _follow(self) -> None:
        """Read the present state; what could not be read is tried again by the next question."""
        self._behind = False
        self.settings.update(self._journal.settings())
        try:
            self._keeper.follow()
        except StoreError as error:
            self._behind = True
            self._writer.take_lock(str(error))
            self._rebuild()
            self._behind = False

    def _rebuild(self) -> None:
        """Make the index anew from the store."""
        known = self._journal.settings()
        if self._held.own or known.get(HOLDS) == YES:
            # Before an interrupted write is taken back, which would put some rows into a lost store too.
            check_whole(known, holds=self._store.count() > 0 and known.get(_REFILLING) != YES)
        self._writer.recover()
        size = self._store.count()
        if size or self._journal.state().segments:
            with watching(size, "indexing") as watch:
                self._keeper.rebuild(self._store.rows(), watch)
            self.remember()
        self.looked = True

    @contextmanager
    def _writing(self, *, to_store: bool = True) -> Iterator[None]:
        """One write of one thread: under the lock, on a store that agrees with the index.

        Raises:
            StoreError: another process writes, a write began inside another one, or the store is others'.
        """
        if to_store:
            check_ours(self._held)
        with self._lock:
            if self._inside:
                raise StoreError("a write began inside another: an embedder must not write to its own corpus")
            self._inside = True
            try:
                self._writer.take_lock()
                if not self._compared:
                    self._compare()
                    self._compared = True
                self._writer.recover()
                yield
            except BaseException as error:
                if not isinstance(error, Exception):  # interrupted, perhaps after its write was settled
                    self._compared, self._behind = self._held.adopted, True
                raise
            finally:
                self._inside = False
        self._keeper.compact_in_background()

    def _compare(self) -> None:
        """Make store and index agree once, before the first write.

        The store is the truth, and the index is made anew where they differ; unless the store was lost
        whole, which is made again from the index. That it was lost is seen before an interrupted write
        is taken back, which would put some rows into it.
        """
        self._follow()
        self._keeper.sweep()
        self._held.sweep()
        wanted = int(self._keeper.snapshot.staying.sum())
        if self.settings.get(_REFILLING) == YES or (wanted and not self._store.count()):
            self.remember(refilling=True)
            self._keeper.refill(self._store)
            self.remember(refilling=False)
        self._writer.recover()
        if wanted != self._store.count():
            self._rebuild()

    @property
    def store(self) -> Store:
        """The store behind the index."""
        return self._store

    def check_model(self, name: str, length: int | None = None) -> None:
        """Refuse another model's vectors, should the corpus have gone over to another one.

        Raises:
            EmbedderMismatch: names both.
        """
        check_model(self.settings, name, length)

    def _check_lengths(self, lengths: Collection[int]) -> None:
        try:
            if len(lengths) > 1:
                raise EmbeddingError(f"the model gave vectors of different dimensions: {sorted(lengths)}")
            for length in lengths:
                check_model(self.settings, self.settings["embedder"], length)
        except CtxArithError:
            self._writer.forget_staged()
            raise

    def add(self, records: Sequence[Record], embed: Embed, given: Sequence[Vector | None]) -> Added:
        """Write prepared records: visible whole, or not at all."""
        with self._writing():
            lengths = {len(vector) for vector in given if vector is not None}

            def checked(texts: Sequence[str]) -> Iterable[Sequence[Vector]]:
                for batch in embed(texts):
                    lengths.update(map(len, batch))
                    self._check_lengths(lengths)
                    yield batch

            self._check_lengths(lengths)
            report, self._keeper.snapshot = self._writer.add(records, self._keeper.snapshot, checked, given)
            self.remember()
            return report

    def remove(self, tenant: str, ids: Iterable[str], *, scrub: bool = False) -> int:
        """Remove all versions of the ids; the number of ids that were there."""
        with self._writing():
            snapshot = self._keeper.snapshot
            known = [rid for rid in dict.fromkeys(ids) if snapshot.named(tenant, rid)]
            if known:
                self._keeper.snapshot = self._writer.remove(tenant, known, snapshot)
                self.remember()
            if not scrub:
                return len(known)
        self._keeper.finish()
        with self._writing():
            self._keeper.purify()
            self._writer.scrub(self._keeper.snapshot)
        return len(known)

    def retire(self, tenant: str, ids: Iterable[str], now: datetime) -> int:
        """End the facts of the ids now; what they had retired stays retired."""
        with self._writing():
            snapshot = self._keeper.snapshot
            known = [row for rid in dict.fromkeys(ids) for row in snapshot.named(tenant, rid)]
            rows = list(ended(map(snapshot.stored, known), now))
            self._keeper.snapshot = self._writer.replace(rows, snapshot)
            return len({row.record.id for row in rows})

    def sync(self) -> Synced:
        """Look at the store, and take over what others have changed there."""
        with self._writing(to_store=False):
            self._keeper.snapshot, report = self._writer.taken_over(self._store.rows(), self._keeper.snapshot)
            self.remember()
            self.looked = True
            return report

    def reembed(self, store: Store, embed: Embed, settings: Mapping[str, str]) -> int:
        """Embed every text again, into a store that takes the old one's place; how many rows there are."""
        with self._writing():
            passage = self._keeper.snapshot.passage
            self._keeper.with_vectors(lambda segment: renewed(segment, passage, embed, store), settings)
            return int(self._keeper.snapshot.staying.sum())

    def ids_of_source(self, tenant: str, source_id: str) -> list[str]:
        """The ids of a source's chunks."""
        snapshot = self.snapshot
        return sorted({snapshot.records[row].id for row in snapshot.of_source(tenant, source_id)})

    def close(self) -> None:
        """Let the compaction end, and release the files; those of a parent process are left to it."""
        if os.getpid() != self._process:
            return
        self._keeper.finish()
        with self._lock:
            self._store.close()
            self._journal.close()
            self.threads.close()
            self._file_lock.release()

    def remember(self, *, refilling: bool = False) -> None:
        """Note in the journal what the store must hold when it is opened again."""
        snapshot = self._keeper.snapshot
        self.settings |= present(len(snapshot), snapshot.dimension) | self._held.told
        if refilling or _REFILLING in self.settings:
            self.settings[_REFILLING] = YES if refilling else NO
        if self._remembered != self.settings:
            self._journal.remember(self.settings)
        self._remembered = dict(self.settings)
