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
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?![a-z0-9])|(?<=[。！？।])\s*|\n+")
_BULLET = re.compile(r"^(?:[-*+•>#]+|\d{1,3}[.)])\s+")

_UNDECIDED = re.compile(
    r"\b(?:open question|tbd|to be (?:decided|confirmed|determined)|undecided|unclear"
    r"|(?:not|n't|n’t) (?:yet )?(?:been )?(?:decided|sure|know|settled)"
    r"|still (?:need|have) to (?:decide|find out|check|confirm))\b",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    r"\b(?:deci(?:ded|sion)|agreed (?:to|on|that|upon)|settled on|went with|from now on|instead of"
    r"|(?:we|i)(?:'ll|’ll| will)? go(?:ing)? with|(?:we|i)(?:'ll|’ll| will) use"
    r"|let['’]?s (?:use|go|make|do|keep|move|switch|change|stick|take|book|set)"
    r"|(?:have |'ve |’ve )?(?:chosen|chose|approved|confirmed)|switch(?:ed|ing)? (?:\S+ ){0,4}to"
    r"|(?:set|change|move|postpone|push) (?:the|our|my) (?:\S+ ){1,4}to"
    r"|(?:has|have|was|were) (?:been )?(?:changed|moved|postponed|pushed|switched) to"
    r"|must (?:always|never)|please (?:always|never))\b",
    re.IGNORECASE,
)
_COMMITTED = re.compile(
    r"\b(?:(?:i|we|you|he|she|they)(?:'ll|’ll| will| shall| promise| am going to| are going to)"
    r"|i['’]m going to|we['’]re going to|promised?|due (?:by|on)|deadline|remind me|follow(?:ing)? up"
    r"|owes?)\b",
    re.IGNORECASE,
)
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

_MOST = {USER: 8, ASSISTANT: 5, TOOL: 3}
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

    >>> list(sentences("Fee: Rs. 45,000. Agreed?"))
    ['Fee: Rs. 45,000.', 'Agreed?']
    """
    for raw in _SENTENCE_END.split(text):
        line = _BULLET.sub("", raw.strip()).replace("**", "").strip()
        if line and any(c.isalnum() for c in line):
            yield line


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
    weight = 2 * holds + (role == USER)
    if role == TOOL:
        return (FACT if holds else REMARK), holds
    if sentence.endswith(("?", "？")) or _UNDECIDED.search(sentence):
        return QUESTION, weight
    if _DECIDED.search(sentence):
        return DECISION, weight
    # What an assistant offers to do next is small talk unless it says when or how much.
    if _COMMITTED.search(sentence) and (role == USER or holds >= 3):
        return COMMITMENT, weight
    return (FACT if holds else REMARK), weight


def _clipped(sentence: str) -> str:
    """At most 280 characters, around the decision or the first number where the sentence is longer."""
    if len(sentence) <= _LONGEST_POINT:
        return sentence
    telling = _DECIDED.search(sentence) or _DATED.search(sentence) or re.search(r"\d", sentence)
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
