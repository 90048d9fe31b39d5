"""The sentences of a message that are worth keeping, by rule: decisions, commitments, numbers, dates, names.

Deterministic and without a model. The rules for decisions and commitments read English; numbers, dates and
codes are found in any script. Text of a tool is data: it gives facts, never a decision or a slot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ctxarith.conversation import (
    ASSISTANT,
    COMMITMENT,
    DECISION,
    FACT,
    QUESTION,
    REMARK,
    SYSTEM,
    TOOL,
    USER,
    Kind,
    Message,
    Point,
)
from ctxarith.ingest.entities import count_entities
from ctxarith.ingest.slots import SlotExtractor
from ctxarith.memory.statements import StatementSlots
from ctxarith.model import Record, Slot

# Not after "Rs." or "No.", which a number follows, nor before a small letter.
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?![a-z0-9])|(?<=[。！？।])\s*")
_LINE_END = re.compile(r"\n+")
# Citations behind a full stop, such as "[contract@v3]": they say nothing by themselves.
_MARKS = re.compile(r"(?:\[[^\[\]\n]+\][\s.,;]*)+")
_BULLET = re.compile(r"^\s*(?:(?:[-*+•>#]+|\d{1,3}[.)])\s+)+")

_UNDECIDED = re.compile(
    r"\b(?:open question|tbd|to be (?:decided|confirmed|determined)|undecided|unclear"
    r"|(?:not|n't|n’t) (?:yet )?(?:been )?(?:decided|sure|know|settled)"
    r"|still (?:need|have) to (?:decide|find out|check|confirm))\b",
    re.IGNORECASE,
)
# What is done is a decision whoever reports it; what is wanted is one when the user says so, since an
# assistant's "use butter" is advice.
_SETTLED = re.compile(
    r"\b(?:decided (?:to|on|that|for|against|upon)|agreed (?:to|on|that|upon)|settled on|went with"
    r"|(?:has|have|was|were|is|are) (?:now )?(?:been )?"
    r"(?:changed|moved|postponed|pushed|switched|rescheduled)"
    r"|(?:we|i|they|you)(?:['’]ve| have| both| all)* "
    r"(?:chose|chosen|picked|approved|confirmed|switched|changed|moved|postponed|booked)"
    r"|from now on|(?:our|my|final) decision (?:is|was))\b|^decision:",
    re.IGNORECASE,
)
_WANTED = re.compile(
    r"\b(?:let['’]?s (?:use|go|make|do|keep|move|switch|change|stick|take|book|set)"
    r"|(?:we|i)(?:'ll|’ll| will)? go(?:ing)? with|(?:we|i)(?:'ll|’ll| will) use|switching (?:\S+ ){0,4}to"
    r"|must (?:always|never)|please (?:always|never))\b"
    r"|^(?:please )?(?:set|change|move|postpone|push|switch) (?:the|our|my) (?:\S+ ){1,4}to\b",
    re.IGNORECASE,
)
_CONDITIONAL = re.compile(r"^(?:if|once|when|after|before|unless|should|suppose)\b|\bif\b", re.IGNORECASE)
_COMMITTED = re.compile(
    r"\b(?:(?:i|we|you|he|she|they)(?:'ll|’ll| will| shall| promise| am going to| are going to)"
    r"|i['’]m going to|we['’]re going to|promised?|due (?:by|on)|deadline|remind me|follow(?:ing)? up"
    r"|owes?)\b",
    re.IGNORECASE,
)
_OWN = re.compile(r"\b(?:i|we)(?:['’]ll| will| promise)\b|\bdue (?:by|on)\b|\bdeadline\b", re.IGNORECASE)
_LOOSE = re.compile(r"\b(?:think|maybe|perhaps|might|try|consider|in mind)\b", re.IGNORECASE)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_DATED = re.compile(
    r"\b\d{4}-\d{2}(?:-\d{2})?\b|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b"
    rf"|\b{_MONTH}[a-z]*\.? \d|\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b",
    re.IGNORECASE,
)
_NUMBER_WORD = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million)\b",
    re.IGNORECASE,
)

_NUMBER = re.compile(r"\d")

_MOST = {USER: 8, ASSISTANT: 5, TOOL: 3}
_USER_WEIGHT = 10
_LONGEST_POINT = 280  # characters
_READ = 20_000  # characters of one message; the rest is found by recall
_ORDER: dict[Kind, int] = {DECISION: 4, COMMITMENT: 3, QUESTION: 2, FACT: 2, REMARK: 1}


def points_of(message: Message, slots: SlotExtractor | None = None) -> tuple[Point, ...]:
    """The points of one message, in reading order; none for a system message.

    At most eight of a user's message, five of an assistant's, three of a tool's: decisions first.

    >>> [(p.kind, p.text) for p in points_of(Message("user", "Hello! We agreed on 45,000 INR."))]
    [('decision', 'We agreed on 45,000 INR.')]
    """
    if message.role == SYSTEM:
        return ()
    found = [_point(message, text, slots or StatementSlots()) for text in sentences(message.content[:_READ])]
    told = [point for point in found if point.kind != REMARK] or found[:1]
    best = sorted(range(len(told)), key=lambda n: (-_ORDER[told[n].kind], -told[n].weight, n))
    kept = [told[n] for n in sorted(best[: _MOST[message.role]])]
    return tuple(_with_slots(message, kept) if message.slots else kept)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, without the marks of a list.

    >>> list(sentences("1. Fee: Rs. 45,000. Agreed?"))
    ['Fee: Rs. 45,000.', 'Agreed?']
    """
    for line in _LINE_END.split(text):
        for raw in _SENTENCE_END.split(_BULLET.sub("", line)):
            sentence = raw.replace("**", "").strip()
            if any(c.isalpha() for c in sentence) and not _MARKS.fullmatch(sentence):
                yield sentence


def _point(message: Message, sentence: str, slots: SlotExtractor) -> Point:
    kind, weight = _judged(sentence, message.role)
    asserts: tuple[Slot, ...] = ()
    if not message.slots and message.role != TOOL and kind != QUESTION:
        # An extractor reads records; this one lives no longer than the call.
        asserts = slots(
            Record(
                id=f"turn-{message.number}",
                text=sentence,
                created_at=message.time,
                metadata={"kind": kind, "role": message.role},
            )
        )
    if asserts and kind == REMARK:
        kind = FACT
    return Point(
        kind=kind,
        text=_clipped(sentence),
        turns=(message.number,),
        time=message.time,
        said_by=message.role,
        slots=asserts,
        weight=weight,
    )


def _judged(sentence: str, role: str) -> tuple[Kind, int]:
    """The kind of a sentence, and its weight: a date counts most, then a number, a name, and who says it."""
    number = any(c.isdigit() for c in sentence) or bool(_NUMBER_WORD.search(sentence))
    holds = 4 * bool(_DATED.search(sentence)) + 3 * number + (count_entities(sentence) > 0)
    if role == TOOL:
        return (FACT if holds else REMARK), holds
    # What an assistant said it can say again; what the user said is nowhere else.
    weight = holds + (_USER_WEIGHT if role == USER else 0)
    if sentence.endswith(("?", "？")) or _UNDECIDED.search(sentence):
        return QUESTION, weight
    if _decides(sentence, role):
        return DECISION, weight
    if _commits(sentence, role, holds):
        return COMMITMENT, weight
    return (FACT if holds else REMARK), weight


def _decides(sentence: str, role: str) -> bool:
    said = _SETTLED.search(sentence) or (role == USER and _WANTED.search(sentence))
    return bool(said) and not _CONDITIONAL.search(sentence)


def _commits(sentence: str, role: str, holds: int) -> bool:
    """What an assistant offers to do is small talk, unless it is its own and says when or how much."""
    if _LOOSE.search(sentence) or _CONDITIONAL.search(sentence):
        return False
    return bool(_COMMITTED.search(sentence)) if role == USER else holds >= 3 and bool(_OWN.search(sentence))


def _clipped(sentence: str) -> str:
    """At most 280 characters, around the decision or the first number where the sentence is longer."""
    if len(sentence) <= _LONGEST_POINT:
        return sentence
    telling = (
        _SETTLED.search(sentence)
        or _WANTED.search(sentence)
        or _DATED.search(sentence)
        or re.search(r"\d", sentence)
    )
    start = max(0, min(telling.start() - 40 if telling else 0, len(sentence) - _LONGEST_POINT))
    end = start + _LONGEST_POINT
    return ("… " if start else "") + sentence[start:end] + (" …" if end < len(sentence) else "")


def _with_slots(message: Message, points: list[Point]) -> list[Point]:
    """Each explicit slot goes to the sentence that holds its value, else to the first."""
    homes: dict[int, list[Slot]] = {}
    known = points or [Point(FACT, _told(message), (message.number,), message.time, message.role)]
    for slot in message.slots:
        holding = (n for n, point in enumerate(known) if str(slot.value) in point.text)
        homes.setdefault(next(holding, 0), []).append(slot)
    return [
        Point(
            kind=FACT if n in homes and point.kind in (REMARK, QUESTION) else point.kind,
            text=point.text,
            turns=point.turns,
            time=point.time,
            said_by=point.said_by,
            slots=tuple(homes.get(n, ())),
            weight=point.weight,
        )
        for n, point in enumerate(known)
    ]


def _told(message: Message) -> str:
    """A message without a sentence, by its slots."""
    return "; ".join(f"{slot.attribute}: {slot.value}" for slot in message.slots if slot.asserts) or "(empty)"
