"""The text of a memory block: it knows its points, so that it can be made shorter and keep the facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from ctxarith.conversation import KINDS, SYSTEM, Message, Point, Summary
from ctxarith.memory.digest import Extract, fitted, merged
from ctxarith.memory.extract import points_of
from ctxarith.memory.script import HEAD, HEADINGS, message_line
from ctxarith.memory.window import Window
from ctxarith.ports import TokenCounter, counted

UNREADABLE = "(The earlier conversation cannot be read at this moment.)"


class Remembered(str):
    """What a block shows. A `str`, as its host wants it, that keeps what it was made of.

    Args:
        text: the whole.
        points: what the summary in it says.
        messages: what stands in it word for word, system messages first.
    """

    points: tuple[Point, ...]
    messages: tuple[Message, ...]

    def __new__(  # noqa: D102
        cls, text: str, points: Sequence[Point] = (), messages: Sequence[Message] = ()
    ) -> Self:
        made = super().__new__(cls, text)
        made.points, made.messages = tuple(points), tuple(messages)
        return made


def remembered(
    window: Window | None, beside: Sequence[Message], limit: int, *, count: TokenCounter
) -> Remembered:
    """A window and messages beside it, within a number of tokens.

    `beside` is what could not be stored yet, or was recalled; the newest of it is kept. The window must
    leave room for it.
    """
    text = UNREADABLE if window is None else window.text
    kept: list[Message] = []
    for message in reversed(beside):
        if counted(count, _joined(text, [message, *kept])) > limit:
            break
        kept.insert(0, message)
    shown = () if window is None else window.messages
    points = () if window is None else window.points
    return Remembered(_joined(text, kept), points, (*shown, *kept))


def shorter(
    content: str, limit: int, *, count: TokenCounter, extract: Extract = points_of
) -> Remembered | None:
    """The same within `limit` tokens: system messages and points alone; `None` if nothing has room.

    What stood word for word becomes points too. Then first to leave are remarks, open questions and facts,
    then commitments, and decisions last. Of a plain text whole lines are kept in that order.
    """
    if limit <= 0:
        return None
    if not isinstance(content, Remembered):
        return _lines_within(content, limit, count)
    if counted(count, content) <= limit:
        return content
    system = [message for message in content.messages if message.role == SYSTEM]
    turns = [message for message in content.messages if message.role != SYSTEM]
    while system and counted(count, _joined("", system)) > limit:
        system.pop(0)
    head = _joined("", system)
    room = limit - (counted(count, head + "\n") if head else 0)
    upto = max((turn for point in content.points for turn in point.turns), default=0)
    said = merged(Summary(content.points, upto), turns, extract)
    while True:
        fits = fitted(said, room, count)
        text = "\n".join(part for part in (head, fits.text) if part)
        if counted(count, text) <= limit:
            return Remembered(text, fits.points, system) if text else None
        # Tokens of a joined text are not quite the sum of its parts'.
        room -= counted(count, text) - limit


def _joined(text: str, messages: Sequence[Message]) -> str:
    return "\n".join([*([text] if text else []), *map(message_line, messages)])


def _lines_within(content: str, limit: int, count: TokenCounter) -> Remembered | None:
    lines = content.splitlines() if content else []
    order = sorted(range(len(lines)), key=lambda at: (_weight(lines, at), at))
    left = dict(enumerate(lines))
    while left and counted(count, "\n".join(left.values())) > limit:
        left.pop(order.pop(0))
    return Remembered("\n".join(left.values())) if left else None


def _weight(lines: Sequence[str], at: int) -> int:
    """How long a line of a page is kept: a point by its heading, a heading as its points, turns least."""
    names = {f"{heading}:": len(KINDS) - place for place, heading in enumerate(HEADINGS[k] for k in KINDS)}
    if lines[at] in names:
        return names[lines[at]]
    if not lines[at].startswith("- "):
        return int(lines[at].startswith(HEAD.partition("{")[0]))
    above = (names[lines[n]] for n in range(at, -1, -1) if lines[n] in names)
    return next(above, 0)
