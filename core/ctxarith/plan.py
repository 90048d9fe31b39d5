"""A pipeline and a permission become a plan: what is searched, under which conditions, in which order.

Pure: it touches no data. It refuses a pipeline in which an arm lacks a scope, in which the arms
differ in their guards, or in which a set is cut before anything has put it in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ctxarith.algebra import Arm, Candidates, Pipeline, Stage
from ctxarith.errors import AlgebraError, ScopeError
from ctxarith.policy import Permission
from ctxarith.predicate import And, Predicate, conjuncts


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of the plan, and whether the store's own database can evaluate it exactly."""

    text: str
    pushed: bool


@dataclass(frozen=True, slots=True)
class PlannedArm:
    """One source with its recall depth, its name in the trace, and what narrows it."""

    name: str
    arm: Arm
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do. `scope` and `current` are shared by all arms; conditions may differ."""

    arms: tuple[PlannedArm, ...]
    scope: Predicate
    current: bool
    stages: tuple[Stage, ...]
    permission: Permission
    policy: tuple[Condition, ...]


def plan(
    query: Pipeline | Candidates,
    permission: Permission,
    *,
    can: Callable[[Predicate], bool] = lambda _: False,
) -> Plan:
    """Plan a query for one caller.

    Args:
        query: a pipeline; a bare set of candidates is one without stages.
        permission: what the caller may see.
        can: whether the store evaluates a condition exactly, for the record.

    Raises:
        ScopeError: an arm has no scope, or the arms differ in scope or in `- superseded`.
        AlgebraError: a set of several arms is cut before it has an order.
    """
    if not isinstance(query, Pipeline | Candidates):
        raise AlgebraError(f"expected a pipeline such as semantic & scope('a') >> top(5), not {query!r}")
    pipeline = query if isinstance(query, Pipeline) else Pipeline(query, ())
    arms = pipeline.candidates.arms
    _check_guards(arms)
    _check_order(pipeline)
    least = max((stage.limit or 0 for stage in pipeline.stages), default=0)
    planned = []
    for name, arm in zip(_names(arms), arms, strict=True):
        deep = replace(arm, depth=max(arm.depth, least))
        narrowing = (*arm.guards, *conjuncts(arm.condition))
        planned.append(PlannedArm(name, deep, tuple(Condition(str(c), can(c)) for c in narrowing)))
    policy = tuple(Condition(str(c), can(c)) for c in conjuncts(permission.visible))
    return Plan(tuple(planned), And.of(*arms[0].guards), arms[0].current, pipeline.stages, permission, policy)


def _names(arms: tuple[Arm, ...]) -> list[str]:
    """A source that stands twice is numbered, so that each arm is a ranking of its own."""
    names: list[str] = []
    for arm in arms:
        nth = sum(name.split("#")[0] == arm.source for name in names) + 1
        names.append(arm.source if nth == 1 else f"{arm.source}#{nth}")
    return names


def _check_guards(arms: tuple[Arm, ...]) -> None:
    for arm in arms:
        if not arm.guards:
            raise ScopeError(
                f"{arm.source} is not under any scope: add `& scope(...)`, or `& everyone` for all; "
                "`a | b & scope(...)` guards only b, so write (a | b) & scope(...)"
            )
    first = arms[0]
    for arm in arms[1:]:
        if set(arm.guards) != set(first.guards):
            raise ScopeError("the arms are under different scopes: write (semantic | lexical) & scope(...)")
        if arm.current != first.current:
            raise ScopeError(
                "only one arm leaves out superseded records: write ((a | b) & scope(...)) - superseded"
            )


def _check_order(pipeline: Pipeline) -> None:
    ordered = len(pipeline.candidates.arms) == 1
    for stage in pipeline.stages:
        if stage.needs_order and not ordered:
            raise AlgebraError(f"{stage.name} cuts a set that has no order yet: put rrf() before it")
        ordered = ordered or stage.makes_order
