"""ctxarith for LangChain. Without `langchain_core` the import raises `MissingExtra`."""

from __future__ import annotations

from importlib.util import find_spec

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
