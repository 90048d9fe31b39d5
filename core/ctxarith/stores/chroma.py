"""Chroma as the store: one collection in a folder, with documents, embeddings and flat metadata."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ctxarith.errors import StoreError
from ctxarith.ports import Row, RowKey
from ctxarith.stores.chroma_rows import COLLECTION, ChromaRows, checked_name, opened
from ctxarith.stores.collection import ChromaCollection
from ctxarith.stores.hnsw import clear_unused, is_whole, stamp

if TYPE_CHECKING:
    from chromadb.api import ClientAPI


class ChromaStore(ChromaRows):
    """Rows in a Chroma collection in a folder.

    Chroma is opened at first use. Only one process may have the folder open, even to read or count: a
    second one writes its own state of the graph files over the first one's, and the folder is lost (seen
    with Chroma 1.5.9). So whoever calls anything but `close` holds the writer's lock.

    Raises:
        StoreError: the folder cannot be used, or Chroma fails in it.
        ArgumentError: a name that Chroma does not take for a collection.
    """

    def __init__(self, folder: str | Path, *, collection: str = COLLECTION) -> None:
        self._folder = Path(folder)
        self._name = checked_name(collection)
        self._seen: dict[Path, tuple[int, int]] = {}
        self._client: ClientAPI | None = None
        self._collection: ChromaCollection | None = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {str(self._folder)!r} cannot be used: {error}") from error

    @staticmethod
    def must_copy(folder: Path) -> bool:
        """Whether a folder holds what only the process with the writer's lock may read."""
        return (folder / "chroma.sqlite3").exists()

    def write(self, rows: Sequence[Row]) -> None:
        """Insert or replace, each row whole: metadata is never merged."""
        super().write(rows)
        self._tidy()

    def remove(self, keys: Sequence[RowKey]) -> None:
        """Remove those of the keys that are there."""
        super().remove(keys)
        self._tidy()

    def rows(self) -> Iterator[Row]:
        """Every row; a folder in which nothing was written yet stays untouched."""
        if self._collection is None and not self.must_copy(self._folder):
            return iter(())
        return super().rows()

    def scrub(self) -> None:
        """Remove what Chroma keeps of deleted rows: queue, full-text segments and free pages.

        The queue's vectors stay, since Chroma's graph index is still caught up from them.
        """
        self._opened()
        path = self._folder / "chroma.sqlite3"
        try:
            with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as database:
                database.execute("UPDATE embeddings_queue SET metadata = NULL WHERE metadata IS NOT NULL")
                database.execute(
                    "INSERT INTO embedding_fulltext_search(embedding_fulltext_search) VALUES('optimize')"
                )
                database.execute("VACUUM")
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise StoreError(f"{str(path)!r} cannot be cleaned, try again: {error}") from error
        self._tidy()

    def close(self) -> None:
        """Let go of the client; its files are released when no other handle uses them."""
        if self._client is not None:
            close = getattr(self._client, "close", None)  # not in every version
            if close is not None:
                close()
            self._tidy()
        self._client = self._collection = None

    def _opened(self) -> ChromaCollection:
        if self._collection is not None:
            return self._collection
        import chromadb
        from chromadb.config import Settings

        place = str(self._folder)
        advice = (
            f"Chroma failed in {place!r}: close other clients of it; if its files are damaged, move them "
            "away, and they are made again from the index"
        )
        for header in self._folder.glob("*/header.bin"):
            if not is_whole(header):
                raise StoreError(f"{advice}: the vector file in {str(header.parent)!r} is cut short")
        try:
            self._client = chromadb.PersistentClient(
                path=place, settings=Settings(anonymized_telemetry=False)
            )
            self._collection = opened(self._client, self._name, advice, alone=True)
        except Exception as error:
            self.close()
            raise StoreError(
                f"Chroma cannot be opened in {place!r}, close other clients of this folder or restore it "
                f"from a copy: {error}"
            ) from error
        return self._collection

    def _read(self, ids: Sequence[str]) -> Iterator[Row]:
        # Chroma reads vectors through its graph, and writes that anew when it opens it.
        try:
            yield from super()._read(ids)
        finally:
            self._tidy()

    def _tidy(self) -> None:
        """Clear the unused part of each vector file that Chroma has written since the last look."""
        for header in self._folder.glob("*/header.bin"):
            vectors = header.with_name("data_level0.bin")
            if not vectors.exists():
                continue
            if self._seen.get(vectors) != stamp(vectors):
                # Where the collection is not open, what may be a length is left as it is.
                scaled = self._collection is None or self._collection.scales
                clear_unused(header, vectors, scaled=scaled)
                self._seen[vectors] = stamp(vectors)
