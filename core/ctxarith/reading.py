"""What a corpus says of its records without a question: by id, counted, the chain of a fact, what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ctxarith.errors import ArgumentError
from ctxarith.feed import Change, changes_of
from ctxarith.history import Assertion, history_of
from ctxarith.index.newness import newness
from ctxarith.model import Record
from ctxarith.opening import Opening
from ctxarith.policy import Principal
from ctxarith.question import ScopeLike, guard
from ctxarith.scene import retirement
from ctxarith.where import Where, where


class Reading(Opening):
    """Look-ups under the caller's permission."""

    @property
    def embedder_name(self) -> str:
        """The embedding model that this corpus was made with."""
        return self._shelf.settings["embedder"]

    def get(
        self,
        ids: str | Iterable[str],
        *,
        principal: Principal | None = None,
        current: bool = False,
        versions: bool = False,
    ) -> list[Record]:
        """The newest permitted version of each id, in the order asked; the others are left out.

        Args:
            ids: of records.
            principal: who asks.
            current: leave out what is superseded in the caller's eyes as well.
            versions: every version instead of the newest, the oldest first.
        """
        now = self._gate.now()
        allowed, snapshot = self._gate.permission(principal, now=now), self._shelf.snapshot
        wanted = snapshot.columns.mask(allowed.visible)
        if current:
            wanted = wanted & ~retirement(snapshot, allowed, wanted, now).mask
        found: list[Record] = []
        for record_id in self._ids(ids, None, allowed.tenant):
            rows = [row for row in snapshot.named(allowed.tenant, record_id) if wanted[row]]
            records = sorted((snapshot.records[row] for row in rows), key=newness)
            found += records if versions else records[-1:]
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
