"""Summaries made behind the caller's back: when, how often, and what a failure costs (nothing)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctxarith.conversation import Message, Summary
from ctxarith.durable import Conversations
from ctxarith.errors import StoreError
from ctxarith.memory.options import Settings
from ctxarith.memory.view import View
from ctxarith.memory.worker import Worker

_MOST_PATIENCE = 6


@dataclass(frozen=True, slots=True)
class Status:
    """How the summary is doing.

    Args:
        turns: the number of the last turn.
        covers: the last turn that the summary covers.
        summaries: how many this handle has made.
        failures: how often the summariser has failed this handle.
        error: what the last failure was, "" after a success.
    """

    turns: int
    covers: int
    summaries: int
    failures: int
    error: str


class Behind:
    """One summary at a time for a thread, over all handles and processes; no lock is held meanwhile.

    A summary takes the place of exactly the one that it was made from. So what comes late, after a
    restart, from two processes or after a `clear` changes nothing.

    Args:
        store, settings: of the thread.
        view: what the handle sees; used under `lock` only.
        lock: the handle's.
    """

    def __init__(
        self, store: Conversations, settings: Settings, *, view: View, lock: threading.RLock
    ) -> None:
        self._store = store
        self._settings = settings
        self._view = view
        self._lock = lock
        self._worker = Worker(self._job, f"ctxarith-memory-{settings.key.thread}")
        self._closed = False
        self._forced = False
        self._patience = 0
        self._status = Status(0, 0, 0, 0, "")
        self._outgrown = 0
        self.reset()

    @property
    def status(self) -> Status:
        """How the summary is doing."""
        return replace(self._status, turns=self._view.head.last, covers=self._view.stored.covers)

    def reset(self) -> None:
        """Begin again with a thread that was cleared."""
        self._outgrown = self._view.verbatim

    def look(self) -> None:
        """Begin a summary if the turns have outgrown their room; returns at once."""
        if self._view.tail_cost > self._outgrown:
            self._worker.wake()

    def force(self) -> None:
        """Begin a summary of all that may be summarised; returns at once."""
        self._forced = True
        self._worker.wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs."""
        return self._worker.wait(timeout)

    def stop(self) -> None:
        """Take no more summaries. What a model is still writing is given up; the rules are waited for."""
        with self._lock:
            self._closed = True
        if self._settings.calls.summarizer is None:
            self._worker.wait()

    def _job(self) -> None:
        """The worker's job: one summary after the other until no turn waits."""
        forced, self._forced = self._forced, False
        try:
            claim = self._store.claim(self._settings.key)
            if not claim.take():
                # What the other leaves is taken at the next occasion.
                with self._lock:
                    self._status = replace(self._status, error="another process or handle is summarising")
                return
            try:
                while self._next_summary(forced):
                    pass
            finally:
                claim.release()
        except StoreError as error:
            # A full disk, or a handle that was closed meanwhile; the turns are where they were.
            self._failed(error)

    def _next_summary(self, forced: bool) -> bool:
        with self._lock:
            if self._closed:
                return False
            self._view.sync()
            generation, previous = self._view.head.generation, self._view.stored
            turns = self._view.backlog(everything=forced)
            if not turns:
                self._outgrown = max(self._view.verbatim, self._view.tail_cost + self._view.verbatim // 4)
                return False
        try:
            made = self._attempted(previous, turns)
        except Exception as error:
            self._failed(error)
            return False
        with self._lock:
            if self._closed or not self._store.replace(generation, made, covered=previous.covers):
                # Cleared, or summarised by another; the next look says what is left.
                return not self._closed
            self._patience = 0
            self._status = replace(self._status, summaries=self._status.summaries + 1, error="")
            self._view.sync()
            self._outgrown = self._view.verbatim
        return True

    def _attempted(self, previous: Summary, turns: Sequence[Message]) -> Summary:
        for _ in range(self._settings.retries):
            try:
                return self._settings.calls.summary(previous, turns)
            except TimeoutError:
                # It would only hang once more.
                raise
            except Exception as error:
                self._count_failure(error)
        return self._settings.calls.summary(previous, turns)

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self._count_failure(error)
            # The worse it goes, the more turns pass before it is asked again.
            self._patience = min(self._patience + 1, _MOST_PATIENCE)
            self._outgrown = self._view.tail_cost + max(1, self._view.verbatim // 4) * 2**self._patience

    def _count_failure(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        with self._lock:
            self._status = replace(self._status, failures=self._status.failures + 1, error=text)
