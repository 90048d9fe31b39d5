"""Ledgers of threads: in a dict, or in a SQLite file that any number of processes write."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from ctxarith.errors import StoreError
from ctxarith.ledger import Ledger, ThreadKey

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ledger (
    tenant TEXT, user TEXT, thread TEXT, cited TEXT, bests TEXT, questions BLOB, dimension INTEGER,
    PRIMARY KEY (tenant, user, thread)
) WITHOUT ROWID
"""

T = TypeVar("T")
Change = Callable[[Ledger], Ledger]


class MemoryThreads:
    """Ledgers that are gone with the process."""

    def __init__(self) -> None:
        self._ledgers: dict[ThreadKey, Ledger] = {}
        self._lock = threading.Lock()

    def get(self, key: ThreadKey) -> Ledger:
        """The ledger of a thread; an empty one for a new thread."""
        return self._ledgers.get(key, Ledger())

    def change(self, key: ThreadKey, change: Change) -> Ledger:
        """Replace a ledger by what a function makes of it."""
        with self._lock:
            self._ledgers[key] = change(self.get(key))
            return self._ledgers[key]

    def clear(self, key: ThreadKey) -> None:
        """Forget a thread."""
        with self._lock:
            self._ledgers.pop(key, None)

    def close(self) -> None:
        """Nothing is held open."""


class SqliteThreads:
    """Ledgers in a file; each change is one transaction.

    Raises:
        StoreError: the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None

    def get(self, key: ThreadKey) -> Ledger:
        """The ledger of a thread; an empty one for a new thread."""
        return self._guarded(lambda database: _read(database, key))

    def change(self, key: ThreadKey, change: Change) -> Ledger:
        """Replace a ledger by what a function makes of it; other processes wait meanwhile."""

        def changed(database: sqlite3.Connection) -> Ledger:
            database.execute("BEGIN IMMEDIATE")
            try:
                ledger = change(_read(database, key))
                database.execute(
                    "INSERT OR REPLACE INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?)", _row(key, ledger)
                )
                database.execute("COMMIT")
                return ledger
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

        return self._guarded(changed)

    def clear(self, key: ThreadKey) -> None:
        """Forget a thread."""
        where = "tenant = ? AND user = ? AND thread = ?"
        values = (key.tenant, key.user, key.thread)
        self._guarded(lambda database: database.execute(f"DELETE FROM ledger WHERE {where}", values))

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _guarded(self, action: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                if self._database is None:
                    self._database = sqlite3.connect(
                        self._path, check_same_thread=False, isolation_level=None, timeout=30
                    )
                    self._database.execute("PRAGMA secure_delete = ON")
                    # A turn must not wait for the disk: what a power failure takes is a thread's last turns.
                    self._database.execute("PRAGMA journal_mode = WAL")
                    self._database.execute("PRAGMA synchronous = NORMAL")
                    self._database.execute(_SCHEMA)
                return action(self._database)
            except sqlite3.Error as error:
                raise StoreError(
                    f"{self._path!r} cannot be written; a damaged one may be deleted, which costs only what "
                    f"threads have cited: {error}"
                ) from error


def _read(database: sqlite3.Connection, key: ThreadKey) -> Ledger:
    where = "tenant = ? AND user = ? AND thread = ?"
    found = database.execute(
        f"SELECT cited, bests, questions, dimension FROM ledger WHERE {where}",
        (key.tenant, key.user, key.thread),
    ).fetchone()
    if found is None:
        return Ledger()
    cited, bests, questions, dimension = found
    vectors = np.frombuffer(questions, np.float32).reshape(-1, dimension) if dimension else ()
    return Ledger(tuple(json.loads(cited)), tuple(vectors), tuple(json.loads(bests)))


def _row(key: ThreadKey, ledger: Ledger) -> tuple[object, ...]:
    dimension = len(ledger.questions[0]) if ledger.questions else 0
    questions = b"".join(np.asarray(vector, np.float32).tobytes() for vector in ledger.questions)
    return (
        *(key.tenant, key.user, key.thread),
        *(json.dumps(ledger.cited), json.dumps(ledger.bests)),
        *(questions, dimension),
    )
