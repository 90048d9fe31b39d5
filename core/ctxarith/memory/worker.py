"""Work behind the caller's back: one job at a time, and none is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress


class Worker:
    """Runs a job in a thread of its own whenever it was asked for; the thread ends when nothing is.

    Single flight: a request during a job makes the job run once more after it, however many requests
    there were. It needs no event loop, so that it dies with none.
    """

    def __init__(self, job: Callable[[], None], name: str) -> None:
        self._job = job
        self._name = name
        self._lock = threading.Condition()
        self._running = False
        self._again = False

    def wake(self) -> None:
        """Ask for the job; returns at once."""
        with self._lock:
            if self._running:
                self._again = True
                return
            self._running = True
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is asked for; whether that was within `timeout` seconds."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._running, timeout)

    def _run(self) -> None:
        more = True
        while more:
            # The job reports its failures itself; the thread must outlive them to hand the turn on.
            with suppress(Exception):
                self._job()
            with self._lock:
                more = self._running = self._again
                self._again = False
                if not more:
                    self._lock.notify_all()
