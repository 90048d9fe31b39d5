"""Conditions on one record: one syntax tree, built with operators or read from a dict.

    field("lead_id") == "GJ-4521"
    (field("year") >= 2024) & ~field("status").is_in(["draft", "void"])
    where({"lead_id": "GJ-4521", "created_at": {"$gt": "2026-01-01"}})

The law, which every backend keeps:

* A comparison with a missing key is false, `!=` and `not_in` included. Only `~` is the true complement.
* Nothing is coerced between text, numbers, booleans and times; 3 and 3.0 are the same number.
* An empty `is_in` matches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING, NoReturn

from ctxarith.errors import AlgebraError, PredicateError, short
from ctxarith.kinds import (
    Kind,
    Typed,
    as_shown,
    check_name,
    comparable,
    compare,
    kind_of,
    named,
    typed,
    value_of,
)
from ctxarith.model import Record
from ctxarith.normalise import Scalar

SYMBOLS = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "contains": "contains"}


DEEPEST = 100
_SHOWN = 20


class Predicate:
    """A condition on one record. Combine with `&`, `|` and `~`; never with `and`, `or`, `not`."""

    __slots__ = ()

    def matches(self, record: Record) -> bool:
        """Evaluate in Python: the meaning that every backend is held against."""
        raise NotImplementedError

    def __and__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return And.of(self, other)

    def __or__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return Or.of(self, other)

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise AlgebraError(
            "a condition has no truth value of its own, so `and`, `or`, `not` and chained comparisons "
            "would drop half of it: use &, | and ~, with each comparison in parentheses"
        )

    if not TYPE_CHECKING:

        def __sub__(self, other: object) -> NoReturn:
            raise AlgebraError(
                "`-` binds tighter than `&`: write (semantic & scope(...)) - superseded, "
                "or `& ~condition` to exclude by a condition"
            )

        def __rshift__(self, other: object) -> NoReturn:
            raise AlgebraError(
                "`>>` binds tighter than `&`: write (semantic & scope(...)) >> stage, with the parentheses"
            )


@dataclass(frozen=True, slots=True)
class Compare(Predicate):
    """One comparison of a field with a scalar."""

    name: str
    op: str
    value: Scalar
    # Part of equality, since True == 1 in Python and a cache must tell them apart.
    kind: Kind = field(init=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.op, str) or self.op not in SYMBOLS or not comparable(self.op, self.value):
            raise PredicateError(
                f"{short(self.name)} cannot be compared by {short(self.op)} with {short(self.value)}"
            )
        object.__setattr__(self, "kind", kind_of(self.value))

    @property
    def operand(self) -> Typed:
        """The operand with its kind."""
        return typed(self.value)

    def matches(self, record: Record) -> bool:
        """See the law at the top of the module."""
        value = value_of(record, self.name)
        return value is not None and compare(self.op, self.operand, value)

    def __str__(self) -> str:
        return f"{named(self.name)} {SYMBOLS[self.op]} {as_shown(self.value)}"


@dataclass(frozen=True, slots=True)
class OneOf(Predicate):
    """Membership of a field's scalar in a set of typed values, or (`negated`) its absence from it."""

    name: str
    values: frozenset[Typed]
    negated: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.values, frozenset) or not all(isinstance(v, tuple) for v in self.values):
            raise PredicateError(f"{short(self.name)} needs a set of typed values, not {short(self.values)}")

    def matches(self, record: Record) -> bool:
        """False for a missing key, negated or not."""
        value = value_of(record, self.name)
        return value is not None and (typed(value) in self.values) != self.negated

    def __str__(self) -> str:
        shown = ", ".join(nsmallest(_SHOWN, (as_shown(value) for _, value in self.values)))
        more = f", and {len(self.values) - _SHOWN:,} more" if len(self.values) > _SHOWN else ""
        return f"{named(self.name)} {'not in' if self.negated else 'in'} [{shown}{more}]"


@dataclass(frozen=True, slots=True)
class Exists(Predicate):
    """The field is there. An empty list counts as missing."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name)

    def matches(self, record: Record) -> bool:
        """Whether the record holds a value under the name."""
        return value_of(record, self.name) is not None

    def __str__(self) -> str:
        return f"{named(self.name)} exists"


@dataclass(frozen=True, slots=True)
class Junction(Predicate):
    """Several conditions as one."""

    parts: tuple[Predicate, ...]
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple):
            raise PredicateError(f"conditions are a tuple, not {short(self.parts)}")
        object.__setattr__(self, "depth", _depth(*self.parts))

    @classmethod
    def of(cls, *parts: Predicate) -> Predicate:
        """Flatten what is nested in its own kind; one part stays itself."""
        flat: list[Predicate] = []
        for part in parts:
            flat.extend(part.parts if isinstance(part, cls) else (part,))
        return flat[0] if len(flat) == 1 else cls(tuple(flat))


@dataclass(frozen=True, slots=True)
class And(Junction):
    """All of the parts; with no part, every record."""

    def matches(self, record: Record) -> bool:
        """Whether every part holds."""
        return all(part.matches(record) for part in self.parts)

    def __str__(self) -> str:
        return _joined(" & ", self.parts) if self.parts else "every record"


@dataclass(frozen=True, slots=True)
class Or(Junction):
    """Any of the parts; with no part, no record."""

    def matches(self, record: Record) -> bool:
        """Whether some part holds."""
        return any(part.matches(record) for part in self.parts)

    def __str__(self) -> str:
        return _joined(" | ", self.parts) if self.parts else "no record"


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """The true complement, missing keys included."""

    part: Predicate
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _depth(self.part))

    def matches(self, record: Record) -> bool:
        """Whether the part does not hold."""
        return not self.part.matches(record)

    def __str__(self) -> str:
        return f"~({self.part})"


def _depth(*parts: Predicate) -> int:
    """How deep a tree is; a deeper one than can be walked is refused where it is built."""
    if not all(isinstance(part, Predicate) for part in parts):
        raise PredicateError(f"conditions are made of conditions, not of {short(parts)}")
    depth = 1 + max((getattr(part, "depth", 0) for part in parts), default=0)
    if depth > DEEPEST:
        raise PredicateError(f"a filter may be nested {DEEPEST} levels deep, and no deeper")
    return depth


def _joined(sign: str, parts: Sequence[Predicate]) -> str:
    shown = [f"({p})" if isinstance(p, And | Or) and p.parts else str(p) for p in parts[:_SHOWN]]
    more = [f"and {len(parts) - _SHOWN:,} more"] if len(parts) > _SHOWN else []
    return sign.join([*shown, *more])


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The conditions that must all hold, one by one, for explanations."""
    return predicate.parts if isinstance(predicate, And) else (predicate,)


EVERY = And(())
NOTHING = Or(())
