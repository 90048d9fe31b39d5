"""Results for a terminal and for `--json`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.rule import Rule as Line
from rich.text import Text

from ctxarith.demo import Scenario
from ctxarith.explain import Explanation
from ctxarith.plain import jsonable, record_as_dict
from ctxarith.run import Result

if TYPE_CHECKING:
    from rich.console import Console


def result_as_dict(result: Result) -> dict[str, Any]:
    """A result as one JSON-ready object."""
    hits = [
        {
            "id": hit.id,
            "version": hit.record.version,
            "source_id": hit.record.source_id,
            "score": round(hit.score, 6),
            "found_by": [
                {"source": f.source, "rank": f.rank, "score": round(f.score, 6)} for f in hit.found_by
            ],
            "replaces": list(hit.replaces),
            "superseded_by": list(hit.superseded_by),
            "flags": list(hit.flags),
            "record": jsonable(record_as_dict(hit.record)),
        }
        for hit in result.hits
    ]
    citations = {str(mark): list(source) for mark, source in result.citations.items()}
    return {**result.explain().as_dict(), "hits": hits, "citations": citations, "text": result.text}


def show_funnel(out: Console, explanation: Explanation) -> None:
    """The funnel as a table, with every retirement and the first of the other drops."""
    out.print(explanation)
    drops = explanation.trace.drops
    retired = [drop for drop in drops if drop.stage == "superseded"]
    others = [drop for drop in drops if drop.stage != "superseded"]
    for drop in [*retired, *others[:5]]:
        out.print(f"  left out  {drop.id}: {drop.reason}", style="dim", markup=False)
    if len(others) > 5:
        out.print(f"  left out  {len(others) - 5} more; --json names them all", style="dim", markup=False)


def play(scenario: Scenario, folder: Path, *, out: Console | None) -> dict[str, Any]:
    """Ingest a worked example into a folder and ask its question; told on `out`, if there is one."""
    with scenario.open(folder) as corpus:
        result = scenario.ask(corpus)
    if out is not None:
        out.print(Line(Text(scenario.name), align="left"))
        out.print(Text(scenario.title, style="bold"))
        out.print(Text(f"question: {scenario.text}\n", style="dim"))
        show_funnel(out, result.explain())
        out.print(Text("\nThe context that the model receives:\n", style="bold"))
        out.print(result.text, markup=False)
        saved = (
            f"{result.tokens} tokens instead of {result.naive_tokens:,}, which is all that passed the filters"
        )
        out.print(Text(f"\n{saved}\n", style="bold"))
    return {"name": scenario.name, "title": scenario.title, **result_as_dict(result)}
