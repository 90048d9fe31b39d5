"""An answer on its way out: checked against its packet, its marks looked up, what it rests on noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain.agents.middleware.types import ModelResponse
from langchain_core.messages import AIMessage

from ctxarith.errors import Withheld
from ctxarith.instant import iso
from ctxarith.packet.citations import Citations, cited
from ctxarith.packet.manifest import Member
from ctxarith.packet.verdict import REFRESH
from langchain_ctxarith.evidence import (
    AT,
    CITATIONS,
    CURRENT,
    EVIDENCE,
    KEY,
    UNCITED,
    UNKNOWN,
    WRONG_VERSION,
    Held,
    Standing,
    behind,
    citations,
    told,
)
from langchain_ctxarith.serving import Fresh

WITHHELD = "The evidence for this answer changed while it was written, so it is withheld. Please ask again."


@dataclass(frozen=True, slots=True)
class Served:
    """What a model was given for one call.

    Args:
        fresh: the evidence that was placed before the question.
        numbered: its records, in the order of their marks; without one, those of the turn's only result.
        found: the records of the tools' results in this turn.
        earlier: what the messages before this turn rest on.
    """

    fresh: Fresh | None = None
    numbered: tuple[Held, ...] = ()
    found: tuple[Held, ...] = ()
    earlier: tuple[Held, ...] = ()

    def held(self, found: Citations) -> tuple[Held, ...]:
        """All that an answer rests on, the numbered ones first, in the order of their marks.

        Also what it cites of what was said before; and all of that, if it was served nothing in its turn.
        """
        own = (*self.numbered, *self.found)
        named = {mark.rpartition("@")[0] for mark in found.wrong_version}
        cited = [
            one
            for one in self.earlier
            if one.member in found.supported.values() or named & {one.source_id, one.id}
        ]
        return tuple(dict.fromkeys((*own, *(cited if own else self.earlier))))

    @property
    def members(self) -> dict[str, Member]:
        """What a mark may name: the numbers of the packet, and the ids of all records seen."""
        named = {str(mark): held.member for mark, held in enumerate(self.numbered, start=1)}
        for held in (*self.numbered, *self.found, *self.earlier):
            named.setdefault(held.id, held.member)
        return named


def answer_of(response: ModelResponse[Any]) -> AIMessage | None:
    """The message of the model."""
    return next((one for one in reversed(response.result) if isinstance(one, AIMessage)), None)


def objections(served: Served, standing: Standing) -> tuple[str, ...]:
    """Why an answer may not leave now, its packet aside: what else it rests on must stand as it did."""
    why: tuple[str, ...] = ()
    if standing.of(served.found) != CURRENT:
        why = (*why, "what a tool found in this turn has changed")
    if standing.of(served.earlier) != CURRENT:
        why = (*why, "what an earlier answer rests on has changed")
    return why


def noted(
    response: ModelResponse[Any], answer: AIMessage, served: Served, at: datetime
) -> tuple[ModelResponse[Any], Citations]:
    """The response with what its answer rests on and cites in `response_metadata`, and the citations.

    What another middleware of the same corpus has noted stays noted.
    """
    found = cited(answer.text, served.members)
    marks = {mark: f"{one.source_id}@{one.version}" for mark, one in found.supported.items()}
    note: dict[str, Any] = {
        AT: iso(at),
        EVIDENCE: told(dict.fromkeys((*behind(answer), *served.held(found)))),
        CITATIONS: {**marks, **citations(answer)},
        UNKNOWN: list(found.unknown),
        WRONG_VERSION: list(found.wrong_version),
        UNCITED: len(found.uncited),
    }
    if served.fresh is not None:
        note |= {"packet_id": served.fresh.packet.manifest.packet_id, "stage": served.fresh.stage}
    before = answer.response_metadata.get(KEY)
    if isinstance(before, Mapping):
        known = note[CITATIONS]
        for name in (UNKNOWN, WRONG_VERSION):
            note[name] = [mark for mark in note[name] if mark in before.get(name, ()) and mark not in known]
        note = {**before, **note}
    made = answer.model_copy(update={"response_metadata": {**answer.response_metadata, KEY: note}})
    return _with(response, answer, made), found


def withheld(
    response: ModelResponse[Any], answer: AIMessage, served: Served, why: Sequence[str]
) -> ModelResponse[Any]:
    """The response without what may not leave: calls of tools go on, and a text is in its place otherwise.

    Raises:
        Withheld: a structured answer, in whose place nothing can stand.
    """
    if response.structured_response is not None:
        raise Withheld(REFRESH, why, "ask again")
    # The arguments of its calls may quote what the answer rests on.
    rests = served.held(cited(answer.text, served.members))
    note = {"withheld": list(why), EVIDENCE: told(rests) if answer.tool_calls else []}
    made = AIMessage(
        "" if answer.tool_calls else WITHHELD,
        id=answer.id,
        name=answer.name,
        tool_calls=answer.tool_calls,
        response_metadata={KEY: note},
    )
    return _with(response, answer, made)


def _with(response: ModelResponse[Any], old: AIMessage, new: AIMessage) -> ModelResponse[Any]:
    return ModelResponse(
        result=[new if one is old else one for one in response.result],
        structured_response=response.structured_response,
    )
