"""What a message rests on: the records behind it, and whether they still stand in the caller's eyes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ctxarith.corpus import Corpus
from ctxarith.packet.handle import Packet
from ctxarith.packet.manifest import Member
from ctxarith.policy import Principal
from ctxarith.run import Result

# Under `response_metadata` of an answer: what it rests on and cites. No provider is sent it.
KEY = "ctxarith"
# When it was said, in ISO 8601; a message of LangChain has no time of its own.
AT = "at"
# Keys of a tool's artifact.
DOCUMENTS, MANIFEST, EVIDENCE = "documents", "packet", "evidence"

_UNBOUNDED = 2**31

CURRENT, CHANGED, GONE = "current", "changed", "gone"


@dataclass(frozen=True, slots=True)
class Held:
    """A record behind a message: its id, source and version, and the hash of what was shown of it."""

    id: str
    source_id: str
    version: str
    content_hash: str

    @property
    def name(self) -> str:
        """The mark that is the same in every turn: source and version."""
        return f"{self.source_id}@{self.version}"

    @property
    def member(self) -> Member:
        """What a citation of it names."""
        return Member(self.source_id, self.version)


def packed(
    answer: Result, corpus: Corpus, principal: Principal | None, *, task: str = "", tokens: int | None = None
) -> Packet:
    """The packet of an answer; without `tokens` every hit is a member."""
    bound = _UNBOUNDED if tokens is None else tokens
    return corpus.packet(answer, principal=principal, task=task, top=max(len(answer.hits), 1), tokens=bound)


def held_by(packet: Packet) -> tuple[Held, ...]:
    """The records of a packet, in the order of its marks."""
    kept = packet.stored
    return tuple(
        Held(holding.id, member.source_id, member.version, holding.content_hash)
        for member, holding in zip(kept.manifest.members, kept.holdings, strict=True)
    )


def told(held: Iterable[Held]) -> list[dict[str, str]]:
    """Records as JSON, for a message."""
    return [asdict(one) for one in held]


def behind(message: BaseMessage) -> tuple[Held, ...]:
    """What a message rests on, in the order of its marks; nothing where it does not say so."""
    artifact = message.artifact if isinstance(message, ToolMessage) else None
    noted = message.response_metadata.get(KEY) if isinstance(message, AIMessage) else artifact
    listed = noted.get(EVIDENCE) if isinstance(noted, Mapping) else None
    return tuple(_read(one) for one in listed) if isinstance(listed, Sequence) else ()


def all_behind(messages: Iterable[BaseMessage]) -> tuple[Held, ...]:
    """What several messages rest on, each record once."""
    return tuple(dict.fromkeys(held for message in messages for held in behind(message)))


def seen_behind(messages: Iterable[BaseMessage], standing: Standing, *states: str) -> tuple[Held, ...]:
    """The same for those messages whose records are all in one of some states."""
    return all_behind(one for one in messages if standing.of(behind(one)) in states)


class Standing:
    """One look at many records, for one caller at one moment.

    Args:
        corpus: where they are.
        principal: who asks, with today's rights.
        held: the records to look at.
    """

    def __init__(self, corpus: Corpus, principal: Principal | None, held: Iterable[Held]) -> None:
        ids = list(dict.fromkeys(one.id for one in held))
        permitted = corpus.get(ids, principal=principal) if ids else []
        current = corpus.get(ids, principal=principal, current=True) if ids else []
        self._permitted = {record.id for record in permitted}
        self._current = {(record.id, record.version, record.content_hash) for record in current}

    def of(self, held: Sequence[Held]) -> str:
        """The worst of some records: `GONE` if one is not the caller's, `CHANGED` if one is another now."""
        if any(one.id not in self._permitted for one in held):
            return GONE
        return CHANGED if any(not self._is_current(one) for one in held) else CURRENT

    def changed(self, held: Sequence[Held]) -> list[str]:
        """The names of those that are the caller's, and no longer what they were."""
        return [one.name for one in held if one.id in self._permitted and not self._is_current(one)]

    def _is_current(self, held: Held) -> bool:
        return (held.id, held.version, held.content_hash) in self._current


def _read(plain: Any) -> Held:
    """A record of a message. One that is not ours to read rests on nothing that is here, and is gone."""
    fields = ("id", "source_id", "version", "content_hash")
    if isinstance(plain, Mapping) and all(isinstance(plain.get(name), str) for name in fields):
        return Held(*(plain[name] for name in fields))
    return Held("", "", "", "")
