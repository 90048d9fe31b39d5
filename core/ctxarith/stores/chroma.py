"""Chroma as the store: one collection in cosine space, documents, embeddings and flat metadata.

Other Chroma tools read the collection as it is, while no corpus is open for writing. Chroma's filters
and searches are not on the read path; `select` narrows with what Chroma can evaluate and checks each row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import numpy as np

from ctxarith.errors import CtxArithError, StoreError
from ctxarith.flat import flatten, restore
from ctxarith.ports import Row, RowKey
from ctxarith.predicate import Predicate
from ctxarith.stores.chroma_where import compiles_exactly, narrowing
from ctxarith.stores.hnsw import clear_unused, is_whole, stamp
from ctxarith.stores.mirror import Mirror

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

T = TypeVar("T")

COLLECTION = "ctxarith"
_PAGE = 2_000


class ChromaStore:
    """Rows in a Chroma collection in a folder, and beside it in a mirror from which they are read.

    Chroma itself is opened at the first write, since only one process may have it open: see `Mirror`.

    Raises:
        StoreError: the folder cannot be used.
    """

    name = "Chroma"

    def __init__(self, folder: str | Path, *, collection: str = COLLECTION) -> None:
        self._folder = Path(folder)
        self._name = collection
        self._seen: dict[Path, tuple[int, int]] = {}
        self._opened: tuple[ClientAPI, Collection, int] | None = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {str(self._folder)!r} cannot be used: {error}") from error
        mirror = self._folder / f"rows-{collection}.sqlite"
        if self.must_copy(self._folder, collection):
            self._copy_to(mirror)
        self._mirror = Mirror(mirror)

    @staticmethod
    def must_copy(folder: Path, collection: str = COLLECTION) -> bool:
        """Whether opening must read Chroma itself, since the mirror is missing: only under the lock."""
        mirror = folder / f"rows-{collection}.sqlite"
        return not mirror.exists() and (folder / "chroma.sqlite3").exists()

    def write(self, rows: Sequence[Row]) -> None:
        """Upsert in batches that Chroma accepts; keys that a row no longer has are removed first."""
        _, collection, batch = self._chroma()
        # Chroma's upsert merges metadata; ours replaces it whole.
        self.remove([row.key for row in rows])
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            self._upsert(collection, part)
            self._mirror.put((row_id(row.key), row) for row in part)
        self._tidy()

    def remove(self, keys: Sequence[RowKey]) -> None:
        """Delete those of the keys that are there."""
        _, collection, batch = self._chroma()
        ids = list(dict.fromkeys(map(row_id, keys)))
        for start in range(0, len(ids), batch):
            known = collection.get(ids=ids[start : start + batch], include=[])["ids"]
            if known:
                collection.delete(ids=known)
        self._mirror.drop(ids)
        self._tidy()

    def count(self) -> int:
        """How many rows there are."""
        return len(self._mirror)

    def rows(self) -> Iterator[Row]:
        """Every row, from the mirror."""
        return (row for _, row in self._mirror.rows())

    def select(self, predicate: Predicate) -> Iterator[Row]:
        """The rows whose record matches: narrowed by Chroma where it is open, then checked one by one."""
        where = narrowing(predicate)
        if where is None or self._opened is None:
            found = self._mirror.rows()
        else:
            found = self._mirror.get(self._ids(where))
        return (row for _, row in found if predicate.matches(row.record))

    def can(self, predicate: Predicate) -> bool:
        """Whether Chroma's own filter means exactly the same."""
        return compiles_exactly(predicate)

    def scrub(self) -> None:
        """Remove what Chroma keeps of deleted rows: queue, full-text segments and free pages.

        The queue's vectors stay, since Chroma's graph index is still caught up from them.
        """
        self._chroma()
        self._mirror.scrub()
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
        self._mirror.close()
        if self._opened is not None:
            close = getattr(self._opened[0], "close", None)
            if close is not None:
                close()
            self._tidy()
            self._opened = None

    def _chroma(self) -> tuple[ClientAPI, Collection, int]:
        """Client, collection and its largest batch; the caller holds the writer's lock."""
        if self._opened is None:
            self._opened = self._connected()
            _, collection, batch = self._opened
            if len(self._mirror) and not self._guarded(collection.count):
                # Chroma's files were lost: the open copy is made again.
                rows = list(self.rows())
                for start in range(0, len(rows), batch):
                    self._upsert(collection, rows[start : start + batch])
        return self._opened

    def _connected(self) -> tuple[ClientAPI, Collection, int]:
        import chromadb
        from chromadb.config import Settings

        for header in self._folder.glob("*/header.bin"):
            if not is_whole(header):
                raise StoreError(
                    f"Chroma's vector file in {str(header.parent)!r} is cut short: move chroma.sqlite3 and "
                    "the folders beside it away, and they are made again from the rows"
                )
        try:
            client = chromadb.PersistentClient(
                path=str(self._folder), settings=Settings(anonymized_telemetry=False)
            )
            collection = client.get_or_create_collection(
                self._name, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
            )
            return client, collection, int(client.get_max_batch_size())
        except Exception as error:
            raise StoreError(f"Chroma cannot be opened in {str(self._folder)!r}: {error}") from error

    def _upsert(self, collection: Collection, rows: Sequence[Row]) -> None:
        collection.upsert(
            ids=[row_id(row.key) for row in rows],
            embeddings=np.stack([row.vector for row in rows]),
            documents=[row.record.text for row in rows],
            metadatas=[flatten(row.record, row.revision) for row in rows],
        )

    def _ids(self, where: dict[str, Any]) -> list[str]:
        _, collection, _ = self._chroma()
        ids: list[str] = []
        while page := self._guarded(
            lambda: collection.get(where=where, limit=_PAGE, offset=len(ids), include=[])["ids"]
        ):
            ids.extend(page)
        return ids

    def _copy_to(self, mirror: Path) -> None:
        """Make a mirror that is missing: whole, or not at all."""
        growing = mirror.with_suffix(".growing")
        growing.unlink(missing_ok=True)
        copy = Mirror(growing)
        try:
            copy.put(self._read_chroma())
        finally:
            copy.close()
        growing.replace(mirror)

    def _read_chroma(self) -> Iterator[tuple[str, Row]]:
        """Every row from Chroma itself, to make a mirror that is missing."""
        self._opened = self._connected()
        _, collection, _ = self._opened
        for offset in range(0, self._guarded(collection.count), _PAGE):
            page = self._guarded(partial(_page, collection, offset))
            columns = (page["ids"], page["documents"] or [], page["metadatas"] or [], page["embeddings"])
            for name, text, flat, vector in zip(*columns, strict=True):
                yield name, _row(name, text, flat, vector)

    def _guarded(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except Exception as error:
            message = f"Chroma cannot read {str(self._folder)!r}, restore it from a copy: {error}"
            raise StoreError(message) from error

    def _tidy(self) -> None:
        """Clear the unused part of each vector file that Chroma has written since the last look."""
        for header in self._folder.glob("*/header.bin"):
            vectors = header.with_name("data_level0.bin")
            if not vectors.exists():
                continue
            if self._seen.get(vectors) != stamp(vectors):
                clear_unused(header, vectors)
                self._seen[vectors] = stamp(vectors)


def _page(collection: Collection, offset: int) -> Any:
    return collection.get(limit=_PAGE, offset=offset, include=["documents", "metadatas", "embeddings"])


def _row(name: str, text: str | None, flat: dict[str, Any] | None, vector: Any) -> Row:
    try:
        record, revision = restore(flat or {}, text or "")
    except (CtxArithError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the Chroma row {name!r} was not written by this library: {error}") from error
    return Row(record, np.asarray(vector, dtype=np.float32), revision)


def row_id(key: RowKey) -> str:
    """A Chroma id: tenant, id and version, percent-encoded so that no two keys share one.

    >>> row_id(RowKey("acme", "a|b", "1"))
    'acme|a%7Cb|1'
    """
    named = "|".join(quote(part, safe=" ") for part in (key.tenant, key.id, key.version))
    return f"{named}|{key.revision}" if key.revision else named
