"""A corpus over a collection that others made: questions, writes, and what others write meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import chromadb
import pytest
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.documents import Document
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import TextNode
from llama_index.vector_stores.chroma import ChromaVectorStore

from ctxarith import ArgumentError, Corpus, Principal, Record, StoreError, Synced
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.servers import ChromaProcess

WORDS = WordEmbedder()
FEES = {
    "a": ("The annual fee is 12 EUR", {"customer": "acme", "area": "sales/eu", "day": "2026-03-01"}),
    "b": ("The annual fee is 10 EUR", {"customer": "acme", "area": "sales/us", "day": "2026-01-01"}),
    "c": ("The annual fee is 99 EUR", {"customer": "beta", "area": "sales/eu", "day": "2026-03-01"}),
    "d": ("The annual fee is a secret", {"area": "sales/eu"}),
}
FIELDS = {"tenant": "customer", "scope": "area", "created_at": "day"}
ACME = Principal("acme")

Theirs = Callable[[], Any]


@pytest.fixture(params=["embedded", "server"])
def collection(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Four rows that a hand wrote, with the vectors of the word embedder."""
    if request.param == "server":
        server: ChromaProcess = request.getfixturevalue("chroma_server")
        made = server.collection()
    else:
        made = client_in(tmp_path / "theirs").create_collection("theirs", embedding_function=None)
    put(made, **FEES)
    return made


def client_in(folder: Path) -> Any:
    return chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))


def put(collection: Any, **rows: tuple[str, dict[str, Any]]) -> None:
    texts = [text for text, _ in rows.values()]
    collection.upsert(
        ids=list(rows),
        documents=texts,
        embeddings=WORDS.embed_documents(texts),
        metadatas=[metadata for _, metadata in rows.values()],
    )


def adopt(collection: Any, **options: Any) -> Corpus:
    given = {"fields": FIELDS, "embedder": WordEmbedder(), "clock": lambda: NOW, **options}
    return Corpus.adopt(collection, **given)


def found(corpus: Corpus, text: str = "annual fee", **arguments: Any) -> list[str]:
    arguments = {"principal": ACME, "top": None, **arguments}
    return sorted(hit.id for hit in corpus.retrieve(text, **arguments).hits)


def test_their_rows_are_asked_by_tenant_scope_and_date_and_none_is_embedded_again(collection: Any) -> None:
    embedder = WordEmbedder()
    corpus = adopt(collection, embedder=embedder)
    assert found(corpus) == ["a", "b"]
    assert found(corpus, scope="sales/eu") == ["a"]
    assert found(corpus, where={"created_at": {"$lt": "2026-02-01"}}) == ["b"]
    assert found(corpus, where={"area": "sales/us"}) == ["b"]
    assert found(corpus, principal=Principal("beta")) == ["c"]
    assert embedder.embedded == []


def test_a_row_of_no_tenant_is_seen_by_nobody_and_named(collection: Any) -> None:
    corpus = adopt(collection)
    (left_out,) = corpus.left_out
    assert left_out[0] == "d"
    assert "tenant" in left_out[1]
    for tenant in ("acme", "beta", "default"):
        assert "d" not in found(corpus, principal=Principal(tenant))


def test_rows_from_before_there_were_tenants_are_counted_and_come_back_once_tagged(
    tmp_path: Path,
) -> None:  # TN-06
    theirs = client_in(tmp_path).create_collection("theirs", embedding_function=None)
    put(theirs, **{f"old{n}": (f"annual fee {n}", {"kind": "note"}) for n in range(3)})
    put(theirs, new=("annual fee 12", {"customer": "acme"}))
    corpus = adopt(theirs, mode="followed", fields={"tenant": "customer"})
    assert found(corpus) == ["new"]
    assert found(corpus, principal=Principal("default")) == []
    assert [rid for rid, _ in corpus.left_out] == ["old0", "old1", "old2"]
    assert all("names no tenant" in reason for _, reason in corpus.left_out)
    theirs.update(ids=["old0", "old1", "old2"], metadatas=[{"customer": "acme"}] * 3)
    corpus.sync()
    assert (found(corpus), corpus.left_out) == (["new", "old0", "old1", "old2"], ())


def test_an_owned_collection_is_written_by_us_and_read_by_other_tools(collection: Any) -> None:
    corpus = adopt(collection)
    corpus.add([{"id": "a", "text": "The annual fee is 14 EUR", "tenant": "acme", "scope": "sales/eu"}])
    corpus.add([{"id": "e", "text": "The annual fee is none", "tenant": "acme"}])
    corpus.delete("b", tenant="acme")
    assert found(corpus) == ["a", "e"]
    documents = dict(zip(*map(collection.get().get, ("ids", "documents")), strict=True))
    assert documents["a"] == "The annual fee is 14 EUR"
    assert "b" not in documents
    assert "The annual fee is none" in documents.values()
    again = adopt(collection)
    assert found(again) == ["a", "e"]


def test_a_followed_collection_refuses_our_writes_and_says_what_to_do(collection: Any) -> None:
    corpus = adopt(collection, mode="followed")
    for write in (
        lambda: corpus.add([Record(id="e", text="x", tenant="acme")]),
        lambda: corpus.delete("a", tenant="acme"),
        lambda: corpus.retire("a", tenant="acme"),
        lambda: corpus.purge("a", tenant="acme"),
    ):
        with pytest.raises(StoreError, match=r"sync\(\)"):
            write()
    assert found(corpus) == ["a", "b"]


def test_what_others_write_is_taken_over_by_a_look_and_told_in_the_feed(collection: Any) -> None:
    corpus = adopt(collection, mode="followed")
    mark = corpus.watermark("acme")
    collection.delete(ids=["b"])
    put(collection, a=("The annual fee is 15 EUR", FEES["a"][1]))
    put(collection, e=("The annual fee was 8 EUR", {"customer": "acme", "area": "", "day": "2025-01-01"}))
    assert found(corpus) == ["a", "b"]
    assert corpus.sync() == Synced(added=1, changed=1, removed=1)
    assert found(corpus) == ["a", "e"]
    assert corpus.retrieve("annual fee", principal=ACME, top=1).hits[0].record.text.endswith("15 EUR")
    told = {change.id: change.kind for change in corpus.changes(mark, principal=ACME)}
    assert told == {"a": "changed", "b": "removed", "e": "added"}
    assert corpus.sync() == Synced()
    assert corpus.watermark("acme") == mark + 1


def test_only_a_new_vector_is_noticed_too(collection: Any) -> None:
    corpus = adopt(collection, mode="followed")
    collection.update(ids=["a"], embeddings=WORDS.embed_documents(["something else"]))
    assert corpus.sync() == Synced(changed=1)


def test_an_index_in_a_folder_is_opened_again_without_reading_the_collection(
    collection: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index of theirs"
    with adopt(collection, mode="followed", path=folder) as corpus:
        assert corpus.is_synced
    with monkeypatch.context() as patched:
        patched.setattr(type(collection), "get", pytest.fail)
        patched.setattr(type(collection), "count", pytest.fail)
        with adopt(collection, mode="followed", path=folder) as corpus:
            assert found(corpus) == ["a", "b"]
            assert not corpus.is_synced
    with adopt(collection, mode="followed", path=folder) as corpus:
        corpus.sync()
        assert corpus.is_synced


def test_vectors_of_another_length_than_the_models_are_refused_by_name(collection: Any) -> None:
    with pytest.raises(ArgumentError, match=r"embedder.* 256 numbers and the collection's 64"):
        Corpus.adopt(collection, fields=FIELDS)


@pytest.mark.parametrize("wrong", [{"mode": "borrowed"}, {"fields": {"colour": "x"}}, {"fields": 7}])
def test_wrong_arguments_are_named(collection: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        adopt(collection, **wrong)


@pytest.mark.parametrize("wrong", [None, 7, "theirs", object()])
def test_what_is_no_collection_is_refused(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="collection"):
        adopt(wrong)


class LangChainWords(WordEmbedder):
    """The word embedder has LangChain's own two methods."""


class LlamaWords(BaseEmbedding):
    """The word embedder behind LlamaIndex's methods."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return WORDS.embed_query(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return WORDS.embed_query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return WORDS.embed_query(query)


def test_a_collection_of_langchain_is_adopted_asked_written_by_langchain_and_noticed(tmp_path: Path) -> None:
    store = Chroma("docs", LangChainWords(), client=client_in(tmp_path))  # type: ignore[arg-type]
    said = {"customer": "acme", "source": "fees.pdf"}
    store.add_documents([Document("The annual fee is 12 EUR", metadata=said)], ids=["one"])
    corpus = adopt(store._collection, fields={"tenant": "customer", "source_id": "source"}, mode="followed")
    (hit,) = corpus.retrieve("annual fee", principal=ACME).hits
    assert (hit.id, hit.record.source_id, dict(hit.record.metadata)) == ("one", "fees.pdf", said)
    store.add_documents([Document("The joining fee is 30 EUR", metadata=said)], ids=["two"])
    store.delete(["one"])
    assert corpus.sync() == Synced(added=1, removed=1)
    assert found(corpus, "fee") == ["two"]


def test_a_collection_of_llamaindex_is_adopted_asked_written_by_llamaindex_and_noticed(
    tmp_path: Path,
) -> None:
    collection = client_in(tmp_path).create_collection("nodes", embedding_function=None)
    store = ChromaVectorStore(chroma_collection=collection)
    model = LlamaWords()

    def insert(rid: str, text: str) -> None:
        node = TextNode(id_=rid, text=text, metadata={"customer": "acme", "page": 3})
        node.embedding = model.get_text_embedding(text)
        store.add([node])

    insert("one", "The annual fee is 12 EUR")
    corpus = adopt(collection, fields={"tenant": "customer"}, mode="followed", embedder=model)
    (hit,) = corpus.retrieve("annual fee", principal=ACME).hits
    assert (hit.id, dict(hit.record.metadata)["page"]) == ("one", 3)
    insert("two", "The joining fee is 30 EUR")
    store.delete_nodes(["one"])
    assert corpus.sync() == Synced(added=1, removed=1)
    assert found(corpus, "fee") == ["two"]


def test_another_mapping_is_in_force_at_once_in_a_kept_folder(collection: Any, tmp_path: Path) -> None:
    folder = tmp_path / "index of theirs"
    adopt(collection, path=folder).close()
    with adopt(collection, path=folder, fields={**FIELDS, "audience": "area"}) as corpus:
        assert found(corpus) == []
        assert corpus.changes(1, principal=Principal("acme", groups=["sales/eu"]))[0].kind == "rebuilt"
    with adopt(collection, path=folder, fields={"tenant": "area"}) as corpus:
        assert found(corpus) == []
        assert found(corpus, principal=Principal("sales/us")) == ["b"]


def test_a_folder_belongs_to_one_store(collection: Any, tmp_path: Path) -> None:
    folder = tmp_path / "index of theirs"
    adopt(collection, path=folder).close()
    other = client_in(tmp_path / "others").create_collection("others", embedding_function=None)
    put(other, z=FEES["a"])
    with pytest.raises(StoreError, match="belongs to the adopted Chroma collection"):
        adopt(other, path=folder)
    with pytest.raises(StoreError, match="belongs to the adopted Chroma collection"):
        Corpus.open(folder, embedder=WordEmbedder())
    own = tmp_path / "own"
    Corpus.open(own, embedder=WordEmbedder()).close()
    with pytest.raises(StoreError, match="belongs to Chroma in this folder"):
        adopt(collection, path=own)


def test_a_row_that_is_nested_without_end_locks_nobody_out(collection: Any) -> None:
    for key in ("ctx_record", "ctx_beside"):
        put(collection, **{key: ("d", {"customer": "acme", "ctx_record": "{}", key: "[" * 99_999})})
    corpus = adopt(collection)
    assert found(corpus) == ["a", "b"]
    assert {rid for rid, _ in corpus.left_out} == {"ctx_record", "ctx_beside", "d"}


def test_two_rows_of_theirs_under_one_key_are_one_once_we_have_written_it(tmp_path: Path) -> None:
    theirs = client_in(tmp_path).create_collection("twice", embedding_function=None)
    put(
        theirs,
        one=("fee one", {"customer": "acme", "key": "k"}),
        two=("fee two", {"customer": "acme", "key": "k"}),
    )
    corpus = adopt(theirs, fields={"tenant": "customer", "id": "key"})
    assert [rid for rid, _ in corpus.left_out] in (["one"], ["two"])
    corpus.add([Record(id="k", text="fee mine", tenant="acme")])
    corpus.sync()
    assert [record.text for record in corpus.get("k", principal=ACME)] == ["fee mine"]
    corpus.delete("k", tenant="acme")
    corpus.sync()
    assert (corpus.get("k", principal=ACME), theirs.count()) == ([], 0)


def test_a_row_of_theirs_under_the_id_of_ours_is_in_nobodys_way(collection: Any) -> None:
    corpus = adopt(collection)
    put(collection, **{"acme|zz|1": ("fee theirs", {"customer": "beta"})})
    corpus.add([Record(id="zz", text="fee ours", tenant="acme")])
    corpus.add([Record(id="zz", text="fee ours again", tenant="acme")])
    corpus.sync()
    assert [record.text for record in corpus.get("zz", principal=ACME)] == ["fee ours again"]
    assert "acme|zz|1" in found(corpus, "fee", principal=Principal("beta"))
    corpus.delete("zz", tenant="acme")
    corpus.sync()
    assert corpus.get("zz", principal=ACME) == []
    assert "acme|zz|1" in found(corpus, "fee", principal=Principal("beta"))
