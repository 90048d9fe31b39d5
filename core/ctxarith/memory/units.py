"""What must stay together: an assistant's tool calls and their results; any other message is alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ctxarith.conversation import SYSTEM, TOOL, Message


@dataclass(frozen=True, slots=True)
class Unit:
    """Messages that are shown or left out together; results stand right behind their calls."""

    messages: tuple[Message, ...]

    @property
    def first(self) -> int:
        """The number of its first turn."""
        return self.messages[0].number

    @property
    def last(self) -> int:
        """The number of its last turn."""
        return max(message.number for message in self.messages)


def units(messages: Sequence[Message]) -> tuple[list[Unit], list[Message]]:
    """The units in order, and the results whose call is not among the messages (or has its result).

    System messages belong to neither.
    """
    groups: list[list[Message]] = []
    waiting: dict[str, int] = {}
    orphans: list[Message] = []
    for message in messages:
        if message.role == TOOL:
            at = waiting.pop(message.answers or "", None)
            if at is None:
                orphans.append(message)
            else:
                groups[at].append(message)
        elif message.role != SYSTEM:
            waiting.update((call.id, len(groups)) for call in message.tool_calls)
            groups.append([message])
    return [Unit(tuple(group)) for group in groups], orphans


def recent(those: Sequence[Unit], turns: int) -> int:
    """Where the shortest run of units at the end begins that holds so many turns."""
    start = len(those)
    while start and turns > 0:
        start -= 1
        turns -= len(those[start].messages)
    return start


def whole_until(those: Sequence[Unit], stop: int) -> int:
    """The last turn of the first `stop` units, or of as many fewer as leave no unit in two; 0 for none."""
    while stop:
        last = max(unit.last for unit in those[:stop])
        if all(unit.first > last for unit in those[stop:]):
            return last
        stop -= 1
    return 0
