"""Evaluation: golden numbers, the two gain conventions, what counts as relevant, and BEIR folders."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ctxarith import ArgumentError, Corpus, MissingExtra, RecordError, evaluate
from ctxarith.cli import app
from ctxarith.measure.ablation import ablation, steps
from ctxarith.measure.beir import read_set
from ctxarith.measure.compare import paired_bootstrap
from tests.fakes import WordEmbedder

TRAVEL = {"Q": {"D1": 2, "D2": 1, "D4": 0}}
GOLDEN = ["Recall@3", "RR", "nDCG@3"]


def of(*ids: str, metrics: Sequence[str] = GOLDEN, **options: Any) -> dict[str, float]:
    scores = evaluate({"Q": list(ids)}, TRAVEL, metrics, **options).scores
    return {name: round(score, 6) for name, score in scores.items()}


# The numbers of the travel case


def test_the_right_order_is_perfect_by_every_measure() -> None:
    assert of("D1", "D2", "D4") == {"Recall@3": 1.0, "RR": 1.0, "nDCG@3": 1.0}


def test_the_first_two_swapped_cost_a_seventh_of_ndcg() -> None:
    assert of("D2", "D1", "D4") == {"Recall@3": 1.0, "RR": 1.0, "nDCG@3": 0.859719}


def test_exponential_gains_punish_the_swap_more() -> None:
    ideal = 3 + 1 / math.log2(3)
    swapped = (1 + 3 / math.log2(3)) / ideal
    assert of("D2", "D1", "D4", metrics=["nDCG@3"], gain="exponential") == {"nDCG@3": round(swapped, 6)}
    assert of("D1", "D2", "D4", metrics=["nDCG@3"], gain="exponential") == {"nDCG@3": 1.0}


def test_a_result_a_list_of_hits_and_scores_are_rankings_alike() -> None:
    corpus = Corpus.in_memory(embedder=WordEmbedder())
    corpus.add(
        [{"id": "D1", "text": "refund window"}, {"id": "D2", "text": "refund"}, {"id": "D4", "text": "x"}]
    )
    result = corpus.retrieve("refund window", rank="fused")
    ids = [hit.id for hit in result.hits]
    assert ids[:2] == ["D1", "D2"]
    by_score = {one: 1.0 - place for place, one in enumerate(ids)}
    told = [evaluate({"Q": one}, TRAVEL, GOLDEN).scores for one in (result, result.hits, ids, by_score)]
    assert told == [told[0]] * 4


def test_equal_scores_stand_by_id() -> None:
    assert evaluate({"Q": {"D2": 1.0, "D1": 1.0}}, TRAVEL, ["nDCG@3"]).scores["nDCG@3"] == pytest.approx(1.0)


@given(st.permutations(["D1", "D2", "D4", "X"]), st.integers(1, 4))
def test_ndcg_is_the_formula_of_jarvelin_and_kekalainen(ids: list[str], cut: int) -> None:
    def dcg(gains: Sequence[int]) -> float:
        return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains[:cut], start=1))

    wanted = dcg([TRAVEL["Q"].get(one, 0) for one in ids]) / dcg([2, 1, 0])
    assert evaluate({"Q": ids}, TRAVEL, [f"nDCG@{cut}"]).scores[f"nDCG@{cut}"] == pytest.approx(wanted)


# Queries without relevant documents

MIXED = {"right": {"a": 1}, "none": {"a": 0}, "wrong": {"b": 1}, "minus": {"a": -1}}
RUN = {"right": ["a"], "none": ["a"], "wrong": ["a"], "unjudged": ["a"], "minus": ["a"]}


def test_queries_without_relevant_documents_are_skipped_by_default_and_named() -> None:
    told = evaluate(RUN, MIXED, ["RR"])
    assert (told.scores["RR"], told.queries) == (0.5, 2)
    assert told.without_relevant == ("none", "minus", "unjudged")
    assert told.no_relevant == "skip"


def test_they_count_as_zero_when_that_is_the_rule() -> None:
    told = evaluate(RUN, MIXED, ["RR"], no_relevant="zero")
    assert (told.scores["RR"], told.queries) == (0.2, 5)


def test_they_are_refused_when_that_is_the_rule() -> None:
    with pytest.raises(ArgumentError, match="3 queries have no relevant document"):
        evaluate(RUN, MIXED, ["RR"], no_relevant="error")


def test_a_judged_query_that_the_run_lacks_counts_as_nothing_found() -> None:
    assert evaluate({"right": ["a"]}, MIXED, ["RR"]).per_query == {"right": {"RR": 1.0}, "wrong": {"RR": 0.0}}


def test_of_no_query_there_is_no_mean() -> None:
    told = evaluate({}, {}, ["RR"])
    assert math.isnan(told.scores["RR"])
    assert told.queries == 0


# What is refused


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (([], TRAVEL), "run"),
        (({}, []), "qrels"),
        (({"Q": "D1"}, TRAVEL), "run"),
        (({"Q": None}, TRAVEL), "run"),
        (({"Q": ["D1", 7]}, TRAVEL), "run"),
        (({"Q": ["D1", "D1"]}, TRAVEL), "at most once"),
        (({"Q": {"D1": math.nan}}, TRAVEL), "run"),
        (({"Q": {"D1": "high"}}, TRAVEL), "run"),
        (({}, {"Q": ["D1"]}), "qrels"),
        (({}, {"Q": {"D1": 0.5}}), "qrels"),
        (({}, {"Q": {"D1": True}}), "qrels"),
        (({}, TRAVEL, "nDCG@10"), "metrics"),
        (({}, TRAVEL, []), "metrics"),
        (({}, TRAVEL, ["nonsense@5"]), "nonsense@5"),
        (({}, TRAVEL, ["recall 5"]), "recall 5"),
        (({}, TRAVEL, [5]), "metrics"),
        (({}, TRAVEL, ["R@5", "Recall@5"]), "named twice"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_name(arguments: tuple[Any, ...], named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        evaluate(*arguments)


@pytest.mark.parametrize(
    "options", [{"gain": "log"}, {"gain": 2}, {"no_relevant": "one"}, {"no_relevant": None}]
)
def test_an_unknown_convention_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(options))):
        evaluate({}, TRAVEL, ["RR"], **options)


def test_an_exponential_gain_that_no_number_holds_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at most 30"):
        evaluate({}, {"Q": {"D1": 31}}, ["nDCG@3"], gain="exponential")


def test_without_ir_measures_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ir_measures", None)
    with pytest.raises(MissingExtra, match=r"pip install 'ctxarith\[eval\]'"):
        evaluate({}, TRAVEL)


# The difference of two runs

QUERIES = {str(n): {"a": 1} for n in range(40)}


def runs(better: int) -> tuple[Any, Any]:
    """A run that puts the right document first everywhere, and one that does so for all but some."""
    first: dict[str, Any] = {query: ["a", "b"] for query in QUERIES}
    second = {query: ["b", "a"] if int(query) < better else ["a", "b"] for query in QUERIES}
    return evaluate(first, QUERIES, ["RR"]), evaluate(second, QUERIES, ["RR"])


def test_the_interval_of_a_difference_holds_its_mean_and_is_the_same_for_a_seed() -> None:
    one, other = runs(10)
    gap = paired_bootstrap(one, other, "RR", seed=3)
    assert gap.mean == pytest.approx(0.125)
    assert gap.low < gap.mean < gap.high
    assert (gap.better, gap.worse, gap.queries) == (10, 0, 40)
    assert paired_bootstrap(one, other, "RR", seed=3) == gap
    back = paired_bootstrap(other, one, "RR", seed=3)
    assert (back.mean, back.low, back.high) == pytest.approx((-gap.mean, -gap.high, -gap.low))


def test_equal_runs_differ_by_exactly_nothing() -> None:
    gap = paired_bootstrap(*runs(0), "RR")
    assert (gap.mean, gap.low, gap.high) == (0.0, 0.0, 0.0)


def test_runs_over_other_queries_or_measures_are_not_compared() -> None:
    one, other = runs(1)
    with pytest.raises(ArgumentError, match="same queries"):
        paired_bootstrap(one, evaluate({}, TRAVEL, ["RR"]), "RR")
    with pytest.raises(ArgumentError, match="measured were RR"):
        paired_bootstrap(one, other, "nDCG@10")


# BEIR folders

Folder = Callable[..., Path]
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "d1", "title": "Boiler", "text": "warranty of two years", "metadata": {"odd": {"nested": 1}}},
    {"_id": "d2", "title": "", "text": "lunch menu"},
    {"_id": "d3", "title": "Pump", "text": "warranty of a year"},
]
QUESTIONS = [
    {"_id": "q1", "text": "boiler warranty"},
    {"_id": "q2", "text": "lunch"},
    {"_id": "q3", "text": "?"},
]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td3\t1\nq2\td2\t1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    def make(files: dict[str, str] | None = None, *, zipped: bool = False) -> Path:
        lines = {"corpus.jsonl": DOCUMENTS, "queries.jsonl": QUESTIONS}
        whole = {name: "\n".join(map(json.dumps, rows)) for name, rows in lines.items()}
        for name, text in (whole | ({"qrels/test.tsv": QRELS} if files is None else files)).items():
            path = tmp_path / (f"{name}.gz" if zipped else name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
        return tmp_path

    return make


@pytest.mark.parametrize("zipped", [False, True])
def test_a_folder_is_read_plain_or_zipped(folder: Folder, zipped: bool) -> None:
    data = read_set(folder(zipped=zipped))
    assert [document["id"] for document in data.documents] == ["d1", "d2", "d3"]
    assert [document["metadata"] for document in data.documents] == [
        {"title": "Boiler"},
        {},
        {"title": "Pump"},
    ]
    assert data.queries == {"q1": "boiler warranty", "q2": "lunch"}
    assert data.qrels == {"q1": {"d1": 2, "d3": 1}, "q2": {"d2": 1}}
    assert data.split == "test"


def test_judgements_may_lie_beside_the_corpus_and_may_lack_a_header(folder: Folder) -> None:
    data = read_set(folder({"qrels.tsv": "q2\td2\t1\n"}))
    assert data.qrels == {"q2": {"d2": 1}}


def test_the_form_of_trec_with_four_columns_is_read(folder: Folder) -> None:
    assert read_set(folder({"qrels.tsv": "q2\t0\td2\t1\n"})).qrels == {"q2": {"d2": 1}}


def test_a_split_is_named_or_is_the_only_one(folder: Folder) -> None:
    assert read_set(folder({"qrels/dev.tsv": QRELS})).split == "dev"
    both = folder({"qrels/dev.tsv": QRELS, "qrels/train.tsv": "q2\td2\t1\n"})
    assert read_set(both, split="train").qrels == {"q2": {"d2": 1}}
    with pytest.raises(ArgumentError, match="dev, train"):
        read_set(both)
    with pytest.raises(ArgumentError, match="dev, train"):
        read_set(both, split="validation")


def test_fields_of_records_come_from_the_documents(folder: Folder) -> None:
    place = folder()
    dated = [{**DOCUMENTS[0], "metadata": {"created": "2026-01-02", "replaces": ["d3"]}}, *DOCUMENTS[1:]]
    (place / "corpus.jsonl").write_text("\n".join(map(json.dumps, dated)))
    first = read_set(place, fields={"created_at": "created", "supersedes": "replaces"}).documents[0]
    assert (first["created_at"], first["supersedes"]) == ("2026-01-02", ["d3"])


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("corpus.jsonl", None, "corpus.jsonl"),
        ("queries.jsonl", None, "queries.jsonl"),
        ("qrels/test.tsv", None, "none"),
        ("queries.jsonl", '{"_id": "q1"}', "line 1"),
        ("queries.jsonl", '{"_id": "q9", "text": "x"}', "no query of queries.jsonl is judged"),
        ("qrels/test.tsv", "h\th\th\nq1\td1\tmany\n", "line 2"),
        ("qrels/test.tsv", "h\th\th\nq1\t1\n", "line 2"),
        ("qrels/test.tsv", "h\th\th\n7\n", "line 2"),
    ],
)
def test_what_a_folder_lacks_is_named(folder: Folder, name: str, content: str | None, named: str) -> None:
    place = folder()
    if content is None:
        (place / name).unlink()
    else:
        (place / name).write_text(content)
    with pytest.raises(ArgumentError, match=named):
        read_set(place)


def test_a_damaged_document_and_a_missing_folder_are_named(folder: Folder) -> None:
    with pytest.raises(ArgumentError, match="no such folder"):
        read_set(Path("nowhere"))
    place = folder()
    (place / "corpus.jsonl").write_text("not json")
    with pytest.raises(RecordError, match="line 1"):
        read_set(place)


# Step by step, and the command


def test_each_step_is_asked_every_judged_query(folder: Folder) -> None:
    data = read_set(folder())
    corpus = Corpus.in_memory(embedder=WordEmbedder(), searchable=["title"])
    corpus.add(data.documents)
    asked: list[int] = []
    rows = list(ablation(corpus.run, data, steps(), watch=asked.append))
    assert [row.name for row in rows] == ["BM25", "dense", "RRF", "full"]
    assert len(asked) == 8
    assert all(row.evaluation.scores["RR"] == 1.0 for row in rows)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr("ctxarith.options.WordLlamaEmbedder", WordEmbedder)
    return lambda *arguments: CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_the_command_prints_a_table_with_its_settings(folder: Folder, command: Callable[..., Any]) -> None:
    done = command(folder())
    assert done.exit_code == 0, done.stderr
    for said in ("BM25", "dense", "RRF", "full", "nDCG@10", "gain: linear", "embedder: words-64", "seed: 0"):
        assert said in done.stdout


def test_the_command_prints_one_json_object(folder: Folder, command: Callable[..., Any]) -> None:
    options = ("--metric", "nDCG@3", "--metric", "RR", "--gain", "exponential", "--seed", "4", "--json")
    told = json.loads(command(folder(), *options).stdout)
    assert [run["run"] for run in told["runs"]] == ["BM25", "dense", "RRF", "full"]
    assert told["runs"][0]["scores"] == {"nDCG@3": 1.0, "RR": 1.0}
    assert told["runs"][3]["against_BM25"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    settings = told["settings"]
    assert (settings["queries"], settings["gain"], settings["seed"]) == (2, "exponential", 4)
    assert settings["without_relevant"] == "0 (skip)"


def test_a_kept_corpus_is_not_embedded_again_and_must_hold_the_set_alone(
    folder: Folder, command: Callable[..., Any], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    assert command(folder(), "--corpus", kept, "--json").exit_code == 0
    assert command(folder(), "--corpus", kept, "--json").exit_code == 0
    with Corpus.open(kept, embedder=WordEmbedder()) as corpus:
        assert corpus.add(read_set(folder()).documents).embedded == 0
        corpus.add([{"id": "stranger", "text": "boiler"}])
    refused = command(folder(), "--corpus", kept)
    assert refused.exit_code == 2
    assert "not of" in refused.stderr


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--metric", "nonsense"), "nonsense"),
        (("--gain", "log"), "gain"),
        (("--split", "dev"), "split"),
        (("--model", "/nowhere"), "no such folder"),
    ],
)
def test_a_wrong_option_ends_with_one_line_and_2(
    folder: Folder, command: Callable[..., Any], options: tuple[str, ...], named: str
) -> None:
    if "--model" in options:
        pytest.importorskip(
            "sentence_transformers", reason="the extra sentence-transformers is not installed"
        )
    done = command(folder(), *options)
    assert done.exit_code == 2
    assert named in done.stderr


# The sets beside the repository, with the offline default


def test_bm25_alone_reaches_its_bar_on_scifact(shared_data: Path) -> None:
    data = read_set(shared_data / "scifact")
    corpus = Corpus.in_memory(embedder=WordEmbedder(), searchable=["title"])
    corpus.add(data.documents)
    (row,) = ablation(corpus.run, data, {"BM25": steps()["BM25"]})
    assert row.evaluation.queries == 300
    assert row.evaluation.scores["nDCG@10"] >= 0.68
