"""Further questions of a case: answered from the packet's sources when its gate finds them enough."""

from __future__ import annotations

from ctxarith.confidence import Verdict
from ctxarith.evidence import SEMANTIC
from ctxarith.ledger import Ledger, ThreadKey
from ctxarith.packet.assembling import Assembled
from ctxarith.packet.borrowed import Source
from ctxarith.policy import Principal
from ctxarith.run import Result
from ctxarith.session import CITED, Session
from ctxarith.stores.threads import MemoryThreads

# Sources that a case may come to cite beside its members.
_MORE = 64


class Following:
    """A thread that began with the packet's own question. It holds ids and vectors, and no text."""

    def __init__(self, made: Assembled, source: Source) -> None:
        self._source = source
        self._request = made.request
        self._packet_id = made.kept.manifest.packet_id
        self._sources = [member.source_id for member in made.kept.manifest.members]
        cosines = (
            found.score for hit in made.leaf.hits for found in hit.found_by if found.source == SEMANTIC
        )
        self._best = max(cosines, default=0.0)
        self._threads = MemoryThreads()

    def ask(self, question: str, caller: Principal) -> Result:
        """Evidence for a question; the thread remembers it."""
        return self._asked(question, caller, self._threads)

    def covers(self, question: str, caller: Principal) -> Verdict:
        """What the gate says of a question; the thread stays as it is."""
        aside = MemoryThreads()
        known = self._ledger(caller)
        aside.change(self._key(caller), lambda _: known)
        answer = self._asked(question, caller, aside)
        reason = answer.trace.steps[0].note
        return Verdict(answer.trace.stage == CITED, answer.trace.confidence or 0.0, reason)

    def _asked(self, question: str, caller: Principal, threads: MemoryThreads) -> Result:
        key, begin = self._key(caller), self._ledger(caller)
        threads.change(key, lambda known: known if known.questions else begin)
        capacity = len(self._sources) + _MORE
        session = Session(key, self._source.asking(caller), threads, capacity=capacity)
        return session.retrieve(question, as_of=self._request.as_of, **self._request.asked)

    def _ledger(self, caller: Principal) -> Ledger:
        known = self._threads.get(self._key(caller))
        if known.questions or not self._request.text.strip():
            return known
        ledger = Ledger().citing(self._sources, len(self._sources) + _MORE)
        return ledger.asked(self._source.embed(self._request.text), self._best)

    def _key(self, caller: Principal) -> ThreadKey:
        return ThreadKey(caller.tenant, caller.user or "", self._packet_id)
