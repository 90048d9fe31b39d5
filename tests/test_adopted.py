"""Collections that others made: what is read, what is left out and why, and what a write changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core import MockEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.vector_stores.chroma import ChromaVectorStore

from ctxarith import ArgumentError, Record, RuleSlots, Slot, StoreError, field
from ctxarith.ingest.prepare import Preparation, content_hash
from ctxarith.instant import zone
from ctxarith.models.tokens import token_counter
from ctxarith.plain import record_from
from ctxarith.ports import Row, RowKey
from ctxarith.stores.adopted import Adopted
from ctxarith.stores.contract import CHECKS, Check
from ctxarith.stores.hnsw import stamp
from tests.servers import ChromaProcess

MARCH = datetime(2026, 3, 1, tzinfo=UTC)
PREPARATION = Preparation(count_tokens=token_counter(None))
MAPPED = {"tenant": "customer", "scope": "area", "audience": "groups"}
Mode = Literal["owned", "followed"]


def embedded(folder: Path) -> chromadb.api.ClientAPI:
    return chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))


@pytest.fixture(params=["embedded", "server"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An empty collection that somebody else made, in Chroma's default (Euclidean) space."""
    if request.param == "server":
        server: ChromaProcess = request.getfixturevalue("chroma_server")
        return server.collection()
    return embedded(tmp_path).create_collection("theirs", embedding_function=None)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One collection for many tests: Chroma gives rows the lists of a deleted collection (its issue 7594)."""
    return embedded(tmp_path_factory.mktemp("theirs")).create_collection("theirs", embedding_function=None)


@pytest.fixture
def shared(lasting: Any) -> Any:
    """The lasting collection, empty."""
    empty(lasting)
    return lasting


def empty(collection: Any) -> None:
    if there := collection.get(include=[])["ids"]:
        collection.delete(ids=there)


def add(collection: Any, rid: str, metadata: dict[str, Any] | None = None, text: str | None = "x") -> None:
    documents = None if text is None else [text]
    metadatas = None if metadata is None else [metadata]
    collection.add(ids=[rid], embeddings=[[3.0, 4.0]], documents=documents, metadatas=metadatas)


def adopt(
    collection: Any,
    fields: Any = None,
    *,
    mode: Mode = "owned",
    prepare: Callable[[Record], Record] | None = None,
) -> Adopted:
    return Adopted(collection, fields=fields, mode=mode, prepare=prepare or PREPARATION.prepare)


def read(store: Adopted) -> dict[str, Record]:
    return {row.record.id: row.record for row in store.rows()}


def everything(collection: Any) -> dict[str, Any]:
    found = collection.get(include=["documents", "metadatas", "embeddings"])
    columns = (found["documents"], found["metadatas"], np.asarray(found["embeddings"]).tolist())
    return dict(zip(found["ids"], zip(*columns, strict=True), strict=True))


def row(record: Record, *vector: float, revision: int = 0) -> Row:
    return Row(PREPARATION.prepare(record), np.asarray(vector or (1, 0), np.float32), revision)


@pytest.mark.filterwarnings("ignore:the rows are deleted")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("fields", [None, MAPPED], ids=["by name", "mapped"])
def test_an_owned_collection_keeps_the_law(check: Check, fields: Any, tmp_path: Path) -> None:
    made = embedded(tmp_path).create_collection("theirs", embedding_function=None)
    assert check(lambda: adopt(made, fields)) is None  # type: ignore[func-returns-value]


# What is read.


def test_their_rows_are_records_and_nothing_of_theirs_changes(theirs: Any) -> None:
    metadata: dict[str, Any] = {"customer": "acme", "area": "acme/ops/", "date": "2026-03-01", "pages": 3}
    metadata |= {"groups": ["ops", "sales"], "until": 1_798_761_600, "rev": 7, "kind": "contract"}
    add(theirs, "7b1f", metadata, "Rent is 900 EUR")
    before = everything(theirs)
    fields = {"tenant": "customer", "scope": "area", "created_at": "date", "audience": "groups"}
    fields |= {"valid_until": "until", "version": "rev", "source_type": "kind"}
    store = adopt(theirs, fields)
    (found,) = store.rows()
    wanted = record_from(
        {
            "id": "7b1f",
            "text": "Rent is 900 EUR",
            "version": 7,
            "tenant": "acme",
            "scope": "acme/ops",
            "created_at": MARCH,
            "valid_until": "2027-01-01",
            "source_type": "contract",
            "audience": ["ops", "sales"],
            "metadata": metadata,
        }
    )
    assert found.record == PREPARATION.prepare(wanted)
    assert found.revision == 0
    assert found.vector.tolist() == pytest.approx([0.6, 0.8], abs=1e-7)
    assert everything(theirs) == before
    assert (store.left_out, store.keys_left_out, store.count()) == ([], (), 1)


def test_what_ingest_adds_is_added(theirs: Any) -> None:
    add(theirs, "r1", {"lead_id": "GJ-1"}, "Fee quote: 45,000")
    rules = RuleSlots({"fee": r"quote: (?P<value>[0-9,]+)"})
    prepare = Preparation(count_tokens=len, slots=rules).prepare
    (found,) = adopt(theirs, prepare=prepare).rows()
    assert (found.record.token_count, found.record.entity_count) == (17, 1)
    assert found.record.slots == (Slot("GJ-1", "fee", "45,000"),)
    assert found.record.content_hash == content_hash(found.record)


def test_a_key_that_is_called_like_a_field_maps_by_itself_and_none_switches_it_off(theirs: Any) -> None:
    add(theirs, "r1", {"tenant": "acme", "scope": "a/b", "created_at": 1_772_323_200, "id": "doc-1"})
    one = read(adopt(theirs))["r1"]
    assert (one.tenant, one.scope, one.created_at, dict(one.metadata)) == ("acme", "a/b", MARCH, {})
    off = adopt(theirs, {"tenant": None, "scope": None, "created_at": None})
    one = read(off)["r1"]
    assert (one.tenant, one.scope, one.created_at, dict(one.metadata)) == ("default", "", None, {})
    assert off.keys_left_out == ("id",)


def test_a_function_reads_what_no_key_holds(theirs: Any) -> None:
    add(theirs, "r1", {"customer_id": 42, "org": "acme", "team": "ops"})
    add(theirs, "r2", {"org": "acme"})
    fields = {
        "tenant": lambda metadata: str(metadata["customer_id"]),
        "scope": lambda metadata: f"{metadata['org']}/{metadata['team']}",
    }
    store = adopt(theirs, fields, mode="followed")
    one = read(store)["r1"]
    assert (one.tenant, one.scope) == ("42", "acme/ops")
    ((rid, reason),) = store.left_out
    assert rid == "r2"
    assert "KeyError" in reason


@pytest.mark.parametrize("slots", [["fee", "batch"], {"fee": "fee", "batch": "batch"}])
def test_metadata_keys_become_slots(theirs: Any, slots: Any) -> None:
    add(theirs, "r1", {"lead": "GJ-1", "fee": 45_000, "batch": "March"})
    add(theirs, "r2", {"lead": "GJ-2", "batch": "May"})
    add(theirs, "r3", {"fee": 1})
    found = read(adopt(theirs, {"slots": slots, "subject": "lead"}))
    assert found["r1"].slots == (Slot("GJ-1", "fee", 45_000), Slot("GJ-1", "batch", "March"))
    assert found["r2"].slots == (Slot("GJ-2", "batch", "May"),)
    assert found["r3"].slots == ()


def test_slots_may_have_other_names_than_their_keys(theirs: Any) -> None:
    add(theirs, "r1", {"lead_id": 7, "quoted": 45_000})
    assert read(adopt(theirs, {"slots": {"fee": "quoted"}}))["r1"].slots == (Slot("7", "fee", 45_000),)


def test_types_and_lists_of_metadata_are_kept(theirs: Any) -> None:
    # CH-06, CH-08
    values: dict[str, Any] = {"a": True, "b": 1, "c": 1.0, "d": "1", "tags": ["hr", "policy"]}
    add(theirs, "r1", values)
    add(theirs, "r2")
    found = read(adopt(theirs))
    assert {key: (type(value), value) for key, value in found["r1"].metadata.items()} == {
        "a": (bool, True),
        "b": (int, 1),
        "c": (float, 1.0),
        "d": (str, "1"),
        "tags": (tuple, ("hr", "policy")),
    }
    assert dict(found["r2"].metadata) == {}


def test_two_of_their_rows_may_be_versions_of_one_record(theirs: Any) -> None:
    add(theirs, "row-1", {"doc": "fee", "rev": "1"}, "Fee is 10 EUR")
    add(theirs, "row-2", {"doc": "fee", "rev": "2"}, "Fee is 12 EUR")
    add(theirs, "row-3", {"doc": "fee", "rev": "2"}, "Fee is 13 EUR")
    store = adopt(theirs, {"id": "doc", "version": "rev"})
    assert sorted(one.record.key for one in store.rows()) == [
        ("default", "fee", "1"),
        ("default", "fee", "2"),
    ]
    ((rid, reason),) = store.left_out
    assert (rid, "row-2" in reason) == ("row-3", True)


# What is left out.


@pytest.mark.parametrize(
    ("metadata", "word"),
    [
        (None, "tenant"),
        ({"other": "x"}, "tenant"),
        ({"customer": ""}, "tenant"),
        ({"customer": " \t"}, "tenant"),
        ({"customer": 42}, "tenant"),
        ({"customer": ["acme"]}, "tenant"),
        ({"customer": "a\x01"}, "tenant"),
        ({"customer": "acme", "area": "a//b"}, "scope"),
        ({"customer": "acme", "area": ".."}, "scope"),
        ({"customer": "acme", "area": 7}, "scope"),
        ({"customer": "acme", "date": "yesterday"}, "created_at"),
        ({"customer": "acme", "date": "2026-03-01T09:00:00"}, "created_at"),
        ({"customer": "acme", "date": True}, "created_at"),
        ({"customer": "acme", "date": 1e300}, "created_at"),
        ({"customer": "acme", "date": ["2026-03-01"]}, "created_at"),
        ({"customer": "acme", "date": ""}, "created_at"),
        ({"customer": "acme", "valid_from": 10, "valid_until": 5}, "valid_until"),
        ({"customer": "acme", "groups": 7}, "audience"),
        ({"customer": "acme", "groups": ""}, "audience"),
        ({"customer": "acme", "version": 1.5}, "version"),
        ({"customer": "acme", "jurisdiction": 3}, "jurisdiction"),
        ({"customer": "acme", "supersedes": "odd"}, "supersedes"),
        ({"customer": "acme", "lead_id": "x", "fee": [1, 2]}, "slots"),
        ({"customer": "acme", "lead_id": ["x"], "fee": 1}, "slots"),
    ],
)
def test_a_row_that_cannot_be_read_is_left_out_with_the_reason(
    shared: Any, metadata: dict[str, Any] | None, word: str
) -> None:
    add(shared, "odd", metadata)
    add(shared, "good", {"customer": "acme"})
    fields = {
        "tenant": "customer",
        "scope": "area",
        "created_at": "date",
        "audience": "groups",
        "slots": ["fee"],
    }
    store = adopt(shared, fields)
    assert list(read(store)) == ["good"]
    ((rid, reason),) = store.left_out
    assert rid == "odd"
    assert word in reason


def test_a_row_without_a_document_is_left_out(theirs: Any) -> None:
    add(theirs, "r1", text=None)
    add(theirs, "r2", text="")
    store = adopt(theirs)
    assert list(read(store)) == ["r2"]
    assert [rid for rid, _ in store.left_out] == ["r1"]


def test_a_row_without_a_tenant_is_nobodys_as_soon_as_another_names_one(shared: Any) -> None:
    add(shared, "r1", {"kind": "lease"})
    assert read(adopt(shared))["r1"].tenant == "default"
    add(shared, "r2", {"tenant": "acme"})
    store = adopt(shared)
    assert {rid: one.tenant for rid, one in read(store).items()} == {"r2": "acme"}
    assert [rid for rid, _ in store.left_out] == ["r1"]


def test_a_time_without_an_offset_is_read_in_the_zone_that_is_given(shared: Any) -> None:
    add(shared, "r1", {"created_at": "2026-03-01T09:00:00"})
    assert read(adopt(shared)) == {}
    prepare = Preparation(count_tokens=len, zone=zone("Asia/Tokyo")).prepare
    assert read(adopt(shared, prepare=prepare))["r1"].created_at == MARCH


def test_keys_that_no_record_can_hold_stay_out_and_are_named(shared: Any) -> None:
    add(shared, "r1", {"kind": "lease", "ctx_x": 1, "document": "y", "content_hash": "z", "a\x01": 5})
    store = adopt(shared)
    assert dict(read(store)["r1"].metadata) == {"kind": "lease"}
    assert store.keys_left_out == ("a\x01", "content_hash", "ctx_x", "document")


def test_a_row_whose_vector_chroma_has_lost_is_left_out_and_the_others_are_read(tmp_path: Path) -> None:
    # CH-19: Chroma still counts and gets such a row, and fails on every page with its vector.
    client = embedded(tmp_path)
    made = client.create_collection("theirs", embedding_function=None)
    made.add(ids=[f"r{n}" for n in range(9)], embeddings=np.eye(9, dtype=np.float32), documents=["x"] * 9)
    client.close()  # type: ignore[attr-defined, no-untyped-call, unused-ignore]
    with sqlite3.connect(tmp_path / "chroma.sqlite3") as database:
        (segment,) = database.execute("SELECT id FROM segments WHERE scope = 'METADATA'").fetchone()
        added = "INSERT INTO embeddings (segment_id, embedding_id, seq_id) VALUES (?, 'ghost', 9)"
        number = database.execute(added, (segment,)).lastrowid
        text = "INSERT INTO embedding_metadata (id, key, string_value) VALUES (?, 'chroma:document', 'boo')"
        database.execute(text, (number,))
    database.close()
    store = adopt(embedded(tmp_path).get_collection("theirs", embedding_function=None))
    assert sorted(read(store)) == [f"r{n}" for n in range(9)]
    ((rid, reason),) = store.left_out
    assert (rid, "vector" in reason) == ("ghost", True)


class TwoLengths:
    """A collection as no Chroma makes it: with vectors of two lengths."""

    def get(self, ids: list[str] | None = None, include: Any = (), **rest: Any) -> dict[str, Any]:
        names = [name for name in ("r1", "r2") if ids is None or name in ids]
        vectors = [[1.0] * int(name[1]) for name in names]
        found: dict[str, Any] = {"ids": names, "documents": names, "metadatas": None}
        return found | {"embeddings": np.array(vectors)} if "embeddings" in include else found

    def add(self, **rest: Any) -> None: ...

    def upsert(self, **rest: Any) -> None: ...


def test_vectors_of_two_lengths_are_refused() -> None:
    # CH-14
    with pytest.raises(StoreError, match="of 1 and of 2"):
        read(adopt(TwoLengths()))


@pytest.mark.parametrize(
    "fields",
    [
        {"tennant": "customer"},
        {"text": "body"},
        {"metadata": "x"},
        {"token_count": "n"},
        {"tenant": 7},
        {"tenant": ""},
        {"id": str},
        {"slots": "fee"},
        {"slots": ["fee", 7]},
        {"slots": {"fee": None}},
        {"subject": ["a"]},
        ["tenant"],
    ],
)
def test_a_mapping_that_means_nothing_is_refused(shared: Any, fields: Any) -> None:
    with pytest.raises(ArgumentError, match="fields"):
        adopt(shared, fields)


@pytest.mark.parametrize("name", ["tenant", "scope", "audience"])
def test_who_may_see_a_row_of_an_owned_collection_is_said_by_a_key(shared: Any, name: str) -> None:
    with pytest.raises(ArgumentError, match=f"{name}.*must carry it"):
        adopt(shared, {name: str})
    adopt(shared, {name: str}, mode="followed")


def test_an_unknown_mode_is_refused(shared: Any) -> None:
    with pytest.raises(ArgumentError, match="mode"):
        adopt(shared, mode="borrowed")  # type: ignore[arg-type]


# LangChain and LlamaIndex.


def test_a_collection_of_langchain_is_read_and_then_owned(tmp_path: Path) -> None:
    embedding = DeterministicFakeEmbedding(size=8)
    store = Chroma("langchain-docs", embedding, client=embedded(tmp_path))
    pages = [Document("Rent is 900 EUR", metadata={"source": "lease.pdf", "page": 1, "author": None})]
    pages.append(Document("Keys are blue"))
    store.add_documents(pages, ids=["a", "b"])
    adopted = adopt(store._collection, {"source_id": "source"})
    found = read(adopted)
    assert (found["a"].text, found["a"].source_id) == ("Rent is 900 EUR", "lease.pdf")
    assert dict(found["a"].metadata) == {"source": "lease.pdf", "page": 1}
    assert found["b"].source_id == "b"
    vector = np.asarray(embedding.embed_documents(["Keys are blue"])[0])
    kept = next(one.vector for one in adopted.rows() if one.record.id == "b")
    assert kept.tolist() == pytest.approx((vector / np.linalg.norm(vector)).tolist(), abs=1e-6)
    adopted.write([row(Record(id="b", text="Keys are red"), *kept.tolist())])
    assert [one.page_content for one in store.get_by_ids(["b"])] == ["Keys are red"]


def node(rid: str, text: str, document: str | None, **metadata: Any) -> TextNode:
    made = TextNode(
        id_=rid, text=text, metadata=metadata, embedding=MockEmbedding(8).get_text_embedding(text)
    )
    if document is not None:
        made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=document)
    return made


def test_a_collection_of_llama_index_is_read(theirs: Any) -> None:
    nodes = [
        node("n1", "Rent is 900 EUR", "lease", customer="acme", date="2026-03-01", kind=None, seen=None),
        node("n2", "Keys are blue", None, customer="acme", date=None),
        node("n3", "Nobody's", "lease", customer=None),
        node("n4", "For whom?", "lease", customer="acme", audience=None),
    ]
    ChromaVectorStore.from_collection(theirs).add([*nodes])
    store = adopt(theirs, {"tenant": "customer", "created_at": "date", "source_type": "kind"})
    found = read(store)
    assert (found["n1"].text, found["n1"].source_id, found["n1"].created_at) == (
        "Rent is 900 EUR",
        "lease",
        MARCH,
    )
    assert found["n1"].source_type is None
    assert not any(key.startswith("_node") for key in found["n1"].metadata)
    assert found["n1"].metadata["ref_doc_id"] == "lease"
    assert (found["n2"].source_id, found["n2"].created_at) == ("n2", None)
    assert [rid for rid, _ in store.left_out] == ["n3", "n4"]
    assert store.keys_left_out == ()


# What is written.


def test_a_row_of_theirs_is_replaced_under_its_own_id_and_new_ones_get_ours(theirs: Any) -> None:
    # CH-11
    add(theirs, "7b1f", {"customer": "acme", "kind": "lease", "old": 1}, "Rent is 900 EUR")
    add(theirs, "other", {"customer": "acme"})
    store = adopt(theirs, {"tenant": "customer"})
    (old,) = store.select(field("id") == "7b1f")
    new = Record(id="7b1f", text="Rent is 950 EUR", tenant="acme", slots=(Slot("x", "rent", 950),))
    kept = Row(old.record, old.vector, 1)
    store.write([kept, row(new), row(Record(id="n1", text="new", tenant="acme"))])
    assert sorted(everything(theirs)) == ["7b1f", "acme|7b1f|1|1", "acme|n1|1", "other"]
    again = adopt(theirs, {"tenant": "customer"})
    found = {one.key: one.record for one in again.rows()}
    assert again.left_out == []
    assert found[RowKey("acme", "7b1f", "1")] == PREPARATION.prepare(new)
    assert found[RowKey("acme", "7b1f", "1", 1)] == old.record
    again.remove([RowKey("acme", "7b1f", "1"), RowKey("acme", "nobody", "1"), RowKey("acme", "other", "1")])
    assert sorted(everything(theirs)) == ["acme|7b1f|1|1", "acme|n1|1"]


def test_the_same_id_of_another_tenant_or_version_is_another_row(theirs: Any) -> None:
    add(theirs, "r1", {"customer": "acme"}, "theirs")
    store = adopt(theirs, {"tenant": "customer"})
    store.write(
        [
            row(Record(id="r1", text="ours", tenant="beta")),
            row(Record(id="r1", text="v2", tenant="acme", version="2")),
        ]
    )
    store.remove([RowKey("gamma", "r1", "1")])
    assert sorted((one.record.tenant, one.record.version, one.record.text) for one in store.rows()) == [
        ("acme", "1", "theirs"),
        ("acme", "2", "v2"),
        ("beta", "1", "ours"),
    ]


def test_a_row_with_a_mapped_id_is_found_to_be_replaced(theirs: Any) -> None:
    add(theirs, "row-1", {"doc": "fee"}, "Fee is 10 EUR")
    store = adopt(theirs, {"id": "doc"})
    store.write([row(Record(id="fee", text="Fee is 12 EUR"))])
    store.write([row(Record(id="fee", text="Fee is 13 EUR"))])
    add(theirs, "row-2", {"doc": "rent"})
    store.write([row(Record(id="rent", text="Rent is 900 EUR"), revision=1)])
    for rid, revisions in (("fee", [0]), ("rent", [0, 1]), ("row-1", [])):
        found = store.select((field("tenant") == "default") & (field("id") == rid))
        assert sorted(one.revision for one in found) == revisions
    theirs.delete(ids=["row-2", "default|rent|1|1"])
    assert [text for text, _, _ in everything(theirs).values()] == ["Fee is 13 EUR"]
    store.remove([RowKey("default", "fee", "1")])
    assert everything(theirs) == {}


def test_a_row_of_theirs_is_never_overwritten_by_accident(theirs: Any) -> None:
    add(theirs, "default|r1|1", text="theirs")
    store = adopt(theirs)
    store.write([row(Record(id="r1", text="ours"))])
    assert theirs.get(ids=["default|r1|1"])["documents"] == ["theirs"]
    assert sorted(theirs.get()["documents"]) == ["ours", "theirs"]
    store.remove([RowKey("default", "r1", "1")])
    assert theirs.get()["documents"] == ["theirs"]


def test_rows_written_to_a_collection_without_tenants_leave_the_rest_visible(theirs: Any) -> None:
    add(theirs, "r1")
    adopt(theirs).write([row(Record(id="r2", text="x"))])
    assert sorted(read(adopt(theirs))) == ["r1", "r2"]


def test_a_followed_collection_is_only_read(theirs: Any) -> None:
    add(theirs, "r1", {"kind": "lease"})
    before = everything(theirs)
    store = adopt(theirs, mode="followed")
    with pytest.raises(StoreError, match=r"its own library.*sync\(\)"):
        store.write([row(Record(id="r1", text="x"))])
    with pytest.raises(StoreError, match=r"its own library.*sync\(\)"):
        store.remove([RowKey("default", "r1", "1")])
    assert everything(theirs) == before
    add(theirs, "r2")
    theirs.delete(ids=["r1"])
    assert list(read(store)) == ["r2"]


def test_a_record_and_their_key_may_not_name_two_tenants(shared: Any) -> None:
    store = adopt(shared, {"tenant": "customer"})
    with pytest.raises(StoreError, match="'customer' names another tenant"):
        store.write(
            [row(record_from({"id": "r1", "text": "x", "tenant": "beta", "metadata": {"customer": "acme"}}))]
        )
    assert read(store) == {}


def test_a_row_that_only_looks_like_ours_gets_no_other_tenant(shared: Any) -> None:
    false = {"ctx_record": '{"id": "r1", "revision": 0}', "tenant": "beta", "scope": ""}
    add(shared, "r1", {"customer": "acme", **false})
    add(shared, "r2", {"customer": "acme", "ctx_record": "x"})
    owned, followed = (
        adopt(shared, {"tenant": "customer"}),
        adopt(shared, {"tenant": "customer"}, mode="followed"),
    )
    assert read(owned) == {}
    assert [rid for rid, _ in owned.left_out] == ["r1", "r2"]
    assert {one.tenant for one in read(followed).values()} == {"acme"}


def test_scrubbing_says_what_it_cannot_do(shared: Any) -> None:
    with pytest.warns(UserWarning, match="chroma vacuum"):
        adopt(shared).scrub()


def test_a_folder_is_not_written_by_reading_it(tmp_path: Path) -> None:
    made = embedded(tmp_path).create_collection("theirs", embedding_function=None)
    add(made, "r1", {"kind": "lease"})
    stamps = stamp(tmp_path / "chroma.sqlite3")
    assert list(read(adopt(made))) == ["r1"]
    assert stamp(tmp_path / "chroma.sqlite3") == stamps


# Hostile rows.

KEYS = (
    *(
        "customer",
        "area",
        "groups",
        "tenant",
        "scope",
        "audience",
        "id",
        "version",
        "created_at",
        "valid_until",
    ),
    *(
        "source_id",
        "ref_doc_id",
        "doc_id",
        "slots",
        "lead_id",
        "fee",
        "metadata",
        "text",
        "document",
        "distance",
    ),
    *("ctx_record", "ctx_beside", "_node_content", "_node_type"),
    *("supersedes", "token_count", "embargo_until"),
)
VALUES: tuple[Any, ...] = (
    *(
        "",
        " ",
        "acme",
        "beta",
        "acme/ops",
        "a//b",
        "..",
        "None",
        "{}",
        "[1]",
        '["customer"]',
        "2026-03-01",
        "nan",
    ),
    *(0, 1, -1, 2**62, 0.5, 1e300, True, False, "2026-03-01T00:00:00", '{"created_at": null}', "x" * 600),
)
LISTS: tuple[Any, ...] = (["acme"], ["acme", "beta"], [""], [1, 2], [0.5], [True])
# Rows that pretend to be ours, most of them nearly well.
FALSE = st.fixed_dictionaries(
    {
        "ctx_record": st.sampled_from(
            (
                '{"id": "r0"}',
                '{"id": "r1", "revision": 1}',
                '{"id": "r1", "lists": ["audience", "groups"]}',
                '{"id": "r1", "slots": [7]}',
                '{"id": ["r1"]}',
                '["r1"]',
            )
        ),
        "tenant": st.just("beta"),
    },
    optional={
        "customer": st.sampled_from(("acme", "beta")),
        "area": st.sampled_from(("", "acme")),
        "scope": st.sampled_from(("", "acme")),
        "groups": st.sampled_from((["ops"], ["sales"])),
        "audience": st.just(["ops"]),
        "ctx_beside": st.sampled_from(('["customer"]', '["customer", "area", "groups"]', '["tenant"]', "7")),
    },
)


@settings(max_examples=60)
@given(
    metadatas=st.lists(
        st.dictionaries(st.sampled_from(KEYS), st.sampled_from((*VALUES, *LISTS)), min_size=1, max_size=6)
        | FALSE,
        min_size=1,
        max_size=4,
    ),
    mode=st.sampled_from(("owned", "followed")),
)
def test_hostile_metadata_never_crashes_and_never_widens_who_may_see_a_row(
    lasting: Any, metadatas: list[dict[str, Any]], mode: Mode
) -> None:
    empty(lasting)
    vectors = np.asarray([(1, 0), (0, 1), (-1, 0), (0, -1)], np.float32)[: len(metadatas)]
    rids = [f"r{n}" for n in range(len(metadatas))]
    lasting.add(ids=rids, embeddings=vectors, documents=rids, metadatas=metadatas)
    names = {vector.tobytes(): rid for rid, vector in zip(rids, vectors + 0.0, strict=True)}
    store = adopt(lasting, {**MAPPED, "slots": ["fee"]}, mode=mode)
    rows = list(store.rows())
    assert len(rows) + len(store.left_out) == len(metadatas)
    for one in rows:
        said = metadatas[int(names[one.vector.tobytes()][1:])]
        assert one.record.tenant == said["customer"]
        assert one.record.scope == said.get("area", "")
        named = said.get("groups", [])
        assert list(one.record.audience) == ([named] if isinstance(named, str) else named)
