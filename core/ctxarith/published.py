"""The funnel in the order in which such funnels are published: search everything first, filter after.

It counts records that the caller may not see, so it is for auditors alone; and only of their own tenant.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ctxarith.errors import ArgumentError
from ctxarith.evidence import Step, Trace
from ctxarith.fields import Field
from ctxarith.index.columns import Mask
from ctxarith.scene import Scene
from ctxarith.stages.retrieve import Query, recall


def published(trace: Trace, scene: Scene, query: Query) -> Trace:
    """The trace with its steps counted in the published order, up to the first stage.

    What the sources find among all records of the tenant, then what the policy, the scope, the filter
    and superseding leave of that. The stages after it stand as they ran: on candidates that were
    filtered first, of which there can be more.

    Raises:
        ArgumentError: the policy does not let the caller audit.
    """
    if not scene.plan.permission.audited:
        raise ArgumentError(
            "as_published",
            True,
            "for auditors, since it counts records that the caller may not see: see Policy(auditors=...)",
        )
    stages = trace.steps[len(trace.steps) - len(scene.plan.stages) :]
    return replace(trace, steps=(*_timed(_counted(scene, query)), *stages))


def _counted(scene: Scene, query: Query) -> Iterator[tuple[str, int, str]]:
    snapshot, plan = scene.snapshot, scene.plan
    tenant = snapshot.columns.mask(Field("tenant") == plan.permission.tenant)
    yield "records", int(tenant.sum()), "of the tenant, whoever may see them"
    nobody: Mask = np.zeros(len(tenant), np.bool_)
    left = nobody.copy()
    for planned in plan.arms:
        found = recall(planned.arm, query, snapshot, target=tenant, retired=nobody)
        left[found.rows] = True
        yield planned.name, len(found), found.note
    if len(plan.arms) > 1:
        yield "recalled", int(left.sum()), ""
    filters = [("permitted", scene.visible), ("scope", scene.in_scope), ("metadata", scene.target)]
    if plan.current:
        filters.append(("current", ~scene.retired))
    for name, mask in filters:
        before, left = int(left.sum()), left & mask
        yield name, int(left.sum()), f"{before - int(left.sum()):,} left out"


def _timed(steps: Iterator[tuple[str, int, str]]) -> Iterator[Step]:
    start = time.perf_counter()
    for stage, count, note in steps:
        now = time.perf_counter()
        yield Step(stage, count, (now - start) * 1e3, note)
        start = time.perf_counter()
