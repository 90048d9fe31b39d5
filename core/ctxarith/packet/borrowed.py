"""What a packet borrows from its corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ctxarith.durable import Entry
from ctxarith.errors import CorpusClosed, StoreError
from ctxarith.gate import Gate
from ctxarith.index.snapshot import Snapshot
from ctxarith.packet.render import Desk
from ctxarith.packet.request import Request
from ctxarith.plan import Plan, plan
from ctxarith.policy import Permission, Policy, Principal, permission
from ctxarith.ports import Vector, counted
from ctxarith.run import Result, Tools, run
from ctxarith.session import Asking

# What says that a source cannot be looked at now.
OUT_OF_REACH = (StoreError, CorpusClosed, OSError)


@dataclass(frozen=True, slots=True)
class Source:
    """The corpus behind a packet.

    Args:
        gate: who asks, and when.
        snapshot: the present state, with its watermarks.
        feed: the changes of a tenant since a watermark.
        probe: raises when the store behind the index cannot be reached, or must be looked at first.
        embed: the unit vector of a question.
        asking: what a session of a principal borrows.
    """

    gate: Gate
    snapshot: Callable[[], Snapshot]
    feed: Callable[[str, int], Sequence[Entry]]
    probe: Callable[[], None]
    embed: Callable[[str], Vector]
    asking: Callable[[Principal], Asking]

    @property
    def policy(self) -> Policy:
        """The rules of the corpus."""
        return self.gate.setup.policy or Policy()

    @property
    def embedder(self) -> str:
        """The model of questions."""
        return self.gate.setup.wanted["embedder"]

    def permission(self, principal: Principal, now: datetime, as_of: datetime | None) -> Permission:
        """What a caller may see with the clock at `now`."""
        return permission(self.policy, principal, now=now, at=as_of)

    def plan(self, request: Request, principal: Principal, now: datetime) -> Plan:
        """The retrieval of a request with the clock at `now`."""
        return plan(request.pipeline, self.permission(principal, now, request.as_of))

    def retrieve(self, request: Request, principal: Principal, now: datetime) -> Result:
        """Run the retrieval of a request with the clock at `now`."""
        return run(
            self.plan(request, principal, now),
            request.text,
            self.snapshot(),
            at=request.as_of or now,
            tools=Tools(self.embed, self.gate.setup.counter),
        )

    def desk(self, snapshot: Snapshot) -> Desk:
        """The tools of a page."""
        counter = self.gate.setup.counter
        return Desk(
            lambda text: counted(counter, text),
            lambda hit: snapshot.passage(hit.record),
            snapshot.analyzer.identifiers,
        )

    def unavailable(self) -> str:
        """Why nothing can be checked now; empty if it can."""
        try:
            self.snapshot()
            self.probe()
        except OUT_OF_REACH as error:
            return str(error)
        return ""
