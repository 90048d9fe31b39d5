"""ctxarith for LangChain. Without `langchain_core` the import raises `MissingExtra`."""

from __future__ import annotations

from importlib.util import find_spec

from ctxarith.errors import MissingExtra

if find_spec("langchain_core") is None:
    raise MissingExtra(what="LangChain adapter", package="langchain_core", extra="langchain")

__all__: list[str] = []
