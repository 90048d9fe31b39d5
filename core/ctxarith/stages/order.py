"""One total order for every stage: tier first, then the stage's own score, then newest, then id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from ctxarith.evidence import Hit
from ctxarith.instant import EPOCH


def by_score(hits: Sequence[Hit], *, newest: bool, first: Callable[[Hit], int] = lambda hit: 0) -> list[Hit]:
    """Best first; the caller's list is untouched. `first` is a class above the score, higher first.

    Ties go to the newer record if `newest`, then to the smaller id. A superseded record that was
    asked for stands below its successors.
    """

    def key(hit: Hit) -> tuple[int, int, float, float, str, str]:
        age = -seconds(hit.record.dated) if newest else 0.0
        return (-hit.tier, -first(hit), -hit.score, age, hit.record.id, hit.record.version)

    return below_successors(sorted(hits, key=key))


def newest_first(hits: Sequence[Hit]) -> list[int]:
    """Positions of the hits, newest first, undated last, then by id."""
    return sorted(range(len(hits)), key=lambda n: (-seconds(hits[n].record.dated), hits[n].key))


def seconds(moment: datetime | None) -> float:
    """Epoch seconds for comparisons; an undated record is older than all others."""
    return float("-inf") if moment is None else (moment - EPOCH).total_seconds()


def below_successors(hits: list[Hit]) -> list[Hit]:
    """The same order, but each superseded hit stands after those that replace it."""
    if not any(hit.superseded_by for hit in hits):
        return hits
    present = {hit.id for hit in hits if not hit.superseded_by}
    placed: list[Hit] = []
    waiting: list[Hit] = []
    seen: set[str] = set()
    for hit in hits:
        if set(hit.superseded_by) & present <= seen:
            placed.append(hit)
        else:
            waiting.append(hit)
        if not hit.superseded_by:
            seen.add(hit.id)
            ready = [w for w in waiting if set(w.superseded_by) & present <= seen]
            placed.extend(ready)
            waiting = [w for w in waiting if w not in ready]
    return placed + waiting
