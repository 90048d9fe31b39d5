"""Who may see what, now: a principal and a policy become one predicate, applied before scoring."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from ctxarith.errors import ArgumentError
from ctxarith.evidence import Decision
from ctxarith.fields import Field
from ctxarith.model import DEFAULT_TENANT, ROOT
from ctxarith.normalise import clean_scope
from ctxarith.predicate import EVERY, NOTHING, And, Exists, Not, Or, Predicate
from ctxarith.scopes import Scope


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of one request.

    Args:
        tenant: whose records; never blank.
        groups: matched with a record's `audience`.
        scopes: subtrees granted; left out means the tenant's root, `[]` means nothing.
        jurisdictions: left out means all; a record without one applies everywhere.
        scope_version: the state of the grants, carried on every hit.
        inherit_grants: whether a grant includes what hangs exactly on its ancestors.

    Raises:
        ArgumentError: for a blank tenant or a malformed list.

    >>> Principal("acme", scopes=["ops"]).scopes
    ('ops',)
    """

    tenant: str = DEFAULT_TENANT
    user: str | None = None
    groups: Collection[str] = ()
    scopes: Collection[str] | None = None
    jurisdictions: Collection[str] | None = None
    scope_version: str = "1"
    inherit_grants: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.tenant, str) or not self.tenant.strip():
            raise ArgumentError("tenant", self.tenant, "a principal belongs to a named tenant")
        _need_text("scope_version", self.scope_version)
        if self.user is not None:
            _need_text("user", self.user)
        _need_bool("inherit_grants", self.inherit_grants)
        object.__setattr__(self, "groups", _words("groups", self.groups))
        if self.scopes is not None:
            granted = tuple(clean_scope(path) for path in _words("scopes", self.scopes))
            object.__setattr__(self, "scopes", granted)
        if self.jurisdictions is not None:
            object.__setattr__(self, "jurisdictions", _words("jurisdictions", self.jurisdictions))


def _need_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ArgumentError(name, value, "expected text")


def _need_bool(name: str, value: object) -> None:
    # A right is never read from a string such as "no".
    if not isinstance(value, bool):
        raise ArgumentError(name, value, "expected True or False")


def _words(name: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ArgumentError(name, given, "expected a list of strings")
    words = tuple(given)
    if not all(isinstance(word, str) for word in words):
        raise ArgumentError(name, given, "expected a list of strings")
    return tuple(sorted(set(words)) if isinstance(given, set | frozenset) else dict.fromkeys(words))


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of a corpus beside the caller's own rights.

    Args:
        version: carried on every hit, and part of every cache key.
        source_types: only these kinds of source, when given.
        require_jurisdiction: a record without a jurisdiction applies nowhere.
        auditors: groups whose members `why` tells which conditions a record of their tenant fails;
            nobody by default. It widens nothing else.
    """

    version: str = "1"
    source_types: Collection[str] | None = None
    require_jurisdiction: bool = False
    auditors: Collection[str] = ()

    def __post_init__(self) -> None:
        _need_text("version", self.version)
        _need_bool("require_jurisdiction", self.require_jurisdiction)
        if self.source_types is not None:
            object.__setattr__(self, "source_types", _words("source_types", self.source_types))
        object.__setattr__(self, "auditors", _words("auditors", self.auditors))

    def lets_audit(self, principal: Principal) -> bool:
        """Whether the caller may learn why a record is closed to it.

        Takes both: a group that the policy names, and a principal that has it. A filter has no part in it.
        """
        return not set(self.auditors).isdisjoint(principal.groups)


@dataclass(frozen=True, slots=True)
class Permission:
    """What one caller may see at one moment, in two readings.

    `visible` decides what is retrieved. `standing` ignores the upper end of validity and is used
    for one question only: what still retires an older record (an expired successor does). `named` are
    the conditions of `visible`, each with the word that an auditor reads.
    """

    visible: Predicate
    standing: Predicate
    decision: Decision
    at: datetime | None = None
    tenant: str = DEFAULT_TENANT
    named: tuple[tuple[str, Predicate], ...] = ()
    audited: bool = False


def permission(policy: Policy, principal: Principal, *, now: datetime, at: datetime | None) -> Permission:
    """Compile policy and principal to predicates.

    `at` moves validity and assertion; tenant, audience, scopes, jurisdiction, embargo and retention
    are judged at `now`, so that looking back in time never shows what is closed today.
    """
    moment = now if at is None else at
    standing = {
        **_rights(policy, principal),
        "embargo": not_embargoed(now),
        "retention": _absent_or("retain_until", Field("retain_until") > now),
        "validity": _absent_or("valid_from", Field("valid_from") <= moment),
        "assertion": EVERY if at is None else _asserted_by(at),
    }
    ended = _absent_or("valid_until", Field("valid_until") > moment)
    everything = And.of(*standing.values())
    return Permission(
        And.of(everything, ended),
        everything,
        Decision(True, policy.version, principal.scope_version),
        at,
        principal.tenant,
        (*standing.items(), ("validity", ended)),
        policy.lets_audit(principal),
    )


def rights(policy: Policy, principal: Principal) -> Predicate:
    """What the caller may see whatever the time: tenant, audience, scopes, jurisdiction, kind of source."""
    return And.of(*_rights(policy, principal).values())


def _rights(policy: Policy, principal: Principal) -> dict[str, Predicate]:
    kinds = policy.source_types
    return {
        "tenant": Field("tenant") == principal.tenant,
        "audience": _audience(principal),
        "scope": _granted(principal),
        "jurisdiction": _jurisdiction(policy, principal),
        "source type": EVERY if kinds is None else Field("source_type").is_in(kinds),
    }


def not_embargoed(now: datetime) -> Predicate:
    """Records that are open by now."""
    return _absent_or("embargo_until", Field("embargo_until") <= now)


def dated_by(moment: datetime) -> Predicate:
    """Records whose own dates have come: one dated in the future retires nothing yet."""
    return And.of(
        _absent_or("created_at", Field("created_at") <= moment),
        _absent_or("valid_from", Field("valid_from") <= moment),
    )


def _asserted_by(at: datetime) -> Predicate:
    dated = Field("created_at") <= at
    by_validity = And.of(Not(Exists("created_at")), _absent_or("valid_from", Field("valid_from") <= at))
    return Or.of(dated, by_validity)


def _absent_or(name: str, condition: Predicate) -> Predicate:
    return Or.of(Not(Exists(name)), condition)


def _audience(principal: Principal) -> Predicate:
    named = (Field("audience").contains(group) for group in principal.groups)
    return Or.of(Not(Exists("audience")), *named)


def _granted(principal: Principal) -> Predicate:
    if principal.scopes is None or ROOT in principal.scopes:
        return EVERY
    return Scope(tuple(principal.scopes), principal.inherit_grants) if principal.scopes else NOTHING


def _jurisdiction(policy: Policy, principal: Principal) -> Predicate:
    places = principal.jurisdictions
    labelled = Exists("jurisdiction") if places is None else Field("jurisdiction").is_in(places)
    if policy.require_jurisdiction:
        return labelled
    return EVERY if places is None else Or.of(Not(Exists("jurisdiction")), labelled)
