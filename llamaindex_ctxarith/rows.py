"""The rows of an adopted collection once more, for what a node is beside its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.schema import BaseNode

from ctxarith.errors import StoreError
from ctxarith.model import Record
from ctxarith.stores.collection import Raw
from ctxarith.stores.foreign import Fields
from llamaindex_ctxarith.nodes import NodeReader, node_of


class AdoptedRows:
    """What LlamaIndex wrote into a Chroma collection: relationships, hidden keys, positions."""

    def __init__(self, collection: Any, fields: Fields | None) -> None:
        self._collection = collection
        self._reader = NodeReader(fields)

    def nodes(self, records: Sequence[Record]) -> list[BaseNode]:
        """The node of each record; a plain one where the row has changed since the corpus read it.

        Raises:
            StoreError: Chroma fails.
        """
        if not records:
            return []
        names = [record.id for record in records]
        try:
            there = self._collection.get(ids=names, include=["documents", "metadatas"])
        except Exception as error:
            raise StoreError(f"the adopted Chroma collection failed: {error}") from error
        rows = zip(there["ids"], there["documents"], there["metadatas"], strict=True)
        found = {name: Raw(name, text, metadata or {}, None) for name, text, metadata in rows}
        return [self._node(record, found.get(record.id)) for record in records]

    def _node(self, record: Record, row: Raw | None) -> BaseNode:
        same = None if row is None else self._reader.same(record, row)
        return node_of(record) if same is None else same
