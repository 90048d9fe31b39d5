from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import Corpus, Principal, Record, RecordError, ScopeError, everyone, scope
from ctxarith.predicate import Predicate
from tests.fakes import WordEmbedder, matching
from tests.strategies import PATHS, scopes

TREE = ("acme/ops/a", "acme-corp/ops/b", "acme/opsx/c", "1/x", "11/y")
SEGMENTS = ("a", "b", "a0", "a-", "a.", "0", "A", "é", "日", " ", "a b")


def at(*paths: str) -> list[Record]:
    return [Record(id=f"r{n}", text="", scope=path) for n, path in enumerate(paths)]


def seen(condition: Predicate, *paths: str) -> list[str]:
    """The paths that a scope sees, evaluated one by one and by columns."""
    rows = at(*paths)
    found = [row.scope for row in rows if condition.matches(row)]
    mask = matching(rows, condition)
    assert [row.scope for row, is_in in zip(rows, mask, strict=True) if is_in] == found
    return found


def test_a_scope_is_whole_segments_and_no_prefix() -> None:  # TN-01
    assert seen(scope("acme"), *TREE) == ["acme/ops/a", "acme/opsx/c"]
    assert seen(scope("acme/ops"), *TREE) == ["acme/ops/a"]
    assert seen(scope("acme/ops/"), *TREE) == ["acme/ops/a"]
    assert seen(scope("1"), *TREE) == ["1/x"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("acme", ["r0", "r2"]),
        ("acme/ops", ["r0"]),
        ("acme/ops/", ["r0"]),
        ("/acme/ops", ["r0"]),
        ("1", ["r3"]),
    ],
)
def test_a_question_sees_its_scope_alone(corpus: Corpus, path: str, expected: list[str]) -> None:  # TN-01
    corpus.add([{"id": f"r{n}", "text": "pump", "scope": place} for n, place in enumerate(TREE)])
    assert sorted(hit.id for hit in corpus.retrieve("pump", scope=path).hits) == expected
    assert corpus.count(scope=path) == len(expected)


BAD_PATHS = (
    "acme/../acme-corp",
    "..",
    ".",
    "acme/./ops",
    "acme//ops",
    "//",
    "acme//",
    "//acme",
    "acme/ /ops",
    " ",
    "acme/ .. ",
    "acme/\x00",
    "acme/a\nb",
    "acme/\ud800",
    "a" * 1_025,
)


@pytest.mark.parametrize("path", BAD_PATHS, ids=lambda path: ascii(path)[:24])
def test_a_bad_path_is_refused_everywhere(path: str) -> None:  # TN-01
    with pytest.raises(ScopeError):
        scope(path)
    with pytest.raises(ScopeError):
        Principal("acme", scopes=[path])
    with pytest.raises(RecordError, match=r"'r1', field 'scope'"):
        Record(id="r1", text="", scope=path)
    with Corpus.in_memory(embedder=WordEmbedder()) as corpus, pytest.raises(ScopeError):
        corpus.retrieve("pump", scope=path)


@pytest.mark.parametrize("path", [None, 5, b"acme", object()])
def test_a_path_is_text(path: Any) -> None:
    with pytest.raises(RecordError, match=r"field 'scope'"):
        Record(id="r1", text="", scope=path)
    with pytest.raises(ScopeError):
        scope(path)


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        ("", ""),
        ("/", ""),
        ("acme/", "acme"),
        ("/acme/ops/", "acme/ops"),
        ("cafe\u0301/日本", "café/日本"),
        ("acme/a b", "acme/a b"),
        ("...", "..."),
        ("acme/%2e%2e", "acme/%2e%2e"),
    ],
)
def test_a_path_has_one_form(path: str, clean: str) -> None:
    assert Record(id="r1", text="", scope=path).scope == clean
    assert scope(path).paths == (clean,)
    assert Principal(scopes=[path]).scopes == (clean,)


def test_two_spellings_of_a_path_are_one_place() -> None:
    composed, decomposed = (
        unicodedata.normalize("NFC", "caf\u00e9"),
        unicodedata.normalize("NFD", "caf\u00e9"),
    )
    assert composed != decomposed
    assert seen(scope(decomposed), composed, decomposed + "/x", "cafe") == [composed, composed + "/x"]


def test_neighbours_in_sort_order_are_outside() -> None:
    around = ("a.", "a", "a/", "a/b", "a/\U0010ffff", "a0", "a/b/c", "a-", "A/b", "b")
    assert seen(scope("a"), *around) == ["a", "a", "a/b", "a/\U0010ffff", "a/b/c"]


def test_the_root_sees_all_and_no_path_sees_nothing() -> None:
    assert seen(scope(""), "", "acme", "acme/ops") == ["", "acme", "acme/ops"]
    assert seen(scope(), "", "acme") == []
    assert seen(scope([]), "", "acme") == []


def test_several_scopes_are_a_union() -> None:
    places = ("a/1", "b/1", "c/1", "")
    assert seen(scope("a", "b"), *places) == seen(scope(["a", "b"]), *places) == ["a/1", "b/1"]
    assert scope("a", "a/", "/a") == scope("a")


def test_siblings_never_see_each_other() -> None:
    assert seen(scope("a/x", inherit=True), "a/x/1", "a/y", "a/y/1") == ["a/x/1"]


def test_a_scope_inherits_what_hangs_exactly_on_its_ancestors() -> None:
    places = ("", "org", "org/faq", "org/team", "org/team/x", "org/team/x/1", "other")
    assert seen(scope("org/team/x", inherit=True), *places) == [
        "",
        "org",
        "org/team",
        "org/team/x",
        "org/team/x/1",
    ]
    assert seen(scope("org/team/x"), *places) == ["org/team/x", "org/team/x/1"]


def test_a_string_scope_never_inherits_by_itself(corpus: Corpus) -> None:
    corpus.add(
        [
            {"id": "fees", "text": "pump", "scope": "org"},
            {"id": "mine", "text": "pump", "scope": "org/team"},
            {"id": "theirs", "text": "pump", "scope": "org/other"},
        ]
    )

    def found(given_scope: Any) -> list[str]:
        return sorted(hit.id for hit in corpus.retrieve("pump", scope=given_scope).hits)

    assert found("org/team") == ["mine"]
    assert found(scope("org/team", inherit=True)) == ["fees", "mine"]
    assert found(["org/team", "org/other"]) == ["mine", "theirs"]
    assert found(None) == ["fees", "mine", "theirs"]
    assert found([]) == []


@pytest.mark.parametrize("given_scope", [5, b"acme", everyone, ["acme", None]], ids=repr)
def test_a_scope_that_is_none_is_refused_by_the_front_door(given_scope: Any) -> None:
    with Corpus.in_memory(embedder=WordEmbedder()) as corpus, pytest.raises(ScopeError):
        corpus.retrieve("pump", scope=given_scope)


def test_a_scope_reads_as_it_was_written() -> None:
    assert str(scope("acme/ops", "acme/hr")) == "scope acme/ops | acme/hr"
    assert str(scope("acme", inherit=True)) == "scope acme with ancestors"
    assert str(scope("")) == "scope /"
    assert str(scope()) == "scope nothing"
    assert str(everyone) == "everyone"


# Laws

paths = st.lists(st.sampled_from(SEGMENTS).filter(str.strip), max_size=3).map("/".join)


@given(st.lists(paths, max_size=2), st.lists(paths, max_size=6), st.booleans())
def test_a_scope_sees_the_nodes_that_begin_with_its_segments(
    granted: list[str], places: list[str], inherit: bool
) -> None:
    def below(node: str, path: str) -> bool:
        wanted, given_segments = node.split("/") if node else [], path.split("/") if path else []
        return given_segments[: len(wanted)] == wanted

    expected = [
        path
        for path in places
        if any(below(node, path) or (inherit and below(path, node)) for node in granted)
    ]
    assert seen(scope(granted, inherit=inherit), *places) == expected


@given(st.lists(st.sampled_from(PATHS), max_size=4).map(lambda places: at(*places)), scopes())
def test_a_scope_and_its_comparisons_say_the_same(rows: list[Record], condition: Predicate) -> None:
    lowered = condition.lowered()  # type: ignore[attr-defined]
    assert [condition.matches(row) for row in rows] == [lowered.matches(row) for row in rows]


@given(st.sampled_from(PATHS), st.sampled_from(PATHS))
def test_what_one_node_sees_a_second_node_adds_to(one: str, other: str) -> None:
    union = seen(scope(one, other), *PATHS)
    assert set(union) == {*seen(scope(one), *PATHS), *seen(scope(other), *PATHS)}
