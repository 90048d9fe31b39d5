"""A Chroma vector store as it should be made. Without `langchain_chroma` the import raises `MissingExtra`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ctxarith.errors import ArgumentError, MissingExtra
from ctxarith.models.embedders import WordLlamaEmbedder

if find_spec("langchain_chroma") is None:
    raise MissingExtra(what="chroma_vectorstore", package="langchain_chroma", extra="chroma")

from langchain_chroma import Chroma


def chroma_vectorstore(
    embedding: Any = None, *, path: str | Path | None = None, collection_name: str = "ctxarith", **more: Any
) -> Chroma:
    """A vector store that LangChain code fills and `CtxArithRetriever.from_vectorstore` adopts.

    Chroma's own default is the squared distance, whose relevance scores are negative; here it is the cosine.

    Args:
        embedding: any `Embeddings` of LangChain; an offline one by default.
        path: the folder; in memory by default.
        collection_name: of three or more letters, digits, "-" and "_".
        **more: what `Chroma` takes besides.

    Raises:
        ArgumentError: no embedding model.

    >>> store = chroma_vectorstore(collection_name="fees")
    >>> _ = store.add_texts(["The fee is 12 EUR", "The pump is red"])
    >>> store.similarity_search("what is the fee?", k=1)[0].page_content
    'The fee is 12 EUR'
    """
    model: Any = WordLlamaEmbedder() if embedding is None else embedding
    if not all(callable(getattr(model, name, None)) for name in ("embed_documents", "embed_query")):
        raise ArgumentError("embedding", embedding, "an Embeddings of LangChain")
    place = {} if path is None else {"persist_directory": str(path)}
    space = {"hnsw": {"space": "cosine"}}
    return Chroma(collection_name, model, **{"collection_configuration": space, **place, **more})
