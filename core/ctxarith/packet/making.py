"""The packets of one corpus: made, found again by request or by number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ctxarith.errors import ArgumentError, Withheld
from ctxarith.packet.assembling import assembled, bound_to, from_result, hash_of
from ctxarith.packet.borrowed import Source
from ctxarith.packet.handle import Packet
from ctxarith.packet.keeping import Cache, Shelf, key_of
from ctxarith.packet.manifest import Kept
from ctxarith.packet.request import Case, request, restored
from ctxarith.packet.revalidate import Check
from ctxarith.packet.rights import owner_of
from ctxarith.packet.verdict import DENY, REFRESH, REUSE
from ctxarith.policy import Principal
from ctxarith.run import Result

_NONE_HERE = "there is no packet of this number for this caller and task"


class Packets:
    """Makes packets and finds them again."""

    def __init__(self, source: Source, shelf: Shelf) -> None:
        self._source = source
        self._shelf = shelf
        self._cache: Cache[Packet] = Cache()

    def made(
        self, query: str | Result, case: Case, principal: Principal | None, asked: Mapping[str, Any]
    ) -> Packet:
        """A packet for a request: one that is there and may be reused, or a new one."""
        source = self._source
        caller = source.gate.caller(principal)
        if isinstance(query, Result):
            made = from_result(query, case, asked, caller, source)
            return Packet(made, principal, source, self._shelf)
        wanted = request(query, case, asked, reranker=source.gate.setup.reranker)
        if not wanted.restorable:
            return Packet(assembled(wanted, caller, source), principal, source, self._shelf)
        watermark = source.snapshot().watermarks.get(caller.tenant, 0)
        known = self._cache.get(key_of(wanted, caller, source, watermark))
        if known is not None and known.revalidate(principal).verdict == REUSE:
            return known
        packet = Packet(assembled(wanted, caller, source), principal, source, self._shelf)
        packet.keep()
        # Under the watermark of its own data, which a write may have moved since it was looked up.
        self._cache.put(key_of(wanted, caller, source, packet.manifest.corpus_watermark), packet)
        return packet

    def kept(self, packet_id: str, principal: Principal | None, task: str) -> Packet:
        """A packet by its number, rendered anew from what is there now and compared with its hash."""
        if not isinstance(packet_id, str):
            raise ArgumentError("packet_id", packet_id, "the number of a packet")
        source = self._source
        caller = source.gate.caller(principal)
        stored = self._shelf.get(packet_id)
        if stored is None:
            raise Withheld(DENY, [_NONE_HERE], "make one with Corpus.packet")
        kept = Kept.from_json(stored.body)
        wanted = restored(kept.request, reranker=source.gate.setup.reranker)
        if kept.owner != owner_of(caller) or wanted.task != task:
            raise Withheld(DENY, [_NONE_HERE], "make one with Corpus.packet")
        found = Check(kept, wanted, (), source).verdict(caller, source.gate.now())
        if found.verdict in (DENY, REFRESH):
            self._shelf.remove(packet_id)
        found.check()
        since = kept.manifest.assembled_at
        made = bound_to(source.retrieve(wanted, caller, since), wanted, caller, source, since)
        if hash_of(made.leaf.text) != kept.rendering:
            self._shelf.remove(packet_id)
            raise Withheld(
                REFRESH, ["the same retrieval renders other bytes"], "make it anew with Corpus.packet"
            )
        return Packet(replace(made, kept=kept), principal, source, self._shelf)
