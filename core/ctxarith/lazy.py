"""Attributes that are computed when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - used like `property`
    """Like `functools.cached_property`, without its lock.

    In Python 3.11 that lock is one for all instances and held while the value is computed, so that two
    threads could not embed two questions at once. Here two threads may compute the same value twice, and
    one of the two stays.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> lazy[T] | T:
        if instance is None:
            return self
        # Not found among the instance's own, or Python would not have come here.
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value
