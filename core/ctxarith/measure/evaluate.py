"""A run against judgements: means over the queries, and each query's own values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ctxarith.errors import ArgumentError
from ctxarith.evidence import Hit
from ctxarith.measure.metrics import GAINS, LINEAR, Qrels, checked_gain, measures, values

METRICS = ("nDCG@10", "Recall@5", "Recall@100", "RR")
SKIP, ZERO, ERROR = "skip", "zero", "error"
RULES = (SKIP, ZERO, ERROR)


@runtime_checkable
class HasHits(Protocol):
    """A result: its hits are a ranking."""

    @property
    def hits(self) -> Sequence[Hit]:
        """Best first."""
        ...


Ranking = Sequence[str] | Sequence[Hit] | Mapping[str, float] | HasHits


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Means by measure; the values of each query; and by which rules they came about.

    `queries` were averaged over; `without_relevant` are those that have no relevant document.
    """

    scores: Mapping[str, float]
    per_query: Mapping[str, Mapping[str, float]]
    without_relevant: tuple[str, ...]
    gain: str
    no_relevant: str

    @property
    def queries(self) -> int:
        """How many queries the means are over."""
        return len(self.per_query)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: the means and the rules."""
        return {
            "scores": dict(self.scores),
            "queries": self.queries,
            "without_relevant": len(self.without_relevant),
            "gain": self.gain,
            "no_relevant": self.no_relevant,
        }


def evaluate(
    run: Mapping[str, Ranking],
    qrels: Qrels,
    metrics: Sequence[str] = METRICS,
    *,
    gain: str = LINEAR,
    no_relevant: str = SKIP,
) -> Evaluation:
    """How good are these rankings, by judged documents?

    Args:
        run: query to its ranking: ids best first, a `Result` or its hits, or id to score (higher is
            better, ties by id). A judged query that is missing here counts as an empty ranking.
        qrels: query to document to gain, a whole number; 1 and above is relevant, all else is not.
        metrics: measures of ir-measures, such as `nDCG@10`, `Recall@5`, `RR`, `P@5`, `AP`.
        gain: "linear" (g) or "exponential" (2^g - 1), for nDCG.
        no_relevant: what a query without any relevant document does: "skip" leaves it out of every
            mean, "zero" counts it with 0, "error" refuses it.

    Raises:
        ArgumentError: names the query and what is wrong with it, or the parameter.
        MissingExtra: needs ir-measures: `pip install 'ctxarith[eval]'`.

    >>> golden = {"Q": {"D1": 2, "D2": 1, "D4": 0}}
    >>> swapped = evaluate({"Q": ["D2", "D1", "D4"]}, golden, ["Recall@3", "RR", "nDCG@3"])
    >>> {name: round(score, 6) for name, score in swapped.scores.items()}
    {'Recall@3': 1.0, 'RR': 1.0, 'nDCG@3': 0.859719}
    """
    for name, given in (("run", run), ("qrels", qrels)):
        if not isinstance(given, Mapping):
            raise ArgumentError(name, type(given).__name__, "a mapping from query to its documents")
    if not isinstance(no_relevant, str) or no_relevant not in RULES:
        raise ArgumentError("no_relevant", no_relevant, f"one of {', '.join(RULES)}")
    judged = _judged(qrels, gain)
    ranked = {str(query): _ids(query, ranking) for query, ranking in run.items()}
    parsed = measures(metrics, gain=gain, qrels=judged)
    without = [q for q in dict.fromkeys([*judged, *ranked]) if not any(judged.get(q, {}).values())]
    if without and no_relevant == ERROR:
        raise ArgumentError("qrels", without[0], f"{len(without)} queries have no relevant document")
    counted = {q: documents for q, documents in judged.items() if any(documents.values())}
    own = values(parsed, counted, ranked)
    if no_relevant == ZERO:
        own.update({query: dict.fromkeys(parsed, 0.0) for query in without})
    means = {name: _mean([one[name] for one in own.values()]) for name in parsed}
    return Evaluation(means, own, tuple(without), gain, no_relevant)


def _mean(scores: Sequence[float]) -> float:
    # Of nothing there is no mean, and zero would be a claim.
    return math.fsum(scores) / len(scores) if scores else math.nan


def _judged(qrels: Qrels, gain: object) -> dict[str, dict[str, int]]:
    if not isinstance(gain, str) or gain not in GAINS:
        raise ArgumentError("gain", gain, f"one of {', '.join(GAINS)}")
    judged = {}
    for query, documents in qrels.items():
        if not isinstance(documents, Mapping):
            raise ArgumentError("qrels", documents, f"query {query!r}: a mapping from document to gain")
        judged[str(query)] = {str(d): checked_gain(query, d, value, gain) for d, value in documents.items()}
    return judged


def _ids(query: object, ranking: Ranking) -> list[str]:
    if isinstance(ranking, HasHits):
        ranking = ranking.hits
    if isinstance(ranking, Mapping):
        return _by_score(query, ranking)
    if isinstance(ranking, str) or not isinstance(ranking, Sequence):
        raise ArgumentError("run", ranking, f"query {query!r}: ids best first, id to score, or a result")
    ids = [one.id if isinstance(one, Hit) else one for one in ranking]
    for one in ids:
        if not isinstance(one, str):
            raise ArgumentError("run", one, f"query {query!r}: ids are text")
    if len(set(ids)) != len(ids):
        twice = sorted({one for one in ids if ids.count(one) > 1})
        raise ArgumentError("run", twice, f"query {query!r}: an id stands at most once in a ranking")
    return ids


def _by_score(query: object, scores: Mapping[str, float]) -> list[str]:
    for one, score in scores.items():
        number = isinstance(score, int | float) and not isinstance(score, bool)
        if not isinstance(one, str) or not number or math.isnan(score):
            raise ArgumentError("run", {one: score}, f"query {query!r}: an id as text, and a number")
    return sorted(scores, key=lambda one: (-scores[one], one))
