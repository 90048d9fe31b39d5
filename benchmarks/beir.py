"""Evaluation sets in BEIR form: corpus.jsonl, queries.jsonl and qrels, each plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Where the sets lie beside this repository; any other BEIR folder can be named on the command line.
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
UPSTREAM = {
    "peps": "https://github.com/python/peps (headers and abstracts), questions written for the set",
    "scifact": "https://github.com/allenai/scifact, in BEIR form (https://github.com/beir-cellar/beir)",
    "mtrag": "https://github.com/IBM/mt-rag-benchmark, reduced to the passages that its references quote",
}


@dataclass(frozen=True)
class EvaluationSet:
    """Documents, queries and graded judgements (query id to document id to gain)."""

    name: str
    documents: list[dict[str, Any]]
    queries: list[dict[str, Any]]
    qrels: dict[str, dict[str, int]]

    @property
    def judged(self) -> list[dict[str, Any]]:
        """The queries that have judgements; the others are skipped everywhere."""
        return [query for query in self.queries if query["_id"] in self.qrels]


def load(folder: Path) -> EvaluationSet:
    """Read a BEIR folder; qrels lie beside the corpus or in qrels/test.tsv."""
    if not folder.is_dir():
        known = "\n".join(f"  {name}: {source}" for name, source in UPSTREAM.items())
        raise SystemExit(f"no folder {folder}; name a BEIR folder. The sets used here come from:\n{known}")
    places = [folder / "qrels.tsv", folder / "qrels" / "test.tsv"]
    qrels: dict[str, dict[str, int]] = {}
    with _existing(folder, places).open(encoding="utf-8") as file:
        for query, document, gain in list(csv.reader(file, delimiter="\t"))[1:]:
            qrels.setdefault(query, {})[document] = int(gain)
    return EvaluationSet(
        folder.name, list(_lines(folder, "corpus.jsonl")), list(_lines(folder, "queries.jsonl")), qrels
    )


def _lines(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    path = _existing(folder, [folder / name, folder / f"{name}.gz"])
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def _existing(folder: Path, places: list[Path]) -> Path:
    found = next((place for place in places if place.exists()), None)
    if found is None:
        raise SystemExit(f"{folder} has none of {', '.join(place.name for place in places)}")
    return found
