"""The values of a conversation: messages as they were said, and what a summary keeps of them.

They know no framework. All are frozen; a message is never changed after it was appended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from ctxarith.errors import ArgumentError, RecordError
from ctxarith.instant import EPOCH, TimeLike, instant
from ctxarith.model import DEFAULT_TENANT, Record, Slot
from ctxarith.normalise import clean_id, clean_text
from ctxarith.plain import jsonable

SYSTEM: Final = "system"
USER: Final = "user"
ASSISTANT: Final = "assistant"
TOOL: Final = "tool"
Role = Literal["system", "user", "assistant", "tool"]
ROLES = (SYSTEM, USER, ASSISTANT, TOOL)

DECISION: Final = "decision"
COMMITMENT: Final = "commitment"
FACT: Final = "fact"
QUESTION: Final = "question"
REMARK: Final = "remark"
Kind = Literal["decision", "commitment", "fact", "question", "remark"]
# What is kept longest stands first.
KINDS = (DECISION, COMMITMENT, FACT, QUESTION, REMARK)

Content = str | Sequence[str | Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """Whose conversation it is. Three parts, so that no two users share a thread by its name.

    Raises:
        ArgumentError: a blank part; there is no default thread that everyone would share.
    """

    thread: str
    tenant: str = DEFAULT_TENANT
    user: str | None = None

    def __post_init__(self) -> None:
        for name in ("thread", "tenant", "user"):
            value = getattr(self, name)
            if name == "user" and value is None:
                continue
            try:
                clean_id(None, value, name, limit=512)
            except RecordError as error:
                name = "thread_id" if name == "thread" else name
                raise ArgumentError(name, value, "names whose conversation this is; not blank") from error


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the assistant calls; `arguments` is JSON text, and a mapping is written as such."""

    id: str
    name: str
    arguments: str = "{}"

    if TYPE_CHECKING:
        # What the border takes is wider than what the fields hold.
        def __init__(self, id: str, name: str, arguments: str | Mapping[str, Any] = "{}") -> None: ...

    def __post_init__(self) -> None:
        for name in ("id", "name"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ArgumentError(f"tool_calls.{name}", getattr(self, name), "text, and not empty")
            object.__setattr__(self, name, clean_text(None, name, getattr(self, name)))
        given: Any = self.arguments
        text = given if isinstance(given, str) else _json(given)
        object.__setattr__(self, "arguments", clean_text(self.id, "arguments", text))


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a thread, as it was said. A turn is one message.

    Args:
        role: "system", "user", "assistant" or "tool".
        content: text, or blocks: strings and text blocks are joined by line ends, any other block stands as
            its JSON, so that what is counted is what is shown.
        number: its place in the thread, from 1; 0 until it is appended.
        time: when it was said, in UTC.
        tool_calls: what an assistant message calls.
        answers: for a tool message, the id of the call whose result it is.
        id: the caller's own id; a second message with the id of a first one is not appended again.
        slots: facts that it asserts; they win over what the rules read in the text.
        native: the message as the caller's framework writes it; kept and given back, and never counted,
            shown or summarised.

    Raises:
        ArgumentError: names the parameter.
    """

    role: Role
    content: str = ""
    number: int = 0
    time: datetime = EPOCH
    tool_calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    id: str | None = None
    slots: tuple[Slot, ...] = ()
    native: str | None = None

    if TYPE_CHECKING:
        # What the border takes is wider than what the fields hold.
        def __init__(
            self,
            role: str,
            content: Content = "",
            number: int = 0,
            time: TimeLike = EPOCH,
            tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
            answers: str | None = None,
            id: str | None = None,
            slots: Iterable[Slot | Mapping[str, Any]] = (),
            native: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ArgumentError("role", self.role, f"one of {', '.join(ROLES)}")
        put = object.__setattr__
        put(self, "content", _content(self.content))
        try:
            put(self, "time", instant(self.time))
            # A record's own border, so that a slot means the same here as there.
            put(self, "slots", Record(id="message", text="", slots=tuple(self.slots or ())).slots)
        except RecordError as error:
            raise ArgumentError("slots", self.slots, str(error)) from error
        except ValueError as error:
            raise ArgumentError("time", self.time, str(error)) from error
        put(self, "tool_calls", tuple(_call(one) for one in self.tool_calls or ()))
        if self.tool_calls and self.role != ASSISTANT:
            raise ArgumentError("tool_calls", self.tool_calls, "only an assistant message calls tools")
        if (self.answers is not None) != (self.role == TOOL):
            raise ArgumentError("answers", self.answers, "a tool message names its call, and no other does")
        for name in ("answers", "id", "native"):
            if getattr(self, name) is not None:
                put(self, name, clean_text(None, name, getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that a summary keeps, with where it comes from.

    Args:
        kind: "decision", "commitment", "fact", "question" (still open) or "remark".
        text: one sentence.
        turns: the numbers of the turns that it came from.
        time: when it was said.
        said_by: the role that said it.
        slots: what it asserts; a newer point with the same slots replaces it.
        weight: among points of a kind the heavier ones are kept longer.
    """

    kind: Kind
    text: str
    turns: tuple[int, ...]
    time: datetime
    said_by: str = USER
    slots: tuple[Slot, ...] = ()
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """What is kept of the turns 1 to `covers`, system messages aside.

    `prose` is what a summariser wrote that gave no points; it is the first to go when room is short.
    """

    points: tuple[Point, ...] = ()
    covers: int = 0
    prose: str = ""

    def of_kind(self, kind: Kind) -> tuple[Point, ...]:
        """The points of a kind, oldest first."""
        return tuple(point for point in self.points if point.kind == kind)

    @property
    def decisions(self) -> tuple[Point, ...]:
        """What was decided."""
        return self.of_kind(DECISION)

    @property
    def commitments(self) -> tuple[Point, ...]:
        """What someone said they would do."""
        return self.of_kind(COMMITMENT)

    @property
    def facts(self) -> tuple[Point, ...]:
        """Numbers, dates and names."""
        return self.of_kind(FACT)

    @property
    def open_questions(self) -> tuple[Point, ...]:
        """What was asked, or left open, and not answered since."""
        return self.of_kind(QUESTION)


def _content(given: Any) -> str:
    if isinstance(given, str):
        return clean_text(None, "content", given)
    if given is None or not isinstance(given, list | tuple):
        raise ArgumentError("content", given, "text, or a list of blocks")
    return clean_text(None, "content", "\n".join(_block(one) for one in given))


def _block(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, Mapping):
        text = block.get("text")
        return text if block.get("type", "text") == "text" and isinstance(text, str) else _json(block)
    raise ArgumentError("content", block, "a block is text or a mapping")


def _call(given: Any) -> ToolCall:
    if isinstance(given, ToolCall):
        return given
    if not isinstance(given, Mapping):
        raise ArgumentError("tool_calls", given, "ToolCalls, or mappings with id, name and arguments")
    unknown = set(given) - {"id", "name", "arguments", "args", "type"}
    if unknown or not {"id", "name"} <= set(given):
        raise ArgumentError("tool_calls", given, "a call has id, name and arguments")
    return ToolCall(given["id"], given["name"], given.get("arguments", given.get("args", "{}")))


def _json(value: object) -> str:
    try:
        return json.dumps(jsonable(value), ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise ArgumentError("content", value, f"cannot be written as JSON: {error}") from error
