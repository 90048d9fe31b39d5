"""The memory of classic chains: the window under one variable, and only where langchain_classic is there."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster, BlockingError
from langchain_classic.base_memory import BaseMemory
from langchain_classic.chains import ConversationChain
from langchain_core._api import LangChainDeprecationWarning
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import ValidationError

from ctxarith import ArgumentError, MissingExtra
from langchain_ctxarith import CtxArithChatMessageHistory, CtxArithConversationMemory
from langchain_ctxarith.messages import is_summary
from tests.test_import import loaded_by

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def history(tmp_path: Path) -> Iterator[CtxArithChatMessageHistory]:
    with CtxArithChatMessageHistory("t1", path=tmp_path, max_tokens=150, keep_recent=2) as history:
        yield history


def test_a_classic_chain_remembers_through_it(history: CtxArithChatMessageHistory) -> None:
    model = FakeListChatModel(responses=["Hello Meera.", "You are Meera."])
    memory = CtxArithConversationMemory(chat_memory=history)
    assert isinstance(memory, BaseMemory)
    with pytest.warns(LangChainDeprecationWarning):
        chain = ConversationChain(llm=model, memory=memory)
    chain.invoke({"input": "I am Meera."})
    told = chain.invoke({"input": "Who am I?"})
    assert told["history"] == "user: I am Meera.\nassistant: Hello Meera."
    assert [turn.content for turn in history.memory.turns][2:] == ["Who am I?", "You are Meera."]


def test_messages_or_text_are_bounded_and_the_turns_are_kept(history: CtxArithChatMessageHistory) -> None:
    memory = CtxArithConversationMemory(chat_memory=history, memory_key="past", return_messages=True)
    for n in range(20):
        memory.save_context({"input": f"We agreed that pump {n} costs {n}00 EUR."}, {"output": "Noted."})
    assert history.memory.flush()
    assert memory.memory_variables == ["past"]
    summary, *rest = memory.load_memory_variables({"input": "?"})["past"]
    assert is_summary(summary)
    assert rest[-2:] == [HumanMessage("We agreed that pump 19 costs 1900 EUR."), AIMessage("Noted.")]
    text = memory.model_copy(update={"return_messages": False}).load_memory_variables({})["past"]
    assert text == history.memory.window().text
    assert len(history.memory.turns) == 40
    memory.clear()
    assert memory.load_memory_variables({}) == {"past": []}


def test_what_another_handle_said_is_seen_at_the_next_look(
    history: CtxArithChatMessageHistory, tmp_path: Path
) -> None:
    memory = CtxArithConversationMemory(chat_memory=history)
    memory.save_context({"input": "hello"}, {"output": "hi"})
    memory.load_memory_variables({})
    with CtxArithChatMessageHistory("t1", path=tmp_path) as other:
        other.add_user_message("from elsewhere")
    assert memory.load_memory_variables({})["history"].endswith("user: from elsewhere")


@pytest.mark.parametrize(
    ("keys", "inputs", "outputs", "said"),
    [
        ({}, {"q": "a", "history": "old", "stop": ["x"]}, {"text": "b"}, ["a", "b"]),
        ({"input_key": "q"}, {"q": "a", "lang": "en"}, {"output": "b", "why": "c"}, ["a", "b"]),
        ({"output_key": "why"}, {"q": "a"}, {"output": "b", "why": AIMessage("c")}, ["a", "c"]),
        ({}, {"q": "a", "lang": "en"}, {"output": "b"}, "input_key"),
        ({"input_key": "z"}, {"q": "a"}, {"output": "b"}, "input_key"),
        ({}, {"q": "a"}, {"text": "b", "why": "c"}, "output_key"),
        ({}, {}, {"output": "b"}, "input_key"),
    ],
)
def test_what_was_said_is_clear_or_refused(
    keys: dict[str, Any],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    said: Any,
    history: CtxArithChatMessageHistory,
) -> None:
    memory = CtxArithConversationMemory(chat_memory=history, **keys)
    if isinstance(said, str):
        with pytest.raises(ArgumentError, match=said):
            memory.save_context(inputs, outputs)
        said = []
    else:
        memory.save_context(inputs, outputs)
    assert [turn.content for turn in history.memory.turns] == said


async def test_the_async_twins_do_the_same_and_do_not_block_the_loop(tmp_path: Path) -> None:
    history = CtxArithChatMessageHistory("t1", path=tmp_path)
    blocking = BlockBuster()
    blocking.activate()
    try:
        with pytest.raises(BlockingError):
            time.sleep(0.001)  # the guard is awake
        memory = CtxArithConversationMemory(chat_memory=history)
        await memory.asave_context({"input": "hello"}, {"output": "hi"})
        assert await memory.aload_memory_variables({}) == {"history": "user: hello\nassistant: hi"}
        await memory.aclear()
        assert await memory.aload_memory_variables({}) == {"history": ""}
    finally:
        blocking.deactivate()
        await asyncio.to_thread(history.close)


def test_an_unknown_setting_is_refused_and_a_repr_shows_no_thread(
    history: CtxArithChatMessageHistory,
) -> None:
    with pytest.raises(ValidationError, match="memory_kye"):
        CtxArithConversationMemory(chat_memory=history, memory_kye="past")  # type: ignore[call-arg]
    history.add_user_message("a secret")
    assert "chat_memory" not in repr(CtxArithConversationMemory(chat_memory=history))


def test_without_langchain_classic_the_package_is_imported_and_the_class_names_the_pip_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str, *rest: Any) -> Any:
        return None if name == "langchain_classic" else found(name, *rest)

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", absent)
    for name in [name for name in sys.modules if name.startswith("langchain_ctxarith")]:
        monkeypatch.delitem(sys.modules, name)
    package = importlib.import_module("langchain_ctxarith")
    assert package.CtxArithRetriever.__name__ == "CtxArithRetriever"
    with pytest.raises(MissingExtra, match=r"'ctxarith\[classic\]'"):
        _ = package.CtxArithConversationMemory
    with pytest.raises(AttributeError, match="no attribute 'CtxArithMemories'"):
        _ = package.CtxArithMemories


def test_the_package_loads_no_other_part_of_langchain_than_its_core() -> None:
    loaded = loaded_by("import langchain_ctxarith")
    assert "langchain_core" in loaded
    assert loaded.isdisjoint({"langchain", "langchain_classic", "langgraph"})
