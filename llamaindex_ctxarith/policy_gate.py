"""Who may see a node of any retriever: the core's policy, record by record."""

from __future__ import annotations

from dataclasses import replace

from llama_index.core.bridge.pydantic import Field
from llama_index.core.schema import NodeWithScore
from pydantic import InstanceOf

from ctxarith.algebra import Moment
from ctxarith.errors import PrincipalRequired, RecordError
from ctxarith.evidence import Decision, Drop, Hit
from ctxarith.model import Record
from ctxarith.policy import Policy, Principal, permission
from llamaindex_ctxarith.caller import Caller
from llamaindex_ctxarith.chain import HitPostprocessor, Kept, log
from llamaindex_ctxarith.nodes import UNJUDGED, ContextNode


class PolicyGate(HitPostprocessor):
    """Leaves out what the caller may not see now; put it first, so that no later step sees it either.

    Judged are tenant, audience, scopes, jurisdiction, source type, validity, embargo and retention. Without
    a principal the caller is the default tenant's, and what our retriever found stays. A node that cannot
    be read is nobody's: it is left out and logged. The gate cannot find what another retriever's top-k has
    crowded out: `CtxArithRetriever` can.

    Args:
        principal: who asks; `acting_as` overrules it.
        policy: once set, a principal is needed.

    Raises:
        PrincipalRequired: a policy is set and nobody is named.
    """

    # An instance: pydantic would make one of a client's JSON.
    principal: InstanceOf[Principal] | None = Field(default=None, exclude=True)
    policy: Policy | None = Field(default=None, exclude=True)

    def _step(self, hits: list[Hit], moment: Moment) -> Kept:
        caller = Caller(self.principal).now().principal
        if caller is None and self.policy is not None:
            raise PrincipalRequired("a policy is set: pass principal=Principal(...), or use acting_as(...)")
        allowed = permission(self.policy or Policy(), caller or Principal(), now=moment.now, at=None)
        kept: list[Hit] = []
        dropped: list[Drop] = []
        for hit in hits:
            foreign = hit.decision == UNJUDGED
            if (caller is None and not foreign) or allowed.visible.matches(hit.record):
                # Ranks are counted anew: they must not tell how many forbidden ones stood above.
                kept.append(_ranked(hit, len(kept) + 1, allowed.decision) if foreign else hit)
            else:
                dropped.append(Drop(hit.record, "policy", "not permitted, or not valid now"))
        return kept, dropped

    def _read(self, one: NodeWithScore) -> Record | None:
        try:
            return super()._read(one)
        except RecordError as error:
            log.warning("PolicyGate left out a node that cannot be read: %s", error)
            return None

    def _scored(self, one: NodeWithScore, hit: Hit) -> ContextNode:
        made = super()._scored(one, hit)
        made.score = None if one.score is None else float(one.score)
        return made


def _ranked(hit: Hit, rank: int, decision: Decision) -> Hit:
    found = tuple(replace(one, rank=rank) for one in hit.found_by)
    return replace(hit, found_by=found, decision=decision)
