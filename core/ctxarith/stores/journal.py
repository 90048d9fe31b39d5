"""How a write is taken back, and what a corpus remembers about itself: one small SQLite file."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from ctxarith.errors import StoreError
from ctxarith.ports import Row, RowKey
from ctxarith.stores.flat import flatten, restore

_SCHEMA = """
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pending_key (tenant TEXT, id TEXT, version TEXT, revision INTEGER);
CREATE TABLE IF NOT EXISTS pending_row (flat TEXT, text TEXT, vector BLOB);
"""

T = TypeVar("T")


class SqliteJournal:
    """The journal of a corpus folder, or with no path of an in-memory corpus.

    Raises:
        StoreError: the file cannot be read or written.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._lock = threading.Lock()
        self._path = ":memory:" if path is None else str(path)
        self._database = self._guarded(
            lambda: sqlite3.connect(self._path, check_same_thread=False, isolation_level=None, timeout=30)
        )
        self._guarded(lambda: self._database.execute("PRAGMA secure_delete = ON"))
        self._guarded(lambda: self._database.executescript(_SCHEMA))
        self._version = 0
        self.changed_elsewhere()

    def intend(self, keys: Sequence[RowKey], before: Sequence[Row]) -> None:
        """Describe, in one transaction, how to take back the write that begins now."""
        rows = [
            (json.dumps(flatten(row.record, row.revision)), row.record.text, row.vector.tobytes())
            for row in before
        ]

        def insert() -> None:
            plain = [(key.tenant, key.id, key.version, key.revision) for key in keys]
            self._database.executemany("INSERT INTO pending_key VALUES (?, ?, ?, ?)", plain)
            self._database.executemany("INSERT INTO pending_row VALUES (?, ?, ?)", rows)

        self._transacted(insert)

    def pending(self) -> tuple[list[RowKey], list[Row]]:
        """The keys of a write that was begun and not settled, and the rows to put back."""
        keys = self._guarded(lambda: self._database.execute("SELECT * FROM pending_key").fetchall())
        stored = self._guarded(lambda: self._database.execute("SELECT * FROM pending_row").fetchall())
        rows = []
        for flat, text, vector in stored:
            record, revision = restore(json.loads(flat), text)
            rows.append(Row(record, np.frombuffer(vector, np.float32), revision))
        return [RowKey(*key) for key in keys], rows

    def settle(self) -> None:
        """Forget the description; its bytes are overwritten."""

        def clear() -> None:
            self._database.execute("DELETE FROM pending_key")
            self._database.execute("DELETE FROM pending_row")

        self._transacted(clear)

    def changed_elsewhere(self) -> bool:
        """Whether another connection has committed since the last call; a few microseconds."""
        version = int(self._guarded(lambda: self._database.execute("PRAGMA data_version").fetchone()[0]))
        changed, self._version = version != self._version, version
        return changed

    def settings(self) -> dict[str, str]:
        """What the corpus remembers about itself."""
        return dict(
            self._guarded(lambda: self._database.execute("SELECT name, value FROM setting").fetchall())
        )

    def remember(self, settings: Mapping[str, str]) -> None:
        """Add to what the corpus remembers."""
        pairs = list(settings.items())
        self._guarded(
            lambda: self._database.executemany("INSERT OR REPLACE INTO setting VALUES (?, ?)", pairs)
        )

    def scrub(self) -> None:
        """Rewrite the file without free pages."""
        self._guarded(lambda: self._database.execute("VACUUM"))

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    def _transacted(self, change: Callable[[], None]) -> None:
        def whole() -> None:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                change()
                self._database.execute("COMMIT")
            except BaseException:
                self._database.execute("ROLLBACK")
                raise

        self._guarded(whole)

    def _guarded(self, action: Callable[[], T]) -> T:
        with self._lock:
            try:
                return action()
            except sqlite3.Error as error:
                raise StoreError(f"the journal {self._path!r} failed: {error}") from error
