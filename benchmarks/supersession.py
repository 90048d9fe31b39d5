"""Does a question get the current document, and never the stale one? Beside plain fusion on the same index.

    python benchmarks/supersession.py [BEIR_FOLDER]

The set names in each query's metadata which documents are `current` and which are `stale`, and in each
document's which ones supersede it (`superseded_by`, `replaces`) and when it was `created`. The default
is the set of Python Enhancement Proposals with their real headers. Nothing was tuned on it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ranking import SHARED

from ctxarith import Corpus, Hit, everyone, lexical, rrf, semantic, top
from ctxarith.instant import instant
from ctxarith.measure.beir import EvaluationSet, read_set

DEPTH = 10
FIELDS = {"created_at": "created", "supersedes": "replaces", "superseded_by": "superseded_by"}

Ask = Callable[[str], Sequence[Hit]]


def main() -> None:
    """Print a table: rankings against where they put the current and the stale document."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED / "peps"
    data = read_set(folder, fields=FIELDS)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        Corpus.open(scratch, searchable=["title"]) as corpus,
        Corpus.in_memory(searchable=["title"]) as unlinked,
    ):
        corpus.add(data.documents)
        unlinked.add(read_set(folder, fields={"created_at": FIELDS["created_at"]}).documents)
        print(f"{data.name}: {len(data.documents)} documents, {len(data.questions)} questions, depth {DEPTH}")
        print("offline default embedder (WordLlama, 256 d), Chroma store\n")
        print(f"{'ranking':<44} {'MRR current':>11} {'current found':>13} {'stale returned':>14}")
        for name, ask in _rankings(corpus, unlinked).items():
            print(_row(name, ask, data.questions))
        print(_looking_back(corpus, data))


def _rankings(corpus: Corpus, unlinked: Corpus) -> dict[str, Ask]:
    """The peers search the same records without their links, as any store without supersession does."""

    def run(pipeline: Any) -> Ask:
        return lambda text: unlinked.run(pipeline >> top(DEPTH), text).hits

    def retrieve(**options: Any) -> Ask:
        return lambda text: corpus.retrieve(text, top=DEPTH, tokens=None, **options).hits

    return {
        "BM25": run(lexical & everyone),
        "dense": run(semantic & everyone),
        "plain RRF": run(((semantic | lexical) & everyone) >> rrf()),
        "RRF, the first ten newest first": lambda text: _newest(
            run(((semantic | lexical) & everyone) >> rrf())(text)
        ),
        "RRF - superseded (rank='fused')": retrieve(rank="fused"),
        "formula - superseded (rank='auto')": retrieve(rank="auto"),
    }


def _newest(hits: Sequence[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: str(hit.record.created_at), reverse=True)


def _row(name: str, ask: Ask, queries: Sequence[dict[str, Any]]) -> str:
    reciprocal, stale = 0.0, 0
    found = 0
    for query in queries:
        ids = [hit.id for hit in ask(query["text"])]
        places = [ids.index(one) + 1 for one in query["metadata"]["current"] if one in ids]
        reciprocal += 1 / min(places) if places else 0.0
        found += bool(places)
        stale += any(one in ids for one in query["metadata"]["stale"])
    size = len(queries)
    return f"{name:<44} {reciprocal / size:>11.3f} {f'{found} of {size}':>13} {f'{stale} of {size}':>14}"


def _looking_back(corpus: Corpus, data: EvaluationSet) -> str:
    """With `as_of` a day before the successor's date, is a stale document back?"""
    created = {doc["id"]: instant(doc["created_at"]) for doc in data.documents}
    asked = back = near = 0
    for query in data.questions:
        current, stale = query["metadata"]["current"], query["metadata"]["stale"]
        before = min(created[one] for one in current) - timedelta(days=1)
        known = [one for one in stale if created[one] <= before]
        if not known:
            continue
        asked += 1
        hits = corpus.retrieve(query["text"], top=None, tokens=None, rank="fused", as_of=before).hits
        ids = [hit.id for hit in hits]
        back += any(one in ids for one in known)
        near += any(one in ids[:DEPTH] for one in known)
    return (
        f"\nas_of the day before the successor: the then current document is back for {back} of {asked} "
        f"questions, among the first {DEPTH} for {near}\n({len(data.questions) - asked} questions left out: "
        "their stale document is dated after the current one)"
    )


if __name__ == "__main__":
    main()
