"""The steps of the pipeline one after the other on one set: what does each give or cost?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ctxarith.algebra import Candidates, Pipeline, Stage, lexical, semantic, superseded
from ctxarith.measure.beir import EvaluationSet
from ctxarith.measure.evaluate import Evaluation, HasHits, evaluate
from ctxarith.scopes import everyone
from ctxarith.stages.fuse import rrf
from ctxarith.stages.rank import auto, top

# Recall@100 is the deepest measure in common use; a run is cut there and not at the depth of recall.
DEPTH = 100

Ask = Callable[[Pipeline, str], HasHits]


@dataclass(frozen=True, slots=True)
class Row:
    """One pipeline: what it is called, its measures, and its mean time for a query."""

    name: str
    evaluation: Evaluation
    ms: float

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        scores = {name: round(score, 6) for name, score in self.evaluation.scores.items()}
        return {"run": self.name, "scores": scores, "ms_per_query": round(self.ms, 3)}


def steps(rerank: Stage | None = None) -> dict[str, Pipeline | Candidates]:
    """The rankings to compare, each one step further; with a reranking stage also those with it.

    "full" is the default of `Corpus.retrieve`: superseded records left out, fused, `rank="auto"`.
    """
    both = (semantic | lexical) & everyone
    rows: dict[str, Pipeline | Candidates] = {
        "BM25": lexical & everyone,
        "dense": semantic & everyone,
        "RRF": both >> rrf(),
    }
    if rerank is not None:
        rows["RRF, reranked"] = both >> rrf() >> rerank
    rows["full"] = (both - superseded) >> rrf() >> auto()
    if rerank is not None:
        rows["full, reranked"] = (both - superseded) >> rrf() >> rerank >> auto()
    return rows


def ablation(
    ask: Ask,
    data: EvaluationSet,
    pipelines: Mapping[str, Pipeline | Candidates],
    *,
    measured: Callable[[dict[str, HasHits]], Evaluation] | None = None,
    watch: Callable[[int], object] = lambda done: None,
) -> Iterator[Row]:
    """Ask every judged query of every pipeline, and measure.

    Args:
        ask: runs one pipeline on one text; usually `corpus.run`.
        data: the set; its documents are in the corpus already.
        pipelines: what to compare, by name; each is cut to its first 100.
        measured: how a run is measured; by default `evaluate` with its own defaults.
        watch: hears of every query that is done.
    """
    for name, pipeline in pipelines.items():
        run: dict[str, HasHits] = {}
        begun = time.perf_counter()
        for query, text in data.queries.items():
            run[query] = ask(pipeline >> top(DEPTH), text)
            watch(1)
        spent = (time.perf_counter() - begun) * 1e3
        evaluation = evaluate(run, data.qrels) if measured is None else measured(run)
        yield Row(name, evaluation, spent / len(run))
