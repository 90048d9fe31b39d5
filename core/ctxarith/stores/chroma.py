"""Chroma as the store: one collection in cosine space, documents, embeddings and flat metadata.

Other Chroma tools read the collection as it is. Chroma filters and searches are not on the read path;
`select` narrows with what Chroma can evaluate and checks every row again.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from ctxarith.errors import CtxArithError, StoreError
from ctxarith.ports import Row, RowKey
from ctxarith.predicate import Predicate
from ctxarith.stores.chroma_where import compiles_exactly, narrowing
from ctxarith.stores.flat import flatten, restore

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

COLLECTION = "ctxarith"
_PAGE = 2_000
# hnswlib: version, offset of the first element, capacity, elements, bytes an element.
_HEADER = struct.Struct("<IQQQQ")


class ChromaStore:
    """Rows in a Chroma collection in a folder; opened at first use.

    Raises:
        StoreError: Chroma cannot be opened there.
    """

    name = "Chroma"

    def __init__(self, folder: str | Path, *, collection: str = COLLECTION) -> None:
        self._folder = Path(folder)
        self._name = collection
        self._seen: dict[Path, tuple[int, int]] = {}
        self._connect()

    def _connect(self) -> None:
        import chromadb
        from chromadb.config import Settings

        try:
            self._client: ClientAPI = chromadb.PersistentClient(
                path=str(self._folder), settings=Settings(anonymized_telemetry=False)
            )
            self._collection = self._client.get_or_create_collection(
                self._name, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
            )
            self._batch = int(self._client.get_max_batch_size())
        except Exception as error:
            raise StoreError(f"Chroma cannot be opened in {str(self._folder)!r}: {error}") from error

    def refresh(self) -> None:
        """Open Chroma anew: it keeps the state of its vector segments in memory."""
        self.close()
        self._connect()

    def write(self, rows: Sequence[Row]) -> None:
        """Upsert in batches that Chroma accepts; keys that a row no longer has are removed first."""
        # Chroma's upsert merges metadata; ours replaces it whole.
        self.remove([row.key for row in rows])
        for start in range(0, len(rows), self._batch):
            part = rows[start : start + self._batch]
            self._collection.upsert(
                ids=[row_id(row.key) for row in part],
                embeddings=np.stack([row.vector for row in part]),
                documents=[row.record.text for row in part],
                metadatas=[flatten(row.record, row.revision) for row in part],
            )
        self._tidy()

    def remove(self, keys: Sequence[RowKey]) -> None:
        """Delete those of the keys that are there."""
        ids = list(dict.fromkeys(map(row_id, keys)))
        for start in range(0, len(ids), self._batch):
            known = self._collection.get(ids=ids[start : start + self._batch], include=[])["ids"]
            if known:
                self._collection.delete(ids=known)
        self._tidy()

    def rows(self) -> Iterator[Row]:
        """Every row, page by page."""
        return self._pages(None)

    def select(self, predicate: Predicate) -> Iterator[Row]:
        """The rows whose record matches: narrowed by Chroma, then checked one by one."""
        return (row for row in self._pages(narrowing(predicate)) if predicate.matches(row.record))

    def can(self, predicate: Predicate) -> bool:
        """Whether Chroma's own filter means exactly the same."""
        return compiles_exactly(predicate)

    def scrub(self) -> None:
        """Remove what Chroma keeps of deleted rows: queue, full-text segments and free pages.

        The queue's vectors stay, since Chroma's graph index is still caught up from them.
        """
        path = self._folder / "chroma.sqlite3"
        with sqlite3.connect(path, timeout=30) as database:
            database.execute("UPDATE embeddings_queue SET metadata = NULL WHERE metadata IS NOT NULL")
            database.execute(
                "INSERT INTO embedding_fulltext_search(embedding_fulltext_search) VALUES('optimize')"
            )
        database = sqlite3.connect(path, timeout=30, isolation_level=None)
        try:
            database.execute("VACUUM")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            database.close()
        self._tidy()

    def close(self) -> None:
        """Let go of the client; its files are released when no other handle uses them."""
        close = getattr(self._client, "close", None)
        if close is not None:
            close()
        self._tidy()

    def _tidy(self) -> None:
        """Clear the unused part of each vector file that Chroma has written since the last look."""
        for header in self._folder.glob("*/header.bin"):
            vectors = header.with_name("data_level0.bin")
            if not vectors.exists():
                continue
            if self._seen.get(vectors) != _stamp(vectors):
                _clear_unused(header, vectors)
                self._seen[vectors] = _stamp(vectors)

    def _pages(self, where: dict[str, Any] | None) -> Iterator[Row]:
        for offset in range(0, self._count(), _PAGE):
            page = self._page(where, offset)
            if not page["ids"]:
                return
            columns = (page["ids"], page["documents"] or [], page["metadatas"] or [], page["embeddings"])
            for name, text, flat, vector in zip(*columns, strict=True):
                yield _row(name, text, flat, vector)
            # Loading a vector segment makes Chroma write its file anew.
            self._tidy()

    def _count(self) -> int:
        try:
            return int(self._collection.count())
        except Exception as error:
            raise self._unreadable(error) from error

    def _page(self, where: dict[str, Any] | None, offset: int) -> Any:
        try:
            return self._collection.get(
                where=where, limit=_PAGE, offset=offset, include=["documents", "metadatas", "embeddings"]
            )
        except Exception as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StoreError:
        return StoreError(f"Chroma cannot read {str(self._folder)!r}, restore it from a copy: {error}")


def _row(name: str, text: str | None, flat: dict[str, Any] | None, vector: Any) -> Row:
    try:
        record, revision = restore(flat or {}, text or "")
    except (CtxArithError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the Chroma row {name!r} was not written by this library: {error}") from error
    return Row(record, np.asarray(vector, dtype=np.float32), revision)


def _clear_unused(header: Path, vectors: Path) -> None:
    """Overwrite the part of hnswlib's vector file that holds no element yet.

    hnswlib writes that part from memory it never set, in which pieces of documents can lie.
    """
    layout = header.read_bytes()[: _HEADER.size]
    if len(layout) < _HEADER.size:
        return
    version, offset, most, used, size = _HEADER.unpack(layout)
    if version != 1 or used > most:
        return
    with vectors.open("r+b") as file:
        end = file.seek(0, 2)
        start = file.seek(min(offset + used * size, end))
        file.write(bytes(end - start))


def _stamp(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def row_id(key: RowKey) -> str:
    """A Chroma id: tenant, id and version, percent-encoded so that no two keys share one.

    >>> row_id(RowKey("acme", "a|b", "1"))
    'acme|a%7Cb|1'
    """
    named = "|".join(quote(part, safe=" ") for part in (key.tenant, key.id, key.version))
    return f"{named}|{key.revision}" if key.revision else named
