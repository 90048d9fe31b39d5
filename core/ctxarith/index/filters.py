"""A predicate becomes a mask over rows, without evaluating it record by record."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np

from ctxarith.index.columns import Column, Mask
from ctxarith.index.segment import Segment
from ctxarith.index.stack import Stack
from ctxarith.kinds import Typed
from ctxarith.predicate import And, Compare, Exists, Not, OneOf, Or, Predicate
from ctxarith.scopes import Everyone, Scope


class Filters:
    """The conditions of a caller, answered by the columns of each segment."""

    def __init__(self, stack: Stack, live: Mask) -> None:
        self._stack = stack
        self._live = live

    def mask(self, predicate: Predicate, among: Mask | None = None) -> Mask:
        """The live rows that match; equal, row by row, to `predicate.matches(record)`.

        A predicate of the caller's own class is shown the rows of `among` alone, and says nothing
        of the others.
        """
        shown = self._live if among is None else among & self._live
        masks = [_mask(predicate, segment, shown[run]) for segment, run in self._stack.parts()]
        whole: Mask = masks[0] if len(masks) == 1 else np.concatenate([*masks, np.empty(0, np.bool_)])
        return whole & self._live


def _mask(predicate: Predicate, segment: Segment, shown: Mask) -> Mask:
    match predicate:
        case And(parts):
            return reduce(np.logical_and, (_mask(p, segment, shown) for p in parts), _all(segment, True))
        case Or(parts):
            return reduce(np.logical_or, (_mask(p, segment, shown) for p in parts), _all(segment, False))
        case Not(part):
            return ~_mask(part, segment, shown)
        case Scope():
            return _mask(predicate.lowered(), segment, shown)
        case Everyone():
            return _all(segment, True)
        case Exists(name) | OneOf(name) | Compare(name):
            column = segment.column(name)
            return _all(segment, False) if column is None else _compared(column, predicate)
    mask = _all(segment, False)
    for row in np.flatnonzero(shown).tolist():
        mask[row] = bool(predicate.matches(segment.record(row)))
    return mask


def _compared(column: Column, condition: Predicate) -> Mask:
    match condition:
        case OneOf(_, values, negated):
            return _one_of(column, values, negated=negated)
        case Compare(_, "eq" | "ne" as op):
            return _one_of(column, (condition.operand,), negated=op == "ne")
        case Compare(_, "contains"):
            return column.containing(condition.operand)
        case Compare(_, op):
            return column.between(op, condition.operand)
    return column.present()


def _one_of(column: Column, values: Iterable[Typed], *, negated: bool) -> Mask:
    return column.present() & ~column.one_of(values) if negated else column.one_of(values)


def _all(segment: Segment, value: bool) -> Mask:
    return np.full(len(segment), value, dtype=np.bool_)
