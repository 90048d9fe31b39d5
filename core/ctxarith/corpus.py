"""The front door: open a corpus, add records, ask with a principal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, overload

from ctxarith.algebra import Candidates, Pipeline
from ctxarith.confidence import Gate
from ctxarith.errors import ArgumentError
from ctxarith.explain import Explanation, PlanView
from ctxarith.instant import TimeLike
from ctxarith.ledger import ThreadKey
from ctxarith.models.embedders import embedded_query
from ctxarith.normalise import clean_text
from ctxarith.plan import Plan, plan
from ctxarith.policy import Principal
from ctxarith.ports import Vector
from ctxarith.question import Question, ScopeLike, reranking
from ctxarith.reading import Reading
from ctxarith.run import Result, Tools, run
from ctxarith.session import Asking, Session
from ctxarith.stages.assemble import Template
from ctxarith.where import Where


class Corpus(Reading):
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
            rank: "auto", "fused" or "composite".
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
        asking = Asking(
            lambda pipeline, text, as_of, embed: self._run(pipeline, text, principal, as_of, embed),
            self._embedded_query,
            lambda names: self._sources(names, principal),
            self._setup.reranker,
        )
        key = ThreadKey(caller.tenant, caller.user or "", thread_id)
        return Session(key, asking, self._shelf.threads, gate=gate, capacity=capacity)

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

    def plan(
        self,
        pipeline: Pipeline | Candidates,
        *,
        principal: Principal | None = None,
        as_of: TimeLike | None = None,
    ) -> Plan:
        """What a run would do; touches nothing."""
        return plan(pipeline, self._gate.permission(principal, as_of), can=self._shelf.store.can)

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

    def _run(
        self,
        pipeline: Pipeline | Candidates,
        text: str,
        principal: Principal | None,
        as_of: TimeLike | None,
        embed: Callable[[str], Vector],
    ) -> Result:
        if not isinstance(text, str):
            raise ArgumentError("text", text, "the question as text")
        return run(
            self.plan(pipeline, principal=principal, as_of=as_of),
            clean_text(None, "text", text),
            self._shelf.snapshot,
            at=self._gate.moment(as_of),
            tools=Tools(embed, self._setup.counter),
        )

    def _sources(self, names: Iterable[str], principal: Principal | None) -> list[str]:
        """The sources of permitted records that are named by id or source."""
        allowed, snapshot = self._gate.permission(principal), self._shelf.snapshot
        tenant = self._gate.caller(principal).tenant
        visible = snapshot.columns.mask(allowed.visible)
        named = (row for name in names for row in snapshot.linked_to(tenant, name) if visible[row])
        return list(dict.fromkeys(snapshot.records[row].source_id for row in named))

    def _embedded_query(self, text: str) -> Vector:
        vector = embedded_query(self._setup.embedder, text)
        self._shelf.check_model(self._setup.wanted["embedder"], len(vector))
        return vector
