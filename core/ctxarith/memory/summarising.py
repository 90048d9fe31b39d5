"""One call of a summariser, whatever it does: a checked summary within its bound, or an exception."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ctxarith.conversation import COMMITMENT, DECISION, KINDS, REMARK, ROLES, Message, Point, Summary
from ctxarith.errors import ArgumentError
from ctxarith.index.analysis import Analyzer
from ctxarith.memory.digest import Extract, current, fitted, merged
from ctxarith.memory.script import message_line, shortened
from ctxarith.ports import Summarizer, TokenCounter, counted

T = TypeVar("T")

_MOST_POINTS = 200
_LONGEST_POINT = 600  # characters of one point
_LONGEST_TOKEN = 16  # characters of prose a token; what is longer is cut before it is counted
# A sentence is told again where so much of its words stands, and every number of it.
_TOLD = 0.6
_ANALYZER = Analyzer()


@dataclass(frozen=True, slots=True)
class Calls:
    """How a summariser is called.

    Args:
        summarizer: `None` for the extractive one, which cannot fail.
        extract: the points of one message.
        count: tokens of a text.
        limit: the most tokens of a summary.
        batch: the most tokens of turns in one call.
        timeout: seconds; `None` to wait for ever.
    """

    summarizer: Summarizer | None
    extract: Extract
    count: TokenCounter
    limit: int
    batch: int
    timeout: float | None

    def summary(self, previous: Summary, turns: Sequence[Message]) -> Summary:
        """The next summary, bounded.

        Whatever a model writes, the decisions, commitments, numbers, dates and names that the rules
        find stay, unless the model tells them with their turn: a model's omission loses nothing.

        Raises:
            Exception: what the summariser raised, or `TimeoutError`.
            ArgumentError: it gave nothing that is a summary.
        """
        base = merged(previous, turns, self.extract)
        if self.summarizer is not None:
            told = tuple(self._within(message) for message in turns)
            ask = self.summarizer
            answer = within(lambda: ask(previous, told), self.timeout)
            base = self._checked(answer, base, previous, turns)
        fits = fitted(base, self.limit, self.count)
        return Summary(fits.points, base.covers, fits.prose)

    def _within(self, message: Message) -> Message:
        """A message no longer than a batch; the raw turn stays whole."""
        if len(message_line(message)) <= self.batch:  # a token has a character at least
            return message
        characters = len(message_line(message))
        while counted(self.count, message_line(message)[: self.batch * 128]) > self.batch:
            characters //= 2
            message = shortened(message, characters)
            if not characters:
                break
        return message

    def _checked(self, answer: Any, base: Summary, previous: Summary, turns: Sequence[Message]) -> Summary:
        if isinstance(answer, str) and answer.strip():
            prose = answer.strip()[: self.limit * _LONGEST_TOKEN]
            kept = [p for p in base.points if _firm(p) or (p.kind != REMARK and not _is_told(p, prose))]
            return replace(base, points=tuple(kept), prose=prose)
        if not isinstance(answer, Summary):
            rule = "must return a Summary, or text that is not empty"
            raise ArgumentError(
                "summarizer", answer, f"{rule}; nothing was changed, and it will be asked again"
            )
        times = {message.number: message.time for message in turns}
        times |= {turn: point.time for point in previous.points for turn in point.turns}
        points = [
            checked for point in answer.points[:_MOST_POINTS] if (checked := _cited(point, times, base))
        ]
        if not points and not (isinstance(answer.prose, str) and answer.prose.strip()):
            raise ArgumentError("summarizer", answer, "no point cites a turn that it was given")
        left_out = [p for p in base.points if p.kind != REMARK and not any(_tells(one, p) for one in points)]
        kept, _ = current(sorted([*points, *left_out], key=lambda point: max(point.turns)))
        return Summary(tuple(kept), base.covers, str(answer.prose).strip()[: self.limit * _LONGEST_TOKEN])


def within(action: Callable[[], T], timeout: float | None) -> T:
    """The result of an action, or `TimeoutError`; what a hung one says later is heard by no one.

    Raises:
        TimeoutError: after `timeout` seconds.
        Exception: what the action raised.
    """
    outcome: list[Callable[[], T]] = []
    done = threading.Event()

    def act() -> None:
        try:
            result = action()
            outcome.append(lambda: result)
        except BaseException as error:
            # Bound anew, since Python unbinds the name at the end of the block.
            outcome.append(_raiser(error))
        done.set()

    threading.Thread(target=act, name="ctxarith-summarizer", daemon=True).start()
    if not done.wait(timeout):
        raise TimeoutError(f"the summarizer did not answer within {timeout} seconds")
    return outcome[0]()


def _raiser(error: BaseException) -> Callable[[], Any]:
    def throw() -> Any:
        raise RuntimeError(f"the summarizer failed: {type(error).__name__}: {error}") from error

    return throw


def _cited(point: Any, times: dict[int, Any], base: Summary) -> Point | None:
    """A point that cites turns it can know, dated as they are; `None` for any other."""
    if not isinstance(point, Point) or point.kind not in KINDS or point.said_by not in ROLES:
        return None
    text = point.text.strip() if isinstance(point.text, str) else ""
    turns = tuple(sorted({turn for turn in point.turns if turn in times}))
    if not text or not turns or len(turns) != len(set(point.turns)):
        return None
    told = [one for one in base.points if set(one.turns) & set(turns)]
    cited = replace(point, turns=turns)
    known = (slot for one in told if _tells(cited, one) for slot in one.slots)
    slots = point.slots or tuple(dict.fromkeys(known))
    return replace(point, text=text[:_LONGEST_POINT], turns=turns, time=times[turns[-1]], slots=slots)


def _firm(point: Point) -> bool:
    return point.kind in (DECISION, COMMITMENT) or bool(point.slots)


def _tells(point: Point, other: Point) -> bool:
    """Whether a point says what another one, of a turn that it cites, says."""
    return bool(set(point.turns) & set(other.turns)) and _is_told(other, point.text)


def _is_told(point: Point, text: str) -> bool:
    words, there = _terms(point.text), _terms(text)
    numbers = {word for word in words if any(c.isdigit() for c in word)}
    return numbers <= there and len(words & there) >= _TOLD * len(words)


def _terms(text: str) -> set[str]:
    return set(_ANALYZER.terms(text).counts)
