"""Conditions as JSON and back, in one spelling: equal conditions give equal text."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from ctxarith.errors import PredicateError, short
from ctxarith.instant import instant, iso
from ctxarith.kinds import Typed, typed
from ctxarith.predicate import And, Compare, Exists, Not, OneOf, Or, Predicate
from ctxarith.scopes import Everyone, Scope, everyone


def is_known(predicate: Predicate) -> bool:
    """Whether a condition is made of this library's own parts, which read no text."""
    match predicate:
        case And(parts) | Or(parts):
            return all(map(is_known, parts))
        case Not(part):
            return is_known(part)
    return type(predicate) in (Compare, OneOf, Exists, Scope, Everyone)


def encoded(predicate: Predicate) -> Any:
    """A condition as JSON values; the order of what is joined by `&` and `|` plays no part.

    Raises:
        PredicateError: for a condition of the caller's own class.
    """
    match predicate:
        case And(parts) | Or(parts):
            word = "and" if isinstance(predicate, And) else "or"
            return [word, sorted(map(encoded, parts), key=canonical)]
        case Not(part):
            return ["not", encoded(part)]
        case Compare(name, op, value):
            return ["compare", name, op, _value(typed(value))]
        case OneOf(name, values, negated):
            return ["in", name, sorted(map(_value, values), key=canonical), negated]
        case Exists(name):
            return ["exists", name]
        case Scope(paths, inherit):
            return ["scope", sorted(paths), inherit]
        case Everyone():
            return ["everyone"]
    raise PredicateError(f"a condition of your own class cannot be written down: {short(predicate)}")


def decoded(plain: Any) -> Predicate:
    """The condition that `encoded` wrote."""
    match plain:
        case ["and", parts]:
            return And.of(*map(decoded, parts))
        case ["or", parts]:
            return Or.of(*map(decoded, parts))
        case ["not", part]:
            return Not(decoded(part))
        case ["compare", name, op, value]:
            return Compare(name, op, _read(value)[1])
        case ["in", name, values, negated]:
            return OneOf(name, frozenset(map(_read, values)), negated)
        case ["exists", name]:
            return Exists(name)
        case ["scope", paths, inherit]:
            return Scope(tuple(paths), inherit)
        case ["everyone"]:
            return everyone
    raise PredicateError(f"this is no condition: {short(plain)}")


def canonical(plain: Any) -> str:
    """One spelling of JSON values."""
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _value(given: Typed) -> list[Any]:
    kind, value = given
    if kind == "list":
        return [kind, [_value(one) for one in value]]
    if isinstance(value, datetime):
        return [kind, iso(value)]
    # 3 and 3.0 are the same number.
    return [kind, int(value) if isinstance(value, float) and value.is_integer() else value]


def _read(plain: Any) -> Typed:
    kind, value = plain
    if kind == "list":
        return kind, tuple(map(_read, value))
    return kind, instant(value) if kind == "time" else value
