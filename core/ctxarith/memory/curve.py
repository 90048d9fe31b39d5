"""Tokens per turn: what a conversation costs with a rolling window, and what it would cost whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ctxarith.conversation import Message
from ctxarith.memory.rolling import RollingMemory
from ctxarith.memory.script import message_line
from ctxarith.models.tokens import token_counter
from ctxarith.ports import counted

_WIDTH = 500


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """The tokens that a model is sent after a turn.

    Args:
        turn: its number.
        window: those of the window.
        summary: those of the summary inside it.
        whole: those of all turns so far, word for word.
    """

    turn: int
    window: int
    summary: int
    whole: int


@dataclass(frozen=True, slots=True)
class Curve:
    """Tokens after each turn, as bars in a notebook: the window dark, the whole conversation light."""

    points: tuple[TurnTokens, ...]

    def __str__(self) -> str:
        last = self.points[-1] if self.points else TurnTokens(0, 0, 0, 0)
        return f"after turn {last.turn}: {last.window} tokens in the window, {last.whole} in the whole"

    def _repr_html_(self) -> str:
        most = max((point.whole for point in self.points), default=0) or 1
        return "".join(
            '<div style="display:flex;align-items:center;height:7px">'
            f'<span style="width:32px;font-size:7px">{point.turn}</span>'
            f'<span style="width:{_WIDTH * point.window // most}px;height:5px;background:#4c78a8"></span>'
            f'<span style="width:{_WIDTH * max(point.whole - point.window, 0) // most}px;height:5px;'
            'background:#cfdceb"></span></div>'
            for point in self.points
        )


def tokens_per_turn(messages: Iterable[Message], **options: Any) -> Iterator[TurnTokens]:
    """Say the messages again to a memory of its own, and count after each; the same every time.

    Args:
        messages: such as `RollingMemory.turns`.
        **options: of `RollingMemory`, `thread_id`, `path` and `store` aside.

    >>> [t.whole for t in tokens_per_turn([Message("user", "Hello."), Message("assistant", "Hi.")])]
    [4, 8]
    """
    count = token_counter(options.get("tokenizer"))
    whole = 0
    with RollingMemory(**{**options, "thread_id": "tokens per turn", "path": None, "store": None}) as memory:
        for message in messages:
            added = memory.append(
                message.role,
                message.content,
                time=message.time,
                tool_calls=message.tool_calls,
                answers=message.answers,
                slots=message.slots,
            )
            memory.wait()
            window = memory.window()
            line = message_line(added)
            summary = counted(count, window.summary)
            # The last line has no end; all others do.
            yield TurnTokens(added.number, window.tokens, summary, whole + counted(count, line))
            whole += counted(count, line + "\n")
