"""What a corpus says of its records without a question: by id, counted, the chain of a fact, what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ctxarith.errors import ArgumentError
from ctxarith.feed import Change, changes_of
from ctxarith.history import Assertion, history_of
from ctxarith.index.newness import newness
from ctxarith.instant import TimeLike
from ctxarith.model import Record
from ctxarith.opening import Opening
from ctxarith.policy import Principal
from ctxarith.question import ScopeLike, guard
from ctxarith.scene import Stand, retirement, stand_of
from ctxarith.where import Where, where


class Reading(Opening):
    """Look-ups under the caller's permission."""

    @property
    def embedder_name(self) -> str:
        """The embedding model that this corpus was made with."""
        return self._shelf.settings["embedder"]

    def get(self, ids: str | Iterable[str], *, principal: Principal | None = None) -> list[Record]:
        """The newest permitted version of each id, in the order asked; the others are left out."""
        allowed, snapshot = self._gate.permission(principal, None), self._shelf.snapshot
        visible = snapshot.columns.mask(allowed.visible)
        found = []
        for record_id in self._ids(ids, None, allowed.tenant):
            rows = [row for row in snapshot.named(allowed.tenant, record_id) if visible[row]]
            if rows:
                found.append(max((snapshot.records[row] for row in rows), key=newness))
        return found

    def standing(
        self,
        ids: str | Iterable[str],
        *,
        principal: Principal | None = None,
        as_of: TimeLike | None = None,
    ) -> list[Stand]:
        """Every permitted version of each id and how it stands, in the order asked, the oldest first."""
        now = self._gate.now()
        allowed, snapshot = self._gate.permission(principal, as_of, now=now), self._shelf.snapshot
        visible = snapshot.columns.mask(allowed.visible)
        named = self._ids(ids, None, allowed.tenant)
        rows = {name: [r for r in snapshot.named(allowed.tenant, name) if visible[r]] for name in named}
        if not any(rows.values()):
            return []
        replaced = retirement(snapshot, allowed, visible, now if as_of is None else self._gate.moment(as_of))
        stands = {name: [stand_of(row, snapshot, replaced) for row in those] for name, those in rows.items()}
        return [one for name in stands for one in sorted(stands[name], key=lambda one: newness(one.record))]

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
        if isinstance(since, bool) or not isinstance(since, int) or not 0 <= since < 2**63:
            raise ArgumentError("since", since, "a watermark: a whole number, zero or more")
        allowed, tenant = self._gate.permission(principal), self._gate.caller(principal).tenant
        snapshot = self._shelf.snapshot
        entries = self._shelf.feed(tenant, since)
        return changes_of(entries, snapshot, allowed, upto=snapshot.watermarks.get(tenant, 0))
