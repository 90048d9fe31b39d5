"""What the model sees of a thread, under a token budget: counted whole, as it is rendered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ctxarith.conversation import USER, Message, Point, Summary
from ctxarith.errors import BudgetError
from ctxarith.memory.digest import Fitted, fitted
from ctxarith.memory.script import message_line, page, shortened
from ctxarith.memory.units import Unit, recent, units
from ctxarith.ports import TokenCounter, counted

# A message that is cut keeps at least its mark and some words.
LEAST = 24
# No token of the encodings in use is longer; a text beyond this cannot fit and need not be counted.
_LONGEST_TOKEN = 128
# A cut message begins its search here, in characters a token.
_WIDE = 16

# The stored summary with the whole tail merged in; turns up to the given one may have been evicted from it.
Digest = Callable[[int], Summary]


@dataclass(frozen=True, slots=True)
class Window:
    """What the model sees. `tokens` is the count of `text`, and never above `max_tokens`.

    Args:
        messages: system messages, then the turns that are shown word for word, oldest first; a tool
            result is always behind its call.
        summary: the summary as it stands in `text`, between the two; "" where nothing is left out.
        points: what the summary says, each with the turns it came from.
        text: the whole, rendered.
        tokens: how many tokens `text` has.
        max_tokens: the bound that held.
        cut: the numbers of the newest messages that were too long: they are shown from their end only, or
            where even that has no room, not at all.
    """

    messages: tuple[Message, ...]
    summary: str
    points: tuple[Point, ...]
    text: str
    tokens: int
    max_tokens: int
    cut: tuple[int, ...] = ()

    @property
    def turns(self) -> tuple[int, ...]:
        """The numbers of the turns that are shown word for word."""
        return tuple(message.number for message in self.messages)


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread at one moment.

    Args:
        system: its system messages.
        tail: the turns that the stored summary does not cover, system messages aside.
        covers: the last turn that the stored summary covers.
        asked: the last message of the user, when the stored summary covers it.
        digest: the summary with the tail merged in, so that what a shown turn replaces is not in it.
    """

    system: Sequence[Message]
    tail: Sequence[Message]
    covers: int
    asked: Message | None
    digest: Digest


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a window: in all, for the summary, and how many of the last turns come first."""

    max_tokens: int
    summary_tokens: int
    keep_recent: int


@dataclass(slots=True)
class Costs:
    """Tokens of messages as they are shown, counted once; an upper bound of what they add to a page."""

    count: TokenCounter
    max_tokens: int
    _known: dict[int, int] = field(default_factory=dict)

    def of(self, message: Message) -> int:
        """What a message adds."""
        if message.number not in self._known:
            self._known[message.number] = self.fresh(message)
        return self._known[message.number]

    def fresh(self, message: Message) -> int:
        """The same for a message that was cut."""
        # With its line end behind it, where encodings join it to a full stop.
        line = message_line(message) + "\n"
        if len(line) > _LONGEST_TOKEN * self.max_tokens:
            return len(line)
        return counted(self.count, line)

    def all(self, messages: Sequence[Message]) -> int:
        """What several messages add."""
        return sum(map(self.of, messages))

    def forget(self, kept: Collection[int], upto: int) -> None:
        """Drop what is known of the turns 1 to `upto`, except some."""
        self._known = {n: cost for n, cost in self._known.items() if n > upto or n in kept}


def window(thread: Thread, limits: Limits, costs: Costs) -> Window:
    """The window of a thread.

    In this order, while there is room: the system messages; the newest unit and the last message of the
    user, cut to their ends if they are too long; the last `keep_recent` turns, if all of them fit; the
    summary; older turns. If not all of the last `keep_recent` turns fit, the summary comes before those.

    Raises:
        BudgetError: the system messages leave no room for a message.
    """
    slack = 0
    while True:
        made = _window(thread, limits, costs, limits.max_tokens - slack)
        if made.tokens <= limits.max_tokens:
            return made
        # Tokens of a joined text are not quite the sum of its parts'.
        slack += made.tokens - limits.max_tokens


def _window(thread: Thread, limits: Limits, costs: Costs, limit: int) -> Window:
    room = limit - costs.all(thread.system)
    groups, _ = units(thread.tail)
    needed = LEAST if groups or thread.asked else 0
    if room < needed:
        raise BudgetError(limits.max_tokens - room + needed, limits.max_tokens)
    must = _must(groups, thread.asked)
    # What is cut off a message is left to the summary.
    reserve = min(limits.summary_tokens, room - needed, room // 4) if _cost(must, costs) > room else 0
    shown, cut = _cut(must, room - reserve, costs)
    shown += _more(groups, must, limits, costs, room - _cost(shown, costs, fresh=cut), thread)
    shown.sort(key=lambda unit: unit.first)
    messages = [message for unit in shown for message in unit.messages]
    whole = {message.number for message in messages} - {*cut}
    summary = _summary(thread, whole, limits, costs, room - _cost(shown, costs, fresh=cut))
    text = page(thread.system, summary.text, messages)
    return Window(
        messages=(*thread.system, *messages),
        summary=summary.text,
        points=summary.points,
        text=text,
        tokens=counted(costs.count, text),
        max_tokens=limits.max_tokens,
        cut=tuple(sorted(cut)),
    )


def _must(groups: Sequence[Unit], asked: Message | None) -> list[Unit]:
    """The newest unit, and the one in which the user spoke last."""
    spoken = [unit for unit in groups if unit.messages[0].role == USER]
    last = spoken[-1] if spoken else Unit((asked,)) if asked else None
    return list(dict.fromkeys(unit for unit in (last, *groups[-1:]) if unit is not None))


def _more(
    groups: Sequence[Unit], must: Sequence[Unit], limits: Limits, costs: Costs, room: int, thread: Thread
) -> list[Unit]:
    """The units beside those that must be shown, newest first, without a gap."""
    rest = [unit for unit in reversed(groups) if unit not in must]
    near = set(groups[recent(groups, limits.keep_recent) :])
    first = [unit for unit in rest if unit in near]
    all_of_it = _cost(rest, costs)
    if all_of_it <= room and thread.covers:
        summary = fitted(thread.digest(thread.covers), limits.summary_tokens, costs.count)
        all_of_it += counted(costs.count, summary.text)
    if all_of_it <= room:
        return rest
    reserve = min(limits.summary_tokens, room)
    taken = first if _cost(first, costs) <= room else []
    left = room - _cost(taken, costs)
    for unit in rest[len(taken) :]:
        left -= _cost([unit], costs)
        if left < reserve:
            break
        taken = [*taken, unit]
    return list(taken)


def _summary(thread: Thread, whole: Collection[int], limits: Limits, costs: Costs, room: int) -> Fitted:
    """What the summary has to say beside the turns that are shown whole."""
    hidden = [message.number for message in thread.tail if message.number not in whole]
    if not hidden and not thread.covers:
        return Fitted((), "", "")
    upto = max([thread.covers, *hidden])
    told = thread.digest(upto)
    points = tuple(point for point in told.points if not set(point.turns) <= set(whole))
    limit = min(limits.summary_tokens, room - counted(costs.count, "\n"))
    return fitted(Summary(points, upto, told.prose), limit, costs.count)


def _cost(those: Sequence[Unit], costs: Costs, *, fresh: Sequence[int] = ()) -> int:
    return sum(
        costs.fresh(message) if message.number in fresh else costs.of(message)
        for unit in those
        for message in unit.messages
    )


def _cut(must: Sequence[Unit], room: int, costs: Costs) -> tuple[list[Unit], list[int]]:
    """The units within `room`, their longest messages cut to the last so many characters, all alike.

    Where even the marks are too many (a hundred calls in one unit), the user's message alone is left, and
    the summary has the rest.
    """
    if _cost(must, costs) <= room:
        return list(must), []
    for those in (must, must[:1]):
        longest = max(len(message_line(message)) for unit in those for message in unit.messages)
        low, high = 0, min(longest, room * _WIDE) + 1
        best: list[Unit] = []
        while low < high:
            characters = (low + high) // 2
            trial = [Unit(tuple(shortened(one, characters) for one in unit.messages)) for unit in those]
            if sum(costs.fresh(message) for unit in trial for message in unit.messages) <= room:
                best, low = trial, characters + 1
            else:
                high = characters
        if best:
            kept = {message for unit in best for message in unit.messages}
            changed = [m.number for unit in must for m in unit.messages if m not in kept]
            return best, changed
    return [], [message.number for unit in must for message in unit.messages]
