"""A predicate becomes a mask over rows, without evaluating it record by record."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxarith.kinds import CORE_FIELDS, Kind, Typed, typed, value_of
from ctxarith.model import Record
from ctxarith.normalise import Metadata
from ctxarith.predicate import And, Compare, Exists, Not, OneOf, Or, Predicate
from ctxarith.scopes import Everyone, Scope

Mask = NDArray[np.bool_]


class Column:
    """One field of all rows, coded by its distinct values in sorted order, kind by kind.

    Each condition is answered on the distinct values (a look-up, a bisection) with Python's own exact
    comparisons, then spread over the rows by one gather. Code 0 is a missing key.
    """

    def __init__(self, values: Iterable[Metadata | None]) -> None:
        distinct: dict[Typed, int] = {}
        arrival = [0 if v is None else distinct.setdefault(typed(v), len(distinct) + 1) for v in values]
        self._sorted: dict[Kind, list[Any]] = defaultdict(list)
        for kind, value in distinct:
            self._sorted[kind].append(value)
        self._first: dict[Kind, int] = {}
        self._code: dict[Typed, int] = {}
        for kind, known in self._sorted.items():
            if kind != "list":
                known.sort()
            self._first[kind] = len(self._code) + 1
            for value in known:
                self._code[(kind, value)] = len(self._code) + 1
        renumber = np.zeros(len(distinct) + 1, dtype=np.int32)
        for known_value, number in distinct.items():
            renumber[number] = self._code[known_value]
        self._rows = renumber[np.asarray(arrival, dtype=np.int64)]

    def present(self) -> Mask:
        """Rows that have the field."""
        return self._rows > 0

    def one_of(self, values: Iterable[Typed]) -> Mask:
        """Rows whose value is one of these."""
        return self._spread([code for value in values if (code := self._code.get(value))])

    def between(self, op: str, operand: Typed) -> Mask:
        """Rows of the operand's kind that stand in the order relation to it."""
        kind, wanted = operand
        known = self._sorted.get(kind, [])
        left, right = bisect_left(known, wanted), bisect_right(known, wanted)
        start, stop = {"lt": (0, left), "le": (0, right), "gt": (right, None), "ge": (left, None)}[op]
        first = self._first.get(kind, 1)
        low, high = first + start, first + (len(known) if stop is None else stop)
        return (self._rows >= low) & (self._rows < high)

    def containing(self, operand: Typed) -> Mask:
        """Rows whose list holds the operand."""
        first = self._first.get("list", 1)
        lists = self._sorted.get("list", [])
        return self._spread([first + n for n, items in enumerate(lists) if operand in items])

    def _spread(self, codes: Sequence[int]) -> Mask:
        if len(codes) == 1:
            equal: Mask = self._rows == codes[0]
            return equal
        table = np.zeros(len(self._code) + 1, dtype=np.bool_)
        table[list(codes)] = True
        spread: Mask = table[self._rows]
        return spread


class Columns:
    """All fields of a snapshot's rows; a column is built when a condition first names it."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._columns: dict[str, Column] = {}

    def mask(self, predicate: Predicate, among: Mask | None = None) -> Mask:
        """The rows that match; equal, row by row, to `predicate.matches(record)`.

        A predicate of the caller's own class is shown the rows of `among` alone, and says nothing
        of the others.
        """
        match predicate:
            case And(parts):
                return reduce(np.logical_and, (self.mask(p, among) for p in parts), self._all(True))
            case Or(parts):
                return reduce(np.logical_or, (self.mask(p, among) for p in parts), self._all(False))
            case Not(part):
                return ~self.mask(part, among)
            case Scope():
                return self.mask(predicate.lowered())
            case Everyone():
                return self._all(True)
            case Exists(name):
                return self.column(name).present()
            case OneOf(name, values, negated):
                column = self.column(name)
                return column.present() & ~column.one_of(values) if negated else column.one_of(values)
            case Compare(name, op):
                return self._compared(self.column(name), op, predicate.operand)
        shown = self._all(True) if among is None else among
        mask = self._all(False)
        for row in np.flatnonzero(shown).tolist():
            mask[row] = bool(predicate.matches(self._records[row]))
        return mask

    @cached_property
    def _known(self) -> set[str]:
        # A name that no record has is answered and not kept, or filters could fill the memory.
        return set(CORE_FIELDS).union(*(record.metadata for record in self._records))

    def column(self, name: str) -> Column:
        """The column of a field or metadata key."""
        if name not in self._known:
            return Column([None] * len(self._records))
        if name not in self._columns:
            self._columns[name] = Column(value_of(record, name) for record in self._records)
        return self._columns[name]

    def _compared(self, column: Column, op: str, operand: Typed) -> Mask:
        if op == "eq":
            return column.one_of((operand,))
        if op == "ne":
            return column.present() & ~column.one_of((operand,))
        if op == "contains":
            return column.containing(operand)
        return column.between(op, operand)

    def _all(self, value: bool) -> Mask:
        return np.full(len(self._records), value, dtype=np.bool_)
