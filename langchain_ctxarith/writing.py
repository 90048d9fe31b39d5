"""Documents in and out: the writing half of a retriever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from langchain_core.documents import Document
from langchain_core.indexing import DeleteResponse
from langchain_core.runnables import run_in_executor

from ctxarith.errors import ArgumentError
from ctxarith.policy import Principal
from langchain_ctxarith.documents import as_records
from langchain_ctxarith.settings import Settings


class Writing(Settings):
    """Adds and deletes documents of the retriever's tenant; whole or not at all."""

    def add_documents(
        self, documents: Sequence[Document], *, ids: Sequence[str] | None = None, tenant: str | None = None
    ) -> list[str]:
        """Add documents, or correct those that are there under the same id.

        The same document again is not embedded again.

        Args:
            documents: one without an id gets one made of its text and metadata.
            ids: one for each document, instead of their own.
            tenant: whose they are; that of the retriever's `principal` by default.

        Returns:
            The ids, in the order of the documents.

        Raises:
            RecordError: names the document, the key and the value; nothing is written.
        """
        given = list(documents)
        if ids is not None and len(ids) != len(given):
            raise ArgumentError("ids", ids, f"one for each of the {len(given)} documents")
        if ids is not None:
            given = [one.model_copy(update={"id": name}) for one, name in zip(given, ids, strict=True)]
        records = as_records(given, fields=self.fields, tenant=self._tenant(tenant))
        self.corpus.add(records)
        return [record.id for record in records]

    async def aadd_documents(
        self, documents: Sequence[Document], *, ids: Sequence[str] | None = None, tenant: str | None = None
    ) -> list[str]:
        """`add_documents` in a worker thread."""
        return await run_in_executor(None, partial(self.add_documents, documents, ids=ids, tenant=tenant))

    def delete(
        self,
        ids: Iterable[str] | None = None,
        *,
        source_id: str | None = None,
        tenant: str | None = None,
    ) -> DeleteResponse:
        """Delete documents by id, or all chunks of a source; an id that is not there is no failure.

        Raises:
            ArgumentError: neither or both are named.
            PrincipalRequired: more than one tenant exists and none is named.
        """
        if (ids is None) == (source_id is None):
            raise ArgumentError("ids", ids, "name either ids or a source_id")
        owner = self._tenant(tenant)
        if source_id is not None:
            named = self.corpus.ids_of(source_id, tenant=owner)
        else:
            named = list(dict.fromkeys([ids] if isinstance(ids, str) else ids or ()))
        there = [one for one in named if self.corpus.holds(one, tenant=owner)]
        count = self.corpus.delete(there, tenant=owner)
        if count != len(there):  # some only named a source
            there = [one for one in there if not self.corpus.holds(one, tenant=owner)]
        return DeleteResponse(num_deleted=count, succeeded=there, failed=[], num_failed=0)

    async def adelete(
        self,
        ids: Iterable[str] | None = None,
        *,
        source_id: str | None = None,
        tenant: str | None = None,
    ) -> DeleteResponse:
        """`delete` in a worker thread."""
        return await run_in_executor(None, partial(self.delete, ids, source_id=source_id, tenant=tenant))

    def _tenant(self, given: str | None) -> str | None:
        own = self.principal.tenant if isinstance(self.principal, Principal) else None
        if given is not None and own is not None and given != own:
            raise ArgumentError("tenant", given, f"this retriever writes for {own!r}, its principal's tenant")
        return given or own
