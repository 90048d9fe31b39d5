"""How a document becomes nodes unless the caller says otherwise."""

from __future__ import annotations

from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import BaseNode

# Small enough that a handful of chunks is a few hundred tokens.
CHUNK_TOKENS = 256


def splitter() -> SentenceSplitter:
    """Chunks of 256 tokens, named after their document and place."""
    return SentenceSplitter(chunk_size=CHUNK_TOKENS, chunk_overlap=0, id_func=chunk_id)


def chunk_id(place: int, document: BaseNode) -> str:
    """The id of a document's chunk: the same text gets the same ids again."""
    return f"{document.node_id}#{place}"
