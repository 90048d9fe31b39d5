"""Records as flat metadata and back, without loss.

Every field and metadata key stands under its own name, so that other tools can read and filter it.
Times are epoch seconds. What flat metadata cannot say is said beside it under keys that begin with
`ctx_`: which keys are times, slots as JSON, the revision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from ctxarith.instant import EPOCH, instant, iso
from ctxarith.model import TIME_FIELDS, Record
from ctxarith.plain import FIELDS, jsonable, record_as_dict, record_from, trusted

Flat = dict[str, Any]

REVISION = "ctx_revision"
TIMES = "ctx_times"
SLOTS = "ctx_slots"

_CORE = tuple(name for name in FIELDS if name not in ("text", "slots", "metadata"))
_core_of = attrgetter(*_CORE)
_ALWAYS = {"id", "source_id", "version", "tenant", "scope"}
# The types in which the fields come back.
_KINDS: dict[str, type] = dict.fromkeys(_CORE, str)
_KINDS |= dict.fromkeys(TIME_FIELDS, datetime) | dict.fromkeys(("supersedes", "audience"), tuple)
_KINDS |= dict.fromkeys(("token_count", "entity_count"), int)
_SCALARS = frozenset((str, int, float, bool, datetime))
_NEAR = 1_900 * 365 * 86_400  # so many seconds before or after 1970 are a year between 1 and 9999
_ABSENT: dict[str, Any] = dict.fromkeys(_CORE) | {"slots": (), "supersedes": (), "audience": ()}


def flatten(record: Record, revision: int) -> Flat:
    """Flat metadata of a record; its text is stored as the document."""
    flat: Flat = {REVISION: revision}
    times: dict[str, str | None] = {}
    for name, value in zip(_CORE, _core_of(record), strict=True):
        if value is not None and value != ():
            flat[name] = _flat(name, value, times)
    for name, value in record.metadata.items():
        flat[name] = _flat(name, value, times)
    if times:
        flat[TIMES] = json.dumps(times)
    if record.slots:
        flat[SLOTS] = json.dumps(_tagged(record_as_dict(record)["slots"]))
    return flat


def restore(flat: Mapping[str, Any], text: str) -> tuple[Record, int]:
    """The record that `flatten` was given, and its revision."""
    times = _times(flat.get(TIMES) or "{}")
    core: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for name, value in flat.items():
        if name.startswith("ctx_"):
            continue
        given = _time(value, times[name]) if name in times else _listed(value)
        (core if name in _KINDS else metadata)[name] = given
    slots = _untagged(json.loads(flat[SLOTS])) if flat.get(SLOTS) else []
    revision = int(flat.get(REVISION, 0))
    if not slots and _as_written(core) and all(map(_is_plain, metadata.values())):
        # Nothing but `flatten` writes this shape, of a record that has passed the border.
        known = {**_ABSENT, **core, "text": text, "metadata": MappingProxyType(metadata)}
        return trusted(map(known.__getitem__, FIELDS)), revision
    return record_from({**core, "text": text, "metadata": metadata, "slots": slots}), revision


def _as_written(core: Mapping[str, Any]) -> bool:
    if not core.keys() >= _ALWAYS:
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


@lru_cache(maxsize=1024)
def _times(text: str) -> Mapping[str, str | None]:
    """Which keys are times. Rows of a kind say the same, so few texts are read."""
    times: dict[str, str | None] = json.loads(text)
    return times


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _tagged(slots: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**s, "time": True, "value": jsonable(s["value"])} if _is_time(s) else s for s in slots]


def _untagged(slots: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**s, "value": instant(s["value"])} if s.pop("time", False) else s for s in slots]


def _is_time(slot: dict[str, Any]) -> bool:
    return isinstance(slot.get("value"), datetime)
