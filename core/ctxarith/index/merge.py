"""Several segments become one, without what is dead; nothing is analysed again, and no record is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.arrange import Arrays, Coded, Loose, arranged
from ctxarith.index.columns import Column, Mask, Rows
from ctxarith.index.segment import Segment
from ctxarith.index.strings import Strings
from ctxarith.kinds import Typed

_ROWS = ("vector", "blank", "length", "tokens", "per_token", "dated", "revision", "start", "created")
_DIGESTS = ("id", "source", "prefix")


@dataclass(frozen=True, slots=True)
class Part:
    """A segment, which of its rows stay, and where the first of these stands among all that stay."""

    segment: Segment
    kept: Rows
    first: int

    @property
    def at(self) -> Rows:
        """The new number of each old row, or -1; shape (rows of the segment,)."""
        numbers = np.full(len(self.segment), -1, np.int64)
        numbers[self.kept] = self.first + np.arange(len(self.kept))
        return numbers


def parts_of(segments: Sequence[Segment], staying: Sequence[Mask]) -> list[Part]:
    """The segments with the rows that stay."""
    parts: list[Part] = []
    first = 0
    for segment, stays in zip(segments, staying, strict=True):
        parts.append(Part(segment, np.flatnonzero(stays), first))
        first += len(parts[-1].kept)
    return parts


def merged(parts: Sequence[Part]) -> tuple[Arrays, Rows]:
    """The arrays of one segment with the rows that stay, and the place of each of them in it."""
    terms, postings = _postings(parts)
    return arranged(
        Loose(
            rows={name: _joined(parts, name) for name in (*_ROWS, *_DIGESTS)},
            packed=_packed(parts),
            columns=_columns(parts),
            terms=terms,
            postings=postings,
            facts=_facts(parts),
            links=_links(parts),
        )
    )


def _joined(parts: Sequence[Part], name: str) -> NDArray[Any]:
    return np.concatenate([part.segment.row(name)[part.kept] for part in parts])


def _packed(parts: Sequence[Part]) -> Strings:
    taken = [part.segment.packed.taken(part.kept) for part in parts]
    before = np.cumsum([0, *(len(one.data) for one in taken[:-1])])
    ends = np.concatenate([one.ends + start for one, start in zip(taken, before, strict=True)])
    return Strings(ends, np.concatenate([one.data for one in taken]))


def _columns(parts: Sequence[Part]) -> dict[str, Coded]:
    names = sorted({name for part in parts for name in part.segment.fields})
    coded = {name: _column(parts, name) for name in names}
    return {name: one for name, one in coded.items() if one.arrival.any()}


def _column(parts: Sequence[Part], name: str) -> Coded:
    distinct: dict[Typed, int] = {}
    elements: dict[Typed, int] = {}
    arrival, numbers, rows = [], [], []
    for part in parts:
        column = part.segment.column(name)
        if column is None:
            arrival.append(np.zeros(len(part.kept), np.int64))
            continue
        arrival.append(_renumbered(column, part.kept, distinct))
        items, holders, meaning = column.pairs()
        table = np.zeros(int(items.max(initial=0)) + 1, np.int64)
        at = part.at[holders]
        staying = at >= 0
        used = set(items[staying].tolist())
        for code, value in meaning:
            if code in used:
                table[code] = elements.setdefault(value, len(elements) + 1)
        numbers.append(table[items[staying]])
        rows.append(at[staying])
    nothing = np.empty(0, np.int64)
    pairs = (np.concatenate([nothing, *numbers]), np.concatenate([nothing, *rows]))
    return Coded(distinct, np.concatenate(arrival), (elements, *pairs))


def _renumbered(column: Column, kept: Rows, distinct: dict[Typed, int]) -> Rows:
    codes = column.codes[kept]
    table = np.zeros(column.list_code + 1, np.int64)
    table[column.list_code] = -1
    used = np.zeros(column.list_code + 1, np.bool_)
    used[codes] = True
    for code, value in column.values():
        if used[code]:
            table[code] = distinct.setdefault(value, len(distinct) + 1)
    return table[codes]


def _postings(parts: Sequence[Part]) -> tuple[list[bytes], tuple[Rows, Rows, NDArray[np.int32]]]:
    numbers: dict[bytes, int] = {}
    terms, rows, counts = [], [], []
    for part in parts:
        starts, owners, times = part.segment.all_postings()
        of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        at = part.at[owners]
        staying = at >= 0
        used = np.zeros(len(starts), np.bool_)
        used[of[staying]] = True
        table = np.zeros(len(starts), np.int64)
        for number, term in enumerate(part.segment.terms.tolist()):
            if used[number]:
                table[number] = numbers.setdefault(term, len(numbers))
        terms.append(table[of[staying]])
        rows.append(at[staying])
        counts.append(times[staying])
    names = sorted(numbers)
    resorted = np.zeros(len(names), np.int64)
    resorted[[numbers[name] for name in names]] = np.arange(len(names))
    return names, (resorted[np.concatenate(terms)], np.concatenate(rows), np.concatenate(counts))


def _facts(parts: Sequence[Part]) -> tuple[NDArray[Any], Rows, NDArray[Any], NDArray[Any]]:
    tables = [part.segment.facts for part in parts]
    rows = np.concatenate([part.at[table.row] for part, table in zip(parts, tables, strict=True)])
    staying = rows >= 0
    group, ordinal, inferred = (
        np.concatenate([getattr(table, name) for table in tables])[staying]
        for name in ("group", "ordinal", "inferred")
    )
    return group, rows[staying], ordinal, inferred


def _links(parts: Sequence[Part]) -> tuple[Rows, NDArray[np.bytes_]]:
    pairs = [part.segment.links for part in parts]
    rows = np.concatenate([part.at[row] for part, (row, _) in zip(parts, pairs, strict=True)])
    staying = rows >= 0
    return rows[staying], np.concatenate([target for _, target in pairs])[staying]
