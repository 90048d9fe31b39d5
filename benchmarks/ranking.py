"""What does each step of the ranking give or cost? nDCG@10 of BM25, dense, RRF and the default, in one run.

    python benchmarks/ranking.py [BEIR_FOLDER ...]

The default order leaves undated records in fused order. The last row gives every document one and the
same date, so that the formula orders them by relevance and density alone: what its relevance is worth.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ir_measures
from beir import SHARED, EvaluationSet, load
from ir_measures import R, ScoredDoc, nDCG

from ctxarith import Corpus, Record, auto, composite, everyone, lexical, rrf, semantic, top

DEPTH = 100
MEASURES = [nDCG @ 10, R @ 5, R @ 100]


def main() -> None:
    """Print one table for each set."""
    named = [Path(one) for one in sys.argv[1:]]
    for folder in named or [SHARED / "scifact", SHARED / "mtrag"]:
        data = load(folder)
        print(f"\n{data.name}: {len(data.documents)} documents, {len(data.judged)} judged queries")
        print("offline default embedder (WordLlama, 256 d); linear gains; queries without judgements skipped")
        print(f"{'ranking':<40}" + "".join(f"{measure!s:>10}" for measure in MEASURES))
        undated, dated = _corpus(data, None), _corpus(data, "2026-01-01")
        both = (semantic | lexical) & everyone
        _row("BM25", undated, lexical & everyone, data)
        _row("dense", undated, semantic & everyone, data)
        _row("RRF (rank='fused')", undated, both >> rrf(), data)
        _row("rank='auto', nothing dated", undated, both >> rrf() >> auto(), data)
        _row("relevance of the formula alone", undated, both >> rrf() >> composite(weights=(1, 0, 0)), data)
        _row("rank='auto', all of one date", dated, both >> rrf() >> auto(), data)


def _corpus(data: EvaluationSet, date: str | None) -> Corpus:
    corpus = Corpus.in_memory(searchable=["title"])
    corpus.add(
        Record(id=d["_id"], text=d["text"], created_at=date, metadata={"title": d.get("title") or None})
        for d in data.documents
    )
    return corpus


def _row(name: str, corpus: Corpus, pipeline: Any, data: EvaluationSet) -> None:
    run = [
        ScoredDoc(query["_id"], hit.id, -place)
        for query in data.judged
        for place, hit in enumerate(corpus.run(pipeline >> top(DEPTH), query["text"]).hits)
    ]
    scores: Mapping[Any, float] = ir_measures.calc_aggregate(MEASURES, data.qrels, run)
    print(f"{name:<40}" + "".join(f"{scores[measure]:>10.3f}" for measure in MEASURES))


if __name__ == "__main__":
    main()
