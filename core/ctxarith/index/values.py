"""The distinct values of one field, sorted kind by kind and coded 1, 2, ...; 0 is a missing key.

Comparisons are Python's own exact ones: numbers are kept as they were written, so that a large whole
number is never rounded, and times as whole microseconds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.strings import Arrays, Strings
from ctxarith.instant import EPOCH
from ctxarith.kinds import Kind, Typed

_KINDS: tuple[Kind, ...] = ("bool", "number", "str", "time")
_MICROSECOND = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """Whole microseconds since 1970, exactly."""
    return (moment - EPOCH) // _MICROSECOND


def moment_of(micros: int) -> datetime:
    """The moment of `microseconds`."""
    return EPOCH + timedelta(microseconds=micros)


class Values:
    """Sorted distinct values of each kind. Codes run through the kinds in the order of `_KINDS`."""

    def __init__(self, arrays: Arrays, prefix: str) -> None:
        self._lists: dict[Kind, Any] = {
            "bool": arrays[f"{prefix}.bool"],
            "number": Strings.read(arrays, f"{prefix}.number"),
            "str": Strings.read(arrays, f"{prefix}.str"),
            "time": arrays[f"{prefix}.time"],
        }
        self._first: dict[Kind, int] = {}
        code = 1
        for kind in _KINDS:
            self._first[kind] = code
            code += len(self._lists[kind])
        self.count = code - 1

    def code(self, value: Typed) -> int | None:
        """The code of a value that is here."""
        kind, wanted = value
        known = self._lists.get(kind)
        if known is None or not len(known):
            return None
        key, operand = _KEYS[kind](wanted)
        at = bisect_left(known, operand, key=key)
        if at < len(known) and (known[at] if key is None else key(known[at])) == operand:
            return self._first[kind] + at
        return None

    def place(self, value: Typed) -> tuple[int, int, int]:
        """The first code of a value's kind, and where the value stands among that kind: left, right."""
        kind, wanted = value
        if kind not in self._lists:
            return 0, 0, 0
        key, operand = _KEYS[kind](wanted)
        known = self._lists[kind]
        left, right = bisect_left(known, operand, key=key), bisect_right(known, operand, key=key)
        return self._first[kind], left, right

    def size(self, kind: Kind) -> int:
        """How many values of a kind there are."""
        return len(self._lists[kind]) if kind in self._lists else 0

    def raw(self, code: int) -> bytes:
        """The bytes of a text value."""
        raw: bytes = self._lists["str"][code - self._first["str"]]
        return raw

    def typed(self, used: NDArray[np.bool_]) -> list[tuple[int, Typed]]:
        """The values of the used codes, with those codes."""
        found: list[tuple[int, Typed]] = []
        for kind in _KINDS:
            first, read = self._first[kind], _READ[kind]
            known = self._lists[kind]
            found += [(first + n, (kind, read(v))) for n, v in enumerate(known.tolist()) if used[first + n]]
        return found


def value_arrays(distinct: Iterable[Typed], prefix: str) -> tuple[dict[str, NDArray[Any]], dict[Typed, int]]:
    """The arrays of some distinct scalars, and the code of each."""
    by_kind: dict[Kind, list[Any]] = {kind: [] for kind in _KINDS}
    for kind, value in distinct:
        by_kind[kind].append(value)
    codes: dict[Typed, int] = {}
    for kind in _KINDS:
        by_kind[kind].sort()
        for value in by_kind[kind]:
            codes[(kind, value)] = len(codes) + 1
    arrays: dict[str, NDArray[Any]] = {
        f"{prefix}.bool": np.asarray(by_kind["bool"], np.uint8),
        f"{prefix}.time": np.asarray([microseconds(v) for v in by_kind["time"]], np.int64),
        **Strings.of(repr(v).encode() for v in by_kind["number"]).arrays(f"{prefix}.number"),
        **Strings.of(map(_bytes, by_kind["str"])).arrays(f"{prefix}.str"),
    }
    return arrays, codes


def _number(raw: bytes) -> int | float:
    text = raw.decode()
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _bytes(text: str) -> bytes:
    # In UTF-8 the order of bytes is the order of code points, which is Python's.
    return text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


_KEYS: dict[Kind, Callable[[Any], tuple[Callable[[Any], Any] | None, Any]]] = {
    "bool": lambda wanted: (bool, wanted),
    "number": lambda wanted: (_number, wanted),
    "str": lambda wanted: (None, _bytes(wanted)),
    "time": lambda wanted: (int, microseconds(wanted)),
}
_READ: dict[Kind, Callable[[Any], Any]] = {
    "bool": bool,
    "number": _number,
    "str": _text,
    "time": moment_of,
}
