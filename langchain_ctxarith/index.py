"""A corpus as LangChain's `DocumentIndex`, the target of `langchain_core.indexing.index`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.indexing import DeleteResponse, UpsertResponse
from langchain_core.indexing.base import DocumentIndex
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_ctxarith.caller import principal_of
from langchain_ctxarith.documents import as_document
from langchain_ctxarith.retriever import CtxArithRetriever


class CtxArithIndex(CtxArithRetriever, DocumentIndex):
    """The retriever, which also stores documents by id and gives them back as they were.

    >>> index = CtxArithIndex.from_texts(["The fee is 12 EUR"], ids=["fee"])
    >>> index.get(["fee", "pump"])[0].page_content
    'The fee is 12 EUR'
    """

    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Add documents, or correct those of the same id: all of them or none; see `add_documents`."""
        added = self.add_documents(items, **kwargs)
        return UpsertResponse(succeeded=list(dict.fromkeys(added)), failed=[])

    def delete(self, ids: Iterable[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete by ids, or all chunks of a `source_id`; see `CtxArithRetriever.delete`."""
        return super().delete(ids, **kwargs)

    async def adelete(self, ids: Iterable[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """`delete` in a worker thread."""
        return await super().adelete(ids, **kwargs)

    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """The newest permitted version of each id that is there, in the order asked.

        Times in metadata come back as ISO 8601 in UTC. `config=` says who asks, as for `invoke`.
        """
        return self._got(ids, **kwargs)

    def _got(self, ids: Sequence[str], *, config: RunnableConfig | None = None) -> list[Document]:
        principal = principal_of(ensure_config(config), self.principal)
        return [as_document(one, fields=self.fields) for one in self.corpus.get(ids, principal=principal)]
