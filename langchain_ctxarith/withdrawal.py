"""The messages of a thread as the model may read them now: what no longer holds is taken out of copies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ctxarith.stages.layout import indented
from langchain_ctxarith.evidence import CHANGED, CURRENT, GONE, Held, Standing, behind

RESULT = "(What was found here no longer holds. Look it up again if it is needed.)"
ANSWER = "(This answer rested on evidence that is no longer available.)"
OUTDATED = "(Said when {names} held; that has changed since.)"

_MARK = re.compile(r"\[(\d+)\]")
# Only our own lines begin with a mark at the margin: further lines of a record are indented.
_LINE = re.compile(r"^\[(\d+)\]", re.MULTILINE)


def readable(messages: Sequence[BaseMessage], standing: Standing) -> list[BaseMessage]:
    """The messages under today's policy; those that rest on nothing are the same objects.

    * A result of our tool stays while all of its records stand as they were shown.
    * An answer stays while all the records that it rests on are the caller's; if one has changed, a note
      says so. Without that, it stays in its place as a placeholder, so that no call loses its result.
    * Marks such as [2], which begin anew in each turn, become source and version, which do not.
    """
    return [_readable(message, behind(message), standing) for message in messages]


def _readable(message: BaseMessage, held: Sequence[Held], standing: Standing) -> BaseMessage:
    if not held:
        return message
    state = standing.of(held)
    if isinstance(message, ToolMessage):
        content = _marked(message.content, held, _LINE) if state == CURRENT else RESULT
        # The artifact is for programs; whoever counts or logs requests need not carry it along.
        return message.model_copy(update={"content": content, "artifact": None})
    if not isinstance(message, AIMessage):
        return message
    if state == GONE:
        return _placeholder(message)
    content = _marked(message.content, held, _MARK)
    if state == CHANGED:
        names = ", ".join(map(indented, standing.changed(held)))
        content = _noted(content, OUTDATED.format(names=names))
    return message.model_copy(update={"content": content})


def _placeholder(message: AIMessage) -> AIMessage:
    """Nothing of what was said is left, the arguments of its calls and a provider's own copies included."""
    calls = [{**call, "args": {}} for call in message.tool_calls]
    return AIMessage(ANSWER, id=message.id, name=message.name, tool_calls=calls)


def _marked(content: Any, held: Sequence[Held], mark: re.Pattern[str]) -> Any:
    def named(found: re.Match[str]) -> str:
        place = int(found[1])
        return f"[{held[place - 1].name}]" if 1 <= place <= len(held) else found[0]

    if isinstance(content, str):
        return mark.sub(named, content)
    return [
        {**block, "text": mark.sub(named, block["text"])} if _is_text(block) else block for block in content
    ]


def _noted(content: Any, note: str) -> Any:
    return f"{content} {note}" if isinstance(content, str) else [*content, {"type": "text", "text": note}]


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
