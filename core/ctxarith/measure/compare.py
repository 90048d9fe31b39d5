"""The difference of two runs over the same queries, with its interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctxarith.errors import ArgumentError
from ctxarith.measure.evaluate import Evaluation

SAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of (one - other) over the queries, and the interval that holds 95 % of its resamples."""

    mean: float
    low: float
    high: float
    better: int
    worse: int
    queries: int

    def __str__(self) -> str:
        return (
            f"{self.mean:+.4f} [{self.low:+.4f}, {self.high:+.4f}], "
            f"{self.better} better, {self.worse} worse of {self.queries}"
        )


def paired_bootstrap(
    one: Evaluation, other: Evaluation, metric: str, *, seed: int = 0, samples: int = SAMPLES
) -> Difference:
    """By how much is the first run better, and how sure is that? A paired bootstrap over queries.

    Queries are drawn with replacement and each draw's mean difference is kept; the interval is from
    the 2.5th to the 97.5th percentile (Efron and Tibshirani 1993; for retrieval: Sakai 2006).

    Raises:
        ArgumentError: the runs were measured on other queries, or without this measure.
    """
    if one.per_query.keys() != other.per_query.keys() or not one.per_query:
        raise ArgumentError("other", other.queries, "both runs must be measured on the same queries")
    if metric not in one.scores or metric not in other.scores:
        raise ArgumentError("metric", metric, f"measured were {', '.join(one.scores)}")
    gaps = np.asarray([one.per_query[q][metric] - other.per_query[q][metric] for q in sorted(one.per_query)])
    draws = np.random.default_rng(seed).integers(0, len(gaps), (samples, len(gaps)))
    low, high = np.percentile(gaps[draws].mean(axis=1), [2.5, 97.5])
    return Difference(
        float(gaps.mean()), float(low), float(high), int((gaps > 0).sum()), int((gaps < 0).sum()), len(gaps)
    )
