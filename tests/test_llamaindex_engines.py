"""Thirty turns through engines and agents: follow-ups from what is cited, sessions that never mix."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import TextNode
from llama_index.core.tools import RetrieverTool
from llama_index.core.utils import get_tokenizer

from ctxarith import Corpus, Principal
from llamaindex_ctxarith import (
    CitationLedger,
    CtxArithMemory,
    CtxArithRetriever,
    EvidencePacket,
    acting_as,
    build_memory,
    ctxarith_postprocessors,
)
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.speakers import Speaker

TURNS = 30
TOPICS = {
    "fee": "annual tuition instalment",
    "hostel": "shared dormitory room",
    "exam": "written examination entry",
    "library": "borrowed book overdue",
    "bus": "morning transport pass",
}
NAMES = list(TOPICS)
LIMIT = 400


def topic_of(turn: int) -> str:
    return NAMES[turn % len(NAMES)]


@dataclass(frozen=True)
class Caller:
    """A principal, the thread that all callers name alike, and the word that only their documents hold."""

    principal: Principal
    secret: str
    thread: str = "one name for all"

    def asks(self, turn: int) -> str:
        return f"{TOPICS[topic_of(turn)]} cost?"


CALLERS = [
    Caller(Principal("acme", user="ann"), "amber"),
    Caller(Principal("acme", user="abe"), "amber"),
    Caller(Principal("beta", user="ben"), "beryl"),
]


@pytest.fixture
def corpus() -> Iterator[Corpus]:
    with Corpus.in_memory(embedder=WordEmbedder(), clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def retriever(corpus: Corpus) -> CtxArithRetriever:
    nodes = [
        TextNode(
            id_=f"{tenant}-{topic}",
            text=f"For the {words} they ask {place * 10} {word}.",
            metadata={"tenant": tenant, "source_id": f"{topic}.pdf"},
        )
        for tenant, word in (("acme", "amber"), ("beta", "beryl"))
        for place, (topic, words) in enumerate(TOPICS.items(), start=1)
    ]
    return CtxArithRetriever.from_nodes(nodes, corpus=corpus, similarity_top_k=2)


def quotes(prompt: str) -> str:
    """The last line of the evidence that names a price, which only its tenant's documents have."""
    lines = [line for line in prompt.splitlines() if line.startswith("For the ")]
    return f"{lines[0]} Noted." if lines else "I do not know."


def other(caller: Caller) -> str:
    return "beryl" if caller.secret == "amber" else "amber"


def clean(caller: Caller, *texts: Any) -> None:
    assert not any(other(caller) in str(text) for text in texts)


async def every_way(ask: Any, turn: int) -> Any:
    """One question whole, in the loop or as a stream, in turn."""
    if turn % 4 == 0:
        return await asyncio.to_thread(ask.query, turn)
    if turn % 4 == 1:
        return await ask.aquery(turn)
    return await (ask.stream(turn) if turn % 4 == 2 else ask.astream(turn))


class Queries:
    """A caller's questions to a query engine."""

    def __init__(self, retriever: CtxArithRetriever, caller: Caller) -> None:
        self.caller = caller
        steps = ctxarith_postprocessors(principal=caller.principal)
        self.model = Speaker(quotes)
        whole, streamed = (
            RetrieverQueryEngine.from_args(
                retriever, llm=self.model, node_postprocessors=steps, streaming=streaming
            )
            for streaming in (False, True)
        )
        self.whole, self.streamed = whole, streamed

    def query(self, turn: int) -> Any:
        return self.whole.query(self.caller.asks(turn))

    async def aquery(self, turn: int) -> Any:
        return await self.whole.aquery(self.caller.asks(turn))

    async def stream(self, turn: int) -> Any:
        answer: Any = await asyncio.to_thread(self.streamed.query, self.caller.asks(turn))
        return "".join(answer.response_gen)

    async def astream(self, turn: int) -> Any:
        answer: Any = await self.streamed.aquery(self.caller.asks(turn))
        return "".join([part async for part in answer.async_response_gen()])


class Chats:
    """A caller's chat with a memory of its own."""

    def __init__(self, retriever: CtxArithRetriever, caller: Caller) -> None:
        self.caller = caller
        self.model = Speaker(quotes)
        self.memory: CtxArithMemory = build_memory(token_limit=LIMIT)
        self.chat = CondensePlusContextChatEngine.from_defaults(
            retriever,
            llm=self.model,
            memory=self.memory,
            node_postprocessors=[EvidencePacket()],
            skip_condense=True,
        )

    def query(self, turn: int) -> Any:
        return self.chat.chat(self.caller.asks(turn))

    async def aquery(self, turn: int) -> Any:
        return await self.chat.achat(self.caller.asks(turn))

    async def stream(self, turn: int) -> Any:
        answer = await asyncio.to_thread(self.chat.stream_chat, self.caller.asks(turn))
        return await asyncio.to_thread(lambda: "".join(answer.response_gen))

    async def astream(self, turn: int) -> Any:
        answer = await self.chat.astream_chat(self.caller.asks(turn))
        return "".join([part async for part in answer.async_response_gen()])


@pytest.mark.parametrize("kind", [Queries, Chats])
def test_thirty_turns_of_three_callers_at_once_never_mix(retriever: CtxArithRetriever, kind: Any) -> None:
    async def turns(caller: Caller) -> list[str]:
        stages = []
        with acting_as(caller.principal, thread_id=caller.thread):
            asking = kind(retriever, caller)
            for turn in range(TURNS):
                answer = str(await every_way(asking, turn))
                assert f"For the {TOPICS[topic_of(turn)]} they ask" in answer
                assert caller.secret in answer
                stages.append((await asyncio.to_thread(retriever.result, caller.asks(turn))).trace.stage)
            clean(caller, *asking.model.prompts)
        return stages

    async def together() -> list[list[str]]:
        return list(await asyncio.gather(*map(turns, CALLERS)))

    with CitationLedger(retriever=retriever).listening():
        for stages in asyncio.run(together()):
            assert stages.count("cited") == TURNS
    for caller in CALLERS:
        session = retriever.corpus.session(caller.thread, principal=caller.principal)
        assert set(session.cited) == {f"{topic}.pdf" for topic in TOPICS}


def test_follow_ups_are_answered_from_the_cited_set_and_new_topics_from_the_corpus(
    retriever: CtxArithRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = RetrieverQueryEngine.from_args(retriever, llm=Speaker(quotes))
    stages: list[str] = []
    seen = retriever.result

    def noted(query: Any) -> Any:
        found = seen(query)
        stages.append(found.trace.stage)
        return found

    monkeypatch.setattr(retriever, "result", noted)
    with acting_as(CALLERS[0].principal, thread_id="t"):
        for turn in range(TURNS):
            assert f"For the {TOPICS[topic_of(turn)]}" in str(engine.query(CALLERS[0].asks(turn)))
        assert stages == ["corpus"] * len(TOPICS) + ["cited"] * (TURNS - len(TOPICS))
        retriever.corpus.add([{"id": "acme-fee", "tenant": "acme", "text": "closed", "audience": ["board"]}])
        answer = engine.query(CALLERS[0].asks(0))
    assert "acme-fee" not in [one.node_id for one in answer.source_nodes]


def test_three_chats_in_threads_keep_their_own_memory_within_its_limit(retriever: CtxArithRetriever) -> None:
    def chat(caller: Caller) -> list[str]:
        with acting_as(caller.principal, thread_id=caller.thread):
            asking = Chats(retriever, caller)
            asking.chat.chat(f"We decided that {caller.principal.user} pays in May.")
            for turn in range(TURNS):
                asking.query(turn)
                given = [str(message.content) for message in asking.memory.get()]
                assert sum(len(get_tokenizer()(text)) for text in given) <= LIMIT
            clean(caller, *asking.model.prompts, *given)
            return given

    with ThreadPoolExecutor(3) as pool:
        for caller, given in zip(CALLERS, pool.map(chat, CALLERS), strict=True):
            assert f"{caller.principal.user} pays in May" in given[0]
            names = {one.principal.user for one in CALLERS} - {caller.principal.user}
            assert not any(f"{name} pays" in text for name in names for text in given)


class Agent:
    """An agent with one tool, a memory of its own, and every prompt that its model was given."""

    def __init__(self, retriever: CtxArithRetriever, *, streaming: bool) -> None:
        self.prompts: list[str] = []
        self.memory = build_memory(token_limit=LIMIT)
        tool = RetrieverTool.from_defaults(
            retriever, node_postprocessors=[EvidencePacket()], name="search", description="Finds evidence."
        )
        self.agent = FunctionAgent(
            tools=[tool],
            llm=MockFunctionCallingLLM(response_generator=self._answer),
            system_prompt="Answer from the evidence.",
            streaming=streaming,
        )

    def _answer(self, messages: Any, **_: Any) -> ChatMessage:
        self.prompts.append("\n".join(str(message.content) for message in messages))
        last = messages[-1]
        if last.role == MessageRole.TOOL:
            mark = str(last.content).partition("ctx_citation: ")[2].partition("\n")[0]
            return ChatMessage(role=MessageRole.ASSISTANT, content=f"{quotes(str(last.content))} {mark}")
        question = [message for message in messages if message.role == MessageRole.USER][-1]
        call = ToolCallBlock(
            tool_call_id=f"c{len(self.prompts)}",
            tool_name="search",
            tool_kwargs={"input": str(question.content)},
        )
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[call])


@pytest.mark.parametrize("streaming", [False, True])
def test_thirty_turns_of_agents_with_memory_and_ledger(retriever: CtxArithRetriever, streaming: bool) -> None:
    ledger = CitationLedger(retriever=retriever)

    async def turns(caller: Caller) -> list[str]:
        with acting_as(caller.principal, thread_id=caller.thread):
            made = Agent(retriever, streaming=streaming)
            for turn in range(TURNS):
                run = made.agent.run(caller.asks(turn), memory=made.memory)
                answer = str(await ledger.follow(run))
                assert f"For the {TOPICS[topic_of(turn)]} they ask" in answer
                assert retriever.session().cited[-1] == f"{topic_of(turn)}.pdf"  # type: ignore[union-attr]
            clean(caller, *made.prompts)
            everything = await made.memory.aget_all()
            assert sum(message.role == MessageRole.TOOL for message in everything) == TURNS
            return [str(message.content) for message in await made.memory.aget()]

    async def together() -> list[list[str]]:
        return list(await asyncio.gather(*map(turns, CALLERS[1:])))

    for caller, given in zip(CALLERS[1:], asyncio.run(together()), strict=True):
        clean(caller, *given)
        assert sum(len(get_tokenizer()(text)) for text in given) <= LIMIT
        assert "<conversation>" in given[0]
