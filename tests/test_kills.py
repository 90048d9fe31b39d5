"""A writing process is killed at every boundary of its steps, and at random times; nothing is lost.

After each kill the folder is opened by a reader, which must not need Chroma, and then by a writer, which
makes the next call. What was acknowledged is there; the call that was under way is there whole or not at
all; the watermark of each tenant is the number of the writes that are there; and every answer is that of a
corpus made from scratch of what the model holds.

`CTXARITH_KILLS=2000` kills more often.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ctxarith import Corpus, Principal, Record
from ctxarith.ports import Row, RowKey
from ctxarith.stores.chroma import ChromaStore
from tests.answers import anew, answers, held, rows_of, with_vectors
from tests.deeds import FEES, STATES, TENANTS, Book, Deed, deeds
from tests.dying import LISTING, opened

ROOT = Path(__file__).resolve().parents[1]
KILLS = int(os.environ.get("CTXARITH_KILLS", "100"))
LIVES = 4  # folders among which the random kills are shared
SEED = 5
QUESTIONS = ("which valve leaks, KYO-3? and the fee-1 in EUR",)
FACTS = (*(("lead-1", rid) for rid in FEES), *(("plant", rid) for rid in STATES))
IDS = (FEES[0], STATES[1], "note-4-0", "nobody")


class Mortal:
    """The process of `tests/dying.py`: it forks a child for each task, and says what becomes of it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.dying"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def task(self, **task: Any) -> None:
        """Ask for a child; it is born when those before it are dead."""
        assert self.process.stdin is not None
        self.process.stdin.write((json.dumps({"seed": SEED, **task}) + "\n").encode())
        self.process.stdin.flush()

    def born(self) -> int:
        """The number of the next child's process."""
        return int(self.line().removeprefix("born "))

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode().strip()
        assert line, "the process that forks is gone"
        return line

    def end(self) -> tuple[list[str], int]:
        """What the child said until its end, and how it ended."""
        said: list[str] = []
        while not (line := self.line()).startswith("dead "):
            said.append(line)
        return said, int(line.removeprefix("dead "))

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.wait()


@pytest.fixture(scope="module")
def mortal() -> Iterator[Mortal]:
    one = Mortal()
    yield one
    one.close()


# What must hold afterwards


def asked(corpus: Corpus) -> list[Any]:
    """What each tenant is answered."""
    return [answers(corpus, Principal(tenant), QUESTIONS, ids=IDS, facts=FACTS, ways=1) for tenant in TENANTS]


def is_of(corpus: Corpus, book: Book) -> bool:
    """Whether a corpus is in the state that a book tells, by watermarks and feed."""
    shelf = corpus._shelf
    return dict(shelf.snapshot.watermarks) == book.watermarks and all(
        shelf.feed(tenant, 0) == book.feed_of(tenant) for tenant in TENANTS
    )


def matches(corpus: Corpus, books: Sequence[Book], *, asking: bool = True) -> Book:
    """The book that a corpus is told by: rows, watermarks, feed and answers are all its own."""
    fitting = [book for book in books if is_of(corpus, book)]
    assert fitting, f"watermarks {dict(corpus._shelf.snapshot.watermarks)} or feed are of no state"
    wanted = with_vectors(dict(fitting[0].rows))
    assert told(held(corpus)) == told(wanted)
    if asking:
        assert asked(corpus) == must_answer(wanted)
    return fitting[0]


def told(rows: Iterable[Row]) -> dict[RowKey, tuple[Record, bytes]]:
    return {row.key: (row.record, row.vector.tobytes()) for row in rows}


_ANSWERS: dict[tuple[tuple[RowKey, str | None], ...], list[Any]] = {}


def must_answer(rows: Sequence[Row]) -> list[Any]:
    """The answers of a corpus from scratch; many kills leave the same one."""
    contents = tuple(sorted((row.key, row.record.content_hash) for row in rows))
    if contents not in _ANSWERS:
        _ANSWERS[contents] = asked(anew(rows))
    return _ANSWERS[contents]


def only_ours(folder: Path, corpus: Corpus) -> None:
    """Store and index hold the same, nothing is pending, and no file is left over."""
    shelf = corpus._shelf
    assert told(shelf.store.rows()) == told(held(corpus))
    assert shelf._journal.pending() == ([], [])
    names = shelf._journal.state().segments
    assert {path.name for path in (folder / "index").iterdir()} == {f"{name}.segment" for name in names}


def survives(folder: Path, books: Sequence[Book], then: Deed, *, remade: bool = False) -> None:
    """A reader finds one of the books, a writer goes on from there, and both halves agree.

    `remade` says that the index was or will be made from Chroma, so that even a reader opens it.
    """
    with opened(folder) as reader:
        book = matches(reader, books)
        store = reader._shelf.store
        assert isinstance(store, ChromaStore)
        assert store._client is None or remade
    with opened(folder) as writer:
        then.do(writer)
        book = matches(writer, [book.after(then)])
        writer._shelf._keeper.finish()
        only_ours(folder, writer)
    with opened(folder) as again:
        matches(again, [book], asking=False)


# The boundaries


@dataclass(frozen=True)
class Work:
    """What a child does on a folder in which `first` deeds were done.

    Args:
        first, last: the numbers of its deeds; equal when it only opens the folder, or compacts.
        lost: the part of the folder that was lost before.
        passes: boundaries that it must come to, or the test has gone blind.
    """

    first: int
    last: int
    passes: tuple[str, ...]
    lost: str | None = None
    compact: bool = False

    def possible(self, said: Sequence[str]) -> list[Book]:
        """The books that a folder may be in after what a child said."""
        before = booked(self.first)
        if self.lost == "index":
            before = before.remade()
        books = [before, *(book for deed in DEEDS[self.first : self.last] for book in before.steps(deed))]
        return books[-1:] if acknowledged(said) else books


def acknowledged(said: Sequence[str]) -> int:
    """How many deeds a child said that it had done."""
    return sum(line.startswith("did ") for line in said)


DEEDS = list(islice(deeds(SEED), 60))


def numbered(method: str, *, tenants: int = 1, after: int = 8) -> int:
    """The number of the first deed of a kind after some others."""
    return next(
        number
        for number, deed in enumerate(DEEDS)
        if number >= after and deed.method == method and len({r.tenant for r in deed.records}) >= tenants
    )


CORRECTION, GROWTH = numbered("add", tenants=2), numbered("add", tenants=1)
RETIREMENT, DELETION, PURGE = (numbered(method, tenants=0) for method in ("retire", "delete", "purge"))
WRITING = ("before SqliteJournal.intend", "before COMMIT", "before SqliteJournal.settle")
PUTTING = (
    *WRITING,
    "in the middle of ChromaStore.write",
    "before ChromaCollection.drop",
    "before ChromaCollection._write",
)
FILING = ("before SegmentFiles.write", "in the middle of a segment file", "before os.fsync")
DROPPING = ("before SegmentFiles.drop", "in the middle of SegmentFiles.drop", "at the end")
WORKS = {
    "the first write of all": Work(0, 1, (*PUTTING, *FILING)),
    "a correction for two tenants": Work(CORRECTION, CORRECTION + 1, (*PUTTING, *FILING, *DROPPING)),
    "an end of facts": Work(RETIREMENT, RETIREMENT + 1, (*PUTTING, *FILING, *DROPPING)),
    "a deletion": Work(DELETION, DELETION + 1, (*WRITING, "in the middle of ChromaStore.remove")),
    "a purge": Work(
        PURGE,
        PURGE + 1,
        (*WRITING, *FILING, "before ChromaStore.scrub", "before SqliteJournal.scrub"),
    ),
    "a compaction": Work(PURGE, PURGE, (*FILING, *DROPPING, "before COMMIT"), compact=True),
    "an index made anew": Work(PURGE, PURGE, (*FILING, "before COMMIT"), lost="index"),
    "a store filled anew": Work(
        GROWTH, GROWTH + 1, (*PUTTING, "before SqliteJournal.remember"), lost="chroma"
    ),
}


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS.keys())
def test_a_process_that_is_killed_at_any_boundary_leaves_a_whole_folder(
    work: Work, mortal: Mortal, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    mortal.task(folder=str(base), first=0, last=work.first, in_pieces=True)
    assert mortal.end()[1] == 0
    if work.lost is not None:
        shutil.rmtree(base / work.lost)

    def begin(at: int) -> Path:
        folder = Path(shutil.copytree(base, tmp_path / f"at {at}"))
        mortal.task(folder=str(folder), at=at, first=work.first, last=work.last, compact=work.compact)
        return folder

    begin(LISTING)
    said, code = mortal.end()
    assert code == 0
    passages = json.loads(said[-1].removeprefix("passed "))
    assert set(work.passes) <= set(passages)
    folders = [begin(at) for at in range(len(passages))]
    for at, folder in enumerate(folders):
        said, code = mortal.end()
        assert code == -signal.SIGKILL
        try:
            survives(folder, work.possible(said), DEEDS[work.last], remade=work.lost == "index")
        except BaseException as error:
            error.add_note(f"killed {passages[at]}, passage {at} of {len(passages)}")
            raise
        shutil.rmtree(folder)


def booked(number: int) -> Book:
    """What is held after so many deeds."""
    book = Book()
    for deed in DEEDS[:number]:
        book = book.after(deed)
    return book


# Random times


@pytest.mark.parametrize("life", range(LIVES))
def test_a_process_that_is_killed_again_and_again_loses_nothing(
    life: int, mortal: Mortal, tmp_path: Path
) -> None:
    """The same folder all the time; each child goes on where the last one was stopped."""
    chance = random.Random(time.time_ns())
    folder, seed = tmp_path / "corpus", SEED + 1 + life
    book, done = Book(), 0
    planned: list[Deed] = []
    source = deeds(seed)
    for number in range(max(KILLS // LIVES, 1)):
        planned.extend(islice(source, done + 100 - len(planned)))
        pieces = chance.random() < 0.2
        mortal.task(folder=str(folder), seed=seed, first=done, last=done + 90, in_pieces=pieces)
        said = killed(mortal, chance)
        for deed in planned[done : done + acknowledged(said)]:
            book = book.after(deed)
        done += acknowledged(said)
        under_way = planned[done]
        with opened(folder) as reader:
            # Asking costs more than the kill; rows, watermarks and feed are looked at each time.
            found = matches(reader, [book, *book.steps(under_way)], asking=number % 4 == 0)
        # What was written and not acknowledged is not asked for again; a purge must be.
        done += found.watermarks != book.watermarks and under_way.method != "purge"
        book = found
    survives(folder, [book], planned[done])


def killed(mortal: Mortal, chance: random.Random) -> list[str]:
    """What a child said that is killed early in its life, or in the middle of its writes."""
    pid = mortal.born()
    said: list[str] = []
    if chance.random() < 0.2:
        time.sleep(chance.uniform(0, 0.2))
    else:
        while acknowledged(said) == 0:
            said.append(mortal.line())
        time.sleep(chance.uniform(0, 0.1))
    os.kill(pid, signal.SIGKILL)
    more, code = mortal.end()
    assert code == -signal.SIGKILL
    return said + more


# Alive


def test_a_reader_follows_a_living_writer_through_all_its_compactions(mortal: Mortal, tmp_path: Path) -> None:
    books = [Book()]
    for deed in DEEDS:
        books.append(books[-1].after(deed))
    places = {tuple(sorted(book.watermarks.items())): n for n, book in reversed(list(enumerate(books)))}
    with opened(tmp_path / "corpus") as reader:
        mortal.task(folder=str(tmp_path / "corpus"), first=0, last=len(DEEDS))
        ends: list[tuple[list[str], int]] = []
        waiting = threading.Thread(target=lambda: ends.append(mortal.end()))
        waiting.start()
        seen, alive = [0], True
        while alive:
            alive = waiting.is_alive()
            snapshot = reader._shelf.snapshot
            place = places[tuple(sorted(snapshot.watermarks.items()))]
            assert place >= seen[-1]
            assert {row.key: row.record for row in rows_of(snapshot)} == books[place].rows
            reader.retrieve(QUESTIONS[0], principal=Principal("acme"))
            seen.append(place)
        assert ends[0][1] == 0
        assert books[seen[-1]].watermarks == books[-1].watermarks
        assert len(set(seen)) > 5
        store = reader._shelf.store
        assert isinstance(store, ChromaStore)
        assert store._client is None
