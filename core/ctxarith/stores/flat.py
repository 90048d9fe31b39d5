"""Records as flat metadata and back, without loss.

Every field and metadata key stands under its own name, so that other tools can read and filter it.
Times are epoch seconds. What flat metadata cannot say is said beside it under keys that begin with
`ctx_`: which keys are times and which are lists, slots as JSON, the revision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from ctxarith.instant import EPOCH, instant, iso
from ctxarith.model import Record
from ctxarith.plain import jsonable, record_as_dict, record_from

Flat = dict[str, Any]

REVISION = "ctx_revision"
TIMES = "ctx_times"
SLOTS = "ctx_slots"
LISTS = "ctx_lists"

_CORE = tuple(f.name for f in fields(Record) if f.name not in ("text", "slots", "metadata"))


def flatten(record: Record, revision: int) -> Flat:
    """Flat metadata of a record; its text is stored as the document."""
    times: dict[str, str | None] = {}
    flat: Flat = {REVISION: revision}
    for name in _CORE:
        value = getattr(record, name)
        if value is not None and value != ():
            flat[name] = _flat(name, value, times)
    for name, value in record.metadata.items():
        flat[name] = _flat(name, value, times)
    if times:
        flat[TIMES] = json.dumps(times)
    if lists := [name for name, value in flat.items() if isinstance(value, list)]:
        flat[LISTS] = json.dumps(lists)
    if record.slots:
        flat[SLOTS] = json.dumps(_tagged(record_as_dict(record)["slots"]))
    return flat


def restore(flat: Mapping[str, Any], text: str) -> tuple[Record, int]:
    """The record that `flatten` was given, and its revision."""
    times: dict[str, str | None] = json.loads(flat.get(TIMES) or "{}")
    lists: list[str] = json.loads(flat.get(LISTS) or "[]")
    known: dict[str, Any] = {"text": text, "metadata": {}}
    for name, value in flat.items():
        # Chroma (1.5.9, issue 7594) gives new rows the lists of a collection that was deleted.
        if name.startswith("ctx_") or (isinstance(value, list) and name not in lists):
            continue
        given = _time(value, times[name]) if name in times else _listed(value)
        (known if name in _CORE else known["metadata"])[name] = given
    if flat.get(SLOTS):
        known["slots"] = _untagged(json.loads(flat[SLOTS]))
    return record_from(known), int(flat.get(REVISION, 0))


def seconds(moment: datetime) -> int | float:
    """Epoch seconds; whole ones as an integer."""
    exact = moment - EPOCH
    whole = exact // timedelta(seconds=1)
    return whole if timedelta(seconds=whole) == exact else exact.total_seconds()


def _flat(name: str, value: Any, times: dict[str, str | None]) -> Any:
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple):
        if not isinstance(value[0], datetime):
            return list(value)
        times[name] = None
        return [iso(one) for one in value]
    number = seconds(value)
    # Far from 1970 a float no longer holds microseconds; then the exact time stands beside it.
    times[name] = None if _exact(number, value) else iso(value)
    return number


def _exact(number: float, value: datetime) -> bool:
    try:
        return instant(number) == value
    except ValueError:  # rounded up into the year 10000
        return False


def _time(value: Any, exact: str | None) -> Any:
    if isinstance(value, list | tuple):
        return tuple(instant(one) for one in value)
    return instant(value if exact is None else exact)


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _tagged(slots: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**s, "time": True, "value": jsonable(s["value"])} if _is_time(s) else s for s in slots]


def _untagged(slots: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"subject": s["subject"], "attribute": s["attribute"], "value": instant(s["value"])}
        if s.pop("time", False)
        else s
        for s in slots
    ]


def _is_time(slot: dict[str, Any]) -> bool:
    return isinstance(slot.get("value"), datetime)
