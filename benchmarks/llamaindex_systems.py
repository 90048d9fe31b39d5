"""LlamaIndex's retrievers over a world, and ours: what `llamaindex_peers.py` asks.

The peers are set up with care: cosine space, the customer in `MetadataFilters` for Chroma and for BM25,
reciprocal rank fusion without generated questions, no metadata in the texts. What has no date gets one long
ago, since LlamaIndex's recency postprocessors refuse nodes without.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import chromadb
from chromadb.config import Settings
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from peer_world import Question, Text, UnitVectors, World
from pydantic import PrivateAttr

from ctxarith import Corpus, Principal
from llamaindex_ctxarith import CtxArithRetriever, acting_as

LONG_AGO = "1970-01-01"

Ask = Callable[[Question], Sequence[NodeWithScore]]


class Vectors(BaseEmbedding):
    """The same model for every system."""

    _model: UnitVectors = PrivateAttr()

    def __init__(self, model: UnitVectors) -> None:
        super().__init__(model_name=model.name, embed_batch_size=256)
        self._model = model

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._model.of_query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._model.of_query(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._model.of_texts([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._model.of_texts(texts)


class Peers:
    """What LlamaIndex offers, over the same nodes."""

    def __init__(self, data: World, vectors: Vectors, folder: Path, k: int) -> None:
        from llama_index.vector_stores.chroma import ChromaVectorStore

        self._data = data
        self._k = k
        self._nodes = {text.id: as_node(text, data) for text in data.texts}
        client = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
        collection = client.create_collection(
            "world", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )
        stored = StorageContext.from_defaults(vector_store=ChromaVectorStore(chroma_collection=collection))
        nodes = list(self._nodes.values())
        self._index = VectorStoreIndex(nodes, storage_context=stored, embed_model=vectors)

    def dense(self) -> dict[str, BaseRetriever]:
        """Chroma alone, filtered; one retriever for each customer."""
        return {tenant: self._vector(self._k, wanted(tenant)) for tenant in self._data.tenants}

    def fusion(
        self, depth: int, keep: int, *, apart: bool = False, current: bool = False
    ) -> dict[str, BaseRetriever]:
        """BM25 and Chroma fused. `apart`: an index for each customer instead of `filters=`."""
        from llama_index.retrievers.bm25 import BM25Retriever

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets itself to DEBUG
        made: dict[str, BaseRetriever] = {}
        for tenant in self._data.tenants:
            filters = wanted(tenant, current=current)
            own = [self._nodes[text.id] for text in self._data.texts if text.tenant == tenant]
            if current:
                own = [node for node in own if node.id_ not in self._data.superseded]
            nodes = own if apart else list(self._nodes.values())
            lexical = BM25Retriever(nodes=nodes, similarity_top_k=depth, filters=None if apart else filters)
            made[tenant] = QueryFusionRetriever(
                [lexical, self._vector(depth, filters)],
                llm=MockLLM(),
                mode="reciprocal_rerank",
                num_queries=1,
                similarity_top_k=keep,
                use_async=False,
            )
        return made

    def _vector(self, depth: int, filters: MetadataFilters) -> BaseRetriever:
        return self._index.as_retriever(similarity_top_k=depth, filters=filters)


def wanted(tenant: str, *, current: bool = False) -> MetadataFilters:
    """The customer's nodes; with `current` without those that someone has marked as superseded."""
    filters: list[Any] = [MetadataFilter(key="tenant", value=tenant)]
    if current:
        filters.append(MetadataFilter(key="superseded", value=0))
    return MetadataFilters(filters=filters)


def as_node(text: Text, data: World) -> TextNode:
    """A text with the metadata that the peers filter and sort by, none of which is embedded or shown."""
    told = {
        "tenant": text.tenant,
        "superseded": int(text.id in data.superseded),
        "created": text.created or LONG_AGO,
    }
    return _node(text, told)


def as_our_node(text: Text) -> TextNode:
    """A text with the headers as they stand: which it supersedes, and when it was made."""
    told: dict[str, Any] = {"tenant": text.tenant}
    if text.created is not None:
        told["created_at"] = text.created
    if text.supersedes:
        told["supersedes"] = list(text.supersedes)
    return _node(text, told)


def _node(text: Text, told: dict[str, Any]) -> TextNode:
    hidden = list(told)
    return TextNode(
        id_=text.id,
        text=text.text,
        metadata=told,
        excluded_embed_metadata_keys=hidden,
        excluded_llm_metadata_keys=hidden,
    )


def through(retrievers: dict[str, BaseRetriever], *steps: Any) -> Ask:
    """The customer's retriever, then postprocessors, as a query engine runs them."""

    def ask(question: Question) -> Sequence[NodeWithScore]:
        bundle = QueryBundle(question.text)
        nodes = retrievers[question.tenant].retrieve(bundle)
        for step in steps:
            nodes = step.postprocess_nodes(nodes, query_bundle=bundle)
        return nodes

    return ask


def as_asker(corpus: Corpus, **options: Any) -> Ask:
    """Ours: one retriever for everybody, asked as the customer."""
    retriever = CtxArithRetriever(corpus, **options)

    def ask(question: Question) -> Sequence[NodeWithScore]:
        with acting_as(Principal(question.tenant)):
            return retriever.retrieve(question.text)

    return ask
