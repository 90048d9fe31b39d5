"""What a retrieval returns: hits with their provenance, drops with their reasons, and the trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import overload

from ctxarith.lazy import lazy
from ctxarith.model import Record, Slot

SEMANTIC = "semantic"
LEXICAL = "lexical"
RERANKED = "reranked"

HitKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Decision:
    """Why the caller may see a record: the policy and scope versions it was judged under."""

    allowed: bool
    policy_version: str
    scope_version: str


@dataclass(frozen=True, slots=True)
class Found:
    """Who found a record, at which one-based rank and with which score (higher is better).

    `share` is the score on a scale from 0 to 1: the cosine itself, or the part of the BM25 bound
    that the query allows. `via` names the retired record whose place this one took, when that
    place was better.
    """

    source: str
    rank: int
    score: float
    share: float = 0.0
    via: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A record that is still in the running, with every piece of evidence for it.

    `score` belongs to the order that the last stage made; `reranked` is what a reranker said: its rank,
    its raw score, and that score mapped to 0..1. `tier` is 1 for a record that holds
    exactly an identifier named in the query; a higher tier stands above in every order. `excerpt`
    stands in for the text when the record had to be cut to fit.
    """

    record: Record
    decision: Decision
    found_by: tuple[Found, ...] = ()
    score: float = 0.0
    tier: int = 0
    fused: float | None = None
    reranked: Found | None = None
    relevance: float | None = None
    replaces: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()
    stale_slots: tuple[Slot, ...] = ()
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    excerpt: str | None = None

    @property
    def id(self) -> str:
        """The record's id."""
        return self.record.id

    @property
    def key(self) -> HitKey:
        """(id, version): what fusion counts as one item. Never the text."""
        return (self.record.id, self.record.version)

    def found(self, source: str) -> Found | None:
        """The evidence of one source, or `None` if it did not find this record."""
        return next((one for one in self.found_by if one.source == source), None)


@dataclass(frozen=True, slots=True)
class Drop:
    """A record that was left out: after which stage, why, and in whose favour (`by`, ids)."""

    record: Record
    stage: str
    reason: str
    by: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The record's id."""
        return self.record.id


class Drops(Sequence[Drop]):
    """What the stages of a run left out, in their order; each `Drop` is made when looked at."""

    def __init__(self, parts: Sequence[Sequence[Drop]]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @overload
    def __getitem__(self, at: int) -> Drop: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Drop]: ...
    def __getitem__(self, at: int | slice) -> Drop | Sequence[Drop]:
        return self.all[at]

    def __iter__(self) -> Iterator[Drop]:
        return iter(self.all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Drops) and self.all == other.all

    def __hash__(self) -> int:
        return hash(len(self))

    def __reduce__(self) -> tuple[object, ...]:
        # The columns behind the parts hold records that the caller may not see.
        return Drops, ([self.all],)

    @lazy
    def all(self) -> tuple[Drop, ...]:
        """All of them."""
        return tuple(drop for part in self._parts for drop in part)


@dataclass(frozen=True, slots=True)
class Step:
    """One bar of the funnel: how many records were left after a stage, and its time in ms."""

    stage: str
    count: int
    ms: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything that happened in one run, in the order executed.

    `at` is the time that the question was about, `arms` are the sources that searched, and `stages`
    the steps after them with their settings. `stage` says who answered in a session: "cited" or "corpus";
    `confidence` is what its gate gave the cited set.
    """

    query: str
    at: datetime
    arms: tuple[str, ...]
    steps: tuple[Step, ...]
    left: Drops
    stages: tuple[str, ...] = ()
    tokens: int | None = None
    naive_tokens: int | None = None
    stage: str = "corpus"
    confidence: float | None = None

    @property
    def drops(self) -> tuple[Drop, ...]:
        """Every record that was left out from recall onward, and every retirement met."""
        return self.left.all
