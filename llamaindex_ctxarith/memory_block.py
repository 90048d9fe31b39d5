"""The memory block: what leaves the host's queue lives on as a bounded summary, session by session."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
from llama_index.core.llms import LLM
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.utils import get_tokenizer
from pydantic import InstanceOf

from ctxarith.errors import ArgumentError
from ctxarith.memory.extract import points_of
from ctxarith.memory.options import MemoryOptions, Settings
from ctxarith.memory.rolling import RollingMemory
from ctxarith.model import DEFAULT_TENANT
from ctxarith.models.summarizers import INSTRUCTIONS, PromptSummarizer
from ctxarith.policy import Principal
from ctxarith.ports import Summarizer
from llamaindex_ctxarith.caller import Caller
from llamaindex_ctxarith.messages import Said, message_of, said
from llamaindex_ctxarith.remembered import shorter
from llamaindex_ctxarith.threads import Conversation

Key = tuple[str, str | None, str]
Tokenizer = Callable[[str], list[Any]]


def llm_summarizer(llm: LLM, *, instructions: str = INSTRUCTIONS) -> PromptSummarizer:
    """A summariser for memories out of a LlamaIndex model; it runs behind, and may fail."""
    return PromptSummarizer(lambda prompt: llm.complete(prompt).text, instructions=instructions)


class CtxArithMemoryBlock(BaseMemoryBlock[str]):
    """Keeps what a `Memory` lets go: decisions, facts and the last turns, within `max_tokens`.

    Behind it stands one `RollingMemory` for each (tenant, user, session): no session ever sees another's.
    The session is the one that `Memory` names, else the thread of `acting_as`, else `session_id`; tenant and
    user are those of `acting_as`, else of `principal`. `aput` never raises: what cannot be stored is shown as
    it is and tried again at the next put. What a thread ends with may be put again and counts once. No
    message is changed. All work is done in threads beside the event loop.

    Args:
        max_tokens: the bound of what is shown, by the tokenizer of the host; 48 or more.
        keep_recent: how many of the last turns put here are shown word for word as long as they fit; few,
            since the host's own queue shows the newest.
        summarizer: an `LLM`, or a summariser of the core; by default rules, which need no model.
        path: a folder to keep the conversations in; in memory alone by default.
        principal: whose conversations these are, unless `acting_as` says so.
        session_id: for messages that come without one; by default a name that no other block has.
        tokenizer: a function from text to a list of tokens; LlamaIndex's own by default.
        options: more for `RollingMemory`: `clock`, `slots`, `timeout`, ... `summary_tokens` is two thirds of
            `max_tokens` by default.

    Raises:
        ArgumentError: names the option.

    >>> block = CtxArithMemoryBlock(max_tokens=200)
    >>> asyncio.run(block.aput([ChatMessage("The budget is 400 EUR.")], session_id="s1"))
    >>> asyncio.run(block.aget(session_id="s1")), asyncio.run(block.aget(session_id="s2"))
    ('user: The budget is 400 EUR.', '')
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str = "conversation"
    description: str | None = "What was said earlier in this conversation: decisions, facts, last turns."
    priority: int = 1
    max_tokens: int = 2_000
    keep_recent: int = 2
    path: str | Path | None = None
    session_id: str = Field(default_factory=lambda: str(uuid4()))
    summarizer: Any = Field(default=None, exclude=True)
    # An instance: pydantic would make one of a client's JSON.
    principal: InstanceOf[Principal] | None = Field(default=None, exclude=True)
    tokenizer: Tokenizer | None = Field(default=None, exclude=True)
    options: dict[str, Any] = Field(default_factory=dict, exclude=True)
    _open: dict[Key, Conversation] = PrivateAttr(default_factory=dict)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    # Here and not in pydantic's own hooks, which would wrap our errors into theirs.
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        Settings.of(self.session_id, self.max_tokens, self.keep_recent, self._maker(), self._told(("", None)))
        # Whether it can be used is seen when it is opened, beside the event loop.
        if self.path is not None and not str(self.path):
            raise ArgumentError("path", self.path, "a folder, or None")

    def memory(self, session_id: str | None = None) -> RollingMemory:
        """The memory of a session: `recall`, `summary`, `turns`, `flush`, `clear`.

        Raises:
            StoreError: its folder cannot be used.
        """
        return self._conversation(self._key(session_id)).memory

    def pending(self, session_id: str | None = None) -> list[str]:
        """What was put into a session and could not be stored yet."""
        return [one.content for one in self._conversation(self._key(session_id)).pending]

    def close(self) -> None:
        """Release the files. With a `path` the next use opens them again; without one all is forgotten."""
        with self._lock:
            conversations = list(self._open.values())
            self._open.clear()
        for one in conversations:
            one.close()

    async def aput(
        self, messages: Said, from_short_term_memory: bool = False, session_id: str | None = None
    ) -> None:
        """Put messages, or a text of the user's; see `BaseMemoryBlock.aput`."""
        if not from_short_term_memory or self.accept_short_term_memory:
            await self._put(said(messages), session_id)

    async def _aput(self, messages: Said) -> None:
        await self._put(said(messages), None)

    async def _aget(self, messages: Said = None, session_id: str | None = None, **_: Any) -> str:
        # A session that a message names is where it belongs, and no right to read there.
        conversation = self._conversation(self._key(session_id))
        return await asyncio.to_thread(conversation.shown, self.max_tokens)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The content with so many tokens less: turns go first, then by kind, decisions last.

        Nothing (`[]`, which `Memory` passes for an empty block) gives `None`.
        """
        if not content:
            return None
        return await asyncio.to_thread(self._shorter, content, tokens_to_truncate)

    def _shorter(self, content: str, tokens: int) -> str | None:
        slots = self.options.get("slots")
        extract = points_of if slots is None else partial(points_of, slots=slots)
        return shorter(content, self._count(content) - tokens, count=self._count, extract=extract)

    async def aclear(self, session_id: str | None = None) -> None:
        """Forget a session: turns, summary and what is pending.

        Raises:
            StoreError: its folder cannot be used.
        """
        conversation = self._conversation(self._key(session_id))
        await asyncio.to_thread(conversation.clear)

    async def _put(self, messages: list[ChatMessage], session_id: str | None) -> None:
        batches: dict[str | None, list[ChatMessage]] = {}
        for message in messages:
            batches.setdefault(session_id or _session_of([message]), []).append(message)
        for session, those in batches.items():
            conversation = self._conversation(self._key(session))
            await asyncio.to_thread(conversation.put, list(map(message_of, those)))

    def _key(self, session_id: str | None) -> Key:
        caller = Caller(self.principal).now()
        owner = caller.principal or Principal(DEFAULT_TENANT)
        return owner.tenant, owner.user, session_id or caller.thread_id or self.session_id

    def _conversation(self, key: Key) -> Conversation:
        with self._lock:
            if key not in self._open:
                self._open[key] = Conversation(partial(self._opened, key), self._count)
            return self._open[key]

    def _opened(self, key: Key) -> RollingMemory:
        tenant, user, session = key
        return RollingMemory(
            thread_id=session,
            max_tokens=self.max_tokens,
            keep_recent=self.keep_recent,
            summarizer=self._maker(),
            path=self.path,
            **self._told((tenant, user)),
        )

    def _told(self, owner: tuple[str, str | None]) -> MemoryOptions:
        own = {"tokenizer": self._count, "summary_tokens": self.max_tokens * 2 // 3}
        told: Any = own | self.options
        made: MemoryOptions = told | {"tenant": owner[0] or DEFAULT_TENANT, "user": owner[1]}
        return made

    def _maker(self) -> Summarizer | None:
        return llm_summarizer(self.summarizer) if isinstance(self.summarizer, LLM) else self.summarizer

    def _count(self, text: str) -> int:
        return len((self.tokenizer or get_tokenizer())(text))


def _session_of(messages: list[ChatMessage]) -> str | None:
    named = (message.additional_kwargs.get("session_id") for message in messages)
    return next((one for one in named if isinstance(one, str) and one), None)
