"""Predicates as Chroma filters: never narrower than they are, so that a check afterwards makes them exact."""

from __future__ import annotations

from typing import Any

from ctxarith.flat import HIDDEN, seconds
from ctxarith.model import TIME_FIELDS
from ctxarith.predicate import And, Compare, OneOf, Or, Predicate
from ctxarith.scopes import Scope

ChromaWhere = dict[str, Any]

# Above this, SQLite's number of variables is in danger; and no double holds every integer.
_LARGEST_SET = 500
_LARGEST_EXACT = 2**53

# Lists whose elements Chroma can be asked for.
_RANGES = {"lt": "$lte", "le": "$lte", "gt": "$gte", "ge": "$gte"}


def narrowing(predicate: Predicate) -> ChromaWhere | None:
    """A Chroma filter that every matching record passes; `None` when Chroma cannot narrow.

    Ranges are widened by their end point, since times are stored as doubles.
    """
    match predicate:
        case And(parts):
            narrower = [w for w in map(narrowing, parts) if w is not None]
            # Chroma refuses deep trees; with fewer parts the filter is only wider.
            return _joined("$and", narrower[:_LARGEST_SET])
        case Or(parts) if len(parts) <= _LARGEST_SET:
            branches = [narrowing(part) for part in parts]
            # One branch that cannot be narrowed opens the whole disjunction.
            return None if None in branches else _joined("$or", [b for b in branches if b is not None])
        case Scope():
            return narrowing(predicate.lowered())
        case OneOf(name) | Compare(name) if name in HIDDEN:
            return None
        case OneOf(name, values, negated=False) if 0 < len(values) <= _LARGEST_SET:
            branches = [_equal(name, kind, value) for kind, value in values]
            return None if None in branches else _joined("$or", [b for b in branches if b is not None])
        case Compare(name, "eq", value):
            return _equal(name, predicate.kind, value)
        case Compare(name, "contains", value) if predicate.kind in ("str", "bool"):
            return {name: {"$contains": value}}
        case Compare(name, op, value) if op in _RANGES and predicate.kind in ("number", "time"):
            number = _stored(predicate.kind, value)
            return {name: {_RANGES[op]: number}} if _exact(number) else None
    return None


def compiles_exactly(predicate: Predicate) -> bool:
    """Whether the filter of `narrowing` means exactly the predicate, for the record of a plan."""
    match predicate:
        case And(parts) | Or(parts):
            return bool(parts) and all(map(compiles_exactly, parts))
        case OneOf(name) | Compare(name) if name in HIDDEN:
            return False
        case OneOf(name, values, negated=False):
            return narrowing(predicate) is not None and all(kind in ("str", "bool") for kind, _ in values)
        case Compare(name, "eq", _):
            return predicate.kind in ("str", "bool") and name not in TIME_FIELDS
        case Compare(_, "contains", _):
            # Lists of times are stored as text, so that text may find one.
            return predicate.kind == "bool"
    return False


def _equal(name: str, kind: str, value: Any) -> ChromaWhere | None:
    stored = _stored(kind, value)
    return {name: {"$eq": stored}} if _exact(stored) else None


def _stored(kind: str, value: Any) -> Any:
    return seconds(value) if kind == "time" else value


def _exact(value: Any) -> bool:
    return isinstance(value, str | bool) or abs(value) <= _LARGEST_EXACT


def _joined(sign: str, branches: list[ChromaWhere]) -> ChromaWhere | None:
    if not branches:
        return None
    return branches[0] if len(branches) == 1 else {sign: branches}
