"""Who asks, and in which thread: read from trusted configuration alone, in every style of call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from ctxarith.errors import ArgumentError
from ctxarith.policy import Principal

Caller = Principal | Callable[[RunnableConfig], Principal | None] | None

KEY = "principal"


def principal_of(config: RunnableConfig, default: Caller) -> Principal | None:
    """The caller of one request.

    `configurable["principal"]` or the `principal` of LangGraph's runtime context, else the default; a
    default that is a function of the config alone decides. Queries, messages, tool arguments and run
    metadata are never looked at, and only a `Principal` counts: text or JSON, which a client
    could have sent, is refused.

    Raises:
        ArgumentError: something else than a `Principal` stands there, or two that differ.
    """
    if callable(default):
        return checked_principal("principal(config)", default(config))
    asked = checked_principal(f"configurable[{KEY!r}]", (config.get("configurable") or {}).get(KEY))
    context = checked_principal(f"context.{KEY}", _principal_in(_runtime_context()))
    if asked is not None and context is not None and asked != context:
        raise ArgumentError(KEY, asked, "configurable and runtime context name different callers: name one")
    return asked or context or default


def thread_of(config: RunnableConfig, metadata: Mapping[str, Any] | None, key: str | None) -> str | None:
    """The thread of one request; `None` where nobody names one.

    `metadata` is that of the run: it survives where a chain passes on its callbacks alone.
    """
    if key is None:
        return None
    named = (config.get("configurable") or {}).get(key)
    if named is None:
        named = (metadata or {}).get(key)
    return None if named is None else str(named)


def checked_principal(place: str, given: object) -> Principal | None:
    """A `Principal` or nobody.

    Raises:
        ArgumentError: it is something else.
    """
    if given is None or isinstance(given, Principal):
        return given
    rule = "a Principal made by your own code; text or JSON, which a client could send, is not read"
    raise ArgumentError(place, given, rule)


def _runtime_context() -> object:
    # Whoever runs inside LangGraph has loaded it; nobody else shall pay for its import.
    runtime = sys.modules.get("langgraph.runtime")
    try:
        return None if runtime is None else runtime.get_runtime().context
    except (RuntimeError, KeyError, AttributeError):  # not inside a graph
        return None


def _principal_in(context: object) -> object:
    if isinstance(context, Principal):
        return context
    return context.get(KEY) if isinstance(context, Mapping) else getattr(context, KEY, None)
