"""What may be compared with what: values carry their kind, and nothing is coerced between kinds."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from ctxarith.errors import PredicateError, short
from ctxarith.instant import iso
from ctxarith.model import TIME_FIELDS, Record
from ctxarith.normalise import Metadata

CORE_FIELDS = frozenset(
    {"id", "source_id", "version", "tenant", "scope", "supersedes", "source_type", "jurisdiction", "audience"}
    | {"token_count", "entity_count", *TIME_FIELDS}
)

Kind = str  # "bool", "number", "str", "time" or "list"
Typed = tuple[Kind, Any]

ORDERED = frozenset({"number", "str", "time"})


def kind_of(value: object) -> Kind:
    """The type that comparisons respect; booleans are not numbers."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "str"
    if isinstance(value, datetime):
        return "time"
    return "list"


def typed(value: Metadata) -> Typed:
    """A value with its kind, so that equal means the same kind as well; lists element by element.

    >>> typed(True) == typed(1), typed((1,)) == typed((1.0,)), typed((1,)) == typed((True,))
    (False, True, False)
    """
    if isinstance(value, tuple):
        return ("list", tuple(typed(one) for one in value))
    return (kind_of(value), value)


def value_of(record: Record, name: str) -> Metadata | None:
    """What a record holds under a name; `None` when the key is missing."""
    if name in CORE_FIELDS:
        value = getattr(record, name)
        return None if value == () else value
    return record.metadata.get(name)


def compare(op: str, operand: Typed, value: Metadata) -> bool:
    """Whether a present value stands in the relation `op` to the operand."""
    kind, wanted = operand
    if op == "contains":
        return isinstance(value, tuple) and any(typed(one) == operand for one in value)
    same = typed(value) == operand
    if op in ("eq", "ne"):
        return same == (op == "eq")
    if kind_of(value) != kind or kind not in ORDERED:
        return False
    if same:
        return op in ("le", "ge")
    return bool(value < wanted) == (op in ("lt", "le"))


def check_name(name: object) -> None:
    """Refuse what no record can have as a key."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise PredicateError(f"a field name is printable text, not {short(name)}")


def comparable(op: str, value: object) -> bool:
    """Whether a value can stand on the right of an operator."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    ordered = op not in ("lt", "le", "gt", "ge") or kind_of(value) in ORDERED
    return isinstance(value, str | bool | int | float | datetime) and ordered


def named(name: str) -> str:
    """A field name as it is shown."""
    return name if len(name) <= 80 else short(name)


def as_shown(value: object) -> str:
    """A value as it is shown in a condition."""
    return iso(value) if isinstance(value, datetime) else short(value)
