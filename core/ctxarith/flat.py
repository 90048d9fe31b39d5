"""Records as flat metadata and back, without loss.

What other tools may want to read and filter by stands under its own name: tenant, scope, dates, rights
and every metadata key; source and version where they say something. Times are epoch seconds. The rest is
one JSON text under `ctx_record`, since each key of its own costs Chroma some 40 microseconds a row: the
id, the revision, counts and hash, slots, and which keys are times or lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from ctxarith.instant import EPOCH, instant, iso
from ctxarith.model import TIME_FIELDS, Record
from ctxarith.plain import FIELDS, jsonable, record_as_dict, record_from, trusted

Flat = dict[str, Any]

BESIDE = "ctx_record"
# Fields that no filter of another tool finds, or not always.
HIDDEN = frozenset(("id", "source_id", "version", "token_count", "entity_count"))

_APART = ("text", "slots", "metadata", "id", "token_count", "entity_count", "content_hash")
_COUNTED = ("token_count", "entity_count", "content_hash")
_CORE = tuple(name for name in FIELDS if name not in _APART)
_core_of = attrgetter(*_CORE)
# The types in which the fields come back.
_KINDS: dict[str, type] = dict.fromkeys((*_CORE, "id", "content_hash"), str)
_KINDS |= dict.fromkeys(TIME_FIELDS, datetime) | dict.fromkeys(("supersedes", "audience"), tuple)
_KINDS |= dict.fromkeys(("token_count", "entity_count"), int)
_SCALARS = frozenset((str, int, float, bool, datetime))
_NEAR = 1_900 * 365 * 86_400  # so many seconds before or after 1970 are a year between 1 and 9999
_ABSENT: dict[str, Any] = {**dict.fromkeys(_KINDS), "slots": (), "supersedes": (), "audience": ()}


def flatten(record: Record, revision: int) -> Flat:
    """Flat metadata of a record; its text is stored as the document."""
    flat: Flat = {}
    times: dict[str, str | None] = {}
    for name, value in zip(_CORE, _core_of(record), strict=True):
        if value is not None and value != ():
            flat[name] = _flat(name, value, times)
    if record.source_id == record.id:
        del flat["source_id"]
    if record.version == "1":
        del flat["version"]
    for name, value in record.metadata.items():
        flat[name] = _flat(name, value, times)
    beside: dict[str, Any] = {"id": record.id, "revision": revision}
    beside |= {name: value for name in _COUNTED if (value := getattr(record, name)) is not None}
    lists = [name for name, value in flat.items() if isinstance(value, list)]
    if times:
        beside["times"] = times
    if lists:
        beside["lists"] = lists
    if record.slots:
        beside["slots"] = _tagged(record_as_dict(record)["slots"])
    flat[BESIDE] = json.dumps(beside)
    return flat


def restore(flat: Mapping[str, Any], text: str) -> tuple[Record, int]:
    """The record that `flatten` was given, and its revision.

    Raises:
        ValueError, KeyError, TypeError, CtxArithError: something else wrote this.
    """
    beside = read_json(flat[BESIDE])
    if not isinstance(beside, dict) or not isinstance(beside.get("slots", []), list):
        raise ValueError(f"{BESIDE} is not what was written")
    times, lists = beside.get("times", {}), beside.get("lists", ())
    core: dict[str, Any] = {"id": beside["id"], "source_id": beside["id"], "version": "1"}
    core |= {name: beside[name] for name in _COUNTED if name in beside}
    metadata: dict[str, Any] = {}
    for name, value in flat.items():
        # Chroma (1.5.9, issue 7594) gives new rows the lists of a collection that was deleted.
        if name.startswith("ctx_") or (isinstance(value, list) and name not in lists):
            continue
        given = _time(value, times[name]) if name in times else _listed(value)
        (core if name in _KINDS else metadata)[name] = given
    slots = _untagged(beside.get("slots", []))
    revision = int(beside.get("revision", 0))
    if not slots and _as_written(core) and all(map(_is_plain, metadata.values())):
        # Nothing but `flatten` writes this shape, of a record that has passed the border.
        known = {**_ABSENT, **core, "text": text, "metadata": MappingProxyType(metadata)}
        return trusted(map(known.__getitem__, FIELDS)), revision
    return record_from({**core, "text": text, "metadata": metadata, "slots": slots}), revision


def read_json(text: Any) -> Any:
    """JSON that others may have written.

    Raises:
        ValueError, TypeError: it is none, or nested without end.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _as_written(core: Mapping[str, Any]) -> bool:
    if "tenant" not in core or "scope" not in core or not core["id"]:
        return False
    return all(type(value) is _KINDS[name] for name, value in core.items())


def _is_plain(value: object) -> bool:
    if type(value) is tuple:
        return bool(value) and all(type(one) in _SCALARS for one in value)
    return type(value) in _SCALARS


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
    if isinstance(number, int):
        return True
    try:
        return instant(number) == value
    except ValueError:  # rounded up into the year 10000
        return False


def _time(value: Any, exact: str | None) -> Any:
    if type(value) is int and exact is None and abs(value) < _NEAR:
        return EPOCH + timedelta(seconds=value)
    if isinstance(value, list | tuple):
        return tuple(instant(one) for one in value)
    return instant(value if exact is None else exact)


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _tagged(slots: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**s, "time": True, "value": jsonable(s["value"])} if _is_time(s) else s for s in slots]


def _untagged(slots: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**s, "value": instant(s["value"])} if s.pop("time", False) else s for s in slots]


def _is_time(slot: dict[str, Any]) -> bool:
    return isinstance(slot.get("value"), datetime)
