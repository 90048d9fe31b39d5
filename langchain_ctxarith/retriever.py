"""A corpus as a LangChain retriever: every style of call sees its config, sync and async find the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import LangSmithRetrieverParams
from langchain_core.runnables import ConfigurableFieldSpec, RunnableConfig, run_in_executor
from langchain_core.runnables.config import ensure_config
from langchain_core.runnables.utils import get_unique_config_specs

from ctxarith.errors import PrincipalRequired
from ctxarith.run import Result
from ctxarith.where import Where, where
from langchain_ctxarith.caller import principal_of, thread_of
from langchain_ctxarith.documents import as_documents
from langchain_ctxarith.opening import Opening

# Ours alone: LangChain hands its config to no retriever, and its own variable belongs to the caller.
_CONFIG: ContextVar[RunnableConfig | None] = ContextVar("ctxarith_run_config", default=None)


_CALLER = "in LangChain that is {'configurable': {'principal': Principal(...)}} in the config of the request"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says for itself; `None` is what the retriever was made with."""

    k: int | None = None
    filter: Where | None = None
    thread_id: str | None = None
    token_budget: int | None = None


class CtxArithRetriever(Opening):
    """The right few records for a question, as `Document`s: filtered, current, and permitted.

    Setup: `pip install 'ctxarith[langchain]'`. Make one of an open corpus, or with `from_documents`,
    `from_texts` or `from_vectorstore`.

    Args:
        corpus: an open `Corpus`.
        k: how many documents at most; ranking never gives fewer, `token_budget` may.
        filter: a dict or predicate that holds for every request; that of a request is AND-ed with it.
        principal: who asks where the request does not say: a `Principal`, or a function of the config
            that decides alone. Nobody need be named while there is one tenant and no policy.
        token_budget: tokens of the context; no limit by default.
        thread_key: the key in `configurable` that names a thread; its follow-ups are answered from
            what it has cited, when that is enough. `None` never looks.
        fields: which metadata keys hold which fields of a record, see `Corpus.adopt`.
        passages: texts with date and labels, as `Result.passages`.
        evidence: scores, ranks and citation marks in the metadata. `False` for chains that take documents
            for the same only if their metadata is, as `MultiQueryRetriever`.
        search_kwargs: `scope`, `rank`, `words`, `rerank`, `group_by`, `as_of`, `include_superseded`, as for
            `Corpus.retrieve`.

    Raises:
        pydantic.ValidationError: an unknown name, or a value that cannot be.

    A request says who asks, and in which thread, in its config: `{"configurable": {"thread_id": "t1",
    "principal": Principal("acme")}}`, or in the context of a LangGraph run.

    >>> retriever = CtxArithRetriever.from_texts(["The fee is 12 EUR", "The pump is red"], k=1)
    >>> retriever.invoke("what is the fee?")[0].page_content
    'The fee is 12 EUR'
    """

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """The documents for a question, best first.

        Args:
            input: the question.
            config: see the class.
            **kwargs: `k`, `filter`, `thread_id`, `token_budget` of this request.

        Raises:
            PrincipalRequired: a policy or a second tenant exists, and nobody is named.
            TypeError: an argument that is not known.
        """
        config = ensure_config(_known(config, kwargs))
        token = _CONFIG.set(config)
        try:
            return super().invoke(input, config, **kwargs)
        finally:
            _CONFIG.reset(token)

    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """`invoke`, with the search in a worker thread."""
        config = ensure_config(_known(config, kwargs))
        token = _CONFIG.set(config)
        try:
            return await super().ainvoke(input, config, **kwargs)
        finally:
            _CONFIG.reset(token)

    def retrieve_evidence(self, query: str, *, config: RunnableConfig | None = None, **asked: Any) -> Result:
        """The whole answer: text, hits, drops with their reasons, `explain()` and `why(id)`.

        Takes the arguments of `invoke` and finds what it finds.
        """
        return self._answer(query, Asked(**asked), ensure_config(config), None)

    async def aretrieve_evidence(
        self, query: str, *, config: RunnableConfig | None = None, **asked: Any
    ) -> Result:
        """`retrieve_evidence` in a worker thread."""
        config = ensure_config(config)
        return await run_in_executor(None, partial(self.retrieve_evidence, query, config=config, **asked))

    def record_citations(
        self, thread_id: str, doc_ids: Iterable[str], *, config: RunnableConfig | None = None
    ) -> tuple[str, ...]:
        """Cite documents or sources in a thread; what the caller may not see is passed over.

        Returns:
            The sources that were cited.
        """
        principal = principal_of(ensure_config(config), self.principal)
        return self.corpus.session(thread_id, principal=principal).cite(doc_ids)

    async def arecord_citations(
        self, thread_id: str, doc_ids: Iterable[str], *, config: RunnableConfig | None = None
    ) -> tuple[str, ...]:
        """`record_citations` in a worker thread."""
        config = ensure_config(config)
        return await run_in_executor(None, partial(self.record_citations, thread_id, doc_ids, config=config))

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The thread; not the principal, which no client may set."""
        if self.thread_key is None:
            return super().config_specs
        thread = ConfigurableFieldSpec(
            id=self.thread_key, annotation=str | None, name="Thread ID", default=None, is_shared=True
        )
        return get_unique_config_specs([*super().config_specs, thread])

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Where | None = None,
        thread_id: str | None = None,
        token_budget: int | None = None,
    ) -> list[Document]:
        asked = Asked(k, filter, thread_id, token_budget)
        return self._documents(query, asked, _CONFIG.get() or ensure_config(), run_manager.metadata)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Where | None = None,
        thread_id: str | None = None,
        token_budget: int | None = None,
    ) -> list[Document]:
        asked, config = Asked(k, filter, thread_id, token_budget), _CONFIG.get() or ensure_config()
        return await run_in_executor(None, self._documents, query, asked, config, run_manager.metadata)

    def _documents(
        self, query: str, asked: Asked, config: RunnableConfig, metadata: Mapping[str, Any]
    ) -> list[Document]:
        answer = self._answer(query, asked, config, metadata)
        return as_documents(answer, fields=self.fields, passages=self.passages, evidence=self.evidence)

    def _answer(
        self, query: str, asked: Asked, config: RunnableConfig, metadata: Mapping[str, Any] | None
    ) -> Result:
        """The one way to an answer, for every style of call."""
        principal = principal_of(config, self.principal)
        thread = thread_of(config, metadata, self.thread_key) if asked.thread_id is None else asked.thread_id
        arguments: dict[str, Any] = {
            **self.search_kwargs,
            "where": where(self.filter) & where(asked.filter),
            "top": self.k if asked.k is None else asked.k,
            "tokens": self.token_budget if asked.token_budget is None else asked.token_budget,
        }
        try:
            if thread is None:
                return self.corpus.retrieve(query, principal=principal, **arguments)
            return self.corpus.session(thread, principal=principal).retrieve(query, **arguments)
        except PrincipalRequired as error:
            raise PrincipalRequired(f"{error}; {_CALLER}") from error

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        return {**params, "ls_embedding_model": self.corpus.embedder_name}


def _known(config: RunnableConfig | None, given: Mapping[str, Any]) -> RunnableConfig | None:
    """The config, if a request names nothing else than `Asked` and what LangChain itself adds."""
    known = {*Asked.__dataclass_fields__, "run_id", "verbose"}
    if unknown := sorted(set(given) - known):
        rule = f"a request takes {', '.join(Asked.__dataclass_fields__)}; {_CALLER}"
        raise TypeError(f"unknown here: {', '.join(unknown)}: {rule}")
    return config
