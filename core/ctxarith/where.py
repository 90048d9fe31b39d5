"""Predicates read from dicts, as Mongo, Chroma and most vector stores write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from ctxarith.errors import PredicateError, short
from ctxarith.fields import Field
from ctxarith.predicate import EVERY, And, Not, Or, Predicate

Where = Predicate | Mapping[str, Any]

_COMPARISONS: dict[str, Callable[[Field, Any], Any]] = {
    "$eq": Field.__eq__,
    "$ne": Field.__ne__,
    "$gt": Field.__gt__,
    "$gte": Field.__ge__,
    "$lt": Field.__lt__,
    "$lte": Field.__le__,
    "$in": Field.is_in,
    "$nin": Field.not_in,
    "$contains": Field.contains,
}
OPERATORS = (*_COMPARISONS, "$not_contains", "$exists")
JUNCTIONS = ("$and", "$or", "$not")


def where(condition: Where | None) -> Predicate:
    """Read a condition; plain keys are AND-ed, and no condition is ever dropped.

    Raises:
        PredicateError: for an unknown operator (with the nearest known one), an empty operator dict,
            NaN, or a value that cannot be compared. The message names the key and the operator.

    >>> str(where({"kind": "lease", "year": {"$gte": 2025, "$lt": 2027}}))
    "kind = 'lease' & year >= 2025 & year < 2027"
    """
    if condition is None:
        return EVERY
    if isinstance(condition, Predicate):
        return condition
    if not isinstance(condition, Mapping):
        raise PredicateError(f"a filter is a predicate or a dict, not {short(condition)}")
    try:
        return And.of(*(_entry(key, value) for key, value in condition.items()))
    except RecursionError as error:
        raise PredicateError("this filter is nested too deeply to be read") from error


def _entry(key: object, value: Any) -> Predicate:
    if not isinstance(key, str):
        raise PredicateError(f"filter keys are text, not {short(key)}")
    if key == "$not":
        return Not(_branch(key, value))
    if key in ("$and", "$or"):
        if not isinstance(value, list | tuple) or not value:
            raise PredicateError(f"{key} needs a non-empty list of filters, not {short(value)}")
        parts = [_branch(key, one) for one in value]
        return And.of(*parts) if key == "$and" else Or.of(*parts)
    if key.startswith("$"):
        raise PredicateError(f"unknown operator {short(key)} at the place of a field{_hint(key, JUNCTIONS)}")
    if isinstance(value, Mapping):
        if not value:
            raise PredicateError(f"{short(key)} has an empty operator dict: name an operator such as $eq")
        return And.of(*(_condition(key, op, operand) for op, operand in value.items()))
    return _condition(key, "$eq", value)


def _branch(key: str, value: Any) -> Predicate:
    if isinstance(value, Predicate):
        return value
    if not isinstance(value, Mapping) or not value:
        raise PredicateError(f"{key} needs filters with at least one condition, not {short(value)}")
    return where(value)


def _condition(key: str, op: object, operand: Any) -> Predicate:
    if op == "$exists":
        if not isinstance(operand, bool):
            raise PredicateError(f"{short(key)} $exists needs true or false, not {short(operand)}")
        exists = Field(key).exists()
        return exists if operand else Not(exists)
    if op == "$not_contains":
        return And.of(Field(key).exists(), Not(Field(key).contains(operand)))
    if not isinstance(op, str) or op not in _COMPARISONS:
        raise PredicateError(f"{short(key)} has an unknown operator {short(op)}{_hint(str(op), OPERATORS)}")
    predicate: Predicate = _COMPARISONS[op](Field(key), operand)
    return predicate


def _hint(given: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(given, known, n=1)
    return f": did you mean {near[0]}?" if near else f": known are {', '.join(known)}"
