"""For whom a packet is: who owns it, under which rights and rules, and in which named scopes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict

from ctxarith.model import ROOT
from ctxarith.packet.conditions import canonical
from ctxarith.plan import Plan
from ctxarith.policy import Policy, Principal
from ctxarith.predicate import And, Predicate
from ctxarith.scopes import Scope


def owner_of(principal: Principal) -> str:
    """A digest of who somebody is, whatever they are granted."""
    return digest([principal.tenant, principal.user])


def rights_of(principal: Principal) -> str:
    """A digest of all that a principal is granted; the order of a list plays no part."""
    plain = {
        name: sorted(value) if isinstance(value, tuple) else value
        for name, value in asdict(principal).items()
    }
    return digest(plain)


def rules_of(policy: Policy) -> str:
    """A digest of the policy."""
    plain = asdict(policy)
    return digest({name: sorted(v) if isinstance(v, tuple) else v for name, v in plain.items()})


def digest(plain: object) -> str:
    """SHA-256 of JSON values."""
    return hashlib.sha256(canonical(plain).encode()).hexdigest()


def query_scope(plan: Plan) -> str:
    """The paths that a plan searches, or "*"."""
    named = list(_named(plan.scope))
    words = [" | ".join(one.paths) + (" with ancestors" if one.inherit else "") for one in named]
    return " & ".join(words) if words else "*"


def granted(plan: Plan, principal: Principal) -> tuple[str, ...]:
    """What the principal holds of the scopes that a question names: whole subtrees, or parts of them."""
    held: dict[str, None] = {}
    for one in _named(plan.scope):
        for path in one.paths:
            if covers(principal, path):
                held[path] = None
            else:
                held |= dict.fromkeys(g for g in principal.scopes or () if _within(g, path))
    return tuple(held)


def covers(principal: Principal, path: str) -> bool:
    """Whether a whole subtree lies within what the principal is granted."""
    return principal.scopes is None or any(_within(path, grant) for grant in principal.scopes)


def _within(path: str, root: str) -> bool:
    return root == ROOT or path == root or path.startswith(root + "/")


def _named(guard: Predicate) -> Iterable[Scope]:
    parts = guard.parts if isinstance(guard, And) else (guard,)
    return (part for part in parts if isinstance(part, Scope))
