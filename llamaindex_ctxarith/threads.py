"""The conversation of one session behind a memory block: what was put, stored or still waiting."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from ctxarith.conversation import SYSTEM, USER, Message
from ctxarith.errors import BudgetError
from ctxarith.memory.options import Details
from ctxarith.memory.rolling import RollingMemory
from ctxarith.memory.script import message_line
from ctxarith.ports import TokenCounter, counted
from llamaindex_ctxarith.remembered import Remembered, remembered

log = logging.getLogger(__name__)

# One message, whoever wrote it down: its role, its words, its calls and what it answers.
Likeness = tuple[object, ...]


class Conversation:
    """A `RollingMemory` that loses nothing while it cannot be written. Use it from any number of threads.

    Args:
        opened: opens the memory; called again after it failed.
        count: tokens of a text.
    """

    def __init__(self, opened: Callable[[], RollingMemory], count: TokenCounter) -> None:
        self._opened = opened
        self._count = count
        self._memory: RollingMemory | None = None
        self._known: list[Likeness] = []
        self._waiting: list[Message] = []
        self._lock = threading.RLock()

    @property
    def memory(self) -> RollingMemory:
        """The memory itself: `recall`, `summary`, `flush`, `clear`.

        Raises:
            StoreError: it cannot be opened.
        """
        with self._lock:
            if self._memory is None:
                self._memory = self._opened()
            return self._memory

    @property
    def pending(self) -> tuple[Message, ...]:
        """What was put and is not stored yet."""
        with self._lock:
            return tuple(self._waiting)

    def put(self, messages: Sequence[Message]) -> None:
        """Append messages. What cannot be stored waits, in order, and is tried again at the next put.

        A batch that begins with what the thread ends with repeats it, and is not appended twice.
        """
        with self._lock:
            self._waiting += _fresh([*self._known, *map(_likeness, self._waiting)], messages)
            try:
                self._store()
            except Exception as error:  # whatever it was, the messages are kept
                log.warning(
                    "%d messages are pending, tried again at the next put: %s", len(self._waiting), error
                )

    def shown(self, limit: int) -> Remembered:
        """The summary, the last turns and what is pending, within `limit` tokens."""
        waiting = self.pending
        room = sum(counted(self._count, message_line(one) + "\n") for one in waiting)
        try:
            # A bound of its own would give the summary less than its share.
            window = self.memory.window(limit - min(room, limit // 2) if waiting else None)
        except Exception as error:  # a chat must not end because its past cannot be read
            log.warning("the conversation cannot be read: %s", error)
            window = None
        return remembered(window, waiting, limit, count=self._count)

    def clear(self) -> None:
        """Forget everything.

        Raises:
            StoreError: it cannot be cleared.
        """
        with self._lock:
            self.memory.clear()
            self._known, self._waiting = [], []

    def close(self) -> None:
        """Release the files; the next use opens them again."""
        with self._lock:
            memory, self._memory = self._memory, None
            if memory is not None:
                memory.close()

    def _store(self) -> None:
        memory = self.memory
        if memory.status.turns != len(self._known):
            # New to this handle, or written by another process meanwhile.
            self._known = list(map(_likeness, memory.turns))
            self._waiting = _fresh(self._known, self._waiting)
        while self._waiting:
            message = self._waiting[0]
            try:
                added = _append(memory, message)
            except BudgetError:
                # A system message that leaves no room for a turn is kept as one.
                added = _append(memory, replace(message, role=USER, content=f"{SYSTEM}: {message.content}"))
            self._waiting.pop(0)
            if added.number > len(self._known):
                self._known.append(_likeness(message))


def _append(memory: RollingMemory, message: Message) -> Message:
    details: Details = {"tool_calls": message.tool_calls}
    if message.answers is not None:
        details["answers"] = message.answers
    if message.id is not None:
        details["id"] = message.id
    return memory.append(message.role, message.content, **details)


def _likeness(message: Message) -> Likeness:
    return (message.role, message.content, message.tool_calls, message.answers)


def _fresh(known: Sequence[Likeness], messages: Sequence[Message]) -> list[Message]:
    """The messages without those at their beginning that the known ones end with."""
    new = list(map(_likeness, messages))
    for size in range(min(len(known), len(new)), 0, -1):
        if known[-size:] == new[:size]:
            return list(messages[size:])
    return list(messages)
