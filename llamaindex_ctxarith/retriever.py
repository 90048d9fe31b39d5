"""The retriever: LlamaIndex's contract on one side, a corpus on the other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, Unpack

from llama_index.core import Settings
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.ingestion import run_transformations
from llama_index.core.schema import BaseNode, Document, NodeWithScore, QueryBundle, TransformComponent
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index_instrumentation import get_dispatcher

from ctxarith.corpus import Corpus
from ctxarith.errors import ArgumentError, PrincipalRequired
from ctxarith.evidence import Hit
from ctxarith.options import Options
from ctxarith.policy import Principal
from ctxarith.question import Question
from ctxarith.run import Result
from ctxarith.session import Session
from ctxarith.stores.foreign import Fields
from llamaindex_ctxarith.asked import Asked, checked
from llamaindex_ctxarith.budget import host_tokens, within
from llamaindex_ctxarith.caller import Caller, question_of
from llamaindex_ctxarith.documents import splitter
from llamaindex_ctxarith.filters import Filters, predicate_of
from llamaindex_ctxarith.ingestion import WrittenSlots
from llamaindex_ctxarith.nodes import NodeReader, context_node, node_of
from llamaindex_ctxarith.rows import AdoptedRows

dispatcher = get_dispatcher(__name__)

_SESSION = ("gate", "capacity")
_HOST = ("callback_manager", "object_map", "objects", "verbose")


class CtxArithRetriever(BaseRetriever):
    """Retrieves from a corpus: over only what the caller may see, superseded facts left out.

    Each node keeps its id and metadata. `metadata["ctx_evidence"]` says who found it and at which rank;
    `metadata["ctx_note"]` says what the model must know of it (superseded, out of date, in conflict), and
    is absent mostly. Neither is embedded, and only the note is shown to the model. One instance may
    serve any number of threads and tasks.

    Args:
        corpus: stays the caller's to close.
        principal: who asks; not needed while there is one tenant and no policy. `acting_as` overrules it.
        thread_id: the conversation: follow-ups are answered from what it has cited when that is enough.
            `acting_as` overrules it.
        filters: `MetadataFilters`, a predicate or a dict; AND-ed with the policy, never widening it.
        similarity_top_k: at most this many nodes.
        tokens: a budget over the text that the model reads of them; `None` for none.
        **asked: see `Asked`.

    Raises:
        ArgumentError, PredicateError, ScopeError: at construction, for what can never be asked.

    >>> retriever = CtxArithRetriever.from_documents([Document(text="The annual fee is 12 EUR", id_="fees")])
    >>> [one.node_id for one in retriever.retrieve("what is the fee?")]
    ['fees#0']
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        principal: Principal | None = None,
        thread_id: str | None = None,
        filters: Filters | None = None,
        similarity_top_k: int = 5,
        tokens: int | None = None,
        **asked: Unpack[Asked],
    ) -> None:
        given = checked(asked)
        if not isinstance(corpus, Corpus):
            raise ArgumentError("corpus", corpus, "a Corpus: Corpus.open(path), or from_documents(...)")
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0):
            raise ArgumentError("tokens", tokens, "a whole number, zero or more, or None for no limit")
        super().__init__(**{name: given.pop(name) for name in _HOST if name in given})
        self.corpus = corpus
        self._caller = Caller(principal, thread_id)
        self._tokens = tokens
        self._session = {name: given.pop(name) for name in _SESSION if name in given}
        self._asked = given | {"where": predicate_of(filters), "top": similarity_top_k, "tokens": None}
        self._reader = NodeReader()
        self._rows: AdoptedRows | None = None
        # Refuse at once what no question could be asked with.
        Question(**{k: v for k, v in self._asked.items() if k not in ("as_of", "rerank")}).pipeline()

    @classmethod
    def from_nodes(
        cls,
        nodes: Sequence[BaseNode],
        *,
        corpus: Corpus | None = None,
        fields: Fields | None = None,
        embed_model: BaseEmbedding | None = None,
        options: Options | None = None,
        **asked: Any,
    ) -> Self:
        """A retriever over nodes, which are added to a corpus: all of them, or none.

        Args:
            nodes: their ids and metadata are kept.
            corpus: where they go; one in memory by default.
            fields: which of their metadata keys hold which fields of ours; see `NodeReader`.
            embed_model: for a corpus in memory; the offline one of the core by default. With it, vectors
                that all the nodes bear are taken as its own.
            options: for a corpus in memory; see `ctxarith.options.Options`.
            **asked: what the constructor takes.

        Raises:
            RecordError: names the node, the field and the value; nothing is added.
        """
        if corpus is not None and (embed_model is not None or options):
            raise ArgumentError(
                "corpus", corpus, "it has its own settings: leave embed_model and options out"
            )
        home = Corpus.in_memory(**_options(options, embed_model)) if corpus is None else corpus
        retriever = cls(home, **asked)
        reader = NodeReader(fields)
        vectors = [one.embedding for one in nodes]
        ready = embed_model is not None and len(vectors) > 0 and all(vector is not None for vector in vectors)
        home.add([reader.kept(one) for one in nodes], embeddings=vectors if ready else None)
        return retriever

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        *,
        transformations: Sequence[TransformComponent] | None = None,
        **given: Any,
    ) -> Self:
        """A retriever over documents.

        Args:
            documents: as LlamaIndex's readers give them; each is the source of its chunks.
            transformations: how they become nodes; by default chunks of 256 tokens, named `id#0`, `id#1`,
                ..., so that a document that is added again corrects its chunks.
            **given: what `from_nodes` and the constructor take.
        """
        steps = [splitter()] if transformations is None else list(transformations)
        return cls.from_nodes(run_transformations(list(documents), steps), **given)

    @classmethod
    def from_vector_store(
        cls,
        vector_store: BasePydanticVectorStore,
        *,
        fields: Fields | None = None,
        mode: Literal["owned", "followed"] = "followed",
        embed_model: BaseEmbedding | None = None,
        options: Mapping[str, Any] | None = None,
        **asked: Any,
    ) -> Self:
        """A retriever over a `ChromaVectorStore` that LlamaIndex filled; nothing is embedded again.

        `retriever.corpus.sync()` takes over what LlamaIndex has written since.

        Args:
            vector_store: its collection is adopted; see `Corpus.adopt`.
            fields: which of its metadata keys hold which fields of ours.
            mode: "owned" if from now on only the corpus writes it.
            embed_model: the model that made the vectors; `Settings.embed_model` by default.
            options: for the corpus: `path` keeps the index in a folder; see `Options` for the others.
            **asked: what the constructor takes.

        Raises:
            ArgumentError: the store is not over a Chroma collection.
        """
        collection = getattr(vector_store, "client", None)
        if collection is None:
            raise ArgumentError(
                "vector_store", vector_store, "a ChromaVectorStore, such as index.vector_store"
            )
        given = dict(options or {})
        path: str | Path | None = given.pop("path", None)
        own: Any = _options(given, embed_model or given.get("embedder") or Settings.embed_model)
        own["slots"] = WrittenSlots(own.get("slots"), own.get("subject_key"))
        corpus = Corpus.adopt(collection, fields=fields, mode=mode, path=path, **own)
        retriever = cls(corpus, **asked)
        if fields is None or fields.get("id") is None:
            retriever._rows = AdoptedRows(collection, fields)
        return retriever

    def result(self, query: str | QueryBundle) -> Result:
        """The core's answer to a question: its funnel (`explain()`), drops and `why(id)`.

        Raises:
            PrincipalRequired: nobody is named, and a policy or a second tenant exists.
        """
        bundle = QueryBundle(query) if isinstance(query, str) else query
        if bundle.custom_embedding_strs not in (None, [bundle.query_str]):
            rule = "a corpus embeds the question itself: pass what is to be searched as query_str"
            raise ArgumentError("custom_embedding_strs", bundle.custom_embedding_strs, rule)
        try:
            text, session = question_of(bundle), self.session()
            if session is None:
                return self.corpus.retrieve(text, principal=self.caller.principal, **self._asked)
            return session.retrieve(text, **self._asked)
        except PrincipalRequired as error:
            rule = "in LlamaIndex say it with acting_as(Principal(...)), or principal= of the retriever"
            raise PrincipalRequired(f"{error}; {rule}") from error

    @property
    def caller(self) -> Caller:
        """Who asks now, and in which thread."""
        return self._caller.now()

    def session(self, thread_id: str | None = None) -> Session | None:
        """The caller's thread of that name, or the one that asks now; `None` if there is none."""
        name = thread_id or self.caller.thread_id
        if name is None:
            return None
        return self.corpus.session(name, principal=self.caller.principal, **self._session)

    def nodes(self, hits: Sequence[Hit]) -> list[NodeWithScore]:
        """The nodes of hits, as `retrieve` returns them."""
        records = [hit.record for hit in hits]
        nodes = list(map(node_of, records)) if self._rows is None else self._rows.nodes(records)
        return [context_node(node, hit, hit.score) for node, hit in zip(nodes, hits, strict=True)]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        scored = self.nodes(self.result(query_bundle).hits)
        if self._tokens is None:
            return scored
        kept, _ = within(scored, self._tokens, host_tokens, reader=self._reader)
        return kept

    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        # Embedding and search hold the processor; the loop must go on meanwhile.
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _options(given: Mapping[str, Any] | None, embed_model: Any) -> Any:
    options = dict(given or {})
    if embed_model is not None:
        if options.get("embedder") not in (None, embed_model):
            raise ArgumentError("embed_model", embed_model, "options name another embedder")
        options["embedder"] = embed_model
    return options
