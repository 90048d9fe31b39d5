"""A process that works on a corpus folder until it is killed: `python -m tests.dying`.

It reads tasks as lines of JSON and forks a child for each, since loading Chroma takes a second. The child
says what it has done, and only when it is done; the parent says that the child is dead. With `at`, the
child kills itself at that passage: the boundaries of the library's steps are counted as they are passed,
in wrappers that are put around its methods here. With `at` of -1 it lists what it passes and lives.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any

import chromadb.api.rust  # noqa: F401 -- loaded once, before the forks

import ctxarith.index.files
import ctxarith.ingest.compaction
from ctxarith import Corpus
from ctxarith.index.files import SegmentFiles
from ctxarith.ingest.keeper import Keeper
from ctxarith.stores.chroma import ChromaStore
from ctxarith.stores.collection import ChromaCollection
from ctxarith.stores.journal import SqliteJournal
from tests.conftest import NOW
from tests.deeds import Deed, deeds
from tests.fakes import WordEmbedder

LISTING = -1


@dataclass
class Passages:
    """Counts the boundaries that are passed; at the one named the process dies."""

    fatal: int
    names: list[str] = field(default_factory=list)

    def passed(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) - 1 == self.fatal:
            die()

    @property
    def dies_next(self) -> bool:
        return len(self.names) == self.fatal


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def watched(passages: Passages) -> None:
    """Put the wrappers on."""
    for owner, method in (
        (SqliteJournal, "intend"),
        (SqliteJournal, "settle"),
        (SqliteJournal, "remember"),
        (SqliteJournal, "scrub"),
        (ChromaStore, "scrub"),
        (ChromaCollection, "drop"),
        (ChromaCollection, "_write"),
        (SegmentFiles, "write"),
        (SegmentFiles, "drop"),
        (os, "fsync"),
    ):
        before(owner, method, passages)
    for owner, method in ((ChromaStore, "write"), (ChromaStore, "remove"), (SegmentFiles, "drop")):
        halfway(owner, method, passages)
    inside_transactions(passages)
    inside_a_file(passages)


def before(owner: Any, method: str, passages: Passages) -> None:
    """Die before a step; between two of them nothing happens, so that this is after the one before it too."""
    kept = getattr(owner, method)
    name = f"{getattr(owner, '__name__', owner)}.{method}"

    @wraps(kept)
    def wrapper(*args: Any, **more: Any) -> Any:
        passages.passed(f"before {name}")
        return kept(*args, **more)

    setattr(owner, method, wrapper)


def halfway(owner: Any, method: str, passages: Passages) -> None:
    """Die when half of the items are done."""
    kept = getattr(owner, method)

    @wraps(kept)
    def wrapper(self: Any, items: Any) -> Any:
        listed = list(items)
        if len(listed) > 1:
            if passages.dies_next:
                kept(self, listed[: len(listed) // 2])
            passages.passed(f"in the middle of {owner.__name__}.{method}")
        return kept(self, listed)

    setattr(owner, method, wrapper)


def inside_transactions(passages: Passages) -> None:
    """Die when everything is changed and nothing is committed."""
    kept = SqliteJournal._transacted

    def wrapper(self: SqliteJournal, change: Callable[[], Any], begin: str = "BEGIN IMMEDIATE") -> Any:
        def changed() -> Any:
            result = change()
            if begin == "BEGIN IMMEDIATE":
                passages.passed("before COMMIT")
            return result

        return kept(self, changed, begin)

    SqliteJournal._transacted = wrapper  # type: ignore[method-assign]


def inside_a_file(passages: Passages) -> None:
    """Die when half of a segment's bytes are written."""
    kept = ctxarith.index.files._write

    def wrapper(file: Any, arrays: Any) -> None:
        if passages.dies_next:
            whole = io.BytesIO()
            kept(whole, arrays)
            file.write(whole.getvalue()[: whole.tell() // 2])
            file.flush()
        passages.passed("in the middle of a segment file")
        kept(file, arrays)

    ctxarith.index.files._write = wrapper


def compacting(self: Keeper) -> None:
    """Compact in the writer's own thread, so that the passages have one order."""
    while self.compact():
        pass


def in_pieces() -> None:
    """Leave one segment for each write, as large writes do until they are compacted."""
    ctxarith.ingest.compaction.ABSORBED = 0
    Keeper.compact_in_background = lambda self: None  # type: ignore[method-assign]


def opened(folder: Path | str) -> Corpus:
    return Corpus.open(folder, embedder=WordEmbedder(), clock=lambda: NOW)


def chosen(task: dict[str, Any]) -> Sequence[Deed]:
    """The deeds from one number up to another."""
    return list(islice(deeds(task["seed"]), task["first"], task["last"]))


def live(task: dict[str, Any], say: Callable[[str], None]) -> None:
    """What a child does with its life."""
    passages = Passages(task.get("at", LISTING))
    if task.get("in_pieces"):
        in_pieces()
    if "at" in task:
        Keeper.compact_in_background = compacting  # type: ignore[method-assign]
        watched(passages)
    corpus = opened(task["folder"])
    say("open")
    for number, deed in enumerate(chosen(task), start=task["first"]):
        deed.do(corpus)
        say(f"did {number}")
    if task.get("compact"):
        Deed("compact").do(corpus)
        say("compacted")
    passages.passed("at the end")
    say("passed " + json.dumps(passages.names))


def main() -> None:
    """Serve until the input ends."""

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    for line in sys.stdin:
        task = json.loads(line)
        child = os.fork()
        if not child:
            code = 1
            try:
                say(f"born {os.getpid()}")
                live(task, say)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        say(f"dead {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
