"""One open corpus folder: store, journal and index, shared by every handle of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from ctxarith.errors import CtxArithError, EmbedderMismatch, EmbeddingError, StoreError
from ctxarith.index.analysis import Analyzer
from ctxarith.index.snapshot import Indexer, Snapshot
from ctxarith.ingest.keeper import Keeper
from ctxarith.ingest.prepare import content_hash
from ctxarith.ingest.vectors import Embed
from ctxarith.ingest.write import Added, Segments, Writer
from ctxarith.model import Record
from ctxarith.ports import HOLDS, NO, YES, Entry, Journal, Lock, Row, Store, Vector
from ctxarith.progress import watching
from ctxarith.remembered import check_whole, settled

_REFILLING = "refilling"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a shelf is made of.

    `may_hold` says, without opening the store, whether it may hold rows; `own` that the store is in
    our folder and written by us alone.
    """

    store: Store
    journal: Journal
    lock: Lock
    segments: Segments
    may_hold: Callable[[], bool] = lambda: True
    own: bool = False


class Shelf:
    """Readers take `snapshot` and need no lock; writers take turns."""

    def __init__(self, parts: Parts, wanted: Mapping[str, str]) -> None:
        self._parts = parts
        self._store, self._journal = parts.store, parts.journal
        self.settings = settled(parts.journal, wanted)
        self._writer = Writer(parts.store, parts.journal, parts.lock, parts.segments)
        self._lock = threading.RLock()
        analyzer = Analyzer(self.settings["stem"] == YES, self.settings["stop_words"] == YES)
        self.searchable = tuple(filter(None, self.settings["searchable"].split("\n")))
        self._keeper = Keeper(parts.journal, parts.segments, Indexer(analyzer, self.searchable), self._lock)
        self._remembered = parts.journal.settings()
        self._compared = self._behind = False
        self.handles = 0
        self._inside = False
        self._begin()

    @property
    def snapshot(self) -> Snapshot:
        """The present state; what another process has written since is read first."""
        if self._journal.changed_elsewhere():
            self._behind = True
        if self._behind:
            with self._lock:
                self._follow()
        return self._keeper.snapshot

    def _begin(self) -> None:
        known = self._journal.settings()
        segments = self._journal.state().segments
        if segments and HOLDS not in known:
            raise StoreError("journal.sqlite has lost its settings: restore it from a copy")
        if segments or (self._parts.own and known.get(HOLDS) == NO):
            self._follow()
        elif self._parts.may_hold() or known.get(HOLDS) == YES:
            self._take_lock("the index is missing")
            self._rebuild()

    def _follow(self) -> None:
        """Read the present state; what could not be read is tried again by the next question."""
        self._behind = False
        try:
            self._keeper.follow()
        except StoreError as error:
            self._behind = True
            self._take_lock(str(error))
            self._rebuild()
            self._behind = False

    def _take_lock(self, reason: str) -> None:
        if not self._parts.lock.take():
            raise StoreError(f"{reason}, and another process is writing this corpus: try again later")

    def _rebuild(self) -> None:
        """Make the index anew from the store, which must hold what the journal remembers."""
        known = self._journal.settings()
        if self._parts.own or known.get(HOLDS) == YES:
            # Before an interrupted write is taken back, which would put some rows into a lost store too.
            check_whole(known, holds=self._store.count() > 0 and known.get(_REFILLING) != YES)
        self._writer.recover()
        size = self._store.count()
        if size or self._journal.state().segments:
            with watching(size, "indexing") as watch:
                self._keeper.rebuild(self._store.rows(), watch)
            self.remember()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One write of one thread: under the lock, on a store that agrees with the index.

        Raises:
            StoreError: another process writes, or a write began inside another one.
        """
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
            except Exception:
                raise
            except BaseException:  # interrupted, perhaps after its write was settled
                self._compared, self._behind = False, True
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
        wanted = int(self._keeper.snapshot.staying.sum())
        if self._journal.settings().get(_REFILLING) == YES or (wanted and not self._store.count()):
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

    def check_dimension(self, length: int) -> None:
        """Refuse vectors of another length than the corpus holds.

        Raises:
            EmbedderMismatch: names both.
        """
        given = str(length)
        known = self.settings.get("dimension")
        if known is not None and known != given:
            name = self.settings["embedder"]
            raise EmbedderMismatch(f"{name} of dimension {known}", f"vectors of dimension {given}")

    def _check_lengths(self, lengths: Collection[int]) -> None:
        try:
            if len(lengths) > 1:
                raise EmbeddingError(f"the model gave vectors of different dimensions: {sorted(lengths)}")
            for length in lengths:
                self.check_dimension(length)
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
            rows = [row for rid in dict.fromkeys(ids) for row in self._ending(tenant, rid, now)]
            self._keeper.snapshot = self._writer.replace(rows, self._keeper.snapshot)
            return len({row.record.id for row in rows})

    def ids_of_source(self, tenant: str, source_id: str) -> list[str]:
        """The ids of a source's chunks."""
        snapshot = self.snapshot
        return sorted({snapshot.records[row].id for row in snapshot.of_source(tenant, source_id)})

    def feed(self, tenant: str, since: int) -> list[Entry]:
        """The changes of a tenant after a watermark."""
        return self._journal.feed(tenant, since)

    def close(self) -> None:
        """Let the compaction end, and release the files."""
        self._keeper.finish()
        with self._lock:
            self._store.close()
            self._journal.close()
            self._parts.lock.release()

    def _ending(self, tenant: str, rid: str, now: datetime) -> Iterable[Row]:
        snapshot = self._keeper.snapshot
        for row in snapshot.named(tenant, rid):
            record = snapshot.records[row]
            if record.valid_until is not None and record.valid_until <= now:
                continue
            end = max(now, record.valid_from) if record.valid_from else now
            ended = replace(record, valid_until=end)
            yield Row(replace(ended, content_hash=content_hash(ended)), snapshot.vector(row))

    def remember(self, *, refilling: bool = False) -> None:
        """Note in the journal what the store must hold when it is opened again."""
        snapshot = self._keeper.snapshot
        present = {HOLDS: YES if len(snapshot) else NO}
        if snapshot.dimension is not None:
            present["dimension"] = str(snapshot.dimension)
        if refilling or _REFILLING in self.settings:
            present[_REFILLING] = YES if refilling else NO
        self.settings.update(present)
        if self._remembered != self.settings:
            self._journal.remember(self.settings)
            self._remembered = dict(self.settings)
