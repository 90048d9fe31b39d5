"""The command line: what it prints, what it writes as JSON, and how it ends."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ctxarith.cli import app
from tests.fakes import WordEmbedder

FEES: list[dict[str, Any]] = [
    {"id": "r1", "text": "Fee is 10 EUR", "created": "2026-01-10", "kind": "fee", "superseded_by": "r2"},
    {"id": "r2", "text": "Fee is 12 EUR", "created": "2026-03-10", "kind": "fee", "path": "acme/ops"},
    {"id": "r3", "text": "Keys are with the porter", "created": "2026-02-10", "kind": "memo"},
]
MAPPED = ["--field", "created_at=created", "--field", "superseded_by=superseded_by", "--field", "scope=path"]

Run = Callable[..., Result]
Write = Callable[..., str]


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> WordEmbedder:
    shared = WordEmbedder()
    monkeypatch.setattr("ctxarith.options.WordLlamaEmbedder", lambda: shared)
    return shared


@pytest.fixture
def run(embedder: WordEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def lines(*given: dict[str, Any] | str, name: str = "records.jsonl") -> str:
        told = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in given]
        content = "\n".join(told).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return name

    return lines


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of the three fee records, for reading."""
    folder = tmp_path_factory.mktemp("kept")
    lines = folder / "records.jsonl"
    lines.write_text("\n".join(map(json.dumps, FEES)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxarith.options.WordLlamaEmbedder", WordEmbedder)
        made = CliRunner().invoke(app, ["ingest", str(lines), *MAPPED, "--corpus", str(folder / "fees")])
    assert made.exit_code == 0
    return folder / "fees"


@pytest.fixture
def fees(run: Run, kept: Path) -> Run:
    """Runs a command on the three fee records, unless it names another corpus."""

    def on_fees(*arguments: str) -> Result:
        own = () if "--corpus" in arguments else ("--corpus", str(kept))
        return run(*arguments, *own)

    return on_fees


def told(result: Result) -> Any:
    """The one JSON object on standard output of a call that went well."""
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def refusal(result: Result, code: int = 2) -> tuple[str, str]:
    """The one JSON object on standard error of a call that did not."""
    assert (result.exit_code, result.stdout) == (code, "")
    said = json.loads(result.stderr)
    assert set(said) == {"error", "message"}
    return said["error"], said["message"]


def found(result: Result) -> list[str]:
    return [hit["id"] for hit in told(result)["hits"]]


# ingest


@pytest.mark.parametrize("name", ["records.jsonl", "records.jsonl.gz"])
def test_lines_become_records(run: Run, write: Write, name: str) -> None:
    assert told(run("ingest", write(*FEES, name=name), *MAPPED, "--json")) == {
        "added": 3,
        "corrected": 0,
        "unchanged": 0,
        "embedded": 3,
        "dangling": [],
        "corpus": "corpus.ctxarith",
    }
    assert found(run("query", "fee", "--json"))[0] == "r2"


def test_a_second_run_embeds_nothing(run: Run, write: Write, embedder: WordEmbedder) -> None:
    path = write(*FEES)
    for added, unchanged in ((3, 0), (0, 3)):
        said = told(run("ingest", path, *MAPPED, "--json"))
        assert (said["added"], said["unchanged"], said["embedded"]) == (added, unchanged, added)
    assert len(embedder.embedded) == 3


def test_ingest_says_what_it_did(run: Run, write: Write) -> None:
    result = run("ingest", write(*FEES), *MAPPED, "--corpus", "c")
    assert result.stdout == "3 added, 0 corrected, 0 unchanged, 3 embedded in c\n"


def test_a_folder_of_texts_becomes_records(run: Run, tmp_path: Path) -> None:
    (tmp_path / "docs" / "faq").mkdir(parents=True)
    (tmp_path / "docs" / "faq" / "fees.md").write_text("The fee is 12 EUR")
    (tmp_path / "docs" / "keys.txt").write_text("Keys are with the porter")
    assert told(run("ingest", "docs", "--json"))["added"] == 2
    assert found(run("query", "fee", "--top", "1", "--json")) == ["faq/fees.md"]


def test_a_link_on_the_replacing_line_can_have_another_name(run: Run, write: Write) -> None:
    path = write({"id": "a", "text": "Fee is 10"}, {"id": "b", "text": "Fee is 12", "replaces": ["a"]})
    run("ingest", path, "--field", "supersedes=replaces")
    assert found(run("query", "fee", "--json")) == ["b"]


def test_a_link_to_nobody_is_reported(run: Run, write: Write) -> None:
    path = write({"id": "a", "text": "Fee is 10", "supersedes": ["zz"]})
    assert told(run("ingest", path, "--json"))["dangling"] == ["zz"]
    other = write({"id": "b", "text": "x", "supersedes": ["yy"]})
    assert "yy" in run("ingest", other).stdout


def test_a_link_within_the_file_is_not_dangling_across_batches(run: Run, write: Write) -> None:
    path = write({"id": "b", "text": "Fee is 12", "supersedes": ["a"]}, {"id": "a", "text": "Fee is 10"})
    assert told(run("ingest", path, "--batch", "1", "--json"))["dangling"] == []


def test_a_replacement_that_is_not_in_the_file_is_reported(run: Run, write: Write) -> None:
    # SU-11
    path = write({"id": "a", "text": "Fee is 10", "superseded_by": "gone"})
    said = told(run("ingest", path, "--field", "superseded_by=superseded_by", "--json"))
    assert (said["added"], said["dangling"]) == (1, ["gone"])
    assert found(run("query", "fee", "--json")) == ["a"]


def test_two_tenants_and_a_link_to_nobody_are_reported_not_refused(run: Run, write: Write) -> None:
    path = write(
        {"id": "a", "text": "Fee", "tenant": "acme", "supersedes": ["zz"]},
        {"id": "a", "text": "Fee", "tenant": "beta"},
    )
    said = told(run("ingest", path, "--json"))
    assert (said["added"], said["dangling"]) == (2, ["zz"])


def test_what_came_before_a_bad_line_stays_and_the_next_run_goes_on(
    run: Run, write: Write, embedder: WordEmbedder
) -> None:
    path = write(*FEES[:2], "{oops", FEES[2])
    error, message = refusal(run("ingest", path, *MAPPED[:2], "--batch", "1", "--json"))
    assert error == "RecordError"
    assert "line 3" in message
    said = told(run("ingest", write(*FEES), *MAPPED[:2], "--batch", "1", "--json"))
    assert (said["added"], said["unchanged"], said["embedded"]) == (1, 2, 1)
    assert len(embedder.embedded) == 3


def test_a_batch_with_a_bad_record_is_absent_as_a_whole(run: Run, write: Write) -> None:
    path = write(
        {"id": "a", "text": "x"}, {"id": "b", "text": "x"}, {"id": "c", "text": "x", "created_at": "?"}
    )
    error, message = refusal(run("ingest", path, "--batch", "2", "--json"))
    assert error == "RecordError"
    assert "'c'" in message
    assert found(run("query", "x", "--json")) == ["a", "b"]


def test_long_texts_are_split_at_paragraphs(run: Run, write: Write) -> None:
    path = write({"id": "doc", "text": "The fee is 12 EUR\n\nKeys are with the porter", "kind": "memo"})
    assert told(run("ingest", path, "--chunk", "8", "--json"))["added"] == 2
    said = told(run("query", "keys", "--top", "1", "--json"))
    assert [(hit["id"], hit["source_id"]) for hit in said["hits"]] == [("doc#1", "doc")]
    assert said["citations"] == {"1": ["doc", "1"]}


def test_chunks_that_a_text_no_longer_has_are_gone(run: Run, write: Write) -> None:
    texts = ["Fee is 10\n\nRent is 900\n\nKeys", "Fee is 12\n\nRent is 900", "Fee is 12"]
    kept = []
    for text in texts:
        run("ingest", write({"id": "doc", "text": text}), "--chunk", "5")
        kept.append(sorted(found(run("query", "fee rent keys", "--json"))))
    assert kept == [["doc#0", "doc#1", "doc#2"], ["doc#0", "doc#1"], ["doc"]]


def test_a_text_that_replaces_another_replaces_all_its_chunks(run: Run, write: Write) -> None:
    old = {"id": "old", "text": "Fee is 10\n\nRent is 900"}
    new = {"id": "new", "text": "Fee is 12\n\nRent is 950", "supersedes": ["old"]}
    assert told(run("ingest", write(old, new), "--chunk", "5", "--json"))["dangling"] == []
    assert sorted(found(run("query", "fee rent", "--json"))) == ["new#0", "new#1"]


def test_chunking_deletes_nothing_of_another_document_of_the_same_source(run: Run, write: Write) -> None:
    for rid, text in (("sec1", "Fee is 10"), ("sec2", "Rent is 900\n\nKeys"), ("sec2", "Rent is 950")):
        run("ingest", write({"id": rid, "text": text, "source_id": "book"}), "--chunk", "5")
    assert sorted(found(run("query", "fee rent keys", "--json"))) == ["sec1", "sec2"]


def test_lines_that_name_no_tenant_and_no_scope_get_the_given_ones(run: Run, write: Write) -> None:
    path = write({"id": "a", "text": "Fee"}, {"id": "b", "text": "Fee", "tenant": "beta", "scope": "x"})
    run("ingest", path, "--tenant", "acme", "--scope", "ops")
    for tenant, scope, ids in (("acme", "ops", ["a"]), ("beta", "x", ["b"]), ("beta", "ops", [])):
        assert found(run("query", "fee", "--tenant", tenant, "--scope", scope, "--json")) == ids


def test_a_title_is_searched_unless_told_otherwise(run: Run, write: Write) -> None:
    # LX-10
    path = write({"_id": "t1", "title": "Site KYO handover", "text": "Keys"}, {"_id": "t2", "text": "Roster"})
    run("ingest", path)
    run("ingest", path, "--corpus", "other", "--searchable", "kind")
    assert found(run("query", "KYO", "--json"))[0] == "t1"
    assert "KYO" not in run("query", "KYO", "--corpus", "other").stdout


def test_a_time_without_an_offset_needs_a_zone(run: Run, write: Write) -> None:
    path = write({"id": "a", "text": "Fee", "created_at": "2026-03-01T10:00"})
    error, message = refusal(run("ingest", path, "--json"))
    assert error == "RecordError"
    assert "offset" in message
    assert told(run("ingest", path, "--naive-zone", "Asia/Kolkata", "--json"))["added"] == 1
    (hit,) = told(run("query", "fee", "--json"))["hits"]
    assert hit["record"]["created_at"] == "2026-03-01T04:30:00Z"


@pytest.mark.parametrize(
    ("arguments", "error", "word"),
    [
        (["missing.jsonl"], "ArgumentError", "missing.jsonl"),
        (["records.jsonl", "--field", "nonsense=created"], "ArgumentError", "nonsense"),
        (["records.jsonl", "--field", "created"], "ArgumentError", "TARGET=KEY"),
        (["records.jsonl", "--naive-zone", "Mars"], "ArgumentError", "Mars"),
        (["records.jsonl", "--chunk", "0"], "ArgumentError", "limit"),
        (["records.jsonl", "--field", "created_at=created", "--tenant", " "], "RecordError", "tenant"),
        (["empty"], "ArgumentError", ".txt"),
        (["texts", "--field", "created_at=created"], "ArgumentError", "created_at"),
    ],
)
def test_input_that_cannot_be_used_ends_with_2(
    run: Run, write: Write, tmp_path: Path, arguments: list[str], error: str, word: str
) -> None:
    write(*FEES)
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("Fee")
    name, message = refusal(run("ingest", *arguments, "--json"))
    assert (name, word in message) == (error, True)
    plain = run("ingest", *arguments)
    assert (plain.exit_code, plain.stdout) == (2, "")
    assert plain.stderr == f"{error}: {message}\n"


@pytest.mark.parametrize(
    "line", ["[1]", "{", '{"id": "a"}', '{"id": "a", "text": "x", "metadata": 7}', '{"id": 7, "text": "x"}']
)
def test_a_line_that_is_no_record_ends_with_2(run: Run, write: Write, line: str) -> None:
    assert refusal(run("ingest", write(line), "--json"))[0] == "RecordError"


def test_a_file_that_is_no_text_ends_with_2(run: Run, tmp_path: Path) -> None:
    (tmp_path / "image.jsonl").write_bytes(b"\x89PNG\xff\xfe")
    (tmp_path / "plain.jsonl.gz").write_bytes(b"{}")
    for name in ("image.jsonl", "plain.jsonl.gz"):
        assert name in refusal(run("ingest", name, "--json"))[1]


def test_a_folder_that_cannot_be_used_ends_with_3(run: Run, write: Write) -> None:
    path = write(*FEES)
    error, message = refusal(run("ingest", path, "--corpus", path, "--json"), code=3)
    assert error == "StoreError"
    assert "records.jsonl" in message
    assert run("ingest", path, "--corpus", path).exit_code == 3


# query


def test_a_query_prints_the_context_and_what_it_cost(fees: Run) -> None:
    result = fees("query", "fee", "--top", "1")
    assert result.exit_code == 0
    assert result.stdout == "[1] (2026-03-10) Fee is 12 EUR\n"
    assert result.stderr.startswith("16 tokens, ")


def test_a_query_as_json_holds_text_hits_citations_and_funnel(fees: Run) -> None:
    said = told(fees("query", "fee", "--top", "1", "--json"))
    assert said["text"] == "[1] (2026-03-10) Fee is 12 EUR"
    assert said["citations"] == {"1": ["r2", "1"]}
    (hit,) = said["hits"]
    assert (hit["id"], hit["replaces"], hit["record"]["scope"]) == ("r2", ["r1"], "acme/ops")
    assert {(drop["id"], drop["stage"]) for drop in said["drops"]} == {("r1", "superseded"), ("r3", "top")}
    assert said["funnel"][0]["stage"] == "permitted"
    assert said["funnel"][0]["count"] == 3
    assert (said["tokens"], said["naive_tokens"]) == (16, 15)


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (["--where", '{"kind": "memo"}'], ["r3"]),
        (["--where", '{"created_at": {"$lt": "2026-03-01"}}'], ["r3"]),
        (["--scope", "acme"], ["r2"]),
        (["--scope", "acme", "--scope", "nowhere"], ["r2"]),
        (["--scope", "acme-corp"], []),
        (["--as-of", "2026-02-01"], ["r1"]),
        (["--include-superseded", "--where", '{"kind": "fee"}'], ["r2", "r1"]),
        (["--tokens", "16", "--rank", "fused"], ["r2"]),
        (["--tenant", "nobody"], []),
    ],
)
def test_a_query_is_narrowed_by_its_options(fees: Run, arguments: list[str], ids: list[str]) -> None:
    assert found(fees("query", "fee", *arguments, "--json")) == ids


def test_a_query_that_finds_nothing_says_so(fees: Run) -> None:
    result = fees("query", "fee", "--scope", "nowhere")
    assert (result.exit_code, result.stdout) == (0, "(nothing found)\n")
    assert told(fees("query", "fee", "--scope", "nowhere", "--json"))["text"] == ""


def test_an_audience_is_met_by_a_group(run: Run, write: Write) -> None:
    run("ingest", write({"id": "a", "text": "Fee", "audience": ["ops"]}))
    assert found(run("query", "fee", "--json")) == []
    assert found(run("query", "fee", "--group", "sales", "--group", "ops", "--json")) == ["a"]


def test_groups_of_the_only_tenant_need_no_tenant(run: Run, write: Write) -> None:
    run("ingest", write({"id": "a", "text": "Fee", "tenant": "acme", "audience": ["ops"]}))
    assert found(run("query", "fee", "--group", "ops", "--json")) == ["a"]


def test_with_two_tenants_a_query_says_whose(run: Run, write: Write) -> None:
    run(
        "ingest",
        write({"id": "a", "text": "Fee", "tenant": "acme"}, {"id": "b", "text": "Fee", "tenant": "beta"}),
    )
    for more in ([], ["--group", "ops"]):
        assert refusal(run("query", "fee", *more, "--json"))[0] == "PrincipalRequired"
    assert found(run("query", "fee", "--tenant", "beta", "--json")) == ["b"]


def test_signs_of_markup_in_a_record_are_printed_as_they_are(run: Run, write: Write) -> None:
    run("ingest", write({"id": "a[/]", "text": "Fee [red]12[/red] \\[x] [/nothing]"}))
    assert run("query", "fee").stdout == "[1] Fee [red]12[/red] \\[x] [/nothing]\n"
    explained = run("explain", "fee", "--top", "1", "--why", "a[/]")
    assert explained.exit_code == 0
    assert "a[/]: in the context at place 1 of 1" in explained.stdout


@pytest.mark.parametrize(
    ("arguments", "error", "word"),
    [
        (["--where", "{bad"], "ArgumentError", "not JSON"),
        (["--where", "[1]"], "PredicateError", "filter"),
        (["--where", '{"kind": {"$equals": 1}}'], "PredicateError", "$equals"),
        (["--where", '{"kind": {}}'], "PredicateError", "kind"),
        (["--where", '{"year": NaN}'], "PredicateError", "year"),
        (["--scope", "acme/../beta"], "ScopeError", "acme/../beta"),
        (["--rank", "best"], "ArgumentError", "best"),
        (["--top", "0"], "ArgumentError", "0"),
        (["--tokens", "-1"], "ArgumentError", "-1"),
        (["--as-of", "yesterday"], "ArgumentError", "yesterday"),
        (["--tenant", " "], "ArgumentError", "tenant"),
        (["--corpus", "nowhere"], "ArgumentError", "nowhere"),
    ],
)
@pytest.mark.parametrize("command", ["query", "explain"])
def test_a_question_that_cannot_be_asked_ends_with_2(
    fees: Run, command: str, arguments: list[str], error: str, word: str
) -> None:
    name, message = refusal(fees(command, "fee", *arguments, "--json"))
    assert (name, word in message) == (error, True)
    assert fees(command, "fee", *arguments).exit_code == 2


def test_a_corpus_that_is_broken_ends_with_3(run: Run, tmp_path: Path) -> None:
    (tmp_path / "corpus.ctxarith").mkdir()
    (tmp_path / "corpus.ctxarith" / "journal.sqlite").write_bytes(b"no database " * 200)
    error, message = refusal(run("query", "fee", "--json"), code=3)
    assert error == "StoreError"
    assert "journal.sqlite" in message


def test_a_query_makes_no_corpus_where_there_is_none(run: Run, tmp_path: Path) -> None:
    assert run("query", "fee", "--corpus", "nowhere").exit_code == 2
    assert list(tmp_path.iterdir()) == []


# explain


def test_an_explanation_shows_the_funnel_and_what_was_left_out(fees: Run) -> None:
    result = fees("explain", "fee", "--top", "1")
    assert result.exit_code == 0
    for word in ("permitted", "semantic", "lexical", "budget", "named in supersedes", "below the first 1"):
        assert word in result.stdout


def test_an_explanation_says_what_became_of_an_id(fees: Run) -> None:
    result = fees("explain", "fee", "--top", "1", "--why", "r1", "--why", "r2", "--why", "nobody")
    lines = [line for line in result.stdout.splitlines() if line.split(":")[0] in ("r1", "r2", "nobody")]
    assert [line.split(":")[0] for line in lines] == ["r1", "r2", "nobody"]
    assert "superseded" in lines[0]
    assert "place 1 of 1" in lines[1]
    assert lines[2] == "nobody: no such record for this caller"


def test_an_auditor_reads_why_a_record_is_closed(run: Run, write: Write) -> None:
    closed = {
        "id": "x",
        "text": "the fee",
        "tenant": "acme",
        "audience": ["board"],
        "embargo_until": "2990-01-01",
    }
    run("ingest", write({"id": "a", "text": "fee", "tenant": "acme"}, closed))
    asked = ("explain", "fee", "--tenant", "acme", "--auditors", "compliance", "--why", "x", "--json")
    (line,) = told(run(*asked, "--group", "compliance"))["why"]["x"]
    assert line.startswith("not permitted: audience (fails ")
    assert "; embargo (fails " in line
    assert told(run(*asked))["why"]["x"] == ["no such record for this caller"]
    published = told(run(*asked, "--group", "compliance", "--as-published"))["funnel"]
    assert [(step["stage"], step["count"]) for step in published[:2]] == [("records", 2), ("semantic", 2)]
    assert refusal(run(*asked, "--as-published"))[0] == "ArgumentError"


@pytest.mark.parametrize(("words", "ids"), [("plain", ["a", "b"]), ("fuzzy_prefix", ["b", "a"])])
def test_a_query_says_how_its_words_are_taken(run: Run, write: Write, words: str, ids: list[str]) -> None:
    run("ingest", write({"id": "a", "text": "lamp"}, {"id": "b", "text": "warranty"}))
    assert found(run("query", "warrenty", "--words", words, "--rank", "fused", "--json")) == ids
    explained = run("explain", "warrenty", "--words", words)
    assert ("warrenti as warranti" in explained.stdout) == (words == "fuzzy_prefix")


def test_an_explanation_as_json_is_the_query_with_the_verdicts(fees: Run) -> None:
    said = told(fees("explain", "fee", "--why", "nobody", "--json"))
    assert said["why"] == {"nobody": ["no such record for this caller"]}
    assert [hit["id"] for hit in said["hits"]] == ["r2", "r3"]
    assert [step["stage"] for step in said["funnel"]][:4] == ["permitted", "scope", "metadata", "current"]


def test_an_explanation_without_a_question_is_the_plan(fees: Run) -> None:
    plain = fees("explain", "--scope", "acme", "--where", '{"kind": "fee"}')
    assert plain.exit_code == 0
    for word in ("tenant = 'default'", "scope acme", "kind = 'fee'", "superseded", "Top(count=5)"):
        assert word in plain.stdout
    said = told(fees("explain", "--scope", "acme", "--json"))
    assert set(said) == {"plan"}
    assert "policy" in said["plan"]


# demo


@pytest.fixture(scope="module")
def played() -> Any:
    return told(CliRunner().invoke(app, ["demo", "--json"]))


def test_the_demo_as_json_is_one_object_with_its_scenarios(played: Any) -> None:
    assert set(played) == {"scenarios"}
    assert [scenario["name"] for scenario in played["scenarios"]] == ["calls", "nps", "travel"]
    for scenario in played["scenarios"]:
        assert {"funnel", "hits", "tokens", "naive_tokens", "text", "drops"} <= set(scenario)
        assert scenario["text"]
        for step in scenario["funnel"]:
            assert {"stage", "count", "ms"} <= set(step)
            assert (type(step["stage"]), type(step["count"])) == (str, int)
            assert step["ms"] >= 0
        for drop in scenario["drops"]:
            assert {"id", "stage", "reason"} <= set(drop)
        counts = [step["count"] for step in scenario["funnel"]]
        assert counts[-1] == len(scenario["hits"]) <= counts[0]


def test_the_demo_delivers_far_fewer_tokens_than_everything(played: Any) -> None:
    for scenario in played["scenarios"]:
        assert 0 < scenario["tokens"] <= 450 < scenario["naive_tokens"]


def test_a_part_of_the_demo_can_be_kept_and_asked_again(run: Run, embedder: WordEmbedder) -> None:
    first = run("demo", "--name", "nps", "--corpus", "kept")
    assert first.exit_code == 0
    assert "The context that the model receives" in first.stdout
    embedded = len(embedder.embedded)
    again = told(run("demo", "--name", "nps", "--corpus", "kept", "--json"))
    assert [scenario["name"] for scenario in again["scenarios"]] == ["nps"]
    assert len(embedder.embedded) == embedded
    assert run("explain", "--corpus", "kept/nps", "--tenant", "nobody").exit_code == 0


def test_an_example_that_is_not_there_is_refused_with_those_that_are(run: Run) -> None:
    error, message = refusal(run("demo", "--name", "nonsense", "--json"))
    assert error == "ArgumentError"
    assert "calls, nps, travel" in message


# the program itself


def test_help_names_every_command(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    for command in ("ingest", "query", "explain", "demo"):
        assert command in result.stdout


def test_a_wrong_use_ends_with_2(run: Run) -> None:
    for arguments in (["query"], ["nonsense"], ["query", "x", "--nonsense"], ["query", "x", "--top", "many"]):
        assert run(*arguments).exit_code == 2


def test_a_misspelt_field_is_not_taken_for_metadata(run: Run, write: Write) -> None:
    path = write({"id": "a", "text": "Warranty", "valid_untill": "2026-01-01"})
    assert refusal(run("ingest", path, "--json"))[1].endswith(
        "did you mean valid_until? else map it (--field valid_until=valid_untill) or put it into metadata"
    )


def test_a_line_without_an_id_is_named_by_its_number(run: Run, write: Write) -> None:
    path = write({"id": "a", "text": "Fee"}, {"ref": "b", "text": "Fee"})
    message = refusal(run("ingest", path, "--json"))[1]
    assert "line 2" in message
    assert "--field id=KEY" in message


def test_a_grant_and_the_ancestors_of_a_scope_can_be_asked_for(run: Run, write: Write) -> None:
    places = {"rule": "", "flat-12": "birch/12", "flat-21": "birch/21"}
    run("ingest", write(*({"id": rid, "text": "Fee", "scope": scope} for rid, scope in places.items())))
    assert found(run("query", "fee", "--grant", "birch/12", "--json")) == ["flat-12", "rule"]
    assert found(run("query", "fee", "--scope", "birch/12", "--json")) == ["flat-12"]
    assert sorted(found(run("query", "fee", "--scope", "birch/12", "--inherit", "--json"))) == [
        "flat-12",
        "rule",
    ]


def test_a_budget_that_nothing_fits_is_not_called_an_empty_answer(run: Run, write: Write) -> None:
    run("ingest", write({"id": "a", "text": "The fee is twelve"}))
    assert run("query", "fee", "--tokens", "2").stdout == "(nothing fits the budget)\n"


def test_the_version_is_told(run: Run) -> None:
    assert run("--version").stdout.startswith("0.")
