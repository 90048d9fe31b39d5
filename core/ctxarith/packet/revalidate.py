"""Whether a packet may be used again: each dependency compared with the present."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from ctxarith.index.snapshot import Snapshot
from ctxarith.instant import iso
from ctxarith.model import Record
from ctxarith.packet.borrowed import OUT_OF_REACH, Source
from ctxarith.packet.manifest import (
    DELETION,
    MEMBERS,
    POLICY_VERSION,
    QUERY_SCOPE,
    SCOPE_VERSION,
    WATERMARK,
    Holding,
    Kept,
)
from ctxarith.packet.related import Watch, related
from ctxarith.packet.request import Request
from ctxarith.packet.rights import covers, owner_of, rights_of, rules_of
from ctxarith.packet.verdict import DENY, REFRESH, UNVERIFIED, Reason, Revalidation, judged
from ctxarith.policy import Principal, not_embargoed, rights
from ctxarith.ports import RowKey
from ctxarith.predicate import And


@dataclass(frozen=True, slots=True)
class Check:
    """One look at a packet.

    Args:
        kept: what is stored of it.
        request: what it was made for.
        known: the members as they were shown, where this process remembers them.
        source: the corpus.
        whole: find every write that concerns the packet; the first is enough for a verdict.
    """

    kept: Kept
    request: Request
    known: Sequence[Record]
    source: Source
    whole: bool = False

    def verdict(self, principal: Principal, now: datetime) -> Revalidation:
        """Everything that speaks against reuse by this caller at this moment."""
        if owner_of(principal) != self.kept.owner:
            return judged([Reason(DENY, SCOPE_VERSION, "the packet is another's")])
        reasons = [*self._rights(principal), *self._rules(principal), *self._clock(now)]
        reasons += self._permitted(self.known, principal, now)
        why = self.source.unavailable()
        if why:
            return judged([*reasons, Reason(UNVERIFIED, WATERMARK, why)])
        settled = any(reason.dependency in (SCOPE_VERSION, POLICY_VERSION) for reason in reasons)
        try:
            snapshot = self.source.snapshot()
            reasons += self._members(snapshot, principal, now)
            reasons += [] if settled else self._writes(snapshot, principal, now)
        except OUT_OF_REACH as error:  # it went away while we looked
            reasons.append(Reason(UNVERIFIED, WATERMARK, str(error)))
        return judged(reasons)

    def _rights(self, principal: Principal) -> Iterator[Reason]:
        for path in self.kept.granted:
            if not covers(principal, path):
                yield Reason(DENY, QUERY_SCOPE, f"the scope {path!r} is no longer the caller's")
        if rights_of(principal) != self.kept.rights:
            was, now = self.kept.manifest.principal_scope_version, principal.scope_version
            word = f"was {was!r} and is {now!r}" if was != now else "the grants have changed"
            yield Reason(REFRESH, SCOPE_VERSION, word)

    def _rules(self, principal: Principal) -> Iterator[Reason]:
        policy = self.source.policy
        if rules_of(policy) != self.kept.policy:
            was = self.kept.manifest.policy_version
            yield Reason(REFRESH, POLICY_VERSION, f"was {was!r} and is {policy.version!r}")
        if self.source.embedder != self.kept.embedder:
            yield Reason(REFRESH, WATERMARK, "the embedding model has changed")

    def _clock(self, now: datetime) -> Iterator[Reason]:
        manifest = self.kept.manifest
        if now >= manifest.expires_at:
            yield Reason(REFRESH, DELETION, f"expired at {iso(manifest.expires_at)}")
        if now < manifest.assembled_at:
            yield Reason(REFRESH, DELETION, f"assembled at {iso(manifest.assembled_at)}, in the future")

    def _permitted(self, records: Sequence[Record], principal: Principal, now: datetime) -> Iterator[Reason]:
        allowed = And.of(rights(self.source.policy, principal), not_embargoed(now))
        closed = sum(not allowed.matches(record) for record in records)
        if closed:
            # Counted, not named: what is closed to a caller has no id.
            yield Reason(DENY, MEMBERS, f"{closed} of the members no longer the caller's")

    def _members(self, snapshot: Snapshot, principal: Principal, now: datetime) -> Iterator[Reason]:
        tenant = self.kept.manifest.tenant
        keys = {holding: RowKey(tenant, holding.id, holding.version) for holding in self.kept.holdings}
        rows = snapshot.rows_of(list(keys.values()))
        there = [snapshot.records[row] for row in rows.values()]
        yield from self._permitted(there, principal, now)
        for holding, key in keys.items():
            if key not in rows:
                yield Reason(REFRESH, DELETION, f"{_named(holding)} is gone", holding.id)
            elif snapshot.records[rows[key]].content_hash != holding.content_hash:
                yield Reason(REFRESH, MEMBERS, f"{_named(holding)} has changed", holding.id)

    def _writes(self, snapshot: Snapshot, principal: Principal, now: datetime) -> Iterator[Reason]:
        manifest = self.kept.manifest
        upto = snapshot.watermarks.get(manifest.tenant, 0)
        if upto == manifest.corpus_watermark:
            return
        if upto < manifest.corpus_watermark:
            yield Reason(
                REFRESH, WATERMARK, f"was {manifest.corpus_watermark} and is {upto}: not this corpus"
            )
            return
        since = manifest.assembled_at
        watch = Watch(
            plan=self.source.plan(self.request, principal, since),
            later=self.source.permission(principal, now, self.request.as_of),
            rights=rights(self.source.policy, principal),
            since=since,
            now=now,
        )
        entries = self.source.feed(manifest.tenant, manifest.corpus_watermark)
        for finding in islice(related(entries, snapshot, watch, upto=upto), None if self.whole else 1):
            yield Reason(REFRESH, WATERMARK, finding.found, finding.about)


def _named(holding: Holding) -> str:
    return f"{holding.id} version {holding.version}"
