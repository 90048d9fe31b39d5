"""Which of two assertions is newer: one total order for records.

(`valid_from` or `created_at`, `created_at`, version in natural order, id, version as it is spelt);
insertion order plays no part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.values import microseconds
from ctxarith.model import Record

# The time of a record without a date: before every other.
UNDATED = np.iinfo(np.int64).min

_NEVER = datetime.min.replace(tzinfo=UTC)


def newness(record: Record) -> tuple[datetime, datetime, tuple[tuple[int, int, str], ...], str, str]:
    """The key by which one assertion is newer than another."""
    asserted_at = record.created_at or _NEVER
    return (record.valid_from or asserted_at, asserted_at, natural(record.version), record.id, record.version)


def natural(version: str) -> tuple[tuple[int, int, str], ...]:
    """Natural order: "v10" is newer than "v9".

    >>> natural("v10") > natural("v9")
    True
    """
    pieces = re.split(r"([0-9]+)", version)
    return tuple((1, int(p), "") if p[0] in "0123456789" else (0, 0, p) for p in pieces if p)


def times_of(records: Sequence[Record]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first two parts of `newness` for each record, in microseconds."""
    created = [UNDATED if r.created_at is None else microseconds(r.created_at) for r in records]
    start = [
        asserted if r.valid_from is None else microseconds(r.valid_from)
        for r, asserted in zip(records, created, strict=True)
    ]
    return np.asarray(start, np.int64), np.asarray(created, np.int64)
