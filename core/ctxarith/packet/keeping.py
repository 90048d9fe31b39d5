"""Where packets stay: on a shelf by their number, and in a cache by the whole request."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from ctxarith.packet.borrowed import Source
from ctxarith.packet.manifest import Kept
from ctxarith.packet.request import Request
from ctxarith.packet.rights import digest, owner_of, rights_of, rules_of
from ctxarith.policy import Principal
from ctxarith.stores.packets import Stored

# Packets that one handle of a corpus remembers; the least recently used leave first.
CAPACITY = 256

T = TypeVar("T")


class Shelf(Protocol):
    """Keeps packets until they expire."""

    def put(self, packet: Stored) -> None:
        """Keep a packet, in the place of an earlier state of it."""
        ...

    def get(self, packet_id: str) -> Stored | None:
        """A packet by its number."""
        ...

    def remove(self, packet_id: str) -> None:
        """Let go of a packet."""
        ...

    def sweep(self, now: datetime) -> int:
        """Let go of what has expired."""
        ...


class Cache(Generic[T]):
    """The packets of this process, by everything that their retrieval depends on."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._found: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        """What is kept under a key."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
            return self._found.get(key)

    def put(self, key: str, packet: T) -> None:
        """Keep a packet; the least recently used leaves."""
        with self._lock:
            self._found[key] = packet
            self._found.move_to_end(key)
            while len(self._found) > self._capacity:
                self._found.popitem(last=False)

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._found.clear()


def key_of(request: Request, principal: Principal, source: Source, watermark: int) -> str:
    """Everything that a retrieval depends on but the time: request, principal, policy, model, watermark."""
    who: Iterable[str] = (owner_of(principal), rights_of(principal), rules_of(source.policy), source.embedder)
    return digest([request.plain, *who, watermark])


def shelved(shelf: Shelf, kept: Kept, now: datetime) -> None:
    """Put a packet on the shelf, and sweep away what has expired there."""
    manifest = kept.manifest
    ids = tuple(holding.id for holding in kept.holdings)
    shelf.sweep(now)
    shelf.put(Stored(manifest.packet_id, manifest.tenant, manifest.expires_at, ids, kept.as_json()))
