"""Where conversations live: raw turns that are only ever added, and one summary for each thread.

One SQLite file in a folder, for any number of processes; or in memory.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ctxarith.conversation import ConversationKey, Message, Summary
from ctxarith.durable import Head, Lock
from ctxarith.errors import StoreError
from ctxarith.stores.lock import OneAtATime, WriterLock
from ctxarith.transcript import message_as_json, message_from_json, summary_as_json, summary_from_json

FILE, LOCKS = "conversations.sqlite", "conversations.locks"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS thread (
    generation INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL, user TEXT NOT NULL, thread TEXT NOT NULL,
    last INTEGER NOT NULL DEFAULT 0, covers INTEGER NOT NULL DEFAULT 0, summary TEXT,
    UNIQUE (tenant, user, thread)
);
CREATE TABLE IF NOT EXISTS turn (
    generation INTEGER, number INTEGER, role TEXT NOT NULL, id TEXT, message TEXT NOT NULL,
    PRIMARY KEY (generation, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS turn_id ON turn(generation, id) WHERE id IS NOT NULL;
CREATE INDEX IF NOT EXISTS turn_pinned ON turn(generation, role, number) WHERE role IN ('system', 'user');
CREATE TRIGGER IF NOT EXISTS turns_are_only_added BEFORE UPDATE ON turn
BEGIN SELECT RAISE(ABORT, 'a turn is never changed'); END;
"""
_WHERE = "WHERE tenant = ? AND user = ? AND thread = ?"

T = TypeVar("T")


class SqliteConversations:
    """The conversations of a folder, or with no path of this object alone.

    Write-ahead logging with full synchronisation: an appended turn is on disk when `append` returns.

    Raises:
        StoreError: the folder or the file cannot be used.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._lock = threading.Lock()
        self._folder = None if folder is None else Path(folder)
        self._claims: dict[ConversationKey, OneAtATime] = {}
        try:
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {str(folder)!r} cannot be made: {error}") from error
        self._path = ":memory:" if self._folder is None else str(self._folder / FILE)
        self._database = self._guarded(
            lambda: sqlite3.connect(self._path, check_same_thread=False, isolation_level=None, timeout=30)
        )
        for pragma in ("secure_delete = ON", "journal_mode = WAL", "synchronous = FULL"):
            self._all(f"PRAGMA {pragma}", ())
        self._guarded(lambda: self._database.executescript(_SCHEMA))

    def head(self, key: ConversationKey) -> Head:
        """Where a thread stands."""
        found = self._all(f"SELECT generation, last, covers FROM thread {_WHERE}", _named(key))
        return Head(*found[0]) if found else Head()

    def append(self, key: ConversationKey, message: Message) -> Message:
        """Add a message at the end; one whose id is there already is not added again."""

        def insert() -> Message:
            execute = self._database.execute
            execute("INSERT OR IGNORE INTO thread(tenant, user, thread) VALUES (?, ?, ?)", _named(key))
            generation, last = execute(
                f"SELECT generation, last FROM thread {_WHERE}", _named(key)
            ).fetchone()
            if message.id is not None:
                known = execute(
                    "SELECT message, number FROM turn WHERE generation = ? AND id = ?",
                    (generation, message.id),
                ).fetchone()
                if known:
                    return message_from_json(*known)
            added = replace(message, number=last + 1)
            row = (generation, added.number, added.role, added.id, message_as_json(added))
            execute("INSERT INTO turn VALUES (?, ?, ?, ?, ?)", row)
            execute("UPDATE thread SET last = ? WHERE generation = ?", (added.number, generation))
            return added

        return self._transacted(insert)

    def since(self, generation: int, number: int) -> list[Message]:
        """The turns after a number, oldest first."""
        sql = "SELECT message, number FROM turn WHERE generation = ? AND number > ? ORDER BY number"
        return [message_from_json(*row) for row in self._all(sql, (generation, number))]

    def pinned(self, generation: int, upto: int) -> list[Message]:
        """The system messages, and the last message of the user, among the turns 1 to `upto`."""
        sql = (
            "SELECT message, number FROM turn WHERE generation = ?1 AND role = 'system' AND number <= ?2"
            " UNION ALL SELECT * FROM (SELECT message, number FROM turn"
            " WHERE generation = ?1 AND role = 'user' AND number <= ?2 ORDER BY number DESC LIMIT 1)"
            " ORDER BY 2"
        )
        return [message_from_json(*row) for row in self._all(sql, (generation, upto))]

    def turn(self, generation: int, number: int) -> Message | None:
        """One turn by its number; `None` where there is none."""
        sql = "SELECT message, number FROM turn WHERE generation = ? AND number = ?"
        found = self._all(sql, (generation, number))
        return message_from_json(*found[0]) if found else None

    def summary(self, generation: int) -> Summary:
        """The summary of a thread; an empty one that covers nothing at first."""
        found = self._all("SELECT summary FROM thread WHERE generation = ?", (generation,))
        return summary_from_json(found[0][0]) if found and found[0][0] else Summary()

    def replace(self, generation: int, summary: Summary, *, covered: int) -> bool:
        """Put a summary in the place of the one that covers `covered` turns; never backwards."""
        sql = (
            "UPDATE thread SET summary = ?1, covers = ?2"
            " WHERE generation = ?3 AND covers = ?4 AND ?2 > covers AND ?2 <= last"
        )
        values = (summary_as_json(summary), summary.covers, generation, covered)
        return self._transacted(lambda: self._database.execute(sql, values).rowcount == 1)

    def clear(self, key: ConversationKey) -> None:
        """Delete a thread; nothing of its text is left in any file here."""

        def delete() -> None:
            self._database.execute(
                f"DELETE FROM turn WHERE generation IN (SELECT generation FROM thread {_WHERE})", _named(key)
            )
            self._database.execute(f"DELETE FROM thread {_WHERE}", _named(key))

        self._transacted(delete)
        # Freed pages are zeroed; what the log still holds goes with it.
        busy, *_ = self._all("PRAGMA wal_checkpoint(TRUNCATE)", ())[0]
        if busy:
            raise StoreError(
                "the thread is deleted, but another process was reading, so that traces of its text are "
                f"left beside {self._path!r}: clear it again"
            )

    def claim(self, key: ConversationKey) -> Lock:
        """What keeps every other process and handle from summarising this thread."""
        if self._folder is None:
            with self._lock:
                return self._claims.setdefault(key, OneAtATime())
        folder = self._folder / LOCKS
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {str(folder)!r} cannot be made: {error}") from error
        return WriterLock(folder / hashlib.sha256("\0".join(_named(key)).encode()).hexdigest())

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._database.close()

    def _all(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return self._guarded(lambda: self._database.execute(sql, values).fetchall())

    def _transacted(self, change: Callable[[], T]) -> T:
        def whole() -> T:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                result = change()
                self._database.execute("COMMIT")
                return result
            except BaseException:
                self._database.execute("ROLLBACK")
                raise

        return self._guarded(whole)

    def _guarded(self, action: Callable[[], T]) -> T:
        with self._lock:
            try:
                return action()
            except sqlite3.Error as error:
                raise StoreError(f"the conversations in {self._path!r} failed: {error}") from error


def _named(key: ConversationKey) -> tuple[str, str, str]:
    # No user is the empty name, which the key refuses as a user's.
    return (key.tenant, key.user or "", key.thread)
