"""The memory block, and a `Memory` over it: nothing is lost, nothing is mixed, and the bound holds."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import chromadb
import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from llama_index.core import MockEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    CompletionResponse,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import BaseMemoryBlock, InsertMethod, Memory, VectorMemoryBlock
from llama_index.core.schema import Document
from llama_index.core.utils import get_tokenizer
from llama_index.vector_stores.chroma import ChromaVectorStore
from pydantic import ValidationError

from ctxarith import ArgumentError, Message, Principal, StoreError
from ctxarith.stores.conversations import SqliteConversations
from llamaindex_ctxarith import (
    CtxArithMemory,
    CtxArithMemoryBlock,
    CtxArithRetriever,
    acting_as,
    build_memory,
    llm_summarizer,
)
from llamaindex_ctxarith.messages import message_of
from tests.conftest import NOW

ANN, BEN = Principal("acme", user="ann"), Principal("acme", user="ben")


def user(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.USER, content=text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=text)


def tokens(text: str | None) -> int:
    return len(get_tokenizer()(text or ""))


def put(block: CtxArithMemoryBlock, messages: Any, session: str | None = "s") -> None:
    asyncio.run(block.aput(messages, session_id=session))


def shown(block: CtxArithMemoryBlock, session: str | None = "s") -> str:
    return asyncio.run(block.aget(session_id=session))


def small(**given: Any) -> CtxArithMemoryBlock:
    return CtxArithMemoryBlock(**{"max_tokens": 160, "options": {"clock": lambda: NOW}, **given})


def talk(turns: int) -> list[ChatMessage]:
    made = [user("We decided to hold the launch on 9 May.")]
    for n in range(turns):
        made += [user(f"Tell me something about the weather, {chr(97 + n)}."), assistant("It is mild. " * 6)]
    return made


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A store that writes nothing while the list is not empty."""
    down = [True]
    append = SqliteConversations.append

    def perhaps(self: SqliteConversations, key: Any, message: Message) -> Message:
        if down:
            raise StoreError("the disk is full")
        return append(self, key, message)

    monkeypatch.setattr(SqliteConversations, "append", perhaps)
    return down


def test_they_are_what_llamaindex_takes_them_for() -> None:
    assert BaseMemoryBlock.__name__ in [base.__name__ for base in CtxArithMemoryBlock.__mro__]
    assert Memory in CtxArithMemory.__mro__
    assert CtxArithMemory.class_name() == "CtxArithMemory"
    for wrong in ({"max_token": 9}, {"keep": 1}):
        with pytest.raises(ValidationError):
            CtxArithMemoryBlock(**wrong)


@pytest.mark.parametrize(
    "given", [{"max_tokens": 10}, {"keep_recent": 0}, {"path": ""}, {"options": {"clok": 1}}], ids=str
)
def test_a_wrong_option_is_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        CtxArithMemoryBlock(**given)


def test_the_decision_survives_and_the_bound_holds_by_the_hosts_tokenizer() -> None:
    block = small()
    for message in talk(30):
        put(block, [message])
        assert tokens(shown(block)) <= 160
    assert "launch on 9 May" in shown(block)
    assert len(block.memory("s").turns) == 61


def test_the_summary_has_two_thirds_of_the_room_and_facts_are_not_crowded_out() -> None:
    block = small(max_tokens=200)
    for n, topic in enumerate(("fee", "room", "exam", "bus")):
        put(
            block,
            [user(f"What is the {topic}?"), assistant(f"The {topic} costs {n + 31} EUR. [E00000{n}@000{n}]")],
        )
    put(
        block, [user("Thank you so much for all of this."), assistant("You are very welcome, any time. " * 3)]
    )
    block.memory("s").flush(20)
    assert [f"costs {n + 31} EUR" in shown(block) for n in range(4)] == [True] * 4


def test_what_was_given_is_not_changed() -> None:
    given = talk(1)
    before = [message.model_dump_json() for message in given]
    put(small(), given)
    assert [message.model_dump_json() for message in given] == before


def test_a_batch_that_is_put_twice_counts_once_and_a_decision_that_returns_counts_again() -> None:
    block = small()
    batch = [user("The budget is 400 EUR."), assistant("Noted.")]
    put(block, batch)
    put(block, batch)
    put(block, [*batch, user("The budget is 500 EUR."), assistant("Noted.")])
    assert len(block.memory("s").turns) == 4
    put(block, batch)
    assert [turn.content for turn in block.memory("s").turns][-2:] == ["The budget is 400 EUR.", "Noted."]
    named = ChatMessage(role="user", content="hello", additional_kwargs={"id": "m-1"})
    put(block, [named])
    put(block, [assistant("hi"), named])
    assert [turn.content for turn in block.memory("s").turns][-2:] == ["hello", "hi"]


def test_a_failing_store_loses_nothing_and_is_tried_again_at_the_next_put(
    refusing: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    block = small()
    with caplog.at_level(logging.WARNING):
        put(block, [user("The budget is 400 EUR."), assistant("Noted.")])
        put(block, [user("The budget is 400 EUR."), assistant("Noted.")])
    assert "the disk is full" in caplog.text
    assert block.pending("s") == ["The budget is 400 EUR.", "Noted."]
    assert "400 EUR" in shown(block)
    refusing.clear()
    put(block, [user("And who pays?")])
    assert [turn.content for turn in block.memory("s").turns] == [
        "The budget is 400 EUR.",
        "Noted.",
        "And who pays?",
    ]
    assert block.pending("s") == []


def test_pending_messages_stay_within_the_bound_the_newest_last_to_go(refusing: list[bool]) -> None:
    block = small()
    put(block, talk(30))
    assert refusing
    assert tokens(shown(block)) <= 160
    assert shown(block).endswith("It is mild. It is mild. It is mild. It is mild. It is mild. It is mild. ")


def test_a_folder_that_cannot_be_used_is_said_and_ends_no_chat(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("a file")
    block = small(path=tmp_path / "there" / "below")
    put(block, [user("The budget is 400 EUR.")])
    assert "cannot be read" in shown(block)
    assert "400 EUR" in shown(block)


def test_sessions_and_callers_never_mix_where_llamaindexs_block_does() -> None:
    """#22701: VectorMemoryBlock keeps the first session that it saw."""
    secret, question = [user("The gate code is 7731.")], [user("What is the gate code?")]
    collection = chromadb.EphemeralClient().create_collection("turns-of-two-sessions")
    theirs = VectorMemoryBlock(
        vector_store=ChromaVectorStore(collection), embed_model=MockEmbedding(8), retrieval_context_window=1
    )
    ours = small()
    for block in (theirs, ours):
        asyncio.run(block.aput(secret, session_id="a"))
        asyncio.run(block.aget(question, session_id="a"))
    leaked = asyncio.run(theirs.aget(question, session_id="b"))
    assert "7731" in str(leaked)
    assert asyncio.run(ours.aget(question, session_id="b")) == ""
    assert "7731" in asyncio.run(ours.aget(question, session_id="a"))
    with acting_as(ANN):
        put(ours, secret, "one name")
    with acting_as(BEN):
        assert shown(ours, "one name") == ""
    with acting_as(ANN, thread_id="one name"):
        assert "7731" in shown(ours, None)


def test_a_block_without_a_session_shares_it_with_no_other_block(tmp_path: Path) -> None:
    one, other = small(path=tmp_path), small(path=tmp_path)
    put(one, "The gate code is 7731.", None)
    assert "7731" in shown(one, None)
    assert shown(other, None) == ""


def test_many_sessions_on_one_block_at_once() -> None:
    block = small()

    def one(number: int) -> bool:
        with acting_as(ANN if number % 2 else BEN):
            for turn in range(4):
                put(block, [user(f"Number {number} says {turn}.")], f"s{number % 6}")
            return True

    async def tasks() -> None:
        await asyncio.gather(
            *(block.aput([user(f"Task {n} of session {n % 3}.")], session_id=f"t{n % 3}") for n in range(30))
        )

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(one, range(12)))
    asyncio.run(tasks())
    for n in range(3):
        said = [turn.content for turn in block.memory(f"t{n}").turns]
        assert len(said) == 10
        assert all(text.endswith(f"session {n}.") for text in said)
    with acting_as(ANN):
        assert {turn.content.split()[1] for turn in block.memory("s1").turns} == {"1", "7"}


def test_calls_and_results_stay_together_and_count() -> None:
    call = ToolCallBlock(tool_call_id="c1", tool_name="search", tool_kwargs={"input": "fee " * 40})
    asks = ChatMessage(role=MessageRole.ASSISTANT, blocks=[call])
    answer = ChatMessage(role=MessageRole.TOOL, content="12 EUR", additional_kwargs={"tool_call_id": "c1"})
    block = small(max_tokens=400)
    put(block, [user("What is the fee?"), asks, answer, assistant("12 EUR.")])
    text = shown(block)
    assert text.index("calls search (c1)") < text.index("tool (c1): 12 EUR")
    memory = build_memory("s", token_limit=400)
    plain = Memory.from_defaults(token_limit=400)
    assert plain._estimate_token_count(asks) == 0
    assert memory._estimate_token_count(asks) > 40


def test_every_kind_of_message_can_be_kept() -> None:
    older = {
        "tool_calls": [{"id": "o1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]
    }
    odd = [
        ChatMessage(role=MessageRole.ASSISTANT, content="", additional_kwargs=older),
        ChatMessage(role=MessageRole.FUNCTION, content="no id"),
        ChatMessage(role=MessageRole.DEVELOPER, content="Be brief."),
        ChatMessage(role=MessageRole.MODEL, blocks=[ThinkingBlock(content="hm"), TextBlock(text="Yes.")]),
        ChatMessage(role=MessageRole.USER, blocks=[ImageBlock(image=b"\x89PNG" * 9), TextBlock(text="look")]),
        ChatMessage(role=MessageRole.USER, content="a\x00b \ud800"),
        ChatMessage(role=MessageRole.ASSISTANT, blocks=[ToolCallBlock(tool_name="g", tool_kwargs="{")]),
    ]
    kept = [message_of(one) for one in odd]
    assert [one.role for one in kept] == [
        "assistant",
        "tool",
        "system",
        "assistant",
        "user",
        "user",
        "assistant",
    ]
    assert [(call.id, call.arguments) for call in kept[0].tool_calls] == [("o1", '{"a": 1}')]
    assert [one.content for one in kept[3:5]] == ["Yes.", "[image]\nlook"]
    block = small()
    put(block, odd)
    assert block.pending("s") == []
    assert len(block.memory("s").turns) == 7


def test_truncation_drops_turns_and_keeps_decision_and_facts() -> None:
    block = small(max_tokens=300, keep_recent=8)
    put(block, [user("The invoice number is 4711."), *talk(6)])
    whole = shown(block)
    for limit in (120, 60, 40):
        cut = asyncio.run(block.atruncate(whole, tokens(whole) - limit))
        assert tokens(cut) <= limit
        assert "launch on 9 May" in str(cut)
    assert "4711" in str(asyncio.run(block.atruncate(whole, tokens(whole) - 120)))
    for more in (0, 50):
        assert asyncio.run(block.atruncate(whole, tokens(whole) + more)) is None
    assert asyncio.run(block.atruncate([], 10)) is None  # type: ignore[arg-type]


def test_a_plain_text_is_truncated_by_lines_and_a_decision_is_the_last() -> None:
    text = str(
        json.loads(
            json.dumps(
                "Summary of turns 1-9:\nDecisions:\n- [1; 2026-06-15] user: Launch on 9 May.\n"
                "Facts:\n- [2; 2026-06-15] user: The fee is 12.\nuser: hello again, how is the weather"
            )
        )
    )
    block = small()
    first = asyncio.run(block.atruncate(text, 8))
    assert "weather" not in str(first)
    assert "fee is 12" in str(first)
    last = str(asyncio.run(block.atruncate(text, tokens(text) - 22)))
    assert "9 May" in last
    assert "fee" not in last


def test_the_system_message_outlives_the_queue_where_llamaindex_loses_it() -> None:
    """#23144."""
    theirs, ours = (
        Memory.from_defaults("s", token_limit=300, token_flush_size=60),
        build_memory("s", token_limit=300, flush_tokens=60),
    )
    for memory in (theirs, ours):
        memory.put(ChatMessage(role=MessageRole.SYSTEM, content="Never name a price."))
        memory.put_messages(talk(10))
    assert "Never name a price." not in " ".join(str(message.content) for message in theirs.get())
    assert "Never name a price." in " ".join(str(message.content) for message in ours.get())


def test_a_system_message_that_leaves_no_room_is_kept_as_a_turn() -> None:
    block = small(max_tokens=60)
    put(block, [ChatMessage(role=MessageRole.SYSTEM, content="Never name a price. " * 20), user("hello")])
    assert block.pending("s") == []
    assert [turn.role for turn in block.memory("s").turns] == ["user", "user"]
    assert tokens(shown(block)) <= 60


@pytest.mark.parametrize("insert", ["system", "user"])
def test_a_memory_gives_the_model_no_more_than_its_limit_and_what_was_decided(insert: str) -> None:
    memory = build_memory("s", token_limit=500, insert=insert, options={"clock": lambda: NOW})
    for message in talk(40):
        memory.put(message)
        given = memory.get()
        assert sum(tokens(one.content) for one in given) <= 500
    place = given[0] if insert == "system" else next(m for m in reversed(given) if m.role == MessageRole.USER)
    assert "launch on 9 May" in str(place.content)
    assert (given[0].role == MessageRole.SYSTEM) == (insert == "system")
    assert memory.insert_method == InsertMethod(insert)


def test_the_settings_of_a_memory_are_the_hosts() -> None:
    def letters(text: str) -> list[str]:
        return list(text)

    memory = build_memory("s", token_limit=1_000, verbatim=0.5, flush_tokens=70, tokenizer=letters)
    assert (memory.session_id, memory.token_flush_size, memory.chat_history_token_ratio) == ("s", 70, 0.5)
    assert memory.tokenizer_fn is letters
    memory.put_messages(talk(20))
    assert sum(len(message.content or "") for message in memory.get()) <= 1_000
    with acting_as(ANN, thread_id="t-9"):
        assert build_memory().session_id == "t-9"
    for wrong in ({"token_limit": 50}, {"verbatim": 1.5}, {"insert": "middle"}, {"flush": 3}):
        with pytest.raises(ArgumentError):
            build_memory("s", **wrong)


def test_a_conversation_survives_a_restart_whole(tmp_path: Path) -> None:
    for part in range(2):
        memory = build_memory("s", token_limit=400, path=tmp_path, principal=ANN)
        memory.put_messages([user(f"The code of door {part} is 77{part}1."), *talk(8)])
        memory.memory_blocks[0].close()  # type: ignore[attr-defined]
    again = build_memory("s", token_limit=400, path=tmp_path, principal=ANN)
    assert len(again.get_all()) == 36
    text = " ".join(str(message.content) for message in again.get())
    assert "launch on 9 May" in text
    recalled = again.memory_blocks[0].memory("s").recall("the code of door 0")  # type: ignore[attr-defined]
    assert "7701" in recalled[0].message.content
    assert build_memory("s", token_limit=400, path=tmp_path, principal=BEN).get() == []
    assert build_memory("s", token_limit=400, path=tmp_path).get() == []


def test_a_lost_block_is_made_again_from_what_the_host_archived(tmp_path: Path) -> None:
    memory = build_memory("s", token_limit=400, path=tmp_path)
    memory.put_messages(talk(20))
    block: Any = memory.memory_blocks[0]
    turns = [turn.content for turn in block.memory("s").turns]
    block.memory("s").clear()
    block.close()
    asyncio.run(memory.arebuild())
    asyncio.run(memory.arebuild())
    assert [turn.content for turn in block.memory("s").turns] == turns
    assert len(turns) > 4


def test_a_memory_refuses_another_caller_and_knows_its_own_in_a_bare_thread() -> None:
    memory = build_memory("s", token_limit=500)
    with acting_as(ANN):
        memory.put(user("The gate code is 7731."))
    with acting_as(BEN), pytest.raises(ArgumentError, match="another caller's"):
        memory.get()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(memory.put_messages, talk(20)).result()
    with acting_as(ANN):
        assert "7731" in " ".join(str(message.content) for message in memory.get())


def test_a_reset_forgets_the_queue_and_the_block() -> None:
    memory = build_memory("s", token_limit=300)
    memory.put_messages([user("The gate code is 7731."), *talk(8)])
    memory.reset()
    assert memory.get() == []
    assert memory.get_all() == []


def test_an_input_that_is_a_message_reaches_the_blocks() -> None:
    """PR 23180: the host passes on a text only."""
    seen: list[list[str | None]] = []

    class Seeing(CtxArithMemoryBlock):
        async def _aget(self, messages: Any = None, session_id: str | None = None, **given: Any) -> str:
            seen.append([one.content for one in messages])
            return await super()._aget(messages, session_id, **given)

    memory = build_memory("s")
    memory.memory_blocks = [Seeing()]
    memory.get(input=user("as a message"))
    memory.get(input="as a text")
    assert seen == [["as a message"], ["as a text"]]


def test_a_chat_engine_streams_and_the_turns_arrive_in_the_memory() -> None:
    with acting_as(ANN, thread_id="t"):
        memory = build_memory(token_limit=400)
        retriever = CtxArithRetriever.from_documents(
            [Document(text="It is mild.", metadata={"tenant": "acme"})]
        )
        engine = CondensePlusContextChatEngine.from_defaults(
            retriever, llm=MockLLM(max_tokens=12), memory=memory, skip_condense=True
        )
        engine.chat("We decided to hold the launch on 9 May.")
        for n in range(12):
            answer = engine.stream_chat(f"Tell me about the weather of city {n}, please, as it is now.")
            assert "".join(answer.response_gen)
        assert "launch on 9 May" in str(memory.get()[0].content)
        assert len(memory.get_all()) == 26


class Writer(MockLLM):
    """A model that writes a summary as it was asked to."""

    def complete(self, prompt: str, formatted: bool = False, **given: Any) -> CompletionResponse:
        number = prompt.rpartition("\n[")[2].partition(";")[0]
        point = {"kind": "decision", "text": "They agreed on the launch in May.", "turns": [int(number)]}
        return CompletionResponse(text=json.dumps({"points": [point]}))


def test_a_model_of_llamaindex_writes_the_summary() -> None:
    for maker in (Writer(max_tokens=None), llm_summarizer(Writer(max_tokens=None))):
        block = small(summarizer=maker, keep_recent=1)
        put(block, talk(12))
        assert block.memory("s").flush(20)
        assert "They agreed on the launch in May." in shown(block)


def test_a_model_that_fails_costs_nothing() -> None:
    class Broken(MockLLM):
        def complete(self, *given: Any, **more: Any) -> CompletionResponse:
            raise RuntimeError("rate limit")

    block = small(summarizer=Broken(max_tokens=None))
    put(block, talk(12))
    block.memory("s").wait(20)
    assert "launch on 9 May" in shown(block)
    assert "rate limit" in block.memory("s").status.error


@pytest.fixture
def watched() -> Iterator[BlockBuster]:
    with blockbuster_ctx("llamaindex_ctxarith") as blocker:
        yield blocker


def test_nothing_blocks_the_event_loop(tmp_path: Path, watched: BlockBuster) -> None:
    async def whole() -> str:
        block = small(path=tmp_path)
        for message in talk(12):
            await block.aput([message], session_id="s")
        text = await block.aget(session_id="s")
        return str(await block.atruncate(text, 20))

    async def hosted() -> list[ChatMessage]:
        memory = build_memory("s", token_limit=400, path=tmp_path)
        await memory.aput_messages(talk(12))
        return await memory.aget()

    # SQLAlchemy looks at its own address in the loop.
    address = ("sqlalchemy/dialects/sqlite/pysqlite.py", "create_connect_args")
    watched.functions["os.path.abspath"].can_block_in(*address)
    assert "launch on 9 May" in asyncio.run(whole())
    assert "launch on 9 May" in str(asyncio.run(hosted())[0].content)


def test_a_session_that_a_message_names_is_written_and_never_read() -> None:
    block = small()
    named = ChatMessage(
        role="user", content="The gate code is 7731.", additional_kwargs={"session_id": "theirs"}
    )
    asyncio.run(block.aput([named]))
    assert "7731" in shown(block, "theirs")
    assert asyncio.run(block.aget([named])) == ""
