"""Chat histories for `RunnableWithMessageHistory`, bounded by a memory that forgets nothing."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage
from langchain_core.runnables import ConfigurableFieldSpec

from ctxarith.conversation import ConversationKey
from ctxarith.errors import ArgumentError, CorpusClosed, PrincipalRequired
from ctxarith.ledger import anonymous
from ctxarith.memory.options import MemoryOptions, opened
from ctxarith.memory.rolling import RollingMemory
from ctxarith.model import DEFAULT_TENANT
from ctxarith.policy import Principal
from langchain_ctxarith.caller import checked_principal
from langchain_ctxarith.messages import as_langchain
from langchain_ctxarith.spoken import remember, window_messages
from langchain_ctxarith.store import conversations_of

_OPTIONS = {*MemoryOptions.__annotations__, "max_tokens", "keep_recent", "summarizer", "path"}
_MOST_OPEN = 256


class CtxArithChatMessageHistory(BaseChatMessageHistory):
    """A thread as LangChain messages: its window by default, or every turn as it was said.

    `messages` never outgrows `max_tokens`: system messages, the summary of what is older as one
    `SystemMessage` that begins with "Summary of turns", and the recent turns as they were said, calls with
    their results. The raw turns stay in the store.

    What `messages` shows is settled at the first look and stays until this handle adds or clears, since
    `RunnableWithMessageHistory` counts the messages before the model and again behind it, and takes what is
    beyond for new. So each run needs a handle of its own: `ChatHistories` gives one, with shared memories.

    `BaseChatMessageHistory` is deprecated in LangChain and warns where LangChain says so; this class adds no
    warning of its own. Nothing is opened before the first use, and the async methods work in a worker thread.

    Args:
        session_id: names the thread; blank is refused.
        raw: give every turn as it was said instead of the window.
        **options: of `RollingMemory`, such as `path`, `max_tokens`, `tenant` and `user`; `store` may be a
            LangGraph store too.

    Raises:
        ArgumentError: names the option.

    >>> history = CtxArithChatMessageHistory("t1", max_tokens=200)
    >>> history.add_user_message("What is the fee?")
    >>> history.messages[0].content
    'What is the fee?'
    """

    def __init__(self, session_id: str, *, raw: bool = False, **options: Any) -> None:
        super().__init__()
        given = _checked(options)
        key = ConversationKey(_name(session_id), given.get("tenant", DEFAULT_TENANT), given.get("user"))
        self._start(partial(_memory, key.thread, given), raw)

    @classmethod
    def from_memory(cls, memory: RollingMemory, *, raw: bool = False) -> Self:
        """The history of a memory that is open already; it stays its owner's to close."""
        if not isinstance(memory, RollingMemory):
            raise ArgumentError("memory", memory, "a RollingMemory")
        return cls._over(lambda: memory, raw)

    @classmethod
    def _over(cls, opener: Callable[[], RollingMemory], raw: bool) -> Self:
        history = cls.__new__(cls)
        BaseChatMessageHistory.__init__(history)
        history._start(opener, raw)
        history._owned = False
        return history

    def _start(self, opener: Callable[[], RollingMemory], raw: bool) -> None:
        self._opener = opener
        self._raw = raw
        self._owned = True
        self._lock = threading.RLock()
        self._memory: RollingMemory | None = None
        self._shown: list[BaseMessage] | None = None

    @property
    def memory(self) -> RollingMemory:
        """The memory beneath: `recall`, `summary`, `status`, `flush`. It is opened here; that blocks."""
        with self._lock:
            if self._memory is None:
                self._memory = self._opener()
            return self._memory

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The window, or with `raw` every turn; see the class for how long it stays the same."""
        with self._lock:
            if self._shown is None:
                memory = self.memory
                turns = [as_langchain(turn) for turn in memory.turns] if self._raw else None
                self._shown = window_messages(memory.window()) if turns is None else turns
            return list(self._shown)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages; see `remember` for ids that are known and for what is refused."""
        with self._lock:
            try:
                remember(self.memory, messages)
            finally:
                self._shown = None

    def clear(self) -> None:
        """Delete the thread: turns and summary. Nothing of its text stays in the folder."""
        with self._lock:
            self._shown = None
            self.memory.clear()

    def close(self) -> None:
        """Release the files, if this handle opened them."""
        with self._lock:
            if self._owned and self._memory is not None:
                self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ChatHistories:
    """Gives the history of each session: a session factory for `RunnableWithMessageHistory`.

    `RunnableWithMessageHistory(chain, histories)` names threads by `session_id` alone. Where more than one
    user is served, `RunnableWithMessageHistory(chain, histories.of_caller,
    history_factory_config=histories.caller_specs)` takes the caller from `configurable["principal"]`, a
    `Principal` that your own code made, and the thread from `configurable["thread_id"]`. Then two users who
    name one thread have two. Called inside an event loop it opens nothing and blocks nothing.

    Args:
        raw: see `CtxArithChatMessageHistory`.
        **options: of `RollingMemory`, for every thread; without `path` and `store` all of it is in memory.

    Raises:
        ArgumentError: names the option.

    >>> histories = ChatHistories(max_tokens=200)
    >>> histories("t1").add_user_message("hello")
    >>> (len(histories("t1").messages), len(histories("t2").messages))
    (1, 0)
    """

    caller_specs = (
        ConfigurableFieldSpec(
            id="principal", annotation=Principal, name="Principal", description="Who speaks.", is_shared=True
        ),
        ConfigurableFieldSpec(
            id="thread_id", annotation=str, name="Thread ID", description="Names the thread.", is_shared=True
        ),
    )

    def __init__(self, *, raw: bool = False, **options: Any) -> None:
        self._raw = raw
        self._options = _checked(options)
        self._lock = threading.Lock()
        self._closed = False
        path, store = self._options.pop("path", None), self._options.pop("store", None)
        self._store, self._owned = opened(path, conversations_of(store))
        self._memories: OrderedDict[ConversationKey, RollingMemory] = OrderedDict()

    def __call__(self, session_id: str) -> CtxArithChatMessageHistory:
        """The history of a session, by `tenant` and `user` of the options."""
        tenant = self._options.get("tenant", DEFAULT_TENANT)
        return self._history(ConversationKey(_name(session_id), tenant, self._options.get("user")))

    def of_caller(self, principal: Principal, thread_id: str) -> CtxArithChatMessageHistory:
        """The history of a caller's thread; nameless callers share one if they have the same rights.

        Raises:
            PrincipalRequired: nobody is named.
            ArgumentError: it is something else than a `Principal`.
        """
        caller = checked_principal("principal", principal)
        if caller is None:
            raise PrincipalRequired("a thread belongs to its caller: name configurable['principal']")
        user = caller.user or f"anonymous {hashlib.sha256(anonymous(caller).encode()).hexdigest()}"
        return self._history(ConversationKey(_name(thread_id), caller.tenant, user))

    def close(self) -> None:
        """Release the files. The histories that were given cannot be used after."""
        with self._lock:
            self._closed = True
            memories, self._memories = list(self._memories.values()), OrderedDict()
        for memory in memories:
            memory.close()
        if self._owned:
            self._store.close()

    def _history(self, key: ConversationKey) -> CtxArithChatMessageHistory:
        return CtxArithChatMessageHistory._over(partial(self._opened, key), self._raw)

    def _opened(self, key: ConversationKey) -> RollingMemory:
        with self._lock:
            if self._closed:
                raise CorpusClosed("these histories were closed: make others with the same path or store")
            memory = self._memories.get(key)
            if memory is None:
                whose = {"tenant": key.tenant, "user": key.user, "store": self._store}
                memory = RollingMemory(thread_id=key.thread, **{**self._options, **whose})
            self._memories[key] = memory
            self._memories.move_to_end(key)
            while len(self._memories) > _MOST_OPEN:
                # Not closed, since someone may hold it: what it knows is in the store that all share.
                self._memories.popitem(last=False)
            return memory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    if unknown := sorted(set(options) - _OPTIONS):
        raise ArgumentError("options", unknown, f"known options are {', '.join(sorted(_OPTIONS))}")
    return dict(options)


def _name(given: Any) -> str:
    """A thread's name as text; LangGraph's clients name threads by UUIDs, and others count them."""
    return str(given) if isinstance(given, uuid.UUID) or type(given) is int else given


def _memory(session_id: str, options: dict[str, Any]) -> RollingMemory:
    store = conversations_of(options.get("store"))
    return RollingMemory(thread_id=session_id, **{**options, "store": store})
