"""A moment in UTC: the one place where times are read and written.

Inside the library a time is always an aware `datetime` in UTC. Nothing here looks at the
machine's own time zone, so results never depend on `TZ`.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TimeLike = datetime | date | str | int | float


def zone(name: str | tzinfo | None) -> tzinfo | None:
    """The zone in which times without an offset are read; `None` refuses them.

    >>> zone("UTC").utcoffset(None)
    datetime.timedelta(0)
    """
    if name is None or isinstance(name, tzinfo):
        return name
    if not isinstance(name, str):
        raise ValueError(f"{name!r} is not the name of a time zone")
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"{name!r} is not a known time zone") from error


def instant(value: TimeLike, *, naive_zone: tzinfo | None = None) -> datetime:
    """Read a time as UTC, or raise `ValueError` with the rule that it breaks.

    Accepted: aware datetimes, ISO 8601 text with an offset or `Z`, epoch seconds, and bare dates
    (UTC midnight). A time without an offset is refused unless `naive_zone` says where it was.

    >>> instant("2019-03-04T21:30:15-05:00").isoformat()
    '2019-03-05T02:30:15+00:00'
    >>> instant("2026-03-01") == instant(date(2026, 3, 1)) == instant(1772323200)
    True
    """
    moment = _read(value)
    if moment.tzinfo is None or moment.utcoffset() is None:
        if naive_zone is None:
            raise ValueError("a time without an offset is refused: add one, or set naive_zone")
        moment = moment.replace(tzinfo=naive_zone)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("this time lies outside the years 1 to 9999 in UTC") from error


def _read(value: TimeLike) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, str):
        return _read_text(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a {type(value).__name__} is not a time")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and infinity are not times")
    try:
        return EPOCH + timedelta(seconds=value)
    except OverflowError as error:
        raise ValueError("epoch seconds outside the years 1 to 9999") from error


def _read_text(text: str) -> datetime:
    rule = "times are ISO 8601, such as 2026-03-01 or 2026-03-01T09:00:00Z"
    try:
        day = date.fromisoformat(text)
    except ValueError:
        try:
            return datetime.fromisoformat(text)
        except ValueError as error:
            raise ValueError(rule) from error
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def iso(moment: datetime) -> str:
    """The one canonical text form.

    >>> iso(EPOCH)
    '1970-01-01T00:00:00Z'
    """
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
