"""One immutable state of the index. A writer makes a new one; a query holds one to its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.analysis import Analyzer
from ctxarith.index.columns import Columns
from ctxarith.index.dense import Dense, unit
from ctxarith.index.lexical import CodedTerms, Lexical, Vocabulary
from ctxarith.index.slots import Slots
from ctxarith.instant import EPOCH
from ctxarith.model import Record
from ctxarith.ports import Row, RowKey, Vector


@dataclass(frozen=True, slots=True)
class Entry:
    """A row as the index keeps it: record, unit vector, terms."""

    record: Record
    unit: Vector
    terms: CodedTerms


class Indexer:
    """Turns rows into entries: the part of indexing that is done once for each row."""

    def __init__(self, analyzer: Analyzer, searchable: Sequence[str]) -> None:
        self.analyzer = analyzer
        self._searchable = tuple(searchable)
        self._vocabulary = Vocabulary()

    def passage(self, record: Record) -> str:
        """The text that is embedded, indexed and shown: searchable metadata, then the body."""
        return passage(record, self._searchable)

    def entry(self, row: Row) -> Entry:
        """Analyse and normalise one row."""
        terms = self._vocabulary.coded(self.analyzer.terms(self.passage(row.record)))
        return Entry(row.record, unit(row.vector[None, :])[0], terms)

    def lexical(self, entries: Sequence[Entry]) -> Lexical:
        """Postings over entries of this indexer."""
        return Lexical([entry.terms for entry in entries], self._vocabulary)


def passage(record: Record, searchable: Sequence[str]) -> str:
    """One rule for every stage: the named metadata that the record has as text, then its text."""
    titles = [str(record.metadata[key]) for key in searchable if record.metadata.get(key)]
    return "\n".join([*titles, record.text])


class Snapshot:
    """Rows with their columns, vectors, postings and slots; each is built when first needed."""

    def __init__(self, entries: dict[RowKey, Entry], indexer: Indexer) -> None:
        self._entries = entries
        self._indexer = indexer

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def dimension(self) -> int | None:
        """The length of a vector; `None` while there is none."""
        entry = next(iter(self._entries.values()), None)
        return None if entry is None else len(entry.unit)

    @cached_property
    def _ordered(self) -> list[Entry]:
        # By key, so that nothing depends on the order of insertion.
        return [self._entries[key] for key in sorted(self._entries)]

    @cached_property
    def records(self) -> list[Record]:
        """The record of each row."""
        return [entry.record for entry in self._ordered]

    @cached_property
    def columns(self) -> Columns:
        """Filters."""
        return Columns(self.records)

    @cached_property
    def dense(self) -> Dense:
        """Vectors."""
        vectors = [entry.unit for entry in self._ordered]
        return Dense(np.stack(vectors) if vectors else np.empty((0, 1), np.float32))

    @cached_property
    def lexical(self) -> Lexical:
        """Postings."""
        return self._indexer.lexical(self._ordered)

    @cached_property
    def slots(self) -> Slots:
        """Supersession."""
        return Slots(self.records, self.dense.similarity, self.linked_to)

    @property
    def analyzer(self) -> Analyzer:
        """The analyzer that made the terms; queries must use the same."""
        return self._indexer.analyzer

    @cached_property
    def token_counts(self) -> NDArray[np.int64]:
        """Tokens of each row's passage."""
        return np.fromiter((r.token_count or 0 for r in self.records), np.int64, len(self.records))

    @cached_property
    def dates(self) -> NDArray[np.float64]:
        """The ranking date of each row in epoch seconds, minus infinity without one."""
        dated = (record.dated for record in self.records)
        seconds = (-np.inf if d is None else (d - EPOCH).total_seconds() for d in dated)
        return np.fromiter(seconds, np.float64, len(self.records))

    @cached_property
    def entities_per_token(self) -> NDArray[np.float64]:
        """What density is computed from."""
        counts = ((r.entity_count or 0) / max(r.token_count or 0, 1) for r in self.records)
        return np.fromiter(counts, np.float64, len(self.records))

    @cached_property
    def tenants(self) -> frozenset[str]:
        """Every tenant that has a row."""
        return frozenset(key.tenant for key in self._entries)

    def passage(self, record: Record) -> str:
        """The text of a record as it is indexed and shown."""
        return self._indexer.passage(record)

    def get(self, key: RowKey) -> Entry | None:
        """The entry of a key."""
        return self._entries.get(key)

    def vector(self, row: int) -> Vector:
        """The unit vector of a row."""
        return self._ordered[row].unit

    @cached_property
    def linked(self) -> list[Record]:
        """The records that name others in `supersedes`."""
        return [record for record in self.records if record.supersedes]

    def named(self, tenant: str, record_id: str) -> list[int]:
        """The rows of an id, all versions."""
        return self._by_id.get((tenant, record_id), [])

    def linked_to(self, tenant: str, name: str) -> list[int]:
        """The rows that a link names: those of an id, or else the chunks of a source."""
        return self.named(tenant, name) or self.of_source(tenant, name)

    def of_source(self, tenant: str, source_id: str) -> list[int]:
        """The rows of a source's chunks, all versions."""
        return self._by_source.get((tenant, source_id), [])

    @cached_property
    def _by_source(self) -> dict[tuple[str, str], list[int]]:
        rows: dict[tuple[str, str], list[int]] = {}
        for row, record in enumerate(self.records):
            rows.setdefault((record.tenant, record.source_id), []).append(row)
        return rows

    @cached_property
    def _by_id(self) -> dict[tuple[str, str], list[int]]:
        rows: dict[tuple[str, str], list[int]] = {}
        for row, record in enumerate(self.records):
            rows.setdefault((record.tenant, record.id), []).append(row)
        return rows

    def replaced(self, rows: Iterable[Row]) -> Snapshot:
        """A new snapshot of exactly these rows; what is unchanged is not analysed again."""
        entries = {}
        for row in rows:
            known = self._entries.get(row.key)
            same = known is not None and known.record.content_hash == row.record.content_hash
            entries[row.key] = known if known is not None and same else self._indexer.entry(row)
        return Snapshot(entries, self._indexer)

    def changed(self, written: Iterable[Row], removed: Iterable[RowKey]) -> Snapshot:
        """A new snapshot with rows put in and taken out; this one stays as it is."""
        entries = dict(self._entries)
        for key in removed:
            entries.pop(key, None)
        for row in written:
            entries[row.key] = self._indexer.entry(row)
        return Snapshot(entries, self._indexer)
