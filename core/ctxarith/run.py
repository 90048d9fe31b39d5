"""Plan to result: the only loop over stages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial

import numpy as np

from ctxarith.algebra import Moment
from ctxarith.errors import ArgumentError
from ctxarith.evidence import Drop, Drops, Hit, Step, Trace
from ctxarith.explain import Explanation, Why, explain, why
from ctxarith.index.snapshot import Snapshot
from ctxarith.lazy import lazy
from ctxarith.plan import Plan
from ctxarith.ports import TokenCounter, Vector, counted
from ctxarith.published import published
from ctxarith.scene import Scene, set_scene
from ctxarith.stages.assemble import Budget
from ctxarith.stages.pool import Pool
from ctxarith.stages.recalled import pooled
from ctxarith.stages.retrieve import Query, Ranking, recall
from ctxarith.stages.supersede import Replaced, Succession, Supersession


@dataclass(frozen=True, slots=True)
class Tools:
    """What a run borrows from its corpus."""

    embed: Callable[[str], Vector]
    count: TokenCounter


@dataclass(frozen=True, slots=True)
class Page:
    """What the hits make: the text, each hit's passage in it, its tokens, and what the marks stand for."""

    text: str
    passages: tuple[str, ...]
    tokens: int
    citations: Mapping[int, tuple[str, str]]


class Result:
    """The context and how it came about.

    `hits` are exactly the records in `text`, best first, and `passages` are their texts as they stand
    there, with date and labels, in the same order; `citations` maps each mark in the text to
    (source_id, version); `drops` names every record left out from recall onward, and why. The page is
    rendered when it is first looked at.
    """

    def __init__(
        self,
        hits: tuple[Hit, ...],
        page: Page | Callable[[], Page],
        trace: Trace,
        scene: Scene | None,
        query: Query | None = None,
    ) -> None:
        self._hits = hits
        self._made = page
        self._trace = trace
        self._scene = scene
        self._query = query

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return (self.hits, self._page, self.trace) == (other.hits, other._page, other.trace)

    def __hash__(self) -> int:
        return hash((self.text, self.trace.query))

    def __repr__(self) -> str:
        return f"Result(text={self.text!r}, hits={self.hits!r}, tokens={self.tokens})"

    @lazy
    def _page(self) -> Page:
        return self._made if isinstance(self._made, Page) else self._made()

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The records in the context, best first."""
        return self._hits

    @property
    def text(self) -> str:
        """The context."""
        return self._page.text

    @property
    def passages(self) -> tuple[str, ...]:
        """The text of each hit as it stands in the context."""
        return self._page.passages

    @property
    def tokens(self) -> int:
        """Tokens of the context."""
        return self._page.tokens

    @property
    def citations(self) -> Mapping[int, tuple[str, str]]:
        """Mark to (source_id, version)."""
        return self._page.citations

    @lazy
    def trace(self) -> Trace:
        """Everything that happened, in order."""
        return replace(self._trace, tokens=self._page.tokens)

    @property
    def drops(self) -> tuple[Drop, ...]:
        """Every record that was left out from recall onward."""
        return self._trace.drops

    @property
    def naive_tokens(self) -> int:
        """Tokens of the naive alternative: everything that passed the filters."""
        return self._trace.naive_tokens or 0

    @property
    def scene(self) -> Scene:
        """The masks of this run, for what is built on it.

        Raises:
            ArgumentError: a stored result has none.
        """
        if self._scene is None:
            raise ArgumentError("result", self.text, "a stored result knows its hits and drops alone")
        return self._scene

    def staged(self, stage: str, confidence: float, step: Step) -> Result:
        """The same answer, as the stage of a session that gave it; the step comes first in the funnel."""
        trace = replace(self._trace, stage=stage, confidence=confidence, steps=(step, *self._trace.steps))
        return Result(self._hits, self._made, trace, self._scene, self._query)

    def explain(self, *, as_published: bool = False) -> Explanation:
        """The funnel: prints as text or a rich table, and as bars in a notebook.

        `as_published` draws it for an auditor as if the search came first; see `published`.
        """
        if not as_published:
            return explain(self.trace)
        if self._query is None:
            raise ArgumentError("as_published", as_published, "a stored result knows its own order alone")
        return explain(published(self.trace, self.scene, self._query))

    def why(self, record_id: str) -> Why:
        """What became of one record. Not permitted and unknown give the same answer, but to an auditor."""
        if not isinstance(record_id, str):
            raise ArgumentError("record_id", record_id, "the id of a record")
        return why(record_id, self.hits, self.trace, self.scene)

    def __reduce__(self) -> tuple[object, ...]:
        # Stored without the index, which holds records that the caller may not see.
        page = replace(self._page, citations=dict(self.citations))
        return Result, (self.hits, page, self.trace, None)


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
    drops: list[Sequence[Drop]] = [Replaced(succession)]
    for stage in plan.stages:
        hits, dropped = stage(hits, moment)
        drops.append(dropped)
        clock.step(stage.name, len(hits), stage.note(hits, dropped, moment))
    hits = tuple(hits)
    trace = Trace(
        query=text,
        at=at,
        arms=tuple(planned.name for planned in plan.arms),
        steps=tuple(clock.steps),
        left=Drops(drops),
        stages=tuple(map(repr, plan.stages)),
        naive_tokens=int(snapshot.token_counts[scene.target].sum()),
    )
    return Result(hits, partial(_page, plan, hits, moment), trace, scene, query)


def _moment(snapshot: Snapshot, at: datetime, tools: Tools, text: str) -> Moment:
    def similarity(one: Hit, other: Hit) -> float:
        named = ((h.record.key, snapshot.named(h.record.tenant, h.id)) for h in (one, other))
        rows = [next(r for r in found if snapshot.records[r].key == key) for key, found in named]
        return float(snapshot.dense.similarity(*np.reshape(rows, (2, 1)))[0])

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


def _page(plan: Plan, hits: Sequence[Hit], moment: Moment) -> Page:
    budgets = [stage for stage in plan.stages if isinstance(stage, Budget)]
    stage = budgets[-1] if budgets else Budget(None)
    text, blocks = stage.render(hits, moment), stage.blocks(hits, moment)
    shown = {id(b.hit): b.text for b in blocks}
    return Page(
        text,
        tuple(shown[id(hit)] for hit in hits),
        moment.count(text),
        {n: (b.hit.record.source_id, b.hit.record.version) for n, b in enumerate(blocks, start=1)},
    )
