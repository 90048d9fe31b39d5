"""One immutable state of the index. A writer makes a new one; a query holds one to its end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.analysis import Analyzer
from ctxarith.index.arrange import Arrays
from ctxarith.index.build import segment_arrays
from ctxarith.index.columns import Mask, Rows
from ctxarith.index.dense import Dense
from ctxarith.index.filters import Filters
from ctxarith.index.lexical import Lexical
from ctxarith.index.segment import Segment, digests
from ctxarith.index.slots import Slots
from ctxarith.index.stack import Stack
from ctxarith.lazy import lazy
from ctxarith.model import Record
from ctxarith.ports import Row, RowKey, Vector


@dataclass(frozen=True, slots=True)
class Indexer:
    """Turns rows into segments: the part of indexing that is done once for each row."""

    analyzer: Analyzer
    searchable: tuple[str, ...] = ()

    def passage(self, record: Record) -> str:
        """The text that is embedded, indexed and shown: searchable metadata, then the body."""
        return passage(record, self.searchable)

    def arrays(self, rows: Sequence[Row]) -> Arrays:
        """Analyse rows and lay them out."""
        return segment_arrays(rows, [self.analyzer.terms(self.passage(row.record)) for row in rows])


def passage(record: Record, searchable: Sequence[str]) -> str:
    """One rule for every stage: the named metadata that the record has as text, then its text."""
    titles = [str(record.metadata[key]) for key in searchable if record.metadata.get(key)]
    return "\n".join([*titles, record.text])


@dataclass(frozen=True)
class Snapshot:
    """Segments with what is dead in them, and the watermarks of the data that they hold.

    Rows are numbered through all segments. A row is *live* when it is its key's present content: not
    removed or replaced, and not a revision, which is kept for the history of a record alone.

    Args:
        indexer: how texts become terms.
        segments: the data.
        dead: rows of each segment, by its name, that were removed or replaced.
        watermarks: the number of the last write of each tenant.
    """

    indexer: Indexer
    segments: tuple[Segment, ...] = ()
    dead: Mapping[str, Rows] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.live.sum())

    @property
    def dimension(self) -> int | None:
        """The length of a vector; `None` while there is none."""
        return self.dense.dimension or None

    @lazy
    def records(self) -> Stack:
        """The record of each row."""
        return Stack(self.segments)

    @lazy
    def staying(self) -> Mask:
        """Rows that were not removed or replaced; revisions are among them."""
        mask = np.ones(len(self.records), np.bool_)
        for segment, run in self.records.parts():
            mask[run][self.dead.get(segment.name, _NONE)] = False
        return mask

    @lazy
    def live(self) -> Mask:
        """Rows that a query may find."""
        live: Mask = self.staying & (self.records.row("revision") == 0)
        return live

    @lazy
    def columns(self) -> Filters:
        """Filters."""
        return Filters(self.records, self.live)

    @lazy
    def dense(self) -> Dense:
        """Vectors."""
        return Dense(self.records)

    @lazy
    def lexical(self) -> Lexical:
        """Postings."""
        return Lexical(self.records)

    @lazy
    def slots(self) -> Slots:
        """Supersession."""
        return Slots(self.records, self.live, self.dense.similarity)

    @property
    def analyzer(self) -> Analyzer:
        """The analyzer that made the terms; queries must use the same."""
        return self.indexer.analyzer

    @property
    def token_counts(self) -> NDArray[np.int64]:
        """Tokens of each row's passage."""
        return self.records.row("tokens")

    @property
    def dates(self) -> NDArray[np.float64]:
        """The ranking date of each row in epoch seconds, minus infinity without one."""
        return self.records.row("dated")

    @property
    def entities_per_token(self) -> NDArray[np.float64]:
        """What density is computed from."""
        return self.records.row("per_token")

    @lazy
    def tenants(self) -> frozenset[str]:
        """Every tenant that has a live row."""
        found: set[Any] = set()
        for segment, run in self.records.parts():
            column = segment.column("tenant")
            if column is not None:
                used = set(np.unique(column.codes[self.live[run]]).tolist())
                found.update(value for code, (_, value) in column.values() if code in used)
        return frozenset(found)

    def passage(self, record: Record) -> str:
        """The text of a record as it is indexed and shown."""
        return self.indexer.passage(record)

    def vector(self, row: int) -> Vector:
        """The unit vector of a row."""
        return self.dense.vector(row)

    def stored(self, row: int) -> Row:
        """A row as the store has it."""
        segment, at = self.records.place(row)
        return segment.stored(at)

    def named(self, tenant: str, record_id: str) -> list[int]:
        """The live rows of an id, all versions, in the order of their keys."""
        return self._found((tenant, record_id), "id", self.live)

    def of_source(self, tenant: str, source_id: str) -> list[int]:
        """The live rows of a source's chunks, all versions, in the order of their keys."""
        return self._found((tenant, source_id), "source", self.live)

    def linked_to(self, tenant: str, name: str) -> list[int]:
        """The rows that a link names: those of an id, or else the chunks of a source."""
        return self.named(tenant, name) or self.of_source(tenant, name)

    def kept(self, tenant: str, record_id: str) -> list[int]:
        """The rows of an id, its revisions too."""
        return self._found((tenant, record_id), "id", self.staying)

    def key(self, row: int) -> RowKey:
        """The key of a row."""
        tenant, rid, version = self.records[row].key
        return RowKey(tenant, rid, version, int(self.records.row("revision")[row]))

    def rows_of(self, keys: Sequence[RowKey]) -> dict[RowKey, int]:
        """The live rows of those keys that are here."""
        which, rows = self.records.named(digests((key.tenant, key.id) for key in keys), "id")
        stands = self.live[rows]
        pairs = zip(which[stands].tolist(), rows[stands].tolist(), strict=True)
        return {keys[n]: row for n, row in pairs if self.records[row].version == keys[n].version}

    def changed(
        self, added: Segment | None, dead: Mapping[str, Rows], watermarks: Mapping[str, int]
    ) -> Snapshot:
        """A new snapshot with a segment put in and rows taken out; this one stays as it is."""
        known = {name: np.union1d(self.dead.get(name, _NONE), rows) for name, rows in dead.items()}
        return Snapshot(
            self.indexer,
            (*self.segments, *([added] if added is not None else [])),
            {**self.dead, **known},
            {**self.watermarks, **watermarks},
        )

    def without(self, names: Collection[str]) -> Snapshot:
        """The snapshot without some segments, whose rows stand elsewhere now."""
        if not names:
            return self
        left = tuple(segment for segment in self.segments if segment.name not in names)
        dead = {name: rows for name, rows in self.dead.items() if name not in names}
        return Snapshot(self.indexer, left, dead, self.watermarks)

    def parted(self, rows: Iterable[int]) -> dict[str, Rows]:
        """Row numbers by the name of their segment, numbered as there."""
        chosen = np.asarray(sorted(rows), np.int64)
        part = self.records.part_of(chosen)
        return {
            segment.name: chosen[part == number] - run.start
            for number, (segment, run) in enumerate(self.records.parts())
            if (part == number).any()
        }

    def _found(self, name: tuple[str, str], by: str, among: Mask) -> list[int]:
        _, rows = self.records.named(digests([name]), by)
        rows = rows[among[rows]]
        return rows[np.argsort(self.records.by_key(rows), kind="stable")].tolist() if len(rows) else []


_NONE: Rows = np.empty(0, np.int64)
