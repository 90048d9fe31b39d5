"""Rows become the arrays of a segment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ctxarith.flat import flatten
from ctxarith.index.analysis import Terms
from ctxarith.index.arrange import Arrays, Coded, Loose, arranged
from ctxarith.index.columns import Rows
from ctxarith.index.newness import times_of
from ctxarith.index.segment import PREFIX, digest, digests, pack
from ctxarith.index.strings import Strings
from ctxarith.instant import EPOCH
from ctxarith.kinds import CORE_FIELDS, Typed, typed, value_of
from ctxarith.model import Record
from ctxarith.normalise import Metadata
from ctxarith.ports import Row


def segment_arrays(rows: Sequence[Row], terms: Sequence[Terms]) -> Arrays:
    """The arrays of some rows, in any order, with the terms of each."""
    records = [row.record for row in rows]
    vectors = np.stack([row.vector for row in rows]) if rows else np.empty((0, 0), np.float32)
    numbers, postings = _postings(terms)
    start, created = times_of(records)
    loose = Loose(
        rows={
            "vector": vectors,
            "blank": np.asarray(~vectors.any(axis=1), np.bool_),
            "length": np.asarray([one.length for one in terms], np.int32),
            "tokens": np.asarray([r.token_count or 0 for r in records], np.int64),
            "per_token": np.asarray([_per_token(r) for r in records], np.float64),
            "dated": np.asarray([_dated(r) for r in records], np.float64),
            "revision": np.asarray([row.revision for row in rows], np.int32),
            "start": start,
            "created": created,
            "id": digests((r.tenant, r.id) for r in records),
            "prefix": np.asarray([_bytes(r.id)[:32] for r in records], PREFIX),
            "source": digests((r.tenant, r.source_id) for r in records),
        },
        packed=Strings.of(pack(flatten(row.record, row.revision), row.record.text) for row in rows),
        columns=_columns(records),
        terms=numbers,
        postings=postings,
        facts=_facts(records),
        links=_links(records),
    )
    return arranged(loose)[0]


def _columns(records: Sequence[Record]) -> dict[str, Coded]:
    names = [*sorted(CORE_FIELDS), *sorted(set().union(*(record.metadata for record in records)))]
    coded = {}
    for name in names:
        if name in CORE_FIELDS:
            values: list[Metadata | None] = [value_of(record, name) for record in records]
        else:
            values = [record.metadata.get(name) for record in records]
        if any(value is not None for value in values):
            coded[name] = numbered(values)
    return coded


def numbered(values: Sequence[Metadata | None]) -> Coded:
    """Number the distinct values of a field as they come."""
    distinct: dict[Typed, int] = {}
    elements: dict[Typed, int] = {}
    pairs: list[tuple[int, int]] = []
    arrival = []
    for row, value in enumerate(values):
        if value is None:
            arrival.append(0)
        elif isinstance(value, tuple):
            arrival.append(-1)
            for one in dict.fromkeys(typed(item) for item in value):
                pairs.append((elements.setdefault(one, len(elements) + 1), row))
        else:
            arrival.append(distinct.setdefault(typed(value), len(distinct) + 1))
    both = np.asarray(pairs, np.int64).reshape(-1, 2)
    return Coded(distinct, np.asarray(arrival, np.int64), (elements, both[:, 0], both[:, 1]))


def _postings(terms: Sequence[Terms]) -> tuple[list[bytes], tuple[Rows, Rows, NDArray[np.int32]]]:
    numbers: dict[str, int] = {}
    flat: list[int] = []
    counts: list[int] = []
    for one in terms:
        flat.extend([numbers.setdefault(term, len(numbers)) for term in one.counts])
        counts.extend(one.counts.values())
    names = [(term.encode("utf-8", "surrogatepass"), number) for term, number in numbers.items()]
    names.sort()
    resorted = np.zeros(len(names), np.int64)
    resorted[[number for _, number in names]] = np.arange(len(names))
    owners = np.repeat(np.arange(len(terms)), [len(one.counts) for one in terms])
    numbered_terms = resorted[np.asarray(flat, np.int64)]
    return [name for name, _ in names], (numbered_terms, owners, np.asarray(counts, np.int32))


def _facts(
    records: Sequence[Record],
) -> tuple[NDArray[np.bytes_], Rows, NDArray[np.int32], NDArray[np.bool_]]:
    groups, rows, ordinals, inferred = [], [], [], []
    for row, record in enumerate(records):
        best: dict[tuple[str | None, str], int] = {}
        for ordinal, slot in enumerate(record.slots):
            if not slot.asserts:
                continue
            known = best.get((slot.subject, slot.attribute))
            # A fact asserted twice by one record is declared if either says so; the last one counts.
            if known is None or record.slots[known].inferred or not slot.inferred:
                best[(slot.subject, slot.attribute)] = ordinal
        for (subject, attribute), ordinal in best.items():
            groups.append(fact_digest(record.tenant, subject, attribute))
            rows.append(row)
            ordinals.append(ordinal)
            inferred.append(record.slots[ordinal].inferred)
    return (
        np.frombuffer(b"".join(groups), "S16"),
        np.asarray(rows, np.int64),
        np.asarray(ordinals, np.int32),
        np.asarray(inferred, np.bool_),
    )


def fact_digest(tenant: str, subject: str | None, attribute: str) -> bytes:
    """The name of a fact: what two records must share to speak of the same thing."""
    return digest(tenant, *(("+", subject) if subject is not None else ("-", "")), attribute)


def _links(records: Sequence[Record]) -> tuple[Rows, NDArray[np.bytes_]]:
    pairs = [(row, (record.tenant, name)) for row, record in enumerate(records) for name in record.supersedes]
    return np.asarray([row for row, _ in pairs], np.int64), digests(name for _, name in pairs)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _per_token(record: Record) -> float:
    return (record.entity_count or 0) / max(record.token_count or 0, 1)


def _dated(record: Record) -> float:
    dated = record.dated
    return float("-inf") if dated is None else (dated - EPOCH).total_seconds()
