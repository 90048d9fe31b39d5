"""One open corpus folder: store, journal and index, shared by every handle of this process."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from ctxarith.errors import ArgumentError, CtxArithError, EmbedderMismatch, EmbeddingError, StoreError
from ctxarith.index.analysis import Analyzer
from ctxarith.index.snapshot import Indexer, Snapshot
from ctxarith.ingest.prepare import content_hash
from ctxarith.ingest.write import Added, Embed, Writer
from ctxarith.model import Record
from ctxarith.ports import Journal, Lock, Row, Store, Vector

_TRUE, _FALSE = "yes", "no"
HOLDS = "holds"


class Shelf:
    """Readers take `snapshot` and need no lock; writers take turns."""

    def __init__(self, store: Store, journal: Journal, lock: Lock, wanted: Mapping[str, str]) -> None:
        self._store = store
        self._journal = journal
        self._writing = lock
        self.settings = settled(journal, wanted)
        self._writer = Writer(store, journal, lock)
        self._lock = threading.RLock()
        analyzer = Analyzer(self.settings["stem"] == _TRUE, self.settings["stop_words"] == _TRUE)
        self.searchable = tuple(filter(None, self.settings["searchable"].split("\n")))
        self._remembered: dict[str, str] = {}
        self._snapshot = Snapshot({}, Indexer(analyzer, self.searchable))
        self._follow()
        self.handles = 0
        self._inside = False

    @property
    def snapshot(self) -> Snapshot:
        """The present state; what another process has written since is read first."""
        if self._journal.changed_elsewhere():
            with self._lock:
                self._follow()
        return self._snapshot

    def _follow(self) -> None:
        rows = self._writer.opening_rows()
        if len({len(row.vector) for row in rows}) > 1:
            raise StoreError("the store holds vectors of different lengths: restore it from a copy")
        self._snapshot = self._snapshot.replaced(rows)

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

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a write that begins inside another one of the same thread."""
        if self._inside:
            raise StoreError("a write began inside another: an embedder must not write to its own corpus")
        self._inside = True
        try:
            yield
        finally:
            self._inside = False

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
        with self._lock, self._alone():
            lengths = {len(vector) for vector in given if vector is not None}

            def checked(texts: Sequence[str]) -> Iterable[Sequence[Vector]]:
                for batch in embed(texts):
                    lengths.update(map(len, batch))
                    self._check_lengths(lengths)
                    yield batch

            self._check_lengths(lengths)
            report, snapshot = self._writer.add(records, self.snapshot, checked, given)
            self._snapshot = snapshot
            self.remember()
            return report

    def remove(self, tenant: str, ids: Iterable[str], *, scrub: bool = False) -> int:
        """Remove all versions of the ids; the number of ids that were there."""
        with self._lock, self._alone():
            known = [rid for rid in dict.fromkeys(ids) if self.snapshot.named(tenant, rid)]
            if known:
                self._writer.recover()
            leaving = sum(len(self.snapshot.named(tenant, rid)) for rid in known)
            if known and leaving == len(self.snapshot):
                # Before the removal: a folder that dies after it is rightly empty.
                self.remember(holds=False)
            if known:
                self._snapshot = self._writer.remove(tenant, known, self.snapshot)
                self.remember()
            if scrub:
                self._writer.scrub()
            return len(known)

    def retire(self, tenant: str, ids: Iterable[str], now: datetime) -> int:
        """End the facts of the ids now; what they had retired stays retired."""
        with self._lock, self._alone():
            rows = [row for rid in dict.fromkeys(ids) for row in self._ending(tenant, rid, now)]
            self._snapshot = self._writer.replace(rows, self.snapshot)
            return len({row.record.id for row in rows})

    def ids_of_source(self, tenant: str, source_id: str) -> list[str]:
        """The ids of a source's chunks."""
        rows = self.snapshot.of_source(tenant, source_id)
        return sorted({self.snapshot.records[row].id for row in rows})

    def revisions(self, record: Record) -> list[Row]:
        """The corrected contents of a record's versions, from the store."""
        rows = self._writer.all_rows(record.tenant, record.id, self.snapshot)
        return sorted(
            (row for row in rows if _corrects(record, row)),
            key=lambda row: row.revision,
        )

    def close(self) -> None:
        """Release the files."""
        with self._lock:
            self._store.close()
            self._journal.close()
            self._writing.release()

    def _ending(self, tenant: str, rid: str, now: datetime) -> Iterable[Row]:
        for row in self.snapshot.named(tenant, rid):
            record = self.snapshot.records[row]
            if record.valid_until is not None and record.valid_until <= now:
                continue
            end = max(now, record.valid_from) if record.valid_from else now
            ended = replace(record, valid_until=end)
            yield Row(replace(ended, content_hash=content_hash(ended)), self.snapshot.vector(row))

    def remember(self, *, holds: bool | None = None) -> None:
        """Note in the journal what the store must hold when it is opened again."""
        snapshot = self._snapshot
        present = {HOLDS: _TRUE if (len(snapshot) > 0 if holds is None else holds) else _FALSE}
        if snapshot.dimension is not None:
            present["dimension"] = str(snapshot.dimension)
        self.settings.update(present)
        if self._remembered != self.settings:
            self._journal.remember(self.settings)
            self._remembered = dict(self.settings)


def _corrects(record: Record, row: Row) -> bool:
    return row.revision > 0 and row.record.version == record.version


def check_whole(known: Mapping[str, str], *, holds: bool) -> None:
    """Refuse a folder of which one half is gone: an empty corpus is not what was there.

    Args:
        known: what the journal remembered when it was opened; nothing if it was made just now.
        holds: whether the store has rows.
    """
    if HOLDS not in known and holds:
        raise StoreError("the store holds records and journal.sqlite is gone: restore it from a copy")
    if known.get(HOLDS) == _TRUE and not holds:
        raise StoreError(
            "the journal remembers records and the store holds none: restore the store from a copy, "
            "or delete the folder to begin anew"
        )


def settled(journal: Journal, wanted: Mapping[str, str]) -> dict[str, str]:
    """What the corpus remembers wins where nothing is asked for; what contradicts it is refused."""
    known = journal.settings()
    check_settings(known, wanted)
    defaults = {"stem": _TRUE, "stop_words": _TRUE, "searchable": ""}
    return {**defaults, **wanted, **known}


def check_settings(known: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Refuse what contradicts the settings that a corpus has for its whole life."""
    for name, value in wanted.items():
        if known.get(name, value) == value:
            continue
        if name == "embedder":
            held = f"{known[name]} of dimension {known['dimension']}" if "dimension" in known else known[name]
            raise EmbedderMismatch(held, value)
        raise ArgumentError(name, value, f"this corpus was made with {known[name]!r}, for its whole life")


def wanted_settings(
    *, embedder: str, stem: bool | None, stop_words: bool | None, searchable: Sequence[str] | None
) -> dict[str, str]:
    """The settings that a caller asks for, as the journal keeps them."""
    wanted = {"embedder": embedder}
    for name, given in (("stem", stem), ("stop_words", stop_words)):
        if given is not None:
            wanted[name] = _TRUE if given else _FALSE
    if searchable is not None:
        wanted["searchable"] = "\n".join(searchable)
    return wanted
