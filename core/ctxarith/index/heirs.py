"""Who stands at the end of each chain, for all rows at once; only where heirs are several must one ask."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ctxarith.index.columns import Mask, Rows

NONE, SEVERAL = -1, -2


def sole_heirs(size: int, pairs: Iterable[tuple[Rows, Rows]]) -> Rows:
    """The one row that retires each row directly; `NONE`, or `SEVERAL` where they differ.

    Args:
        size: the number of rows.
        pairs: (retired rows, their heirs), from each ground of retirement.
    """
    least, most = np.full(size, size), np.full(size, NONE)
    for rows, heirs in pairs:
        np.minimum.at(least, rows, heirs)
        np.maximum.at(most, rows, heirs)
    return np.where(least < most, SEVERAL, most)


def sole_heads(heirs: Rows, retired: Mask, visible: Mask) -> Rows:
    """The visible row at the end of each retired row's chain; `NONE`, or `SEVERAL` where a chain parts.

    Every step halves what is left of each chain (pointer doubling), so that long ones cost little.
    """
    size = len(heirs)
    none, several = size, size + 1
    ahead = np.arange(size + 2)
    ahead[:size][retired] = np.where(heirs < 0, np.where(heirs == NONE, none, several), heirs)[retired]
    for _ in range(size.bit_length() + 1):
        further = ahead[ahead]
        if np.array_equal(further, ahead):
            break
        ahead = further
    else:
        # What has not come to its end goes round in a loop.
        ahead[ahead[ahead] != ahead] = several
    ends = ahead[:size]
    found = np.where(ends == several, SEVERAL, np.where(ends == none, NONE, ends))
    hidden = (found >= 0) & ~visible[np.maximum(found, 0)]
    return np.where(hidden, NONE, found)
