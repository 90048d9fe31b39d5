"""Exact cosine similarity over the permitted rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.columns import Mask, Rows
from ctxarith.index.stack import Stack
from ctxarith.lazy import lazy
from ctxarith.ports import Vector

Scores = NDArray[np.float64]

# float32 products of unit vectors differ from their exact value by less than this for each dimension
# (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), in whatever order they are summed.
_ROUNDING = 2.0**-24
_CHUNK = 1_024


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Scale each row to length one; a zero row (a blank text) stays zero. Shape (n, dimension)."""
    wide = np.asarray(vectors, dtype=np.float64)
    length = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    return (wide / np.where(length > 0, length, 1.0)[:, None]).astype(np.float32)


class Dense:
    """Unit vectors of all rows, float32, each segment's shape (rows, dimension)."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    @lazy
    def _blank(self) -> Mask:
        return self._stack.row("blank").astype(np.bool_)

    @property
    def dimension(self) -> int:
        """The length of a vector; 0 while there is none."""
        return max((int(segment.vectors.shape[1]) for segment in self._stack.segments), default=0)

    def vector(self, row: int) -> Vector:
        """The unit vector of a row."""
        segment, at = self._stack.place(row)
        return np.array(segment.vectors[at])

    def cosines(self, rows: Rows, query: Vector) -> Scores:
        """Cosine of each row with the query, computed row by row in double precision.

        The last bit of a score must not depend on which other rows are in memory, as it would in a
        blocked matrix product; so each row is summed on its own, in the order of its dimensions.
        """
        wide = unit(query[None, :])[0].astype(np.float64)
        cosines = np.empty(len(rows))
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            cosines[part] = np.einsum("ij,j->i", self._taken(rows[part]).astype(np.float64), wide)
        return cosines

    def nearest(self, target: Mask, query: Vector, *, depth: int, counted: Mask) -> tuple[Rows, Scores]:
        """Target rows down to the `depth`-th counted one, in no order.

        Rows that are not counted (retired ones, which only hold a place for their successors) are
        returned above that cut, and do not use it up. Every row within the error bound of the float32
        pass is scored again exactly before the cut is made.
        """
        rows = np.flatnonzero(target & ~self._blank)
        if len(rows) > 2 * depth:
            rough = self._rough(rows, unit(query[None, :])[0])
            competing = rough[counted[rows]]
            if len(competing) > depth:
                cut = np.partition(competing, len(competing) - depth)[len(competing) - depth]
                rows = rows[rough >= cut - 2 * self.dimension * _ROUNDING]
        return rows, self.cosines(rows, query)

    def _taken(self, rows: Rows) -> NDArray[np.float32]:
        if len(self._stack.segments) == 1:
            one: NDArray[np.float32] = self._stack.segments[0].vectors[rows]
            return one
        taken = np.empty((len(rows), self.dimension), np.float32)
        part = self._stack.part_of(rows)
        for number, (segment, run) in enumerate(self._stack.parts()):
            inside = part == number
            if inside.any():
                taken[inside] = segment.vectors[rows[inside] - run.start]
        return taken

    def _rough(self, rows: Rows, query: Vector) -> NDArray[np.float32]:
        """float32 cosines of sorted rows, segment by segment."""
        rough = np.empty(len(rows), np.float32)
        bounds = np.searchsorted(rows, self._stack.firsts)
        for number, (segment, run) in enumerate(self._stack.parts()):
            part = slice(int(bounds[number]), int(bounds[number + 1]))
            if part.stop > part.start:
                rough[part] = _products(segment.vectors, rows[part] - run.start, query)
        return rough

    def similarity(self, rows: Rows, others: Rows) -> Scores:
        """Cosine of each row with the other one at its place, summed as in `cosines`."""
        cosines = np.empty(len(rows))
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            one, other = self._taken(rows[part]), self._taken(others[part])
            cosines[part] = np.einsum("ij,ij->i", one.astype(np.float64), other.astype(np.float64))
        return cosines


def _products(vectors: NDArray[np.float32], rows: Rows, query: Vector) -> NDArray[np.float32]:
    """Products of sorted rows: one pass over their whole run where gathering them would cost more.

    `vecdot` goes row by row in one thread. The work is bound by memory, and a matrix product that
    shares it among threads takes several times as long as soon as two queries run at once.
    """
    first, stop = int(rows[0]), int(rows[-1]) + 1
    if (stop - first) < 4 * len(rows):
        whole: NDArray[np.float32] = np.vecdot(vectors[first:stop], query)
        return whole if stop - first == len(rows) else whole[rows - first]
    products = np.empty(len(rows), np.float32)
    # In parts that stay in the processor's cache between gathering and multiplying.
    for start in range(0, len(rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        products[part] = np.vecdot(vectors[rows[part]], query)
    return products
