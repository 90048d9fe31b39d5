"""Plans and traces made readable: text, a rich table, bars in a notebook, JSON; and `why`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ctxarith.evidence import Drop, Hit, Trace
from ctxarith.instant import iso
from ctxarith.plan import Plan
from ctxarith.predicate import conjuncts
from ctxarith.scene import Scene

if TYPE_CHECKING:
    from rich.table import Table

_BAR = 24
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Explanation:
    """A funnel to look at. `str` for logs, `rich.print` for a terminal, bars in a notebook."""

    trace: Trace

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(stage) for stage, *_ in rows)
        lines = [
            f"{stage:<{width}} {n:>9,} {ms:>8} ms  {bar:<{_BAR}} {note}".rstrip()
            for stage, n, ms, bar, note in rows
        ]
        return "\n".join([*lines, self._summary(), *map(_line, self.trace.drops)])

    def __repr__(self) -> str:
        return str(self)

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(caption=self._summary(), caption_justify="left")
        for title in ("stage", "records", "ms"):
            table.add_column(title, justify="left" if title == "stage" else "right", no_wrap=True)
        table.add_column("", no_wrap=True, min_width=_BAR)
        table.add_column("note", ratio=1)
        for stage, n, ms, bar, note in self._rows():
            table.add_row(Text(stage), f"{n:,}", ms, bar, Text(note))
        return table

    def _repr_html_(self) -> str:
        most = max((step.count for step in self.trace.steps), default=0) or 1
        cell = "padding:2px 8px;text-align:"
        rows = "".join(
            f'<tr><td style="{cell}left">{escape(step.stage)}</td>'
            f'<td style="{cell}right">{step.count:,}</td>'
            f'<td style="{cell}right">{step.ms:.1f} ms</td>'
            f'<td style="{cell}left"><div style="width:{_share(step.count, most, 240)}px;height:12px;'
            f'background:#4c78a8;border-radius:2px"></div></td>'
            f'<td style="{cell}left;color:#777">{escape(step.note)}</td></tr>'
            for step in self.trace.steps
        )
        drops = "".join(f"<li>{escape(_line(drop).strip())}</li>" for drop in self.trace.drops[:20])
        more = len(self.trace.drops) - 20
        tail = f"<li>and {more} more</li>" if more > 0 else ""
        return (
            f'<table style="border-collapse:collapse">{rows}</table><p>{escape(self._summary())}</p>'
            f"<details><summary>left out: {len(self.trace.drops)}</summary>"
            f"<ul>{drops}{tail}</ul></details>"
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: the funnel, the tokens, the drops."""
        return {
            "query": self.trace.query,
            "at": iso(self.trace.at),
            "funnel": [
                {"stage": s.stage, "count": s.count, "ms": round(s.ms, 3), "note": s.note}
                for s in self.trace.steps
            ],
            "tokens": self.trace.tokens,
            "naive_tokens": self.trace.naive_tokens,
            "drops": [
                {"id": d.id, "stage": d.stage, "reason": d.reason, "by": list(d.by)} for d in self.trace.drops
            ],
        }

    def _rows(self) -> list[tuple[str, int, str, str, str]]:
        most = max((step.count for step in self.trace.steps), default=0) or 1
        arms = self.trace.arms
        return [
            (
                f"  {s.stage}" if s.stage in arms else s.stage,
                s.count,
                f"{s.ms:.1f}",
                "█" * _share(s.count, most, _BAR),
                s.note,
            )
            for s in self.trace.steps
        ]

    def _summary(self) -> str:
        spent, naive = self.trace.tokens or 0, self.trace.naive_tokens or 0
        return f"{spent:,} tokens; the bare texts of all that passed the filters have {naive:,}"


def _share(count: int, most: int, width: int) -> int:
    return max(1, round(width * count / most)) if count else 0


def _line(drop: Drop) -> str:
    return f"  - {drop.id}: {_at(drop)}"


def _at(drop: Drop) -> str:
    """Where and why, without saying the same word twice."""
    return drop.reason if drop.reason.startswith(drop.stage) else f"{drop.stage}: {drop.reason}"


def explain(trace: Trace) -> Explanation:
    """The funnel of a run, computed from its trace."""
    return Explanation(trace)


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan to look at, before anything is touched."""

    plan: Plan

    def __str__(self) -> str:
        lines = ["policy"]
        lines += [f"  & {c.text}  [{_where(c.pushed)}]" for c in self.plan.policy]
        for planned in self.plan.arms:
            lines.append(f"{planned.name}  depth {planned.arm.depth:,}")
            lines += [f"  & {c.text}  [{_where(c.pushed)}]" for c in planned.conditions[:_SHOWN]]
            if len(planned.conditions) > _SHOWN:
                lines.append(f"  & {len(planned.conditions) - _SHOWN:,} more conditions")
            lines += ["  - superseded  [index, over all permitted records]"] if planned.arm.current else []
        lines += [f">> {stage!r}" for stage in self.plan.stages]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def _where(pushed: bool) -> str:
    return "index; the store can too" if pushed else "index; the store cannot"


@dataclass(frozen=True, slots=True)
class Why:
    """What became of one record, one line for each of its versions that the caller may see."""

    id: str
    found: bool
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(f"{self.id}: {line}" for line in self.lines)

    def __repr__(self) -> str:
        return str(self)


def why(record_id: str, hits: Sequence[Hit], trace: Trace, scene: Scene) -> Why:
    """Evaluate the filters again for one record, or read its drop from the trace.

    Not permitted and unknown are one answer, unless the policy lets the caller audit: then each
    condition of the policy that a record of its own tenant fails is named.
    """
    rows = scene.rows_of(record_id)
    if not rows:
        moment = scene.plan.permission.at
        looking_back = "" if moment is None else f" as of {iso(moment)}"
        return Why(record_id, False, (f"no such record for this caller{looking_back}",))
    lines = []
    for row in rows:
        version = f"version {scene.snapshot.records[row].version}: " if len(rows) > 1 else ""
        verdict = _verdict(row, hits, trace, scene) if scene.visible[row] else _closed(row, scene)
        lines.append(version + verdict)
    return Why(record_id, True, tuple(lines))


def _closed(row: int, scene: Scene) -> str:
    record = scene.snapshot.records[row]
    failed = [f"{n} (fails {c})" for n, c in scene.plan.permission.named if not c.matches(record)]
    return f"not permitted: {'; '.join(failed)}"


def _verdict(row: int, hits: Sequence[Hit], trace: Trace, scene: Scene) -> str:
    record = scene.snapshot.records[row]
    for place, hit in enumerate(hits, start=1):
        if hit.record.key == record.key:
            return f"in the context at place {place} of {len(hits)}; {_evidence(hit)}"
    for drop in trace.drops:
        if drop.record.key == record.key:
            return f"left out, {_at(drop)}"
    if not scene.in_scope[row]:
        return f"outside {scene.plan.scope}"
    if not any(target[row] for target in scene.targets):
        return "; ".join(_failed(row, scene))
    if scene.plan.current and scene.retired[row]:
        return f"superseded: {scene.retirement.ground(row)}; neither source came upon it"
    return "passed every filter and was not recalled: below the depth of each source, or no query term in it"


def _failed(row: int, scene: Scene) -> list[str]:
    record = scene.snapshot.records[row]
    failed = [
        f"fails {condition}"
        for planned in scene.plan.arms
        for condition in conjuncts(planned.arm.condition)
        if not condition.matches(record)
    ]
    unlike = list(dict.fromkeys(failed))
    more = [f"and {len(unlike) - _SHOWN:,} more"] if len(unlike) > _SHOWN else []
    return [*unlike[:_SHOWN], *more]


def _evidence(hit: Hit) -> str:
    parts = [
        f"{f.source} rank {f.rank} score {f.score:.3f}" + (f" in the place of {f.via}" if f.via else "")
        for f in hit.found_by
    ]
    scores = [f"fused {hit.fused:.5f}"] if hit.fused is not None else []
    if hit.reranked is not None:
        scores.append(
            f"reranked {hit.reranked.rank} score {hit.reranked.score:.3f} ({hit.reranked.share:.3f})"
        )
    scores += [f"relevance {hit.relevance:.2f}"] if hit.relevance is not None else []
    replaced = [f"replaces {', '.join(hit.replaces)}"] if hit.replaces else []
    return ", ".join([*parts, *scores, f"score {hit.score:.4f}", *replaced, *hit.flags, *hit.notes])
