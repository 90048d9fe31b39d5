"""How a worked example goes on: follow-ups, a packet around an answer, a fact that changes meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ctxarith.confidence import thread
from ctxarith.console import printable
from ctxarith.corpus import Corpus
from ctxarith.demo import Scenario
from ctxarith.errors import Withheld
from ctxarith.packet.handle import Packet
from ctxarith.packet.view import PacketView

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Answered:
    """A follow-up: the stage that answered it, how sure the gate was, and the sources."""

    question: str
    stage: str
    confidence: float
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sequel:
    """What happened, in order.

    Args:
        answered: the follow-ups.
        before: the packet when it was made.
        draft: an answer that a model writes from it.
        after: the same packet once the fact has changed.
        withheld: what became of the draft.
        fresh: the packet of a new retrieval, and its page.
    """

    answered: tuple[Answered, ...]
    before: PacketView
    draft: str
    after: PacketView
    withheld: str
    fresh: PacketView
    page: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "follow_ups": [
                {"question": a.question, "stage": a.stage, "confidence": a.confidence, "sources": a.sources}
                for a in self.answered
            ],
            "packets": [one.as_dict() for one in (self.before, self.after, self.fresh)],
            "draft": self.draft,
            "withheld": self.withheld,
            "page": self.page,
        }


def go_on(scenario: Scenario) -> Sequel | None:
    """Play what follows the question of an example, if anything does.

    It is played in memory: a corpus that is kept in a folder stays as the example told it.
    """
    given = scenario.settings.get("sequel")
    if given is None:
        return None
    with scenario.open(None) as corpus:
        answered = _follow_ups(scenario, corpus, given)
        packet = _packet(scenario, corpus, given)
        before = packet.view()
        draft = given["draft"].format(**_marks(packet))
        with packet.guard(scenario.principal) as guard:
            corpus.add([given["change"]])
            after = packet.view()
            try:
                withheld = guard.release(draft)
            except Withheld as error:
                withheld = str(error)
        fresh = packet.refresh(scenario.principal)
        return Sequel(answered, before, draft, after, withheld, fresh.view(), fresh.render())


def show_sequel(out: Console, told: Sequel) -> None:
    """Tell it in a terminal."""
    out.print(Text("\nThe follow-ups, answered from what was cited when that is enough:\n", style="bold"))
    for one in told.answered:
        where = f"{one.stage:<6} {one.confidence:.2f}  {', '.join(one.sources):<24}"
        out.print(Text(printable(f"  {where}  {one.question}")))
    out.print(
        Text("\nThe evidence as a packet, and an answer that a model is writing from it:\n", style="bold")
    )
    out.print(Text(printable(str(told.before))))
    out.print(Text(printable(f"\n  {told.draft}\n"), style="italic"))
    out.print(Text("Meanwhile a fact changes, and the answer is held back:\n", style="bold"))
    out.print(Text(printable(str(told.after))))
    out.print(Text(printable(f"\n  {told.withheld}\n"), style="italic"))
    out.print(Text("Retrieved anew:\n", style="bold"))
    out.print(Text(printable(told.page)))


def _follow_ups(scenario: Scenario, corpus: Corpus, given: dict[str, Any]) -> tuple[Answered, ...]:
    session = corpus.session(given["task"], principal=scenario.principal, gate=thread(given["gate"]))
    asked: dict[str, Any] = {
        name: scenario.settings[name]
        for name in ("scope", "where", "top", "tokens")
        if name in scenario.settings
    }
    session.retrieve(scenario.text, **asked)
    answered = []
    for question in given["follow_ups"]:
        result = session.retrieve(question, **{**asked, "top": 1})
        sources = tuple(hit.record.source_id for hit in result.hits)
        answered.append(
            Answered(question, result.trace.stage, round(result.trace.confidence or 0.0, 2), sources)
        )
    return tuple(answered)


def _packet(scenario: Scenario, corpus: Corpus, given: dict[str, Any]) -> Packet:
    return corpus.packet(
        scenario.text,
        principal=scenario.principal,
        task=given["task"],
        scope=scenario.settings.get("scope"),
        where=given["where"],
        top=scenario.settings["top"],
    )


def _marks(packet: Packet) -> dict[str, int]:
    return {one.source_id: mark for mark, one in enumerate(packet.manifest.members, start=1)}
