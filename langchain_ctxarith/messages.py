"""LangChain's messages to the turns of a memory and back.

A turn holds what is counted, shown and summarised; LangChain's own form of the message is kept beside it, so
that it comes back as it was given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
    message_to_dict,
    messages_from_dict,
)
from pydantic_core import to_jsonable_python

from ctxarith.conversation import ASSISTANT, SYSTEM, TOOL, USER, Message, ToolCall
from ctxarith.errors import ArgumentError
from ctxarith.normalise import clean_text

# Under `lc_source` of the message that a summary becomes.
SUMMARY_SOURCE = "ctxarith_summary"
_FORM = "langchain"
_ROLES = {"human": USER, "user": USER, "system": SYSTEM, "developer": SYSTEM}
# An image, a sound or a signature: the model reads it, a person does not. Words of no script look so.
_OPAQUE = re.compile(r"(?:data:[\w/+.-]+;base64,)?[A-Za-z0-9+/_=-]{129,}")
_CALLING = ("tool_use", "tool_call", "function_call", "invalid_tool_call")
_UNNAMED = "unnamed"


def as_turn(message: BaseMessage, *, keep: bool = True) -> Message:
    """A message as a turn; its time is the epoch until a memory gives it one.

    Human, AI, system and tool messages have their roles. A `FunctionMessage` is the result of the call by its
    name; another `ChatMessage` than a user's or a system's is the assistant's, so that nobody passes
    for the user. A chunk is the message that it makes. Blocks that are no text are counted by
    their JSON, in which opaque text (base64) is a mark with its length: what a provider asks for an
    image is not counted.

    What JSON does not know comes back as JSON writes it (tuples as lists); a tool's artifact that has no
    JSON is left out, since no model sees it.

    Args:
        message: as it was said.
        keep: keep LangChain's own form beside it; not needed by who has the message.

    Raises:
        ArgumentError: it is no message that is said, or cannot be kept as JSON.

    >>> as_turn(HumanMessage("hello", id="m1")).role
    'user'
    """
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    if not isinstance(message, BaseMessage) or isinstance(message, RemoveMessage):
        rule = "a message that was said; turns are never removed one by one, clear() removes the thread"
        raise ArgumentError("message", message, rule)
    calls = _calls(message)
    return Message(
        _role(message),
        _content(message, calls),
        tool_calls=calls,
        answers=_answers(message),
        id=message.id or None,
        native=json.dumps({_FORM: _cleaned(_form(message))}) if keep else None,
    )


def as_langchain(turn: Message, *, cut: bool = False) -> BaseMessage:
    """A turn as the message that it was added as, id included.

    Args:
        turn: of a memory; one that was not added as a LangChain message becomes one.
        cut: its text was shortened for the window, so that the text counts and not what was added.
    """
    form = None if turn.native is None else json.loads(turn.native)
    if not isinstance(form, dict) or _FORM not in form:
        return _made(turn)
    (message,) = messages_from_dict([form[_FORM]])
    return _shortened(message, turn) if cut else message


def summary_message(text: str) -> SystemMessage:
    """The summary as a message; `additional_kwargs["lc_source"]` tells it from what was said."""
    return SystemMessage(text, additional_kwargs={"lc_source": SUMMARY_SOURCE})


def is_summary(message: BaseMessage) -> bool:
    """Whether a message is a summary, which is no turn."""
    source = message.additional_kwargs.get("lc_source") if isinstance(message, SystemMessage) else None
    return bool(source == SUMMARY_SOURCE)


def _role(message: BaseMessage) -> str:
    if isinstance(message, ToolMessage | FunctionMessage):
        return TOOL
    return _ROLES.get(getattr(message, "role", message.type), ASSISTANT)


def _answers(message: BaseMessage) -> str | None:
    if isinstance(message, ToolMessage):
        return message.tool_call_id
    return _by_name(message.name) if isinstance(message, FunctionMessage) else None


def _calls(message: BaseMessage) -> tuple[ToolCall, ...]:
    if not isinstance(message, AIMessage):
        return ()
    made = []
    for place, call in enumerate((*message.tool_calls, *message.invalid_tool_calls)):
        # Nobody can answer a call without an id, so that any name will do.
        name = call["id"] or f"{message.id or 'message'}/{place}"
        arguments = call["args"] if isinstance(call["args"], str) else _written(call["args"] or {})
        made.append(ToolCall(name, call["name"] or _UNNAMED, arguments))
    old = message.additional_kwargs.get("function_call")
    if isinstance(old, dict) and old.get("name") and not made:
        made.append(ToolCall(_by_name(old["name"]), old["name"], old.get("arguments") or "{}"))
    return tuple(made)


def _by_name(name: str | None) -> str:
    return f"function {name or _UNNAMED}"


def _content(message: BaseMessage, calls: Sequence[ToolCall]) -> Any:
    if isinstance(message.content, str):
        return message.content
    known = {call.id for call in calls}
    return [
        block if isinstance(block, str) else _marked(block)
        for block in message.content
        if isinstance(block, str) or not _repeats_call(block, known)
    ]


def _repeats_call(block: dict[str, Any], known: set[str]) -> bool:
    return block.get("type") in _CALLING and (block.get("call_id") or block.get("id")) in known


def _marked(value: Any) -> Any:
    """A block with marks in the place of text that nobody reads."""
    if isinstance(value, dict):
        if value.get("type") == "text" and isinstance(value.get("text"), str):
            return value
        return {str(key): _marked(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(one) for one in value]
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    opaque = isinstance(value, str) and _OPAQUE.fullmatch(value)
    return f"({len(value)} characters)" if opaque else to_jsonable_python(value, serialize_unknown=True)


def _form(message: BaseMessage) -> Any:
    """The message in LangChain's own form for storage, as it comes out of JSON."""
    plain = message_to_dict(message)
    if isinstance(message, ToolMessage) and message.artifact is not None:
        try:
            _written(plain["data"]["artifact"])
        except (TypeError, ValueError):
            plain["data"]["artifact"] = None
    try:
        return json.loads(_written(plain))
    except (TypeError, ValueError, RecursionError) as error:
        rule = f"cannot be kept as JSON ({error}): take that out of its content or its additional_kwargs"
        raise ArgumentError("message", message, rule) from error


def _written(value: Any) -> str:
    return json.dumps(value, default=to_jsonable_python, ensure_ascii=False)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(None, "message", value)
    if isinstance(value, dict):
        return {key: _cleaned(one) for key, one in value.items()}
    return [_cleaned(one) for one in value] if isinstance(value, list) else value


def _made(turn: Message) -> BaseMessage:
    if turn.role == USER:
        return HumanMessage(turn.content, id=turn.id)
    if turn.role == SYSTEM:
        return SystemMessage(turn.content, id=turn.id)
    if turn.role == TOOL:
        return ToolMessage(turn.content, tool_call_id=turn.answers or "", id=turn.id)
    return AIMessage(turn.content, id=turn.id, **_call_fields(turn.tool_calls))


def _shortened(message: BaseMessage, turn: Message) -> BaseMessage:
    """What the window shows of a message that was too long for it."""
    given: dict[str, Any] = {"content": turn.content, "additional_kwargs": {}, "response_metadata": {}}
    if isinstance(message, AIMessage):
        given |= _call_fields(turn.tool_calls)
    return message.model_copy(update=given)


def _call_fields(calls: Iterable[ToolCall]) -> dict[str, Any]:
    valid, invalid = [], []
    for call in calls:
        arguments = _object(call.arguments)
        if arguments is None:
            told = {"name": call.name, "args": call.arguments, "id": call.id, "error": "no JSON object"}
            invalid.append({**told, "type": "invalid_tool_call"})
        else:
            valid.append({"name": call.name, "args": arguments, "id": call.id, "type": "tool_call"})
    return {"tool_calls": valid, "invalid_tool_calls": invalid}


def _object(text: str) -> dict[str, Any] | None:
    try:
        plain = json.loads(text)
    except ValueError:
        return None
    return plain if isinstance(plain, dict) else None
