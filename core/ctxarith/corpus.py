"""The front door: open a corpus, add records, ask with a principal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, overload

from ctxarith.algebra import Candidates, Pipeline
from ctxarith.errors import ArgumentError
from ctxarith.explain import Explanation, PlanView
from ctxarith.feed import Change, changes_of
from ctxarith.history import Assertion, history_of
from ctxarith.index.newness import newness
from ctxarith.instant import TimeLike
from ctxarith.model import Record
from ctxarith.models.embedders import embedded_query
from ctxarith.normalise import clean_text
from ctxarith.opening import Opening
from ctxarith.plan import Plan, plan
from ctxarith.policy import Principal
from ctxarith.ports import Vector
from ctxarith.question import Question, ScopeLike, guard, reranking
from ctxarith.run import Result, Tools, run
from ctxarith.stages.assemble import Template
from ctxarith.where import Where, where


class Corpus(Opening):
    """Records of one or more tenants, and the questions asked of them.

    Open it with `Corpus.open(folder)` or `Corpus.in_memory()`; use it from any number of threads.

    >>> corpus = Corpus.in_memory()
    >>> _ = corpus.add([Record(id="r1", text="The annual fee is 12 EUR", created_at="2026-03-01")])
    >>> corpus.retrieve("what is the fee?").text
    '[1] (2026-03-01) The annual fee is 12 EUR'
    """

    @property
    def embedder_name(self) -> str:
        """The embedding model that this corpus was made with."""
        return self._shelf.settings["embedder"]

    def get(self, ids: str | Iterable[str], *, principal: Principal | None = None) -> list[Record]:
        """The newest permitted version of each id, in the order asked; the others are left out."""
        allowed, snapshot = self._gate.permission(principal, None), self._shelf.snapshot
        caller = self._gate.caller(principal)
        visible = snapshot.columns.mask(allowed.visible)
        found = []
        for record_id in self._ids(ids, None, caller.tenant):
            rows = [row for row in snapshot.named(caller.tenant, record_id) if visible[row]]
            if rows:
                found.append(max((snapshot.records[row] for row in rows), key=newness))
        return found

    def sole_principal(self, *, groups: Sequence[str] = (), scopes: Sequence[str] | None = None) -> Principal:
        """The caller while there is one tenant and no policy.

        Raises:
            PrincipalRequired: otherwise.
        """
        return replace(self._gate.caller(None), groups=groups, scopes=scopes)

    def count(
        self, condition: Where | None = None, *, scope: ScopeLike = None, principal: Principal | None = None
    ) -> int:
        """How many permitted records match, superseded ones included."""
        allowed, columns = self._gate.permission(principal, None), self._shelf.snapshot.columns
        visible = columns.mask(allowed.visible)
        mask = visible & columns.mask(guard(scope), visible) & columns.mask(where(condition), visible)
        return int(mask.sum())

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
        if not isinstance(text, str):
            raise ArgumentError("text", text, "the question as text")
        text = clean_text(None, "text", text)
        moment = self._gate.moment(as_of)
        shelf = self._shelf
        tools = Tools(self._embedded_query, self._setup.counter)
        return run(
            self.plan(pipeline, principal=principal, as_of=as_of),
            text,
            shelf.snapshot,
            at=moment,
            tools=tools,
        )

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

    def history(self, subject: str, attribute: str, *, principal: Principal | None = None) -> list[Assertion]:
        """The chain of assertions about one fact, oldest first."""
        for name, value in (("subject", subject), ("attribute", attribute)):
            if not isinstance(value, str):
                raise ArgumentError(name, value, "expected text")
        return history_of(
            subject,
            attribute,
            snapshot=self._shelf.snapshot,
            allowed=self._gate.permission(principal, None),
            at=self._gate.now(),
        )

    def changes(self, since: int, *, principal: Principal | None = None) -> list[Change]:
        """What the caller's tenant has changed since a watermark, as the caller may see it."""
        if isinstance(since, bool) or not isinstance(since, int) or since < 0:
            raise ArgumentError("since", since, "a watermark: a whole number, zero or more")
        allowed, tenant = self._gate.permission(principal), self._gate.caller(principal).tenant
        snapshot = self._shelf.snapshot
        entries = self._shelf.feed(tenant, since)
        return changes_of(entries, snapshot, allowed, upto=snapshot.watermarks.get(tenant, 0))

    def _embedded_query(self, text: str) -> Vector:
        vector = embedded_query(self._setup.embedder, text)
        self._shelf.check_dimension(len(vector))
        return vector
