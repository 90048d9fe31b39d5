"""An answer on its way out: checked against its packet, its marks looked up, what it rests on noted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain.agents.middleware.types import ModelResponse
from langchain_core.messages import AIMessage

from ctxarith.corpus import Corpus
from ctxarith.instant import iso
from ctxarith.packet.citations import Citations, cited
from ctxarith.packet.handle import Packet
from ctxarith.packet.manifest import Member
from ctxarith.policy import Principal
from langchain_ctxarith.evidence import AT, CURRENT, EVIDENCE, GONE, KEY, Held, Standing, told

WITHHELD = "The evidence for this answer changed while it was written, so it is withheld. Please ask again."


@dataclass(frozen=True, slots=True)
class Served:
    """What a model was given for one call.

    Args:
        packet: the evidence that was placed before the question.
        stage: which stage of the thread's session found it, "cited" or "corpus".
        numbered: its records, in the order of their marks.
        found: the records of the tools' results in this turn.
        earlier: what the messages before this turn rest on.
    """

    packet: Packet | None = None
    stage: str = ""
    numbered: tuple[Held, ...] = ()
    found: tuple[Held, ...] = ()
    earlier: tuple[Held, ...] = ()

    @property
    def held(self) -> tuple[Held, ...]:
        """All that the answer rests on, the numbered ones first, in the order of their marks.

        An answer that was served nothing in its turn rests on what was said before.
        """
        return tuple(dict.fromkeys((*self.numbered, *self.found))) or self.earlier

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


def is_final(answer: AIMessage, response: ModelResponse[Any]) -> bool:
    """Whether it leaves the agent: it calls no tool, or is the structured answer."""
    return not answer.tool_calls or response.structured_response is not None


def objections(served: Served, corpus: Corpus, principal: Principal | None) -> tuple[str, ...]:
    """Why an answer may not leave now; nothing if it may.

    Its packet must hold, the results of this turn must be what they were, and what was said before must
    still rest on what is the caller's.
    """
    why = () if served.packet is None else served.packet.revalidate(principal).why
    standing = Standing(corpus, principal, (*served.found, *served.earlier))
    if standing.of(served.found) != CURRENT:
        why = (*why, "what a tool found in this turn has changed")
    if standing.of(served.earlier) == GONE:
        why = (*why, "what an earlier answer rests on is no longer available")
    return why


def noted(
    response: ModelResponse[Any], answer: AIMessage, served: Served, at: datetime
) -> tuple[ModelResponse[Any], Citations]:
    """The response with what its answer rests on and cites in `response_metadata`, and the citations."""
    found = cited(answer.text, served.members)
    note: dict[str, Any] = {
        AT: iso(at),
        EVIDENCE: told(served.held),
        "citations": {mark: f"{one.source_id}@{one.version}" for mark, one in found.supported.items()},
        "unknown": list(found.unknown),
        "wrong_version": list(found.wrong_version),
        "uncited": len(found.uncited),
    }
    if served.packet is not None:
        note |= {"packet_id": served.packet.manifest.packet_id, "stage": served.stage}
    made = answer.model_copy(update={"response_metadata": {**answer.response_metadata, KEY: note}})
    return _with(response, answer, made, response.structured_response), found


def withheld(answer: AIMessage, text: str, why: Sequence[str]) -> ModelResponse[Any]:
    """The response with another text in the place of an answer that may not leave."""
    made = AIMessage(text, id=answer.id, name=answer.name, response_metadata={KEY: {"withheld": list(why)}})
    return ModelResponse(result=[made])


def _with(
    response: ModelResponse[Any], old: AIMessage, new: AIMessage, structured: Any
) -> ModelResponse[Any]:
    return ModelResponse(
        result=[new if one is old else one for one in response.result], structured_response=structured
    )
