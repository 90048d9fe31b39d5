"""A Chroma server as the store: the law over HTTP, and a server that is down, killed or too small a door."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import chromadb
import numpy as np
import pytest

from ctxarith import ArgumentError, Corpus, Record, StoreError, field
from ctxarith.ports import Row, RowKey
from ctxarith.stores.chroma import ChromaStore
from ctxarith.stores.chroma_server import ChromaServer
from ctxarith.stores.contract import CHECKS, Check
from tests.fakes import WordEmbedder
from tests.servers import ChromaProcess


def row(record: Record, *vector: float, revision: int = 0) -> Row:
    return Row(record, np.asarray(vector or (1, 0), np.float32), revision)


def ids(rows: Iterator[Row]) -> list[str]:
    return sorted(one.record.id for one in rows)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[ChromaProcess]:
    """A server of one test, to be killed."""
    server = ChromaProcess(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.mark.filterwarnings("ignore:the rows are deleted")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_server_keeps_the_law(check: Check, chroma_server: ChromaProcess) -> None:
    # CH-06, CH-08, CH-11: types and lists stay apart over HTTP too, and a write replaces
    client = chroma_server.client()
    assert check(lambda: ChromaServer(client, chroma_server.new_name())) is None  # type: ignore[func-returns-value]


def test_the_rows_are_there_for_another_client(chroma_server: ChromaProcess) -> None:
    name = chroma_server.new_name()
    store = ChromaServer(chroma_server.client(), name)
    store.write([row(Record(id="r1", text="Rent is 900 EUR", metadata={"kind": "lease"}), 0.6, 0.8)])
    found = chroma_server.client().get_collection(name).query(query_embeddings=[0.6, 0.8], n_results=1)
    assert found["documents"] == [["Rent is 900 EUR"]]
    assert (found["distances"] or [])[0] == pytest.approx([0], abs=1e-6)


def test_a_collection_that_exists_keeps_its_settings(chroma_server: ChromaProcess) -> None:
    made = chroma_server.collection()
    ChromaServer(chroma_server.client(), made.name).write([row(Record(id="r1", text="x"))])
    hnsw = chroma_server.client().get_collection(made.name).configuration["hnsw"] or {}
    assert (hnsw["space"], hnsw["max_neighbors"]) == ("l2", 16)


def test_more_than_a_request_holds_is_sent_in_several(chroma_server: ChromaProcess) -> None:
    # CH-13: a server refuses requests of more than 40 MB, whatever their number of rows
    store = ChromaServer(chroma_server.client(), chroma_server.new_name())
    vectors = np.eye(1_000, 9_000, dtype=np.float32)
    store.write([Row(Record(id=f"r{n}", text="x"), vector) for n, vector in enumerate(vectors)])
    assert store.count() == 1_000


def test_scrubbing_a_server_says_what_it_cannot_do(chroma_server: ChromaProcess) -> None:
    store = ChromaServer(chroma_server.client(), chroma_server.new_name())
    with pytest.warns(UserWarning, match="chroma vacuum"):
        store.scrub()


CALLS: list[Callable[[ChromaServer], object]] = [
    lambda store: store.write([row(Record(id="r2", text="x"))]),
    lambda store: store.remove([RowKey("default", "r1", "1")]),
    lambda store: list(store.rows()),
    lambda store: list(store.select(field("id") == "r1")),
    lambda store: store.count(),
]


def test_a_server_that_is_down_is_a_store_error_and_a_later_call_works(mortal: ChromaProcess) -> None:
    stores = known, _ = ChromaServer(mortal.client()), ChromaServer(mortal.client())
    known.write([row(Record(id="r1", text="x"))])
    mortal.kill()
    for store in stores:
        for call in CALLS:
            with pytest.raises(StoreError, match="see that it runs"):
                call(store)
    mortal.start()
    assert [ids(store.rows()) for store in stores] == [["r1"], ["r1"]]
    for store in stores:
        for call in CALLS:
            call(store)
        assert ids(store.rows()) == ["r2"]


def test_a_server_that_is_killed_in_a_write_takes_the_rest_later(mortal: ChromaProcess) -> None:
    store = ChromaServer(mortal.client())
    rows = [row(Record(id=f"r{n:05}", text="x" * 500)) for n in range(20_000)]
    timer = threading.Timer(0.3, mortal.kill)
    timer.start()
    with pytest.raises(StoreError, match="see that it runs"):
        store.write(rows)
    timer.join()
    mortal.start()
    assert store.count() < len(rows)
    store.write(rows[:3_000])
    assert set(ids(store.rows())) >= {one.record.id for one in rows[:3_000]}


def test_a_corpus_over_a_server_takes_a_killed_write_back(mortal: ChromaProcess, tmp_path: Path) -> None:
    corpus = Corpus.open(tmp_path / "corpus", store=ChromaServer(mortal.client()), embedder=WordEmbedder())
    corpus.add([Record(id="r1", text="pump")])
    mortal.kill()
    with pytest.raises(StoreError, match="see that it runs"):
        corpus.add([Record(id="r2", text="valve")])
    assert [hit.record.id for hit in corpus.retrieve("valve pump").hits] == ["r1"]
    mortal.start()
    corpus.add([Record(id="r3", text="valve")])
    assert sorted(hit.record.id for hit in corpus.retrieve("valve pump").hits) == ["r1", "r3"]
    assert ids(ChromaServer(mortal.client()).rows()) == ["r1", "r3"]
    corpus.close()


def test_stores_that_open_one_collection_at_once_share_it(chroma_server: ChromaProcess) -> None:
    # CH-16
    name, gate = chroma_server.new_name(), threading.Barrier(8)
    failed: list[Exception] = []

    def write(n: int) -> None:
        store = ChromaServer(chroma_server.client(), name)
        gate.wait()
        try:
            store.write([row(Record(id=f"r{n}", text="x"))])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert ChromaServer(chroma_server.client(), name).count() == 8


@pytest.mark.parametrize("name", ["", "ab", "a" * 513, "-abc", "abc.", "a b c", "東京支店", "abc\n", None, 7])
def test_a_name_that_chroma_refuses_is_refused_first(name: str, tmp_path: Path) -> None:
    # CH-17
    with pytest.raises(ArgumentError, match="3 to 512"):
        ChromaServer(chromadb.EphemeralClient(), name)
    with pytest.raises(ArgumentError, match="3 to 512"):
        ChromaStore(tmp_path, collection=name)


@pytest.mark.parametrize("name", ["abc", "A.b_c-9", "a" * 512])
def test_a_name_that_chroma_takes_is_taken(name: str, chroma_server: ChromaProcess) -> None:
    # CH-17
    store = ChromaServer(chroma_server.client(), name)
    store.write([row(Record(id="r1", text="x"))])
    assert ids(store.rows()) == ["r1"]
