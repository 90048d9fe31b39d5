"""Records from JSON lines and from folders of text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ctxarith import ArgumentError, CtxArithError, RecordError
from ctxarith.ingest.files import Mapped, batches, pairs, read_folder, read_lines

AS_IT_IS = Mapped({}, {})
REPLACED = Mapped({"superseded_by": "superseded_by"}, {})


def written(tmp_path: Path, *lines: dict[str, Any]) -> Path:
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8")
    return path


def read(tmp_path: Path, *lines: dict[str, Any], mapped: Mapped = AS_IT_IS) -> list[dict[str, Any]]:
    return list(read_lines(written(tmp_path, *lines), mapped))


def test_fields_of_a_record_are_taken_and_other_keys_become_metadata(tmp_path: Path) -> None:
    line = {"id": "r1", "text": "Rent", "tenant": "acme", "kind": "lease", "metadata": {"pages": 3}}
    assert read(tmp_path, line) == [
        {"id": "r1", "text": "Rent", "tenant": "acme", "metadata": {"kind": "lease", "pages": 3}}
    ]


def test_a_file_of_the_beir_form_needs_no_mapping(tmp_path: Path) -> None:
    assert read(tmp_path, {"_id": 7, "title": "Handover", "text": "Keys"}) == [
        {"id": "7", "text": "Keys", "metadata": {"title": "Handover"}}
    ]


def test_a_field_is_read_from_a_key_at_the_top_or_in_metadata(tmp_path: Path) -> None:
    mapped = Mapped({"created_at": "created", "scope": "path"}, {})
    lines: list[dict[str, Any]] = [
        {"id": "r1", "text": "x", "created": "2026-03-01", "metadata": {"path": "acme/ops"}},
        {"id": "r2", "text": "x", "path": "acme", "created_at": "2026-01-01"},
    ]
    assert read(tmp_path, *lines, mapped=mapped) == [
        {"id": "r1", "text": "x", "created_at": "2026-03-01", "scope": "acme/ops", "metadata": {}},
        {"id": "r2", "text": "x", "created_at": "2026-01-01", "scope": "acme", "metadata": {}},
    ]


def test_defaults_fill_what_a_line_does_not_give(tmp_path: Path) -> None:
    mapped = Mapped({}, {"tenant": "acme"})
    lines = [{"id": "r1", "text": "x"}, {"id": "r2", "text": "x", "tenant": "beta"}]
    assert [line["tenant"] for line in read(tmp_path, *lines, mapped=mapped)] == ["acme", "beta"]
    assert read(tmp_path, {"id": "r3", "text": "x", "tenant": None}, mapped=mapped)[0]["tenant"] == "acme"


def test_links_that_stand_on_the_replaced_are_turned_around(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": "new", "text": "x", "supersedes": "older"},
        {"id": "old", "text": "x", "superseded_by": "new"},
        {"id": "oldest", "text": "x", "superseded_by": ["new", "other"]},
        {"id": "other", "text": "x", "superseded_by": None},
    ]
    links = {line["id"]: line.get("supersedes") for line in read(tmp_path, *lines, mapped=REPLACED)}
    assert links == {"new": ["older", "old", "oldest"], "old": None, "oldest": None, "other": ["oldest"]}


def test_a_field_may_be_read_from_a_key_that_another_field_is_named_after(tmp_path: Path) -> None:
    mapped = Mapped({"supersedes": "replaces"}, {})
    (line,) = read(tmp_path, {"id": "r2", "text": "x", "replaces": ["r1"]}, mapped=mapped)
    assert line["supersedes"] == ["r1"]


@pytest.mark.parametrize("target", ["nonsense", "token_count", "content_hash", ""])
def test_a_target_that_is_no_field_is_refused_by_name(target: str) -> None:
    with pytest.raises(ArgumentError, match="created_at"):
        Mapped({target: "key"}, {})


def test_pairs_are_read_from_the_command_line() -> None:
    assert pairs(["created_at=created", "scope=a=b"]) == {"created_at": "created", "scope": "a=b"}
    assert pairs([]) == {}


@pytest.mark.parametrize("text", ["created_at", "=created", "created_at=", ""])
def test_a_pair_without_both_sides_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="TARGET=KEY"):
        pairs([text])


def test_a_packed_file_and_blank_lines_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl.gz"
    path.write_bytes(gzip.compress('{"id": "r1", "text": "ફી"}\n\n  \n{"id": "r2", "text": "x"}\n'.encode()))
    assert [(line["id"], line["text"]) for line in read_lines(path, AS_IT_IS)] == [("r1", "ફી"), ("r2", "x")]


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "r1", "text": "x"}\n')
    assert [line["id"] for line in read_lines(path, AS_IT_IS)] == ["r1"]


@pytest.mark.parametrize("bad", ['{"id": "r2"', "[1, 2]", '"text"', "7", "null"])
def test_a_line_that_is_no_object_is_named_by_its_number(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"id": "r1", "text": "x"}\n\n' + bad + "\n")
    with pytest.raises(RecordError, match="line 3"):
        list(read_lines(path, AS_IT_IS))


@pytest.mark.parametrize(
    "line",
    [
        {"id": "r1", "text": "x", "metadata": "oops"},
        {"id": "r1", "text": "x", "metadata": [1]},
        {"id": "r1", "text": "x", "superseded_by": 7},
        {"id": "r1", "text": "x", "superseded_by": {"a": 1}},
    ],
)
def test_a_value_of_the_wrong_shape_is_refused_by_name(tmp_path: Path, line: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match="r1"):
        read(tmp_path, line, mapped=REPLACED)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("latin.jsonl", '{"id": "r1", "text": "Rückgabe"}'.encode("latin-1")),
        ("plain.jsonl.gz", b'{"id": "r1", "text": "x"}'),
        ("cut.jsonl.gz", gzip.compress(b'{"id": "r1", "text": "x"}' * 100)[:-20]),
    ],
    ids=["latin-1", "not packed", "cut off"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CtxArithError, match=name):
        list(read_lines(path, AS_IT_IS))


def test_an_empty_file_holds_no_records(tmp_path: Path) -> None:
    assert read(tmp_path) == []


def test_a_folder_of_texts_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    (tmp_path / "faq").mkdir()
    (tmp_path / "faq" / "fees.MD").write_text("# Fees\n\n₹45,000", encoding="utf-8")
    (tmp_path / "about.txt").write_text("About us")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG")
    assert list(read_folder(tmp_path, Mapped({}, {"tenant": "acme"}))) == [
        {"id": "about.txt", "text": "About us", "tenant": "acme"},
        {"id": "faq/fees.MD", "text": "# Fees\n\n₹45,000", "tenant": "acme"},
    ]


def test_a_folder_without_texts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"\.txt"):
        list(read_folder(tmp_path, AS_IT_IS))


def test_batches_are_full_but_the_last() -> None:
    assert list(batches(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(batches([], 2)) == []
