"""The items of a LangGraph store, read whole and under exact namespaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ctxarith.errors import ArgumentError, StoreError

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore, SearchItem

T = TypeVar("T")
Namespace = tuple[str, ...]

_PAGE = 1_000
_ATTEMPTS = 5


def label(text: str) -> str:
    """Any text as a label of a namespace, and no two texts as the same one.

    Stores refuse empty labels and a "."; some look for the beginning of the joined labels, with "_" and "%"
    as wildcards. So only letters and digits stand as they are, and each label ends in a sign of its own.

    >>> label("acme.com")
    'acme-2ecom~'
    """
    plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    signs = (chr(byte) if chr(byte) in plain else f"-{byte:02x}" for byte in text.encode())
    return "".join(signs) + "~"


class Items:
    """Puts, deletes and lists items of a store; whatever the store raises is a `StoreError`.

    Raises:
        ArgumentError: it is no LangGraph store.
    """

    def __init__(self, store: BaseStore) -> None:
        if not all(callable(getattr(store, name, None)) for name in ("put", "search", "delete", "batch")):
            raise ArgumentError("store", store, "a langgraph.store.base.BaseStore")
        self._store = store

    def put(self, namespace: Namespace, name: str, value: Mapping[str, Any]) -> None:
        """Write an item that never expires and is not embedded."""
        self._guarded(lambda: self._store.put(namespace, name, value, index=False, ttl=None))

    def delete(self, namespace: Namespace, name: str) -> None:
        """Delete an item."""
        self._guarded(lambda: self._store.delete(namespace, name))

    def under(self, namespace: Namespace) -> dict[tuple[Namespace, str], Mapping[str, Any]]:
        """Every item of a namespace and of those below it, by its namespace and name."""
        found: dict[tuple[Namespace, str], Mapping[str, Any]] = {}
        seen = 0
        # A store may give fewer than it was asked for; only an empty page is the end.
        while page := self._guarded(partial(self._page, namespace, seen)):
            seen += len(page)
            for item in page:
                if item.namespace[: len(namespace)] == namespace:
                    found[item.namespace, item.key] = item.value
        return found

    def _page(self, namespace: Namespace, offset: int) -> list[SearchItem]:
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._store.search(namespace, limit=_PAGE, offset=offset)
            except RuntimeError:
                # A store in memory that others write to meanwhile cannot be walked through; begin again.
                continue
        return self._store.search(namespace, limit=_PAGE, offset=offset)

    def _guarded(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except Exception as error:
            raise StoreError(f"the LangGraph store failed: {type(error).__name__}: {error}") from error
