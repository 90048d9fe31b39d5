"""Marks on what is served, what answers cite of it, and the thread that remembers it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import chromadb
import pytest
from blockbuster import blockbuster_ctx
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.vector_stores.chroma import ChromaVectorStore
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler
from pydantic import ValidationError

from ctxarith import ArgumentError, Corpus, Principal, Withheld
from llamaindex_ctxarith import (
    CitationLedger,
    CtxArithRetriever,
    EvidencePacket,
    NodePacket,
    VerifiedQueryEngine,
    VerifiedResponse,
    acting_as,
    ctxarith_postprocessors,
)
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.speakers import Speaker, cites

ACME, BETA = Principal("acme", user="ann"), Principal("beta", user="ben")


def fact(node_id: str, text: str, tenant: str = "acme", **metadata: Any) -> TextNode:
    return TextNode(id_=node_id, text=text, metadata={"tenant": tenant, **metadata})


FACTS = [
    fact("fee", "The annual fee is twelve EUR.", source_id="fees.pdf"),
    fact("pool", "The annual fee of the pool is thirty EUR.", source_id="pool.pdf"),
    fact("hall", "The annual fee of the hall is ninety EUR.", tenant="beta", source_id="hall.pdf"),
]


@pytest.fixture
def corpus() -> Iterator[Corpus]:
    with Corpus.in_memory(embedder=WordEmbedder(), clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def retriever(corpus: Corpus) -> CtxArithRetriever:
    return CtxArithRetriever.from_nodes(FACTS, corpus=corpus, capacity=2)


def served(*nodes: TextNode) -> list[NodeWithScore]:
    return EvidencePacket().postprocess_nodes([NodeWithScore(node=one, score=0.5) for one in nodes])


def mark(one: NodeWithScore) -> str:
    return str(one.node.metadata["ctx_citation"])


def ids(nodes: Any) -> list[str]:
    return [one.node_id for one in nodes]


def test_they_are_what_llamaindex_takes_them_for(retriever: CtxArithRetriever) -> None:
    assert BaseNodePostprocessor in EvidencePacket.__mro__
    assert BaseQueryEngine in VerifiedQueryEngine.__mro__
    assert BaseEventHandler in CitationLedger.__mro__
    with pytest.raises(ValidationError):
        CitationLedger(retriever=retriever, retreiver=None)  # type: ignore[call-arg]


def test_a_mark_is_shown_to_the_model_and_is_the_same_in_every_turn() -> None:
    first, second = served(*FACTS[:2])
    again = served(FACTS[1])[0]
    assert mark(second) == mark(again) != mark(first)
    assert first.node.get_content(MetadataMode.LLM).startswith(f"ctx_citation: {mark(first)}")
    assert "ctx_citation" not in first.node.get_content(MetadataMode.EMBED)
    assert "ctx_citation" not in FACTS[0].metadata
    assert (first.score, first.text) == (0.5, FACTS[0].text)


def test_what_an_answer_cites_is_supported_unknown_of_another_version_or_missing() -> None:
    old = served(fact("fee", "The annual fee is eleven EUR.", source_id="fees.pdf"))
    nodes = served(*FACTS[:2])
    packet = NodePacket.of(nodes)
    answer = f"Twelve {mark(nodes[0])}. Eleven {mark(old[0])}. Ninety [Effffff@0000]. Come soon!"
    found = packet.verify_citations(answer)
    assert [one.source_id for one in found.supported.values()] == ["fees.pdf"]
    assert found.wrong_version == (mark(old[0]).strip("[]"),)
    assert found.unknown == ("Effffff@0000",)
    assert found.uncited == ("Come soon!",)
    assert packet.cited_sources("[pool] and [fees.pdf], [2]") == ("pool.pdf", "fees.pdf")
    assert packet.verify_citations("Thirty [2].").unknown == ("2",)
    with pytest.raises(ArgumentError):
        packet.verify_citations(None)  # type: ignore[arg-type]


def test_a_packet_is_read_from_nodes_that_went_through_json() -> None:
    nodes = served(*FACTS[:2])
    copies = [NodeWithScore(node=TextNode.from_json(one.node.to_json()), score=one.score) for one in nodes]
    assert NodePacket.of(copies) == NodePacket.of(nodes)
    assert NodePacket.of(nodes[:1]).packet_id != NodePacket.of(nodes).packet_id


def test_a_mark_that_is_added_again_stays_out_of_the_corpus(corpus: Corpus) -> None:
    retriever = CtxArithRetriever.from_nodes([TextNode(id_="n1", text="annual fee")], corpus=corpus)
    marked = EvidencePacket().postprocess_nodes(retriever.retrieve("annual fee"))
    CtxArithRetriever.from_nodes([one.node for one in marked], corpus=corpus)
    (found,) = retriever.retrieve("annual fee")
    assert "ctx_citation" not in found.node.metadata


def test_the_chain_marks_within_its_budget_and_leaves_marks_out_when_told() -> None:
    nodes = [NodeWithScore(node=one, score=0.5) for one in FACTS[:2]]
    found = nodes
    for step in ctxarith_postprocessors(principal=ACME, tokens=40):
        found = step.postprocess_nodes(found, query_str="annual fee")
    assert len(found) == 1
    assert NodePacket.of(found).verify_citations(f"Yes {mark(found[0])}.").complete
    bare = [step.class_name() for step in ctxarith_postprocessors(cite=False)]
    assert "EvidencePacket" not in bare
    with pytest.raises(ArgumentError):
        ctxarith_postprocessors(token=3)  # type: ignore[call-arg]


def test_citations_of_llamaindexes_citation_engine_are_read_by_their_place() -> None:
    nodes = [TextNode(text="The fee is twelve."), TextNode(text="The pool is open.")]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(8))
    engine = CitationQueryEngine.from_args(index, llm=Speaker(lambda prompt: "Twelve [1]. Free [9]."))
    answer = engine.query("the fee?")
    found = NodePacket.of(answer.source_nodes).verify_citations(str(answer))
    assert (list(found.supported), found.unknown) == (["1"], ("9",))


def engine_over(
    retriever: CtxArithRetriever, answer: Callable[[str], str], **given: Any
) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(
        retriever, llm=Speaker(answer), node_postprocessors=[EvidencePacket()], **given
    )


def cited(retriever: CtxArithRetriever, thread: str, principal: Principal = ACME) -> tuple[str, ...]:
    return retriever.corpus.session(thread, principal=principal).cited


def ask(engine: RetrieverQueryEngine, kind: str, question: str = "annual fee") -> str:
    """An answer of an engine, read to its end."""

    async def streamed() -> str:
        answer: Any = await engine.aquery(question)
        return "".join([part async for part in answer.async_response_gen()])

    if kind == "async":
        return str(asyncio.run(engine.aquery(question)))
    return asyncio.run(streamed()) if kind == "astream" else str(engine.query(question))


@pytest.mark.parametrize("kind", ["sync", "async", "stream", "astream"])
def test_what_an_answer_cites_is_cited_last(retriever: CtxArithRetriever, kind: str) -> None:
    engine = engine_over(retriever, cites("thirty"), streaming=kind.endswith("stream"))
    with CitationLedger(retriever=retriever).listening() as ledger, acting_as(ACME, thread_id="t"):
        retriever.retrieve("annual fee")
        assert cited(retriever, "t") == ("pool.pdf", "fees.pdf")
        assert ask(engine, kind).startswith("It is thirty [E")
        assert ledger.wait(20)
        assert cited(retriever, "t") == ("fees.pdf", "pool.pdf")
    assert ledger not in get_dispatcher().event_handlers


def test_only_the_callers_own_thread_is_written(retriever: CtxArithRetriever) -> None:
    engine = engine_over(retriever, lambda prompt: "See [hall.pdf], [fees.pdf] and [nothing].")

    def one(number: int) -> None:
        with acting_as(ACME if number % 2 else BETA, thread_id=f"t{number % 4}"):
            engine.query("annual fee")

    with CitationLedger(retriever=retriever).listening(), ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(16)))
        engine_over(CtxArithRetriever(retriever.corpus, principal=ACME), cites("twelve")).query("annual fee")
    for name in ("t1", "t3"):
        assert set(cited(retriever, name)) == {"fees.pdf", "pool.pdf"}
        assert cited(retriever, name, BETA) == ()
    assert cited(retriever, "t0", BETA) == ("hall.pdf",)
    assert cited(retriever, "t0") == ()


def test_a_stream_that_is_left_counts_as_far_as_it_was_read(retriever: CtxArithRetriever) -> None:
    engine = engine_over(retriever, lambda prompt: "[pool] is thirty EUR. " * 4 + "[fee]", streaming=True)
    with CitationLedger(retriever=retriever).listening(), acting_as(ACME, thread_id="t"):
        stream: Any = engine.query("annual fee").response_gen  # type: ignore[union-attr]
        assert next(stream) + next(stream) == "[pool] is "
        stream.close()
    assert cited(retriever, "t") == ("fees.pdf", "pool.pdf")


def test_a_chat_streams_in_a_thread_of_its_own_and_is_heard(retriever: CtxArithRetriever) -> None:
    chat = CondensePlusContextChatEngine.from_defaults(
        retriever, llm=Speaker(cites("thirty")), skip_condense=True, node_postprocessors=[EvidencePacket()]
    )
    with CitationLedger(retriever=retriever).listening(), acting_as(ACME, thread_id="t"):
        assert "thirty" in "".join(chat.stream_chat("annual fee").response_gen)
        assert cited(retriever, "t") == ("fees.pdf", "pool.pdf")


def test_a_failing_ledger_harms_no_answer(
    retriever: CtxArithRetriever, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_over(CtxArithRetriever(retriever.corpus, principal=ACME), cites("twelve"))
    listening = CitationLedger(retriever=retriever).listening()
    with listening, caplog.at_level(logging.WARNING), acting_as(thread_id="t"):
        assert "twelve" in str(engine.query("annual fee"))
    assert "not recorded" in caplog.text


def calls(name: str, says: Callable[[list[ChatMessage]], str]) -> MockFunctionCallingLLM:
    """A model that calls a tool once and then answers."""

    def answer(messages: Any, **_: Any) -> ChatMessage:
        if messages[-1].role == MessageRole.TOOL:
            return ChatMessage(role=MessageRole.ASSISTANT, content=says(list(messages)))
        call = ToolCallBlock(tool_call_id="1", tool_name=name, tool_kwargs={"input": "annual fee"})
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[call])

    return MockFunctionCallingLLM(response_generator=answer)


@pytest.mark.parametrize("streaming", [False, True])
def test_an_agents_answer_is_recorded_from_what_its_tool_found(
    retriever: CtxArithRetriever, streaming: bool
) -> None:
    def says(messages: list[ChatMessage]) -> str:
        return cites("thirty")(str(messages[-1].content))

    tool = RetrieverTool.from_defaults(
        retriever, node_postprocessors=[EvidencePacket()], name="search", description="Finds evidence."
    )
    ledger = CitationLedger(retriever=retriever)

    async def run() -> str:
        agent = FunctionAgent(tools=[tool], llm=calls("search", says), streaming=streaming)
        with acting_as(ACME, thread_id="t"):
            return str(await ledger.follow(agent.run("What does the pool cost?")))

    assert "thirty" in asyncio.run(run())
    assert cited(retriever, "t") == ("fees.pdf", "pool.pdf")


def query(engine: VerifiedQueryEngine, kind: str) -> Any:
    return asyncio.run(engine.aquery("annual fee")) if kind == "async" else engine.query("annual fee")


def test_a_verified_engine_answers_from_its_packet_sync_and_async(retriever: CtxArithRetriever) -> None:
    model = Speaker(lambda prompt: "Twelve [1]. Thirty [7]. Old [fees.pdf@v0]. Bye.")
    engine = VerifiedQueryEngine(retriever, llm=model, task="fees")
    for kind in ("sync", "async"):
        with acting_as(ACME, thread_id="t"):
            answer = query(engine, kind)
        assert isinstance(answer, VerifiedResponse)
        assert list(answer.citations.supported) == ["1"]
        assert (answer.citations.unknown, answer.citations.wrong_version) == (("7",), ("fees.pdf@v0",))
        assert answer.citations.uncited == ("Bye.",)
        told = json.loads(json.dumps(answer.metadata))
        assert told["ctx_packet"]["members"][0]["source_id"] == "fees.pdf"
        assert told["ctx_citations"]["supported"] == {"1": "fees.pdf@1"}
        assert [(one.node_id, mark(one)) for one in answer.source_nodes] == [("fee", "[1]"), ("pool", "[2]")]
        assert answer.packet is not None
        assert answer.packet.revalidate(ACME).verdict == "reuse"
        assert "[1] fees.pdf@1 The annual fee is twelve EUR." in model.prompts[-1]
        assert "ninety" not in model.prompts[-1]
        assert cited(retriever, "t") == ("pool.pdf", "fees.pdf")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_answer_does_not_leave_after_a_revocation(
    corpus: Corpus, retriever: CtxArithRetriever, kind: str
) -> None:
    def revoked(prompt: str) -> str:
        closed = [
            {"id": one.node_id, "text": one.text, "audience": ["board"], **one.metadata} for one in FACTS[:2]
        ]
        corpus.add(closed)
        return "Twelve [1]."

    engine = VerifiedQueryEngine(retriever, llm=Speaker(revoked))
    with acting_as(ACME), pytest.raises(Withheld) as withheld:
        query(engine, kind)
    assert withheld.value.verdict == "deny"


def test_evidence_that_changes_meanwhile_is_asked_for_once_more(
    corpus: Corpus, retriever: CtxArithRetriever
) -> None:
    said: list[str] = []

    def corrected(prompt: str) -> str:
        said.append(prompt)
        if len(said) == 1:
            corpus.add([fact_of("fee", "The annual fee is fourteen EUR.")])
        return "It is fourteen [1]." if "fourteen" in prompt else "It is twelve [1]."

    def fact_of(rid: str, text: str) -> dict[str, Any]:
        return {"id": rid, "tenant": "acme", "text": text, "source_id": "fees.pdf"}

    with acting_as(ACME):
        answer = VerifiedQueryEngine(retriever, llm=Speaker(corrected)).query("annual fee")
    assert str(answer) == "It is fourteen [1]."
    assert len(said) == 2

    def always(prompt: str) -> str:
        said.append(prompt)
        corpus.add([fact_of("fee", f"The annual fee is {len(said)} EUR.")])
        return "It is old [1]."

    with acting_as(ACME), pytest.raises(Withheld) as withheld:
        VerifiedQueryEngine(retriever, llm=Speaker(always)).query("annual fee")
    assert withheld.value.verdict == "refresh_required"
    assert len(said) == 4


def test_a_store_that_llamaindex_filled_is_answered_from_with_its_own_nodes() -> None:
    store = ChromaVectorStore(chromadb.EphemeralClient().create_collection("verified-engine"))
    shelf = StorageContext.from_defaults(vector_store=store)
    VectorStoreIndex(FACTS, storage_context=shelf, embed_model=MockEmbedding(8))
    adopted = CtxArithRetriever.from_vector_store(store, embed_model=MockEmbedding(8), principal=ACME)
    with adopted.corpus:
        answer: Any = VerifiedQueryEngine(adopted, llm=Speaker(lambda prompt: "Twelve [fee].")).query(
            "the fee of twelve"
        )
        assert [one.source_id for one in answer.citations.supported.values()] == ["fees.pdf"]
        assert sorted(ids(answer.source_nodes)) == ["fee", "pool"]
        store.delete_nodes(["fee"])
        adopted.corpus.sync()
        assert answer.packet.revalidate(ACME).verdict == "refresh_required"


def test_two_ledgers_hear_side_by_side_and_each_leaves_alone(retriever: CtxArithRetriever) -> None:
    first, second = CitationLedger(retriever=retriever), CitationLedger(retriever=retriever)
    handlers = get_dispatcher().event_handlers
    with first.listening():
        with second.listening():
            assert [one for one in handlers if one is first or one is second] == [first, second]
        assert any(one is first for one in handlers)
        assert not any(one is second for one in handlers)


def test_a_strict_engine_lets_only_what_is_cited_leave(retriever: CtxArithRetriever) -> None:
    with acting_as(ACME):
        strict = VerifiedQueryEngine(
            retriever, llm=Speaker(lambda prompt: "Twelve [1]. Bye. [9]"), strict=True
        )
        with pytest.raises(Withheld, match=r"\[9\] names nothing.*without a mark: Bye"):
            strict.query("annual fee")
        good = VerifiedQueryEngine(retriever, llm=Speaker(lambda prompt: "Twelve [1]."), strict=True)
        assert good.query("annual fee").citations.complete  # type: ignore[union-attr]


def test_without_evidence_no_model_is_asked(corpus: Corpus) -> None:
    model = Speaker(lambda prompt: "I know it all.")
    answer = VerifiedQueryEngine(CtxArithRetriever(corpus), llm=model, strict=True).query("annual fee")
    assert (str(answer), model.prompts, answer.source_nodes) == ("Empty Response", [], [])


def test_a_stream_is_refused_since_it_cannot_be_recalled(retriever: CtxArithRetriever) -> None:
    streaming = get_response_synthesizer(llm=Speaker(str), streaming=True)
    with pytest.raises(ArgumentError, match="cannot be streamed"):
        VerifiedQueryEngine(retriever, synthesizer=streaming)
    with pytest.raises(ArgumentError, match="retriever"):
        VerifiedQueryEngine("fees")  # type: ignore[arg-type]


def test_a_verified_engine_is_a_tool_of_an_agent(retriever: CtxArithRetriever) -> None:
    engine = VerifiedQueryEngine(retriever, llm=Speaker(lambda prompt: "It is thirty EUR [2]."))
    tool = QueryEngineTool.from_defaults(engine, name="search", description="Answers from evidence.")
    ledger = CitationLedger(retriever=retriever)

    async def run() -> str:
        agent = FunctionAgent(tools=[tool], llm=calls("search", lambda messages: str(messages[-1].content)))
        with acting_as(ACME, thread_id="t"):
            return str(await ledger.follow(agent.run("What does the pool cost?")))

    assert asyncio.run(run()) == "It is thirty EUR [2]."
    assert cited(retriever, "t") == ("fees.pdf", "pool.pdf")


def test_a_number_after_several_calls_of_tools_names_nothing(retriever: CtxArithRetriever) -> None:
    engine = VerifiedQueryEngine(retriever, llm=Speaker(lambda prompt: "It is thirty EUR [2]."))
    tool = QueryEngineTool.from_defaults(engine, name="search", description="Answers from evidence.")

    def answer(messages: Any, **_: Any) -> ChatMessage:
        if messages[-1].role == MessageRole.TOOL:
            return ChatMessage(role=MessageRole.ASSISTANT, content="Thirty [2].")
        asked = [
            ToolCallBlock(tool_call_id=name, tool_name="search", tool_kwargs={"input": f"annual fee {name}"})
            for name in ("a", "b")
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=asked)

    async def run() -> tuple[str, ...]:
        model = MockFunctionCallingLLM(response_generator=answer)
        with acting_as(ACME, thread_id="t"):
            before = await asyncio.to_thread(lambda: cited(retriever, "t"))
            with acting_as(thread_id="other"):
                await CitationLedger(retriever=retriever).follow(
                    FunctionAgent(tools=[tool], llm=model).run("What is it?"), thread_id="t"
                )
            return (*before, *cited(retriever, "t"))

    assert asyncio.run(run()) == ()


def test_queries_on_one_engine_at_once_never_mix(retriever: CtxArithRetriever) -> None:
    engine = VerifiedQueryEngine(
        retriever, llm=Speaker(lambda prompt: prompt.split("---------------------")[1])
    )

    async def one(number: int) -> tuple[bool, str]:
        with acting_as(BETA if number % 2 else ACME, thread_id=f"t{number}"):
            return bool(number % 2), str(await engine.aquery("annual fee"))

    async def both() -> list[tuple[bool, str]]:
        return list(await asyncio.gather(*map(one, range(12))))

    for beta, text in asyncio.run(both()):
        assert ("ninety" in text, "twelve" in text) == (beta, not beta)


def test_nothing_blocks_the_event_loop(tmp_path: Any) -> None:
    with Corpus.open(tmp_path, embedder=WordEmbedder(), clock=lambda: NOW) as corpus:
        retriever = CtxArithRetriever.from_nodes(FACTS, corpus=corpus)
        verified = VerifiedQueryEngine(retriever, llm=Speaker(lambda prompt: "Twelve [1]."))
        plain = engine_over(retriever, cites("twelve"))

        async def whole() -> list[str]:
            with acting_as(ACME, thread_id="t"):
                found = await retriever.aretrieve("annual fee")
                answers = [await verified.aquery("annual fee"), await plain.aquery("annual fee")]
                return [*ids(found), *map(str, answers)]

        with (
            CitationLedger(retriever=retriever).listening(),
            blockbuster_ctx(["llamaindex_ctxarith", "ctxarith"]),
        ):
            assert asyncio.run(whole())[:3] == ["fee", "pool", "Twelve [1]."]
