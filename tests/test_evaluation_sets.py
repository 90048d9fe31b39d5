"""Real input: the sets that lie beside the repository, through the command line and the front door."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ctxarith import Corpus, Record
from ctxarith.cli import app

SET_SIZE = 31


def lines(path: Path) -> list[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="module")
def peps_folder(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    folder = tmp_path_factory.mktemp("peps") / "corpus"
    fields = ["created_at=created", "supersedes=replaces", "superseded_by=superseded_by"]
    mapped = [word for field in fields for word in ("--field", field)]
    done = CliRunner().invoke(
        app,
        ["ingest", str(shared_data / "peps" / "corpus.jsonl.gz"), "--corpus", str(folder), *mapped, "--json"],
    )
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["added"] == 736
    return folder


@pytest.fixture(scope="module")
def peps(peps_folder: Path) -> Iterator[Corpus]:
    with Corpus.open(peps_folder) as corpus:
        yield corpus


@pytest.fixture(scope="module")
def questions(shared_data: Path) -> list[dict[str, Any]]:
    return lines(shared_data / "peps" / "queries.jsonl")


def first_ten(corpus: Corpus, question: dict[str, Any], **options: Any) -> list[str]:
    hits = corpus.retrieve(question["text"], top=10, tokens=None, rank="fused", **options).hits
    return [hit.id for hit in hits]


def test_every_question_finds_a_current_document_and_none_finds_a_stale_one(
    peps: Corpus, questions: list[dict[str, Any]]
) -> None:
    reciprocal = 0.0
    for question in questions:
        ids = first_ten(peps, question)
        current, stale = question["metadata"]["current"], question["metadata"]["stale"]
        assert not set(ids) & set(stale), question["text"]
        places = [ids.index(one) + 1 for one in current if one in ids]
        assert places, question["text"]
        reciprocal += 1 / min(places)
    assert len(questions) == SET_SIZE
    assert reciprocal / SET_SIZE >= 0.90


def test_before_the_successor_the_stale_document_is_back(
    peps: Corpus, questions: list[dict[str, Any]], shared_data: Path
) -> None:
    documents = lines(shared_data / "peps" / "corpus.jsonl.gz")
    created = {d["_id"]: datetime.fromisoformat(d["metadata"]["created"] + "T00:00:00Z") for d in documents}
    asked = 0
    for question in questions:
        before = min(created[one] for one in question["metadata"]["current"]) - timedelta(days=1)
        known = {one for one in question["metadata"]["stale"] if created[one] <= before}
        if known:
            hits = peps.retrieve(question["text"], top=None, tokens=None, rank="fused", as_of=before).hits
            assert known & {hit.id for hit in hits}, question["text"]
            asked += 1
    assert asked == 29


def test_the_same_folder_is_read_again_without_embedding_anything(
    peps_folder: Path, shared_data: Path
) -> None:
    again = ["ingest", str(shared_data / "peps" / "corpus.jsonl.gz"), "--corpus", str(peps_folder)]
    fields = ["created_at=created", "supersedes=replaces", "superseded_by=superseded_by"]
    done = CliRunner().invoke(app, [*again, *(w for f in fields for w in ("--field", f)), "--json"])
    assert {k: v for k, v in json.loads(done.stdout).items() if k in ("unchanged", "embedded")} == {
        "unchanged": 736,
        "embedded": 0,
    }


def test_the_default_order_of_undated_documents_is_the_fused_one(shared_data: Path) -> None:
    documents = lines(shared_data / "scifact" / "corpus.jsonl.gz")
    corpus = Corpus.in_memory(searchable=["title"])
    corpus.add(Record(id=d["_id"], text=d["text"], metadata={"title": d["title"]}) for d in documents)
    for query in lines(shared_data / "scifact" / "queries.jsonl"):
        found = corpus.retrieve(query["text"], top=20, tokens=None)
        assert [h.id for h in found.hits] == first_twenty_fused(corpus, query["text"])


def first_twenty_fused(corpus: Corpus, text: str) -> list[str]:
    return [hit.id for hit in corpus.retrieve(text, top=20, tokens=None, rank="fused").hits]
