"""The writes of the stress test, without end, and what a corpus must hold after each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from random import Random

from ctxarith import Corpus, Record, Slot
from tests.conftest import NOW

BATCH, LIVE, ORDERS = 7, 12, 4
EARLIER = NOW - timedelta(days=1)

Said = tuple[str, str, str]


@dataclass(frozen=True)
class Write:
    """One call that changes the corpus: `add` of records, or another method with ids."""

    method: str
    records: tuple[Record, ...] = ()
    ids: tuple[str, ...] = ()

    def do(self, corpus: Corpus) -> None:
        getattr(corpus, self.method)(self.records or self.ids)


def batch(number: int) -> tuple[Record, ...]:
    text = "Pump report {0}: valve KYO-{0} line {1} was tight after {2} hours"
    return tuple(
        Record(
            id=f"batch-{number}-{line}",
            text=text.format(number, line, Random(number * BATCH + line).randrange(900)),
            created_at=EARLIER - timedelta(days=1 + number % 50),
            metadata={"kind": "batch", "number": number},
        )
        for line in range(BATCH)
    )


def facts(kind: str, turn: int, *, version: str) -> tuple[Record, ...]:
    """What every order of a kind says in one turn."""
    return tuple(
        Record(
            id=f"{kind}-{n}",
            version=version,
            text=f"The {kind} of order {n} is {turn}",
            created_at=EARLIER - timedelta(days=900) + timedelta(minutes=turn),
            slots=(Slot(f"order-{n}", kind, turn),),
            metadata={"kind": kind},
        )
        for n in range(ORDERS)
    )


def writes(draw: Random) -> Iterator[Write]:
    """Without end. What was deleted never comes again, and the corpus stays small."""
    live: list[tuple[str, ...]] = []
    for turn in count(1):
        records = batch(turn)
        live.append(tuple(record.id for record in records))
        yield Write("add", records)
        yield Write("add", facts("price", turn, version="1"))
        yield Write("add", facts("state", turn, version=str(turn)))
        if turn % 3 == 0:
            yield Write("retire", ids=draw.choice(live))
        if len(live) > LIVE:
            gone = live.pop(draw.randrange(len(live)))
            yield Write("purge" if turn % 20 == 0 else "delete", ids=gone)
        if turn % 10 == 0:
            kind = draw.choice(("price", "state"))
            yield Write("delete", ids=tuple(f"{kind}-{n}" for n in range(ORDERS)))


@dataclass(frozen=True)
class Held:
    """What the corpus holds after a write, told without the library."""

    rows: dict[tuple[str, str], Record] = field(default_factory=dict)
    corrected: dict[tuple[str, str], tuple[Record, ...]] = field(default_factory=dict)
    retired: frozenset[str] = frozenset()

    def after(self, write: Write) -> Held:
        if write.method == "retire":
            return replace(self, retired=self.retired | set(write.ids))
        rows = {key: record for key, record in self.rows.items() if key[0] not in write.ids}
        corrected = {key: old for key, old in self.corrected.items() if key in rows}
        for record in write.records:
            key = (record.id, record.version)
            if key in rows:
                corrected[key] = (*corrected.get(key, ()), rows[key])
            rows[key] = record
        return Held(rows, corrected, self.retired - set(write.ids))

    def of(self, kind: str) -> list[Record]:
        return [record for record in self.rows.values() if record.metadata["kind"] == kind]

    def current(self, kind: str) -> frozenset[Said]:
        newest: dict[str, Record] = {}
        for record in self.of(kind):
            if record.id not in self.retired:
                known = newest.setdefault(record.id, record)
                newest[record.id] = max(known, record, key=lambda one: int(one.version))
        return frozenset(map(said, newest.values()))

    def chain(self, kind: str) -> tuple[tuple[object, str], ...]:
        """The history of the first order, oldest first."""
        first = sorted((r for r in self.of(kind) if r.id == f"{kind}-0"), key=lambda r: int(r.version))
        told: list[tuple[object, str]] = []
        for record in first:
            earlier = self.corrected.get((record.id, record.version), ())
            told += [(old.slots[0].value, "corrected") for old in earlier]
            told.append((record.slots[0].value, "current" if record is first[-1] else "superseded"))
        return tuple(told)


def said(record: Record) -> Said:
    return (record.id, record.version, record.text)
