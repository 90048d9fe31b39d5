"""Results for a terminal and for `--json`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.rule import Rule as Line
from rich.text import Text

from ctxarith.console import printable
from ctxarith.demo import Scenario
from ctxarith.evidence import Found
from ctxarith.explain import Explanation
from ctxarith.plain import jsonable, record_as_dict
from ctxarith.run import Result
from ctxarith.sequel import go_on, show_sequel
from ctxarith.stages.supersede import SUPERSEDED

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 72


def result_as_dict(result: Result) -> dict[str, Any]:
    """A result as one JSON-ready object."""
    hits = [
        {
            "id": hit.id,
            "version": hit.record.version,
            "source_id": hit.record.source_id,
            "score": round(hit.score, 6),
            "found_by": [{"source": f.source, **_scored(f)} for f in hit.found_by],
            **({"reranked": _scored(hit.reranked)} if hit.reranked else {}),
            "replaces": list(hit.replaces),
            "superseded_by": list(hit.superseded_by),
            "flags": list(hit.flags),
            "record": jsonable(record_as_dict(hit.record)),
        }
        for hit in result.hits
    ]
    citations = {str(mark): list(source) for mark, source in result.citations.items()}
    return {**result.explain().as_dict(), "hits": hits, "citations": citations, "text": result.text}


def _scored(found: Found) -> dict[str, Any]:
    return {"rank": found.rank, "score": round(found.score, 6)}


def show_funnel(out: Console, explanation: Explanation) -> None:
    """The funnel as a table, with every retirement and the first of the other drops."""
    out.print(explanation)
    drops = explanation.trace.drops
    retired = [drop for drop in drops if drop.stage == SUPERSEDED]
    others = [drop for drop in drops if drop.stage != SUPERSEDED]
    for drop in [*retired, *others[:3]]:
        out.print(Text.assemble("  - ", (drop.id, "bold"), f"  {_short(printable(drop.record.text))}"))
        out.print(Text(f"      {drop.reason}", style="dim"))
    if len(others) > 3:
        out.print(Text(f"  - and {len(others) - 3} more, which --json names", style="dim"))


def play(scenario: Scenario, folder: Path, *, out: Console | None) -> dict[str, Any]:
    """Ingest a worked example into a folder and ask its question; told on `out`, if there is one."""
    begun = time.perf_counter()
    with scenario.open(folder) as corpus:
        ready = time.perf_counter() - begun
        result = scenario.ask(corpus)
        verdicts = {one: list(result.why(one).lines) for one in scenario.curious}
    sequel = go_on(scenario)
    if out is not None:
        out.print(Line(Text(scenario.name), align="left"))
        out.print(Text(scenario.title, style="bold"))
        out.print(Text(f"{scenario.setting} {len(scenario.records())} records in Chroma ({ready:.1f} s)\n"))
        for part in scenario.text.split(" | "):
            out.print(Text(f"  {part}", style="italic"))
        out.print()
        show_funnel(out, result.explain())
        out.print(Text("\nThe context that the model receives:\n", style="bold"))
        out.print(Text(printable(result.text)))
        out.print(Text("\nWhat became of:\n", style="bold"))
        for one, lines in verdicts.items():
            out.print(Text.assemble("  ", (one, "bold"), f": {'; '.join(lines)}"))
        if sequel is not None:
            show_sequel(out, sequel)
        out.print()
    named = {"name": scenario.name, "title": scenario.title}
    told = {} if sequel is None else {"sequel": sequel.as_dict()}
    return {**named, **result_as_dict(result), "why": verdicts, **told}


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH].rsplit(' ', 1)[0]} ..."
