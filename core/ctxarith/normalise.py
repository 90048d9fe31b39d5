"""The border: what comes in is cleaned once here, or refused by name."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from datetime import date, datetime, tzinfo
from functools import lru_cache
from typing import Any

import numpy as np

from ctxarith.errors import RecordError, ScopeError, short
from ctxarith.instant import instant

Scalar = str | int | float | bool | datetime
Metadata = Scalar | tuple[Scalar, ...]

_NUMPY = (np.bool_, np.integer, np.floating, np.str_)
LARGEST_INT = 2**63 - 1
LONGEST_SCOPE = 1024


def clean_text(rid: object, name: str, value: object) -> str:
    r"""Text without lone surrogates and NUL, which no store keeps faithfully.

    >>> clean_text("r1", "text", "a\x00b\ud800c")
    'ab\ufffdc'
    """
    if type(value) is str and value.isascii() and "\x00" not in value:
        return value
    if not isinstance(value, str):
        raise RecordError(rid, name, value, "expected text")
    plain = str.__str__(value)  # a member of a text enumeration is its value, not its name
    return plain.replace("\x00", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean_id(rid: object, value: object, name: str, *, limit: int) -> str:
    """An identifier as it was given, or a refusal: a changed id would lose its record."""
    # What is printable holds neither; this is nearly every id, and each record has several.
    if type(value) is str and value.isprintable() and len(value) <= limit and value.strip():
        return value
    if not isinstance(value, str):
        raise RecordError(rid, name, value, "expected text")
    if not value.strip():
        raise RecordError(rid, name, value, "is empty or blank")
    if len(value) > limit:
        raise RecordError(rid, name, value, f"has {len(value)} characters, at most {limit} are allowed")
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in value):
        raise RecordError(rid, name, value, "holds a control character or a lone surrogate")
    return str.__str__(value)


def clean_scope(path: object, *, record: object = None) -> str:
    """A scope path in its one form: NFC, no empty, `.` or `..` segment, no slash at either end.

    Raises:
        RecordError: when the path belongs to a record.
        ScopeError: otherwise.

    >>> clean_scope("jkshah/ca-foundation/")
    'jkshah/ca-foundation'
    """
    if type(path) is str and len(path) <= LONGEST_SCOPE:
        rule, clean = _scope(path)
    else:
        rule, clean = _judged_scope(path)
    if rule is None:
        return clean
    if record is not None:
        raise RecordError(record, "scope", path, rule)
    raise ScopeError(f"scope {short(path)}: {rule}")


def _judged_scope(path: object) -> tuple[str | None, str]:
    """(the rule that a path breaks, its one form)."""
    rule = _scope_rule(path)
    return rule, "" if rule else unicodedata.normalize("NFC", str.__str__(path)).strip("/")


# Thousands of records share a path.
_scope = lru_cache(maxsize=4096)(_judged_scope)


def _scope_rule(path: object) -> str | None:
    if not isinstance(path, str):
        return "a scope is a path such as 'acme/ops'"
    if len(path) > LONGEST_SCOPE:
        return f"longer than {LONGEST_SCOPE} characters"
    if path in ("", "/"):
        return None
    # One slash at either end is a habit; two are an empty segment.
    inner = path.removeprefix("/").removesuffix("/")
    for segment in unicodedata.normalize("NFC", inner).split("/"):
        if segment.strip() in ("", ".", ".."):
            return "empty, '.' and '..' segments are not allowed"
        if any(unicodedata.category(c) in ("Cc", "Cs") for c in segment):
            return "holds a control character or a lone surrogate"
    return None


def clean_time(rid: object, name: str, value: Any) -> datetime | None:
    """A time in UTC. One without an offset is kept as it is: the corpus knows the zone, or refuses."""
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is None:
        return value
    try:
        return instant(value)
    except ValueError as error:
        if isinstance(value, str) and (naive := _naive(value)) is not None:
            return naive
        raise RecordError(rid, name, value, str(error)) from error


def _naive(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo is None else None


def settle_time(rid: object, name: str, value: datetime, zone: tzinfo | None) -> datetime:
    """Put a time without an offset into the corpus's zone, or refuse it."""
    try:
        return instant(value, naive_zone=zone)
    except ValueError as error:
        raise RecordError(rid, name, value, str(error)) from error


def clean_words(rid: object, name: str, value: object) -> tuple[str, ...]:
    """A list of identifiers without repeats, in the order given; one string counts as one."""
    if value is None:
        return ()
    given = (value,) if isinstance(value, str) else value
    if type(given) is tuple and not given:
        return ()
    if not isinstance(given, list | tuple | set | frozenset):
        raise RecordError(rid, name, value, "expected a list of strings")
    ordered = sorted(given, key=str) if isinstance(given, set | frozenset) else given
    return tuple(dict.fromkeys(clean_id(rid, one, name, limit=512) for one in ordered))


def clean_metadata(rid: object, value: object, reserved: frozenset[str]) -> dict[str, Metadata]:
    """Flat metadata. `None` and empty lists mean the same as a missing key and are left out."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RecordError(rid, "metadata", value, "expected a mapping")
    clean: dict[str, Metadata] = {}
    for key, given in value.items():
        name = clean_id(rid, key, "metadata key", limit=256)
        if name in reserved or name.startswith(("ctx_", "chroma:", "$", "#")):
            raise RecordError(rid, f"metadata.{name}", given, "this key is reserved")
        if given is not None and not (isinstance(given, list | tuple) and len(given) == 0):
            clean[name] = clean_value(rid, f"metadata.{name}", given)
    return clean


def clean_value(rid: object, name: str, value: Any) -> Metadata:
    """One metadata value: a scalar, or a list of scalars of one type."""
    if isinstance(value, list | tuple):
        items = tuple(_scalar(rid, name, one) for one in value)
        kinds = {type(one) for one in items}
        if kinds == {int, float} and all(float(one) == one for one in items):  # type: ignore[arg-type]
            return tuple(float(one) for one in items)  # type: ignore[arg-type]
        if len(kinds) > 1:
            raise RecordError(rid, name, value, "a list holds values of one type")
        return items
    return _scalar(rid, name, value)


def plain_number(value: Any) -> Any:
    """A numpy scalar as Python's own; everything else as it is, for the checks that follow."""
    return value.item() if isinstance(value, _NUMPY) else value


def _scalar(rid: object, name: str, value: Any) -> Scalar:
    if type(value) is str:
        return clean_text(rid, name, value)
    value = plain_number(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > LARGEST_INT:
            raise RecordError(rid, name, value, "integers have at most 63 bits; keep it as text")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise RecordError(rid, name, value, "NaN and infinity cannot be compared or stored")
        return float(value)
    if isinstance(value, str):
        return clean_text(rid, name, value)
    if isinstance(value, datetime):
        return value if value.tzinfo is None else settle_time(rid, name, value, None)
    if isinstance(value, date):
        return instant(value)
    raise RecordError(
        rid, name, value, "metadata is flat: str, int, float, bool, datetime, or a list of one of these"
    )
