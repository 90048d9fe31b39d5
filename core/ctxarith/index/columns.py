"""One field of all rows of a segment: which rows stand in which relation to a value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.strings import Arrays
from ctxarith.index.values import Values, value_arrays
from ctxarith.kinds import Typed
from ctxarith.lazy import lazy

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]
# Which rows; or, where it is the same for every row, that alone.
Answer = Mask | bool


class Column:
    """A code for each row, in sorted order of the distinct values.

    Each condition is answered on the distinct values by bisection, then spread over the rows by one
    comparison or gather. Code 0 is a missing key; one code above all others marks a list, whose
    elements have postings of their own: (element to rows).
    """

    def __init__(self, arrays: Arrays, prefix: str) -> None:
        self._codes: NDArray[np.int32] = arrays[f"{prefix}.codes"]
        self._values = Values(arrays, prefix)
        self._items = Values(arrays, f"{prefix}.item")
        self._starts: Rows = arrays[f"{prefix}.item.starts"]
        self._holders: NDArray[np.int32] = arrays[f"{prefix}.item.rows"]

    def present(self) -> Answer:
        """Rows that have the field."""
        return self._within(1, self._values.count + 2)

    def one_of(self, values: Iterable[Typed]) -> Answer:
        """Rows whose value is one of these."""
        codes = [code for value in values if (code := self._values.code(value)) is not None]
        if len(codes) < 2:
            return self._within(codes[0], codes[0] + 1) if codes else False
        table = np.zeros(self._values.count + 2, dtype=np.bool_)
        table[codes] = True
        spread: Mask = table[self._codes]
        return spread

    def between(self, op: str, operand: Typed) -> Answer:
        """Rows of the operand's kind that stand in the order relation to it."""
        first, left, right = self._values.place(operand)
        size = self._values.size(operand[0])
        start, stop = {"lt": (0, left), "le": (0, right), "gt": (right, size), "ge": (left, size)}[op]
        return self._within(first + start, first + stop)

    def _within(self, low: int, high: int) -> Answer:
        """Rows with a code from `low` to below `high`; where that is all rows or none, a word."""
        least, most = self._extent
        if low >= high or high <= least or low > most:
            return False
        if low <= least and high > most:
            return True
        if low + 1 == high:
            equal: Mask = self._codes == low
            return equal
        if low <= least:
            return np.asarray(self._codes < high, np.bool_)
        if high > most:
            return np.asarray(self._codes >= low, np.bool_)
        return (self._codes >= low) & (self._codes < high)

    @lazy
    def _extent(self) -> tuple[int, int]:
        if not len(self._codes):
            return 0, 0
        return int(self._codes.min()), int(self._codes.max())

    def containing(self, operand: Typed) -> Mask:
        """Rows whose list holds the operand."""
        mask = np.zeros(len(self._codes), np.bool_)
        code = self._items.code(operand)
        if code is not None:
            mask[self._holders[self._starts[code - 1] : self._starts[code]]] = True
        return mask

    def raw(self, row: int) -> bytes:
        """The bytes of a row's text value; in their order texts sort by code point."""
        return self._values.raw(int(self._codes[row]))

    @property
    def codes(self) -> NDArray[np.int32]:
        """The code of each row."""
        return self._codes

    def values(self) -> list[tuple[int, Typed]]:
        """The codes in use, with their values."""
        used = np.zeros(self._values.count + 2, np.bool_)
        used[self._codes] = True
        return self._values.typed(used)

    def pairs(self) -> tuple[Rows, NDArray[np.int32], list[tuple[int, Typed]]]:
        """The elements of lists: (element code, row) pairs, and what the codes mean."""
        sizes = np.diff(self._starts)
        elements = np.repeat(np.arange(1, len(sizes) + 1), sizes)
        used = np.zeros(self._items.count + 2, np.bool_)
        used[elements] = True
        return elements, self._holders, self._items.typed(used)

    @property
    def list_code(self) -> int:
        """The code of rows that hold a list."""
        return self._values.count + 1


Elements = tuple[dict[Typed, int], Rows, Rows]


def coded_arrays(
    distinct: dict[Typed, int], arrival: Rows, elements: Elements, prefix: str
) -> dict[str, NDArray[Any]]:
    """Give codes in sorted order to values that were numbered 1, 2, ... in any order.

    Args:
        distinct: the number of each value.
        arrival: the number of each row; 0 for a missing key, -1 for a list.
        elements: the number of each list element, and (number, row) pairs.
        prefix: what the arrays' names begin with.
    """
    arrays, codes = value_arrays(distinct, prefix)
    renumber = np.zeros(len(distinct) + 2, np.int32)
    renumber[-1] = len(distinct) + 1
    for value, number in distinct.items():
        renumber[number] = codes[value]
    arrays[f"{prefix}.codes"] = renumber[arrival]
    items, numbers, rows = elements
    item_arrays, item_codes = value_arrays(items, f"{prefix}.item")
    resorted = np.zeros(len(items) + 1, np.int64)
    for value, number in items.items():
        resorted[number] = item_codes[value]
    sorted_numbers = resorted[numbers]
    order = np.lexsort((rows, sorted_numbers))
    counts = np.bincount(sorted_numbers, minlength=len(items) + 1)[1:]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return {
        **arrays,
        **item_arrays,
        f"{prefix}.item.starts": starts,
        f"{prefix}.item.rows": rows[order].astype(np.int32),
    }
