"""Plan to result: the only loop over stages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

import numpy as np

from ctxarith.algebra import Moment
from ctxarith.errors import ArgumentError
from ctxarith.evidence import Drop, Drops, Hit, Step, Trace
from ctxarith.explain import Explanation, Why, explain, why
from ctxarith.index.snapshot import Snapshot
from ctxarith.plan import Plan
from ctxarith.ports import TokenCounter, Vector, counted
from ctxarith.published import published
from ctxarith.scene import Scene, set_scene
from ctxarith.stages.assemble import Budget
from ctxarith.stages.layout import Block
from ctxarith.stages.pool import Pool
from ctxarith.stages.recalled import pooled
from ctxarith.stages.retrieve import Query, Ranking, recall
from ctxarith.stages.supersede import Succession, Supersession


@dataclass(frozen=True, slots=True)
class Tools:
    """What a run borrows from its corpus."""

    embed: Callable[[str], Vector]
    count: TokenCounter


@dataclass(frozen=True, slots=True)
class Result:
    """The context and how it came about.

    `hits` are exactly the records in `text`, best first, and `passages` are their texts as they stand
    there, with date and labels, in the same order; `citations` maps each mark in the text to
    (source_id, version); `drops` names every record left out from recall onward, and why.
    """

    text: str
    hits: tuple[Hit, ...]
    passages: tuple[str, ...]
    tokens: int
    trace: Trace
    citations: Mapping[int, tuple[str, str]]
    _scene: Scene | None = field(repr=False, compare=False)
    _query: Query | None = field(default=None, repr=False, compare=False)

    @property
    def drops(self) -> tuple[Drop, ...]:
        """Every record that was left out from recall onward."""
        return self.trace.drops

    @property
    def naive_tokens(self) -> int:
        """Tokens of the naive alternative: everything that passed the filters."""
        return self.trace.naive_tokens or 0

    def explain(self, *, as_published: bool = False) -> Explanation:
        """The funnel: prints as text or a rich table, and as bars in a notebook.

        Args:
            as_published: search first, filter after; for those whom the policy lets audit.

        Raises:
            ArgumentError: the caller may not audit.
        """
        if not as_published:
            return explain(self.trace)
        if self._scene is None or self._query is None:
            raise ArgumentError("as_published", as_published, "a stored result knows its own order alone")
        return explain(published(self.trace, self._scene, self._query))

    def why(self, record_id: str) -> Why:
        """What became of one record.

        Not permitted and unknown give the same answer; an auditor (see `Policy`) reads which conditions
        a record of its tenant fails.
        """
        if not isinstance(record_id, str):
            raise ArgumentError("record_id", record_id, "the id of a record")
        if self._scene is None:
            raise ArgumentError("record_id", record_id, "a stored result knows its hits and drops alone")
        return why(record_id, self.hits, self.trace, self._scene)

    def __reduce__(self) -> tuple[object, ...]:
        # Stored without the index, which holds records that the caller may not see.
        return Result, (
            self.text,
            self.hits,
            self.passages,
            self.tokens,
            self.trace,
            dict(self.citations),
            None,
        )


class _Clock:
    """Steps of the funnel with the time that each took."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._last = time.perf_counter()

    def step(self, stage: str, count: int, note: str = "") -> None:
        now = time.perf_counter()
        self.steps.append(Step(stage, count, (now - self._last) * 1e3, note))
        self._last = now


def run(plan: Plan, text: str, snapshot: Snapshot, *, at: datetime, tools: Tools) -> Result:
    """Execute a plan on one snapshot: filter, retrieve, supersede, then each stage in turn."""
    moment = _moment(snapshot, at, tools, text)
    for stage in plan.stages:
        stage.check(moment)
    clock = _Clock()
    scene = set_scene(plan, snapshot, at, clock.step)
    succession = Succession()
    query = Query(text, snapshot, tools.embed)
    hits: Sequence[Hit] = _retrieved(scene, query, succession, clock)
    drops: list[Sequence[Drop]] = [sorted(succession.drops.values(), key=lambda drop: drop.record.key)]
    for stage in plan.stages:
        hits, dropped = stage(hits, moment)
        drops.append(dropped)
        clock.step(stage.name, len(hits), stage.note(hits, dropped, moment))
    hits = tuple(hits)
    rendered, blocks = _rendered(plan, hits, moment)
    trace = Trace(
        query=text,
        at=at,
        arms=tuple(planned.name for planned in plan.arms),
        steps=tuple(clock.steps),
        left=Drops(drops),
        stages=tuple(map(repr, plan.stages)),
        tokens=moment.count(rendered),
        naive_tokens=int(snapshot.token_counts[scene.target].sum()),
    )
    shown = {id(b.hit): b.text for b in blocks}
    passages = tuple(shown[id(hit)] for hit in hits)
    citations = {n: (b.hit.record.source_id, b.hit.record.version) for n, b in enumerate(blocks, start=1)}
    return Result(rendered, hits, passages, trace.tokens or 0, trace, citations, scene, query)


def _moment(snapshot: Snapshot, at: datetime, tools: Tools, text: str) -> Moment:
    def similarity(one: Hit, other: Hit) -> float:
        rows = [
            next(r for r in snapshot.named(h.record.tenant, h.id) if snapshot.records[r].key == h.record.key)
            for h in (one, other)
        ]
        return snapshot.dense.similarity(*rows)

    return Moment(
        at,
        # The same page is counted when it is built, noted and delivered.
        lru_cache(maxsize=64)(lambda text: counted(tools.count, text)),
        similarity,
        lambda hit: snapshot.passage(hit.record),
        text,
    )


def _retrieved(scene: Scene, query: Query, succession: Succession, clock: _Clock) -> Pool:
    plan = scene.plan
    uncounted = scene.retired if plan.current else np.zeros_like(scene.retired)
    rankings: dict[str, Ranking] = {}
    for planned, target in zip(plan.arms, scene.targets, strict=True):
        found = recall(planned.arm, query, scene.snapshot, target=target, retired=uncounted)
        rule = Supersession(scene.snapshot, scene.retirement, target, keep=not plan.current)
        rankings[planned.name] = rule.settle(found, succession)
        clock.step(planned.name, len(rankings[planned.name]), found.note)
    pool = pooled(scene, rankings, query, succession)
    if len(rankings) > 1:
        found_by = np.sum([ranks.rank > 0 for ranks in pool.table.found.values()], axis=0)
        clock.step("recalled", len(pool), f"{int((found_by > 1).sum()):,} found by more than one")
    return pool


def _rendered(plan: Plan, hits: Sequence[Hit], moment: Moment) -> tuple[str, list[Block]]:
    budgets = [stage for stage in plan.stages if isinstance(stage, Budget)]
    page = budgets[-1] if budgets else Budget(None)
    return page.render(hits, moment), page.blocks(hits, moment)
