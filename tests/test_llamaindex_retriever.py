"""The retriever in LlamaIndex's own engines and tools, and what comes back from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import chromadb
import pytest
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import (
    Document,
    MetadataMode,
    NodeRelationship,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.tools import RetrieverTool
from llama_index.core.utils import get_tokenizer
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.vector_stores.chroma import ChromaVectorStore
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler

from ctxarith import ArgumentError, Corpus, Principal, PrincipalRequired, RuleSlots, rerank
from llamaindex_ctxarith import ContextNode, CtxArithRetriever, NodeReader, PolicyGate, acting_as
from tests.conftest import NOW
from tests.fakes import WordEmbedder

ACME, BETA = Principal("acme"), Principal("beta")


def fee(node_id: str, tenant: str, amount: int, **metadata: Any) -> TextNode:
    return TextNode(
        id_=node_id, text=f"The annual fee is {amount} EUR.", metadata={"tenant": tenant, **metadata}
    )


@pytest.fixture
def corpus() -> Iterator[Corpus]:
    with Corpus.in_memory(embedder=WordEmbedder(), clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def two_tenants(corpus: Corpus) -> CtxArithRetriever:
    nodes = [fee("a1", "acme", 12), fee("b1", "beta", 99), fee("b2", "beta", 98)]
    return CtxArithRetriever.from_nodes(nodes, corpus=corpus)


def ids(nodes: Any) -> list[str]:
    return [one.node_id for one in nodes]


def test_it_is_a_retriever_of_llamaindex() -> None:
    assert BaseRetriever in CtxArithRetriever.__mro__


def test_one_tenant_without_a_policy_needs_neither_principal_nor_thread() -> None:
    documents = [Document(text="The annual fee is 12 EUR.", id_="fees"), Document(text="Rooms open at nine.")]
    retriever = CtxArithRetriever.from_documents(documents)
    assert ids(retriever.retrieve("what is the fee?"))[0] == "fees#0"


def test_the_same_document_again_corrects_its_chunks(corpus: Corpus) -> None:
    for text in ("The annual fee is 12 EUR.", "The annual fee is 14 EUR."):
        retriever = CtxArithRetriever.from_documents([Document(text=text, id_="fees")], corpus=corpus)
    assert [one.text for one in retriever.retrieve("annual fee")] == ["The annual fee is 14 EUR."]


def test_a_node_comes_back_as_it_was_with_the_evidence_hidden_from_the_models(corpus: Corpus) -> None:
    given = TextNode(
        id_="n1",
        text="The annual fee is 12 EUR.",
        metadata={"page": 3, "nested": {"deep": [1]}, "nothing": None, "created_at": "2026-03-01"},
        excluded_llm_metadata_keys=["page"],
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc-7")},
        start_char_idx=4,
    )
    before = given.model_dump_json()
    (found,) = CtxArithRetriever.from_nodes([given], corpus=corpus).retrieve("annual fee")
    assert given.model_dump_json() == before
    evidence = found.node.metadata["ctx_evidence"]
    assert {key: found.node.metadata[key] for key in given.metadata} == given.metadata
    assert (found.node.ref_doc_id, found.node.start_char_idx) == ("doc-7", 4)  # type: ignore[attr-defined]
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert found.node.get_content(mode) == given.get_content(mode)
    assert evidence["policy"] == {"version": "1", "scope_version": "1"}
    assert [one["source"] for one in evidence["found_by"]] == ["semantic", "lexical"]
    assert json.loads(found.to_json())["score"] == found.score
    assert isinstance(found, ContextNode)
    assert found.hit is not None
    assert found.hit.record.source_id == "doc-7"


def test_keys_that_no_record_holds_stay_with_the_node_and_its_document_is_its_own(corpus: Corpus) -> None:
    odd = {"id": "x", "text": "y", "document": "z", "ctx_mine": 1, "ref_doc_id": "None", "metadata": {"a": 1}}
    source = RelatedNodeInfo(node_id="doc-7")
    node = TextNode(
        id_="n1", text="annual fee", metadata=odd, relationships={NodeRelationship.SOURCE: source}
    )
    filters = MetadataFilters(
        filters=[MetadataFilter(key="ref_doc_id", value=["doc-7"], operator=FilterOperator.IN)]
    )
    (found,) = CtxArithRetriever.from_nodes([node], corpus=corpus, filters=filters).retrieve("annual fee")
    assert {key: found.node.metadata[key] for key in odd} == odd
    assert corpus.get("n1")[0].source_id == "doc-7"


def test_a_retrieved_node_that_is_added_again_changes_nothing(corpus: Corpus) -> None:
    retriever = CtxArithRetriever.from_nodes([TextNode(id_="n1", text="annual fee")], corpus=corpus)
    (found,) = retriever.retrieve("annual fee")
    added = corpus.add([NodeReader().kept(found.node)])
    assert (added.unchanged, added.corrected) == (1, 0)


def test_a_record_without_a_node_becomes_one_with_its_date_and_source(corpus: Corpus) -> None:
    corpus.add([{"id": "r1", "text": "The fee is 12", "source_id": "fees", "created_at": "2026-03-01"}])
    (found,) = CtxArithRetriever(corpus).retrieve("fee")
    assert found.node.ref_doc_id == "fees"
    assert found.node.get_content(MetadataMode.LLM) == "created_at: 2026-03-01T00:00:00Z\n\nThe fee is 12"
    assert found.node.get_content(MetadataMode.EMBED) == "The fee is 12"


def test_a_superseded_node_is_left_out_and_a_kept_one_is_labelled(corpus: Corpus) -> None:
    nodes = [
        fee("old", "acme", 12, created_at="2026-01-01"),
        fee("new", "acme", 14, created_at="2026-03-01", supersedes="old"),
    ]
    retriever = CtxArithRetriever.from_nodes(nodes, corpus=corpus)
    assert ids(retriever.retrieve("annual fee")) == ["new"]
    assert str(retriever.result("annual fee").why("old")).startswith("old")
    labelled = CtxArithRetriever(corpus, include_superseded=True).retrieve("annual fee")
    assert ids(labelled) == ["new", "old"]
    assert "ctx_note: superseded" in labelled[1].node.get_content(MetadataMode.LLM)
    assert "superseded" not in labelled[1].node.get_content(MetadataMode.EMBED)


def test_two_tenants_need_a_principal_and_see_their_own(two_tenants: CtxArithRetriever) -> None:
    with pytest.raises(PrincipalRequired):
        two_tenants.retrieve("annual fee")
    with acting_as(ACME):
        assert ids(two_tenants.retrieve("annual fee")) == ["a1"]
    with acting_as(BETA), acting_as(ACME):
        assert ids(two_tenants.retrieve("annual fee")) == ["a1"]
    with pytest.raises(PrincipalRequired):
        two_tenants.retrieve("annual fee")


def test_a_filter_cannot_widen_what_the_caller_may_see(two_tenants: CtxArithRetriever) -> None:
    """TN-03."""
    for filters in (
        {"tenant": "beta"},
        {"$or": [{"tenant": "beta"}, {"tenant": "acme"}]},
        {"tenant": {"$ne": "acme"}},
    ):
        retriever = CtxArithRetriever(two_tenants.corpus, principal=ACME, filters=filters)
        assert set(ids(retriever.retrieve("annual fee"))) <= {"a1"}


def test_fifty_requests_on_one_instance_never_mix(two_tenants: CtxArithRetriever) -> None:
    def ask(number: int) -> tuple[int, list[str]]:
        with acting_as(ACME if number % 2 else BETA, thread_id=f"t{number}"):
            return number % 2, sorted(ids(two_tenants.retrieve("annual fee")))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(50)))
    assert all(found == (["a1"] if odd else ["b1", "b2"]) for odd, found in answers)


def test_tasks_on_one_loop_never_mix(two_tenants: CtxArithRetriever) -> None:
    async def ask(principal: Principal) -> list[str]:
        with acting_as(principal):
            await asyncio.sleep(0)
            return sorted(ids(await two_tenants.aretrieve("annual fee")))

    async def both() -> list[list[str]]:
        return list(await asyncio.gather(ask(ACME), ask(BETA), ask(ACME)))

    assert asyncio.run(both()) == [["a1"], ["b1", "b2"], ["a1"]]


def test_the_loop_goes_on_while_a_question_is_embedded() -> None:
    """#21159, #18090, #21934."""
    answered = Event()

    class Waiting(WordEmbedder):
        def embed_query(self, text: str) -> list[float]:
            if not answered.wait(timeout=20):
                raise TimeoutError("the loop stood still")
            return super().embed_query(text)

    async def answer() -> None:
        answered.set()

    async def both(retriever: CtxArithRetriever) -> list[str]:
        found, _ = await asyncio.gather(retriever.aretrieve("annual fee"), answer())
        return ids(found)

    with Corpus.in_memory(embedder=Waiting(), clock=lambda: NOW) as corpus:
        retriever = CtxArithRetriever.from_nodes([TextNode(id_="n1", text="annual fee")], corpus=corpus)
        assert asyncio.run(both(retriever)) == ["n1"]


def test_the_corpuss_reranker_leaves_its_rank_in_the_evidence() -> None:
    def shared(query: str, passages: list[str]) -> list[float]:
        return [float("pool" in passage) for passage in passages]

    nodes = [TextNode(id_="fee", text="annual fee"), TextNode(id_="pool", text="annual fee of the pool")]
    with Corpus.in_memory(embedder=WordEmbedder(), reranker=rerank(shared, scale="unit")) as corpus:
        found = CtxArithRetriever.from_nodes(nodes, corpus=corpus, rerank=True).retrieve("annual fee")
    assert [(one.node_id, one.node.metadata["ctx_evidence"]["reranked"]["rank"]) for one in found] == [
        ("pool", 1),
        ("fee", 2),
    ]


def test_a_follow_up_is_answered_from_what_the_thread_has_cited(two_tenants: CtxArithRetriever) -> None:
    with acting_as(BETA, thread_id="t1"):
        assert two_tenants.result("annual fee").trace.stage == "corpus"
        assert two_tenants.result("annual fee").trace.stage == "cited"
    with acting_as(BETA, thread_id="t2"):
        assert two_tenants.result("annual fee").trace.stage == "corpus"


def test_a_query_engine_answers_from_the_callers_nodes_sync_and_async(two_tenants: CtxArithRetriever) -> None:
    engine = RetrieverQueryEngine.from_args(two_tenants, llm=MockLLM())
    with acting_as(ACME):
        answer = engine.query("annual fee")
        again = asyncio.run(engine.aquery("annual fee"))
    assert ids(answer.source_nodes) == ids(again.source_nodes) == ["a1"]
    assert "12 EUR" in str(answer)
    assert "99 EUR" not in str(answer)


def test_two_chats_side_by_side_over_thirty_turns_never_mix(two_tenants: CtxArithRetriever) -> None:
    chats = {
        caller: CondensePlusContextChatEngine.from_defaults(
            two_tenants, llm=MockLLM(max_tokens=8), skip_condense=True
        )
        for caller in (ACME, BETA)
    }
    own = {ACME: {"a1"}, BETA: {"b1", "b2"}}

    async def streamed(caller: Principal, question: str) -> Any:
        answer = await chats[caller].astream_chat(question)
        assert "".join([part async for part in answer.async_response_gen()])
        return answer

    for turn in range(30):
        for caller, chat in chats.items():
            question = f"what is the annual fee, turn {turn}?"
            with acting_as(caller, thread_id="one name for both"):
                answer: Any
                if turn % 3 == 0:
                    answer = chat.chat(question)
                elif turn % 3 == 1:
                    answer = asyncio.run(chat.achat(question))
                else:
                    answer = asyncio.run(streamed(caller, question))
                stage = two_tenants.result(question).trace.stage
            assert set(ids(answer.source_nodes)) == own[caller]
            assert stage == "cited"


def test_an_agents_tool_asks_the_plain_question_for_its_caller(two_tenants: CtxArithRetriever) -> None:
    tool = RetrieverTool.from_defaults(two_tenants, name="search", description="Finds evidence.")

    def answer(messages: Any, **given: Any) -> ChatMessage:
        if any(message.role == MessageRole.TOOL for message in messages):
            return ChatMessage(role=MessageRole.ASSISTANT, content="done: " + str(messages[-1].content))
        call = ToolCallBlock(tool_call_id="1", tool_name="search", tool_kwargs={"input": "annual fee"})
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[call])

    async def run() -> str:
        agent = FunctionAgent(
            tools=[tool], llm=MockFunctionCallingLLM(response_generator=answer), streaming=False
        )
        with acting_as(ACME, thread_id="agent"):
            return str(await agent.run("what is the fee?"))

    said = asyncio.run(run())
    assert "12 EUR" in said
    assert "99 EUR" not in said
    with acting_as(ACME):
        asked = two_tenants.result(QueryBundle("\ninput is annual fee\n")).trace.query
    assert asked == "annual fee"


def test_events_bear_the_name_of_the_thread(two_tenants: CtxArithRetriever) -> None:
    tags: list[tuple[str, str | None]] = []

    class Seen(BaseEventHandler):
        def handle(self, event: Any, **given: Any) -> None:
            tags.append((event.class_name(), event.tags.get("thread_id")))

    root, seen = get_dispatcher(), Seen()
    root.add_event_handler(seen)
    try:
        with acting_as(ACME, thread_id="t-9"):
            two_tenants.retrieve("annual fee")
    finally:
        root.event_handlers.remove(seen)
    assert ("RetrievalEndEvent", "t-9") in tags


def test_a_budget_counts_what_the_model_reads(corpus: Corpus) -> None:
    nodes = [
        TextNode(id_=f"n{n}", text="The annual fee is twelve. " * 10, metadata={"n": n}) for n in range(4)
    ]
    CtxArithRetriever.from_nodes(nodes, corpus=corpus)
    found = CtxArithRetriever(corpus, tokens=140).retrieve("annual fee")
    text = "\n\n".join(one.node.get_content(MetadataMode.LLM) for one in found)
    assert len(found) == 2
    assert len(get_tokenizer()(text)) <= 140
    (cut,) = CtxArithRetriever(corpus, tokens=30).retrieve("annual fee")
    assert cut.text.endswith("twelve. [...]")
    assert len(get_tokenizer()(cut.node.get_content(MetadataMode.LLM))) <= 30


@pytest.mark.parametrize(
    "given",
    [{"tokens": -1}, {"similarity_top_k": 0}, {"rank": "best"}, {"thread_id": ""}, {"topk": 3}],
    ids=str,
)
def test_what_can_never_be_asked_is_refused_at_construction(corpus: Corpus, given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        CtxArithRetriever(corpus, **given)


def test_a_question_with_texts_of_its_own_to_embed_is_refused(corpus: Corpus) -> None:
    with pytest.raises(ArgumentError, match="custom_embedding_strs"):
        CtxArithRetriever(corpus).retrieve(QueryBundle("fee", custom_embedding_strs=["The fee is 12"]))


@pytest.fixture
def theirs(tmp_path: Path) -> ChromaVectorStore:
    client = chromadb.PersistentClient(path=str(tmp_path / "theirs"))
    store = ChromaVectorStore(chroma_collection=client.create_collection("theirs"))
    nodes = [
        fee("a1", "acme", 12, lead_id="L1", created_at="2026-01-01"),
        fee("a2", "acme", 14, lead_id="L1", created_at="2026-03-01"),
        fee("b1", "beta", 99, lead_id="L1", created_at="2026-04-01"),
    ]
    for node in nodes:
        node.excluded_llm_metadata_keys = ["lead_id"]
    VectorStoreIndex(
        nodes, storage_context=StorageContext.from_defaults(vector_store=store), embed_model=MockEmbedding(8)
    )
    return store


def test_a_store_that_llamaindex_filled_is_asked_under_a_policy(theirs: ChromaVectorStore) -> None:
    retriever = CtxArithRetriever.from_vector_store(
        theirs,
        embed_model=MockEmbedding(8),
        options={"slots": RuleSlots({"fee": r"fee is (?P<value>\d+)"}), "clock": lambda: NOW},
        principal=ACME,
    )
    (found,) = retriever.retrieve("annual fee")
    assert found.node_id == "a2"
    assert found.node.get_content(MetadataMode.LLM) == (
        "tenant: acme\ncreated_at: 2026-03-01\n\nThe annual fee is 14 EUR."
    )
    result = retriever.result("annual fee")
    assert str(result.why("b1")).replace("b1", "zz") == str(result.why("zz"))


def test_a_row_that_has_changed_since_says_nothing_of_its_new_content(theirs: ChromaVectorStore) -> None:
    retriever = CtxArithRetriever.from_vector_store(theirs, embed_model=MockEmbedding(8), principal=ACME)
    there = theirs.client.get(ids=["a2"])["metadatas"][0]
    theirs.client.update(ids=["a2"], metadatas=[{**there, "tenant": "beta", "secret": "x"}])
    found = {one.node_id: one for one in retriever.retrieve("annual fee")}
    assert "secret" not in found["a2"].node.metadata
    retriever.corpus.sync()
    assert ids(retriever.retrieve("annual fee")) == ["a1"]


def test_what_is_told_in_the_wrong_place_is_answered_with_the_right_one() -> None:
    corpus = Corpus.in_memory(embedder=WordEmbedder())
    corpus.add([{"id": t, "text": "the fee", "tenant": t} for t in ("acme", "beta")])
    with pytest.raises(PrincipalRequired, match="acting_as"):
        CtxArithRetriever(corpus).retrieve("fee")
    with pytest.raises(ArgumentError, match="options="):
        CtxArithRetriever(corpus, slots=None)  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match=r"index\.vector_store"):
        CtxArithRetriever.from_vector_store(object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="principal"):
        PolicyGate(principal={"tenant": "acme"})  # type: ignore[arg-type]
