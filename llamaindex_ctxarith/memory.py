"""A LlamaIndex `Memory` over our block: one caller's conversation, within one number of tokens."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, Unpack
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import LLM
from llama_index.core.memory import InsertMethod, Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.utils import get_tokenizer

from ctxarith.errors import ArgumentError
from ctxarith.memory.options import SMALLEST, whole_number
from ctxarith.policy import Principal
from ctxarith.ports import Summarizer
from llamaindex_ctxarith.caller import Caller, acting_as
from llamaindex_ctxarith.memory_block import CtxArithMemoryBlock, Tokenizer
from llamaindex_ctxarith.messages import Said, message_of, said

# Around the block's text stand the tags of the host's template.
TAGS = 24
QUEUES = "queues"
_FILE = "sqlite+aiosqlite:///"


class MemoryDetails(TypedDict, total=False):
    """What a memory may be told besides its bounds; all of it may be left out.

    principal: whose conversation it is; the one of `acting_as` by default.
    verbatim: the share of the tokens for the newest messages word for word (0.7); the block gets the rest.
    flush_tokens: how much leaves the queue at once when it is full; a tenth of the limit by default.
    keep_recent: of what has left it, how many turns are shown word for word as long as they fit (2).
    insert: "system", or "user" for providers that allow one system message only.
    tokenizer: a function from text to a list of tokens; LlamaIndex's own by default.
    chat_history: messages to begin with.
    options: more for `RollingMemory`: `clock`, `slots`, `summary_tokens`, `timeout`, ...
    """

    principal: Principal | None
    verbatim: float
    flush_tokens: int | None
    keep_recent: int
    insert: str | InsertMethod
    tokenizer: Tokenizer | None
    chat_history: list[ChatMessage] | None
    options: dict[str, Any]


class CtxArithMemory(Memory):
    """A `Memory` that belongs to one caller, counts tool calls, and hands every input to its blocks.

    Made by `build_memory`. `reset` forgets the blocks of ours as well.
    """

    _owner: Principal | None = PrivateAttr(default=None)

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex stores it."""
        return "CtxArithMemory"

    async def aget(self, input: Any = None, **block_kwargs: Any) -> list[ChatMessage]:
        """The messages for the model; see `Memory.aget`.

        Raises:
            ArgumentError: another caller's conversation.
        """
        with self._theirs():
            return await super().aget(input=input, **block_kwargs)

    async def aput(self, message: ChatMessage) -> None:
        """Add a message; see `Memory.aput`."""
        with self._theirs():
            await super().aput(message)

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages; see `Memory.aput_messages`."""
        with self._theirs():
            await super().aput_messages(messages)

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the queue; see `Memory.aset`."""
        with self._theirs():
            await super().aset(messages)

    async def aget_all(self, status: MessageStatus | None = None) -> list[ChatMessage]:
        """Every message; see `Memory.aget_all`."""
        with self._theirs():
            return await super().aget_all(status)

    async def areset(self, status: MessageStatus | None = None) -> None:
        """Forget the queue, and unless only a part of it is named, what the block has kept."""
        with self._theirs():
            await super().areset(status)
            for block in self.memory_blocks if status is None else ():
                if isinstance(block, CtxArithMemoryBlock):
                    await block.aclear(self.session_id)

    async def arebuild(self) -> None:
        """Give the blocks of ours what has left the queue, for one that was lost; nothing counts twice."""
        with self._theirs():
            archived = await super().aget_all(MessageStatus.ARCHIVED)
            for block in self.memory_blocks:
                if isinstance(block, CtxArithMemoryBlock):
                    await block.aput(archived, session_id=self.session_id)

    def _estimate_token_count(self, message_or_blocks: Any) -> int:
        # The host leaves calls out; a long argument is a long prompt all the same.
        several = message_or_blocks if isinstance(message_or_blocks, list) else [message_or_blocks]
        calls = (
            call
            for one in several
            if isinstance(one, ChatMessage) and any(isinstance(block, ToolCallBlock) for block in one.blocks)
            for call in message_of(one).tool_calls
        )
        counted = sum(len(self.tokenizer_fn(f"{call.name}{call.arguments}")) for call in calls)
        return super()._estimate_token_count(message_or_blocks) + counted

    async def _get_memory_blocks_content(
        self, chat_history: list[ChatMessage], input: Said = None, **block_kwargs: Any
    ) -> dict[str, Any]:
        # The host passes a text on, and loses a message.
        return await super()._get_memory_blocks_content([*chat_history, *said(input)], **block_kwargs)

    @contextmanager
    def _theirs(self) -> Iterator[None]:
        """As the owner; whoever uses it first owns it. Some threads of the host know no caller."""
        caller = Caller().now().principal
        if self._owner is None:
            self._owner = caller
        if caller is not None and self._owner is not None and _named(caller) != _named(self._owner):
            rule = "this memory is another caller's: make one for each with build_memory(...)"
            raise ArgumentError("principal", _named(caller), rule)
        with acting_as(self._owner):
            yield


def build_memory(
    session_id: str | None = None,
    *,
    token_limit: int = 30_000,
    summarizer: Summarizer | LLM | None = None,
    path: str | Path | None = None,
    **details: Unpack[MemoryDetails],
) -> CtxArithMemory:
    """A memory for one conversation: the newest messages word for word, the rest as a summary.

    It never gives the model more than `token_limit` tokens, unless the newest turn alone has more.

    Args:
        session_id: names the conversation of its owner; the thread of `acting_as`, else a new name.
        token_limit: of all that the model is given of the conversation.
        summarizer: an `LLM`, or a summariser of the core; by default rules, which need no model.
        path: a folder to keep it in, the queue included; in memory alone by default.
        **details: see `MemoryDetails`.

    Raises:
        ArgumentError: names the parameter.

    >>> memory = build_memory("s1", token_limit=400)
    >>> memory.put(ChatMessage("The budget is 400 EUR."))
    >>> [message.content for message in memory.get()]
    ['The budget is 400 EUR.']
    """
    if unknown := sorted(set(details) - set(MemoryDetails.__annotations__)):
        raise ArgumentError("details", unknown, f"known are {', '.join(MemoryDetails.__annotations__)}")
    caller = Caller(details.get("principal"), session_id)
    said_of = Caller().now()
    owner = caller.principal or said_of.principal
    session = session_id or said_of.thread_id or str(uuid4())
    history = _history_tokens(token_limit, details.get("verbatim", 0.7))
    tokenizer = details.get("tokenizer") or get_tokenizer()
    block = CtxArithMemoryBlock(
        max_tokens=token_limit - history - TAGS,
        keep_recent=details.get("keep_recent", 2),
        summarizer=summarizer,
        path=path,
        principal=owner,
        session_id=session,
        tokenizer=tokenizer,
        options=details.get("options", {}),
    )
    flush = details.get("flush_tokens")
    made: Any = CtxArithMemory.from_defaults(
        session_id=session,
        chat_history=details.get("chat_history"),
        token_limit=token_limit,
        memory_blocks=[block],
        tokenizer_fn=tokenizer,
        chat_history_token_ratio=history / token_limit,
        token_flush_size=max(1, token_limit // 10)
        if flush is None
        else whole_number("flush_tokens", flush, least=1),
        insert_method=_insert(details.get("insert", InsertMethod.SYSTEM)),
        chat_store=None if path is None else _queue(Path(path), owner or Principal()),
    )
    # What lies in a folder is found by its owner's name, which must not change afterwards.
    made._owner = owner if path is None else owner or Principal()
    whole: CtxArithMemory = made
    return whole


def _history_tokens(token_limit: Any, verbatim: Any) -> int:
    least = SMALLEST + TAGS
    whole_number("token_limit", token_limit, least=2 * least)
    if isinstance(verbatim, bool) or not isinstance(verbatim, int | float) or not 0 < verbatim < 1:
        raise ArgumentError("verbatim", verbatim, "a share between 0 and 1")
    return min(int(token_limit * verbatim), token_limit - least) or 1


def _insert(given: Any) -> InsertMethod:
    try:
        return InsertMethod(given)
    except ValueError as error:
        raise ArgumentError("insert", given, '"system" or "user"') from error


class _Queue(SQLAlchemyChatStore):
    """Makes its folder when it is first used, beside the event loop."""

    async def _initialize(self) -> Any:
        file = Path(self.async_database_uri.removeprefix(_FILE))
        await asyncio.to_thread(file.parent.mkdir, parents=True, exist_ok=True)
        return await super()._initialize()


def _queue(folder: Path, owner: Principal) -> SQLAlchemyChatStore:
    """Where the queue lies: a file of the owner's alone, since the host's table knows sessions only."""
    name = hashlib.sha256("\0".join(_named(owner)).encode()).hexdigest()[:32]
    uri = f"{_FILE}{folder / QUEUES / name}.sqlite"
    return _Queue(table_name="llama_index_memory", async_database_uri=uri)


def _named(owner: Principal) -> tuple[str, str]:
    return owner.tenant, owner.user or ""
