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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from typing import TYPE_CHECKING, NoReturn, TypeVar

from ctxarith.errors import AlgebraError, PredicateError
from ctxarith.instant import iso
from ctxarith.kinds import Kind, Typed, compare, kind_of, typed, value_of
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
        if self.op not in SYMBOLS or kind_of(self.value) == "list":
            raise PredicateError(f"{self.name!r} cannot be compared by {self.op!r} with {self.value!r}")
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
        return f"{self.name} {SYMBOLS[self.op]} {_show(self.value)}"


@dataclass(frozen=True, slots=True)
class OneOf(Predicate):
    """Membership of a field's scalar in a set of typed values, or (`negated`) its absence from it."""

    name: str
    values: frozenset[Typed]
    negated: bool = False

    def matches(self, record: Record) -> bool:
        """False for a missing key, negated or not."""
        value = value_of(record, self.name)
        return value is not None and (typed(value) in self.values) != self.negated

    def __str__(self) -> str:
        shown = ", ".join(nsmallest(_SHOWN, (_show(value) for _, value in self.values)))
        more = f", and {len(self.values) - _SHOWN:,} more" if len(self.values) > _SHOWN else ""
        return f"{self.name} {'not in' if self.negated else 'in'} [{shown}{more}]"


@dataclass(frozen=True, slots=True)
class Exists(Predicate):
    """The field is there. An empty list counts as missing."""

    name: str

    def matches(self, record: Record) -> bool:
        """Whether the record holds a value under the name."""
        return value_of(record, self.name) is not None

    def __str__(self) -> str:
        return f"{self.name} exists"


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """All of the parts; with no part, every record."""

    parts: tuple[Predicate, ...]
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _depth(*self.parts))

    @classmethod
    def of(cls, *parts: Predicate) -> Predicate:
        """Flatten nested conjunctions; one part stays itself."""
        return _flat(cls, parts)

    def matches(self, record: Record) -> bool:
        """Whether every part holds."""
        return all(part.matches(record) for part in self.parts)

    def __str__(self) -> str:
        return _joined(" & ", self.parts) if self.parts else "every record"


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """Any of the parts; with no part, no record."""

    parts: tuple[Predicate, ...]
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _depth(*self.parts))

    @classmethod
    def of(cls, *parts: Predicate) -> Predicate:
        """Flatten nested disjunctions; one part stays itself."""
        return _flat(cls, parts)

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


_Junction = TypeVar("_Junction", And, Or)


def _flat(cls: type[_Junction], parts: Iterable[Predicate]) -> Predicate:
    flat: list[Predicate] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, cls) else (part,))
    return flat[0] if len(flat) == 1 else cls(tuple(flat))


def _depth(*parts: Predicate) -> int:
    """How deep a tree is; a deeper one than can be walked is refused where it is built."""
    if not all(isinstance(part, Predicate) for part in parts):
        raise PredicateError(f"conditions are made of conditions, not of {parts!r}")
    depth = 1 + max((getattr(part, "depth", 0) for part in parts), default=0)
    if depth > DEEPEST:
        raise PredicateError(f"a filter may be nested {DEEPEST} levels deep, and no deeper")
    return depth


def _joined(sign: str, parts: Sequence[Predicate]) -> str:
    shown = [f"({p})" if isinstance(p, And | Or) and p.parts else str(p) for p in parts[:_SHOWN]]
    more = [f"and {len(parts) - _SHOWN:,} more"] if len(parts) > _SHOWN else []
    return sign.join([*shown, *more])


def _show(value: object) -> str:
    return iso(value) if isinstance(value, datetime) else repr(value)


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The conditions that must all hold, one by one, for explanations."""
    return predicate.parts if isinstance(predicate, And) else (predicate,)


EVERY = And(())
NOTHING = Or(())
