"""Slots, counts and ids on the way in: an IngestionPipeline, a Chroma store, and a corpus over it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import chromadb
import pytest
from llama_index.core import MockEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document, MetadataMode, TextNode, TransformComponent
from llama_index.vector_stores.chroma import ChromaVectorStore

from ctxarith import ArgumentError, RecordError
from llamaindex_ctxarith import CtxArithRetriever, EntityCounter, NodeReader, SlotExtractor, TokenCounter

RULES = {"fee": r"fee is (?P<value>\d+)"}
DOCUMENTS = [
    Document(text="The fee is 12 EUR.", id_="d1", metadata={"lead_id": "L1", "created_at": "2026-01-01"}),
    Document(text="The fee is 14 EUR.", id_="d2", metadata={"lead_id": "L1", "created_at": "2026-03-01"}),
]


def test_what_is_written_is_neither_embedded_nor_shown_and_the_given_nodes_are_untouched() -> None:
    given = [
        TextNode(id_="n1", text="The fee is 12 EUR.", metadata={"lead_id": "L1"}),
        TextNode(text="hello"),
    ]
    before = [node.model_dump_json() for node in given]
    steps: list[TransformComponent] = [SlotExtractor(rules=RULES), EntityCounter(), TokenCounter()]
    nodes = list(given)
    for step in steps:
        assert TransformComponent in type(step).__mro__
        assert pickle.loads(pickle.dumps(step))(nodes, show_progress=False) == step(nodes)
        nodes = list(step(nodes))  # type: ignore[arg-type]
    assert [node.model_dump_json() for node in given] == before
    slots = json.loads(nodes[0].metadata["ctxarith_slots"])
    assert slots == [{"subject": "L1", "attribute": "fee", "value": "12"}]
    assert "ctxarith_slots" not in nodes[1].metadata
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        assert nodes[0].get_content(mode) == given[0].get_content(mode)
    record = NodeReader().record(nodes[0])
    assert [(slot.subject, slot.attribute, slot.value) for slot in record.slots] == [("L1", "fee", "12")]
    assert (record.entity_count, record.token_count) == (2, 7)


def test_a_pattern_without_a_value_is_refused_at_once() -> None:
    with pytest.raises(ArgumentError, match="value"):
        SlotExtractor(rules={"fee": r"fee is \d+"})


def test_slots_that_something_else_wrote_are_refused_by_name() -> None:
    with pytest.raises(RecordError, match="ctxarith_slots"):
        NodeReader().record(TextNode(id_="n1", text="x", metadata={"ctxarith_slots": "fee=12"}))


def test_a_pipeline_into_chroma_and_a_retriever_over_it_leave_out_the_stale_fee(tmp_path: Path) -> None:
    client = chromadb.PersistentClient(path=str(tmp_path))
    store = ChromaVectorStore(chroma_collection=client.create_collection("notes"))
    IngestionPipeline(
        transformations=[SentenceSplitter(chunk_size=200), SlotExtractor(rules=RULES), MockEmbedding(8)],
        vector_store=store,
    ).run(documents=DOCUMENTS)
    retriever = CtxArithRetriever.from_vector_store(store, embed_model=MockEmbedding(8))
    (found,) = retriever.retrieve("what is the fee?")
    assert found.node.ref_doc_id == "d2"
    assert retriever.result("fee").drops[0].record.source_id == "d1"
    assert found.node.get_content(MetadataMode.LLM).endswith("created_at: 2026-03-01\n\nThe fee is 14 EUR.")


def test_documents_through_transformations_of_ours_become_facts() -> None:
    steps = [SentenceSplitter(chunk_size=200), SlotExtractor(rules=RULES), EntityCounter(), TokenCounter()]
    retriever = CtxArithRetriever.from_documents(DOCUMENTS, transformations=steps)
    (found,) = retriever.retrieve("what is the fee?")
    assert found.node.ref_doc_id == "d2"
    assert [one.value for one in retriever.corpus.history("L1", "fee")] == ["12", "14"]


def test_vectors_that_the_nodes_bear_are_taken_with_the_model_that_made_them() -> None:
    nodes = [
        TextNode(id_="n1", text="The fee", embedding=[1.0, 0.0]),
        TextNode(id_="n2", text="a", embedding=[0, 1]),
    ]
    calls: list[str] = []

    class Counting(MockEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            calls.append(text)
            return [0.5, 0.5]

    retriever = CtxArithRetriever.from_nodes(nodes, embed_model=Counting(embed_dim=2))
    assert calls == []
    assert len(retriever.retrieve("fee")) == 2
