"""ctxarith for LlamaIndex. Without `llama_index.core` the import raises `MissingExtra`."""

from __future__ import annotations

from importlib.util import find_spec

from ctxarith.errors import MissingExtra

# `llama_index` is a namespace package: another distribution can bring it without its core.
if find_spec("llama_index") is None or find_spec("llama_index.core") is None:
    raise MissingExtra(what="LlamaIndex adapter", package="llama_index.core", extra="llamaindex")

from llamaindex_ctxarith.caller import acting_as
from llamaindex_ctxarith.citation_ledger import CitationLedger
from llamaindex_ctxarith.evidence_packet import EvidencePacket, NodePacket
from llamaindex_ctxarith.filters import predicate_of
from llamaindex_ctxarith.ingestion import EntityCounter, SlotExtractor, TokenCounter
from llamaindex_ctxarith.llm import llm_slots
from llamaindex_ctxarith.memory import CtxArithMemory, build_memory
from llamaindex_ctxarith.memory_block import CtxArithMemoryBlock, llm_summarizer
from llamaindex_ctxarith.nodes import ContextNode, NodeReader
from llamaindex_ctxarith.policy_gate import PolicyGate
from llamaindex_ctxarith.postprocessors import (
    Bm25Fusion,
    CompositeRank,
    CrossEncoderRerank,
    Supersession,
    TokenBudget,
    ctxarith_postprocessors,
)
from llamaindex_ctxarith.query_engine import VerifiedQueryEngine, VerifiedResponse
from llamaindex_ctxarith.retriever import CtxArithRetriever

__all__ = [
    "Bm25Fusion",
    "CitationLedger",
    "CompositeRank",
    "ContextNode",
    "CrossEncoderRerank",
    "CtxArithMemory",
    "CtxArithMemoryBlock",
    "CtxArithRetriever",
    "EntityCounter",
    "EvidencePacket",
    "NodePacket",
    "NodeReader",
    "PolicyGate",
    "SlotExtractor",
    "Supersession",
    "TokenBudget",
    "TokenCounter",
    "VerifiedQueryEngine",
    "VerifiedResponse",
    "acting_as",
    "build_memory",
    "ctxarith_postprocessors",
    "llm_slots",
    "llm_summarizer",
    "predicate_of",
]
