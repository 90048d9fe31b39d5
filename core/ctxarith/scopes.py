"""Scopes: conditions on a record's place in the tree, by whole path segments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ctxarith.errors import ScopeError, short
from ctxarith.model import Record
from ctxarith.normalise import clean_scope
from ctxarith.predicate import EVERY, And, Compare, Or, Predicate

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Scope(Predicate):
    """A union of subtrees, by whole path segments; `inherit` adds what hangs exactly on the ancestors."""

    paths: tuple[str, ...]
    inherit: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.paths, str) or not isinstance(self.paths, Iterable):
            raise ScopeError(f"a scope is made of several paths, not of {short(self.paths)}")
        if not isinstance(self.inherit, bool):
            raise ScopeError(f"inherit is True or False, not {short(self.inherit)}")
        object.__setattr__(self, "paths", tuple(dict.fromkeys(clean_scope(path) for path in self.paths)))

    def lowered(self) -> Predicate:
        """The same condition in comparisons alone.

        In code-point order every path that begins with "acme/" lies between "acme/" and "acme0",
        since "0" follows "/". So a subtree is one equality and one range in any sorted column.
        """
        return Or.of(*(self._branch(path) for path in self.paths))

    def _branch(self, path: str) -> Predicate:
        if path == "":
            return EVERY
        below = And.of(Compare("scope", "ge", path + "/"), Compare("scope", "lt", path + "0"))
        exact = [path, *ancestors(path)] if self.inherit else [path]
        return Or.of(below, *(Compare("scope", "eq", one) for one in exact))

    def matches(self, record: Record) -> bool:
        """Compare whole segments: "acme" never sees "acme-corp"."""
        return self.lowered().matches(record)

    def __str__(self) -> str:
        shown = " | ".join(short(path)[1:-1] or "/" for path in self.paths[:_SHOWN]) or "nothing"
        if len(self.paths) > _SHOWN:
            shown += f" and {len(self.paths) - _SHOWN:,} more"
        return f"scope {shown}" + (" with ancestors" if self.inherit else "")


@dataclass(frozen=True, slots=True)
class Everyone(Predicate):
    """The explicit open guard: every record that the policy lets the caller see."""

    def matches(self, record: Record) -> bool:
        """Always true; the policy is a condition of its own."""
        return True

    def __str__(self) -> str:
        return "everyone"


everyone = Everyone()


def ancestors(path: str) -> list[str]:
    """The nodes above a path, nearest first, the root last.

    >>> ancestors("a/b/c")
    ['a/b', 'a', '']
    """
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(len(parts) - 1, -1, -1)] if path else []


def scope(*paths: str | Iterable[str], inherit: bool = False) -> Scope:
    """The records at a node of the scope tree and below it.

    Several paths are a union; no path at all is nothing. `inherit=True` adds what hangs exactly on
    the ancestors, so that organisation-wide records flow down.

    Raises:
        ScopeError: for an empty, `.` or `..` segment.

    >>> str(scope("jkshah/ca-foundation/"))
    'scope jkshah/ca-foundation'
    """
    flat: list[str] = []
    for given in paths:
        flat.extend([given] if isinstance(given, str) or not isinstance(given, Iterable) else given)
    return Scope(tuple(flat), inherit)
