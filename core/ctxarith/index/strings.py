"""Many short byte strings in two arrays, so that a file can hold them and nothing is read until asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]

ENDS, DATA = "ends", "data"


class Strings(Sequence[bytes]):
    """Strings one after another: `data` holds their bytes, `ends` where each of them stops."""

    def __init__(self, ends: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
        self.ends = ends
        self.data = data
        # A memoryview gives Python's own numbers and bytes, several times as quickly as an array.
        self._ends = memoryview(ends)  # type: ignore[arg-type]
        self._data = memoryview(data)  # type: ignore[arg-type]

    @classmethod
    def of(cls, items: Iterable[bytes]) -> Strings:
        """Lay strings out, in their order."""
        known = list(items)
        ends = np.cumsum(np.fromiter(map(len, known), np.int64, len(known)), dtype=np.int64)
        return cls(ends, np.frombuffer(b"".join(known), np.uint8))

    @classmethod
    def read(cls, arrays: Arrays, prefix: str) -> Strings:
        """The strings that `arrays` wrote under a prefix."""
        return cls(arrays[f"{prefix}.{ENDS}"], arrays[f"{prefix}.{DATA}"])

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The two arrays, named under a prefix."""
        return {f"{prefix}.{ENDS}": self.ends, f"{prefix}.{DATA}": self.data}

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        if at < 0:
            raise IndexError(at)
        return bytes(self._data[self._ends[at - 1] if at else 0 : self._ends[at]])

    def tolist(self) -> list[bytes]:
        """All of them."""
        whole, ends = self.data.tobytes(), self.ends.tolist()
        return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def find(self, item: bytes) -> int:
        """Where a string stands in sorted strings, or -1."""
        at = bisect_left(self, item)
        return at if at < len(self) and self[at] == item else -1

    def taken(self, chosen: NDArray[np.int64]) -> Strings:
        """Some of the strings, in the order chosen."""
        starts = np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])[chosen] if len(self) else self.ends
        lengths = self.ends[chosen] - starts
        return Strings(np.cumsum(lengths, dtype=np.int64), self.data[spans(starts, lengths)])


def spans(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions of several runs, one run after another.

    >>> spans(np.asarray([5, 0]), np.asarray([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(lengths) - lengths
    positions: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return positions
