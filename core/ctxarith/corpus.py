"""The front door: open a corpus, add records, ask with a principal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, overload

from ctxarith.algebra import Candidates, Pipeline
from ctxarith.confidence import Gate
from ctxarith.errors import ArgumentError
from ctxarith.explain import Explanation, PlanView
from ctxarith.instant import TimeLike
from ctxarith.ledger import ThreadKey, anonymous
from ctxarith.packet.borrowed import Source
from ctxarith.packet.handle import Packet
from ctxarith.packet.making import Packets
from ctxarith.packet.request import LIFETIME, Case
from ctxarith.policy import Principal
from ctxarith.question import Question, ScopeLike, reranking
from ctxarith.run import Result
from ctxarith.running import Running
from ctxarith.session import Session
from ctxarith.stages.assemble import Template
from ctxarith.where import Where


class Corpus(Running):
    """Records of one or more tenants, and the questions asked of them.

    Open it with `Corpus.open(folder)` or `Corpus.in_memory()`; use it from any number of threads.

    >>> corpus = Corpus.in_memory()
    >>> _ = corpus.add([{"id": "r1", "text": "The annual fee is 12 EUR", "created_at": "2026-03-01"}])
    >>> corpus.retrieve("what is the fee?").text
    '[1] (2026-03-01) The annual fee is 12 EUR'
    """

    def retrieve(
        self,
        text: str,
        *,
        principal: Principal | None = None,
        scope: ScopeLike = None,
        where: Where | None = None,
        top: int | None = 5,
        tokens: int | None = 400,
        as_of: TimeLike | None = None,
        rank: str = "auto",
        words: str = "plain",
        rerank: bool | int = False,
        include_superseded: bool = False,
        template: Template | None = None,
        order: str = "rank",
        group_by: str | None = None,
    ) -> Result:
        """The right few hundred tokens for a question.

        Builds `((semantic | lexical) & scope & where) - superseded >> rrf() >> rank >> top >> budget`.

        Args:
            text: the question; see also `compose_query`.
            principal: who asks; may be left out while there is one tenant and no policy.
            scope: a path, several (a union), or a `scope(...)`; all that is permitted by default.
            where: a predicate or a dict; AND-ed with the policy, and never widens it.
            top: at most this many records; `None` for no limit.
            tokens: at most this many tokens in `Result.text`; `None` for no limit.
            as_of: the time that the question is about.
            rank: "auto", "fused", "composite", or "relevance", which is the formula's without the rest of it.
            words: "exact" where quoted phrases and identifiers must occur; "fuzzy_prefix" for words that
                may be misspelt or unfinished.
            rerank: read the best hits (50, or this many) with the corpus's `reranker` before ranking.
            include_superseded: keep retired records, labelled and below their successors.
            template: what stands around the evidence.
            order: "rank", "edges", "chronological" or "sections".
            group_by: "source" for at most one chunk of each source.

        Raises:
            PrincipalRequired, ArgumentError, PredicateError, ScopeError, BudgetError.
        """
        asked = Question(
            scope=scope,
            where=where,
            top=top,
            tokens=tokens,
            rank=rank,
            words=words,
            include_superseded=include_superseded,
            template=template,
            order=order,
            group_by=group_by,
            reranking=reranking(self._setup.reranker, rerank),
        )
        return self.run(asked.pipeline(), text, principal=principal, as_of=as_of)

    def session(
        self,
        thread_id: str,
        *,
        principal: Principal | None = None,
        gate: Gate | None = None,
        capacity: int = 64,
    ) -> Session:
        """A thread of questions, each answered from what the thread has cited when that is enough.

        Args:
            thread_id: names the thread; it is the principal's own, whoever else uses the same name.
            principal: who asks.
            gate: decides whether the cited set is enough; see `ctxarith.confidence`.
            capacity: how many sources stay cited, the least recently cited leave first.
        """
        caller = self._gate.caller(principal)
        if not isinstance(thread_id, str) or not thread_id:
            raise ArgumentError("thread_id", thread_id, "the name of a thread")
        key = ThreadKey(caller.tenant, caller.user or anonymous(caller), thread_id)
        return Session(key, self._asking(principal), self._shelf.threads, gate=gate, capacity=capacity)

    def packet(
        self,
        query: str | Result,
        *,
        principal: Principal | None = None,
        task: str = "",
        sections: Mapping[str, Where] | None = None,
        cited: Iterable[str] = (),
        lifetime: timedelta = LIFETIME,
        **asked: Any,
    ) -> Packet:
        """Evidence for one task, to be used many times and checked before each.

        The same request of the same principal gets the same packet, as long as it may be reused.

        Args:
            query: the question; or the `Result` of one, of this corpus or of a session.
            principal: who asks; the packet is bound to it.
            task: what for; the packet is bound to that too.
            sections: labels with their conditions, in the order of the page; an empty one is unresolved.
            cited: ids or sources that stand first, such as `session.cited`; what is not here is unresolved.
            lifetime: how long at most.
            **asked: `scope`, `where`, `top` (8), `tokens` (1,200), `as_of`, `rank`, `rerank`,
                `include_superseded` and `group_by` of `retrieve`; with a `Result`, `top` and `tokens`.

        Raises:
            PrincipalRequired, ArgumentError, PredicateError, ScopeError.
        """
        return self._packets.made(query, Case(task, sections, cited, lifetime), principal, asked)

    def kept_packet(self, packet_id: str, *, principal: Principal | None = None, task: str = "") -> Packet:
        """A packet by its number, if it may be reused by this caller for this task now.

        Raises:
            Withheld: it may not, or there is none of that number; both look the same to a stranger.
        """
        return self._packets.kept(packet_id, principal, task)

    @cached_property
    def _packets(self) -> Packets:
        source = Source(
            self._gate,
            lambda: self._shelf.snapshot,
            lambda tenant, since: self._shelf.feed(tenant, since),
            self._probe,
            self._embedded_query,
            self._asking,
        )
        return Packets(source, self._kept_packets)

    async def aretrieve(self, text: str, **arguments: Any) -> Result:
        """`retrieve` in a worker thread; takes the same arguments."""
        return await asyncio.to_thread(self.retrieve, text, **arguments)

    def run(
        self,
        pipeline: Pipeline | Candidates,
        text: str,
        *,
        principal: Principal | None = None,
        as_of: TimeLike | None = None,
    ) -> Result:
        """Run a query that was written in the algebra.

        Raises:
            ScopeError, AlgebraError: the pipeline cannot be planned; nothing is searched.
        """
        return self._run(pipeline, text, principal, as_of, self._embedded_query)

    async def arun(self, pipeline: Pipeline | Candidates, text: str, **arguments: Any) -> Result:
        """`run` in a worker thread; takes the same arguments."""
        return await asyncio.to_thread(self.run, pipeline, text, **arguments)

    @overload
    def explain(self, pipeline: Pipeline | Candidates, text: None = None, **arguments: Any) -> PlanView: ...
    @overload
    def explain(self, pipeline: Pipeline | Candidates, text: str, **arguments: Any) -> Explanation: ...
    def explain(
        self, pipeline: Pipeline | Candidates, text: str | None = None, **arguments: Any
    ) -> PlanView | Explanation:
        """Without a text: the plan, and nothing is touched. With one: run it and show the funnel."""
        if text is None:
            return PlanView(self.plan(pipeline, **arguments))
        return self.run(pipeline, text, **arguments).explain()
