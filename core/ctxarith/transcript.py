"""Messages and summaries as JSON text and back, without loss."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ctxarith.conversation import KINDS, ROLES, Message, Point, Summary
from ctxarith.errors import ArgumentError
from ctxarith.instant import instant, iso
from ctxarith.model import Slot


def message_as_json(message: Message) -> str:
    """A message as JSON text; its number is its place in the thread and stands outside.

    >>> said = Message("user", "hello", number=7)
    >>> message_from_json(message_as_json(said), 7) == said
    True
    """
    plain: dict[str, Any] = {"role": message.role, "content": message.content, "time": iso(message.time)}
    if message.tool_calls:
        plain["tool_calls"] = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    if message.slots:
        plain["slots"] = [_slot_as_list(slot) for slot in message.slots]
    plain |= {
        name: value for name in ("answers", "id", "native") if (value := getattr(message, name)) is not None
    }
    return json.dumps(plain, ensure_ascii=False)


def message_from_json(text: str, number: int) -> Message:
    """The message of `message_as_json`."""
    plain = json.loads(text)
    calls = [
        dict(zip(("id", "name", "arguments"), call, strict=True)) for call in plain.pop("tool_calls", ())
    ]
    slots = [_slot(slot) for slot in plain.pop("slots", ())]
    return Message(**plain, number=number, tool_calls=calls, slots=slots)


def summary_as_json(summary: Summary) -> str:
    """A summary as JSON text."""
    points = [
        {
            "kind": point.kind,
            "text": point.text,
            "turns": list(point.turns),
            "time": iso(point.time),
            "said_by": point.said_by,
            "slots": [_slot_as_list(slot) for slot in point.slots],
            "weight": point.weight,
        }
        for point in summary.points
    ]
    plain = {"covers": summary.covers, "points": points, "prose": summary.prose}
    return json.dumps(plain, ensure_ascii=False)


def summary_from_json(text: str) -> Summary:
    """The summary of `summary_as_json`.

    Raises:
        ArgumentError: it is not one.
    """
    try:
        plain = json.loads(text)
        points = tuple(point_from(point) for point in plain["points"])
        return Summary(points, int(plain["covers"]), str(plain["prose"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArgumentError("summary", text, f"not a summary: {error!r}") from error


def point_from(plain: Mapping[str, Any]) -> Point:
    """A point of a plain mapping.

    Raises:
        ValueError, KeyError, TypeError: it is not one.
    """
    kind, said_by = plain["kind"], plain.get("said_by", "user")
    if kind not in KINDS or said_by not in ROLES:
        raise ValueError(f"{kind!r} of {said_by!r} is not a kind of point")
    return Point(
        kind=kind,
        text=str(plain["text"]),
        turns=tuple(int(turn) for turn in plain["turns"]),
        time=instant(plain["time"]),
        said_by=said_by,
        slots=tuple(_slot(slot) for slot in plain.get("slots", ())),
        weight=int(plain.get("weight", 0)),
    )


def _slot_as_list(slot: Slot) -> list[Any]:
    value = slot.value
    if isinstance(value, datetime):
        # JSON has no times, and text that looks like one must stay text.
        return [slot.subject, slot.attribute, iso(value), slot.inferred, "time"]
    return [slot.subject, slot.attribute, value, slot.inferred]


def _slot(plain: list[Any]) -> Slot:
    subject, attribute, value, inferred, *kind = plain
    return Slot(subject, attribute, instant(value) if kind else value, inferred)
