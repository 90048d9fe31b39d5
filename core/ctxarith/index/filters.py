"""A predicate becomes a mask over rows, without evaluating it record by record."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ctxarith.index.columns import Answer, Column, Mask
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
        self._all_live = bool(live.all())

    def mask(self, predicate: Predicate, among: Mask | None = None) -> Mask:
        """The live rows that match; equal, row by row, to `predicate.matches(record)`.

        A predicate of the caller's own class is shown the rows of `among` alone, and says nothing
        of the others.
        """
        shown = self._live if among is None else among & self._live
        masks = [
            _spread(_answer(predicate, segment, shown[run]), len(segment))
            for segment, run in self._stack.parts()
        ]
        whole: Mask = masks[0] if len(masks) == 1 else np.concatenate([*masks, np.empty(0, np.bool_)])
        return whole if self._all_live else whole & self._live


def _spread(answer: Answer, size: int) -> Mask:
    return np.full(size, answer, np.bool_) if isinstance(answer, bool) else answer


def _answer(predicate: Predicate, segment: Segment, shown: Mask) -> Answer:
    """A mask over a segment's rows; or one word for all of them, which costs nothing to combine."""
    match predicate:
        case And(parts):
            return _joined(parts, segment, shown, neutral=True)
        case Or(parts):
            return _joined(parts, segment, shown, neutral=False)
        case Not(part):
            answer = _answer(part, segment, shown)
            return not answer if isinstance(answer, bool) else ~answer
        case Scope():
            return _answer(predicate.lowered(), segment, shown)
        case Everyone():
            return True
        case Exists(name) | OneOf(name) | Compare(name):
            column = segment.column(name)
            return False if column is None else _compared(column, predicate)
    mask = np.zeros(len(segment), np.bool_)
    for row in np.flatnonzero(shown).tolist():
        mask[row] = bool(predicate.matches(segment.record(row)))
    return mask


def _joined(parts: Iterable[Predicate], segment: Segment, shown: Mask, *, neutral: bool) -> Answer:
    """All of the parts (`neutral` is true) or any of them; a word that settles it ends the search."""
    join = np.logical_and if neutral else np.logical_or
    joined: Answer = neutral
    for part in parts:
        answer = _answer(part, segment, shown)
        if isinstance(answer, bool):
            if answer != neutral:
                return answer
        else:
            joined = answer if isinstance(joined, bool) else join(joined, answer)
    return joined


def _compared(column: Column, condition: Predicate) -> Answer:
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


def _one_of(column: Column, values: Iterable[Typed], *, negated: bool) -> Answer:
    found = column.one_of(values)
    if not negated:
        return found
    present = column.present()
    if isinstance(found, bool):
        return False if found else present
    return ~found if present is True else present & ~found
