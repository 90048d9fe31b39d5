"""A question run: what `retrieve`, sessions and packets share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ctxarith.algebra import Candidates, Pipeline
from ctxarith.errors import ArgumentError, StoreError
from ctxarith.instant import TimeLike
from ctxarith.models.embedders import embedded_query
from ctxarith.normalise import clean_text
from ctxarith.plan import Plan, plan
from ctxarith.policy import Principal
from ctxarith.ports import Vector
from ctxarith.reading import Reading
from ctxarith.run import Result, Tools, run
from ctxarith.session import Asking
from ctxarith.stores.adopted import Adopted


class Running(Reading):
    """Plans and runs, for one caller on one snapshot."""

    def plan(
        self,
        pipeline: Pipeline | Candidates,
        *,
        principal: Principal | None = None,
        as_of: TimeLike | None = None,
    ) -> Plan:
        """What a run would do; touches nothing."""
        return plan(pipeline, self._gate.permission(principal, as_of), can=self._shelf.store.can)

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
        # The clock is read once, or a boundary could fall between what is permitted and what is current.
        now = self._gate.now()
        allowed = self._gate.permission(principal, as_of, now=now)
        return run(
            plan(pipeline, allowed, can=self._shelf.store.can),
            clean_text(None, "text", text),
            self._shelf.snapshot,
            at=now if as_of is None else self._gate.moment(as_of),
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

    def _asking(self, principal: Principal | None) -> Asking:
        return Asking(
            lambda pipeline, text, as_of, embed: self._run(pipeline, text, principal, as_of, embed),
            self._embedded_query,
            lambda names: self._sources(names, principal),
            self._setup.reranker,
        )

    def _probe(self) -> None:
        """Look whether the store behind the index can be reached, where that is a question."""
        if not self.is_synced:
            raise StoreError("others write this collection, and it was not looked at: call sync()")
        store = self._shelf.store
        if isinstance(store, Adopted):
            store.count()
        elif callable(probe := getattr(store, "probe", None)):
            probe()
