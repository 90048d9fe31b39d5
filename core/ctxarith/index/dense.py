"""Exact cosine similarity over the permitted rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.columns import Mask
from ctxarith.ports import Vector

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]

# float32 products of unit vectors differ from their exact value by less than this.
_COARSE_ERROR = 1e-5
_CHUNK = 4_096


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Scale each row to length one; a zero row (a blank text) stays zero. Shape (n, dimension)."""
    wide = np.asarray(vectors, dtype=np.float64)
    length = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    return (wide / np.where(length > 0, length, 1.0)[:, None]).astype(np.float32)


class Dense:
    """Unit vectors of all rows, shape (rows, dimension), float32."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._unit = vectors
        self._blank = ~vectors.any(axis=1)

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return int(self._unit.shape[1])

    def cosines(self, rows: Rows, query: Vector) -> Scores:
        """Cosine of each row with the query, computed row by row in double precision.

        The last bit of a score must not depend on which other rows are in memory, as it would in a
        blocked matrix product; so each row is summed on its own, in the order of its dimensions.
        """
        wide = unit(query[None, :])[0].astype(np.float64)
        parts = [
            np.einsum("ij,j->i", self._unit[rows[n : n + _CHUNK]].astype(np.float64), wide)
            for n in range(0, len(rows), _CHUNK)
        ]
        return np.concatenate(parts) if parts else np.empty(0)

    def nearest(self, target: Mask, query: Vector, *, depth: int, counted: Mask) -> tuple[Rows, Scores]:
        """Target rows down to the `depth`-th counted one, in no order.

        Rows that are not counted (retired ones, which only hold a place for their successors) are
        returned above that cut, and do not use it up. Every row within the error bound of the float32
        pass is scored again exactly before the cut is made.
        """
        rows = np.flatnonzero(target & ~self._blank)
        if len(rows) > max(depth, _CHUNK):
            rough = self._rough(rows, unit(query[None, :])[0])
            competing = rough[counted[rows]]
            if len(competing) > depth:
                cut = np.partition(competing, len(competing) - depth)[len(competing) - depth]
                rows = rows[rough >= cut - 2 * _COARSE_ERROR]
        return rows, self.cosines(rows, query)

    def _rough(self, rows: Rows, query: Vector) -> NDArray[np.float32]:
        """float32 cosines; one pass over everything where gathering the rows would cost more."""
        if len(rows) * 4 > len(self._unit):
            everything: NDArray[np.float32] = (self._unit @ query)[rows]
            return everything
        gathered: NDArray[np.float32] = self._unit[rows] @ query
        return gathered

    def similarity(self, one: int, other: int) -> float:
        """Cosine of two rows."""
        return float(self.cosines(np.asarray([one]), self._unit[other])[0])
