"""What a message rests on: the records behind it, and whether they still stand in the caller's eyes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ctxarith.corpus import Corpus
from ctxarith.evidence import Hit
from ctxarith.index.retirement import RETIRED
from ctxarith.packet.handle import Packet
from ctxarith.packet.manifest import Member
from ctxarith.policy import Principal
from ctxarith.run import Result
from langchain_ctxarith.retriever import CtxArithRetriever

# Under `response_metadata` of an answer: what it rests on and cites. No provider is sent it.
KEY = "ctxarith"
CITATIONS, UNKNOWN, WRONG_VERSION, UNCITED = "citations", "unknown", "wrong_version", "uncited"
# When it was said, in ISO 8601; a message of LangChain has no time of its own.
AT = "at"
# Keys of a tool's artifact.
DOCUMENTS, MANIFEST, EVIDENCE = "documents", "packet", "evidence"

_UNBOUNDED = 2**31

CURRENT, CHANGED, GONE = "current", "changed", "gone"


@dataclass(frozen=True, slots=True)
class Held:
    """A record behind a message: its key, its source, the hash of what was shown, and how it stood then.

    `state` is empty for a record that stood whole, else "superseded", or what of it was out of date.
    """

    tenant: str
    id: str
    source_id: str
    version: str
    content_hash: str
    state: str = ""

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


def held_by(packet: Packet, answer: Result) -> tuple[Held, ...]:
    """The records of an answer's packet, in the order of its marks."""
    kept = packet.stored
    shown = {(hit.id, hit.record.version): _shown_as(hit) for hit in answer.hits}
    return tuple(
        Held(
            kept.manifest.tenant,
            holding.id,
            member.source_id,
            member.version,
            holding.content_hash,
            shown.get((holding.id, holding.version), ""),
        )
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


def citations(message: AIMessage) -> dict[str, str]:
    """The marks of an answer that name something, with source and version."""
    noted = message.response_metadata.get(KEY)
    found = noted.get(CITATIONS) if isinstance(noted, Mapping) else None
    pairs = found.items() if isinstance(found, Mapping) else ()
    return {mark: name for mark, name in pairs if isinstance(mark, str) and isinstance(name, str)}


def stated(message: AIMessage) -> tuple[Held, ...]:
    """The records that an answer says something of: those that it cites, if every sentence has a mark.

    Of one that says something without a mark nobody can tell, so that all that it rests on may be meant.
    """
    held = behind(message)
    noted: Any = message.response_metadata.get(KEY, {})
    named = set(citations(message).values())
    doubtful = not named or any(noted.get(name) for name in (UNKNOWN, WRONG_VERSION, UNCITED))
    return held if doubtful else tuple(one for one in held if one.name in named)


def all_behind(messages: Iterable[BaseMessage]) -> tuple[Held, ...]:
    """What several messages rest on, each record once."""
    return tuple(dict.fromkeys(held for message in messages for held in behind(message)))


def seen_behind(messages: Iterable[BaseMessage], standing: Standing) -> tuple[Held, ...]:
    """The same for those messages that the model may read as they are."""
    return all_behind(one for one in messages if standing.of(behind(one)) == CURRENT)


def only_result(messages: Sequence[BaseMessage], standing: Standing) -> tuple[Held, ...]:
    """The records of a turn's result, if there is one alone: a number can mean no other."""
    found = [behind(one) for one in messages if isinstance(one, ToolMessage) and behind(one)]
    return found[0] if len(found) == 1 and standing.of(found[0]) == CURRENT else ()


class Standing:
    """One look at many records, for one caller at one moment, as the retriever looks at them.

    Args:
        retriever: whose corpus they are of.
        principal: who asks, with today's rights.
        held: the records to look at.
    """

    def __init__(
        self, retriever: CtxArithRetriever, principal: Principal | None, held: Iterable[Held]
    ) -> None:
        ids = list(dict.fromkeys(one.id for one in held))
        as_of = retriever.search_kwargs.get("as_of")
        stands = retriever.corpus.standing(ids, principal=principal, as_of=as_of) if ids else []
        self._states = {
            (*one.record.key, one.record.content_hash or ""): _state(one.superseded, one.outdated)
            for one in stands
        }

    def of(self, held: Sequence[Held]) -> str:
        """The worst of some records: `GONE` if what was shown of one is not the caller's to see now.

        A record that was corrected under its version is gone too: nobody can tell any more whether what was
        shown of it would be the caller's. `CHANGED` if all may be seen and one does not stand as it stood.
        """
        states = [self._states.get((one.tenant, one.id, one.version, one.content_hash)) for one in held]
        if None in states:
            return GONE
        same = all(state == one.state for state, one in zip(states, held, strict=True))
        return CURRENT if same else CHANGED


def _shown_as(hit: Hit) -> str:
    outdated = {slot.attribute for slot in hit.stale_slots}
    return _state(RETIRED in hit.flags, tuple(sorted(outdated)))


def _state(superseded: bool, outdated: Sequence[str]) -> str:
    return "superseded" if superseded else f"outdated: {', '.join(outdated)}" if outdated else ""


def _read(plain: Any) -> Held:
    """A record of a message. One that is not ours to read rests on nothing that is here, and is gone."""
    fields = ("tenant", "id", "source_id", "version", "content_hash", "state")
    if isinstance(plain, Mapping) and all(isinstance(plain.get(name), str) for name in fields):
        return Held(*(plain[name] for name in fields))
    return Held("", "", "", "", "")
