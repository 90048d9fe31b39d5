"""LlamaIndex's metadata filters as conditions of ours; what cannot be held is refused, not dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from ctxarith.errors import PredicateError, short
from ctxarith.fields import Field
from ctxarith.predicate import And, Not, Or, Predicate
from ctxarith.where import Where, where

Filters = MetadataFilters | Where

_COMPARISONS: dict[FilterOperator, Callable[[Field, Any], Any]] = {
    FilterOperator.EQ: Field.__eq__,
    FilterOperator.NE: Field.__ne__,
    FilterOperator.GT: Field.__gt__,
    FilterOperator.GTE: Field.__ge__,
    FilterOperator.LT: Field.__lt__,
    FilterOperator.LTE: Field.__le__,
    FilterOperator.IN: Field.is_in,
    FilterOperator.NIN: Field.not_in,
    FilterOperator.CONTAINS: Field.contains,
}
_SEVERAL = {FilterOperator.ANY: Or, FilterOperator.ALL: And}


def predicate_of(filters: Filters | None) -> Predicate:
    """Compile filters, whatever their nesting; a predicate or a dict of ours passes as it is.

    The law is that of `ctxarith.predicate`, where LlamaIndex's stores differ among each other: a
    comparison with a missing key is false, `!=` and `nin` included; nothing is coerced; an empty `in`
    matches nothing. `any`, `all` and `contains` look for elements of a list, never for parts of a text.
    `NOT` matches where none of its filters match. `is_empty` is a missing key, an empty list or "".

    Raises:
        PredicateError: names the key and the operator: a text search (`text_match`), a value that does
            not fit the operator, an `all` of nothing, or a group without a condition.

    >>> from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
    >>> year = MetadataFilter(key="year", value=2025, operator=">=")
    >>> str(predicate_of(MetadataFilters(filters=[year, MetadataFilter(key="kind", value="lease")])))
    "year >= 2025 & kind = 'lease'"
    """
    if filters is None or isinstance(filters, Predicate | Mapping):
        return where(filters)
    if not isinstance(filters, MetadataFilters):
        raise PredicateError(f"a filter is MetadataFilters, a predicate or a dict, not {short(filters)}")
    try:
        return _group(filters)
    except RecursionError as error:
        raise PredicateError("this filter is nested too deeply to be read") from error


def _group(filters: MetadataFilters) -> Predicate:
    # LlamaIndex's stores take a group without a filter for "no filter": what was meant is not known.
    if not filters.filters:
        raise PredicateError("MetadataFilters holds no condition: pass None for no filter")
    parts = [_group(one) if isinstance(one, MetadataFilters) else _one(one) for one in filters.filters]
    condition = FilterCondition.AND if filters.condition is None else filters.condition
    if condition is FilterCondition.AND:
        return And.of(*parts)
    either = Or.of(*parts)
    return either if condition is FilterCondition.OR else Not(either)


def _one(given: MetadataFilter) -> Predicate:
    named = Field(given.key)
    if given.operator is FilterOperator.IS_EMPTY:
        return Or.of(Not(named.exists()), named == "")
    if given.operator in _SEVERAL:
        return _of_several(given)
    if given.operator not in _COMPARISONS:
        raise PredicateError(
            f"{short(given.key)} {given.operator.value}: this operator is not supported; "
            "the words of the question are searched in the text, and conditions compare whole values"
        )
    predicate: Predicate = _COMPARISONS[given.operator](named, given.value)
    return predicate


def _of_several(given: MetadataFilter) -> Predicate:
    if not isinstance(given.value, list):
        raise PredicateError(
            f"{short(given.key)} {given.operator.value} needs a list, not {short(given.value)}"
        )
    if not given.value and given.operator is FilterOperator.ALL:
        raise PredicateError(f"{short(given.key)} all []: all of nothing would match every record")
    return _SEVERAL[given.operator].of(*(Field(given.key).contains(value) for value in given.value))
