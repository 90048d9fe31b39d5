"""What a thread has cited and asked: a bounded value that each turn replaces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ctxarith.policy import Principal
from ctxarith.ports import Vector

# Earlier questions that a new one is compared with.
QUESTIONS = 32


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """(tenant, user, thread): whose ledger it is. Nobody else's is ever read."""

    tenant: str
    user: str
    thread: str


def anonymous(caller: Principal) -> str:
    """Stands for a user without a name: callers share a thread if they have the same rights, and only then.

    Otherwise how sure a gate is would tell one caller something of what another one was shown.
    """
    rights = (caller.groups, caller.scopes, caller.jurisdictions, caller.inherit_grants)
    return "anonymous " + repr([sorted(one) if isinstance(one, tuple) else one for one in rights])


@dataclass(frozen=True, slots=True)
class Ledger:
    """The cited sources, the least recently cited first, and the questions so far.

    Args:
        cited: source ids.
        questions: unit vectors of the last questions.
        bests: the best cosine that each search of the corpus found.
    """

    cited: tuple[str, ...] = ()
    questions: tuple[Vector, ...] = ()
    bests: tuple[float, ...] = ()

    def citing(self, sources: Iterable[str], capacity: int) -> Ledger:
        """With these sources cited last; what exceeds the capacity leaves, the oldest first."""
        fresh = dict.fromkeys(sources)
        kept = [source for source in self.cited if source not in fresh]
        return replace(self, cited=tuple([*kept, *fresh][-capacity:]))

    def asked(self, question: Vector, best: float | None) -> Ledger:
        """With a question more, and what the corpus had for it if it was searched."""
        bests = self.bests if best is None else (*self.bests, best)[-QUESTIONS:]
        return replace(self, questions=(*self.questions, question)[-QUESTIONS:], bests=bests)
