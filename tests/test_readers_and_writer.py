"""Eight readers and a writer at once: every answer is that of one moment, and that moment's to the byte.

The writer makes one call after the other (whole batches, corrections, new versions, retirements, deletions,
purges) and notes before each what the corpus must hold after it. A reader notes which writes were done when
it asked, and which had begun when it was answered; its answer must be what the corpus held after one of
these, and never of an earlier moment than its last answer. Then the same writes are made again in
memory, by one thread, and each answer must come out equal: text, order, scores, drops and funnel.

`CTXARITH_STRESS_SECONDS=300` runs the long form.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ctxarith import Corpus, Result, everyone, lexical, rrf, top, where
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.ledger import EARLIER, ORDERS, Held, Said, Write, said, writes

SECONDS = float(os.environ.get("CTXARITH_STRESS_SECONDS", "8"))
READERS = 8
LEAST = 40  # writes, on a machine however slow: each kind was made then, and more than once
PAUSE = 0.04  # seconds, at most

Seen = object
Answers = set[tuple[int, tuple[int, ...], bytes]]  # (question, the moments that it may be of, its bytes)


# What is asked


@dataclass(frozen=True)
class Question:
    """`ask` gives what is compared with `must`, and all of the answer as bytes."""

    name: str
    ask: Callable[[Corpus], tuple[Seen, bytes]]
    must: Callable[[Held], Seen]


def answered(result: Result) -> tuple[frozenset[Said], bytes]:
    """What a result says, and everything about it except how long it took."""
    steps = [(step.stage, step.count, step.note) for step in result.trace.steps]
    drops = [(said(drop.record), drop.stage, drop.reason, drop.by) for drop in result.drops]
    hits = [
        (said(hit.record), hit.score, hit.tier, hit.found_by, hit.replaces, hit.flags) for hit in result.hits
    ]
    told = repr((result.text, hits, drops, steps, result.tokens, dict(result.citations)))
    return frozenset(said(hit.record) for hit in result.hits), hashlib.sha256(told.encode()).digest()


def retrieved(kind: str, text: str, **more: Any) -> Callable[[Corpus], tuple[Seen, bytes]]:
    return lambda corpus: answered(corpus.retrieve(text, where={"kind": kind}, top=None, tokens=None, **more))


def chained(kind: str) -> Callable[[Corpus], tuple[Seen, bytes]]:
    def ask(corpus: Corpus) -> tuple[Seen, bytes]:
        chain = corpus.history("order-0", kind)
        told = repr(
            [(said(a.record), a.value, a.status, a.superseded_by, a.reason, a.revision) for a in chain]
        )
        return tuple((one.value, one.status) for one in chain), told.encode()

    return ask


def counted(corpus: Corpus) -> tuple[Seen, bytes]:
    number = corpus.count({"kind": "batch"})
    return number, b""


def named(corpus: Corpus) -> tuple[Seen, bytes]:
    found = corpus.get([f"state-{n}" for n in range(ORDERS)])
    return frozenset(map(said, found)), b""


def coded(corpus: Corpus) -> tuple[Seen, bytes]:
    batches = lexical & everyone & where({"kind": "batch"})
    return None, answered(corpus.run(batches >> rrf() >> top(9), "valve KYO-3 or KYO-14 tight"))[1]


QUESTIONS = (
    Question("batches", retrieved("batch", "which valve was tight?"), lambda held: held.current("batch")),
    Question("states", retrieved("state", "the state of order 2"), lambda held: held.current("state")),
    Question("prices", retrieved("price", "the price of order 1"), lambda held: held.current("price")),
    Question(
        "before the retirements",
        retrieved("batch", "pump report", as_of=EARLIER),
        lambda held: frozenset(map(said, held.of("batch"))),
    ),
    Question("count", counted, lambda held: len(held.current("batch"))),
    Question("get", named, lambda held: held.current("state")),
    Question("history of versions", chained("state"), lambda held: held.chain("state")),
    Question("history of corrections", chained("price"), lambda held: held.chain("price")),
    Question("codes", coded, lambda held: None),
)


# What happens at once


@dataclass
class Chronicle:
    """The writes with what is held after each; `done` of them have returned, `begun` have started."""

    held: list[Held] = field(default_factory=lambda: [Held()])
    writes: list[Write] = field(default_factory=list)
    begun: int = 0
    done: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def write(self, corpus: Corpus) -> None:
        """One write after the other, until it is time and enough of them were made."""
        until = time.monotonic() + SECONDS
        try:
            for write in writes(Random(1)):
                if self.over.is_set() or (self.done >= LEAST and time.monotonic() > until):
                    return
                self.held.append(self.held[-1].after(write))
                self.writes.append(write)
                self.begun += 1
                write.do(corpus)
                self.done += 1
        finally:
            self.over.set()

    def read(self, corpus: Corpus, draw: Random) -> Answers:
        """Ask until it is over; every answer fits some moment between the question and the answer."""
        answers: Answers = set()
        earliest = 0
        try:
            # The pause leaves the writer its share of one interpreter, and lets the readers drift apart.
            while not self.over.wait(draw.uniform(0, PAUSE)):
                number = draw.randrange(len(QUESTIONS))
                question = QUESTIONS[number]
                low = max(earliest, self.done)
                seen, told = question.ask(corpus)
                high = self.begun
                fitting = tuple(k for k in range(low, high + 1) if question.must(self.held[k]) == seen)
                assert fitting, f"{question.name}: {seen} is of no moment in {self.writes[low:high]}"
                earliest = fitting[0]
                answers.add((number, fitting, told))
        finally:
            self.over.set()
        return answers


def test_every_answer_is_of_one_moment_and_the_same_when_one_thread_asks(tmp_path: Path) -> None:
    chronicle = Chronicle()
    with opened(tmp_path) as corpus, many_switches(), ThreadPoolExecutor(READERS + 1) as threads:
        readers = [threads.submit(chronicle.read, corpus, Random(n)) for n in range(READERS)]
        writer = threads.submit(chronicle.write, corpus)
        answers = set().union(*(reader.result() for reader in readers))
        writer.result()
    assert {number for number, _, _ in answers} == set(range(len(QUESTIONS)))
    alone = told_alone(chronicle, answers)
    for number, moments, told in answers:
        assert told in {alone[number, k] for k in moments}, f"{QUESTIONS[number].name} at {moments}"
    with opened(tmp_path) as corpus:
        again = {number: question.ask(corpus)[1] for number, question in enumerate(QUESTIONS)}
    assert again == {number: alone[number, chronicle.done] for number in range(len(QUESTIONS))}


def told_alone(chronicle: Chronicle, answers: Answers) -> dict[tuple[int, int], bytes]:
    """The same writes in memory by one thread, and the answers at the moments that were met."""
    wanted: dict[int, set[int]] = defaultdict(set)
    for number, moments, _ in answers:
        for moment in moments:
            wanted[moment].add(number)
    wanted[chronicle.done] = set(range(len(QUESTIONS)))
    told = {}
    with Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder()) as corpus:
        for moment in range(chronicle.done + 1):
            if moment:
                chronicle.writes[moment - 1].do(corpus)
            for number in wanted[moment]:
                told[number, moment] = QUESTIONS[number].ask(corpus)[1]
    return told


def opened(folder: Path) -> Corpus:
    return Corpus.open(folder / "corpus", clock=lambda: NOW, embedder=WordEmbedder())


@contextmanager
def many_switches() -> Iterator[None]:
    """Threads change places fifty times as often as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 50)
    yield
    sys.setswitchinterval(usual)
