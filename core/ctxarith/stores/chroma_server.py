"""A Chroma server as the store: the same rows, in a process or on a machine of its own."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ctxarith.errors import StoreError
from ctxarith.stores.chroma_rows import COLLECTION, ChromaRows, checked_name, opened
from ctxarith.stores.collection import ChromaCollection

if TYPE_CHECKING:
    from chromadb.api import ClientAPI


class ChromaServer(ChromaRows):
    """Rows in a collection of a Chroma server; the client stays the caller's to close.

    >>> import chromadb
    >>> store = ChromaServer(chromadb.HttpClient(host="127.0.0.1", port=8000))  # doctest: +SKIP

    Args:
        client: `chromadb.HttpClient`, or any other client with `get_or_create_collection`.
        collection: made where it does not exist.

    Raises:
        StoreError: at the first use and after, when the server cannot be reached or refuses.
        ArgumentError: a name that Chroma does not take for a collection.
    """

    def __init__(self, client: ClientAPI, collection: str = COLLECTION) -> None:
        self._client = client
        self._name = checked_name(collection)
        self.identity = f"the collection {collection!r} of a Chroma server"
        self._collection: ChromaCollection | None = None

    def scrub(self) -> None:
        """Warn: what the server keeps of deleted rows lies in files that only it can reach."""
        warnings.warn(
            "the rows are deleted, and traces may stay in the files of the Chroma server: "
            "stop it and run `chroma vacuum --path ...` there",
            stacklevel=2,
        )

    def probe(self) -> None:
        """Ask the server for a sign of life.

        Raises:
            StoreError: there is none.
        """
        self.count()

    def close(self) -> None:
        """Nothing of ours is held open."""
        self._collection = None

    def _opened(self) -> ChromaCollection:
        if self._collection is None:
            advice = "the Chroma server failed, see that it runs at this address and try again"
            try:
                self._collection = opened(self._client, self._name, advice)
            except Exception as error:
                raise StoreError(f"{advice}: {error}") from error
        return self._collection
