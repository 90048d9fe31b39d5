"""Chat messages of LlamaIndex as messages of the core: any of them, and none is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock

from ctxarith.conversation import ASSISTANT, SYSTEM, TOOL, USER, Message, ToolCall
from ctxarith.plain import jsonable

Said = str | ChatMessage | Sequence[str | ChatMessage] | None

_ROLES = {
    MessageRole.SYSTEM: SYSTEM,
    MessageRole.DEVELOPER: SYSTEM,
    MessageRole.ASSISTANT: ASSISTANT,
    MessageRole.CHATBOT: ASSISTANT,
    MessageRole.MODEL: ASSISTANT,
    MessageRole.TOOL: TOOL,
    MessageRole.FUNCTION: TOOL,
}
# Neither is said to anyone: a mark for a provider's cache, and what a model thought.
_UNSAID = {"cache", "cache_point", "thinking"}


def said(given: Said) -> list[ChatMessage]:
    """One message or several, as they come; a bare text is the user's."""
    several = [] if given is None else [given] if isinstance(given, str | ChatMessage) else list(given)
    return [ChatMessage(role=USER, content=one) if isinstance(one, str) else one for one in several]


def message_of(given: ChatMessage) -> Message:
    """A message with its tool calls, or with the id of the call that it answers.

    An image, a sound or a file stands as a mark, not as its bytes. `additional_kwargs["id"]`, if it is
    text, becomes the message's id.
    """
    role = _ROLES.get(given.role, USER)
    named = given.additional_kwargs.get("id")
    calls = calls_of(given)
    lines = list(_lines(given))
    if role != ASSISTANT:
        lines += [f"calls {call.name}: {call.arguments}" for call in calls]
    return Message(
        role,
        "\n".join(lines),
        tool_calls=calls if role == ASSISTANT else (),
        answers=str(given.additional_kwargs.get("tool_call_id") or "") if role == TOOL else None,
        id=named if isinstance(named, str) and named else None,
    )


def calls_of(given: ChatMessage) -> list[ToolCall]:
    """The tool calls of a message, in blocks or in the older `additional_kwargs["tool_calls"]`."""
    calls = [
        ToolCall(one.tool_call_id or one.tool_name, one.tool_name, _arguments(one.tool_kwargs))
        for one in given.blocks
        if isinstance(one, ToolCallBlock) and one.tool_name
    ]
    return calls or [call for one in _older(given) if (call := _older_call(one)) is not None]


def _lines(given: ChatMessage) -> Iterator[str]:
    for block in given.blocks:
        if isinstance(block, TextBlock):
            yield block.text
        elif not isinstance(block, ToolCallBlock) and block.block_type not in _UNSAID:
            where = getattr(block, "url", None) or getattr(block, "path", None)
            yield f"[{block.block_type}: {where}]" if where else f"[{block.block_type}]"


def _older(given: ChatMessage) -> Sequence[Any]:
    calls = given.additional_kwargs.get("tool_calls")
    return calls if isinstance(calls, list | tuple) else ()


def _older_call(given: Any) -> ToolCall | None:
    function = _part(given, "function") or given
    name = _part(function, "name")
    if not isinstance(name, str) or not name:
        return None
    return ToolCall(str(_part(given, "id") or name), name, _arguments(_part(function, "arguments")))


def _part(given: Any, name: str) -> Any:
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def _arguments(given: Any) -> str:
    if isinstance(given, str):
        return given
    try:
        return json.dumps(jsonable(given or {}), ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError):
        return json.dumps({"arguments": repr(given)}, ensure_ascii=False)
