"""The everyday call where facts have newer values, beside the same records that assert nothing."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from speed_data import Data
from speed_peers import GivenVectors, our_record

from ctxarith import Corpus, Record, Slot

PART = 10_000


def superseded_too(data: Data) -> dict[str, float]:
    """p50 and p95 in ms of `retrieve` without a filter on both corpora in memory, asked in turn.

    A fifth of the records state the fee of their lead, ten to a lead, half of them as guesses; a tenth
    name the record before them as replaced.
    """
    plain, stating = (Corpus.in_memory(embedder=GivenVectors(data.queries)) for _ in range(2))
    for part in data.parts(PART):
        vectors = data.vectors[part.start : part.stop]
        plain.add([our_record(data, n) for n in part], embeddings=vectors)
        stating.add([_stating(data, n) for n in part], embeddings=vectors)
    times: dict[str, list[float]] = {"plain": [], "superseding": []}
    for corpus in (plain, stating):
        first = corpus.retrieve(data.queries[0].text)
    for query in data.queries:
        for name, corpus in zip(times, (plain, stating), strict=True):
            before = time.perf_counter()
            corpus.retrieve(query.text)
            times[name].append((time.perf_counter() - before) * 1e3)
    counts = {step.stage: step.count for step in first.trace.steps}
    took = {
        f"{name}_p{share}": float(np.percentile(taken, share))
        for name, taken in times.items()
        for share in (50, 95)
    }
    return {"retired": counts["permitted"] - counts["current"], **took}


def _stating(data: Data, row: int) -> Record:
    stated = [Slot(f"lead-{data.lead[row]:06d}", "fee", row, inferred=row % 10 == 0)] if row % 5 == 0 else []
    named = [data.ids[row - 1]] if row % 10 == 3 else []
    return replace(our_record(data, row), slots=stated, supersedes=named)
