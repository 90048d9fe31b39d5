"""One Chroma collection through whichever client opened it: ids, pages, upserts and removals.

Requests stay within what Chroma takes: rows (its largest batch) and bytes (a server refuses 40 MB).
Whatever fails is a `StoreError` that says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

import numpy as np

from ctxarith.errors import StoreError
from ctxarith.flat import flatten
from ctxarith.ports import Row, RowKey, Vector

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

T = TypeVar("T")

MOST_ROWS = 2_000
# A server takes 40 MB. Base64, escapes and field names can make a request larger than its parts.
_MOST_BYTES = 16_000_000
_PLAIN = re.compile(r"[A-Za-z0-9_.~ -]*").fullmatch


class Raw(NamedTuple):
    """A row as Chroma gives it; its text or vector may be missing."""

    name: str
    text: str | None
    metadata: Mapping[str, Any]
    vector: Vector | None


class Kept(NamedTuple):
    """A row of ours with the Chroma id under which it is kept, and metadata that is not the record's."""

    name: str
    row: Row
    beside: Mapping[str, Any] = MappingProxyType({})


class _VectorMissingError(Exception):
    """A page cannot be read since Chroma lacks a vector in it."""


class ChromaCollection:
    """The requests that a store makes of a collection.

    Args:
        collection: of an embedded, HTTP or other client of Chroma.
        most: the largest number of rows in one request.
        alone: nobody else writes into it, so that a row that was just removed is not there.
        advice: what to do when Chroma fails; stands before the cause in the message.
    """

    def __init__(
        self, collection: Collection, *, most: int = MOST_ROWS, alone: bool = False, advice: str
    ) -> None:
        self._collection = collection
        self._most = min(most, MOST_ROWS)
        # An upsert looks for each row first; an add is quicker, and skips rows that are there.
        self._insert = collection.add if alone else collection.upsert
        self._advice = advice

    @property
    def scales(self) -> bool:
        """Whether Chroma scales the vectors of this collection and keeps their lengths."""
        graph = (self._collection.configuration_json or {}).get("hnsw") or {}
        return graph.get("space") == "cosine"

    def count(self) -> int:
        """The number of rows."""
        return int(self._asked(self._collection.count))

    def ids(self, where: dict[str, Any] | None = None) -> list[str]:
        """The ids of all rows, or of those that pass a Chroma filter, as they stand at one moment."""
        # In one request: pages by offset skip rows when others remove some meanwhile.
        return list(self._asked(lambda: self._collection.get(where=where, include=[])["ids"]))

    def pages(self, ids: Iterable[str], *, vectors: bool = True) -> Iterator[Raw]:
        """The rows of those ids that are still there, in no particular order."""
        for part in self._parts(ids, len):
            yield from self._page(part, vectors=vectors)

    def put(self, rows: Iterable[Kept]) -> None:
        """Insert or replace, each row whole. May stop half-way with an exception."""
        for part in self._parts(rows, _weight):
            # An upsert merges metadata into what it finds, and an add changes nothing there.
            self.drop([kept.name for kept in part])
            self._asked(partial(self._write, part))

    def drop(self, ids: Iterable[str]) -> None:
        """Remove; unknown ids are ignored."""
        for part in self._parts(dict.fromkeys(ids), len):
            known = self._asked(partial(self._collection.get, ids=part, include=[]))["ids"]
            if known:
                self._asked(partial(self._collection.delete, ids=known))

    def erase(self, ids: Iterable[str]) -> None:
        """Remove, seen or not: what a failed request left in Chroma's log may appear yet."""
        for part in self._parts(dict.fromkeys(ids), len):
            self._asked(partial(self._collection.delete, ids=part))

    def _write(self, rows: Sequence[Kept]) -> None:
        self._insert(
            ids=[kept.name for kept in rows],
            embeddings=np.stack([kept.row.vector for kept in rows]),
            documents=[kept.row.record.text for kept in rows],
            metadatas=[{**flatten(kept.row.record, kept.row.revision), **kept.beside} for kept in rows],
        )

    def _page(self, ids: list[str], *, vectors: bool) -> list[Raw]:
        try:
            return self._fetched(ids, vectors=vectors)
        except _VectorMissingError:
            if len(ids) == 1:
                return self._fetched(ids, vectors=False)
        half = len(ids) // 2
        return self._page(ids[:half], vectors=True) + self._page(ids[half:], vectors=True)

    def _fetched(self, ids: list[str], *, vectors: bool) -> list[Raw]:
        include: Any = ["documents", "metadatas", *(["embeddings"] if vectors else [])]
        try:
            page = self._collection.get(ids=ids, include=include)
        except Exception as error:
            # One row whose vector Chroma's graph has lost, or of another length, spoils the whole page.
            if vectors and (isinstance(error, ValueError) or "Error finding id" in str(error)):
                raise _VectorMissingError from error
            raise StoreError(f"{self._advice}: {error}") from error
        names = page["ids"]
        nothing = [None] * len(names)
        texts, metadatas = page["documents"] or nothing, page["metadatas"] or nothing
        embeddings = page["embeddings"] if vectors else nothing
        columns = zip(names, texts, metadatas, nothing if embeddings is None else embeddings, strict=True)
        return [Raw(name, text, flat or {}, _vector(found)) for name, text, flat, found in columns]

    def _parts(self, items: Iterable[T], weight: Callable[[T], int]) -> Iterator[list[T]]:
        part: list[T] = []
        total = 0
        for item in items:
            own = weight(item)
            if part and (len(part) >= self._most or total + own > _MOST_BYTES):
                yield part
                part, total = [], 0
            part.append(item)
            total += own
        if part:
            yield part

    def _asked(self, request: Callable[[], T]) -> T:
        try:
            return request()
        except Exception as error:
            raise StoreError(f"{self._advice}: {error}") from error


def row_id(key: RowKey) -> str:
    """A Chroma id: tenant, id and version, percent-encoded so that no two keys share one.

    >>> row_id(RowKey("acme", "a|b", "1"))
    'acme|a%7Cb|1'
    """
    parts = (key.tenant, key.id, key.version)
    named = "|".join(part if _PLAIN(part) else quote(part, safe=" ") for part in parts)
    return f"{named}|{key.revision}" if key.revision else named


def named(collection: Any) -> str:
    """A collection's name and id."""
    return f"{getattr(collection, 'name', '?')!r} ({getattr(collection, 'id', '?')})"


def once_each(rows: Sequence[Row]) -> list[Row]:
    """The rows without repeated keys; the last one counts, as in a dict."""
    return list({row.key: row for row in rows}.values())


def _vector(found: Any) -> Vector | None:
    return None if found is None else np.asarray(found, dtype=np.float32)


def _weight(kept: Kept) -> int:
    record = kept.row.record
    facts = sum(len(str(slot.value)) + len(slot.attribute) + 200 for slot in record.slots)
    # Four bytes a character at most, unless it is escaped; numbers are short.
    said = sum(len(str(value)) + len(key) for key, value in record.metadata.items())
    return 6 * kept.row.vector.size + 4 * (len(record.text) + len(kept.name) + said + facts)
