"""Adding, correcting, ending and removing: whole or not at all, over every store."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxarith import (
    Added,
    ArgumentError,
    Corpus,
    CorpusClosed,
    EmbedderMismatch,
    EmbeddingError,
    Principal,
    PrincipalRequired,
    Record,
    RecordError,
    Result,
    Slot,
    StoreError,
    everyone,
    lexical,
    semantic,
    top,
)
from ctxarith.ports import Row, RowKey, Store
from ctxarith.predicate import Predicate
from ctxarith.stores.chroma import ChromaStore
from ctxarith.stores.inmemory import InMemoryStore
from ctxarith.stores.journal import SqliteJournal
from tests.conftest import NOW, MakeCorpus
from tests.fakes import TableEmbedder, WordEmbedder

ROOT = Path(__file__).resolve().parents[1]
DAY = timedelta(days=1)
JANUARY, MARCH = datetime(2026, 1, 10, tzinfo=UTC), datetime(2026, 3, 10, tzinfo=UTC)
ACME, BETA = Principal("acme"), Principal("beta")


def ids(result: Result) -> list[str]:
    return [hit.id for hit in result.hits]


def texts(corpus: Corpus, *named: str) -> list[str]:
    return [record.text for record in corpus.get(named)]


def fee(rid: str, amount: int, at: datetime | None = None, **rest: Any) -> Record:
    slots = (Slot("lead-1", "fee", amount),)
    return Record(id=rid, text=f"The fee is {amount} EUR", created_at=at, slots=slots, **rest)


class Fragile:
    """A store that works in parts of `part` rows and fails once `healthy` parts are done."""

    name = "the fragile store"

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.part = 100
        self.healthy = math.inf
        self.recovers = True
        self.error: BaseException = OSError("no space left on device")

    def fail_after(self, parts: int, *, recovers: bool = True) -> None:
        self.healthy, self.recovers = parts, recovers

    def heal(self) -> None:
        self.healthy = math.inf

    def write(self, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), self.part):
            self._step()
            self.inner.write(rows[start : start + self.part])

    def remove(self, keys: Sequence[RowKey]) -> None:
        for start in range(0, len(keys), self.part):
            self._step()
            self.inner.remove(keys[start : start + self.part])

    def _step(self) -> None:
        if self.healthy <= 0:
            if self.recovers:
                self.heal()
            raise self.error
        self.healthy -= 1

    def rows(self) -> Iterator[Row]:
        return self.inner.rows()

    def count(self) -> int:
        return self.inner.count()

    def select(self, predicate: Predicate) -> Iterator[Row]:
        return self.inner.select(predicate)

    def can(self, predicate: Predicate) -> bool:
        return self.inner.can(predicate)

    def scrub(self) -> None:
        self.inner.scrub()

    def close(self) -> None:
        self.inner.close()


@pytest.fixture
def memory() -> Corpus:
    """An empty corpus, for what does not depend on the store."""
    return Corpus.in_memory(embedder=WordEmbedder(), clock=lambda: NOW)


@dataclass
class Bench:
    """A folder whose store can be made to fail; `open` opens it, also again."""

    folder: Path
    make: Callable[[], Store]
    embedder: WordEmbedder = field(default_factory=WordEmbedder)
    opened: list[Corpus] = field(default_factory=list)

    def open(self, **options: Any) -> Corpus:
        self.store = Fragile(self.make())
        options = {"clock": lambda: NOW, "embedder": self.embedder, **options}
        self.opened.append(Corpus.open(self.folder, store=self.store, **options))
        return self.opened[-1]

    def reopen(self) -> Corpus:
        self.opened[-1].close()
        return self.open()

    def stored(self) -> list[tuple[str, int, str]]:
        return sorted((row.record.id, row.revision, row.record.text) for row in self.store.rows())


@pytest.fixture(params=["memory", "chroma"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    lasting = InMemoryStore()
    make = (lambda: lasting) if request.param == "memory" else lambda: ChromaStore(tmp_path / "chroma")
    made = Bench(tmp_path, make)
    yield made
    for corpus in made.opened:
        corpus.close()


# Whole or not at all


def test_a_batch_that_fails_half_way_is_taken_back_and_its_retry_embeds_nothing(bench: Bench) -> None:
    # CH-13
    corpus = bench.open()
    records = [Record(id=f"r{n:03}", text=f"text {n}") for n in range(600)]
    bench.store.fail_after(2)
    with pytest.raises(StoreError, match="no space left") as caught:
        corpus.add(records)
    assert caught.value.staged == tuple(record.id for record in records)
    assert (corpus.count(), bench.stored()) == (0, [])
    assert corpus.add(records) == Added(added=600, embedded=0)
    assert (corpus.count(), len(bench.stored())) == (600, 600)
    assert len(bench.embedder.embedded) == 600


def test_a_retry_with_more_records_embeds_only_the_rest(bench: Bench) -> None:
    corpus = bench.open()
    bench.store.fail_after(0)
    with pytest.raises(StoreError):
        corpus.add([Record(id="r1", text="one"), Record(id="r2", text="two")])
    assert corpus.add([Record(id="r1", text="one"), Record(id="r3", text="three")]).embedded == 1
    assert bench.embedder.embedded == ["one", "two", "three"]


def test_a_correction_that_fails_half_way_leaves_the_earlier_content(bench: Bench) -> None:
    corpus = bench.open()
    corpus.add([Record(id="r1", text="Fee is 10 EUR"), Record(id="r2", text="Rent is 900 EUR")])
    bench.store.part = 1
    bench.store.fail_after(3)
    with pytest.raises(StoreError):
        corpus.add([Record(id="r1", text="Fee is 12 EUR"), Record(id="r2", text="Rent is 950 EUR")])
    assert texts(corpus, "r1", "r2") == ["Fee is 10 EUR", "Rent is 900 EUR"]
    assert bench.stored() == [("r1", 0, "Fee is 10 EUR"), ("r2", 0, "Rent is 900 EUR")]


@pytest.mark.parametrize("again", ["in the same handle", "after reopening"])
def test_what_could_not_be_taken_back_at_once_is_taken_back_later(bench: Bench, again: str) -> None:
    corpus = bench.open()
    corpus.add([Record(id="r1", text="Fee is 10 EUR")])
    bench.store.part = 1
    bench.store.fail_after(2, recovers=False)
    with pytest.raises(StoreError, match="could not be taken back"):
        corpus.add([Record(id="r1", text="Fee is 12 EUR"), Record(id="r2", text="Rent is 900 EUR")])
    assert texts(corpus, "r1", "r2") == ["Fee is 10 EUR"]
    assert ids(corpus.retrieve("fee rent")) == ["r1"]
    bench.store.heal()
    corpus = bench.reopen() if again == "after reopening" else corpus
    corpus.add([Record(id="r3", text="Keys are with the porter")])
    assert texts(corpus, "r1", "r2", "r3") == ["Fee is 10 EUR", "Keys are with the porter"]
    assert bench.stored() == [("r1", 0, "Fee is 10 EUR"), ("r3", 0, "Keys are with the porter")]


def test_a_store_that_still_fails_refuses_the_next_write_and_the_reopening(bench: Bench) -> None:
    corpus = bench.open()
    bench.store.fail_after(0, recovers=False)
    for _ in range(2):
        with pytest.raises(StoreError, match="no space left"):
            corpus.add([Record(id="r1", text="x")])
    assert corpus.count() == 0


def test_an_interrupted_write_is_taken_back_at_the_next(bench: Bench) -> None:
    corpus = bench.open()
    bench.store.part, bench.store.error = 1, KeyboardInterrupt()
    bench.store.fail_after(1)
    with pytest.raises(KeyboardInterrupt):
        corpus.add([Record(id="r1", text="one"), Record(id="r2", text="two")])
    assert corpus.count() == 0
    corpus.add([Record(id="r3", text="three")])
    assert bench.stored() == [("r3", 0, "three")]


def pending(bench: Bench, keys: Sequence[RowKey], before: Sequence[Row]) -> Store:
    """A process died here: the journal is written, and the caller does as much of the rest as it got to."""
    bench.opened[-1].close()
    journal = SqliteJournal(bench.folder / "journal.sqlite")
    journal.intend(keys, before)
    journal.close()
    return bench.make()


def test_a_write_that_was_killed_is_not_seen_after_reopening(bench: Bench) -> None:
    bench.open().add([Record(id="r1", text="Fee is 10 EUR", metadata={"kind": "fee"})])
    (old,) = bench.store.rows()
    revision = Row(old.record, old.vector, 1)
    new = Row(Record(id="r1", text="Fee is 12 EUR"), old.vector)
    second = RowKey("default", "r2", "1")
    store = pending(bench, [revision.key, new.key, second], [old])
    store.write([revision, new])
    store.close()
    corpus = bench.open()
    assert [(one.text, dict(one.metadata)) for one in corpus.get("r1")] == [
        ("Fee is 10 EUR", {"kind": "fee"})
    ]
    assert corpus.add([Record(id="r1", text="Fee is 11 EUR")]).corrected == 1
    assert bench.stored() == [("r1", 0, "Fee is 11 EUR"), ("r1", 1, "Fee is 10 EUR")]


def test_a_write_that_was_killed_before_the_store_was_touched_changes_nothing(bench: Bench) -> None:
    bench.open().add([Record(id="r1", text="Fee is 10 EUR")])
    (old,) = bench.store.rows()
    pending(bench, [old.key, RowKey("default", "r2", "1")], [old]).close()
    assert texts(bench.open(), "r1", "r2") == ["Fee is 10 EUR"]


def test_a_removal_that_was_killed_half_way_has_not_happened(bench: Bench) -> None:
    bench.open().add([Record(id="r1", text="one"), Record(id="r2", text="two")])
    rows = list(bench.store.rows())
    store = pending(bench, [row.key for row in rows], rows)
    store.remove([rows[0].key])
    store.close()
    assert texts(bench.open(), "r1", "r2") == ["one", "two"]


DIES = """
import os, sys
from ctxarith import Corpus, Record
from ctxarith.stores.chroma import ChromaStore
from tests.fakes import WordEmbedder
corpus = Corpus.open(sys.argv[1], embedder=WordEmbedder())
corpus.add([Record(id="r1", text="Fee is 10 EUR")])
write = ChromaStore.write
def dies(self, rows):
    write(self, rows[:2])
    os._exit(9)
ChromaStore.write = dies
corpus.add([Record(id="r1", text="Fee is 12 EUR"), Record(id="r2", text="Rent is 900 EUR")])
"""


def test_a_process_that_dies_in_a_write_leaves_what_was_acknowledged(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DIES, tmp_path], cwd=ROOT, timeout=60)
    assert done.returncode == 9
    assert SqliteJournal(tmp_path / "journal.sqlite").pending()[0]
    with Corpus.open(tmp_path, embedder=WordEmbedder()) as corpus:
        assert texts(corpus, "r1", "r2") == ["Fee is 10 EUR"]
        assert ids(corpus.retrieve("fee rent")) == ["r1"]


def test_a_removal_that_fails_is_reported_and_can_be_repeated(bench: Bench) -> None:
    # PK-06
    corpus = bench.open()
    corpus.add([Record(id="r1", text="Fee is 10 EUR"), Record(id="r2", text="Rent is 900 EUR")])
    bench.store.fail_after(0)
    with pytest.raises(StoreError, match="no space left"):
        corpus.delete("r1")
    assert ids(corpus.retrieve("fee")) == ["r1", "r2"]
    assert corpus.delete("r1") == 1
    assert ids(corpus.retrieve("fee")) == ["r2"]
    assert bench.stored() == [("r2", 0, "Rent is 900 EUR")]


def test_a_fact_that_could_not_be_ended_is_still_current(bench: Bench) -> None:
    corpus = bench.open()
    corpus.add([fee("r1", 10, JANUARY)])
    bench.store.fail_after(0)
    with pytest.raises(StoreError):
        corpus.retire("r1")
    assert ids(corpus.retrieve("fee")) == ["r1"]
    assert corpus.retire("r1") == 1
    assert ids(corpus.retrieve("fee")) == []


def test_a_bad_record_in_a_batch_leaves_nothing_of_the_batch(memory: Corpus) -> None:
    with pytest.raises(RecordError, match="created_at") as caught:
        memory.add([{"id": "r1", "text": "x"}, {"id": "r2", "text": "y", "created_at": "yesterday"}])
    assert (caught.value.record_id, caught.value.field, caught.value.value) == (
        "r2",
        "created_at",
        "yesterday",
    )
    assert memory.count() == 0


def test_records_that_fail_to_come_leave_nothing(memory: Corpus) -> None:
    def half() -> Iterator[Record]:
        yield Record(id="r1", text="x")
        raise ConnectionError("the source went away")

    with pytest.raises(ConnectionError):
        memory.add(half())
    assert memory.count() == 0


class Tiring(WordEmbedder):
    """Fails at its `limit`-th call, once."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.limit -= 1
        if self.limit == 0:
            raise TimeoutError("the model is asleep")
        return super().embed_documents(texts)


def test_an_embedder_that_fails_midway_costs_only_what_is_missing() -> None:
    embedder = Tiring(limit=3)
    corpus = Corpus.in_memory(embedder=embedder)
    records = [Record(id=f"r{n:03}", text=f"text {n}") for n in range(600)]
    with pytest.raises(EmbeddingError, match="TimeoutError: the model is asleep"):
        corpus.add(records)
    assert corpus.count() == 0
    assert corpus.add(records) == Added(added=600, embedded=88)
    assert sorted(embedder.embedded) == sorted(record.text for record in records)


def test_the_error_of_an_embedder_that_fails_midway_lists_what_was_staged() -> None:
    corpus = Corpus.in_memory(embedder=Tiring(limit=2))
    with pytest.raises(EmbeddingError) as caught:
        corpus.add([Record(id=f"r{n:03}", text=f"text {n}") for n in range(600)])
    assert caught.value.staged == tuple(f"r{n:03}" for n in range(256))


def test_nothing_to_add_is_nothing_to_do(memory: Corpus) -> None:
    assert memory.add([]) == Added()
    assert memory.add([], embeddings=[]) == Added()


@pytest.mark.parametrize("given", ["r1", Record(id="r1", text="x"), {"id": "r1", "text": "x"}, None, 7])
def test_one_record_alone_is_no_list_of_records(given: Any) -> None:
    with pytest.raises(ArgumentError, match="records"):
        Corpus.in_memory(embedder=WordEmbedder()).add(given)


# Corrections and versions


def test_other_content_under_the_same_id_takes_its_place_in_every_stage(corpus: Corpus) -> None:
    # CH-11
    corpus.add([Record(id="x1", text="Fee is 10 EUR")])
    corpus.add([Record(id="x1", text="Fee is 12 EUR")])
    for source in (semantic, lexical):
        result = corpus.run((source & everyone) >> top(5), "fee")
        assert [hit.record.text for hit in result.hits] == ["Fee is 12 EUR"]
    assert corpus.count() == 1


def test_the_same_id_twice_in_one_batch_is_refused_by_name(memory: Corpus) -> None:
    # CH-12
    with pytest.raises(RecordError, match="x2") as caught:
        memory.add([Record(id=rid, text=t) for rid, t in (("x2", "v1"), ("x3", "other"), ("x2", "v2"))])
    assert caught.value.record_id == "x2"
    assert memory.count() == 0


def test_the_very_same_record_twice_in_one_batch_is_one_record(memory: Corpus) -> None:
    assert memory.add([Record(id="x2", text="v1"), Record(id="x2", text="v1")]).added == 1
    assert memory.count() == 1


def test_corrections_are_kept_as_numbered_revisions(bench: Bench) -> None:
    corpus = bench.open()
    reports = [corpus.add([fee("r1", amount, JANUARY)]) for amount in (10, 12, 15)]
    assert [(report.added, report.corrected) for report in reports] == [(1, 0), (0, 1), (0, 1)]
    told = [(one.value, one.status, one.revision) for one in corpus.history("lead-1", "fee")]
    assert told == [(10, "corrected", 1), (12, "corrected", 2), (15, "current", 0)]
    assert corpus.count() == 1


def test_revisions_are_numbered_on_after_reopening(bench: Bench) -> None:
    corpus = bench.open()
    for amount in (10, 12):
        corpus.add([fee("r1", amount, JANUARY)])
    corpus = bench.reopen()
    corpus.add([fee("r1", 15, JANUARY)])
    told = [(one.value, one.revision) for one in corpus.history("lead-1", "fee")]
    assert told == [(10, 1), (12, 2), (15, 0)]
    assert texts(corpus, "r1") == ["The fee is 15 EUR"]


def test_a_correction_can_go_back_to_an_earlier_content(corpus: Corpus) -> None:
    for amount in (10, 12, 10):
        corpus.add([fee("r1", amount, JANUARY)])
    assert [one.value for one in corpus.history("lead-1", "fee")] == [10, 12, 10]
    assert texts(corpus, "r1") == ["The fee is 10 EUR"]


def test_a_correction_drops_what_the_new_content_does_not_say(corpus: Corpus) -> None:
    corpus.add([Record(id="r1", text="x", scope="acme/ops", metadata={"kind": "draft", "pages": 3})])
    corpus.add([Record(id="r1", text="x", metadata={"pages": 4})])
    (kept,) = corpus.get("r1")
    assert (dict(kept.metadata), kept.scope) == ({"pages": 4}, "")
    assert corpus.count({"kind": "draft"}) == 0


@pytest.mark.parametrize("arrival", [("9", "10"), ("10", "9")])
def test_the_newer_version_is_current_whatever_arrived_first(
    memory: Corpus, arrival: tuple[str, str]
) -> None:
    for version in arrival:
        memory.add([Record(id="r1", text=f"Fee list {version}", version=version)])
    assert texts(memory, "r1") == ["Fee list 10"]
    assert [hit.record.version for hit in memory.retrieve("fee list").hits] == ["10"]


def test_dates_stand_above_version_names(memory: Corpus) -> None:
    memory.add([Record(id="r1", text="Fee list", version="2", created_at=JANUARY)])
    memory.add([Record(id="r1", text="Fee list", version="1", created_at=MARCH)])
    assert [hit.record.version for hit in memory.retrieve("fee list").hits] == ["1"]


def test_an_older_version_is_found_at_its_own_time(memory: Corpus) -> None:
    memory.add([Record(id="r1", text="Fee list", version="1", created_at=JANUARY)])
    memory.add([Record(id="r1", text="Fee list", version="2", created_at=MARCH)])
    versions = [
        [hit.record.version for hit in memory.retrieve("fee list", as_of=at).hits]
        for at in (JANUARY, MARCH - DAY, MARCH, None)
    ]
    assert versions == [["1"], ["1"], ["2"], ["2"]]


def test_versions_are_not_revisions_and_both_are_kept(bench: Bench) -> None:
    corpus = bench.open()
    for version, amount in (("1", 10), ("1", 11), ("2", 12), ("2", 13)):
        corpus.add([fee("r1", amount, JANUARY, version=version)])
    kept = sorted((row.record.version, row.revision, row.record.text) for row in bench.store.rows())
    assert [one[:2] for one in kept] == [("1", 0), ("1", 1), ("2", 0), ("2", 1)]
    assert texts(corpus, "r1") == ["The fee is 13 EUR"]


# What is embedded


def test_content_that_has_not_changed_is_not_embedded_again(bench: Bench) -> None:
    # SU-03
    corpus = bench.open()
    reports = [corpus.add([fee("f1", 10, JANUARY)]) for _ in range(3)]
    assert reports == [Added(added=1, embedded=1), Added(unchanged=1), Added(unchanged=1)]
    assert bench.embedder.embedded == ["The fee is 10 EUR"]
    assert [row.revision for row in bench.store.rows()] == [0]


def test_content_that_has_not_changed_is_not_embedded_again_after_reopening(bench: Bench) -> None:
    bench.open().add([fee("f1", 10, JANUARY)])
    assert bench.reopen().add([fee("f1", 10, JANUARY)]) == Added(unchanged=1)
    assert bench.embedder.embedded == ["The fee is 10 EUR"]


def test_new_metadata_on_the_same_text_is_a_correction_without_embedding(bench: Bench) -> None:
    corpus = bench.open()
    corpus.add([Record(id="r1", text="Fee is 10 EUR", metadata={"status": "draft"})])
    report = corpus.add([Record(id="r1", text="Fee is 10 EUR", metadata={"status": "final"})])
    assert report == Added(corrected=1, embedded=0)
    assert ids(corpus.retrieve("fee", where={"status": "final"})) == ["r1"]
    assert bench.embedder.embedded == ["Fee is 10 EUR"]


def test_a_new_version_of_the_same_text_is_not_embedded_again(bench: Bench) -> None:
    corpus = bench.open()
    corpus.add([Record(id="r1", text="Fee is 10 EUR", version="1")])
    assert corpus.add([Record(id="r1", text="Fee is 10 EUR", version="2")]).embedded == 0


def test_values_of_other_types_are_other_content(memory: Corpus) -> None:
    reports = [memory.add([Record(id="r1", text="x", metadata={"v": v})]) for v in (True, 1, 1.0, "1")]
    assert [report.corrected for report in reports] == [0, 1, 1, 1]
    assert [type(record.metadata["v"]) for record in memory.get("r1")] == [str]


def test_a_text_that_stands_twice_in_a_batch_is_embedded_once() -> None:
    embedder = WordEmbedder()
    corpus = Corpus.in_memory(embedder=embedder)
    report = corpus.add([Record(id="s1", text="Visitors sign in"), Record(id="s2", text="Visitors sign in")])
    assert report == Added(added=2, embedded=1)
    assert ids(corpus.retrieve("visitors")) == ["s1", "s2"]


def test_searchable_metadata_is_embedded_with_the_text_and_other_metadata_is_not() -> None:
    # LX-10
    embedder = WordEmbedder()
    corpus = Corpus.in_memory(embedder=embedder, searchable=["title"])
    said = {"title": "Site KYO handover", "kind": "memo"}
    corpus.add([Record(id="t1", text="Keys are with the porter.", metadata=said)])
    assert corpus.add(
        [Record(id="t1", text="Keys are with the porter.", metadata={**said, "title": "Site OSA"})]
    ) == Added(corrected=1, embedded=1)
    assert embedder.embedded == [
        "Site KYO handover\nKeys are with the porter.",
        "Site OSA\nKeys are with the porter.",
    ]


def test_vectors_that_are_brought_along_are_not_computed(bench: Bench) -> None:
    corpus = bench.open()
    vectors = [[3.0, 4.0, *[0.0] * 62], [0.0, 2.0, *[0.0] * 62]]
    assert (
        corpus.add([Record(id="r1", text="x"), Record(id="r2", text="x")], embeddings=vectors).embedded == 0
    )
    assert bench.embedder.embedded == []
    kept = {row.record.id: row.vector.tolist() for row in bench.store.rows()}
    assert kept["r1"][:2] == pytest.approx([0.6, 0.8], abs=1e-7)
    assert kept["r2"][:2] == pytest.approx([0.0, 1.0], abs=1e-7)


def test_vectors_of_another_length_than_the_models_are_refused_at_the_first_write(memory: Corpus) -> None:
    with pytest.raises(ArgumentError, match="vectors of 2 numbers"):
        memory.add([Record(id="r1", text="x")], embeddings=[[3.0, 4.0]])
    assert memory.add([Record(id="r1", text="x")]).added == 1


@pytest.mark.parametrize(
    "vectors", [[[1.0, 0.0]], [[1.0], [1.0, 2.0]], [[1.0, math.nan]] * 2, [1.0, 2.0], "ab"]
)
def test_vectors_that_do_not_fit_the_records_are_refused(vectors: Any) -> None:
    corpus = Corpus.in_memory(embedder=WordEmbedder())
    with pytest.raises(ArgumentError, match="embeddings"):
        corpus.add([Record(id="r1", text="x"), Record(id="r2", text="y")], embeddings=vectors)
    assert corpus.count() == 0


# What may be in a record


def test_metadata_is_taken_as_python_has_it_or_refused_by_name(corpus: Corpus) -> None:
    # CH-07
    odd: dict[str, Any] = {"author": None, "pages": np.int64(7)}
    when: dict[str, Any] = {"when": datetime(2026, 1, 1, tzinfo=UTC)}
    batch = [
        {"id": f"r{n}", "text": "x", "metadata": m} for n, m in enumerate((odd, when, {"extra": {"a": 1}}))
    ]
    with pytest.raises(RecordError, match=r"r2.*metadata\.extra"):
        corpus.add(batch)
    assert corpus.count() == 0
    corpus.add(batch[:2])
    assert [dict(record.metadata) for record in corpus.get(["r0", "r1"])] == [{"pages": 7}, when]
    assert type(corpus.get("r0")[0].metadata["pages"]) is int


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**63, b"x", {"a": 1}, [[1]], [1, "a"], object()])
def test_a_value_that_no_store_keeps_is_refused_with_its_key(value: Any) -> None:
    # CH-07
    corpus = Corpus.in_memory(embedder=WordEmbedder())
    with pytest.raises(RecordError, match="r1") as caught:
        corpus.add([{"id": "r1", "text": "x", "metadata": {"score": value}}])
    assert caught.value.field == "metadata.score"
    assert corpus.count() == 0


def test_the_largest_whole_number_is_kept_exactly_and_no_metadata_is_fine(corpus: Corpus) -> None:
    # CH-07
    corpus.add(
        [Record(id="r1", text="x", metadata={"ref": 2**63 - 1}), Record(id="r2", text="x", metadata={})]
    )
    assert [dict(record.metadata) for record in corpus.get(["r1", "r2"])] == [{"ref": 2**63 - 1}, {}]


def test_lists_are_kept_and_an_empty_list_is_a_missing_key(corpus: Corpus) -> None:
    # CH-08
    given: list[dict[str, Any]] = [{"tags": ["hr", "policy"]}, {"tags": []}, {"tags": ("hr",)}, {}]
    corpus.add([{"id": f"k{n}", "text": "x", "metadata": m} for n, m in enumerate(given, start=1)])
    assert sorted(ids(corpus.retrieve("x", where={"tags": {"$contains": "hr"}}))) == ["k1", "k3"]
    assert corpus.count({"tags": {"$exists": False}}) == 2
    assert [dict(record.metadata) for record in corpus.get(["k2", "k4"])] == [{}, {}]


@pytest.mark.parametrize("key", ["#x", "#document", "chroma:document", "ctx_revision", "$and", "", "tenant"])
def test_a_metadata_key_that_chroma_cannot_hold_is_refused_by_name(memory: Corpus, key: str) -> None:
    with pytest.raises(RecordError, match="r1"):
        memory.add([{"id": "r1", "text": "x", "metadata": {key: 1}}])
    assert memory.count() == 0


def test_metadata_cannot_move_a_record_to_another_tenant(corpus: Corpus) -> None:
    # TN-02
    corpus.add([Record(id="u1", text="Gate code", tenant="acme")])
    for rid in ("u1", "u2"):
        with pytest.raises(RecordError, match=r"metadata\.tenant"):
            corpus.add(
                [{"id": rid, "text": "x", "tenant": "acme", "metadata": {"tenant": "beta", "note": "x"}}]
            )
    assert texts(corpus, "u1", "u2") == ["Gate code"]
    assert corpus.count(principal=BETA) == 0


def test_the_same_id_under_another_tenant_is_another_record(corpus: Corpus) -> None:
    # TN-02
    corpus.add([Record(id="u1", text="Gate code of acme", tenant="acme")])
    assert corpus.add([Record(id="u1", text="Gate code of beta", tenant="beta")]).added == 1
    assert [one.text for one in corpus.get("u1", principal=ACME)] == ["Gate code of acme"]
    assert [one.text for one in corpus.get("u1", principal=BETA)] == ["Gate code of beta"]


def test_any_tenant_name_is_a_tenant_of_its_own_after_reopening_too(bench: Bench) -> None:
    # CH-17
    tenants = ["ab", "Acme Co", "acme-co", "東京支店", "x@y.io", "10.0.0.1", "a..b", "a" * 600]
    corpus = bench.open()
    corpus.add([Record(id="r1", text=f"Gate code {n}", tenant=name) for n, name in enumerate(tenants)])
    for again in (False, True):
        opened = bench.reopen() if again else corpus
        for n, name in enumerate(tenants):
            found = opened.retrieve("gate code", principal=Principal(name))
            assert [hit.record.text for hit in found.hits] == [f"Gate code {n}"]
            assert opened.count(principal=Principal(name)) == 1


def test_a_blank_tenant_is_refused(memory: Corpus) -> None:
    with pytest.raises(RecordError, match="tenant"):
        memory.add([{"id": "r1", "text": "x", "tenant": " "}])


# Facts that replace each other


def test_the_opposite_statement_leaves_one_current_and_one_superseded_fact(memory: Corpus) -> None:
    # SU-02
    for n, (text, at) in enumerate((("Dana likes Thai food", JANUARY), ("Dana dislikes Thai food", MARCH))):
        slots = (Slot("dana", "thai food", text.split()[1]),)
        memory.add([Record(id=f"d{n}", text=text, created_at=at, slots=slots)])
    assert ids(memory.retrieve("Thai food")) == ["d1"]
    told = [(one.value, one.status) for one in memory.history("dana", "thai food")]
    assert told == [("likes", "superseded"), ("dislikes", "current")]


def test_a_replacement_that_fails_to_be_written_leaves_the_old_fact_current(bench: Bench) -> None:
    # SU-02, SU-11
    corpus = bench.open()
    corpus.add([fee("g1", 10, JANUARY)])
    bench.store.fail_after(0)
    with pytest.raises(StoreError):
        corpus.add([fee("g2", 12, MARCH, supersedes=("g1",))])
    (hit,) = corpus.retrieve("fee", include_superseded=True).hits
    assert (hit.id, hit.superseded_by) == ("g1", ())


def test_the_same_fact_under_a_new_id_leaves_one_current_fact(memory: Corpus) -> None:
    # SU-03
    memory.add([fee("f1", 10, JANUARY)])
    memory.add([fee("f1b", 10, JANUARY)])
    assert ids(memory.retrieve("fee")) == ["f1b"]
    assert [one.status for one in memory.history("lead-1", "fee")] == ["superseded", "current"]


def test_a_link_that_would_close_a_loop_is_refused_with_the_ids_named(memory: Corpus) -> None:
    # SU-04
    memory.add(
        [Record(id="c2", text="Fee is 10 EUR"), Record(id="c1", text="Fee is 12 EUR", supersedes=("c2",))]
    )
    with pytest.raises(RecordError, match="c1, c2"):
        memory.add([Record(id="c2", text="Fee is 14 EUR", supersedes=("c1",))])
    assert texts(memory, "c1", "c2") == ["Fee is 12 EUR", "Fee is 10 EUR"]


def test_a_loop_within_one_batch_and_a_link_to_itself_are_refused(memory: Corpus) -> None:
    # SU-04
    loop = [Record(id="c1", text="x", supersedes=("c2",)), Record(id="c2", text="y", supersedes=("c1",))]
    with pytest.raises(RecordError, match="c1, c2"):
        memory.add(loop)
    with pytest.raises(RecordError, match="c3"):
        memory.add([{"id": "c3", "text": "x", "supersedes": ["c3"]}])
    assert memory.count() == 0


def test_a_correction_that_takes_back_its_link_opens_the_way(memory: Corpus) -> None:
    # SU-04
    memory.add([Record(id="c1", text="x"), Record(id="c2", text="y", supersedes=("c1",))])
    memory.add([Record(id="c2", text="y")])
    assert memory.add([Record(id="c1", text="x", supersedes=("c2",))]).corrected == 1
    assert ids(memory.retrieve("x y")) == ["c1"]


def test_a_link_to_nobody_is_kept_and_reported(memory: Corpus) -> None:
    # SU-04
    assert memory.add([Record(id="c9", text="Fee is 10 EUR", supersedes=("zz",))]).dangling == ("zz",)
    assert ids(memory.retrieve("fee")) == ["c9"]
    assert memory.add([Record(id="zz", text="Fee is 9 EUR")]).dangling == ()
    assert ids(memory.retrieve("fee")) == ["c9"]


def test_a_chain_of_five_thousand_links_leaves_its_head() -> None:
    # SU-04
    corpus = Corpus.in_memory(embedder=WordEmbedder(), clock=lambda: NOW)
    chain = [Record(id="c0", text="Fee")]
    chain += [Record(id=f"c{n}", text="Fee", supersedes=(f"c{n - 1}",)) for n in range(1, 5_001)]
    corpus.add(chain, embeddings=list(np.ones((5_001, 64), np.float32)))
    current = corpus.retrieve("fee", where={"id": {"$in": ["c0", "c5000"]}})
    assert ids(current) == ["c5000"]
    assert current.hits[0].replaces == ("c0",)


def test_a_loop_that_is_met_on_disk_keeps_both_visible_and_says_so(bench: Bench) -> None:
    # SU-04
    bench.open().add([Record(id="c1", text="Fee is 10 EUR"), Record(id="c2", text="Fee is 12 EUR")])
    bench.opened[-1].close()
    store = bench.make()
    heirs = {"c1": ("c2",), "c2": ("c1",)}
    rows = list(store.rows())
    linked = [Record(id=r.record.id, text=r.record.text, supersedes=heirs[r.record.id]) for r in rows]
    store.write([Row(record, row.vector) for record, row in zip(linked, rows, strict=True)])
    store.close()
    shutil.rmtree(bench.folder / "index")
    hits = bench.open().retrieve("fee").hits
    assert sorted(hit.id for hit in hits) == ["c1", "c2"]
    assert [hit.flags for hit in hits] == [("loop",), ("loop",)]


def test_a_replacement_points_to_the_record_that_holds_the_new_text(memory: Corpus) -> None:
    # SU-11
    memory.add([Record(id="g1", text="Fee is 10 EUR"), Record(id="g7", text="Fee is 12 EUR")])
    assert memory.add([Record(id="g7", text="Fee is 12 EUR", supersedes=("g1",))]).corrected == 1
    shown = {hit.id: hit.superseded_by for hit in memory.retrieve("fee", include_superseded=True).hits}
    assert shown == {"g7": (), "g1": ("g7",)}


# Ending, deleting, purging


def test_deleting_a_replacement_revives_what_it_had_replaced(corpus: Corpus) -> None:
    corpus.add([fee("r1", 10, JANUARY), fee("r2", 12, MARCH)])
    assert ids(corpus.retrieve("fee")) == ["r2"]
    assert corpus.delete("r2") == 1
    assert ids(corpus.retrieve("fee")) == ["r1"]


def test_retiring_a_replacement_revives_nothing(corpus: Corpus) -> None:
    corpus.add([fee("r1", 10, JANUARY), fee("r2", 12, MARCH)])
    assert corpus.retire("r2") == 1
    assert ids(corpus.retrieve("fee")) == []
    assert [one.status for one in corpus.history("lead-1", "fee")] == ["superseded", "ended"]


def test_a_retired_fact_is_found_at_a_time_before_its_end(make_corpus: MakeCorpus) -> None:
    clock = [NOW]
    corpus = make_corpus(clock=lambda: clock[0])
    corpus.add([fee("r1", 10, JANUARY)])
    corpus.retire("r1")
    clock[0] += DAY
    assert ids(corpus.retrieve("fee")) == []
    assert ids(corpus.retrieve("fee", as_of=NOW - timedelta(microseconds=1))) == ["r1"]
    assert ids(corpus.retrieve("fee", as_of=NOW)) == []


def test_retiring_twice_ends_a_fact_once(memory: Corpus) -> None:
    memory.add([fee("r1", 10, JANUARY)])
    assert [memory.retire("r1"), memory.retire(["r1", "r1", "nobody"])] == [1, 0]


def test_a_fact_that_is_retired_before_it_begins_never_begins(make_corpus: MakeCorpus) -> None:
    clock = [NOW]
    corpus = make_corpus(clock=lambda: clock[0])
    corpus.add([Record(id="r1", text="Fee is 12 EUR", valid_from=NOW + DAY)])
    assert corpus.retire("r1") == 1
    clock[0] += 2 * DAY
    assert ids(corpus.retrieve("fee")) == []


def test_a_retirement_survives_reopening(bench: Bench) -> None:
    corpus = bench.open()
    corpus.add([fee("r1", 10, JANUARY), fee("r2", 12, MARCH)])
    corpus.retire("r2")
    assert ids(bench.reopen().retrieve("fee")) == []


def test_a_deleted_record_is_in_no_stage_and_in_no_time(corpus: Corpus) -> None:
    # PK-06
    corpus.add([fee("r1", 10, JANUARY), fee("r1", 12, MARCH, version="2"), Record(id="r2", text="Rent")])
    assert corpus.delete(["r1", "nobody", "r1"]) == 1
    for source in (semantic, lexical):
        assert "r1" not in ids(corpus.run((source & everyone) >> top(9), "fee"))
    assert ids(corpus.retrieve("fee", as_of=JANUARY + DAY)) == ["r2"]
    assert corpus.get("r1") == []
    assert corpus.history("lead-1", "fee") == []
    assert corpus.delete("r1") == 0


def test_a_deleted_record_is_gone_after_reopening_with_its_revisions(bench: Bench) -> None:
    corpus = bench.open()
    for amount in (10, 12):
        corpus.add([fee("r1", amount, JANUARY)])
    corpus.delete("r1")
    assert bench.reopen().get("r1") == []
    assert bench.stored() == []


def test_a_deleted_id_can_be_added_again_as_if_it_had_never_been(corpus: Corpus) -> None:
    for amount in (10, 12):
        corpus.add([fee("r1", amount, JANUARY)])
    corpus.delete("r1")
    assert corpus.add([fee("r1", 15, JANUARY)]).added == 1
    told = [(one.value, one.revision) for one in corpus.history("lead-1", "fee")]
    assert told == [(15, 0)]


def test_deleting_a_source_removes_all_its_chunks(corpus: Corpus) -> None:
    # PK-06
    chunks = [Record(id=f"doc#{n}", text=f"Fee chunk {n}", source_id="doc") for n in range(3)]
    corpus.add([*chunks, Record(id="other", text="Fee chunk", source_id="docx")])
    assert corpus.delete(source_id="doc") == 3
    assert ids(corpus.retrieve("fee chunk")) == ["other"]


def test_a_deletion_names_either_ids_or_a_source(memory: Corpus) -> None:
    memory.add([Record(id="r1", text="x")])
    for given in ({}, {"ids": "r1", "source_id": "r1"}):
        with pytest.raises(ArgumentError, match="ids"):
            memory.delete(**given)
    with pytest.raises(RecordError, match="ids are text"):
        memory.delete([1])  # type: ignore[list-item]
    assert memory.count() == 1


def test_with_two_tenants_a_removal_says_whose_record(memory: Corpus) -> None:
    memory.add([Record(id="r1", text="x", tenant="acme"), Record(id="r1", text="x", tenant="beta")])
    for remove in (memory.delete, memory.purge, memory.retire):
        with pytest.raises(PrincipalRequired):
            remove("r1")
    assert memory.delete("r1", tenant="acme") == 1
    assert (memory.count(principal=ACME), memory.count(principal=BETA)) == (0, 1)


def test_the_nearest_record_deleted_leaves_the_next_at_the_top(make_corpus: MakeCorpus) -> None:
    # CH-18
    vectors = {"alpha": (2, 0, 1), "bravo": (5, 1, 4), "charlie": (9, 6, 8)}
    corpus = make_corpus(embedder=TableEmbedder({**vectors, "query": (2, 0, 1)}))
    corpus.add([Record(id=name[0].upper(), text=name) for name in vectors])
    assert corpus.delete("A") == 1
    found = [ids(corpus.run((semantic & everyone) >> top(k), "query")) for k in (1, 3)]
    assert found == [["B"], ["B", "C"]]
    assert ids(corpus.run((lexical & everyone) >> top(3), "alpha")) == []


def test_a_filter_after_a_deletion_finds_what_is_left(corpus: Corpus) -> None:
    # CH-10
    kinds = ["lease", "lease", *["memo"] * 8]
    corpus.add(
        [Record(id=f"r{n}", text="Rent is 900 EUR", metadata={"kind": k}) for n, k in enumerate(kinds)]
    )
    corpus.delete("r0")
    for k in (2, 50):
        assert ids(corpus.retrieve("rent", where={"kind": "lease"}, top=k)) == ["r1"]


def test_a_thousand_nearer_records_of_another_tenant_hide_nothing(make_corpus: MakeCorpus) -> None:
    # CH-20
    corpus = make_corpus(embedder=TableEmbedder({"rent": (1.0, 0.0)}))
    near = [Record(id=f"b{n}", text="rent", tenant="beta") for n in range(1_000)]
    far = [Record(id=f"a{n}", text="rent", tenant="acme") for n in range(5)]
    corpus.add([*near, *far], embeddings=[(1.0, 0.0)] * 1_000 + [(0.1, 1.0)] * 5)
    wanted = ["a0", "a1", "a2", "a3", "a4"]
    dense = corpus.run((semantic & everyone) >> top(5), "rent", principal=ACME)
    assert sorted(ids(dense)) == wanted
    assert sorted(ids(corpus.retrieve("rent", principal=ACME, top=5))) == wanted


def traces(folder: Path, *words: str) -> list[str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    held = ((file.name, file.read_bytes()) for file in files)
    return [name for name, content in held if any(word.encode() in content for word in words)]


@pytest.fixture
def chroma_bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, lambda: ChromaStore(tmp_path / "chroma"))
    yield made
    for corpus in made.opened:
        corpus.close()


def test_a_text_is_in_a_file_until_it_is_purged(chroma_bench: Bench) -> None:
    # PK-08: the search itself must be able to find it.
    corpus = chroma_bench.open()
    corpus.add([Record(id="r1", text="ZEBRA-SECRET-42", metadata={"note": "OKAPI-43"})])
    assert "chroma.sqlite3" in traces(chroma_bench.folder, "ZEBRA-SECRET-42")
    assert corpus.purge("r1") == 1
    assert traces(chroma_bench.folder, "ZEBRA-SECRET", "OKAPI") == []


def test_a_purge_reaches_revisions_versions_and_deletions_before_it(chroma_bench: Bench) -> None:
    # PK-08
    corpus = chroma_bench.open()
    corpus.add([Record(id="r1", text="ZEBRA-SECRET-42 at first"), Record(id="kept", text="Fee is 10 EUR")])
    corpus.add([Record(id="r1", text="harmless")])
    corpus.add([Record(id="r1", text="ZEBRA-SECRET-42 again", version="2")])
    corpus.add([Record(id="r2", text="ZEBRA-SECRET-42 elsewhere")])
    corpus.delete("r2")
    corpus.retire("r1")
    assert corpus.purge(["r1", "r2"]) == 1
    assert traces(chroma_bench.folder, "ZEBRA") == []
    assert ids(corpus.retrieve("fee")) == ["kept"]


def test_what_stays_is_whole_after_a_purge_and_a_reopening(chroma_bench: Bench) -> None:
    # PK-08
    corpus = chroma_bench.open()
    corpus.add([Record(id="secret", text="ZEBRA-SECRET-42"), fee("r1", 10, JANUARY)])
    corpus.add([fee("r1", 12, JANUARY)])
    corpus.purge("secret")
    corpus = chroma_bench.reopen()
    corpus.add([Record(id="r2", text="Rent is 900 EUR")])
    assert texts(corpus, "r1", "r2") == ["The fee is 12 EUR", "Rent is 900 EUR"]
    assert [one.value for one in corpus.history("lead-1", "fee")] == [10, 12]
    assert traces(chroma_bench.folder, "ZEBRA") == []


def test_a_purge_by_source_leaves_no_trace_of_any_chunk(chroma_bench: Bench) -> None:
    # PK-08
    corpus = chroma_bench.open()
    corpus.add([Record(id=f"doc#{n}", text=f"ZEBRA-{n}", source_id="doc") for n in range(3)])
    assert corpus.purge(source_id="doc") == 3
    assert traces(chroma_bench.folder, "ZEBRA") == []


@pytest.mark.parametrize("recovers", [True, False])
def test_a_purge_after_a_failed_write_leaves_no_trace_of_it(chroma_bench: Bench, recovers: bool) -> None:
    # PK-08
    corpus = chroma_bench.open()
    corpus.add([Record(id="r1", text="harmless")])
    chroma_bench.store.part = 1
    chroma_bench.store.fail_after(2, recovers=recovers)
    with pytest.raises(StoreError):
        corpus.add([Record(id="r1", text="ZEBRA-SECRET-42"), Record(id="r2", text="ZEBRA-SECRET-43")])
    chroma_bench.store.heal()
    assert corpus.purge("r2") == 0
    assert traces(chroma_bench.folder, "ZEBRA") == []
    assert texts(corpus, "r1", "r2") == ["harmless"]


def test_a_purge_that_cannot_clean_the_store_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = bench.open()
    corpus.add([Record(id="r1", text="ZEBRA-SECRET-42")])

    def locked() -> None:
        raise OSError("database is locked")

    monkeypatch.setattr(bench.store, "scrub", locked)
    with pytest.raises(StoreError, match="database is locked"):
        corpus.purge("r1")
    assert corpus.get("r1") == []
    monkeypatch.undo()
    assert corpus.purge("r1") == 0
    assert traces(bench.folder, "ZEBRA") == []


# Opening, sharing, closing


@dataclass
class Named:
    """An embedder with a name and a dimension of its own."""

    name: str
    dimension: int

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(len(text) + 1)] + [1.0] * (self.dimension - 1)


def test_another_embedding_model_is_refused_at_opening(tmp_path: Path) -> None:
    # CH-14
    with Corpus.open(tmp_path, embedder=Named("emb-a", 4)) as corpus:
        corpus.add([Record(id="r1", text="x")])
    for other in (Named("emb-b", 8), Named("emb-c", 4)):
        with pytest.raises(EmbedderMismatch, match=f"emb-a.*{other.name}"):
            Corpus.open(tmp_path, embedder=other)
    with Corpus.open(tmp_path, embedder=Named("emb-a", 4)) as corpus:
        assert ids(corpus.retrieve("x")) == ["r1"]


def test_the_refusal_names_the_dimension_that_the_corpus_holds(tmp_path: Path) -> None:
    # CH-14
    with Corpus.open(tmp_path, embedder=Named("emb-a", 4)) as corpus:
        corpus.add([Record(id="r1", text="x")])
    with pytest.raises(EmbedderMismatch, match=r"emb-a.*\b4\b"):
        Corpus.open(tmp_path, embedder=Named("emb-b", 8))


def test_a_model_of_the_same_name_and_another_dimension_is_refused_at_first_use(tmp_path: Path) -> None:
    # CH-14
    with Corpus.open(tmp_path, embedder=Named("emb-a", 4)) as corpus:
        corpus.add([Record(id="r1", text="x")])
    with Corpus.open(tmp_path, embedder=Named("emb-a", 8)) as corpus:
        with pytest.raises(EmbedderMismatch, match=r"emb-a of dimension 4.*dimension 8"):
            corpus.retrieve("x")
        with pytest.raises(EmbedderMismatch, match=r"dimension 4.*dimension 8"):
            corpus.add([Record(id="r2", text="y")])
        with pytest.raises(EmbedderMismatch, match=r"dimension 4.*dimension 3"):
            corpus.add([Record(id="r2", text="y")], embeddings=[[1.0, 2.0, 3.0]])
        assert texts(corpus, "r1", "r2") == ["x"]


def test_an_open_folder_refuses_a_second_handle_with_another_model_too(tmp_path: Path) -> None:
    # CH-14
    with (
        Corpus.open(tmp_path, embedder=Named("emb-a", 4)),
        pytest.raises(EmbedderMismatch, match=r"emb-a.*emb-b"),
    ):
        Corpus.open(tmp_path, embedder=Named("emb-b", 4))


@pytest.mark.parametrize("option", [{"stem": False}, {"stop_words": False}, {"searchable": ["title"]}])
@pytest.mark.parametrize("still_open", [True, False])
def test_settings_for_life_cannot_be_contradicted(
    tmp_path: Path, option: dict[str, Any], still_open: bool
) -> None:
    first = Corpus.open(tmp_path, embedder=WordEmbedder())
    if not still_open:
        first.close()
    with pytest.raises(ArgumentError, match=next(iter(option))):
        Corpus.open(tmp_path, embedder=WordEmbedder(), **option)
    first.close()


def test_settings_are_remembered_where_nothing_is_asked_for(tmp_path: Path) -> None:
    with Corpus.open(tmp_path, embedder=WordEmbedder(), searchable=["title"]) as corpus:
        corpus.add([Record(id="r1", text="Keys", metadata={"title": "Handover"})])
    with Corpus.open(tmp_path, embedder=WordEmbedder()) as corpus:
        assert ids(corpus.run((lexical & everyone) >> top(5), "handover")) == ["r1"]


def test_two_handles_on_one_folder_share_what_is_written(tmp_path: Path) -> None:
    one = Corpus.open(tmp_path, embedder=WordEmbedder())
    other = Corpus.open(tmp_path / "." / ".." / tmp_path.name, embedder=WordEmbedder())
    one.add([Record(id="r1", text="Fee is 10 EUR")])
    assert texts(other, "r1") == ["Fee is 10 EUR"]
    one.close()
    other.add([Record(id="r2", text="Rent is 900 EUR")])
    other.close()
    with Corpus.open(tmp_path, embedder=WordEmbedder()) as again:
        assert texts(again, "r1", "r2") == ["Fee is 10 EUR", "Rent is 900 EUR"]


CALLS: dict[str, Callable[[Corpus], object]] = {
    "add": lambda corpus: corpus.add([Record(id="r1", text="x")]),
    "delete": lambda corpus: corpus.delete("r1"),
    "retire": lambda corpus: corpus.retire("r1"),
    "purge": lambda corpus: corpus.purge("r1"),
    "holds": lambda corpus: corpus.holds("r1"),
    "get": lambda corpus: corpus.get("r1"),
    "count": lambda corpus: corpus.count(),
    "retrieve": lambda corpus: corpus.retrieve("x"),
    "run": lambda corpus: corpus.run((lexical & everyone) >> top(5), "x"),
    "plan": lambda corpus: corpus.plan((lexical & everyone) >> top(5)),
    "explain": lambda corpus: corpus.explain((lexical & everyone) >> top(5)),
    "history": lambda corpus: corpus.history("lead-1", "fee"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("principal", [None, "acme"])
def test_a_closed_corpus_says_so(call: str, principal: str | None) -> None:
    corpus = Corpus.in_memory(embedder=WordEmbedder())
    if principal is not None:
        corpus.add([Record(id="r1", text="x", tenant="acme"), Record(id="r1", text="x", tenant="beta")])
    corpus.close()
    corpus.close()
    with pytest.raises(CorpusClosed, match=r"Corpus\.open"):
        CALLS[call](corpus)


def test_closing_one_handle_twice_does_not_close_the_other(tmp_path: Path) -> None:
    one, other = (Corpus.open(tmp_path, embedder=WordEmbedder()) for _ in range(2))
    one.close()
    one.close()
    assert other.add([Record(id="r1", text="x")]).added == 1
    other.close()


def test_a_folder_that_is_a_file_is_named_in_the_error(tmp_path: Path) -> None:
    place = tmp_path / "taken"
    place.write_text("not a folder")
    with pytest.raises(StoreError, match="taken"):
        Corpus.open(place)


def test_a_folder_that_failed_to_open_can_be_opened_when_it_is_mended(tmp_path: Path) -> None:
    journal = tmp_path / "journal.sqlite"
    journal.write_bytes(b"not a database " * 100)
    with pytest.raises(StoreError, match="journal"):
        Corpus.open(tmp_path, embedder=WordEmbedder())
    journal.unlink()
    with Corpus.open(tmp_path, embedder=WordEmbedder()) as corpus:
        assert corpus.count() == 0


# Threads


def test_two_threads_that_add_lose_nothing_of_each_other(corpus: Corpus) -> None:
    start = threading.Barrier(2)

    def add(name: str) -> None:
        start.wait(timeout=10)
        for n in range(10):
            corpus.add([Record(id=f"{name}{n}", text=f"{name} {n}")])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, ("a", "b")))
    assert corpus.count() == 20
    assert len(corpus.get([f"{name}{n}" for name in "ab" for n in range(10)])) == 20


def test_twenty_threads_that_open_one_folder_find_one_corpus(tmp_path: Path) -> None:
    # CH-16
    start = threading.Barrier(20)

    def open_and_add(n: int) -> int:
        start.wait(timeout=10)
        with Corpus.open(tmp_path, embedder=WordEmbedder()) as corpus:
            return corpus.add([Record(id=f"r{n}", text=f"text {n}", tenant="acme")]).added

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(open_and_add, range(20))) == [1] * 20
    with Corpus.open(tmp_path, embedder=WordEmbedder()) as corpus:
        assert corpus.count() == 20


def test_a_reader_never_sees_half_a_batch() -> None:
    corpus = Corpus.in_memory(embedder=WordEmbedder())
    writing = threading.Event()
    writing.set()

    def write() -> None:
        for n in range(30):
            corpus.add([Record(id=f"a{n}", text="fee"), Record(id=f"b{n}", text="fee")])
        writing.clear()

    def read() -> set[int]:
        seen = set()
        while writing.is_set():
            seen.add(corpus.count() % 2)
            seen.add(len(corpus.retrieve("fee", top=None, tokens=None).hits) % 2)
        return seen | {corpus.count() % 2}

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        pool.submit(write).result(timeout=60)
        assert [reader.result(timeout=60) for reader in readers] == [{0}, {0}]
