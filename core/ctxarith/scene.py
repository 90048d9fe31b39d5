"""What one caller may see of one snapshot at one moment: the masks that a run and `why` share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from ctxarith.index.columns import Mask
from ctxarith.index.retirement import Retirement
from ctxarith.index.snapshot import Snapshot
from ctxarith.model import Record
from ctxarith.plan import Plan
from ctxarith.policy import Permission, dated_by

Tick = Callable[[str, int, str], None]


@dataclass(frozen=True, slots=True)
class Scene:
    """The filters of a plan, applied: every later step reads these masks and no other rows.

    `targets` holds one mask for each arm. Retirement is decided over all permitted rows, so a stale
    record is known as such even when its successor passes no filter.
    """

    snapshot: Snapshot
    plan: Plan
    visible: Mask
    in_scope: Mask
    targets: tuple[Mask, ...]
    retirement: Retirement

    @property
    def retired(self) -> Mask:
        """Rows that a newer or linked record replaces, in this caller's eyes."""
        return self.retirement.mask

    @property
    def target(self) -> Mask:
        """Rows that pass every filter of some arm."""
        joined: Mask = np.logical_or.reduce(self.targets)
        return joined

    def rows_of(self, record_id: str) -> list[int]:
        """The rows of an id, all versions, that the caller may hear of, in the order of their keys.

        Those it may see; for an auditor, all of its tenant.
        """
        allowed = self.plan.permission
        named = self.snapshot.named(allowed.tenant, record_id)
        return [row for row in named if allowed.audited or self.visible[row]]

    def successors(self, row: int) -> tuple[str, ...]:
        """The ids that replace a row in this caller's eyes."""
        if not self.retired[row]:
            return ()
        return tuple(self.snapshot.records[head].id for head in self.retirement.heads(row))


def set_scene(plan: Plan, snapshot: Snapshot, at: datetime, tick: Tick) -> Scene:
    """Apply policy, scope, filters and supersession, in this order; `tick` hears the count of each."""
    columns = snapshot.columns
    visible = columns.mask(plan.permission.visible)
    tick("permitted", int(visible.sum()), "")
    in_scope = visible & columns.mask(plan.scope, visible)
    tick("scope", int(in_scope.sum()), str(plan.scope))
    conditions = [planned.arm.condition for planned in plan.arms]
    first, *others = conditions
    # Mostly the arms are under one condition, which need not be answered twice.
    distinct = [first, *(condition for condition in others if condition != first)]
    masks = [in_scope & columns.mask(condition, in_scope) for condition in distinct]
    further = iter(masks[1:])
    targets = (masks[0], *(masks[0] if condition == first else next(further) for condition in others))
    passed: Mask = np.logical_or.reduce(targets)
    tick("metadata", int(passed.sum()), " | ".join(dict.fromkeys(map(str, conditions))))
    replaced = retirement(snapshot, plan.permission, visible, at)
    if plan.current:
        retired = int((passed & replaced.mask).sum())
        tick("current", int(passed.sum()) - retired, f"- superseded: {retired:,} retired")
    return Scene(snapshot, plan, visible, in_scope, targets, replaced)


def retirement(snapshot: Snapshot, allowed: Permission, visible: Mask, at: datetime) -> Retirement:
    """Who replaces whom at a moment, among the rows that stand in the caller's eyes."""
    standing, dated = snapshot.columns.mask(allowed.standing), snapshot.columns.mask(dated_by(at))
    return Retirement(snapshot.slots, standing=standing, dated=dated, visible=visible)


@dataclass(frozen=True, slots=True)
class Stand:
    """How a record stands in a caller's eyes.

    Args:
        record: that the caller may see.
        superseded: whether others replace it.
        outdated: of one that stands, the attributes that others have asserted anew.
    """

    record: Record
    superseded: bool
    outdated: tuple[str, ...]


def stand_of(row: int, snapshot: Snapshot, replaced: Retirement) -> Stand:
    """How the record of a row stands."""
    superseded = bool(replaced.mask[row])
    stale = () if superseded else replaced.stale_slots(row)
    return Stand(snapshot.records[row], superseded, tuple(sorted({slot.attribute for slot in stale})))
