"""Documents in, documents out: ids, fields, flat metadata, and vector stores that are there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chromadb
import pytest
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_classic.retrievers import EnsembleRetriever, MultiQueryRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.prompts import PromptTemplate
from langchain_core.prompts.base import format_document
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from ctxarith import ArgumentError, Corpus, Principal, PrincipalRequired, RecordError, StoreError
from langchain_ctxarith import CtxArithIndex, CtxArithRetriever
from tests.conftest import NOW
from tests.fakes import WordEmbedder

pytestmark = pytest.mark.filterwarnings("error")

FIELDS = {"tenant": "customer", "created_at": "day", "slots": ["fee"], "subject": "customer"}


def client_in(folder: Path) -> Any:
    # Not the ephemeral client: it is one for the whole process.
    return chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))


def index_of(*documents: Document, **settings: Any) -> CtxArithIndex:
    options = {"clock": lambda: NOW}
    return CtxArithIndex.from_documents(list(documents), WordEmbedder(), corpus_options=options, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"source": "fees.pdf", "page": 3, "score": 0.5},
        {"id": 7, "text": "a column", "embedding": "none", "lc:id": "x"},
        {"tags": ["a", "b"], "paid": False, "rate": 0.5},
        {"tenant": "acme", "scope": "sales/eu", "version": "2", "audience": ["staff"]},
        {"created_at": "2026-03-01T00:00:00Z", "valid_until": "2027-01-01T00:00:00Z"},
        {"source_id": "contract", "source": "s3://bucket/contract.pdf"},
        {"source": "s" * 600},
    ],
    ids=str,
)
def test_metadata_comes_back_as_it_was_given(metadata: dict[str, Any]) -> None:
    given = Document("The fee is 12 EUR", id="fee", metadata=metadata)
    principal = Principal(metadata.get("tenant", "default"), groups=["staff"])
    assert index_of(given, principal=principal).get(["fee"]) == [given]


@pytest.mark.parametrize("metadata", [{"where": {"page": 1}}, {"n": float("nan")}, {"#": 1}, {"ctx_own": 1}])
def test_metadata_that_cannot_be_kept_is_refused_and_nothing_is_written(metadata: dict[str, Any]) -> None:
    index = index_of(Document("The rent is 900 EUR", id="rent"))
    (key,) = metadata
    with pytest.raises(RecordError, match=key):
        index.add_documents([Document("ok"), Document("bad", metadata=metadata)])
    assert index.corpus.count() == 1


def test_what_was_found_can_be_added_again_and_is_the_same_record() -> None:
    index = index_of(Document("The fee is 12 EUR", id="fee", metadata={"score": 3, "source": "a.pdf"}))
    found = index.invoke("fee")
    before = index.get(["fee"])
    index.add_documents(found)
    assert index.get(["fee"]) == before
    assert index.corpus.watermark() == 1


def test_every_document_found_has_the_same_keys_and_they_are_flat(tmp_path: Path) -> None:
    found = index_of(
        Document("The fee is 12 EUR", metadata={"created_at": "2026-03-01"}), Document("Fee of the pump")
    ).invoke("12 EUR")
    keys = [{key for key in one.metadata if key != "created_at"} for one in found]
    assert keys[0] == keys[1]
    assert {type(value) for one in found for value in one.metadata.values()} <= {str, int, float}
    prompt = PromptTemplate.from_template("{ctx_citation} ({ctx_date}) {page_content}")
    assert [format_document(one, prompt) for one in found] == [
        "[1] (2026-03-01T00:00:00Z) The fee is 12 EUR",
        "[2] () Fee of the pump",
    ]
    Chroma(
        "again",
        WordEmbedder(),  # type: ignore[arg-type]
        client=client_in(tmp_path),
    ).add_documents(found)


def test_scores_and_ranks_of_each_search_stand_on_the_document() -> None:
    first, second = index_of(Document("fee", id="a"), Document("pump", id="b")).invoke("fee")
    assert first.metadata["score"] == first.metadata["ctx_score"] > second.metadata["score"]
    assert (first.metadata["ctx_rank"], first.metadata["ctx_lexical_rank"]) == (1, 1)
    assert (second.metadata["ctx_semantic_rank"], second.metadata["ctx_lexical_rank"]) == (2, 0)


def test_without_evidence_a_document_is_the_same_whatever_the_question() -> None:
    index = index_of(Document("The fee is 12 EUR", id="a"), Document("The rent", id="b"), evidence=False)
    several = MultiQueryRetriever(
        retriever=index, llm_chain=RunnableLambda(lambda asked: ["the fee", "the rent"])
    )
    assert sorted(str(one.id) for one in several.invoke("costs")) == ["a", "b"]
    assert index.invoke("fee") == index.get(["a", "b"])


def test_an_ensemble_tells_them_apart_by_id_issue_38627() -> None:
    one, other = (index_of(Document("Yes.", id=name)) for name in ("lease", "warranty"))
    both = EnsembleRetriever(retrievers=[one, other], id_key="ctx_id", weights=[0.5, 0.5])
    assert sorted(str(found.id) for found in both.invoke("Yes.")) == ["lease", "warranty"]


def test_a_document_never_changes_what_is_stored() -> None:
    index = index_of(Document("The fee is 12 EUR", id="fee", metadata={"tags": ["a"]}))
    index.invoke("fee")[0].metadata["tags"].append("mine")
    assert index.get(["fee"])[0].metadata == {"tags": ["a"]}


def test_the_same_text_with_the_same_metadata_is_one_document() -> None:
    index = index_of()
    one, other = (
        Document("Yes.", metadata={"source": "a.pdf"}),
        Document("Yes.", metadata={"source": "b.pdf"}),
    )
    added = index.add_documents([one, other, one])
    assert added[0] == added[2] != added[1]
    assert sorted(found.metadata["source"] for found in index.invoke("Yes.")) == ["a.pdf", "b.pdf"]


def test_fields_give_documents_a_tenant_a_date_and_a_fact() -> None:
    index = index_of(
        Document(
            "The fee is 10 EUR", id="old", metadata={"customer": "acme", "day": "2026-01-01", "fee": 10}
        ),
        Document(
            "The fee is 12 EUR", id="new", metadata={"customer": "acme", "day": "2026-03-01", "fee": 12}
        ),
        Document("The fee is 99 EUR", id="other", metadata={"customer": "beta", "day": "2026-03-01"}),
        fields=FIELDS,
    )
    (found,) = index.invoke("fee", {"configurable": {"principal": Principal("acme")}})
    assert (found.id, found.metadata["customer"], found.metadata["day"]) == ("new", "acme", "2026-03-01")
    assert "created_at" not in found.metadata
    with pytest.raises(PrincipalRequired):
        index.invoke("fee")
    with pytest.raises(RecordError, match="no tenant"):
        index.add_documents([Document("The fee is 1 EUR")])


def test_a_text_that_is_out_of_date_in_part_says_so() -> None:
    index = index_of(
        Document(
            "The fee is 10 EUR, the rent 900",
            id="old",
            metadata={"c": "x", "d": "2026-01-01", "fee": 10, "rent": 9},
        ),
        Document("The fee is 12 EUR", id="new", metadata={"c": "x", "d": "2026-03-01", "fee": 12}),
        fields={"created_at": "d", "slots": ["fee", "rent"], "subject": "c"},
    )
    texts = {one.id: one.page_content for one in index.invoke("fee and rent")}
    assert texts["new"] == "The fee is 12 EUR"
    assert texts["old"] != "The fee is 10 EUR, the rent 900"
    assert "fee" in texts["old"].partition("The fee")[0] + texts["old"].rpartition("900")[2]


def test_a_document_without_a_date_is_its_text_among_dated_ones() -> None:
    index = index_of(
        Document("The fee is 12 EUR", id="dated", metadata={"created_at": "2026-03-01", "title": "Fees"}),
        Document("The fee of the pump", id="undated", metadata={"title": "Pumps"}),
    )
    assert {one.page_content for one in index.invoke("fee")} == {"The fee is 12 EUR", "The fee of the pump"}


def test_two_sources_of_one_text_are_both_found_with_their_own_metadata_issue_38627() -> None:
    lease = [
        Document("Rent is 900 EUR", metadata={"source": f"lease-{year}.pdf", "created_at": f"{year}-02-01"})
        for year in (2025, 2026)
    ]
    found = index_of(*lease).invoke("rent", k=5)
    assert {(one.metadata["source"], one.metadata["ctx_date"][:4]) for one in found} == {
        ("lease-2025.pdf", "2025"),
        ("lease-2026.pdf", "2026"),
    }


def test_a_retriever_with_a_principal_writes_for_its_tenant_alone() -> None:
    index = index_of(Document("The fee is 12 EUR", id="fee"), principal=Principal("acme"))
    assert index.corpus.get("fee", principal=Principal("acme"))[0].tenant == "acme"
    with pytest.raises(RecordError, match="for 'acme' only"):
        index.add_documents([Document("x", metadata={"tenant": "beta"})])
    index.add_documents([Document("a"), Document("b", metadata={"tenant": "acme"})])
    assert index.corpus.count(principal=Principal("acme")) == 3
    with pytest.raises(ArgumentError, match="acme"):
        index.delete(["fee"], tenant="beta")
    assert index.delete(["fee"])["num_deleted"] == 1


def test_one_document_that_names_its_tenant_obliges_the_others() -> None:
    with pytest.raises(RecordError, match="names no tenant"):
        index_of(Document("a", metadata={"tenant": "acme"}), Document("b"))


def test_every_way_of_writing_advances_the_watermark_case_pk_03() -> None:
    index = index_of(Document("The fee is 10 EUR", id="x1"))
    seen = [index.corpus.watermark()]
    for write in (
        lambda: index.upsert([Document("The fee is 12 EUR", id="x1")]),
        lambda: index.delete(["x1"]),
        lambda: index.add_documents([Document("The fee of the pump", id="x2")]),
    ):
        write()
        seen.append(index.corpus.watermark())
    assert seen == sorted(set(seen))
    assert [one.id for one in index.invoke("fee")] == ["x2"]


def test_a_token_budget_cuts_the_list_and_none_never_does() -> None:
    index = index_of(*(Document(f"The fee of part {n} is {n}00 EUR") for n in range(9)), k=9)
    assert len(index.invoke("fee")) == 9
    few = index.invoke("fee", token_budget=40)
    assert 1 <= len(few) < 9
    assert index.retrieve_evidence("fee", token_budget=40).tokens <= 40


@pytest.fixture
def theirs(tmp_path: Path) -> Chroma:
    store = Chroma("fees", WordEmbedder(), client=client_in(tmp_path / "theirs"))  # type: ignore[arg-type]
    store.add_documents(
        [
            Document(
                "The fee is 10 EUR", id="old", metadata={"customer": "acme", "day": "2026-01-01", "fee": 10}
            ),
            Document(
                "The fee is 12 EUR", id="new", metadata={"customer": "acme", "day": "2026-03-01", "fee": 12}
            ),
            Document("The fee is 99 EUR", id="other", metadata={"customer": "beta", "source": "b.pdf"}),
        ]
    )
    return store


def test_a_chroma_vector_store_is_adopted_and_nothing_is_embedded_again(theirs: Chroma) -> None:
    embedder: Any = theirs.embeddings
    embedder.embedded.clear()
    mine = CtxArithRetriever.from_vectorstore(theirs, fields=FIELDS, principal=Principal("acme"))
    assert [one.id for one in mine.invoke("what is the fee?")] == ["new"]
    (other,) = mine.invoke("fee", {"configurable": {"principal": Principal("beta")}})
    assert (other.id, other.metadata["ctx_source_id"]) == ("other", "b.pdf")
    assert embedder.embedded == []
    mine.add_documents(
        [
            Document(
                "The fee is 14 EUR",
                id="newest",
                metadata={"customer": "acme", "day": "2026-05-01", "fee": 14},
            )
        ]
    )
    assert [one.id for one in mine.invoke("what is the fee?")] == ["newest"]
    assert embedder.embedded == ["The fee is 14 EUR"]


def test_a_followed_vector_store_is_read_and_taken_over_at_sync(theirs: Chroma) -> None:
    mine = CtxArithRetriever.from_vectorstore(
        theirs, fields=FIELDS, mode="followed", principal=Principal("acme")
    )
    mine.corpus.sync()
    theirs.add_documents(
        [
            Document(
                "The fee is 14 EUR",
                id="newest",
                metadata={"customer": "acme", "day": "2026-05-01", "fee": 14},
            )
        ]
    )
    mine.corpus.sync()
    assert [one.id for one in mine.invoke("what is the fee?")] == ["newest"]
    with pytest.raises(StoreError, match="followed"):
        mine.add_documents([Document("x", metadata={"customer": "acme"})])


def test_another_vector_store_or_one_without_a_model_is_refused(tmp_path: Path) -> None:
    for store, said in (
        (InMemoryVectorStore(DeterministicFakeEmbedding(size=4)), "from_documents"),
        (Chroma("bare", client=client_in(tmp_path)), "embedding_function"),
    ):
        with pytest.raises(ArgumentError, match=said):
            CtxArithRetriever.from_vectorstore(store)


def test_the_folder_is_found_again_with_its_documents(tmp_path: Path) -> None:
    made = CtxArithRetriever.from_texts(
        ["The fee is 12 EUR"], WordEmbedder(), ids=["fee"], path=tmp_path / "c"
    )
    made.corpus.close()
    again = CtxArithRetriever.from_documents([], WordEmbedder(), path=tmp_path / "c")
    assert [one.id for one in again.invoke("fee")] == ["fee"]
    again.corpus.close()


@pytest.mark.parametrize("wrong", [{"ids": ["a", "b"]}, {"metadatas": []}])
def test_lists_that_do_not_go_together_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="one for each of the 1 texts"):
        CtxArithRetriever.from_texts(["The fee is 12 EUR"], WordEmbedder(), **wrong)


def test_an_open_corpus_of_the_core_is_asked_as_it_is() -> None:
    corpus = Corpus.in_memory(embedder=WordEmbedder(), clock=lambda: NOW)
    corpus.add([{"id": "a", "text": "The fee is 12 EUR", "scope": "sales/eu", "created_at": "2026-03-01"}])
    (found,) = CtxArithRetriever(corpus=corpus, search_kwargs={"scope": "sales"}, passages=True).invoke("fee")
    assert found.page_content == "(2026-03-01) The fee is 12 EUR"
    assert found.metadata["scope"] == "sales/eu"
