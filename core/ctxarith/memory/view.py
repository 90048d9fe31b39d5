"""A thread as one handle sees it: read from the store as far as it has changed, and never further."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ctxarith.conversation import SYSTEM, USER, ConversationKey, Message, Point, Summary
from ctxarith.durable import Conversations, Head
from ctxarith.memory.digest import fitted, merged
from ctxarith.memory.summarising import Calls
from ctxarith.memory.units import recent, units, whole_until
from ctxarith.memory.window import Costs, Limits, Thread

# Turns are digested in steps that begin at fixed numbers, so that it does not matter when that was done.
_STEP = 16


class View:
    """The summary, the turns that it does not cover, and what is known of them. Not thread-safe."""

    def __init__(self, store: Conversations, key: ConversationKey, *, limits: Limits, calls: Calls) -> None:
        self._store = store
        self._key = key
        self._limits = limits
        self._calls = calls
        self.costs = Costs(calls.count, limits.max_tokens)
        self._points: dict[int, tuple[Point, ...]] = {}
        self._start(Head())

    def _start(self, head: Head) -> None:
        self.head = head
        self.stored = self._store.summary(head.generation) if head.generation else Summary()
        pinned = self._store.pinned(head.generation, self.stored.covers) if self.stored.covers else []
        self.system = [message for message in pinned if message.role == SYSTEM]
        asked = [message for message in pinned if message.role == USER]
        self._asked = asked[-1] if asked else None
        self._tail: list[Message] = []
        self.tail_cost = 0
        self._digested = self.stored
        self._last = self.stored.covers

    def sync(self) -> None:
        """Take over what was appended, summarised or cleared, by this process or another."""
        head = self._store.head(self._key)
        if head == self.head:
            return
        if head.generation != self.head.generation:
            self._points = {}
            self.costs = Costs(self._calls.count, self._limits.max_tokens)
        if head.generation != self.head.generation or head.covers != self.head.covers:
            self._start(head)
            self._points = {n: those for n, those in self._points.items() if n > self.stored.covers}
            self.costs.forget({message.number for message in self.system}, self.stored.covers)
        self.head = head
        if head.generation:
            for message in self._store.since(head.generation, self._last):
                (self.system if message.role == SYSTEM else self._tail).append(message)
                self._last = message.number
                self.tail_cost += 0 if message.role == SYSTEM else self.costs.of(message)

    def thread(self) -> Thread:
        """The thread at this moment."""
        return Thread(
            system=tuple(self.system),
            tail=tuple(self._tail),
            covers=self.stored.covers,
            asked=self._asked,
            digest=self.digest,
        )

    @property
    def verbatim(self) -> int:
        """The tokens that are left for turns beside the system messages and a full summary."""
        return max(0, self._limits.max_tokens - self._limits.summary_tokens - self.costs.all(self.system))

    def backlog(self, *, everything: bool) -> list[Message]:
        """The turns that the next summary should cover, no more than one call takes; none for none.

        Those are older than the last `keep_recent` ones. Unless `everything` is asked for, they are taken
        when the turns have outgrown their room, and half of it is left to the newest, so that a call pays.
        """
        groups, _ = units(self._tail)
        stop = recent(groups, self._limits.keep_recent)
        if not everything:
            room = self.verbatim
            if self.tail_cost <= room:
                return []
            left = room // 2
            half = len(groups)
            while half and left >= 0:
                half -= 1
                left -= self.costs.all(groups[half].messages)
            stop = min(stop, half + 1)
            if sum(self.costs.all(unit.messages) for unit in groups[:stop]) < room // 4:
                return []
        taken, size = 0, 0
        while taken < stop and (not taken or size <= self._calls.batch):
            size += self.costs.all(groups[taken].messages)
            taken += 1
        if taken > 1 and size > self._calls.batch:
            taken -= 1
        # One unit at least, with all that lies between its first and last turn.
        ends = (whole_until(groups, n) for n in (taken, *range(taken + 1, stop + 1)))
        upto = next((end for end in ends if end), 0)
        return [message for message in self._tail if message.number <= upto]

    def digest(self, upto: int) -> Summary:
        """The stored summary with the whole tail merged in; bounded as far as `upto`."""
        base = self._digested if self._digested.covers <= upto else self.stored
        waiting = [message for message in self._tail if message.number > base.covers]
        for step, those in groupby(waiting, key=lambda message: message.number // _STEP):
            end = (step + 1) * _STEP - 1
            if end > upto:
                break
            base = self._bounded(base, list(those), end)
            if base.covers > self._digested.covers:
                self._digested = base
        return merged(base, [m for m in waiting if m.number > base.covers], self.points)

    def points(self, message: Message) -> Sequence[Point]:
        """The points of a message, read once."""
        if message.number not in self._points:
            self._points[message.number] = tuple(self._calls.extract(message))
        return self._points[message.number]

    def _bounded(self, base: Summary, turns: Sequence[Message], upto: int) -> Summary:
        whole = merged(base, turns, self.points)
        fits = fitted(whole, self._limits.summary_tokens, self._calls.count)
        return Summary(fits.points, upto, fits.prose)
