"""The tables beside the frameworks' own retrieval: what their columns count, on a world of a few texts."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

TEXTS = [
    ("old", "The annual fee is 12 EUR, paid in spring", "acme", "2024-01-01"),
    ("new", "The annual fee is 15 EUR, paid in spring", "acme", "2025-01-01"),
    ("foreign", "The annual fee of the rival is 99 EUR, paid in spring", "rival", "2025-01-01"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A BEIR folder of two customers, one of whom has replaced a text."""
    made = tmp_path / "fees"
    made.mkdir()
    replaced = {"old": {"superseded_by": ["new"]}}
    corpus = [
        {"_id": name, "text": text, "metadata": {"domain": who, "created": day, **replaced.get(name, {})}}
        for name, text, who, day in TEXTS
    ]
    versions = {"domain": "acme", "current": ["new"], "stale": ["old"]}
    asked = [
        {"_id": "q1", "text": "what is the annual fee?", "metadata": versions},
        {"_id": "q2", "text": "fee of the rival", "metadata": {"domain": "rival"}},
    ]
    for name, lines in (("corpus.jsonl", corpus), ("queries.jsonl", asked)):
        (made / name).write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    judged = "query-id\tcorpus-id\tscore\nq1\tnew\t2\nq1\told\t1\nq2\tforeign\t1\n"
    (made / "qrels.tsv").write_text(judged, encoding="utf-8")
    return made


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


def test_a_row_counts_strangers_stale_texts_and_the_place_of_the_current_one(
    script: Any, folder: Path
) -> None:
    table, world = script("peer_table"), script("peer_world").world([folder])
    asked = world.sample(None)
    versioned = next(question for question in asked if question.current)
    other = next(question for question in asked if not question.current)
    given = {versioned: ("fees/old", "fees/foreign", "fees/new"), other: ("fees/old", "fees/new")}
    found = {"all of them": [table.Answer(given[question], 10, 1.0) for question in asked]}
    (row,) = table.rows(world, asked, found)
    assert (row.mrr, row.recall, row.stale) == (pytest.approx(1 / 3), 0.0, 1)
    assert (row.leaked, row.touched, row.documents) == (3, 2, 2.5)


@pytest.mark.parametrize("name", ["langchain_peers", "llamaindex_peers"])
def test_ours_gives_the_current_text_of_the_asker_alone(
    script: Any, folder: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = tmp_path / "numbers.json"
    alone = ["--reranked", "0"] if name == "llamaindex_peers" else []
    module = script(name)
    module.main([str(folder), "--json", str(numbers), *alone])
    (lines,) = json.loads(numbers.read_text(encoding="utf-8")).values()
    rows = {line["name"]: line for line in lines}
    ours, dense = rows[module.OURS], rows["Chroma, filtered"]
    assert (ours["recall"], ours["mrr"], ours["stale"], ours["leaked"]) == (1.0, 1.0, 0, 0)
    assert ours["documents"] == 1.0
    assert (dense["stale"], dense["leaked"], dense["documents"]) == (1, 0, 1.5)
    assert module.OURS in capsys.readouterr().out


def test_a_set_that_is_not_there_is_named_with_its_source(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        script("langchain_peers").main([str(tmp_path / "nowhere")])
    said = capsys.readouterr().err
    assert "nowhere" in said
    assert "https://github.com/python/peps" in said
