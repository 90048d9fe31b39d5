"""Chat histories: bounded, durable, apart, and off the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster, BlockingError
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langgraph.store.memory import InMemoryStore

from ctxarith import ArgumentError, CorpusClosed, Principal, PrincipalRequired
from ctxarith.conversation import Summary
from langchain_ctxarith import ChatHistories, CtxArithChatMessageHistory
from langchain_ctxarith.messages import is_summary
from tests.conftest import NOW
from tests.fakes import WordEmbedder

# LangChain deprecates the class that runs a history; nothing else may warn.
pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore:.*RunnableWithMessageHistory"),
]

SHOWN: list[list[BaseMessage]] = []


def echo(messages: Sequence[BaseMessage]) -> AIMessage:
    SHOWN.append(list(messages))
    return AIMessage(f"You said: {messages[-1].content}")


@pytest.fixture(autouse=True)
def nothing_shown() -> None:
    SHOWN.clear()


Make = Callable[..., ChatHistories]


@pytest.fixture
def make() -> Iterator[Make]:
    opened: list[ChatHistories] = []

    def made(**options: Any) -> ChatHistories:
        options = {"clock": lambda: NOW, "embedder": WordEmbedder(), **options}
        opened.append(ChatHistories(**options))
        return opened[-1]

    yield made
    for histories in opened:
        histories.close()


def session(name: str) -> Any:
    return {"configurable": {"session_id": name}}


def contents(messages: Sequence[BaseMessage]) -> list[Any]:
    return [message.content for message in messages]


@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream", "astream", "batch"])
def test_a_chain_remembers_its_session_in_every_style_of_call(mode: str, make: Make) -> None:
    histories = make()
    chain = RunnableWithMessageHistory(RunnableLambda(echo), histories)

    def ask(text: str, name: str) -> None:
        said, config = [HumanMessage(text)], session(name)
        match mode:
            case "invoke":
                chain.invoke(said, config)
            case "ainvoke":
                asyncio.run(chain.ainvoke(said, config))
            case "stream":
                list(chain.stream(said, config))
            case "batch":
                chain.batch([said], [config])
            case _:

                async def stream() -> None:
                    async for _ in chain.astream(said, config):
                        pass

                asyncio.run(stream())

    ask("I am Meera.", "s1")
    ask("I am Akbar.", "s2")
    ask("Who am I?", "s1")
    assert contents(SHOWN[-1]) == ["I am Meera.", "You said: I am Meera.", "Who am I?"]
    assert contents(histories("s2").messages) == ["I am Akbar.", "You said: I am Akbar."]
    assert len(histories("s1").messages) == 4


def test_a_chain_with_a_prompt_and_keys_remembers_too(make: Make) -> None:
    histories = make()
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be brief."), MessagesPlaceholder("past"), ("human", "{question}")]
    )
    model = GenericFakeChatModel(messages=iter([AIMessage("It is 12."), AIMessage("Since May.")]))
    chain = RunnableWithMessageHistory(
        prompt | model, histories, input_messages_key="question", history_messages_key="past"
    )
    chain.invoke({"question": "What is the fee?"}, session("s1"))
    chain.invoke({"question": "Since when?"}, session("s1"))
    assert contents(histories("s1").messages) == [
        "What is the fee?",
        "It is 12.",
        "Since when?",
        "Since May.",
    ]


def test_what_a_run_is_shown_stays_while_it_runs_so_that_no_turn_is_lost(make: Make) -> None:
    histories = make(max_tokens=120, keep_recent=2)

    def slow(messages: Sequence[BaseMessage]) -> AIMessage:
        # Meanwhile the window changes: another run says something, and a summary is made.
        other = histories("s1")
        other.add_messages([HumanMessage(f"Aside {len(SHOWN)}."), AIMessage("Noted.")])
        other.memory.flush()
        return echo(messages)

    chain = RunnableWithMessageHistory(RunnableLambda(slow), histories)
    for n in range(12):
        chain.invoke([HumanMessage(f"We agreed that pump {n} costs {n}00 EUR.")], session("s1"))
    turns = contents([*histories("s1").memory.turns])  # type: ignore[list-item]
    said = [f"We agreed that pump {n} costs {n}00 EUR." for n in range(12)]
    assert [text for text in turns if text in said] == said
    assert len(turns) == 48


def test_runs_at_once_in_one_session_keep_what_each_was_asked(make: Make) -> None:
    histories = make(max_tokens=150, keep_recent=2)
    chain = RunnableWithMessageHistory(RunnableLambda(echo), histories)
    asked = [f"We agreed that pump {n} costs {n}00 EUR." for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: chain.invoke([HumanMessage(text)], session("s1")), asked))
    turns = [turn.content for turn in histories("s1").memory.turns]
    assert sorted(text for text in turns if text in asked) == sorted(asked)
    assert len(turns) == 80


def test_a_thread_is_named_by_text_a_number_or_a_uuid_and_by_nothing_else(make: Make) -> None:
    histories, name = make(), uuid.uuid4()
    histories(name).add_user_message("hello")  # type: ignore[arg-type]
    assert contents(histories(str(name)).messages) == ["hello"]
    assert histories(7).messages == []  # type: ignore[arg-type]
    for wrong in ("", " ", None, True, b"t1"):
        with pytest.raises(ArgumentError, match="thread_id"):
            histories(wrong)  # type: ignore[arg-type]


def test_the_window_is_bounded_and_the_raw_turns_are_whole(make: Make) -> None:
    store = InMemoryStore()
    windows, raw = make(store=store, max_tokens=150, keep_recent=2), make(store=store, raw=True)
    said: list[BaseMessage] = [SystemMessage("Be brief.")]
    for n in range(40):
        said += [HumanMessage(f"We agreed that pump {n} costs {n}00 EUR."), AIMessage("Noted.")]
    windows("s1").add_messages(said)
    assert windows("s1").memory.flush()
    shown = windows("s1").messages
    assert windows("s1").memory.window().tokens <= 150
    assert shown[0] == said[0]
    assert is_summary(shown[1])
    assert shown[-2:] == said[-2:]
    assert not any(isinstance(message, HumanMessage) for message in shown[:2])
    assert raw("s1").messages == said


@pytest.mark.parametrize("kind", ["path", "store"])
def test_a_session_survives_a_restart_in_the_middle_of_a_summary(
    kind: str, make: Make, tmp_path: Path
) -> None:
    place: dict[str, Any] = {"path": tmp_path} if kind == "path" else {"store": InMemoryStore()}
    begun, never = threading.Event(), threading.Event()

    def hanging(previous: Summary, turns: Any) -> str:
        begun.set()
        never.wait()
        return ""

    bounds = {"max_tokens": 150, "keep_recent": 2}
    histories = make(**place, **bounds, summarizer=hanging)
    said = [HumanMessage(f"We agreed that pump {n} costs {n}00 EUR.", id=f"m{n}") for n in range(30)]
    histories("s1").add_messages(said)
    assert begun.wait(10)
    histories.close()
    with pytest.raises(CorpusClosed):
        _ = histories("s1").messages
    again = make(**place, **bounds)
    assert contents([*again("s1").memory.turns]) == contents(said)  # type: ignore[list-item]
    assert again("s1").memory.wait(10)
    assert is_summary(again("s1").messages[0])
    assert again("s1").messages[-1] == said[-1]
    never.set()


def test_callers_who_name_one_thread_have_a_thread_each(make: Make) -> None:
    histories = make()
    chain = RunnableWithMessageHistory(
        RunnableLambda(echo), histories.of_caller, history_factory_config=histories.caller_specs
    )
    callers = [
        Principal("acme", user="meera"),
        Principal("acme", user="akbar"),
        Principal("beta", user="meera"),
        Principal("acme", groups=["sales"]),
        Principal("acme", scopes=["x" * 600]),
    ]

    def ask(n: int) -> None:
        caller = callers[n % 5]
        chain.invoke(
            [HumanMessage(f"secret of {n % 5}")], {"configurable": {"principal": caller, "thread_id": "t1"}}
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(5)))
    for n, caller in enumerate(callers):
        told = contents(histories.of_caller(caller, "t1").messages)
        assert told == [f"secret of {n}", f"You said: secret of {n}"]
        assert histories.of_caller(caller, "t2").messages == []
    assert histories("t1").messages == []


@pytest.mark.parametrize(
    ("principal", "error"), [(None, PrincipalRequired), ("acme", ArgumentError), ({}, ArgumentError)]
)
def test_a_caller_that_a_client_could_have_sent_is_refused(
    principal: Any, error: type[Exception], make: Make
) -> None:
    histories = make()
    chain = RunnableWithMessageHistory(
        RunnableLambda(echo), histories.of_caller, history_factory_config=histories.caller_specs
    )
    with pytest.raises(error):
        chain.invoke([HumanMessage("hi")], {"configurable": {"principal": principal, "thread_id": "t1"}})


@pytest.mark.parametrize("kind", ["path", "memory", "store"])
async def test_the_async_twins_do_not_block_the_loop(kind: str, tmp_path: Path) -> None:
    places: dict[str, dict[str, Any]] = {
        "path": {"path": tmp_path},
        "memory": {},
        "store": {"store": InMemoryStore()},
    }
    place = places[kind]
    histories = await asyncio.to_thread(ChatHistories, max_tokens=200, keep_recent=2, **place)
    chain = RunnableWithMessageHistory(RunnableLambda(echo, afunc=aecho), histories)
    blocking = BlockBuster()
    blocking.activate()
    try:
        with pytest.raises(BlockingError):
            time.sleep(0.001)  # the guard is awake
        for n in range(12):
            await chain.ainvoke([HumanMessage(f"We agreed that pump {n} costs {n}00 EUR.")], session("s1"))
        alone = CtxArithChatMessageHistory("s2", **place)
        await alone.aadd_messages([HumanMessage("hello")])
        assert contents(await alone.aget_messages()) == ["hello"]
        await alone.aclear()
        assert await alone.aget_messages() == []
        shown = await histories("s1").aget_messages()
    finally:
        blocking.deactivate()
        await asyncio.to_thread(alone.close)
        await asyncio.to_thread(histories.close)
    assert shown[-1].content == "You said: We agreed that pump 11 costs 1100 EUR."


async def aecho(messages: Sequence[BaseMessage]) -> AIMessage:
    return echo(messages)


async def test_sync_and_async_give_the_same(make: Make) -> None:
    call = AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "c1"}])
    said = [HumanMessage("Fee?"), call, ToolMessage("12", tool_call_id="c1"), AIMessage("It is 12.")]
    histories = make()
    await histories("s1").aadd_messages(said)
    histories("s2").add_messages(said)
    assert await histories("s1").aget_messages() == histories("s2").messages == said


def test_a_history_of_one_memory_is_closed_by_whoever_opened_it(tmp_path: Path) -> None:
    with CtxArithChatMessageHistory("s1", path=tmp_path, user="meera") as history:
        history.add_user_message("hello")
        with CtxArithChatMessageHistory.from_memory(history.memory, raw=True) as again:
            assert contents(again.messages) == ["hello"]
        history.add_ai_message("hi")
        assert contents(history.messages) == ["hello", "hi"]
        history.clear()
        assert history.messages == []
    with pytest.raises(CorpusClosed):
        history.add_user_message("too late")


@pytest.mark.parametrize("wrong", [{"windows": 1}, {"tenant": " "}, {"thread_id": "t1"}])
def test_an_option_that_means_nothing_is_named_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        CtxArithChatMessageHistory("s1", **wrong)


def test_more_sessions_than_are_kept_open_lose_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("langchain_ctxarith.history._MOST_OPEN", 3)
    histories = make()
    for n in range(10):
        histories(f"s{n}").add_user_message(f"{n}")
    assert [contents(histories(f"s{n}").messages) for n in range(10)] == [[f"{n}"] for n in range(10)]


def test_nothing_is_lost_by_default_in_62_messages_and_old_summaries_stay(make: Make) -> None:
    # What langchain's own summaries lose: the first turns, then the earlier summary.
    histories = make(max_tokens=400, keep_recent=4)
    history = histories("s1")
    history.add_user_message("The gate code is KYO-H12.")
    for n in range(61):
        history.add_messages(
            [HumanMessage(f"Pump {n} hums, and its cover is as green as a leaf in May. " * 4)]
        )
        history.memory.wait()
        assert any("KYO-H12" in str(message.content) for message in history.messages)
        assert history.memory.window().tokens <= 400
    assert history.memory.status.summaries > 1
    assert len(history.memory.turns) == 62


def test_one_question_and_huge_results_leave_no_placeholder_issue_39261(make: Make) -> None:
    history = make(max_tokens=300, keep_recent=4)("s1")
    history.add_user_message("Which pump leaks, KYO-H12 or KYO-H13?")
    for n in range(8):
        call = AIMessage("", tool_calls=[{"name": "look", "args": {"n": n}, "id": f"c{n}"}])
        history.add_messages([call, ToolMessage("pressure is fine here. " * 80, tool_call_id=f"c{n}")])
    shown = history.messages
    assert contents([m for m in shown if isinstance(m, HumanMessage)]) == [
        "Which pump leaks, KYO-H12 or KYO-H13?"
    ]
    calls = [call["id"] for m in shown if isinstance(m, AIMessage) for call in m.tool_calls]
    assert [m.tool_call_id for m in shown if isinstance(m, ToolMessage)] == calls
    assert len(history.memory.turns) == 17
