"""The journal: what was begun and not settled is described on disk, and forgotten without a trace."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from ctxarith import Record, StoreError
from ctxarith.ports import Row, RowKey
from ctxarith.stores.journal import SqliteJournal
from tests.strategies import record

OLD = Row(Record(id="r1", text="Fee is 10 EUR", metadata={"kind": "fee"}), np.asarray([0.6, 0.8], np.float32))
OTHER = Row(OLD.record, OLD.vector, revision=2)
KEYS = [RowKey("default", "r1", "1"), RowKey("o'brien", "日本", "v1", 3)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


@pytest.fixture
def journal(place: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(place)
    yield opened
    opened.close()


def told(rows: list[Row]) -> list[tuple[Record, list[float], int]]:
    return [(row.record, row.vector.tolist(), row.revision) for row in rows]


def test_nothing_is_pending_at_first(journal: SqliteJournal) -> None:
    assert journal.pending() == ([], [])


def test_what_was_intended_is_pending_with_the_rows_to_put_back(journal: SqliteJournal) -> None:
    journal.intend(KEYS, [OLD, OTHER])
    keys, before = journal.pending()
    assert keys == KEYS
    assert told(before) == told([OLD, OTHER])


def test_what_is_pending_survives_closing_without_settling(place: Path) -> None:
    first = SqliteJournal(place)
    first.intend(KEYS, [OLD])
    first.close()
    keys, before = SqliteJournal(place).pending()
    assert keys == KEYS
    assert told(before) == told([OLD])


def test_another_connection_sees_what_is_pending_at_once(journal: SqliteJournal, place: Path) -> None:
    # A process that dies leaves no chance to close anything.
    journal.intend(KEYS, [])
    assert SqliteJournal(place).pending()[0] == KEYS


def test_what_is_settled_is_no_longer_pending(journal: SqliteJournal) -> None:
    journal.intend(KEYS, [OLD])
    journal.settle()
    assert journal.pending() == ([], [])


def test_settling_twice_does_nothing_more(journal: SqliteJournal) -> None:
    journal.settle()
    journal.settle()
    assert journal.pending() == ([], [])


@given(one=record(facts=True))
def test_any_record_can_be_put_back(one: Record) -> None:
    journal = SqliteJournal()
    journal.intend([], [Row(one, OLD.vector)])
    ((kept, vector, _),) = told(journal.pending()[1])
    journal.close()
    assert kept == one
    assert {key: type(value) for key, value in kept.metadata.items()} == {
        key: type(value) for key, value in one.metadata.items()
    }
    assert vector == OLD.vector.tolist()


def test_settings_are_remembered_and_replaced_by_name(place: Path) -> None:
    first = SqliteJournal(place)
    first.remember({"embedder": "words-64", "stem": "yes"})
    first.remember({"stem": "no"})
    first.close()
    assert SqliteJournal(place).settings() == {"embedder": "words-64", "stem": "no"}


def test_a_journal_without_a_place_is_gone_with_the_process() -> None:
    SqliteJournal().remember({"embedder": "words-64"})
    assert SqliteJournal().settings() == {}


def test_a_settled_text_leaves_no_trace_in_the_file(place: Path) -> None:
    # PK-08
    journal = SqliteJournal(place)
    secret = Record(id="r1", text="ZEBRA-SECRET-42 " * 500, metadata={"note": "ZEBRA-SECRET-42"})
    journal.intend([RowKey("default", "r1", "1")], [Row(secret, OLD.vector)])
    journal.settle()
    journal.scrub(lambda tenant, rid: True)
    files = list(place.parent.iterdir())
    assert place in files
    assert [file.name for file in files if b"ZEBRA" in file.read_bytes()] == []
    journal.close()


def test_scrubbing_keeps_settings_and_what_is_pending(journal: SqliteJournal) -> None:
    journal.remember({"embedder": "words-64"})
    journal.intend(KEYS, [OLD])
    journal.scrub(lambda tenant, rid: True)
    assert journal.settings() == {"embedder": "words-64"}
    assert journal.pending()[0] == KEYS


def test_a_file_that_is_no_journal_is_named_in_the_error(place: Path) -> None:
    place.write_bytes(b"this is not a database" * 100)
    with pytest.raises(StoreError, match=r"journal\.sqlite"):
        SqliteJournal(place)


def test_a_folder_that_is_missing_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        SqliteJournal(tmp_path / "nowhere" / "journal.sqlite")


def test_a_journal_that_was_closed_says_so(journal: SqliteJournal) -> None:
    journal.close()
    with pytest.raises(StoreError, match="closed"):
        journal.intend(KEYS, [])


def test_a_description_that_fails_half_way_leaves_the_journal_usable(
    journal: SqliteJournal, place: Path
) -> None:
    with sqlite3.connect(place, timeout=0) as other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON pending_row BEGIN SELECT RAISE(FAIL, 'full'); END"
        )
    with pytest.raises(StoreError, match="full"):
        journal.intend(KEYS, [OLD])
    assert journal.pending() == ([], [])
    with sqlite3.connect(place, timeout=0) as other:
        other.execute("DROP TRIGGER full")
    journal.intend(KEYS, [OLD])
    assert journal.pending()[0] == KEYS


def test_a_settlement_that_fails_keeps_what_is_pending(journal: SqliteJournal, place: Path) -> None:
    journal.intend(KEYS, [OLD])
    with sqlite3.connect(place, timeout=0) as other:
        other.execute(
            "CREATE TRIGGER full BEFORE DELETE ON pending_row BEGIN SELECT RAISE(FAIL, 'full'); END"
        )
    with pytest.raises(StoreError, match="full"):
        journal.settle()
    assert (journal.pending()[0], told(journal.pending()[1])) == (KEYS, told([OLD]))
    with sqlite3.connect(place, timeout=0) as other:
        other.execute("DROP TRIGGER full")
    journal.settle()
    assert journal.pending() == ([], [])


def test_times_far_from_today_are_put_back_exactly(journal: SqliteJournal) -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    journal.intend([], [Row(Record(id="r1", text="x", valid_until=last), OLD.vector)])
    assert journal.pending()[1][0].record.valid_until == last
