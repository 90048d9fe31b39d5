"""How a write is taken back, what the writes have done, and what a corpus remembers: one SQLite file."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ctxarith.durable import Entry, IndexState, Written
from ctxarith.errors import StoreError
from ctxarith.flat import flatten, restore
from ctxarith.model import Record
from ctxarith.ports import Row, RowKey

_SCHEMA = """
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pending_key (tenant TEXT, id TEXT, version TEXT, revision INTEGER);
CREATE TABLE IF NOT EXISTS pending_row (flat TEXT, text TEXT, vector BLOB);
CREATE TABLE IF NOT EXISTS segment (position INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS dead (segment TEXT, row INTEGER, PRIMARY KEY (segment, row)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS watermark (tenant TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS change (
    tenant TEXT, number INTEGER, place INTEGER, id TEXT, version TEXT, before TEXT, rebuilt INTEGER,
    PRIMARY KEY (tenant, number, place)
) WITHOUT ROWID;
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
        keys = self._all("SELECT * FROM pending_key")
        rows = []
        for flat, text, vector in self._all("SELECT * FROM pending_row"):
            record, revision = restore(json.loads(flat), text)
            rows.append(Row(record, np.frombuffer(vector, np.float32), revision))
        return [RowKey(*key) for key in keys], rows

    def settle(self, written: Written | None = None) -> dict[str, int]:
        """Forget how to take the write back, and note what it did, in one transaction."""

        def settled() -> dict[str, int]:
            self._database.execute("DELETE FROM pending_key")
            self._database.execute("DELETE FROM pending_row")
            return {} if written is None else self._noted(written)

        return self._transacted(settled)

    def _noted(self, written: Written) -> dict[str, int]:
        execute, many = self._database.execute, self._database.executemany
        many("DELETE FROM segment WHERE name = ?", [(name,) for name in written.dropped])
        many("DELETE FROM dead WHERE segment = ?", [(name,) for name in written.dropped])
        many("INSERT INTO segment(name) VALUES (?)", [(name,) for name in written.added])
        rows = [(name, int(row)) for name, those in written.dead.items() for row in those]
        many("INSERT OR IGNORE INTO dead VALUES (?, ?)", rows)
        many("INSERT OR REPLACE INTO setting VALUES (?, ?)", list(written.settings.items()))
        numbers: dict[str, int] = {}
        for tenant in sorted({key.tenant for key, _ in written.changed} | set(written.rebuilt)):
            execute("INSERT OR IGNORE INTO watermark VALUES (?, 0)", (tenant,))
            execute("UPDATE watermark SET number = number + 1 WHERE tenant = ?", (tenant,))
            found = execute("SELECT number FROM watermark WHERE tenant = ?", (tenant,)).fetchone()
            numbers[tenant] = int(found[0])
        changes = [
            (key.tenant, numbers[key.tenant], place, key.id, key.version, _fields(before), 0)
            for place, (key, before) in enumerate(written.changed)
        ]
        changes += [(tenant, numbers[tenant], -1, "", "", None, 1) for tenant in written.rebuilt]
        many("INSERT INTO change VALUES (?, ?, ?, ?, ?, ?, ?)", changes)
        return numbers

    def state(self) -> IndexState:
        """Segments, dead rows and watermarks, of one moment."""

        def read() -> IndexState:
            segments = self._database.execute("SELECT name FROM segment ORDER BY position").fetchall()
            dead: dict[str, list[int]] = {}
            for name, row in self._database.execute("SELECT segment, row FROM dead"):
                dead.setdefault(name, []).append(row)
            watermarks = self._database.execute("SELECT tenant, number FROM watermark").fetchall()
            return IndexState(tuple(name for (name,) in segments), dead, dict(watermarks))

        return self._transacted(read, "BEGIN")

    def feed(self, tenant: str, since: int) -> list[Entry]:
        """The changes of a tenant after a watermark, oldest first."""
        sql = "SELECT number, id, version, before, rebuilt FROM change WHERE tenant = ? AND number > ?"
        return [
            Entry(number, RowKey(tenant, rid, version), _record(before), bool(rebuilt))
            for number, rid, version, before, rebuilt in self._all(
                f"{sql} ORDER BY number, place", (tenant, since)
            )
        ]

    def changed_elsewhere(self) -> bool:
        """Whether another connection has committed since the last call; a few microseconds."""
        version = int(self._guarded(lambda: self._database.execute("PRAGMA data_version").fetchone()[0]))
        changed, self._version = version != self._version, version
        return changed

    def settings(self) -> dict[str, str]:
        """What the corpus remembers about itself."""
        return dict(self._all("SELECT name, value FROM setting"))

    def remember(self, settings: Mapping[str, str]) -> None:
        """Add to what the corpus remembers."""
        pairs = list(settings.items())
        self._transacted(
            lambda: self._database.executemany("INSERT OR REPLACE INTO setting VALUES (?, ?)", pairs)
        )

    def scrub(self, gone: Callable[[str, str], bool]) -> None:
        """Forget what a (tenant, id) held that is gone, and rewrite the file without free pages."""
        told = self._all("SELECT DISTINCT tenant, id FROM change WHERE before IS NOT NULL")
        sql = "UPDATE change SET before = NULL WHERE tenant = ? AND id = ?"
        names = [name for name in told if gone(*name)]
        self._transacted(lambda: self._database.executemany(sql, names))
        self._guarded(lambda: self._database.execute("VACUUM"))

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    def _all(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        return self._guarded(lambda: self._database.execute(sql, values).fetchall())

    def _transacted(self, change: Callable[[], T], begin: str = "BEGIN IMMEDIATE") -> T:
        def whole() -> T:
            self._database.execute(begin)
            try:
                result = change()
                self._database.execute("COMMIT")
                return result
            except BaseException:
                # An interruption may have come before the transaction had begun, or after its end.
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

        return self._guarded(whole)

    def _guarded(self, action: Callable[[], T]) -> T:
        with self._lock:
            try:
                return action()
            except sqlite3.Error as error:
                advice = "see that it can be written, or restore it from a copy"
                raise StoreError(f"the journal {self._path!r} failed, {advice}: {error}") from error


def _fields(record: Record | None) -> str | None:
    """The fields of a record without its text, which the feed does not keep."""
    return None if record is None else json.dumps(flatten(record, 0))


def _record(fields: str | None) -> Record | None:
    return None if fields is None else restore(json.loads(fields), "")[0]
