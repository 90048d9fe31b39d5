"""Evaluation sets in BEIR form: a folder with corpus, queries and judgements, each plain or gzipped.

    corpus.jsonl     {"_id": ..., "title": ..., "text": ..., "metadata": {...}}
    queries.jsonl    {"_id": ..., "text": ...}
    qrels/test.tsv   query-id, corpus-id, score, with a header line

`qrels.tsv` and `qrels_<split>.tsv` beside the corpus are read too, and so is `queries_<split>.jsonl`.
Source: Thakur et al., "BEIR", NeurIPS 2021 (https://github.com/beir-cellar/beir).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxarith.errors import ArgumentError
from ctxarith.ingest.files import Mapped, objects, read_lines, texts

TEST = "test"


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """Documents as fields of records, queries by id, and judgements (query to document to gain).

    `questions` are the queries' own lines, with whatever metadata the set gives them.
    """

    name: str
    split: str
    documents: tuple[dict[str, Any], ...]
    questions: tuple[dict[str, Any], ...]
    qrels: Mapping[str, Mapping[str, int]]

    @property
    def queries(self) -> dict[str, str]:
        """The texts of the judged queries, by id; a query without judgements measures nothing."""
        return {str(q["_id"]): q["text"] for q in self.questions if str(q["_id"]) in self.qrels}


def read_set(
    folder: Path, *, split: str | None = None, fields: Mapping[str, str] | None = None
) -> EvaluationSet:
    """Read a BEIR folder.

    Args:
        folder: where corpus, queries and judgements lie.
        split: "test", "dev", "train"; without one: test if there is one, else the only one.
        fields: fields of records from keys of the documents, as for `ctxarith ingest`:
            `{"created_at": "created"}`. Without them no document is dated and none supersedes another.

    Raises:
        ArgumentError: names the folder and what it lacks, or the file and its line.
        RecordError: a line that is no document or query; names it.
    """
    if not folder.is_dir():
        raise ArgumentError("folder", str(folder), "no such folder; name one in BEIR form")
    name, judgements = _judgements(folder, split)
    corpus = _first(folder, ["corpus.jsonl"])
    queries = _first(folder, [f"queries_{name}.jsonl", "queries.jsonl"])
    questions = []
    for number, line in objects(queries):
        if not isinstance(line.get("text"), str) or "_id" not in line:
            raise ArgumentError("folder", str(queries), f"line {number}: a query has _id and text")
        questions.append(line)
    documents = tuple(map(_bare, read_lines(corpus, Mapped(dict(fields or {}), {}))))
    data = EvaluationSet(folder.resolve().name, name, documents, tuple(questions), _qrels(judgements))
    if not data.queries:
        raise ArgumentError("folder", str(folder), f"no query of {queries.name} is judged in {judgements}")
    return data


def _bare(document: dict[str, Any]) -> dict[str, Any]:
    """Only what is searched: a set's other metadata may hold what no record can."""
    title = document["metadata"].get("title")
    return {**document, "metadata": {"title": title} if title else {}}


def _judgements(folder: Path, split: str | None) -> tuple[str, Path]:
    """The name of the split and its file."""
    found: dict[str, Path] = {}
    for pattern in ("qrels/*.tsv*", "qrels_*.tsv*", "qrels.tsv*"):
        for path in sorted(folder.glob(pattern)):
            if path.name.endswith((".tsv", ".tsv.gz")):
                stem = path.name.partition(".tsv")[0]
                found.setdefault(stem.removeprefix("qrels").removeprefix("_") or TEST, path)
    wanted = split or (TEST if TEST in found or len(found) != 1 else next(iter(found)))
    if wanted not in found:
        known = ", ".join(sorted(found)) or "none"
        raise ArgumentError("split", wanted, f"{folder} has judgements for: {known}")
    return wanted, found[wanted]


def _qrels(path: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for number, row in enumerate(csv.reader(texts(path), delimiter="\t", quoting=csv.QUOTE_NONE), start=1):
        if not row or (number == 1 and not row[-1].lstrip("-").isdigit()):
            continue
        try:
            # Four columns are the form of TREC, with an iteration that nobody uses.
            query, *_, document, gain = row[0], *row[1:-1], int(row[-1])
        except ValueError as error:
            rule = f"line {number}: query, document and a whole number, with tabs between"
            raise ArgumentError("qrels", str(path), rule) from error
        qrels.setdefault(query, {})[document] = gain
    return qrels


def _first(folder: Path, names: list[str]) -> Path:
    places = [folder / name for stem in names for name in (stem, f"{stem}.gz")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ArgumentError("folder", str(folder), f"has none of {', '.join(p.name for p in places)}")
    return found
