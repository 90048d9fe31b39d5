"""A record as given becomes a record as stored: times, counts, hash, chunks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given

from ctxarith import ArgumentError, Corpus, Record, RecordError, Slot
from ctxarith.ingest.chunk import chunked, paragraphs
from ctxarith.ingest.prepare import Preparation, content_hash, once_each
from tests.fakes import WordEmbedder
from tests.strategies import record

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


def words(text: str) -> int:
    return len(text.split())


def prepared(given: Record | dict[str, Any], **settings: Any) -> Record:
    return Preparation(words, **settings).prepare(given)


# Times


@pytest.mark.parametrize(
    "field", ["created_at", "valid_from", "valid_until", "embargo_until", "retain_until"]
)
@pytest.mark.parametrize(
    "value",
    [
        "2026-03-01T09:00:00Z",
        "2026-03-01T14:30:00+05:30",
        datetime(2026, 3, 1, 18, tzinfo=timezone(timedelta(hours=9))),
        1_772_355_600,
    ],
)
def test_every_spelling_of_a_moment_is_one_moment_in_utc(field: str, value: Any) -> None:
    moment = getattr(prepared({"id": "r1", "text": "x", field: value}), field)
    assert moment == NINE
    assert moment.tzinfo is UTC


@pytest.mark.parametrize("value", ["2026-03-01T09:00:00", datetime(2026, 3, 1, 9)])
def test_a_time_without_an_offset_is_refused_by_name(value: Any) -> None:
    with pytest.raises(RecordError, match=r"r1.*created_at.*offset"):
        prepared({"id": "r1", "text": "x", "created_at": value})


@pytest.mark.parametrize("value", ["2026-03-01T09:00:00", datetime(2026, 3, 1, 9)])
def test_a_time_without_an_offset_is_read_in_the_zone_of_the_corpus(value: Any) -> None:
    given = {"id": "r1", "text": "x", "created_at": value, "metadata": {"seen": datetime(2026, 3, 1, 9)}}
    kept = prepared(given, zone=ZoneInfo("Asia/Kolkata"))
    assert kept.created_at == datetime(2026, 3, 1, 3, 30, tzinfo=UTC)
    assert kept.metadata["seen"] == datetime(2026, 3, 1, 3, 30, tzinfo=UTC)


def test_a_naive_time_in_metadata_is_refused_with_its_key() -> None:
    for value in (datetime(2026, 3, 1), [datetime(2026, 3, 1)]):
        with pytest.raises(RecordError, match=r"r1.*metadata\.seen.*offset"):
            prepared({"id": "r1", "text": "x", "metadata": {"seen": value}})


def test_a_corpus_reads_naive_times_only_when_told_where_they_were() -> None:
    given = {"id": "t1", "text": "x", "created_at": "2026-06-01 09:00"}
    with pytest.raises(RecordError, match="naive_zone"):
        Corpus.in_memory(embedder=WordEmbedder()).add([given])
    corpus = Corpus.in_memory(embedder=WordEmbedder(), naive_zone="UTC")
    corpus.add([given])
    assert corpus.get("t1")[0].created_at == datetime(2026, 6, 1, 9, tzinfo=UTC)


def test_an_end_before_the_beginning_is_refused_also_when_the_zone_decides() -> None:
    given = {"id": "r1", "text": "x", "valid_from": "2026-03-01T09:00Z", "valid_until": "2026-03-01T10:00"}
    assert prepared(given, zone=UTC).valid_until == NINE + timedelta(hours=1)
    with pytest.raises(RecordError, match=r"r1.*valid_until"):
        prepared(given, zone=ZoneInfo("Asia/Tokyo"))


# Counts and hash


def test_tokens_and_entities_are_those_of_the_text_that_is_shown() -> None:
    given = {"id": "r1", "text": "Fee is 10 EUR", "metadata": {"title": "Fee list 2026", "kind": "fee"}}
    assert prepared(given).token_count == 4
    with_title = prepared(given, searchable=("title",))
    assert with_title.token_count == 7
    assert prepared(given, entities=len).entity_count == 13


def test_the_input_is_untouched() -> None:
    given = Record(id="r1", text="x", slots=(Slot(None, "fee", 1),), metadata={"lead_id": "L-1"})
    before = replace(given)
    prepared(given)
    assert given == before
    assert given.slots == (Slot(None, "fee", 1),)


@given(one=record(facts=True))
def test_preparing_twice_is_preparing_once(one: Record) -> None:
    first = prepared(one)
    assert prepared(first) == first


CHANGES: list[dict[str, Any]] = [
    {"text": "y"},
    {"source_id": "doc"},
    {"version": "2"},
    {"tenant": "acme"},
    {"scope": "acme"},
    {"created_at": NINE + timedelta(microseconds=1)},
    {"valid_from": NINE},
    {"slots": (Slot("s", "fee", 1),)},
    {"slots": (Slot("s", "fee", 1, inferred=True),)},
    {"slots": (Slot("s", "fee"),)},
    {"supersedes": ("a",)},
    {"audience": ("ops",)},
    {"jurisdiction": "IN"},
    {"retain_until": NINE},
    {"metadata": {"v": 1}},
    {"metadata": {"v": 1.0}},
    {"metadata": {"v": True}},
    {"metadata": {"v": "1"}},
    {"metadata": {"v": (1,)}},
    {"metadata": {"v": NINE}},
    {"metadata": {"v": "2026-03-01T09:00:00Z"}},
    {"metadata": {"w": 1}},
]


def test_every_difference_in_what_is_said_is_another_hash() -> None:
    base = Record(id="r1", text="x", created_at=NINE)
    hashes = [content_hash(base), *(content_hash(replace(base, **change)) for change in CHANGES)]
    assert len(set(hashes)) == len(CHANGES) + 1


def test_what_ingest_adds_and_the_order_of_keys_change_no_hash() -> None:
    one = Record(id="r1", text="x", metadata={"a": 1, "b": 2})
    other = Record(id="r1", text="x", metadata={"b": 2, "a": 1}, token_count=7, entity_count=1)
    assert content_hash(one) == content_hash(other)


def test_a_batch_keeps_one_of_equal_records_and_refuses_different_ones() -> None:
    one, other = prepared({"id": "r1", "text": "x"}), prepared({"id": "r1", "text": "y"})
    assert once_each([one, one]) == [one]
    assert once_each([one, prepared({"id": "r1", "text": "y", "version": "2"})])[1].version == "2"
    with pytest.raises(RecordError, match=r"r1.*twice"):
        once_each([one, other])


# Chunks


def halves(text: str) -> list[str]:
    return text.split(" | ")


def test_a_chunk_keeps_everything_but_its_text_and_number() -> None:
    whole = Record(id="doc", text="one | two", scope="acme", created_at=NINE, metadata={"kind": "memo"})
    chunks = list(chunked([whole], halves))
    assert [(chunk.id, chunk.text) for chunk in chunks] == [("doc#0", "one"), ("doc#1", "two")]
    assert {(c.source_id, c.scope, c.created_at, c.metadata["kind"]) for c in chunks} == {
        ("doc", "acme", NINE, "memo")
    }


def test_a_text_in_one_piece_keeps_its_id() -> None:
    (chunk,) = chunked([Record(id="doc", text="one", source_id="book")], halves)
    assert (chunk.id, chunk.source_id) == ("doc", "book")


def test_a_splitter_may_be_an_object_as_in_langchain() -> None:
    class Splitter:
        def split_text(self, text: str) -> list[str]:
            return halves(text)

    assert [chunk.text for chunk in chunked([Record(id="a", text="one | two")], Splitter())] == ["one", "two"]


def test_what_splits_nothing_is_refused() -> None:
    with pytest.raises(ArgumentError, match="splitter"):
        list(chunked([Record(id="a", text="x")], 7))


def test_deleting_the_source_deletes_every_chunk() -> None:
    corpus = Corpus.in_memory(embedder=WordEmbedder())
    corpus.add(chunked([Record(id="doc", text="one | two"), Record(id="other", text="one")], halves))
    assert corpus.delete(source_id="doc") == 2
    assert corpus.count() == 1


def test_paragraphs_are_packed_up_to_the_limit() -> None:
    text = "one two\n\nthree\n\nfour five six seven\n\n\n\neight"
    assert paragraphs(3, words)(text) == ["one two\n\nthree", "four five six seven", "eight"]
    assert paragraphs(100, words)(text) == ["one two\n\nthree\n\nfour five six seven\n\neight"]


def test_a_blank_text_is_one_chunk() -> None:
    assert paragraphs(3, words)(" \n\n ") == [" \n\n "]
    assert paragraphs(3, words)("") == [""]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_chunk_has_at_least_one_token(limit: int) -> None:
    with pytest.raises(ArgumentError, match="limit"):
        paragraphs(limit, words)
