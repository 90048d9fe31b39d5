"""ctxarith for LangChain. Without `langchain_core` the import raises `MissingExtra`.

What needs more is imported when it is asked for: `CtxArithMiddleware` (`langchain`), `chroma_vectorstore`
(`langchain_chroma`) and `CtxArithConversationMemory` (`langchain_classic`).
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ctxarith.errors import MissingExtra

if find_spec("langchain_core") is None:
    raise MissingExtra(what="LangChain adapter", package="langchain_core", extra="langchain")

from langchain_ctxarith.history import ChatHistories, CtxArithChatMessageHistory
from langchain_ctxarith.index import CtxArithIndex
from langchain_ctxarith.models import chat_slots, chat_summarizer
from langchain_ctxarith.rerank import CtxArithReranker
from langchain_ctxarith.retriever import CtxArithRetriever
from langchain_ctxarith.store import StoreConversations
from langchain_ctxarith.tool import as_agent_tool

if TYPE_CHECKING:
    from langchain_ctxarith.chroma import chroma_vectorstore as chroma_vectorstore
    from langchain_ctxarith.classic import CtxArithConversationMemory as CtxArithConversationMemory
    from langchain_ctxarith.middleware import CtxArithMiddleware as CtxArithMiddleware

__all__ = [
    "ChatHistories",
    "CtxArithChatMessageHistory",
    "CtxArithIndex",
    "CtxArithReranker",
    "CtxArithRetriever",
    "StoreConversations",
    "as_agent_tool",
    "chat_slots",
    "chat_summarizer",
]

_WHEN_ASKED = {
    "CtxArithConversationMemory": "langchain_ctxarith.classic",
    "CtxArithMiddleware": "langchain_ctxarith.middleware",
    "chroma_vectorstore": "langchain_ctxarith.chroma",
}


def __getattr__(name: str) -> Any:
    place = _WHEN_ASKED.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(place), name)
