"""The turns of one thread in a store without transactions: who comes when two claim one number."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ctxarith.conversation import Message
from ctxarith.transcript import message_from_json


def turn_name(number: int, token: str) -> str:
    """The name of the item of a turn: the number that is claimed for it, and what no other name holds."""
    return f"{number:010d}-{token}"


def claimed(name: str) -> int:
    """The number that the writer of a turn claimed."""
    return int(name.partition("-")[0])


class Turns:
    """Turns in the order of their names; the place of each is its number. Not thread-safe.

    Places are the claimed numbers unless two writers claimed one. Then what stood behind moves on by one, and
    the thread has another generation, so that whoever knows the old numbers reads it anew.

    Args:
        whose: what tells the thread from all others.
        era: changes when the thread is cleared.
        items: the names of the turns, and the turns.
    """

    def __init__(self, whose: str, era: str, items: Iterable[tuple[str, Message]] = ()) -> None:
        self.whose = whose
        self.era = era
        self.names: list[str] = []
        self.messages: list[Message] = []
        self._known: set[str] = set()
        self._ids: dict[str, Message] = {}
        for name, message in sorted(items, key=lambda item: item[0]):
            self._add(name, message)
        moved = [name for place, name in enumerate(self.names, 1) if claimed(name) != place]
        self.generation = _number_of([whose, era, *moved])

    def __len__(self) -> int:
        return len(self.names)

    @property
    def next_claim(self) -> int:
        """The number that a writer claims now."""
        return max(len(self.names), claimed(self.names[-1]) if self.names else 0) + 1

    def with_id(self, name: str | None) -> Message | None:
        """The first turn with an id of the caller's; `None` where there is none."""
        return None if name is None else self._ids.get(name)

    def named(self, name: str) -> Message:
        """The turn of an item."""
        return self.messages[-1 if self.names[-1] == name else self.names.index(name)]

    def joined(self, found: Mapping[str, str]) -> Turns:
        """The same with further items, given by name as JSON text; another object if a number changes."""
        fresh = sorted(name for name in found if name not in self._known)
        new = [(name, message_from_json(found[name], 0)) for name in fresh]
        if all(claimed(name) == place for place, name in enumerate(fresh, len(self.names) + 1)):
            for name, message in new:
                self._add(name, message)
            return self
        return Turns(self.whose, self.era, [*zip(self.names, self.messages, strict=True), *new])

    def _add(self, name: str, message: Message) -> None:
        self.names.append(name)
        self._known.add(name)
        number = len(self.names)
        self.messages.append(message if message.number == number else replace(message, number=number))
        if message.id is not None:
            self._ids.setdefault(message.id, self.messages[-1])


def _number_of(parts: Iterable[str]) -> int:
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    # Positive, since 0 is a thread without turns.
    return int.from_bytes(digest[:7]) + 1
