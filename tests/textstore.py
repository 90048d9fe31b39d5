"""A LangGraph store on one SQLite file, with the habits of the stores on databases.

Namespaces are joined text that is looked for by `LIKE`, the newest item comes first, and no page is longer
than 100 items, whatever was asked for.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, Result, SearchItem, SearchOp

_PAGE = 100
_TABLE = (
    "CREATE TABLE IF NOT EXISTS item (prefix TEXT, key TEXT, value TEXT, moment INTEGER, "
    "PRIMARY KEY (prefix, key))"
)
_PUT = "INSERT OR REPLACE INTO item VALUES (?, ?, ?, (SELECT COALESCE(MAX(moment), 0) + 1 FROM item))"
_SEARCH = "SELECT prefix, key, value FROM item WHERE prefix LIKE ? ORDER BY moment DESC LIMIT ? OFFSET ?"


class TextStore(BaseStore):
    def __init__(self, path: Path | str) -> None:
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        self._lock = threading.Lock()
        self._database.execute(_TABLE)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        with self._lock:
            return [self._done(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return self.batch(ops)

    def _done(self, op: Op) -> Any:
        execute = self._database.execute
        match op:
            case PutOp(namespace, key, None):
                execute("DELETE FROM item WHERE prefix = ? AND key = ?", (".".join(namespace), key))
            case PutOp(namespace, key, value):
                execute(_PUT, (".".join(namespace), key, json.dumps(value)))
            case GetOp(namespace, key):
                rows = execute(
                    "SELECT prefix, key, value FROM item WHERE prefix = ? AND key = ?",
                    (".".join(namespace), key),
                )
                return next((_item(Item, row) for row in rows), None)
            case SearchOp(namespace):
                asked = (f"{'.'.join(namespace)}%", min(op.limit, _PAGE), op.offset)
                return [_item(SearchItem, row) for row in execute(_SEARCH, asked)]
            case _:
                raise NotImplementedError(op)
        return None


def _item(kind: Any, row: tuple[str, str, str]) -> Any:
    now = datetime.now(UTC)
    return kind(
        namespace=tuple(row[0].split(".")),
        key=row[1],
        value=json.loads(row[2]),
        created_at=now,
        updated_at=now,
    )
