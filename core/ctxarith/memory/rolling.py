"""The handle: append what is said, take the window, recall the rest."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, Unpack

from ctxarith.conversation import SYSTEM, Content, Message, Summary
from ctxarith.errors import ArgumentError, BudgetError, CorpusClosed
from ctxarith.memory.behind import Behind, Status
from ctxarith.memory.options import Details, MemoryOptions, Settings, opened, summary_share, whole_number
from ctxarith.memory.recall import Recall, Recalled
from ctxarith.memory.view import View
from ctxarith.memory.window import LEAST, Limits, Window, window
from ctxarith.normalise import clean_text
from ctxarith.ports import Summarizer


class RollingMemory:
    """The last turns of a thread word for word and the rest as a structured summary, within a token budget.

    The window never has more than `max_tokens`, counted on its text. The summary is made behind; what it
    does not cover yet is digested at once by rule, so that the window is right at every moment. Raw turns
    are never changed or lost. Use it from any number of threads, and one thread from any number of processes.

    Args:
        thread_id: names the conversation within its tenant and user.
        max_tokens: the bound of the window, 48 or more.
        keep_recent: how many of the last turns are shown word for word as long as they fit.
        summarizer: see `Summarizer`; the extractive one by default, which needs no model.
        path: the folder to keep the conversation in, such as that of a corpus; in memory alone by default.
        **options: see `MemoryOptions`.

    Raises:
        ArgumentError: names the option.
        StoreError: the folder cannot be used.

    >>> with RollingMemory(thread_id="t-1", max_tokens=200) as memory:
    ...     _ = memory.append("user", "Let's set the delivery date to May 9.")
    ...     memory.window().text
    "user: Let's set the delivery date to May 9."
    """

    def __init__(
        self,
        *,
        thread_id: str,
        max_tokens: int = 2_000,
        keep_recent: int = 6,
        summarizer: Summarizer | None = None,
        path: str | Path | None = None,
        **options: Unpack[MemoryOptions],
    ) -> None:
        self._settings = made = Settings.of(thread_id, max_tokens, keep_recent, summarizer, options)
        self._lock = threading.RLock()
        self._closed = False
        self._store, self._owned = opened(path, options.get("store"))
        self._view = View(self._store, made.key, limits=made.limits, calls=made.calls)
        self._recall = Recall(
            self._store, made.key, made.calls.extract, clock=made.clock, embedder=made.embedder
        )
        self._view.sync()
        self._behind = Behind(self._store, made, view=self._view, lock=self._lock)
        with self._lock:
            self._behind.look()

    def append(self, role: str, content: Content = "", **details: Unpack[Details]) -> Message:
        """Add a message at the end and give it back with its number. It does not wait for any summary.

        Args:
            role: "system", "user", "assistant" or "tool".
            content: text, or blocks of it.
            **details: `time` (now by default), `tool_calls`, `answers`, `id`, `slots` and `native`; see
                `Message`.

        Raises:
            ArgumentError: names the parameter.
            BudgetError: the system messages would leave no room for a message; nothing was appended.
        """
        given = {name: value for name, value in details.items() if value is not None}
        if unknown := sorted(set(given) - set(Details.__annotations__)):
            raise ArgumentError("details", unknown, f"known are {', '.join(Details.__annotations__)}")
        message = Message(role, content, **{"time": self._settings.clock(), **given})  # type: ignore[arg-type]
        with self._open():
            if role == SYSTEM:
                self._view.sync()
                self._check_room(message)
            added = self._store.append(self._settings.key, message)
            self._view.sync()
            self._behind.look()
            return added

    def window(self, max_tokens: int | None = None) -> Window:
        """What the model should see now; `max_tokens` may only lower the bound.

        Raises:
            BudgetError: the system messages alone leave no room.
            ArgumentError: `max_tokens` is no number.
        """
        limits = self._settings.limits
        if max_tokens is not None:
            bound = min(limits.max_tokens, whole_number("max_tokens", max_tokens))
            # A share that was asked for shrinks with the window; the default one has its own rule.
            share = max(summary_share(bound), limits.summary_tokens * bound // limits.max_tokens)
            limits = Limits(bound, min(limits.summary_tokens, share), limits.keep_recent)
        with self._open():
            self._view.sync()
            self._behind.look()
            return window(self._view.thread(), limits, self._view.costs)

    def recall(self, query: str, *, top: int = 5) -> tuple[Recalled, ...]:
        """The raw turns that answer a question, best first, whether or not the window still has them.

        A turn whose facts a later turn asserts anew stands below that one, and says so.
        """
        if not isinstance(query, str):
            raise ArgumentError("query", query, "the question as text")
        whole_number("top", top, least=1)
        with self._open():
            pass
        # Not under the lock: the first question of a long thread takes seconds, and appending goes on.
        return self._recall(clean_text(None, "query", query), top=top, count=self._settings.calls.count)

    @property
    def turns(self) -> tuple[Message, ...]:
        """Every message as it was appended, oldest first, summarised or not."""
        with self._open():
            self._view.sync()
            generation = self._view.head.generation
            return tuple(self._store.since(generation, 0)) if generation else ()

    @property
    def summary(self) -> Summary:
        """The summary that is kept; the window's may know more."""
        with self._open():
            self._view.sync()
            return self._view.stored

    @property
    def status(self) -> Status:
        """How far the summary has come, and whether its maker fails."""
        with self._open():
            self._view.sync()
            return self._behind.status

    def flush(self, timeout: float | None = None) -> bool:
        """Summarise all but the last `keep_recent` turns now, and wait for it.

        Returns whether nothing is left to summarise; if not, `status.error` says why, and nothing is lost.
        """
        with self._open():
            self._behind.force()
        self._behind.wait(timeout)
        with self._open():
            self._view.sync()
            return not self._view.backlog(everything=True)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no summary is being made; unlike `flush` it asks for none."""
        return self._behind.wait(timeout)

    def clear(self) -> None:
        """Delete the thread: turns, summary and index. Nothing of its text stays in the folder.

        Raises:
            StoreError: another process was reading, so that traces are left: clear again.
        """
        with self._open():
            self._store.clear(self._settings.key)
            self._recall.close()
            self._view.sync()
            self._behind.reset()

    def close(self) -> None:
        """Release the files. What a model is still summarising is given up, and done after reopening."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._behind.stop()
        self._recall.close()
        if self._owned:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise CorpusClosed("this memory was closed: make another with the same thread_id and path")
            yield

    def _check_room(self, message: Message) -> None:
        costs, bound = self._view.costs, self._settings.limits.max_tokens
        needed = costs.all(self._view.system) + costs.fresh(message) + LEAST
        if needed > bound:
            raise BudgetError(needed, bound)
