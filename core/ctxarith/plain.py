"""Records as plain mappings and back, and values as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from typing import Any

from ctxarith.errors import RecordError
from ctxarith.instant import iso
from ctxarith.model import Record, Slot

FIELDS = tuple(f.name for f in fields(Record))
# What the border does not see: each field's own setter, past the frozen `__setattr__`.
_SETTERS: tuple[Any, ...] = tuple(vars(Record)[name].__set__ for name in FIELDS)

values_of = attrgetter(*FIELDS)


def trusted(values: Iterable[object]) -> Record:
    """A record of the values of its fields, in the order of `FIELDS`, without looking at them again.

    Only for values that have passed the border: metadata is a read-only mapping, lists are tuples,
    times are in UTC. Everything else goes through `Record` or `record_from`.

    >>> known = Record(id="r1", text="Rent is 900 EUR")
    >>> trusted(values_of(known)) == known
    True
    """
    record = object.__new__(Record)
    for put, value in zip(_SETTERS, values, strict=True):
        put(record, value)
    return record


def record_from(data: Mapping[str, Any]) -> Record:
    """Make a record of a mapping whose keys are the field names.

    Raises:
        RecordError: also for an unknown key, so that a misspelt field is never lost.

    >>> record_from({"id": "r1", "text": "Rent is 900 EUR", "metadata": {"kind": "lease"}}).source_id
    'r1'
    """
    if not isinstance(data, Mapping):
        raise RecordError(None, "record", data, "expected a Record or a mapping of its fields")
    rid = data.get("id")
    for key in data:
        if key not in FIELDS:
            raise RecordError(rid, str(key), data[key], "not a field of Record; put it into metadata")
    for key in ("id", "text"):
        if key not in data:
            raise RecordError(rid, key, None, "is required")
    given = {k: v for k, v in data.items() if v is not None or k in ("id", "text")}
    return Record(**given)


def record_as_dict(record: Record) -> dict[str, Any]:
    """A plain, JSON-ready mapping; `record_from` reads it back to an equal record."""
    plain = {k: v for k, v in zip(FIELDS, values_of(record), strict=True) if v is not None and v != ()}
    if record.slots:
        plain["slots"] = [_slot_as_dict(slot) for slot in record.slots]
    if record.metadata:
        plain["metadata"] = dict(record.metadata)
    else:
        del plain["metadata"]
    return plain


def _slot_as_dict(slot: Slot) -> dict[str, Any]:
    plain: dict[str, Any] = {"subject": slot.subject, "attribute": slot.attribute}
    if slot.value is not None:
        plain["value"] = slot.value
    if slot.inferred:
        plain["inferred"] = True
    return plain


def jsonable(value: object) -> object:
    """Times as ISO text, tuples as lists: for `--json` and for hashing.

    >>> from datetime import UTC
    >>> jsonable({"at": datetime(2026, 3, 1, tzinfo=UTC), "tags": ("a",)})
    {'at': '2026-03-01T00:00:00Z', 'tags': ['a']}
    """
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    return value
