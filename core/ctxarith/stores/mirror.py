"""The rows of a Chroma collection in one SQLite file of our own: what is read, by any number of processes.

Chroma works on its graph files as if one process had them alone: a second one, even if it only counts or
reads, writes its own state of them over the other's, and the folder is lost (seen with 1.5.9). So only
the process that holds the writer's lock opens Chroma at all; everybody reads here.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from ctxarith.errors import CtxArithError, StoreError
from ctxarith.flat import flatten, restore
from ctxarith.ports import Row

_PAGE = 2_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS row (
    id TEXT PRIMARY KEY, flat TEXT NOT NULL, text TEXT NOT NULL, vector BLOB NOT NULL
) WITHOUT ROWID
"""

T = TypeVar("T")
Named = tuple[str, Row]


class Mirror:
    """Rows by their Chroma id. Every method is one transaction.

    Raises:
        StoreError: the file cannot be read or written.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        self._lock = threading.Lock()
        self._database = self._guarded(
            lambda: sqlite3.connect(self._path, check_same_thread=False, timeout=30)
        )
        # What is removed is overwritten at once.
        self._guarded(lambda: self._database.execute("PRAGMA secure_delete = ON"))
        self._guarded(lambda: self._database.execute(_SCHEMA))

    def __len__(self) -> int:
        return int(self._guarded(lambda: self._database.execute("SELECT count(*) FROM row").fetchone()[0]))

    def put(self, rows: Iterable[Named]) -> None:
        """Insert or replace."""
        packed = [
            (name, json.dumps(flatten(row.record, row.revision)), row.record.text, row.vector.tobytes())
            for name, row in rows
        ]
        self._changed("INSERT OR REPLACE INTO row VALUES (?, ?, ?, ?)", packed)

    def drop(self, names: Iterable[str]) -> None:
        """Remove; unknown names are ignored."""
        self._changed("DELETE FROM row WHERE id = ?", [(name,) for name in names])

    def rows(self) -> Iterator[Named]:
        """Every row by id, page by page."""
        last = ""
        while page := self._read("SELECT * FROM row WHERE id > ? ORDER BY id LIMIT ?", (last, _PAGE)):
            yield from map(_unpacked, page)
            last = str(page[-1][0])

    def get(self, names: Sequence[str]) -> Iterator[Named]:
        """The rows of those names that are here."""
        for start in range(0, len(names), _PAGE):
            part = names[start : start + _PAGE]
            marks = ",".join("?" * len(part))
            yield from map(_unpacked, self._read(f"SELECT * FROM row WHERE id IN ({marks})", tuple(part)))

    def scrub(self) -> None:
        """Rewrite the file without free pages."""
        self._guarded(lambda: self._database.execute("VACUUM"))

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._database.close()

    def _read(self, sql: str, values: tuple[object, ...]) -> list[tuple[str, str, str, bytes]]:
        return self._guarded(lambda: self._database.execute(sql, values).fetchall())

    def _changed(self, sql: str, values: Sequence[tuple[object, ...]]) -> None:
        def change() -> None:
            with self._database:
                self._database.executemany(sql, values)

        self._guarded(change)

    def _guarded(self, action: Callable[[], T]) -> T:
        with self._lock:
            try:
                return action()
            except sqlite3.Error as error:
                raise StoreError(f"{self._path!r} failed, restore it from a copy: {error}") from error


def _unpacked(packed: tuple[str, str, str, bytes]) -> Named:
    name, flat, text, vector = packed
    try:
        record, revision = restore(json.loads(flat), text)
        return name, Row(record, np.frombuffer(vector, np.float32), revision)
    except (CtxArithError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"the row {name!r} is damaged, restore the folder from a copy: {error}") from error
