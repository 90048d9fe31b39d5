"""Conditions written with operators: `field("lead_id") == "GJ-4521"`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, NoReturn

from ctxarith.errors import AlgebraError, PredicateError, short
from ctxarith.instant import instant
from ctxarith.kinds import ORDERED, Typed, kind_of, typed
from ctxarith.model import TIME_FIELDS
from ctxarith.normalise import Scalar, plain_number
from ctxarith.predicate import SYMBOLS, Compare, Exists, OneOf, Predicate

UNFILTERABLE = frozenset({"text", "slots", "metadata", "content_hash"})


class Field:
    """The name of a record's field or metadata key; its comparisons are predicates."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name.strip():
            raise PredicateError(f"a field name is non-empty text, not {short(name)}")
        if not name.isprintable():
            raise PredicateError(f"a field name holds a control character: {short(name)}")
        if name in UNFILTERABLE:
            raise PredicateError(
                f"{short(name)} cannot be used in a condition; put what you need into metadata"
            )
        self.name = name

    def __eq__(self, other: object) -> Predicate:  # type: ignore[override]
        return self._compare("eq", other)

    def __ne__(self, other: object) -> Predicate:  # type: ignore[override]
        return self._compare("ne", other)

    def __lt__(self, other: object) -> Predicate:
        return self._compare("lt", other)

    def __le__(self, other: object) -> Predicate:
        return self._compare("le", other)

    def __gt__(self, other: object) -> Predicate:
        return self._compare("gt", other)

    def __ge__(self, other: object) -> Predicate:
        return self._compare("ge", other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"field({self.name!r})"

    def contains(self, value: object) -> Predicate:
        """The field is a list and holds this element (never a substring)."""
        return self._compare("contains", value)

    def is_in(self, values: Iterable[object]) -> Predicate:
        """The field's scalar is one of these; of none, nothing."""
        return OneOf(self.name, self._set("$in", values))

    def not_in(self, values: Iterable[object]) -> Predicate:
        """The field is there and is none of these."""
        return OneOf(self.name, self._set("$nin", values), negated=True)

    def exists(self) -> Predicate:
        """The record has this field."""
        return Exists(self.name)

    def __bool__(self) -> NoReturn:
        raise AlgebraError(f"field({self.name!r}) alone is not a condition: compare it, or use .exists()")

    if not TYPE_CHECKING:

        def _unparenthesised(self, other: object) -> NoReturn:
            raise AlgebraError(
                "`&` and `|` bind tighter than comparisons: "
                'write (field("a") == 1) & (field("b") == 2), each comparison in parentheses'
            )

        __and__ = __rand__ = __or__ = __ror__ = _unparenthesised

    def _compare(self, op: str, operand: object) -> Predicate:
        value = operand_of(self.name, SYMBOLS[op], operand)
        if op in ("lt", "le", "gt", "ge") and kind_of(value) not in ORDERED:
            raise PredicateError(
                f"{self.name!r} {SYMBOLS[op]} {short(operand)}: a {kind_of(value)} has no order"
            )
        return Compare(self.name, op, value)

    def _set(self, op: str, values: Iterable[object]) -> frozenset[Typed]:
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise PredicateError(f"{self.name!r} {op} needs a list, not {short(values)}")
        clean = [operand_of(self.name, op, one) for one in values]
        return frozenset(typed(one) for one in clean)


def field(name: str) -> Field:
    """A record's field (`created_at`, `scope`, ...) or a key of its metadata.

    >>> str((field("language").is_in(["gu", "hi"])) & (field("fee") > 500))
    "language in ['gu', 'hi'] & fee > 500"
    """
    return Field(name)


def operand_of(name: str, op: str, value: Any) -> Scalar:
    """The right-hand side of a comparison as a clean scalar.

    Raises:
        PredicateError: names the key and the operator.
    """
    value = plain_number(value)
    if name in TIME_FIELDS or (isinstance(value, date) and not isinstance(value, bool)):
        try:
            return instant(value)
        except ValueError as error:
            raise PredicateError(f"{short(name)} {op} {short(value)}: {error}") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise PredicateError(f"{short(name)} {op} {short(value)}: NaN and infinity cannot be compared")
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | int | float):
        return value
    raise PredicateError(
        f"{short(name)} {op} {short(value)}: compare with text, a number, a boolean or a time; "
        "for a list use is_in or $in, for a missing key use exists or $exists"
    )
