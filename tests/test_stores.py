"""Every store against its law, against the in-memory reference, and Chroma's files in other hands."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.api import ClientAPI
from chromadb.config import Settings
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxarith import Record, StoreError, field
from ctxarith.plain import record_from
from ctxarith.ports import Row, RowKey, Store
from ctxarith.predicate import Predicate
from ctxarith.stores.chroma import ChromaStore
from ctxarith.stores.chroma_where import narrowing
from ctxarith.stores.collection import row_id
from ctxarith.stores.contract import CHECKS, Check
from ctxarith.stores.inmemory import InMemoryStore
from tests.strategies import predicates, records

MARCH = datetime(2026, 3, 1, tzinfo=UTC)


def row(record: Record, *vector: float, revision: int = 0) -> Row:
    return Row(record, np.asarray(vector or (1, 0), np.float32), revision)


def another_client(folder: Path) -> ClientAPI:
    """Of the same process, with the settings that Chroma wants to be equal."""
    return chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))


def keys(rows: Iterator[Row] | Sequence[Row]) -> list[RowKey]:
    return sorted(one.key for one in rows)


def ids(rows: Iterator[Row]) -> list[str]:
    return sorted(one.record.id for one in rows)


@pytest.mark.parametrize("kind", ["memory", "chroma"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_store_keeps_the_law(check: Check, kind: str, tmp_path: Path) -> None:
    makers: dict[str, Callable[[], Store]] = {
        "memory": InMemoryStore,
        "chroma": lambda: ChromaStore(tmp_path),
    }
    assert check(makers[kind]) is None  # type: ignore[func-returns-value]


class Merging(InMemoryStore):
    def write(self, rows: Sequence[Row]) -> None:
        known = {old.key: old.record.metadata for old in self.rows()}
        merged = [{**known.get(new.key, {}), **new.record.metadata} for new in rows]
        pairs = zip(rows, merged, strict=True)
        super().write([replace(new, record=replace(new.record, metadata=both)) for new, both in pairs])


class OnePage(InMemoryStore):
    def rows(self) -> Iterator[Row]:
        yield from list(super().rows())[:2_000]


class Seconds(InMemoryStore):
    def rows(self) -> Iterator[Row]:
        for one in super().rows():
            created = one.record.created_at
            short = created and created.replace(microsecond=0)
            yield replace(one, record=replace(one.record, created_at=short))


class Loose(InMemoryStore):
    def rows(self) -> Iterator[Row]:
        for one in super().rows():
            loose = {key: 1 if value is True else value for key, value in one.record.metadata.items()}
            yield replace(one, record=replace(one.record, metadata=loose))


class Wide(InMemoryStore):
    def select(self, predicate: Predicate) -> Iterator[Row]:
        return self.rows() if "tenant" in str(predicate) else super().select(predicate)


class OneTenant(InMemoryStore):
    def write(self, rows: Sequence[Row]) -> None:
        for new in rows:
            self.remove([old.key for old in self.rows() if old.record.id == new.record.id])
            super().write([new])


class Strict(InMemoryStore):
    def remove(self, keys: Sequence[RowKey]) -> None:
        known = {one.key for one in self.rows()}
        if not known.issuperset(keys):
            raise AssertionError("unknown key")
        super().remove(keys)


@pytest.mark.parametrize("broken", [Merging, OnePage, Seconds, Loose, Wide, OneTenant, Strict])
def test_the_law_finds_a_broken_store(broken: type[InMemoryStore]) -> None:
    def finds(check: Check) -> bool:
        try:
            check(broken)
        except AssertionError:
            return True
        return False

    assert any(finds(check) for check in CHECKS)


@pytest.fixture(scope="module")
def shared_chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaStore]:
    store = ChromaStore(tmp_path_factory.mktemp("chroma"))
    yield store
    store.close()


@settings(max_examples=50)
@given(
    made=records(tenants=("default", "acme"), versions=("1", "2"), facts=True, max_size=5),
    conditions=st.lists(predicates(), min_size=1, max_size=3),
)
def test_chroma_selects_what_the_reference_selects(
    shared_chroma: ChromaStore, made: list[Record], conditions: list[Predicate]
) -> None:
    reference, rows = InMemoryStore(), [row(record, revision=n % 2) for n, record in enumerate(made)]
    shared_chroma.remove(keys(shared_chroma.rows()))
    for store in (reference, shared_chroma):
        store.write(rows)
    assert keys(shared_chroma.rows()) == keys(rows)
    for condition in conditions:
        assert keys(shared_chroma.select(condition)) == keys(reference.select(condition))


SIMPLE: list[Any] = ["a", "1", "", "é", True, False, 1, 1.0, ["a", "b"], ["1"], [True], [1], MARCH, [MARCH]]
OPERANDS: list[Any] = ["a", "1", "", "é", "b", "2026-03-01T00:00:00Z", True, False]


def simple_conditions() -> st.SearchStrategy[Predicate]:
    key = field("kind")
    one = st.sampled_from(OPERANDS)
    leaf = one.map(key.contains) | one.map(lambda value: key == value) | st.lists(one).map(key.is_in)
    return st.recursive(leaf, lambda inner: st.builds(lambda a, b: a & b, inner, inner), max_leaves=3)


@given(condition=simple_conditions())
def test_a_condition_that_chroma_can_evaluate_is_evaluated_exactly(
    shared_chroma: ChromaStore, condition: Predicate
) -> None:
    made = [record_from({"id": f"r{n}", "text": "x", "metadata": {"kind": v}}) for n, v in enumerate(SIMPLE)]
    if keys(shared_chroma.rows()) != keys([row(record) for record in made]):
        shared_chroma.remove(keys(shared_chroma.rows()))
        shared_chroma.write([row(record) for record in made])
    if shared_chroma.can(condition):
        own = shared_chroma._opened().ids(narrowing(condition))
        assert sorted(own) == sorted(row_id(row(one).key) for one in made if condition.matches(one))


def test_chroma_can_compare_text_and_leaves_the_rest_to_the_check(shared_chroma: ChromaStore) -> None:
    kind = field("kind")
    assert shared_chroma.can(kind == "lease")
    assert shared_chroma.can(kind.is_in(["lease", "memo"]) & (field("tenant") == "acme"))
    assert not shared_chroma.can(kind != "lease")
    assert not shared_chroma.can(~(kind == "lease"))
    assert not shared_chroma.can(field("created_at") > MARCH)


def test_rows_are_there_after_reopening(tmp_path: Path) -> None:
    store = ChromaStore(tmp_path)
    store.write([row(Record(id="r1", text="Rent is 900 EUR"), 0.6, 0.8, revision=3)])
    store.close()
    (kept,) = ChromaStore(tmp_path).rows()
    assert (kept.record.text, kept.revision) == ("Rent is 900 EUR", 3)
    assert kept.vector.tolist() == pytest.approx([0.6, 0.8], abs=1e-7)


def test_plain_chroma_reads_and_filters_what_we_wrote(tmp_path: Path) -> None:
    lease: dict[str, Any] = {"id": "r1", "text": "Rent is 900 EUR", "created_at": MARCH}
    lease |= {"metadata": {"kind": "lease", "tags": ["a"]}}
    store = ChromaStore(tmp_path)
    memo = Record(id="r2", text="Keys", metadata={"kind": "memo"})
    store.write([row(record_from(lease), 1, 0), row(memo, 0, 1)])
    store.close()
    collection = chromadb.PersistentClient(str(tmp_path)).get_collection("ctxarith")
    found = collection.get(where={"kind": "lease"}, include=["documents", "metadatas", "embeddings"])
    assert found["ids"] == ["default|r1|1"]
    assert found["documents"] == ["Rent is 900 EUR"]
    assert np.asarray(found["embeddings"]).tolist() == [[1, 0]]
    (metadata,) = found["metadatas"] or []
    assert {key: value for key, value in metadata.items() if not key.startswith("ctx_")} == {
        "tenant": "default",
        "scope": "",
        "created_at": 1_772_323_200,
        "kind": "lease",
        "tags": ["a"],
    }


def test_plain_chroma_searches_our_collection_by_cosine(tmp_path: Path) -> None:
    store = ChromaStore(tmp_path)
    store.write([row(Record(id="near", text="x"), 0.8, 0.6), row(Record(id="far", text="x"), 0, 1)])
    store.close()
    collection = chromadb.PersistentClient(str(tmp_path)).get_collection("ctxarith")
    found = collection.query(query_embeddings=[1.0, 0.0], n_results=2)
    assert found["ids"] == [["default|near|1", "default|far|1"]]
    assert (found["distances"] or [])[0] == pytest.approx([0.2, 1.0], abs=1e-6)


def test_a_range_on_a_date_is_a_plain_number_for_other_tools(tmp_path: Path) -> None:
    store = ChromaStore(tmp_path)
    early = Record(id="early", text="x", created_at=datetime(2026, 2, 28, 23, 59, 59, 500_000, tzinfo=UTC))
    store.write([row(early), row(Record(id="late", text="x", created_at=MARCH))])
    store.close()
    collection = chromadb.PersistentClient(str(tmp_path)).get_collection("ctxarith")
    later: Any = {"created_at": {"$gte": MARCH.timestamp()}}
    assert collection.get(where=later)["ids"] == ["default|late|1"]


def test_rows_go_to_chroma_in_batches_that_it_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # CH-13
    sizes: list[int] = []
    add = chromadb.Collection.add

    def counted(self: chromadb.Collection, ids: list[str], **rest: Any) -> None:
        sizes.append(len(ids))
        add(self, ids=ids, **rest)

    monkeypatch.setattr(chromadb.api.client.Client, "get_max_batch_size", lambda self: 3)
    monkeypatch.setattr(chromadb.Collection, "add", counted)
    store = ChromaStore(tmp_path)
    store.write([row(Record(id=f"r{n}", text="x")) for n in range(7)])
    assert sizes == [3, 3, 1]
    assert ids(store.rows()) == ["r0", "r1", "r2", "r3", "r4", "r5", "r6"]
    store.remove([RowKey("default", f"r{n}", "1") for n in range(6)])
    assert ids(store.rows()) == ["r6"]


def test_a_folder_that_is_a_file_is_named_in_the_error(tmp_path: Path) -> None:
    place = tmp_path / "taken"
    place.write_text("not a folder")
    with pytest.raises(StoreError, match="taken"):
        ChromaStore(place)


def test_two_collections_of_one_folder_do_not_see_each_other(tmp_path: Path) -> None:
    one, other = ChromaStore(tmp_path), ChromaStore(tmp_path, collection="elsewhere")
    one.write([row(Record(id="r1", text="x"))])
    assert ids(other.rows()) == []
    assert ids(one.select(field("id") == "r1")) == ["r1"]


def test_scrubbing_leaves_no_trace_of_removed_rows_in_any_file(tmp_path: Path) -> None:
    store = ChromaStore(tmp_path)
    secret = Record(id="r1", text="ZEBRA-SECRET-42 " * 50, metadata={"note": "OKAPI-SECRET-43"})
    store.write([row(secret), row(Record(id="r2", text="kept"))])
    store.write([row(Record(id="r1", text="replaced"))])
    store.scrub()
    traces = [
        file.name
        for file in tmp_path.rglob("*")
        if file.is_file() and any(word in file.read_bytes() for word in (b"ZEBRA-SECRET", b"OKAPI-SECRET"))
    ]
    assert traces == []
    assert ids(store.rows()) == ["r1", "r2"]


def test_scrubbing_clears_the_unused_part_of_chromas_graph_file(tmp_path: Path) -> None:
    # PK-08: hnswlib writes it from memory that was never cleared, so it may hold pieces of any text.
    store = ChromaStore(tmp_path)
    store.write([row(Record(id="r1", text="x"))])
    (graph,) = tmp_path.rglob("data_level0.bin")
    with graph.open("r+b") as file:
        file.seek(-100, 2)
        file.write(b"ZEBRA-SECRET-42")
    store.scrub()
    assert b"ZEBRA" not in graph.read_bytes()


def unused(folder: Path) -> bytes:
    """What stands behind the last element of hnswlib's file; its header says where that is."""
    (header,) = folder.rglob("header.bin")
    _, offset, _, used, size = struct.unpack("<IQQQQ", header.read_bytes()[:36])
    return header.with_name("data_level0.bin").read_bytes()[offset + used * size :]


def test_the_unused_part_of_chromas_graph_file_is_always_blank(tmp_path: Path) -> None:
    # PK-08: Chroma writes the file anew when it is first used and whenever it is opened.
    held = []
    for n in range(2):
        store = ChromaStore(tmp_path)
        assert len(ids(store.rows())) == n
        held += [unused(tmp_path)] if n else []
        store.write([row(Record(id=f"r{n}", text="ZEBRA-SECRET-42 " * 100))])
        held.append(unused(tmp_path))
        store.close()
        held.append(unused(tmp_path))
    assert [part.strip(b"\0") for part in held] == [b""] * 5


def test_chromas_own_search_works_after_scrubbing(tmp_path: Path) -> None:
    # More rows than Chroma keeps in its queue before it writes its graph.
    store = ChromaStore(tmp_path)
    angles = np.linspace(0, 3, 1_100)
    made = [Record(id=f"r{n}", text="x") for n in range(1_100)]
    store.write([row(one, np.cos(at), np.sin(at)) for one, at in zip(made, angles, strict=True)])
    store.scrub()
    store.write([row(Record(id="late", text="x"), -1, 0)])
    store.close()
    collection = chromadb.PersistentClient(str(tmp_path)).get_collection("ctxarith")
    found = [collection.query(query_embeddings=at, n_results=1)["ids"] for at in ([1.0, 0.0], [-1.0, 0.0])]
    assert found == [[["default|r0|1"]], [["default|late|1"]]]


def test_rows_are_not_skipped_while_others_remove_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chromadb.api.client.Client, "get_max_batch_size", lambda self: 3)
    store = ChromaStore(tmp_path)
    store.write([row(Record(id=f"r{n}", text="x")) for n in range(9)])
    reading = store.rows()
    seen = [next(reading).record.id]
    store.remove([RowKey("default", name, "1") for name in (*seen, "r8")])
    seen += [one.record.id for one in reading]
    assert set(seen) >= {f"r{n}" for n in range(8)}
    assert len(seen) == len(set(seen))


def test_rows_that_chromas_graph_loses_are_still_read_with_their_vectors(tmp_path: Path) -> None:
    # CH-19: removals and new vectors make rows unreachable for Chroma's own search; we do not ask it.
    random = np.random.default_rng(7)
    units = random.standard_normal((5_200, 32)).astype(np.float32)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    made = [Record(id=f"r{n}", text="x") for n in range(4_000)]
    store = ChromaStore(tmp_path)
    store.write([Row(one, unit) for one, unit in zip(made, units, strict=False)])
    order = random.permutation(4_000)
    gone, moved, kept = order[:2_000], order[2_000:2_600], order[2_600:]
    store.remove([RowKey("default", f"r{n}", "1") for n in gone])
    wanted = {f"r{n}": units[n] for n in kept} | {f"r{n}": units[4_000 + n % 1_200] for n in moved}
    store.write([Row(made[n], wanted[f"r{n}"]) for n in moved])
    store.close()
    found = {one.record.id: one.vector for one in ChromaStore(tmp_path).rows()}
    assert sorted(found) == sorted(wanted)
    assert all(np.allclose(found[name], vector, atol=1e-6) for name, vector in wanted.items())


def test_a_row_gets_no_lists_of_a_collection_that_was_deleted(tmp_path: Path) -> None:
    # chroma-core/chroma#7594: its rows' numbers are used again, and their lists are still there.
    client = another_client(tmp_path)
    other = client.create_collection("other", embedding_function=None)
    lists: Any = {"audience": ["sales"], "tags": ["ghost"]}
    other.add(ids=["x"], embeddings=[1.0, 0.0], documents=["x"], metadatas=[lists])
    client.delete_collection("other")
    store = ChromaStore(tmp_path)
    plain = Record(id="r1", text="x")
    store.write([row(plain)])
    found = client.get_collection("ctxarith").get(include=["metadatas"])["metadatas"] or [{}]
    assert found[0]["tags"] == ["ghost"], "Chroma has mended it: the lists of flat.py can go"
    assert [one.record for one in store.rows()] == [plain]


def test_the_last_of_two_rows_with_one_key_counts(tmp_path: Path) -> None:
    # CH-12
    store = ChromaStore(tmp_path)
    store.write(
        [row(Record(id="r1", text="v1")), row(Record(id="r2", text="x")), row(Record(id="r1", text="v2"))]
    )
    assert sorted((one.record.id, one.record.text) for one in store.rows()) == [("r1", "v2"), ("r2", "x")]


def test_reading_a_folder_in_which_nothing_was_written_makes_no_file(tmp_path: Path) -> None:
    assert list(ChromaStore(tmp_path).rows()) == []
    assert list(tmp_path.iterdir()) == []


def test_our_collection_has_a_light_graph_and_one_that_exists_keeps_its_own(tmp_path: Path) -> None:
    client = another_client(tmp_path)
    client.create_collection("theirs", embedding_function=None)
    for name in ("theirs", "ctxarith"):
        ChromaStore(tmp_path, collection=name).write([row(Record(id="r1", text="x"))])
    graphs = [client.get_collection(name).configuration["hnsw"] or {} for name in ("theirs", "ctxarith")]
    assert [(graph["space"], graph["max_neighbors"]) for graph in graphs] == [("l2", 16), ("ip", 4)]


def test_a_row_of_another_tool_is_named(tmp_path: Path) -> None:
    made = another_client(tmp_path).create_collection("ctxarith", embedding_function=None)
    made.add(ids=["7b1f"], embeddings=[1.0, 0.0], documents=["x"])
    with pytest.raises(StoreError, match=r"7b1f.*not written by this library"):
        list(ChromaStore(tmp_path).rows())
