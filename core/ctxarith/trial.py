"""An evaluation set through a corpus: every step measured, under settings that are printed with it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from ctxarith.algebra import DEPTH as RECALL
from ctxarith.algebra import Stage
from ctxarith.corpus import Corpus
from ctxarith.errors import ArgumentError
from ctxarith.index.lexical import K1, B
from ctxarith.measure.ablation import DEPTH, Row, ablation, steps
from ctxarith.measure.beir import EvaluationSet
from ctxarith.measure.compare import Difference, paired_bootstrap
from ctxarith.measure.evaluate import METRICS, SKIP, evaluate
from ctxarith.measure.metrics import LINEAR, measures
from ctxarith.progress import watching
from ctxarith.stages.fuse import K

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Trial:
    """How a set is measured."""

    metrics: tuple[str, ...] = METRICS
    gain: str = LINEAR
    no_relevant: str = SKIP
    seed: int = 0


def assess(
    corpus: Corpus, data: EvaluationSet, trial: Trial, rerank: Stage | None, *, out: Console | None
) -> dict[str, Any]:
    """Add the set to the corpus, ask every judged query of every pipeline; told on `out`, if there is one.

    Raises:
        ArgumentError: a measure is unknown, or the corpus holds more than the set.
    """
    # Before anything is embedded, which may take minutes.
    measures(trial.metrics, gain=trial.gain, qrels={})
    corpus.add(data.documents)
    if corpus.count() != len({document["id"] for document in data.documents}):
        raise ArgumentError("corpus", corpus.count(), f"holds records that are not of {data.name}")
    pipelines = steps(rerank)
    with watching(len(pipelines) * len(data.queries), "asking") as watch:
        rows = list(
            ablation(
                corpus.run,
                data,
                pipelines,
                measured=lambda run: evaluate(
                    run, data.qrels, trial.metrics, gain=trial.gain, no_relevant=trial.no_relevant
                ),
                watch=watch,
            )
        )
    first = rows[0]
    gaps = [
        paired_bootstrap(row.evaluation, first.evaluation, trial.metrics[0], seed=trial.seed) for row in rows
    ]
    settings = _settings(corpus, data, trial, rerank, first)
    if out is not None:
        out.print(_table(rows, trial))
        for row, gap in list(zip(rows, gaps, strict=True))[1:]:
            out.print(f"{row.name} against {first.name}, {trial.metrics[0]}, 95 %: {gap}", markup=False)
        for name, value in settings.items():
            out.print(f"{name}: {value}", markup=False)
    runs = [
        {**row.as_dict(), f"against_{rows[0].name}": _interval(gap)}
        for row, gap in zip(rows, gaps, strict=True)
    ]
    return {"settings": settings, "runs": runs}


def _settings(
    corpus: Corpus, data: EvaluationSet, trial: Trial, rerank: Stage | None, first: Row
) -> dict[str, Any]:
    return {
        "set": data.name,
        "split": data.split,
        "documents": len(data.documents),
        "queries": first.evaluation.queries,
        "without_relevant": f"{len(first.evaluation.without_relevant)} ({trial.no_relevant})",
        "gain": trial.gain,
        "embedder": corpus.embedder_name,
        "bm25": f"k1 {K1:g}, b {B:g}",
        "rrf_k": K,
        "recall_depth": RECALL,
        "measured_depth": DEPTH,
        "rerank": "none" if rerank is None else repr(rerank),
        "seed": trial.seed,
        "versions": ", ".join(f"{name} {metadata.version(name)}" for name in ("ctxarith", "ir-measures")),
    }


def _table(rows: list[Row], trial: Trial) -> Table:
    from rich.table import Table

    table = Table()
    table.add_column("run", no_wrap=True)
    for name in (*trial.metrics, "ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        scores = [f"{score:.4f}" for score in row.evaluation.scores.values()]
        table.add_row(row.name, *scores, f"{row.ms:.0f}")
    return table


def _interval(gap: Difference) -> dict[str, float]:
    return {"mean": round(gap.mean, 6), "low": round(gap.low, 6), "high": round(gap.high, 6)}
