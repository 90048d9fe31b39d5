"""What may be compared with what: values carry their kind, and nothing is coerced between kinds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

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
