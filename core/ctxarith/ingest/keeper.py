"""The present state of the index: read from the journal, made anew from the store, kept compact."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ctxarith.durable import HOLDS, NO, YES, Journal, Written
from ctxarith.errors import CtxArithError, StoreError
from ctxarith.index.segment import Segment
from ctxarith.index.snapshot import Indexer, Snapshot
from ctxarith.ingest.compaction import Merger, due, wasted
from ctxarith.ingest.write import Segments
from ctxarith.ports import Row, Store

# Rows that are analysed at a time when an index is made anew.
_PAGE = 10_000
# A compaction elsewhere can take files away between reading their names and opening them.
_ATTEMPTS = 5


class Keeper:
    """Holds the snapshot that readers take. Its methods, `snapshot` aside, are called under the lock.

    Args:
        journal: where the state is written.
        segments: where the data is kept.
        indexer: how rows become segments.
        lock: taken by everybody who changes the state.
    """

    def __init__(
        self, journal: Journal, segments: Segments, indexer: Indexer, lock: threading.RLock | None = None
    ) -> None:
        self._journal = journal
        self._segments = segments
        self._lock = lock or threading.RLock()
        self._worker: threading.Thread | None = None
        self.snapshot = Snapshot(indexer)

    def follow(self) -> None:
        """Read the state that the last settled write left.

        Raises:
            StoreError: a segment is missing or damaged.
        """
        for attempt in range(_ATTEMPTS):
            state = self._journal.state()
            known = {segment.name: segment for segment in self.snapshot.segments}
            try:
                segments = tuple(known.get(name) or self._segments.open(name) for name in state.segments)
            except StoreError:
                if attempt + 1 == _ATTEMPTS or self._journal.state() == state:
                    raise
                continue
            dead = {name: np.asarray(rows, np.int64) for name, rows in state.dead.items()}
            self.snapshot = Snapshot(self.snapshot.indexer, segments, dead, state.watermarks)
            return

    def rebuild(self, rows: Iterable[Row], watch: Callable[[int], object]) -> None:
        """Make the index anew from the rows of the store; the feed says that anything may have changed."""
        old = self._journal.state()
        fresh = Snapshot(self.snapshot.indexer)
        pages = iter(rows)
        while page := list(islice(pages, _PAGE)):
            if len({len(row.vector) for row in page} | ({fresh.dimension} - {None})) > 1:
                raise StoreError("the store holds vectors of different lengths: restore it from a copy")
            arrays = fresh.indexer.arrays(page)
            fresh = fresh.changed(Segment(arrays, f"page {len(fresh.segments)}"), {}, {})
            watch(len(page))
        whole = []
        if fresh.segments:
            whole = [self._segments.write(Merger.of(fresh.segments, {}).arrays)]
        written = Written(
            added=[segment.name for segment in whole],
            dropped=old.segments,
            settings={HOLDS: YES if whole else NO},
            rebuilt=sorted(fresh.tenants | set(old.watermarks)),
        )
        watermarks = {**old.watermarks, **self._settled(written)}
        self.snapshot = Snapshot(fresh.indexer, tuple(whole), {}, watermarks)
        self._segments.drop(old.segments)

    def refill(self, store: Store) -> None:
        """Write every row into a store that was lost whole."""
        rows = np.flatnonzero(self.snapshot.staying).tolist()
        for start in range(0, len(rows), _PAGE):
            store.write([self.snapshot.stored(row) for row in rows[start : start + _PAGE]])

    def with_vectors(
        self, vectors: Callable[[Segment], NDArray[np.float32]], settings: Mapping[str, str]
    ) -> None:
        """The same rows with other vectors; everything else stays as it was analysed.

        Args:
            vectors: those of a segment, shape (rows, dimension).
            settings: what the corpus remembers from then on, in the same transaction.
        """
        self.purify()
        old = self.snapshot
        renewed = []
        for segment in old.segments:
            given = vectors(segment)
            arrays = {**segment.arrays, "row.vector": given}
            arrays["row.blank"] = np.asarray(~given.any(axis=1), np.bool_)
            renewed.append(self._segments.write(arrays))
        dimension = max((segment.vectors.shape[1] for segment in renewed), default=0)
        names = [segment.name for segment in old.segments]
        written = Written(
            added=[segment.name for segment in renewed],
            dropped=names,
            rebuilt=sorted(old.tenants),
            settings={**settings, **({"dimension": str(dimension)} if dimension else {})},
        )
        watermarks = {**old.watermarks, **self._settled(written)}
        self.snapshot = Snapshot(old.indexer, tuple(renewed), {}, watermarks)
        self._segments.drop(names)

    def found(self) -> bool:
        """Whether there are segments, named anywhere or not."""
        return any(self._segments.names())

    def sweep(self) -> None:
        """Delete what a process left that died, or a write that was interrupted."""
        if not self._compacting():  # its new file is not noted anywhere yet
            self._segments.sweep([segment.name for segment in self.snapshot.segments])

    def compact(self) -> bool:
        """Merge what is due; whether there was anything. Readers never wait, a writer at the end only."""
        with self._lock:
            captured = self.snapshot
        chosen = due(captured)
        if not chosen:
            return False
        merger = Merger.of(chosen, captured.dead)
        segment = self._segments.write(merger.arrays) if len(merger.arrays["row.length"]) else None
        with self._lock:
            return self._swap(merger, segment)

    def purify(self) -> None:
        """Rewrite every segment that has dead rows, so that nothing of them is left."""
        for segment in wasted(self.snapshot):
            merger = Merger.of([segment], self.snapshot.dead)
            alive = len(merger.arrays["row.length"]) > 0
            self._swap(merger, self._segments.write(merger.arrays) if alive else None)

    def compact_in_background(self) -> None:
        """Begin to compact, if it is due and not under way."""
        with self._lock:
            if not self._compacting() and due(self.snapshot):
                self._worker = threading.Thread(target=self._work, name="ctxarith compaction", daemon=True)
                self._worker.start()

    def finish(self) -> None:
        """Wait for the end of the compaction; called without the lock."""
        worker = self._worker
        if worker is not None and worker is not threading.current_thread():
            worker.join()

    def _compacting(self) -> bool:
        return self._worker is not None and self._worker.is_alive()

    def _settled(self, written: Written) -> dict[str, int]:
        try:
            return self._journal.settle(written)
        except CtxArithError:
            self._segments.drop(written.added)
            raise

    def _work(self) -> None:
        try:
            while self.compact():
                pass
        except CtxArithError as error:
            # Nothing is lost: the segments stay as they are, and the next write tries again.
            logging.getLogger(__name__).warning("the index was not compacted: %s", error)

    def _swap(self, merger: Merger, segment: Segment | None) -> bool:
        """Put the merged segment in the place of its parts; `False` if one of them is gone already."""
        added = [] if segment is None else [segment.name]
        present = {one.name for one in self.snapshot.segments}
        if not present.issuperset(merger.names):
            self._segments.drop(added)
            return False
        rows = merger.moved(self.snapshot.dead)
        dead = {} if segment is None or not len(rows) else {segment.name: rows}
        listed = {name: those.tolist() for name, those in dead.items()}
        self._settled(Written(added=added, dropped=merger.names, dead=listed))
        self.snapshot = self.snapshot.without(merger.names).changed(segment, dead, {})
        self._segments.drop(merger.names)
        return True
