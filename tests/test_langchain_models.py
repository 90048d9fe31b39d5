"""A chat model behind a memory and at ingest: checked, and heard by nobody in the run that called it."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel, FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph

from ctxarith import ArgumentError, Corpus, RecordError, RollingMemory, Slot
from ctxarith.conversation import Message, Summary
from langchain_ctxarith import ChatHistories, chat_slots, chat_summarizer
from langchain_ctxarith.messages import is_summary
from tests.conftest import NOW
from tests.fakes import WordEmbedder

pytestmark = pytest.mark.filterwarnings("error")

SECRET = "kingfisher"
EMPTY = Summary()


class Telling(BaseChatModel):
    """Answers with what a function of the prompt says, and remembers how it was called."""

    answer: Any
    seen: list[dict[str, Any]]

    @property
    def _llm_type(self) -> str:
        return "telling"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self.seen.append({"tags": run_manager.tags, "metadata": run_manager.metadata, **kwargs})
        plain = self.answer(str(messages[-1].content))
        if "tools" in kwargs:
            name = kwargs["tools"][0].__name__
            message = AIMessage("", tool_calls=[{"name": name, "args": plain, "id": "c1"}])
        else:
            message = AIMessage(json.dumps(plain))
        return ChatResult(generations=[ChatGeneration(message=message)])


class Structured(Telling):
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(tools=tools)


def first_turn(prompt: str) -> dict[str, Any]:
    """The sentence of the first turn in the prompt, as a decision."""
    turns = prompt.rpartition("Turns:\n")[2].splitlines()
    number = int(turns[0].partition(";")[0].strip("["))
    return {"points": [{"kind": "decision", "text": f"The {SECRET} was agreed on.", "turns": [number]}]}


def summarised(memory: RollingMemory) -> list[str]:
    for n in range(12):
        memory.append("user", f"We agreed that pump {n} costs {n}00 EUR.")
    assert memory.flush(), memory.status
    assert memory.status.failures == 0
    return [point.text for point in memory.summary.points]


@pytest.mark.parametrize("kind", [Telling, Structured])
def test_a_chat_model_summarises_with_or_without_structured_output(kind: type[Telling]) -> None:
    model = kind(answer=first_turn, seen=[])
    with RollingMemory(thread_id="t1", summarizer=chat_summarizer(model), keep_recent=2) as m:
        assert f"The {SECRET} was agreed on." in summarised(m)
    assert ("tools" in model.seen[0]) == (kind is Structured)
    assert "nostream" in model.seen[0]["tags"]
    assert model.seen[0]["metadata"]["lc_source"] == "ctxarith_summary"


def test_a_runnable_made_of_a_model_summarises_too() -> None:
    model = Telling(answer=first_turn, seen=[]).with_retry(stop_after_attempt=2)
    with RollingMemory(thread_id="t1", summarizer=chat_summarizer(model), keep_recent=2) as m:
        assert f"The {SECRET} was agreed on." in summarised(m)


def failing(prompt: str) -> Any:
    raise ConnectionError("overloaded")


@pytest.mark.parametrize(
    "answer", [failing, lambda prompt: "Error: overloaded", lambda prompt: {"points": 7}]
)
def test_a_failed_summary_leaves_the_history_untouched_issue_38867(answer: Any) -> None:
    histories = ChatHistories(
        max_tokens=150,
        keep_recent=2,
        summarizer=chat_summarizer(Structured(answer=answer, seen=[])),
        clock=lambda: NOW,
    )
    said = [HumanMessage(f"We agreed that pump {n} costs {n}00 EUR.") for n in range(20)]
    with histories:
        histories("s1").add_messages(said)
        assert not histories("s1").memory.flush()
        assert histories("s1").memory.status.failures > 0
        assert histories("s1").memory.status.covers == 0
        summary, *rest = histories("s1").messages
        assert is_summary(summary)
        assert "verloaded" not in str(summary.content)
        assert str(summary.content).startswith("Summary of turns 1-14:\nDecisions:\n")
        assert rest[-1] == said[-1]
        assert len(histories("s1").memory.turns) == 20


def test_turns_go_on_while_a_slow_model_summarises_issue_8746() -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(prompt: str) -> dict[str, Any]:
        begun.set()
        go.wait(30)
        return first_turn(prompt)

    model = Telling(answer=slow, seen=[])
    with ChatHistories(max_tokens=150, keep_recent=2, summarizer=chat_summarizer(model)) as histories:
        history = histories("s1")
        for n in range(60):
            history.add_messages([HumanMessage(f"We agreed that pump {n} costs {n}00 EUR.")])
            assert history.messages[-1].content == f"We agreed that pump {n} costs {n}00 EUR."
            assert history.memory.window().tokens <= 150
        assert begun.wait(10)
        assert (history.memory.status.covers, len(model.seen)) == (0, 1)
        go.set()
        assert history.memory.wait(30)
        assert history.memory.status.covers > 0
        assert len(history.memory.turns) == 60


class Hearing(BaseCallbackHandler):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.heard.append(str(messages))

    def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        self.heard.append(str(token))

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.heard.append(str(inputs))


def slots_of(prompt: str) -> AIMessage:
    found = {"slots": [{"attribute": "code", "value": SECRET}]}
    return AIMessage(json.dumps(found))


@pytest.mark.parametrize("mode", ["messages", "events"])
async def test_no_token_of_a_summary_or_of_slots_leaks_into_the_stream_issue_9455(mode: str) -> None:
    point = json.dumps(first_turn("Turns:\n[1; "))
    summaries = GenericFakeChatModel(messages=iter([AIMessage(point)] * 50))
    reading = GenericFakeChatModel(messages=iter([slots_of("")] * 50))
    talking = GenericFakeChatModel(messages=iter([AIMessage("hello there")] * 50))
    corpus = Corpus.in_memory(embedder=WordEmbedder(), slots=chat_slots(reading))
    summarise = chat_summarizer(summaries)
    turns = [Message("user", "We agreed on it.", 1)]

    def answer(state: MessagesState) -> dict[str, Any]:
        # Both in the thread of the run, where everything of it could be inherited.
        text = f"The code is {SECRET}."
        corpus.add([{"id": "r1", "text": text, "metadata": {"lead_id": "GJ-1"}}])
        summarise(EMPTY, turns)
        return {"messages": [talking.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    agent = graph.compile()
    hearing = Hearing()
    config: RunnableConfig = {"callbacks": [hearing]}
    asked: Any = {"messages": [HumanMessage("hi")]}
    seen: list[str] = []
    if mode == "messages":
        async for part in agent.astream(asked, config, stream_mode="messages"):
            seen.append(str(part))
    else:
        async for event in agent.astream_events(asked, config, version="v2"):
            seen.append(str(event))
    assert corpus.get(["r1"])[0].slots[0].value == SECRET
    assert any("there" in one for one in seen)
    assert any("there" in one for one in hearing.heard)
    assert not any(SECRET in one for one in (*seen, *hearing.heard))
    corpus.close()


def test_slots_are_read_at_ingest_and_never_at_a_question() -> None:
    model = Structured(answer=lambda prompt: {"slots": [{"attribute": "fee", "value": "12 EUR"}]}, seen=[])
    slots = chat_slots(model, attributes={"fee": "what is asked for a place"})
    with Corpus.in_memory(embedder=WordEmbedder(), slots=slots) as corpus:
        corpus.add([{"id": "r1", "text": "The fee is 12 EUR.", "metadata": {"lead_id": "GJ-1"}}])
        corpus.retrieve("what is the fee?")
        assert corpus.get(["r1"])[0].slots == (Slot("GJ-1", "fee", "12 EUR", inferred=True),)
    assert len(model.seen) == 1
    assert model.seen[0]["metadata"]["lc_source"] == "ctxarith_slots"


def test_a_structured_answer_that_is_none_is_an_error_and_writes_nothing() -> None:
    model = Structured(answer=lambda prompt: {"slots": "none"}, seen=[])
    with (
        Corpus.in_memory(embedder=WordEmbedder(), slots=chat_slots(model)) as corpus,
        pytest.raises(RecordError, match="record 'r1', field 'slots'"),
    ):
        corpus.add([{"id": "r1", "text": "The fee is 12 EUR.", "metadata": {"lead_id": "GJ-1"}}])


@pytest.mark.parametrize(
    ("model", "structured", "named"),
    [
        (lambda prompt: "{}", None, "model"),
        ("openai:gpt", None, "model"),
        (FakeListChatModel(responses=["{}"]), True, "structured"),
        (RunnableLambda(lambda prompt: "{}"), True, "structured"),
    ],
)
def test_what_is_no_model_or_has_no_structured_output_is_refused(
    model: Any, structured: bool | None, named: str
) -> None:
    for make in (chat_summarizer, chat_slots):
        with pytest.raises(ArgumentError, match=named):
            make(model, structured=structured)
