"""The reference store: a dict. What it answers is what every other store must answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ctxarith.ports import Row, RowKey
from ctxarith.predicate import Predicate


class InMemoryStore:
    """Rows in a dict; gone with the process."""

    name = "the in-memory store"

    def __init__(self) -> None:
        self._rows: dict[RowKey, Row] = {}

    def write(self, rows: Sequence[Row]) -> None:
        """Insert or replace."""
        self._rows.update((row.key, row) for row in rows)

    def remove(self, keys: Sequence[RowKey]) -> None:
        """Remove; unknown keys are ignored."""
        for key in keys:
            self._rows.pop(key, None)

    def count(self) -> int:
        """The size of the dict."""
        return len(self._rows)

    def rows(self) -> Iterator[Row]:
        """Every row."""
        yield from list(self._rows.values())

    def select(self, predicate: Predicate) -> Iterator[Row]:
        """The rows whose record matches, by evaluation in Python."""
        return (row for row in self.rows() if predicate.matches(row.record))

    def can(self, predicate: Predicate) -> bool:
        """Everything: this store is the meaning itself."""
        return True

    def scrub(self) -> None:
        """Nothing is kept in files."""

    def close(self) -> None:
        """Nothing is held open."""
