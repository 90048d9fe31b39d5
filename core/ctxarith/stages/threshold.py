"""Hits whose score from one source is too low leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ctxarith.algebra import Kept, Moment, Stage
from ctxarith.errors import ArgumentError
from ctxarith.evidence import RERANKED, Drop, Hit
from ctxarith.stages.pool import Left, Pool
from ctxarith.stages.rank import finite


@dataclass(frozen=True, slots=True)
class AtLeast(Stage):
    """See `at_least`."""

    source: str
    score: float
    name = "at_least"

    def __call__(self, hits: Sequence[Hit], moment: Moment, /) -> Kept:
        """Keep the hits whose score from the source reaches the threshold."""
        pool = Pool.of(hits)
        if self.source == RERANKED:
            if pool.reranked is None:
                return pool, []
            given, ranks = pool.reranked.share, pool.reranked
        else:
            found = pool.table.found.get(self.source)
            if found is None:
                return pool[:0], Left(pool, self.name, self._reason)
            given, ranks = found.score, found
        reached = (ranks.rank[pool.order] > 0) & (given[pool.order] >= self.score)
        return pool.take(reached), Left(pool.take(~reached), self.name, self._reason)

    def note(self, kept: Sequence[Hit], dropped: Sequence[Drop], moment: Moment, /) -> str:
        """How many, or that there was nothing to compare."""
        if self.source == RERANKED and len(kept) and Pool.of(kept).reranked is None:
            return "not applied: nothing was reranked"
        return f"{len(dropped):,} left out" if dropped else ""

    @property
    def _reason(self) -> str:
        return f"{self.source} score below {self.score}"


def at_least(
    *, semantic: float | None = None, lexical: float | None = None, reranked: float | None = None
) -> Stage:
    """A threshold on the score of one source: a cosine, a BM25 score, or a reranker's mapped 0 to 1.

    Never on a fused score, which is on no scale. `reranked` leaves out what the reranker has not
    scored; when it has failed nothing is left out, and the trace says so.

    Raises:
        ArgumentError: unless exactly one threshold is given, as a finite number.
    """
    named = (("semantic", semantic), ("lexical", lexical), (RERANKED, reranked))
    given = {name: value for name, value in named if value is not None}
    if len(given) != 1 or not all(finite(v) for v in given.values()):
        raise ArgumentError("at_least", given, "one finite threshold, semantic=, lexical= or reranked=")
    ((source, score),) = given.items()
    return AtLeast(source, float(score))
