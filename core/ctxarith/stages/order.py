"""Time as a key for sorting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ctxarith.evidence import Hit
from ctxarith.instant import EPOCH


def newest_first(hits: Sequence[Hit]) -> list[int]:
    """Positions of the hits, newest first, undated last, then by id."""
    return sorted(range(len(hits)), key=lambda n: (-seconds(hits[n].record.dated), hits[n].key))


def seconds(moment: datetime | None) -> float:
    """Epoch seconds for comparisons; an undated record is older than all others."""
    return float("-inf") if moment is None else (moment - EPOCH).total_seconds()
