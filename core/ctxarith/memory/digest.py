"""Summary and newly old turns become one summary, and what a summary has no room for leaves it.

Nothing here calls a model: this is the default summariser, and what covers turns that no summary covers yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ctxarith.conversation import (
    ASSISTANT,
    COMMITMENT,
    DECISION,
    KINDS,
    QUESTION,
    TOOL,
    USER,
    Message,
    Point,
    Summary,
)
from ctxarith.memory.extract import points_of
from ctxarith.memory.script import HEAD, HEADINGS, point_line, summary_text
from ctxarith.memory.statements import replaced_value, slot_key
from ctxarith.model import Slot
from ctxarith.ports import TokenCounter, counted
from ctxarith.stages.layout import cut_sentences

Extract = Callable[[Message], Sequence[Point]]
T = TypeVar("T")

# What leaves first stands last.
PRIORITY = {kind: place for place, kind in enumerate(KINDS)}
_PROSE_SHARE = 2 / 3
_MOST_TURNS = 8
_NO_ANSWER = re.compile(
    r"\b(?:get back|let me check|find out|not sure|(?:don['’]t|do not) know)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Fitted:
    """What of a summary there is room for: its text, and the points that had to leave."""

    points: tuple[Point, ...]
    prose: str
    text: str
    evicted: tuple[Point, ...] = ()


def merged(previous: Summary, turns: Sequence[Message], extract: Extract = points_of) -> Summary:
    """The summary with the points of newly old turns; what they supersede, repeat or answer is gone.

    >>> first = merged(Summary(), [Message("user", "The budget is 400 EUR.", 1)])
    >>> [p.text for p in merged(first, [Message("user", "The budget is now 500 EUR.", 2)]).points]
    ['The budget is now 500 EUR.']
    """
    points = list(previous.points)
    for message in turns:
        points = [point for point in points if not _answers(message, point)]
        for point in extract(message):
            points.append(_with_replaced_value(point, points))
    upto = max([previous.covers, *(message.number for message in turns)])
    kept, _ = current(_without_repeats(points))
    return Summary(tuple(kept), upto, _current_prose(previous.prose, kept, points))


def current(points: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """The points that stand, and those each of whose slots a newer point asserts again.

    Newer is later in time, then in the thread: never in order of arrival.
    """
    newest = _newest(points)
    kept: list[Point] = []
    retired: list[Point] = []
    for place, point in enumerate(points):
        keys = [slot_key(slot) for slot in point.slots if slot.asserts]
        stale = bool(keys) and all(newest[key] != place for key in keys)
        (retired if stale else kept).append(point)
    return kept, retired


def stale_slots(points: Sequence[Point]) -> Callable[[Point], list[str]]:
    """For each point that stands, the attributes that a newer one has given another value."""
    newest = {key: points[place] for key, place in _newest(points).items()}

    def stale(point: Point) -> list[str]:
        return [s.attribute for s in point.slots if s.asserts and newest.get(slot_key(s), point) != point]

    return stale


def fitted(summary: Summary, limit: int, count: TokenCounter, *, upto: int | None = None) -> Fitted:
    """As much of a summary as `limit` tokens hold, its heading included.

    First to leave are remarks, then open questions, facts, commitments, and decisions last; within a kind the
    lighter ones (neither date nor number) and then the oldest. A point that is too long is passed over.
    Prose gets at most two thirds of what decisions and commitments leave.
    """
    covers = summary.covers if upto is None else upto
    stale = stale_slots(summary.points)

    def text_of(points: Sequence[Point], prose: str) -> str:
        standing = [point for point in summary.points if point in points]
        return summary_text(standing, prose, upto=covers, stale=stale)

    def fits(points: Sequence[Point], prose: str) -> bool:
        return counted(count, text_of(points, prose)) <= limit

    ranked = sorted(summary.points, key=_rank)
    firm = [point for point in ranked if PRIORITY[point.kind] <= PRIORITY[COMMITMENT]]
    costs: dict[Point | str, int] = {
        point: counted(count, point_line(point, stale(point)) + "\n") for point in ranked
    }
    costs |= {kind: counted(count, f"{heading}:\n") for kind, heading in HEADINGS.items()}
    head = counted(count, HEAD.format(upto=covers) + "\n")
    chosen = _greedy(firm, limit - head, costs)
    prose = _cut_prose(summary.prose, limit, chosen, lambda text: counted(count, text_of(chosen, text)))
    used = counted(count, text_of(chosen, prose)) if chosen or prose else head
    chosen += _greedy(ranked[len(firm) :], limit - used, costs)
    while (chosen or prose) and not fits(chosen, prose):
        if prose:
            prose = ""
        else:
            chosen = chosen[:-1]
    evicted = tuple(point for point in summary.points if point not in chosen)
    kept = tuple(point for point in summary.points if point in chosen)
    return Fitted(kept, prose, text_of(chosen, prose), evicted)


class ExtractiveSummarizer:
    """The default summariser: deterministic, no model, the sentences themselves.

    It keeps decisions, commitments, dates, numbers and names, each with its turn. It does not
    paraphrase, joins nothing that is said in different words, and reads decisions in English only.
    """

    def __init__(self, extract: Extract = points_of) -> None:
        self._extract = extract

    def __call__(self, previous: Summary, turns: Sequence[Message], /) -> Summary:
        """The points of the previous summary that stand, and those of the new turns."""
        return merged(previous, turns, self._extract)


def _newest(points: Sequence[Point]) -> dict[tuple[str, str], int]:
    newest: dict[tuple[str, str], int] = {}
    for place, point in enumerate(points):
        for slot in point.slots:
            key = slot_key(slot)
            if slot.asserts and (key not in newest or _age(points, newest[key]) < _age(points, place)):
                newest[key] = place
    return newest


def _age(points: Sequence[Point], place: int) -> tuple[object, ...]:
    return (points[place].time, max(points[place].turns), place)


def _rank(point: Point) -> tuple[int, int, int, str]:
    return (PRIORITY[point.kind], -point.weight, -max(point.turns), point.text)


def _greedy(points: Sequence[Point], room: int, costs: Mapping[Point | str, int]) -> list[Point]:
    """What fits, best first; the first of a kind pays for its heading."""
    chosen: list[Point] = []
    headed: set[str] = set()
    for point in points:
        cost = costs[point] + (0 if point.kind in headed else costs[point.kind])
        if cost <= room:
            room -= cost
            chosen.append(point)
            headed.add(point.kind)
    return chosen


def _cut_prose(prose: str, limit: int, chosen: Sequence[Point], size: Callable[[str], int]) -> str:
    if not prose:
        return ""
    taken = size("") if chosen else 0
    share = taken + int((limit - taken) * _PROSE_SHARE)
    if size(prose) <= share:
        return prose
    return cut_sentences(prose, lambda text: size(text) <= share) or ""


def _answers(message: Message, point: Point) -> bool:
    """Whether a message closes an open question: another role speaks after it, and does not put it off."""
    asked = point.kind == QUESTION and point.text.rstrip().endswith(("?", "？"))
    speaks = message.role in (USER, ASSISTANT) and message.role != point.said_by
    return asked and speaks and message.number > max(point.turns) and not _NO_ANSWER.search(message.content)


def _with_replaced_value(point: Point, earlier: Sequence[Point]) -> Point:
    """A switch "from X to Y" asserts Y for the fact whose value X was."""
    found = replaced_value(point.text) if point.kind == DECISION and point.said_by != TOOL else None
    if found is None:
        return point
    old, new = found
    slots = [slot for one in earlier for slot in one.slots if str(slot.value).casefold() == old.casefold()]
    known = {slot_key(slot) for slot in point.slots}
    more = {slot_key(s): Slot(s.subject, s.attribute, new) for s in slots if slot_key(s) not in known}
    return replace(point, slots=(*point.slots, *more.values()))


def _without_repeats(points: Sequence[Point]) -> list[Point]:
    """The same sentence twice is one point, at its last place, with the turns of both."""
    last: dict[tuple[str, str], Point] = {}
    for point in points:
        key = (point.kind, " ".join(point.text.casefold().split()))
        before = last.pop(key, None)
        turns = sorted({*point.turns, *(before.turns if before else ())})
        last[key] = replace(point, turns=(turns[0], *turns[1:][-_MOST_TURNS + 1 :]))
    return list(last.values())


def _current_prose(prose: str, kept: Sequence[Point], points: Sequence[Point]) -> str:
    """Prose without the sentences that name a value which has just been replaced."""
    standing = {point.text for point in kept}
    gone = [point for point in points if point.text not in standing]
    values = _values(gone) - _values(kept)
    if not prose or not values:
        return prose
    named = re.compile(
        "|".join(rf"(?<!\w){re.escape(value)}(?!\w)" for value in sorted(values)), re.IGNORECASE
    )
    return " ".join(piece for piece in re.split(r"(?<=[.!?])\s+", prose) if not named.search(piece))


def _values(points: Sequence[Point]) -> set[str]:
    return {str(slot.value).casefold() for point in points for slot in point.slots if slot.asserts} - {""}
