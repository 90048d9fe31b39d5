"""Records as plain mappings and back, and values as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from ctxarith.errors import RecordError
from ctxarith.instant import iso
from ctxarith.model import Record, Slot


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
    names = {f.name for f in fields(Record)}
    for key in data:
        if key not in names:
            raise RecordError(rid, str(key), data[key], "not a field of Record; put it into metadata")
    for key in ("id", "text"):
        if key not in data:
            raise RecordError(rid, key, None, "is required")
    given = {k: v for k, v in data.items() if v is not None or k in ("id", "text")}
    return Record(**given)


def record_as_dict(record: Record) -> dict[str, Any]:
    """A plain, JSON-ready mapping; `record_from` reads it back to an equal record."""
    plain: dict[str, Any] = {}
    for f in fields(Record):
        value = getattr(record, f.name)
        if value is None or value == () or (f.name == "metadata" and not value):
            continue
        if f.name == "slots":
            value = [_slot_as_dict(slot) for slot in value]
        elif isinstance(value, Mapping):
            value = dict(value)
        plain[f.name] = value
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
