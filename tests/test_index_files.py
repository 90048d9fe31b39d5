"""Index files that cannot be written, are damaged, or are lost while something else goes wrong."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ctxarith.index.files
from ctxarith import Corpus, Record, StoreError
from ctxarith.durable import HOLDS, YES, Written
from ctxarith.index.files import SegmentFiles
from ctxarith.ingest.keeper import Keeper
from ctxarith.ports import Row
from ctxarith.stores.inmemory import InMemoryStore
from ctxarith.stores.journal import SqliteJournal
from ctxarith.stores.lock import WriterLock
from tests.answers import anew, answers, held
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.test_segments import CALLER, compacted, in_pieces, uncompacted

IDS = ("a", "b", "c", "d")


def note(rid: str, text: str = "pump valve", **more: Any) -> Record:
    return Record(id=rid, text=f"{text} of {rid}", **more)


class Bench:
    """A folder over a store that outlives its openings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = InMemoryStore()

    def open(self) -> Corpus:
        return Corpus.open(self.folder, store=self.store, embedder=WordEmbedder(), clock=lambda: NOW)

    @property
    def index(self) -> Path:
        return self.folder / "index"

    def files(self) -> set[str]:
        return {path.stem for path in self.index.iterdir()}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Three records in two segments, one of which was corrected, so that a row is dead."""
    one = Bench(tmp_path / "corpus")
    with in_pieces(), one.open() as corpus:
        corpus.add([note("a"), note("b"), note("c")])
        corpus.add([note("b", "lamp")])
    return one


def said(corpus: Corpus) -> dict[str, Any]:
    return answers(corpus, CALLER, ["pump lamp"], ids=IDS)


def whole(bench: Bench, corpus: Corpus) -> None:
    """Store and index agree, the answers are those of a corpus from scratch, and no file is left over."""
    shelf = corpus._shelf
    # A compaction that is under way has a file that nothing names yet.
    shelf._keeper.finish()
    rows = {row.key: row.record for row in held(corpus)}
    assert {row.key: row.record for row in bench.store.rows()} == rows
    assert said(corpus) == said(anew(held(corpus)))
    assert shelf._journal.pending() == ([], [])
    assert bench.files() == set(shelf._journal.state().segments)
    assert set(shelf._journal.state().segments) == {one.name for one in shelf.snapshot.segments}


# No space left


NO_ROOM = r"No space left|disk is full"
FULL = OSError(errno.ENOSPC, "No space left on device")


def no_room_for_a_file(patch: pytest.MonkeyPatch) -> None:
    def refuse(file: Any, arrays: Any) -> None:
        raise FULL

    patch.setattr(ctxarith.index.files, "_write", refuse)


def no_room_for_half_a_file(patch: pytest.MonkeyPatch) -> None:
    def refuse(file: Any, arrays: Any) -> None:
        file.write(b"half of it")
        file.flush()
        raise FULL

    patch.setattr(ctxarith.index.files, "_write", refuse)


def no_room_at_the_sync(patch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> None:
        raise FULL

    patch.setattr(os, "fsync", refuse)


def no_room_in_the_journal(patch: pytest.MonkeyPatch) -> None:
    kept = SqliteJournal._noted

    def refuse(journal: SqliteJournal, written: Any) -> Any:
        kept(journal, written)
        raise sqlite3.OperationalError("database or disk is full")

    patch.setattr(SqliteJournal, "_noted", refuse)


Refusal = Callable[[pytest.MonkeyPatch], None]
REFUSALS = (no_room_for_a_file, no_room_for_half_a_file, no_room_at_the_sync, no_room_in_the_journal)
WRITES: dict[str, Callable[[Corpus], object]] = {
    "new": lambda corpus: corpus.add([note("d")]),
    "corrected": lambda corpus: corpus.add([note("a", "fund"), note("d")]),
    "retired": lambda corpus: corpus.retire(["a", "b"]),
    "deleted": lambda corpus: corpus.delete("a"),
}


@pytest.mark.parametrize(
    ("refusal", "write"),
    [
        pytest.param(refusal, write, id=f"{refusal.__name__}-{name}")
        for refusal in REFUSALS
        for name, write in WRITES.items()
        # A deletion writes no file.
        if name != "deleted" or refusal is no_room_in_the_journal
    ],
)
def test_a_write_for_which_there_is_no_room_is_taken_back_whole_and_succeeds_when_there_is(
    refusal: Refusal, write: Callable[[Corpus], object], bench: Bench
) -> None:
    with bench.open() as corpus:
        corpus._shelf._keeper.finish()
        before = said(corpus), corpus._shelf.feed("default", 0), bench.files()
        with pytest.MonkeyPatch.context() as patch:
            refusal(patch)
            with pytest.raises(StoreError, match=NO_ROOM):
                write(corpus)
            assert (said(corpus), corpus._shelf.feed("default", 0), bench.files()) == before
        whole(bench, corpus)
        write(corpus)
        corpus._shelf._keeper.finish()
        whole(bench, corpus)
    with bench.open() as corpus:
        whole(bench, corpus)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.__name__)
def test_a_compaction_for_which_there_is_no_room_changes_nothing(refusal: Refusal, bench: Bench) -> None:
    with in_pieces(), bench.open() as corpus:
        corpus._shelf._keeper.finish()
        before = said(corpus), bench.files()
        with pytest.MonkeyPatch.context() as patch:
            refusal(patch)
            with pytest.raises(StoreError, match=NO_ROOM):
                compacted(corpus)
        assert (said(corpus), bench.files()) == before
        compacted(corpus)
        assert said(corpus) == before[0]
        whole(bench, corpus)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.__name__)
def test_an_index_for_which_there_is_no_room_is_made_when_there_is(refusal: Refusal, bench: Bench) -> None:
    with bench.open() as corpus:
        before = said(corpus)
    for path in bench.index.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    damaged = bench.files()
    with pytest.MonkeyPatch.context() as patch:
        refusal(patch)
        with pytest.raises(StoreError, match=NO_ROOM):
            bench.open()
    assert bench.files() == damaged
    with bench.open() as corpus:
        assert said(corpus) == before
        corpus.add([note("d")])
        whole(bench, corpus)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.__name__)
def test_a_purge_for_which_there_is_no_room_says_so_and_leaves_no_trace_when_it_is_repeated(
    refusal: Refusal, bench: Bench
) -> None:
    with bench.open() as corpus:
        with pytest.MonkeyPatch.context() as patch:
            refusal(patch)
            with pytest.raises(StoreError, match=NO_ROOM):
                corpus.purge("b")
        corpus.purge("b")
        whole(bench, corpus)
        contents = [path.read_bytes() for path in bench.folder.rglob("*") if path.is_file()]
        assert not any(b"of b" in content for content in contents)


def test_a_text_whose_write_failed_at_its_last_step_is_in_no_file(bench: Bench) -> None:
    with bench.open() as corpus:
        with pytest.MonkeyPatch.context() as patch:
            no_room_in_the_journal(patch)
            with pytest.raises(StoreError):
                corpus.add([note("d", "secret")])
        corpus.purge("d")
        contents = [path.read_bytes() for path in bench.folder.rglob("*") if path.is_file()]
        assert not any(b"secret" in content for content in contents)


# Interrupted, as by Ctrl-C in a notebook


@pytest.mark.parametrize("step", ["settle", "drop"])
def test_a_write_that_is_interrupted_around_its_last_step_is_whole_or_not_there(
    step: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner: Any = {"settle": SqliteJournal, "drop": SegmentFiles}[step]
    kept = getattr(owner, step)

    def interrupted(*args: Any) -> Any:
        kept(*args)
        raise KeyboardInterrupt

    with uncompacted(), bench.open() as corpus:
        corpus.add([note("c")])  # the first write also looks for files that were left
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                corpus.add([note("a", "fund"), note("d")])
        assert [record.text for record in corpus.get(["a", "d"])] == ["fund of a", "pump valve of d"]
        corpus.add([note("d", "fund")])
        whole(bench, corpus)


# Lost and damaged


def test_a_folder_whose_records_were_all_deleted_can_be_written_when_its_index_is_lost(bench: Bench) -> None:
    with in_pieces(), bench.open() as corpus:
        corpus.delete(["a", "b", "c"])
    for path in bench.index.iterdir():
        path.unlink()
    with bench.open() as corpus:
        assert corpus.count() == 0
        corpus.add([note("d")])
        whole(bench, corpus)
        assert corpus._shelf.feed("default", 0)[-1].key.id == "d"


def test_a_reader_that_could_not_follow_says_so_again_until_it_can(tmp_path: Path) -> None:
    """What is said once must not turn into old answers afterwards."""
    store = InMemoryStore()
    with Corpus.open(tmp_path / "corpus", store=store, embedder=WordEmbedder(), clock=lambda: NOW) as reader:
        reader.add([note("a")])
        shelf = reader._shelf
        # Another process: it has the writer's lock, and one of its files is damaged just now.
        journal = SqliteJournal(tmp_path / "corpus" / "journal.sqlite")
        files = SegmentFiles(tmp_path / "corpus" / "index")
        other = Keeper(journal, files, shelf.snapshot.indexer)
        other.follow()
        row = Row(note("b"), np.asarray(other.snapshot.vector(0)))
        segment = files.write(other.snapshot.indexer.arrays([row]))
        journal.settle(Written(added=[segment.name], changed=[(row.key, None)], settings={HOLDS: YES}))
        path = tmp_path / "corpus" / "index" / f"{segment.name}.segment"
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        shelf._file_lock.release()
        lock = WriterLock(tmp_path / "corpus" / "writer.lock")
        assert lock.take()
        for _ in range(2):
            with pytest.raises(StoreError, match="another process is writing"):
                reader.count()
        path.write_bytes(content)
        assert reader.count() == 2
        lock.release()
        journal.close()


def interrupted_correction(bench: Bench) -> None:
    """A process that died between the store and the journal."""
    with bench.open() as corpus:
        shelf = corpus._shelf
        (row,) = shelf.snapshot.named("default", "a")
        old = shelf.snapshot.stored(row)
        shelf._journal.intend([old.key], [old])
        bench.store.write([Row(note("a", "half"), old.vector)])


def test_a_store_that_is_lost_after_a_write_was_interrupted_is_filled_from_the_index(bench: Bench) -> None:
    interrupted_correction(bench)
    bench.store = InMemoryStore()
    with bench.open() as corpus:
        corpus.add([note("d")])
        assert sorted(record.id for record in corpus.get(IDS)) == ["a", "b", "c", "d"]
        whole(bench, corpus)


def test_a_store_and_an_index_that_are_both_lost_after_a_write_was_interrupted_are_refused(
    bench: Bench,
) -> None:
    interrupted_correction(bench)
    bench.store = InMemoryStore()
    for path in bench.index.iterdir():
        path.unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match="restore the store from a copy"):
            bench.open()


def test_a_store_that_was_half_filled_again_is_not_taken_for_the_whole(bench: Bench) -> None:
    with bench.open() as corpus:
        rows = held(corpus)
    bench.store = InMemoryStore()

    def dying(rows: Any) -> None:
        InMemoryStore.write(bench.store, rows[:1])
        raise OSError("the machine stops")

    bench.store.write = dying  # type: ignore[method-assign]
    with bench.open() as corpus, pytest.raises(OSError, match="the machine stops"):
        corpus.add([note("d")])
    del bench.store.write
    for path in bench.index.iterdir():
        path.unlink()
    with pytest.raises(StoreError, match="restore"):
        bench.open()
    assert len(rows) == 4
