"""One writing process for a folder."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from ctxarith.errors import StoreError


class WriterLock:
    """Taken at the first write, kept until the corpus is closed; freed by the system when a process dies."""

    def __init__(self, path: str | Path) -> None:
        from filelock import FileLock

        # Threads of this process share it: they take turns elsewhere.
        self._lock = FileLock(path, timeout=0, thread_local=False)
        self._process = os.getpid()

    def take(self) -> bool:
        """Whether this process may write."""
        from filelock import Timeout

        if os.getpid() != self._process:
            raise StoreError("this corpus was opened before a fork: open it again in this process")
        try:
            if not self._lock.is_locked:
                self._lock.acquire()
        except Timeout:
            return False
        except (OSError, RuntimeError) as error:
            raise StoreError(f"the folder cannot be locked for writing: {error}") from error
        return True

    def release(self) -> None:
        """Let another process write."""
        if os.getpid() == self._process:
            self._lock.release()


class NoLock:
    """For a corpus that no other process can reach."""

    def take(self) -> bool:
        """Always."""
        return True

    def release(self) -> None:
        """Nothing to do."""


class OneAtATime:
    """For what no other process can reach: the right is one handle's at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether it was free."""
        return self._lock.acquire(blocking=False)

    def release(self) -> None:
        """Let another take it."""
        self._lock.release()
