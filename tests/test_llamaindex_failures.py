"""Failures that LlamaIndex's trackers tell of: the same inputs through its own parts and through ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import chromadb
import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor import SimilarityPostprocessor, TimeWeightedPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import (
    Document,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.utils import get_tokenizer
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.vector_stores.chroma import ChromaVectorStore

from ctxarith import Corpus, Principal
from llamaindex_ctxarith import (
    Bm25Fusion,
    CompositeRank,
    CrossEncoderRerank,
    CtxArithRetriever,
    Supersession,
    VerifiedQueryEngine,
    acting_as,
    build_memory,
    ctxarith_postprocessors,
)
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.speakers import Speaker

ACME = Principal("acme")


class Words(BaseEmbedding):
    """The word embedder as LlamaIndex calls one."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return WordEmbedder().embed_query(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return WordEmbedder().embed_query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


class Fixed(BaseRetriever):
    """Gives the same nodes to every question."""

    def __init__(self, *nodes: NodeWithScore) -> None:
        super().__init__()
        self.nodes = list(nodes)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.nodes


@pytest.fixture
def corpus() -> Iterator[Corpus]:
    with Corpus.in_memory(embedder=WordEmbedder(), clock=lambda: NOW) as opened:
        yield opened


def node(name: str, text: str = "the annual fee", source: str | None = None, **metadata: Any) -> TextNode:
    made = TextNode(id_=name, text=text, metadata=metadata)
    if source is not None:
        made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=source)
    return made


def scored(name: str, score: Any = 0.5, text: str = "the annual fee", **metadata: Any) -> NodeWithScore:
    made = NodeWithScore(node=node(name, text, **metadata))
    made.score = score
    return made


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [one.node_id for one in nodes]


def equal(key: str, value: Any, operator: FilterOperator = FilterOperator.EQ) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


def fused(*retrievers: BaseRetriever, mode: FUSION_MODES = FUSION_MODES.RECIPROCAL_RANK, **given: Any) -> Any:
    return QueryFusionRetriever(
        list(retrievers),
        llm=MockLLM(),
        mode=mode,
        num_queries=1,
        use_async=False,
        similarity_top_k=9,
        **given,
    )


def test_a_filtered_bm25_retriever_leaks_and_ours_does_not(corpus: Corpus) -> None:
    """PR 22897, and #14959: ours takes the filter for words and vectors alike, for each question."""
    bm25 = pytest.importorskip(
        "llama_index.retrievers.bm25", reason="llama-index-retrievers-bm25 is not installed"
    )
    nodes = [node(f"a{n}", tenant="acme") for n in range(2)] + [
        node(f"b{n}", tenant="beta") for n in range(5)
    ]
    filters = equal("tenant", "acme")
    theirs = bm25.BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=5, filters=filters)
    leaked = theirs.retrieve("annual fee")
    assert any(one.node_id.startswith("b") for one in leaked)
    assert any(one.node_id.startswith("b") for one in fused(theirs).retrieve("annual fee"))
    ours = CtxArithRetriever.from_nodes(
        nodes, corpus=corpus, principal=ACME, filters=filters, similarity_top_k=5
    )
    assert sorted(ids(ours.retrieve("annual fee"))) == ["a0", "a1"]
    assert len(theirs.retrieve("zebra")) == 5
    gate, words, *_ = ctxarith_postprocessors(principal=ACME)
    kept = words.postprocess_nodes(gate.postprocess_nodes(leaked), query_str="annual fee")
    assert sorted(ids(kept)) == ["a0", "a1"]


def test_llamaindexes_fusion_forgets_weights_and_changes_scores_and_ours_does_neither() -> None:
    """#21444."""
    first, second = scored("x", 0.9, "pool"), scored("y", 0.8, "annual fee")
    theirs = fused(Fixed(first, second), Fixed(second), retriever_weights=[1.0, 0.0])
    assert ids(theirs.retrieve("annual fee")) == ["y", "x"]
    assert first.score != 0.9
    first, second = scored("x", 0.9, "pool"), scored("y", 0.8, "annual fee")
    ours = Bm25Fusion(weights=(1.0, 0.0)).postprocess_nodes([first, second], query_str="annual fee")
    assert ids(ours) == ["x", "y"]
    assert (first.score, second.score) == (0.9, 0.8)


def test_a_node_without_a_score_breaks_llamaindexes_parts_or_vanishes_and_stays_with_ours() -> None:
    """PR 22717 and #12497."""
    nodes = [scored("x", None), scored("y", 0.8)]
    with pytest.raises(TypeError):
        fused(Fixed(*nodes), mode=FUSION_MODES.RELATIVE_SCORE).retrieve("annual fee")
    assert ids(SimilarityPostprocessor(similarity_cutoff=0.1).postprocess_nodes([scored("x", None)])) == []
    found: list[NodeWithScore] = [scored("x", None), scored("y", 0.8)]
    for step in ctxarith_postprocessors():
        found = step.postprocess_nodes(found, query_str="annual fee")
    assert sorted(ids(found)) == ["x", "y"]
    assert all(isinstance(one.score, float) for one in found)


def test_a_numpy_score_cannot_be_stored_and_ours_are_plain() -> None:
    """#10780."""
    given = scored("x", np.float32(0.5))
    with pytest.raises(Exception, match="serializable"):
        given.to_json()
    for step in ctxarith_postprocessors():
        (found,) = step.postprocess_nodes([given], query_str="annual fee")
        assert json.loads(found.to_json())["score"] == found.score
    assert isinstance(given.score, np.float32)


def test_a_scorer_that_answers_for_fewer_passages_changes_no_order() -> None:
    """#20597: scores are never laid onto other nodes."""
    step = CrossEncoderRerank(
        scorer=lambda query, passages: sorted([0.9, 0.1])[: len(passages) - 1], scale="unit"
    )
    assert ids(step.postprocess_nodes([scored("x", 0.9), scored("y", 0.2)], query_str="fee")) == ["x", "y"]


def test_a_zero_is_not_taken_for_the_best_score() -> None:
    """PR 22389."""
    given = [scored("zero", 0.0, created_at="2026-06-15"), scored("good", 0.9, created_at="2026-06-15")]
    moment = NOW.timestamp()
    theirs = TimeWeightedPostprocessor(now=moment, time_access_refresh=False)
    old = [
        scored("zero", 0.0, __last_accessed__=moment - 9e6),
        scored("good", 0.9, __last_accessed__=moment - 9e6),
    ]
    assert ids(theirs.postprocess_nodes(old))[0] == "zero"
    ours = CompositeRank(rank="composite", clock=lambda: NOW).postprocess_nodes(given, query_str="fee")
    assert ids(ours) == ["good", "zero"]


def test_what_is_alike_is_not_what_is_superseded() -> None:
    """EmbeddingRecencyPostprocessor compares the wrong rows, and takes likeness for contradiction."""
    pytest.importorskip("pandas", reason="pandas is not installed, which EmbeddingRecencyPostprocessor needs")
    from llama_index.core.postprocessor import EmbeddingRecencyPostprocessor

    nodes = [
        scored("old", 0.9, "the annual fee is twelve", lead="L1", fee=12, date="2026-01-01"),
        scored("room", 0.8, "rooms open at nine", date="2026-02-01"),
        scored("new", 0.7, "the annual fee is fourteen", lead="L1", fee=14, date="2026-03-01"),
    ]
    theirs = EmbeddingRecencyPostprocessor(embed_model=Words(), similarity_cutoff=0.7)
    assert set(ids(theirs.postprocess_nodes(list(nodes), query_str="fee"))) != {"new", "room"}
    facts = {"slots": ["fee"], "subject": "lead", "created_at": "date"}
    ours = Supersession(fields=facts, clock=lambda: NOW).postprocess_nodes(nodes, query_str="fee")
    assert ids(ours) == ["new", "room"]


def test_a_scope_of_documents_is_a_filter_and_an_empty_one_is_nothing(corpus: Corpus) -> None:
    """#11602, #14121, PR 22966: Chroma is never told of `doc_ids`."""
    nodes = [node("n1", source="doc-1"), node("n2", source="doc-2")]
    store = ChromaVectorStore(chromadb.EphemeralClient().create_collection("scope-of-documents"))
    index = VectorStoreIndex(
        nodes, storage_context=StorageContext.from_defaults(vector_store=store), embed_model=Words()
    )
    theirs = index.as_retriever(doc_ids=["doc-1"], similarity_top_k=5)
    assert sorted(ids(theirs.retrieve("annual fee"))) == ["n1", "n2"]
    CtxArithRetriever.from_nodes(nodes, corpus=corpus)
    for wanted, found in ((["doc-1"], ["n1"]), ([], [])):
        ours = CtxArithRetriever(corpus, filters=equal("ref_doc_id", wanted, FilterOperator.IN))
        assert ids(ours.retrieve("annual fee")) == found


def test_two_documents_of_one_text_keep_their_nodes_and_more_than_there_is_is_all_there_is(
    corpus: Corpus,
) -> None:
    """#23002, #21033, FU-02 and LX-09."""
    documents = [
        Document(text="Visitors sign in at the desk.", id_=name) for name in ("handbook-A", "handbook-B")
    ]
    retriever = CtxArithRetriever.from_documents(documents, corpus=corpus, similarity_top_k=20)
    for found in (
        retriever.retrieve("visitors sign in"),
        asyncio.run(retriever.aretrieve("visitors sign in")),
    ):
        assert sorted(str(one.node.ref_doc_id) for one in found) == ["handbook-A", "handbook-B"]


def test_every_chunk_of_a_document_that_is_added_again_is_there(corpus: Corpus) -> None:
    """#14931: upserts kept the last chunk only."""
    text = " ".join(f"Rule {n} says that the annual fee is paid in month {n}." for n in range(40))
    steps = [SentenceSplitter(chunk_size=60, chunk_overlap=0, id_func=lambda n, doc: f"{doc.node_id}#{n}")]
    for _ in range(2):
        CtxArithRetriever.from_documents(
            [Document(text=text, id_="rules")], corpus=corpus, transformations=steps
        )
    assert corpus.count() > 10
    assert len(corpus.ids_of("rules")) == corpus.count()


def test_what_is_written_through_llamaindex_makes_a_packet_stale(corpus: Corpus) -> None:
    """PK-03."""
    retriever = CtxArithRetriever.from_nodes([node("x1", "The fee is 10 EUR")], corpus=corpus)
    answer: Any = VerifiedQueryEngine(retriever, llm=Speaker(lambda prompt: "10 EUR [1].")).query("fee")
    assert answer.packet.revalidate().verdict == "reuse"
    CtxArithRetriever.from_nodes([node("x1", "The fee is 12 EUR")], corpus=corpus)
    assert answer.packet.revalidate().verdict == "refresh_required"


def test_sync_and_async_work_inside_a_loop_and_in_one_after_the_other(corpus: Corpus) -> None:
    """IN-01."""
    retriever = CtxArithRetriever.from_nodes([node("x1")], corpus=corpus)
    engine = VerifiedQueryEngine(retriever, llm=Speaker(lambda prompt: "A fee [1]."))
    memory = build_memory("s", token_limit=300)

    async def main() -> list[str]:
        memory.put(ChatMessage("hello"))
        await memory.aput(ChatMessage("hello again"))
        inside = [str(engine.query("annual fee")), str(await engine.aquery("annual fee"))]
        return [
            *inside,
            *ids(retriever.retrieve("annual fee")),
            *ids(await retriever.aretrieve("annual fee")),
        ]

    first, second = asyncio.run(main()), asyncio.run(main())
    with ThreadPoolExecutor(1) as pool:
        assert str(pool.submit(engine.query, "annual fee").result()) == "A fee [1]."
    assert first == second == ["A fee [1].", "A fee [1].", "x1", "x1"]
    assert len(memory.get()) == 4


def tool_turns(count: int) -> list[ChatMessage]:
    made = []
    for n in range(count):
        call = ToolCallBlock(tool_call_id=f"c{n}", tool_name="search", tool_kwargs={"input": f"fee {n}"})
        made += [
            ChatMessage(role=MessageRole.USER, content=f"What is fee {n}?"),
            ChatMessage(role=MessageRole.ASSISTANT, blocks=[call]),
            ChatMessage(
                role=MessageRole.TOOL, content="EUR " * 20, additional_kwargs={"tool_call_id": f"c{n}"}
            ),
            ChatMessage(role=MessageRole.ASSISTANT, content="It is 12 EUR. " * 4),
        ]
    return made


def test_the_history_begins_with_a_user_and_every_result_has_its_call() -> None:
    """#20256."""
    memory = build_memory("s", token_limit=500)
    for message in tool_turns(20):
        memory.put(message)
        given = [one for one in memory.get() if one.role != MessageRole.SYSTEM]
        assert given[0].role == MessageRole.USER
        asked = {
            block.tool_call_id for one in given for block in one.blocks if isinstance(block, ToolCallBlock)
        }
        answered = {one.additional_kwargs["tool_call_id"] for one in given if one.role == MessageRole.TOOL}
        assert answered <= asked


def test_llamaindexes_summary_buffer_destroys_what_was_said_and_ours_keeps_it() -> None:
    """#13308, #14958, ME-12."""
    turns = tool_turns(10)
    theirs = ChatSummaryMemoryBuffer.from_defaults(token_limit=120, llm=None)
    ours = build_memory("s", token_limit=300)
    for message in turns:
        theirs.put(message)
        theirs.get()
        ours.put(message)
        ours.get()
    assert len(theirs.get_all()) < len(turns)
    assert [one.content for one in ours.get_all()] == [one.content for one in turns]
    kept: Any = ours.memory_blocks[0]
    assert kept.memory("s").turns[0].content == "What is fee 0?"


def test_a_message_beyond_the_limit_is_shown_and_ends_no_chat() -> None:
    """#11637, #9371, #15320, ME-05."""
    long = ChatMessage(role=MessageRole.USER, content="so many words " * 400 + "so which valve is it?")
    buffer = ChatMemoryBuffer.from_defaults(token_limit=100)
    with pytest.raises(ValueError, match="exceeds"):
        buffer.get(initial_token_count=101)
    memory = build_memory("s", token_limit=300)
    for message in (long, ChatMessage(role=MessageRole.ASSISTANT, content="The third."), *tool_turns(3)):
        memory.put(message)
        assert memory.get()
    block: Any = memory.memory_blocks[0]
    text = asyncio.run(block.aget(session_id="s"))
    assert len(get_tokenizer()(text)) <= block.max_tokens


def test_history_and_evidence_together_fit_a_small_model(corpus: Corpus) -> None:
    """#16235: the history left no room for the context."""
    retriever = CtxArithRetriever.from_nodes(
        [node(f"n{n}", f"The annual fee of class {n} is {n} EUR. " * 4) for n in range(9)], corpus=corpus
    )

    def chat(memory: Any) -> int:
        engine = CondensePlusContextChatEngine.from_defaults(
            retriever,
            llm=Speaker(lambda prompt: "It is 3 EUR, and there is more to say of it. " * 4),
            memory=memory,
            node_postprocessors=ctxarith_postprocessors(tokens=200),
            skip_condense=True,
        )
        for turn in range(30):
            assert engine.chat(
                f"What is the annual fee of class {turn % 9}, and what else is there?"
            ).response
        return 30

    with pytest.raises(ValueError, match=r"not positive|non-negative"):
        chat(ChatMemoryBuffer.from_defaults(token_limit=2048))
    assert chat(build_memory("s", token_limit=400)) == 30


def test_a_block_is_asked_with_whatever_a_caller_says_beside() -> None:
    """#22823."""
    memory = build_memory("s")
    memory.put(ChatMessage("hello"))
    assert [one.content for one in memory.get(input="x", phase="planning")] == ["hello"]


def test_evidence_is_read_in_one_piece_with_its_marks(corpus: Corpus) -> None:
    """#15054, #7299, #17439: metadata torn off, and numbers that name nothing."""
    nodes = [node(f"n{n}", f"The annual fee of class {n} is {n} EUR. " * 9) for n in range(9)]
    model = Speaker(lambda prompt: "It is 3 EUR [1].")
    retriever = CtxArithRetriever.from_nodes(nodes, corpus=corpus, similarity_top_k=9)
    engine = RetrieverQueryEngine.from_args(
        retriever, llm=model, node_postprocessors=ctxarith_postprocessors(tokens=900, top=9)
    )
    answer = engine.query("annual fee")
    assert len(model.prompts) == 1
    marks = [str(one.node.metadata["ctx_citation"]) for one in answer.source_nodes]
    assert len(set(marks)) == len(marks) > 3
    assert all(mark in model.prompts[0] for mark in marks)
    VerifiedQueryEngine(retriever, llm=model).query("annual fee")
    assert len(model.prompts) == 2


def test_what_a_caller_may_see_is_settled_by_who_asks_not_by_what_is_asked() -> None:
    """#12046."""
    retriever = CtxArithRetriever.from_nodes([node("a", tenant="acme"), node("b", tenant="beta")])
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    with acting_as(ACME):
        answer = engine.query("annual fee of tenant beta, show me beta's documents")
    assert ids(answer.source_nodes) == ["a"]
