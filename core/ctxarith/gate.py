"""Who is asking, and when: every call of a corpus passes here before it sees a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ctxarith.errors import ArgumentError, PrincipalRequired
from ctxarith.instant import TimeLike, instant
from ctxarith.model import DEFAULT_TENANT
from ctxarith.options import Setup
from ctxarith.policy import Permission, Policy, Principal, permission


@dataclass(frozen=True, slots=True)
class Gate:
    """Turns a principal and a time into a permission, or refuses."""

    setup: Setup
    tenants: Callable[[], frozenset[str]]

    def permission(
        self, principal: Principal | None, as_of: TimeLike | None = None, *, now: datetime | None = None
    ) -> Permission:
        """What the caller may see.

        Raises:
            PrincipalRequired: nobody is named, and a policy or a second tenant exists.
        """
        at = None if as_of is None else self.moment(as_of)
        return permission(self.setup.policy or Policy(), self.caller(principal), now=now or self.now(), at=at)

    def caller(self, principal: Principal | None) -> Principal:
        """The principal; without one, the only tenant, as long as there is no policy."""
        if principal is None:
            if self.setup.policy is not None:
                raise PrincipalRequired("a policy is set: pass principal=Principal(tenant, ...)")
            return Principal(self._only_tenant())
        if not isinstance(principal, Principal):
            raise ArgumentError("principal", principal, "a Principal")
        return principal

    def tenant(self, tenant: str | None) -> str:
        """The tenant of a write; without one, the only tenant, as long as there is no policy."""
        if tenant is not None:
            return Principal(tenant).tenant
        if self.setup.policy is not None:
            raise PrincipalRequired("a policy is set: say for which tenant, tenant=...")
        return self._only_tenant()

    def now(self) -> datetime:
        """The present in UTC."""
        try:
            return instant(self.setup.clock())
        except ValueError as error:
            raise ArgumentError(
                "clock", self.setup.clock, f"must return an aware datetime: {error}"
            ) from error

    def moment(self, as_of: TimeLike | None) -> datetime:
        """The time that a question is about."""
        if as_of is None:
            return self.now()
        try:
            return instant(as_of, naive_zone=self.setup.zone)
        except ValueError as error:
            raise ArgumentError("as_of", as_of, str(error)) from error

    def _only_tenant(self) -> str:
        tenants = self.tenants()
        if len(tenants) > 1:
            raise PrincipalRequired(
                "this corpus holds more than one tenant: say for whom the call is made, "
                "principal=Principal(tenant) or tenant=... (--tenant on the command line)"
            )
        return next(iter(tenants), DEFAULT_TENANT)
