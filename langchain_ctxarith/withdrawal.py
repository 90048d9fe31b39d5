"""The messages of a thread as the model may read them now: what no longer holds is taken out of copies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_ctxarith.evidence import CHANGED, CURRENT, GONE, Held, Standing, behind, citations, stated

# In small letters and without a fact, so that no summary keeps more of them than one remark.
RESULT = "(what was found here no longer holds: look it up again if it is needed)"
ANSWER = "(this answer no longer holds)"

# As answers are read for their citations: [1], [1, 2], and no link.
_MARKS = re.compile(r"\[([^\[\]\n]+)\](?!\()")
# Only our own lines begin with a mark at the margin: further lines of a record are indented.
_LINE = re.compile(r"^\[(\d+)\]", re.MULTILINE)


def readable(messages: Sequence[BaseMessage], standing: Standing) -> list[BaseMessage]:
    """The messages under today's policy; those that rest on nothing are the same objects.

    * A result of our tool stays while all of its records stand as they were shown.
    * An answer stays while all the records that it rests on are the caller's, and none that it says something
      of stands otherwise: those that it cites, if every sentence has a mark, and otherwise all.
    * Else a placeholder stands there, so that no call loses its result and no answer its question. Results of
      an answer's own calls go with it, since tools repeat what they are told.
    * Marks such as [2], which begin anew in each turn, become source and version, which do not.
    """
    lost: set[str | None] = set()
    read: list[BaseMessage] = []
    for message in messages:
        held = behind(message)
        if isinstance(message, ToolMessage) and message.tool_call_id in lost:
            read.append(message.model_copy(update={"content": RESULT, "artifact": None}))
            continue
        if isinstance(message, AIMessage) and _is_lost(message, standing):
            lost |= {call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)}
        read.append(_readable(message, held, standing))
    return read


def _readable(message: BaseMessage, held: Sequence[Held], standing: Standing) -> BaseMessage:
    if not held:
        return message
    if isinstance(message, ToolMessage):
        named = {str(mark): one.name for mark, one in enumerate(held, start=1)}
        current = standing.of(held) == CURRENT
        content = _marked(message.content, named, _LINE) if current else RESULT
        # The artifact is for programs; whoever counts or logs requests need not carry it along.
        return message.model_copy(update={"content": content, "artifact": None})
    if not isinstance(message, AIMessage):
        return message
    if _is_lost(message, standing):
        return _placeholder(message)
    return message.model_copy(update={"content": _marked(message.content, citations(message), _MARKS)})


def _is_lost(message: AIMessage, standing: Standing) -> bool:
    return standing.of(behind(message)) == GONE or standing.of(stated(message)) == CHANGED


def _placeholder(message: AIMessage) -> AIMessage:
    """Nothing of what was said is left, the arguments of its calls and a provider's own copies included."""
    calls = [{**call, "args": {}} for call in message.tool_calls]
    return AIMessage(ANSWER, id=message.id, name=message.name, tool_calls=calls)


def _marked(content: Any, named: Mapping[str, str], mark: re.Pattern[str]) -> Any:
    def name(found: re.Match[str]) -> str:
        marks = [one.strip() for one in re.split(r"[,;]", found[1])]
        return f"[{', '.join(named[one] for one in marks)}]" if named.keys() >= {*marks} else found[0]

    if isinstance(content, str):
        return mark.sub(name, content)
    return [
        {**block, "text": mark.sub(name, block["text"])} if _is_text(block) else block for block in content
    ]


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
