"""Who asks, and in which thread: engines pass a retriever a bare string, so both travel beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from llama_index.core.schema import QueryBundle
from llama_index_instrumentation.dispatcher import active_instrument_tags, instrument_tags

from ctxarith.errors import ArgumentError
from ctxarith.policy import Principal

# How RetrieverTool writes its only argument into the question.
_FROM_TOOL = re.compile(r"\n?input is (.*)\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal and the name of a thread; either may be missing."""

    principal: Principal | None = None
    thread_id: str | None = None

    def __post_init__(self) -> None:
        if self.principal is not None and not isinstance(self.principal, Principal):
            raise ArgumentError("principal", self.principal, "a Principal")
        if self.thread_id is not None and (not isinstance(self.thread_id, str) or not self.thread_id):
            raise ArgumentError("thread_id", self.thread_id, "the name of a thread")

    def now(self) -> Caller:
        """This caller, overruled by what `acting_as` says of the request."""
        said = _CALLER.get()
        return Caller(said.principal or self.principal, said.thread_id or self.thread_id)


_NOBODY = Caller()
_CALLER: ContextVar[Caller] = ContextVar("ctxarith_caller", default=_NOBODY)


@contextmanager
def acting_as(principal: Principal | None = None, *, thread_id: str | None = None) -> Iterator[None]:
    """Within this block every retriever and postprocessor of ours works for this caller and thread.

    It overrules what their constructors were given; what is left out stays as it was outside. It holds
    in the tasks and threads that LlamaIndex starts meanwhile, and every event bears the thread's
    name as the tag `thread_id`. Consume a streamed answer within the block.

    Raises:
        ArgumentError: not a principal, or a blank name.

    >>> with acting_as(Principal("acme"), thread_id="t-1"):
    ...     Caller().now().thread_id
    't-1'
    """
    given, before = Caller(principal, thread_id), _CALLER.get()
    token = _CALLER.set(Caller(given.principal or before.principal, given.thread_id or before.thread_id))
    named = {} if thread_id is None else {"thread_id": thread_id}
    try:
        with instrument_tags({**active_instrument_tags.get(), **named}):
            yield
    finally:
        _CALLER.reset(token)


def question_of(query_bundle: QueryBundle | None) -> str:
    """The question as it was asked: a tool's wrapping is taken off; "" where there is none."""
    if query_bundle is None:
        return ""
    wrapped = _FROM_TOOL.fullmatch(query_bundle.query_str)
    return wrapped[1] if wrapped else query_bundle.query_str
