"""Packets by their number, until they expire: in a dict, or in a SQLite file. No record's text is there."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from ctxarith.errors import StoreError
from ctxarith.instant import EPOCH

_SCHEMA = """
CREATE TABLE IF NOT EXISTS packet (
    id TEXT PRIMARY KEY, tenant TEXT, expires REAL, ids TEXT, body TEXT
) WITHOUT ROWID
"""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stored:
    """A packet on the shelf.

    Args:
        packet_id, tenant: of the packet.
        expires_at: when it may be swept away.
        ids: the records behind its members.
        body: everything else, as JSON.
    """

    packet_id: str
    tenant: str
    expires_at: datetime
    ids: tuple[str, ...]
    body: str


class MemoryPackets:
    """Packets that are gone with the process."""

    def __init__(self) -> None:
        self._packets: dict[str, Stored] = {}
        self._lock = threading.Lock()

    def put(self, packet: Stored) -> None:
        """Keep a packet, in the place of an earlier state of it."""
        with self._lock:
            self._packets[packet.packet_id] = packet

    def get(self, packet_id: str) -> Stored | None:
        """A packet by its number, expired or not; `None` if it is not here."""
        return self._packets.get(packet_id)

    def remove(self, packet_id: str) -> None:
        """Let go of a packet."""
        with self._lock:
            self._packets.pop(packet_id, None)

    def forget(self, tenant: str, ids: Collection[str]) -> None:
        """Let go of every packet of a tenant that holds one of these records."""
        with self._lock:
            gone = [
                p.packet_id for p in self._packets.values() if p.tenant == tenant and set(ids) & set(p.ids)
            ]
            for packet_id in gone:
                del self._packets[packet_id]

    def sweep(self, now: datetime) -> int:
        """Let go of what has expired; how many there were."""
        with self._lock:
            gone = [packet.packet_id for packet in self._packets.values() if packet.expires_at <= now]
            for packet_id in gone:
                del self._packets[packet_id]
            return len(gone)

    def close(self) -> None:
        """Nothing is held open."""


class SqlitePackets:
    """Packets in a file that any number of processes write; deleted bytes are overwritten.

    Raises:
        StoreError: the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None

    def put(self, packet: Stored) -> None:
        """Keep a packet, in the place of an earlier state of it."""
        row = (
            packet.packet_id,
            packet.tenant,
            _seconds(packet.expires_at),
            json.dumps(packet.ids),
            packet.body,
        )
        self._run("INSERT OR REPLACE INTO packet VALUES (?, ?, ?, ?, ?)", row)

    def get(self, packet_id: str) -> Stored | None:
        """A packet by its number, expired or not; `None` if it is not here."""
        sql = "SELECT tenant, expires, ids, body FROM packet WHERE id = ?"
        for tenant, expires, ids, body in self._run(sql, (packet_id,)):
            return Stored(
                packet_id, tenant, datetime.fromtimestamp(expires, EPOCH.tzinfo), tuple(json.loads(ids)), body
            )
        return None

    def remove(self, packet_id: str) -> None:
        """Let go of a packet."""
        self._run("DELETE FROM packet WHERE id = ?", (packet_id,))

    def forget(self, tenant: str, ids: Collection[str]) -> None:
        """Let go of every packet of a tenant that holds one of these records."""
        found = self._run("SELECT id, ids FROM packet WHERE tenant = ?", (tenant,))
        for packet_id, held in found:
            if set(ids) & set(json.loads(held)):
                self.remove(packet_id)

    def sweep(self, now: datetime) -> int:
        """Let go of what has expired; how many there were."""
        return len(self._run("DELETE FROM packet WHERE expires <= ? RETURNING id", (_seconds(now),)))

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _run(self, sql: str, values: Iterable[object]) -> list[tuple[Any, ...]]:
        return self._guarded(lambda database: database.execute(sql, tuple(values)).fetchall())

    def _guarded(self, action: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                if self._database is None:
                    self._database = sqlite3.connect(
                        self._path, check_same_thread=False, isolation_level=None, timeout=30
                    )
                    self._database.execute("PRAGMA secure_delete = ON")
                    self._database.execute(_SCHEMA)
                return action(self._database)
            except sqlite3.Error as error:
                raise StoreError(f"the packets in {str(self._path)!r} cannot be used: {error}") from error


def _seconds(moment: datetime) -> float:
    return (moment - EPOCH).total_seconds()
