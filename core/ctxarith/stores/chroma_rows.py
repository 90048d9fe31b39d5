"""Rows in a Chroma collection: the part that an embedded and a served one share.

Other Chroma tools read the collection as it is. Chroma's own filters and searches are not on the read
path: `select` narrows with what Chroma can evaluate and checks each row.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ctxarith.errors import ArgumentError, CtxArithError, StoreError
from ctxarith.flat import restore
from ctxarith.ports import Row, RowKey
from ctxarith.predicate import Predicate
from ctxarith.stores.chroma_where import compiles_exactly, narrowing
from ctxarith.stores.collection import ChromaCollection, Kept, Raw, once_each, row_id

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

COLLECTION = "ctxarith"

# Searches are exact and run on our own index, so that a fine graph would only make writing slow. The
# graph is there for other Chroma tools; a collection that exists keeps the one it has. Our vectors have
# length one, so that "ip" ranks as the cosine does; in the space "cosine" Chroma scales them once more and
# gives them back with other last bits.
_LIGHT = {"hnsw": {"space": "ip", "max_neighbors": 4, "ef_construction": 8, "ef_search": 8}}


class ChromaRows(ABC):
    """The row logic over a collection that is opened at first use."""

    name = "Chroma"

    @abstractmethod
    def _opened(self) -> ChromaCollection: ...

    def write(self, rows: Sequence[Row]) -> None:
        """Insert or replace, each row whole: metadata is never merged."""
        if rows:
            self._opened().put(Kept(row_id(row.key), row) for row in once_each(rows))

    def remove(self, keys: Sequence[RowKey]) -> None:
        """Remove those of the keys that are there."""
        if keys:
            self._opened().erase(map(row_id, keys))

    def rows(self) -> Iterator[Row]:
        """Every row that is there from beginning to end, whatever others remove meanwhile."""
        return self._read(self._opened().ids())

    def select(self, predicate: Predicate) -> Iterator[Row]:
        """The rows whose record matches: narrowed by Chroma, then checked one by one."""
        found = self._read(self._opened().ids(narrowing(predicate)))
        return (row for row in found if predicate.matches(row.record))

    def can(self, predicate: Predicate) -> bool:
        """Whether Chroma's own filter means exactly the same."""
        return compiles_exactly(predicate)

    def count(self) -> int:
        """The number of rows, revisions among them."""
        return self._opened().count()

    def _read(self, ids: Sequence[str]) -> Iterator[Row]:
        return map(_row, self._opened().pages(ids))


def opened(client: ClientAPI, name: str, advice: str, *, alone: bool = False) -> ChromaCollection:
    """The collection of that name, made if need be."""
    made: Any = client.get_or_create_collection(name, embedding_function=None, configuration=_LIGHT)  # type: ignore[arg-type]
    return ChromaCollection(made, most=int(client.get_max_batch_size()), alone=alone, advice=advice)


def checked_name(name: str) -> str:
    """A collection's name, if Chroma takes it.

    Raises:
        ArgumentError: it does not.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]", name):
        rule = "3 to 512 letters, digits and '.', '_', '-', with a letter or digit at both ends"
        raise ArgumentError("collection", name, rule)
    return name


def _row(raw: Raw) -> Row:
    try:
        record, revision = restore(raw.metadata, raw.text or "")
    except (CtxArithError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"the Chroma row {raw.name!r} was not written by this library: {error}") from error
    if raw.vector is None:
        raise StoreError(f"the Chroma row {raw.name!r} has lost its vector: restore the store from a copy")
    return Row(record, raw.vector, revision)
