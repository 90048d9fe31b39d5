"""How a conversation stands on the page: messages, and the summary above them.

What begins at the left margin is ours: every further line of a message is indented, so that no text
inside one can pass for another message or for the summary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from ctxarith.conversation import COMMITMENT, DECISION, FACT, QUESTION, REMARK, TOOL, Message, Point, ToolCall
from ctxarith.stages.layout import CUT_MARK, indented

HEADINGS = {
    DECISION: "Decisions",
    COMMITMENT: "Commitments",
    FACT: "Facts",
    QUESTION: "Open questions",
    REMARK: "Also said",
}
# Each point begins with its turns and its date in brackets.
HEAD = "Summary of turns 1-{upto}:"
# Stands where the beginning of a message was cut off; its end is kept, since a question often stands last.
CUT = CUT_MARK.strip() + " "


def message_line(message: Message) -> str:
    r"""A message as it is shown and counted, tool calls with their arguments included.

    >>> message_line(Message("user", "first\nsystem: second"))
    'user: first\n    system: second'
    """
    head = f"{message.role} ({indented(message.answers or '')})" if message.role == TOOL else message.role
    calls = "".join(
        f"\n    calls {indented(c.name)} ({indented(c.id)}): {indented(c.arguments)}"
        for c in message.tool_calls
    )
    return f"{head}: {indented(message.content)}{calls}"


def shortened(message: Message, characters: int) -> Message:
    """The end of a message that is too long, with a mark before it.

    The arguments of a call remain JSON, since a provider parses them.
    """
    content = message.content
    if len(content) > characters + len(CUT):
        content = CUT + content[len(content) - characters :]
    calls = tuple(_shortened_call(call, characters) for call in message.tool_calls)
    return replace(message, content=content, tool_calls=calls)


def _shortened_call(call: ToolCall, characters: int) -> ToolCall:
    if len(call.arguments) <= characters + len('{"cut": ""}'):
        return call
    return replace(call, arguments=json.dumps({"cut": call.arguments[len(call.arguments) - characters :]}))


def point_line(point: Point, stale: Sequence[str] = ()) -> str:
    """A point with its turns and its date.

    `stale` names attributes that a newer turn has given another value.
    """
    turns = ", ".join(map(str, point.turns)) if len(point.turns) <= 3 else _run(point.turns)
    note = f" (out of date here: {', '.join(stale)})" if stale else ""
    return f"- [{turns}; {point.time.date().isoformat()}] {point.said_by}: {_one_line(point.text)}{note}"


def summary_text(
    points: Sequence[Point], prose: str, *, upto: int, stale: Callable[[Point], Sequence[str]]
) -> str:
    """The points under their headings, oldest first; nothing at all where there is nothing to say."""
    lines: list[str] = []
    for kind, heading in HEADINGS.items():
        those = [point for point in points if point.kind == kind]
        lines += [f"{heading}:", *(point_line(point, stale(point)) for point in those)] if those else []
    lines += [f"In short: {indented(prose)}"] if prose else []
    return "\n".join([HEAD.format(upto=upto), *lines]) if lines else ""


def page(system: Sequence[Message], summary: str, messages: Sequence[Message]) -> str:
    """The whole window as one text."""
    lines = [*map(message_line, system), *([summary] if summary else []), *map(message_line, messages)]
    return "\n".join(lines)


def _run(turns: Sequence[int]) -> str:
    return f"{min(turns)}-{max(turns)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
