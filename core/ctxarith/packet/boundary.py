"""Until when at most a packet can hold: the next boundary of time that could change its answer."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from ctxarith.fields import Field
from ctxarith.index.columns import Mask
from ctxarith.index.snapshot import Snapshot
from ctxarith.packet.neighbours import Neighbours
from ctxarith.packet.related import frame, timed_fields
from ctxarith.plan import Plan
from ctxarith.predicate import And, Or, Predicate

# So many rows with a boundary are looked at one by one; where there are more, the packet lives shorter.
_MOST = 500


def expiry(
    plan: Plan, snapshot: Snapshot, rights: Predicate, *, since: datetime, lifetime: timedelta
) -> datetime:
    """The end of the lifetime, or the first boundary before it; at that moment the packet has expired.

    A boundary counts if its record passes scope and filters, whatever the time, or hangs together by a
    fact, an id or a link with one that does: then it may retire or revive it.
    """
    until = since + lifetime
    names = timed_fields(plan.permission.at)
    columns = snapshot.columns
    mine = columns.mask(rights)
    inside = mine & columns.mask(frame(plan), mine)
    rows, until = _few(snapshot, mine, names, since, until)
    beside = Neighbours(snapshot, mine)
    ahead: list[tuple[datetime, int]] = [
        (moment, row)
        for row in rows
        for name in names
        if (moment := getattr(snapshot.records[row], name)) and since < moment <= until
    ]
    for moment, row in sorted(ahead):
        if inside[row] or beside.touches(snapshot.records[row], inside):
            return moment
    return until


def _few(
    snapshot: Snapshot, mine: Mask, names: tuple[str, ...], since: datetime, until: datetime
) -> tuple[list[int], datetime]:
    """The rows with a boundary in the window; the window is halved until they are few."""
    while True:
        window = Or.of(*(And.of(Field(name) > since, Field(name) <= until) for name in names))
        rows = np.flatnonzero(mine & snapshot.columns.mask(window)).tolist()
        if len(rows) <= _MOST or until - since <= timedelta(seconds=1):
            return rows[:_MOST], until
        until = since + (until - since) / 2
