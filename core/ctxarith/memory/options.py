"""The settings of a memory, checked and with their defaults."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from ctxarith.conversation import ConversationKey, ToolCall
from ctxarith.durable import Conversations
from ctxarith.errors import ArgumentError
from ctxarith.ingest.slots import SlotExtractor
from ctxarith.instant import TimeLike
from ctxarith.memory.extract import points_of
from ctxarith.memory.summarising import Calls
from ctxarith.memory.window import LEAST, Limits
from ctxarith.model import DEFAULT_TENANT, Slot
from ctxarith.models.embedders import WordLlamaEmbedder, checked_embedder
from ctxarith.models.tokens import token_counter
from ctxarith.options import utc_now
from ctxarith.ports import Clock, Embedder, LlamaIndexEmbedding, Summarizer, TokenCounter
from ctxarith.stores.conversations import SqliteConversations

SMALLEST = 2 * LEAST
_METHODS = [name for name in vars(Conversations) if not name.startswith("_")]


class MemoryOptions(TypedDict, total=False):
    """What a memory may be told besides its thread and its bounds; all of it may be left out.

    tenant, user: whose thread it is; threads of one name belong to as many conversations as there are users.
    clock: the present, as a function to an aware datetime.
    tokenizer: an encoding or model name, or a function from text to a count.
    slots: what reads slots in a sentence, such as `RuleSlots`; `StatementSlots` by default.
    summary_tokens: the most tokens of the summary; a third of `max_tokens` by default (see `summary_share`).
    batch_tokens: the most tokens of turns that one call of the summariser gets; `max_tokens` by default.
    timeout: seconds that one call of the summariser may take (60), or `None`.
    retries: how often a call that raised or gave nonsense is made again at once (1).
    embedder: what `recall` reads the turns with; offline by default.
    store: where the conversation lives instead of a folder, such as one `SqliteConversations` for many
        threads; it stays open when the memory is closed.
    """

    tenant: str
    user: str | None
    clock: Clock | None
    tokenizer: str | TokenCounter | None
    slots: SlotExtractor | None
    summary_tokens: int | None
    batch_tokens: int | None
    timeout: float | None
    retries: int
    embedder: Embedder | LlamaIndexEmbedding | None
    store: Conversations | None


class Details(TypedDict, total=False):
    """What a message may carry besides its role and content; see `Message`."""

    time: TimeLike | None
    tool_calls: Iterable[ToolCall | Mapping[str, Any]]
    answers: str | None
    id: str | None
    slots: Iterable[Slot | Mapping[str, Any]]
    native: str | None


@dataclass(frozen=True, slots=True)
class Settings:
    """Options, checked and with their defaults."""

    key: ConversationKey
    limits: Limits
    calls: Calls
    clock: Clock
    retries: int
    embedder: Embedder

    @classmethod
    def of(
        cls,
        thread_id: str,
        max_tokens: int,
        keep_recent: int,
        summarizer: Summarizer | None,
        options: MemoryOptions,
    ) -> Settings:
        """Check the options.

        Raises:
            ArgumentError: names the option.
        """
        unknown = sorted(set(options) - set(MemoryOptions.__annotations__))
        if unknown:
            known = ", ".join(MemoryOptions.__annotations__)
            raise ArgumentError("options", unknown, f"known options are {known}")
        key = ConversationKey(thread_id, options.get("tenant", DEFAULT_TENANT), options.get("user"))
        whole_number("max_tokens", max_tokens, least=SMALLEST)
        whole_number("keep_recent", keep_recent, least=1)
        own = options.get("summary_tokens")
        bound = summary_share(max_tokens) if own is None else whole_number("summary_tokens", own)
        for name, given in (("summarizer", summarizer), *((n, options.get(n)) for n in ("clock", "slots"))):
            if given is not None and not callable(given):
                raise ArgumentError(name, given, "a function")
        batch = options.get("batch_tokens")
        slots, clock, embedder = options.get("slots"), options.get("clock"), options.get("embedder")
        return cls(
            key=key,
            limits=Limits(max_tokens, min(bound, max_tokens), keep_recent),
            calls=Calls(
                summarizer=summarizer,
                extract=points_of if slots is None else partial(points_of, slots=slots),
                count=token_counter(options.get("tokenizer")),
                limit=min(bound, max_tokens),
                batch=max_tokens if batch is None else whole_number("batch_tokens", batch, least=LEAST),
                timeout=_seconds(options.get("timeout", 60.0)),
            ),
            clock=utc_now if clock is None else clock,
            retries=whole_number("retries", options.get("retries", 1)),
            embedder=checked_embedder(WordLlamaEmbedder() if embedder is None else embedder),
        )


def summary_share(max_tokens: int) -> int:
    """The room of a summary unless told otherwise: a third, and in a small window half up to 64 tokens."""
    return max(max_tokens // 3, min(64, max_tokens // 2))


def whole_number(name: str, value: Any, *, least: int = 0) -> int:
    """A whole number, not below the least."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(name, value, f"a whole number, {least} or more")
    return value


def folder_of(path: Any) -> Path | None:
    """The folder that conversations are kept in, or `None` for memory alone."""
    if path is None or isinstance(path, str | Path):
        if path is not None and (not str(path) or Path(path).is_file()):
            raise ArgumentError("path", path, "a folder, such as that of a corpus")
        return None if path is None else Path(path)
    raise ArgumentError("path", path, "a folder, or None")


def opened(path: Any, store: Any) -> tuple[Conversations, bool]:
    """Where a conversation lives, and whether that is the memory's own to close.

    Raises:
        ArgumentError: both are named, or the store has not the methods of `Conversations`.
        StoreError: the folder cannot be used.
    """
    if store is None:
        return SqliteConversations(folder_of(path)), True
    if path is not None:
        raise ArgumentError("path", path, "a store= was given as well: name one of the two")
    missing = sorted(name for name in _METHODS if not callable(getattr(store, name, None)))
    if missing:
        rule = f"no store of conversations, it lacks {', '.join(missing)}; see ctxarith.durable.Conversations"
        rule += "; a LangGraph store goes into langchain_ctxarith.StoreConversations"
        raise ArgumentError("store", store, rule)
    return store, False


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ArgumentError("timeout", value, "seconds, more than zero, or None")
    return float(value)
