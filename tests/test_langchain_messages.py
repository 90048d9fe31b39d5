"""LangChain messages through a memory and back: nothing is lost, and calls keep their results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from ctxarith import ArgumentError, BudgetError, RollingMemory
from langchain_ctxarith.messages import as_langchain, as_turn, is_summary
from langchain_ctxarith.spoken import remember, window_messages
from tests.conftest import NOW
from tests.fakes import WordEmbedder

pytestmark = pytest.mark.filterwarnings("error")

IMAGE = {"type": "image", "base64": "iVBORw0KGgo" * 200, "mime_type": "image/png"}


def made(**options: Any) -> RollingMemory:
    options = {"thread_id": "t1", "clock": lambda: NOW, "embedder": WordEmbedder(), **options}
    return RollingMemory(**options)


@pytest.fixture
def memory() -> Iterator[RollingMemory]:
    with made() as memory:
        yield memory


def calling(*names: str, **given: Any) -> AIMessage:
    calls = [{"name": "search", "args": {"query": name}, "id": name, "type": "tool_call"} for name in names]
    return AIMessage("", tool_calls=calls, **given)


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | text
plain = st.recursive(
    scalars, lambda one: st.lists(one, max_size=2) | st.dictionaries(text, one, max_size=2), max_leaves=5
)
mappings = st.dictionaries(text, plain, max_size=3)
blocks = st.one_of(
    text,
    text.map(lambda said: {"type": "text", "text": said}),
    text.map(lambda said: {"type": "image", "base64": said * 99, "mime_type": "image/png"}),
    text.map(lambda said: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{said}"}}),
    text.map(lambda said: {"type": "reasoning", "reasoning": said}),
)
content = text | st.lists(blocks, max_size=3)
names = st.none() | text.filter(bool)
extras: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"content": content, "additional_kwargs": mappings, "response_metadata": mappings, "id": names},
    optional={"name": names},
)
calls = st.lists(
    st.builds(
        lambda name, args, call_id: {"name": name, "args": args, "id": call_id, "type": "tool_call"},
        text,
        mappings,
        names,
    ),
    max_size=2,
)
broken = st.lists(
    st.builds(
        lambda args, call_id: {
            **{"name": "search", "args": args, "id": call_id},
            **{"error": "not JSON", "type": "invalid_tool_call"},
        },
        text,
        names,
    ),
    max_size=1,
)
messages = st.one_of(
    extras.map(lambda told: HumanMessage(**told)),
    extras.map(lambda told: SystemMessage(**told)),
    st.builds(lambda told, role: ChatMessage(role=role, **told), extras, text),
    st.builds(
        lambda told, made, wrong: AIMessage(**told, tool_calls=made, invalid_tool_calls=wrong),
        extras,
        calls,
        broken,
    ),
    st.builds(
        lambda told, call_id, artifact, status: ToolMessage(
            **told, tool_call_id=call_id, artifact=artifact, status=status
        ),
        extras,
        text,
        plain,
        st.sampled_from(["success", "error"]),
    ),
    st.builds(lambda told, name: FunctionMessage(**{**told, "name": name}), extras, text),
)


@given(messages)
def test_a_message_comes_back_equal_as_a_turn(message: BaseMessage) -> None:
    assert as_langchain(as_turn(message)) == message


@given(st.lists(messages, max_size=4))
def test_a_thread_of_any_messages_comes_back_equal_and_in_order(said: list[BaseMessage]) -> None:
    numbered = [one.model_copy(update={"id": f"m{place}"}) for place, one in enumerate(said)]
    with made(max_tokens=50_000) as memory:
        remember(memory, numbered)
        assert [as_langchain(turn) for turn in memory.turns] == numbered


def test_messages_come_back_equal_from_a_folder(tmp_path: Path) -> None:
    said = [
        HumanMessage(["What is this?", IMAGE], id="m1", name="Meera"),
        calling("c1", id="m2", usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}),
        ToolMessage("a valve", tool_call_id="c1", status="error", id="m3"),
        AIMessage("A valve.", response_metadata={"model": "m", "logprobs": [0.25]}),
    ]
    with made(path=tmp_path) as memory:
        remember(memory, said)
    with made(path=tmp_path) as memory:
        assert [as_langchain(turn) for turn in memory.turns] == said
        assert window_messages(memory.window()) == said


def test_an_image_is_neither_counted_nor_summarised_by_its_bytes() -> None:
    turn = as_turn(HumanMessage([{"type": "text", "text": "What is this?"}, IMAGE]))
    assert turn.content.startswith("What is this?\n")
    assert "image/png" in turn.content
    assert "(2200 characters)" in turn.content
    assert "iVBOR" not in turn.content


def test_a_call_in_a_providers_own_block_is_counted_once() -> None:
    block = {"type": "tool_use", "id": "c1", "name": "search", "input": {"query": "c1"}}
    message = calling("c1").model_copy(update={"content": [{"type": "text", "text": "Looking."}, block]})
    turn = as_turn(message)
    assert turn.content == "Looking."
    assert [(call.id, call.name, call.arguments) for call in turn.tool_calls] == [
        ("c1", "search", '{"query": "c1"}')
    ]


def test_an_artifact_without_json_is_left_out_and_one_with_json_is_kept() -> None:
    def kept(artifact: Any) -> Any:
        message = as_langchain(as_turn(ToolMessage("found", tool_call_id="c1", artifact=artifact)))
        assert isinstance(message, ToolMessage)
        return message.artifact

    assert kept(object()) is None
    assert kept([Document("x", id="d1")])[0]["id"] == "d1"


@pytest.mark.parametrize(
    "message",
    [
        RemoveMessage(id="m1"),
        HumanMessage("hello", additional_kwargs={"seen": object()}),
        "hello",
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_appended(
    message: Any, memory: RollingMemory
) -> None:
    with pytest.raises(ArgumentError, match="message="):
        remember(memory, [HumanMessage("first"), message])
    assert memory.turns == ()


def test_a_streamed_answer_is_kept_as_the_whole_message(memory: RollingMemory) -> None:
    remember(memory, [AIMessageChunk(content="It is ", id="m1") + AIMessageChunk(content="12.", id="m1")])
    assert window_messages(memory.window()) == [AIMessage("It is 12.", id="m1")]


def test_no_role_of_another_name_passes_for_the_user() -> None:
    roles = [
        as_turn(ChatMessage(content="x", role=role)).role for role in ("user", "developer", "critic", "tool")
    ]
    assert roles == ["user", "system", "assistant", "assistant"]


def test_a_turn_of_the_core_becomes_a_message(memory: RollingMemory) -> None:
    memory.append("user", "What is the fee?", id="m1")
    memory.append("assistant", tool_calls=[{"id": "c1", "name": "search", "arguments": {"query": "fee"}}])
    memory.append("tool", "12 EUR", answers="c1")
    assert window_messages(memory.window()) == [
        HumanMessage("What is the fee?", id="m1"),
        AIMessage("", tool_calls=[{"name": "search", "args": {"query": "fee"}, "id": "c1"}]),
        ToolMessage("12 EUR", tool_call_id="c1"),
    ]


def test_the_same_message_twice_is_one_turn_and_two_under_one_id_are_two(memory: RollingMemory) -> None:
    first, other = HumanMessage("The fee is 40.", id="m1"), HumanMessage("The fee is 45.", id="m1")
    for _ in range(2):
        remember(memory, [first, other])
    assert [as_langchain(turn) for turn in memory.turns] == [first, other]


def test_the_summary_stands_behind_the_system_messages_and_is_nobodys_word() -> None:
    with made(max_tokens=100, keep_recent=2) as memory:
        remember(memory, [SystemMessage("Be brief.")])
        for n in range(12):
            remember(memory, [HumanMessage(f"We agreed that pump {n} costs {n}00 EUR."), AIMessage("Noted.")])
        memory.flush()
        system, summary, *turns = window_messages(memory.window())
        assert system == SystemMessage("Be brief.")
        assert isinstance(summary, SystemMessage)
        assert is_summary(summary)
        assert str(summary.content).startswith("Summary of turns 1-")
        assert turns[-1] == AIMessage("Noted.")
        remember(memory, [summary])
        assert len(memory.turns) == 25


def test_a_message_that_was_cut_is_shown_cut_and_kept_whole() -> None:
    whole = HumanMessage("Long story. " * 130 + "so which valve is it?", id="m1", additional_kwargs={"a": 1})
    with made(max_tokens=100) as memory:
        remember(memory, [whole])
        (shown,) = [m for m in window_messages(memory.window()) if not is_summary(m)]
        assert str(shown.content).startswith("[...] ")
        assert str(shown.content).endswith("so which valve is it?")
        assert (shown.id, shown.additional_kwargs) == ("m1", {})
        assert [as_langchain(turn) for turn in memory.turns] == [whole]


def test_results_stand_behind_their_calls_and_orphans_nowhere_issue_38352(memory: RollingMemory) -> None:
    result, orphan = ToolMessage("31 degrees", tool_call_id="c1"), ToolMessage("?", tool_call_id="c9")
    remember(memory, [orphan, calling("c1"), HumanMessage("Are you there?"), result, AIMessage("Yes.")])
    assert window_messages(memory.window()) == [
        calling("c1"),
        result,
        HumanMessage("Are you there?"),
        AIMessage("Yes."),
    ]


def test_a_call_that_nobody_answered_is_left_out_unless_it_is_the_last(memory: RollingMemory) -> None:
    remember(memory, [HumanMessage("Weather?"), calling("c1", "c2")])
    assert window_messages(memory.window())[-1] == calling("c1", "c2")
    remember(memory, [ToolMessage("31", tool_call_id="c2"), HumanMessage("And now?"), calling("c3")])
    remember(memory, [HumanMessage("Hello?")])
    assert window_messages(memory.window())[1:] == [
        calling("c2"),
        ToolMessage("31", tool_call_id="c2"),
        HumanMessage("And now?"),
        HumanMessage("Hello?"),
    ]


def test_a_function_message_is_the_result_of_the_call_by_its_name(memory: RollingMemory) -> None:
    call = AIMessage("", additional_kwargs={"function_call": {"name": "fee", "arguments": "{}"}})
    said = [call, FunctionMessage(content="12", name="fee"), AIMessage("It is 12.")]
    remember(memory, said)
    assert window_messages(memory.window()) == said


def test_the_copy_of_a_message_is_neither_counted_nor_shown() -> None:
    message = AIMessage("It is 12.", additional_kwargs={"secret": "of the provider"})
    with made() as memory, made(thread_id="t2") as bare:
        remember(memory, [message])
        bare.append("assistant", "It is 12.")
        assert memory.window().text == bare.window().text
        assert dataclasses.replace(memory.turns[0], native=None) == bare.turns[0]


ids = st.sampled_from(["c1", "c2", "c3", "c4"])
talk = st.one_of(
    st.sampled_from([1, 9, 40]).map(lambda n: HumanMessage("How is the weather there? " * n)),
    st.lists(ids, min_size=1, max_size=2, unique=True).map(lambda names: calling(*names)),
    ids.map(lambda name: ToolMessage("It is 31 degrees. " * 6, tool_call_id=name)),
    st.just(AIMessage("It is warm.")),
    st.just(SystemMessage("Be brief.")),
)


@given(st.lists(talk, max_size=14), st.integers(48, 160))
def test_a_provider_takes_every_window_issue_34282(said: list[BaseMessage], bound: int) -> None:
    with made(max_tokens=160, keep_recent=3) as memory:
        try:
            remember(memory, said)
            shown = window_messages(memory.window(bound))
        except BudgetError:
            return  # too many system messages, which are never cut
        waiting: set[str] = set()
        for place, message in enumerate(shown):
            if isinstance(message, ToolMessage):
                assert message.tool_call_id in waiting
                waiting.remove(message.tool_call_id)
            else:
                assert not waiting
                calls = message.tool_calls if isinstance(message, AIMessage) else []
                waiting = {str(call["id"]) for call in calls}
            if isinstance(message, SystemMessage):
                assert all(isinstance(one, SystemMessage) for one in shown[:place])
