"""What does each step of the ranking give or cost? nDCG@10 of BM25, dense, RRF and the default, in one run.

    python benchmarks/ranking.py [BEIR_FOLDER ...] [--model FOLDER] [--dated]

The default order leaves undated records in fused order. With `--dated` a last row gives every document one
and the same date, so that the formula orders them by relevance and density alone. The sets lie in
../shared/data; upstream they are BEIR's SciFact and IBM's MTRAG.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ctxarith import Corpus, auto, composite, everyone, lexical, rrf, semantic
from ctxarith.measure.ablation import ablation
from ctxarith.measure.beir import EvaluationSet, read_set
from ctxarith.models.embedders import SentenceTransformerEmbedder, WordLlamaEmbedder

# Where the sets lie beside this repository; any other BEIR folder can be named on the command line.
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
MEASURES = ("nDCG@10", "Recall@5", "Recall@100")


def main() -> None:
    """Print one table for each set."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    sets = [SHARED / "scifact", SHARED / "mtrag"]
    parser.add_argument("folders", nargs="*", type=Path, default=sets)
    parser.add_argument("--model", type=Path, help="a sentence-transformers folder [WordLlama, offline]")
    parser.add_argument("--dated", action="store_true", help="also with every document of one date")
    given = parser.parse_args()
    embedder = WordLlamaEmbedder() if given.model is None else SentenceTransformerEmbedder(given.model)
    for folder in given.folders:
        data = read_set(folder)
        print(f"\n{data.name}: {len(data.documents)} documents, {len(data.queries)} judged queries")
        print(f"{embedder.name}; linear gains; queries without relevant documents are skipped")
        print(f"{'ranking':<40}" + "".join(f"{measure:>12}" for measure in MEASURES))
        both = (semantic | lexical) & everyone
        undated = {
            "BM25": lexical & everyone,
            "dense": semantic & everyone,
            "RRF (rank='fused')": both >> rrf(),
            "rank='auto', nothing dated": both >> rrf() >> auto(),
            "rank='relevance'": both >> rrf() >> composite(weights=(1, 0, 0)),
        }
        _table(_corpus(data, None, embedder), data, undated)
        if given.dated:
            dated = {"rank='auto', all of one date": both >> rrf() >> auto()}
            _table(_corpus(data, "2026-01-01", embedder), data, dated)


def _corpus(data: EvaluationSet, date: str | None, embedder: Any) -> Corpus:
    corpus = Corpus.in_memory(searchable=["title"], embedder=embedder)
    corpus.add({**document, "created_at": date} for document in data.documents)
    return corpus


def _table(corpus: Corpus, data: EvaluationSet, pipelines: dict[str, Any]) -> None:
    for row in ablation(corpus.run, data, pipelines):
        scores = "".join(f"{row.evaluation.scores[measure]:>12.3f}" for measure in MEASURES)
        print(f"{row.name:<40}{scores}")


if __name__ == "__main__":
    main()
