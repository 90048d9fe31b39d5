"""A memory's window as LangChain messages, and LangChain messages into a memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from ctxarith.conversation import SYSTEM, TOOL, Message
from ctxarith.memory.rolling import RollingMemory
from ctxarith.memory.window import Window
from langchain_ctxarith.messages import as_langchain, as_turn, is_summary, summary_message


def remember(
    memory: RollingMemory, messages: Iterable[BaseMessage], *, time: datetime | None = None
) -> list[Message]:
    """Append messages to a memory, as said at a time or now, and give back their turns.

    All are read before the first is appended, so that one that cannot be a turn leaves nothing behind.
    A message with an id that the thread has is not appended again; if it says something else than that one
    did, it is a turn of its own. A summary that a window gave is no turn and is passed over.

    Raises:
        ArgumentError: a message cannot be kept; see `as_turn`.
        BudgetError: a system message leaves no room; those before it are appended.
    """
    turns = [as_turn(message) for message in messages if not is_summary(message)]
    return [_appended(memory, turn, time) for turn in turns]


def window_messages(
    window: Window, said: Sequence[BaseMessage] | None = None, *, ended: bool = False
) -> list[BaseMessage]:
    """What the model should see, in order: system messages, the summary, the turns word for word.

    The summary is one `SystemMessage` of its own. It is no word of the user's or the model's, begins with
    "Summary of turns", and further lines of what someone said are indented in it. Results stand
    right behind their calls; calls that nobody answered and that are not the last are left out, since no
    provider takes them.

    Args:
        window: of a memory.
        said: the messages in the order of their turns, where they are at hand; they come back as they are.
        ended: whether something is said after the window, so that its last calls must have results too.
    """
    cut = set(window.cut)

    def message_of(turn: Message) -> BaseMessage:
        whole = said is not None and turn.number not in cut
        return said[turn.number - 1] if said and whole else as_langchain(turn, cut=turn.number in cut)

    shown = [(turn, message_of(turn)) for turn in window.messages]
    system = [message for turn, message in shown if turn.role == SYSTEM]
    told = [summary_message(window.summary)] if window.summary else []
    spoken = [(turn, message) for turn, message in shown if turn.role != SYSTEM]
    return [*system, *told, *_complete(spoken, ended)]


def _appended(memory: RollingMemory, turn: Message, time: datetime | None) -> Message:
    added = memory.append(turn.role, turn.content, **_details(turn, turn.id, time))
    if turn.id is None or _said(added) == _said(turn):
        return added
    # Two messages under one id: both were said. The other name is made of what it says, to be found again.
    told = hashlib.sha256(repr(_said(turn)).encode()).hexdigest()
    return memory.append(turn.role, turn.content, **_details(turn, f"{turn.id}#{told}", time))


def _details(turn: Message, name: str | None, time: datetime | None) -> Any:
    given = {"tool_calls": turn.tool_calls, "answers": turn.answers, "id": name, "native": turn.native}
    return {**given, "time": time}


def _said(turn: Message) -> tuple[Any, ...]:
    return turn.role, turn.content, turn.tool_calls, turn.answers


def _complete(shown: Sequence[tuple[Message, BaseMessage]], ended: bool) -> Iterator[BaseMessage]:
    for place, (turn, message) in enumerate(shown):
        behind = place + 1
        while behind < len(shown) and shown[behind][0].role == TOOL:
            behind += 1
        answered = {one.answers for one, _ in shown[place + 1 : behind]}
        missing = {call.id for call in turn.tool_calls} - answered
        last = behind == len(shown) and not ended
        if not missing or last or not isinstance(message, AIMessage):
            yield message
        elif kept := _without(message, missing):
            yield kept


def _without(message: AIMessage, missing: set[str]) -> AIMessage | None:
    """The message without some of its calls, in any provider's form; `None` where nothing is left."""
    content: Any = message.content
    if not isinstance(content, str):
        content = [
            block
            for block in content
            if isinstance(block, str) or (block.get("call_id") or block.get("id")) not in missing
        ]
    others = {
        key: value
        for key, value in message.additional_kwargs.items()
        if key not in ("tool_calls", "function_call")
    }
    calls = [call for call in message.tool_calls if call["id"] not in missing | {None}]
    broken = [call for call in message.invalid_tool_calls if call["id"] not in missing | {None}]
    if not (content or calls or broken):
        return None
    given = {"content": content, "tool_calls": calls, "invalid_tool_calls": broken}
    return message.model_copy(update={**given, "additional_kwargs": others})
