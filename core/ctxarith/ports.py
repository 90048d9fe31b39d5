"""The edges of the library as small protocols; a plain function or object fits where it can."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ctxarith.errors import ArgumentError
from ctxarith.model import Record
from ctxarith.predicate import Predicate

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Row:
    """A record as a store keeps it: with its unit vector (shape (dimension,), float32) and revision.

    Revision 0 is the current content of a key (tenant, id, version); corrected contents are kept
    as 1, 2, ... in the order in which they were replaced.
    """

    record: Record
    vector: Vector
    revision: int = 0

    @property
    def key(self) -> RowKey:
        """What a write replaces and a removal names."""
        return RowKey(*self.record.key, self.revision)


@dataclass(frozen=True, slots=True, order=True)
class RowKey:
    """(tenant, id, version, revision)."""

    tenant: str
    id: str
    version: str
    revision: int = 0


class Clock(Protocol):
    """The present, in UTC; inject one to make a run repeatable."""

    def __call__(self) -> datetime:
        """An aware datetime."""
        ...


class TokenCounter(Protocol):
    """How many tokens a text has. Special tokens in the text count as ordinary text."""

    def __call__(self, text: str, /) -> int:
        """The number of tokens."""
        ...


def counted(counter: TokenCounter, text: str) -> int:
    """Tokens of a text; none for an empty one.

    Raises:
        ArgumentError: the counter gave something else than a whole number, zero or more.
    """
    if not text:
        return 0
    number = counter(text)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**63:
        raise ArgumentError("tokenizer", number, "must return a whole number, zero or more")
    return number


@runtime_checkable
class Embedder(Protocol):
    """Anything with LangChain's two embedding methods; one fixed dimension."""

    def embed_documents(self, texts: list[str], /) -> Any:
        """One vector for each text."""
        ...

    def embed_query(self, text: str, /) -> Any:
        """The vector of a query."""
        ...


class Store(Protocol):
    """Where rows live. It need not be quick: searches run on the index built from it.

    Only who holds the writer's lock calls it.

    The law, which `ctxarith.stores.contract` tests: what was written is read back equal; a write
    replaces rows of the same key; `select` returns exactly the rows whose record matches.
    """

    name: str

    def write(self, rows: Sequence[Row]) -> None:
        """Insert or replace rows, each whole. May stop half-way with an exception."""
        ...

    def remove(self, keys: Sequence[RowKey]) -> None:
        """Remove rows; unknown keys are ignored."""
        ...

    def rows(self) -> Iterator[Row]:
        """Every row, in no particular order."""
        ...

    def count(self) -> int:
        """How many rows there are, revisions too."""
        ...

    def select(self, predicate: Predicate) -> Iterator[Row]:
        """The rows whose record matches, all revisions."""
        ...

    def can(self, predicate: Predicate) -> bool:
        """Whether the database itself evaluates this condition exactly."""
        ...

    def scrub(self) -> None:
        """Leave no trace of removed or replaced rows in any file of the store."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...


class Lock(Protocol):
    """Keeps a second process from writing."""

    def take(self) -> bool:
        """Whether this process may write, now and until `release`."""
        ...

    def release(self) -> None:
        """Let another process write."""
        ...


# The setting that says whether the store must hold rows when it is opened again.
HOLDS, YES, NO = "holds", "yes", "no"


@dataclass(frozen=True, slots=True)
class Written:
    """What a settled write did: to the index, and to the records.

    Args:
        added, dropped: names of segments.
        dead: rows that were removed or replaced, by the name of their segment.
        changed: the key of each record that changed, with its fields before; `None` for a new record.
        holds: whether records are left; `None` when that does not change.
        rebuilt: the index was made anew from the store, so that what changed is not known.
    """

    added: Sequence[str] = ()
    dropped: Sequence[str] = ()
    dead: Mapping[str, Sequence[int]] = field(default_factory=dict)
    changed: Sequence[tuple[RowKey, Record | None]] = ()
    rebuilt: Collection[str] = ()
    holds: bool | None = None


@dataclass(frozen=True, slots=True)
class IndexState:
    """The index as the last settled write left it; see `Written`."""

    segments: tuple[str, ...]
    dead: Mapping[str, Sequence[int]]
    watermarks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of one record in the feed. `rebuilt` entries name no record: anything may have changed."""

    watermark: int
    key: RowKey
    before: Record | None
    rebuilt: bool = False


class Journal(Protocol):
    """What makes a write whole, and says what the writes have done.

    How to take a write back is on disk before the store is touched; that it is complete is one
    transaction with what it did to the index and with the feed, so that no watermark runs ahead of
    the data.
    """

    def intend(self, keys: Sequence[RowKey], before: Sequence[Row]) -> None:
        """A write of `keys` begins; `before` are the rows that it replaces or removes."""
        ...

    def pending(self) -> tuple[list[RowKey], list[Row]]:
        """The write that was begun and not settled: its keys, and the rows to put back."""
        ...

    def settle(self, written: Written | None = None) -> dict[str, int]:
        """The write is complete, or (`None`) was taken back; the new watermark of each tenant it touched."""
        ...

    def state(self) -> IndexState:
        """The index as the last settled write left it."""
        ...

    def feed(self, tenant: str, since: int) -> list[Entry]:
        """The changes of a tenant after a watermark, oldest first."""
        ...

    def changed_elsewhere(self) -> bool:
        """Whether another process has begun or settled a write since the last call."""
        ...

    def settings(self) -> dict[str, str]:
        """What the corpus remembers about itself."""
        ...

    def remember(self, settings: Mapping[str, str]) -> None:
        """Add to what the corpus remembers."""
        ...

    def scrub(self, gone: Callable[[str, str], bool]) -> None:
        """Leave no trace of settled writes, nor in the feed of what a (tenant, id) held that is gone."""
        ...

    def close(self) -> None:
        """Release the file."""
        ...
