"""The edges of the library as small protocols; a plain function or object fits where it can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ctxarith.conversation import Message, Summary
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


LOGIT, UNIT = "logit", "unit"


class Reranker(Protocol):
    """Reads the question and each passage together; `scale` says what its numbers are.

    "logit": any real number, which the sigmoid maps to 0..1; "unit": from 0 to 1 already.
    """

    @property
    def scale(self) -> str:
        """LOGIT or UNIT: declared, since it cannot be told from the numbers."""
        ...

    def __call__(self, query: str, passages: list[str], /) -> Any:
        """One number for each passage; higher is better."""
        ...


@runtime_checkable
class Windowed(Protocol):
    """A reranker that knows how much it can read at once."""

    def windows(self, query: str, passage: str) -> Sequence[str]:
        """The passage in parts that fit beside the query; the best part counts."""
        ...


@runtime_checkable
class LlamaIndexEmbedding(Protocol):
    """An embedding model by LlamaIndex's names; taken wherever an `Embedder` is."""

    def get_text_embedding_batch(self, texts: list[str], /) -> Any:
        """One vector for each text."""
        ...

    def get_query_embedding(self, query: str, /) -> Any:
        """The vector of a query."""
        ...


class Summarizer(Protocol):
    """Compresses what has become old in a conversation; a plain function fits.

    It is called behind, never while someone appends or reads; one call at a time for a thread. What it
    may do wrong (raise, hang, return too much or nothing) is taken care of by the caller.
    """

    def __call__(self, previous: Summary, turns: Sequence[Message], /) -> Summary | str:
        """A summary of the previous one and the newly old turns: points that cite their turns, or prose."""
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
