"""Whether a packet may be used again, and what speaks against it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ctxarith.errors import Withheld

REUSE, REFRESH, UNVERIFIED, DENY = "reuse", "refresh_required", "unverified", "deny"
PRECEDENCE = (DENY, UNVERIFIED, REFRESH, REUSE)

NEXT = {
    REUSE: "it may be used",
    DENY: "the context is discarded; ask anew as who you are",
    UNVERIFIED: "current facts are withheld until the source can be looked at again",
    REFRESH: "call refresh(), which retrieves anew",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """One finding: the verdict that it asks for, the dependency it concerns, and what was found.

    `about` is the id of the record that it is about, where it is about one that the caller may see.
    """

    verdict: str
    dependency: str
    found: str
    about: str = ""

    def __str__(self) -> str:
        return f"{self.dependency}: {self.found}"


@dataclass(frozen=True, slots=True)
class Revalidation:
    """The verdict: the gravest that some reason asks for; `reuse` without any.

    >>> Revalidation((Reason(REFRESH, "member_versions", "D1 has changed"),)).verdict
    'refresh_required'
    """

    reasons: tuple[Reason, ...] = ()

    @property
    def verdict(self) -> str:
        """Deny > unverified > refresh_required > reuse."""
        asked = {reason.verdict for reason in self.reasons}
        return next((word for word in PRECEDENCE if word in asked), REUSE)

    @property
    def why(self) -> tuple[str, ...]:
        """The reasons for the verdict, as text."""
        return tuple(str(reason) for reason in self.reasons if reason.verdict == self.verdict)

    def of(self, dependency: str) -> tuple[Reason, ...]:
        """What was found of one dependency."""
        return tuple(reason for reason in self.reasons if reason.dependency == dependency)

    def check(self) -> None:
        """Pass on `reuse` alone.

        Raises:
            Withheld: with the verdict and its reasons.
        """
        if self.verdict != REUSE:
            raise Withheld(self.verdict, self.why, NEXT[self.verdict])


def judged(reasons: Iterable[Reason]) -> Revalidation:
    """The verdict of some reasons, each once; to whom it denies, it says nothing of the rest."""
    found = tuple(dict.fromkeys(reasons))
    denying = tuple(reason for reason in found if reason.verdict == DENY)
    return Revalidation(denying or found)
