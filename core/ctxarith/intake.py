"""Records in: the writing half of a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from ctxarith.errors import ArgumentError, CorpusClosed, EmbeddingError, RecordError
from ctxarith.gate import Gate
from ctxarith.ingest.change import Added, Synced
from ctxarith.ingest.prepare import once_each
from ctxarith.model import Record
from ctxarith.models.embedders import embedded, embedded_query, given_vectors
from ctxarith.options import Setup
from ctxarith.ports import Vector
from ctxarith.progress import watching
from ctxarith.shelf import Shelf
from ctxarith.shelves import let_go
from ctxarith.stores.packets import MemoryPackets, SqlitePackets


class Intake:
    """Adds, ends and removes records; one writer at a time, readers never wait."""

    def __init__(self, shelf: Shelf, setup: Setup, packets: SqlitePackets | None = None) -> None:
        self._open: Shelf | None = shelf
        self._kept_packets = MemoryPackets() if packets is None else packets
        self._setup = setup
        self._gate = Gate(setup, lambda: self._shelf.snapshot.tenants)
        self._preparation = setup.preparation(shelf.searchable)

    def add(
        self,
        records: Iterable[Record | Mapping[str, Any]],
        *,
        embeddings: Sequence[Any] | None = None,
    ) -> Added:
        """Add records: all of them become visible, or none.

        The same content again is a no-op and is not embedded. Other content under the same version is
        a correction, and the earlier one is kept as a revision. Another version under an id closes
        the older one, in the order of their dates and versions, not of arrival.

        Args:
            records: `Record`s, or mappings of their fields.
            embeddings: one vector for each record, when they are computed elsewhere.

        Raises:
            RecordError: names the record, the field and the value; nothing is written.
            EmbeddingError, StoreError: nothing is visible; a retry embeds only the rest.
        """
        shelf = self._shelf
        snapshot = shelf.snapshot
        # Another process may have gone over to another model since this handle was opened.
        shelf.check_model(self._setup.wanted["embedder"])
        if isinstance(records, Record | Mapping | str) or not isinstance(records, Iterable):
            raise ArgumentError("records", records, "a list of records")
        prepared = [self._preparation.prepare(one) for one in records]
        vectors: list[Vector | None] = [None] * len(prepared)
        if embeddings is not None:
            vectors = list(given_vectors(embeddings, len(prepared))) if prepared else []
            self._check_given(vectors, snapshot.dimension)
        unique = once_each(prepared)
        by_key = {record.key: vector for record, vector in zip(prepared, vectors, strict=True)}
        with watching(len(unique), "embedding") as watch:
            return shelf.add(
                unique,
                lambda texts: embedded(self._setup.embedder, texts, watch=watch),
                [by_key[record.key] for record in unique],
            )

    def _check_given(self, vectors: Sequence[Vector | None], known: int | None) -> None:
        """The first vectors of a corpus must be as long as those of its model, which will ask."""
        if known is not None:
            return
        try:
            length = len(embedded_query(self._setup.embedder, "dimension"))
        except EmbeddingError:  # a model that cannot be asked now; the first question will tell
            return
        for vector in vectors:
            if vector is not None and len(vector) != length:
                rule = f"vectors of {len(vector)} numbers, and the corpus's model makes {length}"
                raise ArgumentError("embeddings", len(vector), rule)

    def delete(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        source_id: str | None = None,
        tenant: str | None = None,
    ) -> int:
        """Remove all versions of ids, or all chunks of a source; what they had retired is current again.

        Returns:
            How many ids were there.

        Raises:
            PrincipalRequired: more than one tenant exists and none is named.
        """
        tenant = self._gate.tenant(tenant)
        return self._shelf.remove(tenant, self._ids(ids, source_id, tenant))

    def retire(self, ids: str | Iterable[str], *, tenant: str | None = None) -> int:
        """End facts now, without reviving older ones; `as_of` still finds them.

        Returns:
            How many ids were current.
        """
        tenant = self._gate.tenant(tenant)
        return self._shelf.retire(tenant, self._ids(ids, None, tenant), self._gate.now())

    def purge(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        source_id: str | None = None,
        tenant: str | None = None,
    ) -> int:
        """Delete, and leave no trace of the text in any file of the corpus.

        Returns:
            How many ids were there. Also removes the traces of ids that were deleted before.
        """
        tenant = self._gate.tenant(tenant)
        named = self._ids(ids, source_id, tenant)
        purged = self._shelf.remove(tenant, named, scrub=True)
        self._kept_packets.forget(tenant, named)
        return purged

    def holds(self, record_id: str, *, tenant: str | None = None) -> bool:
        """Whether a tenant has an id or source of this name: for those who write."""
        _need_text("record_id", record_id)
        return bool(self._shelf.snapshot.linked_to(self._gate.tenant(tenant), record_id))

    def ids_of(self, source_id: str, *, tenant: str | None = None) -> list[str]:
        """The ids of a source's chunks: for those who write."""
        _need_text("source_id", source_id)
        return self._shelf.ids_of_source(self._gate.tenant(tenant), source_id)

    def watermark(self, tenant: str | None = None) -> int:
        """The number of the last write of a tenant, taken with the data; 0 before the first."""
        return self._shelf.snapshot.watermarks.get(self._gate.tenant(tenant), 0)

    def sync(self) -> Synced:
        """Look at the store, and take over what others have written there."""
        return self._shelf.sync()

    @property
    def is_synced(self) -> bool:
        """Whether the store has been looked at: always, unless others write it (see `adopt`)."""
        return self._shelf.looked

    @property
    def left_out(self) -> Sequence[tuple[str, str]]:
        """Rows of an adopted collection that could not be read: their Chroma id, and why."""
        return tuple(getattr(self._shelf.store, "left_out", ()))

    def close(self) -> None:
        """Give the folder back; a second call does nothing."""
        if self._open is not None:
            shelf, self._open = self._open, None
            self._kept_packets.close()
            let_go(shelf)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _shelf(self) -> Shelf:
        if self._open is None:
            raise CorpusClosed("this corpus was closed: open it again with Corpus.open(path)")
        return self._open

    def _ids(self, ids: str | Iterable[str] | None, source_id: str | None, tenant: str) -> list[str]:
        if (ids is None) == (source_id is None):
            raise ArgumentError("ids", ids, "name either ids or a source_id")
        if ids is None:
            return self.ids_of(_need_text("source_id", source_id), tenant=tenant)
        if not isinstance(ids, Iterable):
            raise ArgumentError("ids", ids, "an id or a list of ids")
        named = [ids] if isinstance(ids, str) else list(ids)
        for one in named:
            if not isinstance(one, str):
                raise RecordError(one, "id", one, "ids are text")
        return named


def _need_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ArgumentError(name, value, "expected text")
    return value
