"""History within its budget: what the model reads of earlier turns; the thread's own messages stay whole."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from ctxarith.instant import instant
from ctxarith.memory.options import SMALLEST, MemoryOptions, Settings
from ctxarith.memory.rolling import RollingMemory
from ctxarith.memory.script import page
from ctxarith.ports import Summarizer, counted
from langchain_ctxarith.evidence import AT, KEY
from langchain_ctxarith.messages import as_turn, is_summary
from langchain_ctxarith.placing import SUMMARY
from langchain_ctxarith.spoken import window_messages

# The threads whose summaries a process remembers; another one is summarised anew from its messages.
CAPACITY = 256
# Where integrations keep what a model thinks before it answers.
_THOUGHT = "reasoning_content"
# What else they keep beside a message is a name or a flag.
_SHORT = 200

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compacted:
    """Earlier turns as the model reads them.

    Args:
        told: the summary, and after it what stands before the first message of the user, as one text.
        shown: messages word for word; the first that is not a system message is the user's.
    """

    told: str
    shown: list[BaseMessage]


@dataclass(slots=True)
class _Thread:
    """A memory, and the prints of the messages that it was given."""

    memory: RollingMemory
    prints: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Histories:
    """The memories of many threads, each made of its messages and kept up as they grow.

    A thread that is not the longer form of what was known (a fork, an edit, something withdrawn) is read
    anew, so that nothing of what is no longer among its messages is left in its summary.

    Args:
        max_tokens, keep_recent, summarizer: see `RollingMemory`.
        **options: see `MemoryOptions`.
    """

    def __init__(
        self, *, max_tokens: int, keep_recent: int, summarizer: Summarizer | None, **options: Any
    ) -> None:
        # Refuses wrong settings at once, and opens nothing.
        made = Settings.of("request", max_tokens, keep_recent, summarizer, cast(MemoryOptions, options))
        # The heading of the summary stands in the request too.
        self._bound = max(max_tokens - counted(made.calls.count, f"{SUMMARY}\n"), SMALLEST)
        self._made: dict[str, Any] = {
            "max_tokens": max_tokens,
            "keep_recent": keep_recent,
            "summarizer": summarizer,
            **options,
        }
        self._threads: OrderedDict[Key, _Thread] = OrderedDict()
        self._lock = threading.Lock()

    def compacted(self, key: Key | None, messages: Sequence[BaseMessage]) -> Compacted:
        """Earlier turns within the budget; without a key nothing is remembered of them.

        System messages are the program's own: they stand first, as they are, and count for nothing.
        """
        system: list[BaseMessage] = [one for one in messages if isinstance(one, SystemMessage)]
        said = [_light(one) for one in messages if not isinstance(one, SystemMessage)]
        if not said:
            return Compacted("", system)
        thread = self._thread(key)
        with thread.lock:
            self._keep_up(thread, said)
            shown = window_messages(thread.memory.window(self._bound), said, ended=True)
            if key is None:
                thread.memory.close()
        made = _laid_out(shown)
        return replace(made, shown=[*system, *made.shown])

    def close(self) -> None:
        """Release all memories; what a model is still summarising is given up."""
        with self._lock:
            while self._threads:
                self._threads.popitem()[1].memory.close()

    def _keep_up(self, thread: _Thread, messages: Sequence[BaseMessage]) -> None:
        prints = [_print(message) for message in messages]
        known = len(thread.prints)
        if prints[:known] != thread.prints:
            thread.memory.close()
            thread.memory, known = self._memory(), 0
        fresh = messages[known:]
        for message, time in zip(fresh, _times(fresh), strict=True):
            turn = as_turn(message, keep=False)
            told: Any = {"tool_calls": turn.tool_calls, "answers": turn.answers, "time": time}
            thread.memory.append(turn.role, turn.content, **told)
            if self._made["summarizer"] is None:
                # By rule it takes a moment, and the same turns then always give the same request.
                thread.memory.wait()
        thread.prints = prints

    def _thread(self, key: Key | None) -> _Thread:
        if key is None:
            return _Thread(self._memory())
        with self._lock:
            thread = self._threads.pop(key, None) or _Thread(self._memory())
            self._threads[key] = thread
            while len(self._threads) > CAPACITY:
                # Not closed here: a request of that thread may be in the middle of it.
                self._threads.popitem(last=False)
            return thread

    def _memory(self) -> RollingMemory:
        return RollingMemory(thread_id="request", **self._made)


def _laid_out(shown: Sequence[BaseMessage]) -> Compacted:
    """Providers want the user to speak first, so what stands before that goes to the summary."""
    summary = "\n".join(one.text for one in shown if is_summary(one))
    spoken = [one for one in shown if not is_summary(one)]
    first = next((n for n, one in enumerate(spoken) if isinstance(one, HumanMessage)), len(spoken))
    told = page((), summary, [as_turn(one, keep=False) for one in spoken[:first]])
    return Compacted(told, spoken[first:])


def _light(message: BaseMessage) -> BaseMessage:
    """A message without what its model thought then: no provider wants that back, and nothing counts it."""
    kept = {name: told for name, told in message.additional_kwargs.items() if len(str(told)) <= _SHORT}
    kept.pop(_THOUGHT, None)
    return (
        message.model_copy(update={"additional_kwargs": kept})
        if kept != message.additional_kwargs
        else message
    )


def _times(messages: Sequence[BaseMessage]) -> list[datetime | None]:
    """When each was said: the time of the next answer that notes one; `None`, which is now, without any."""
    times: list[datetime | None] = []
    time = None
    for message in reversed(messages):
        note = message.response_metadata.get(KEY) if isinstance(message, AIMessage) else None
        with suppress(ValueError, TypeError):
            time = instant(note[AT]) if isinstance(note, Mapping) and AT in note else time
        times.append(time)
    return times[::-1]


def _print(message: BaseMessage) -> int:
    """Tells messages of one process apart by all that a model or a summary reads of them."""
    calls = (getattr(message, "tool_calls", ()), getattr(message, "invalid_tool_calls", ()))
    told = (message.content, calls, message.additional_kwargs, message.name)
    return hash((message.type, message.id, getattr(message, "tool_call_id", ""), *map(str, told)))
