"""Writes of two tenants, and what a corpus must hold after each of them, told without the library's index."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from random import Random

from ctxarith import Corpus, Record, Slot
from ctxarith.durable import Entry
from ctxarith.ingest.prepare import content_hash
from ctxarith.options import Setup
from ctxarith.ports import RowKey
from tests.conftest import NOW
from tests.fakes import WordEmbedder

TENANTS = ("acme", "beta")
FEES, STATES, NOTES = ("fee-0", "fee-1", "fee-2"), ("state-0", "state-1"), 5
LIVE = 6

_PREPARATION = Setup.of({"embedder": WordEmbedder(), "clock": lambda: NOW}).preparation(())


@dataclass(frozen=True)
class Deed:
    """One call: `add` of records, a method with ids, or `compact`, which changes nothing that is seen."""

    method: str
    records: tuple[Record, ...] = ()
    ids: tuple[str, ...] = ()
    tenant: str = TENANTS[0]

    def do(self, corpus: Corpus) -> None:
        if self.method == "add":
            corpus.add(self.records)
        elif self.method == "compact":
            while corpus._shelf._keeper.compact():
                pass
        elif self.method != "open":
            getattr(corpus, self.method)(self.ids, tenant=self.tenant)


@dataclass(frozen=True)
class Book:
    """Rows with their revisions, watermarks and feed."""

    rows: Mapping[RowKey, Record] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)
    feed: tuple[Entry, ...] = ()

    def after(self, deed: Deed) -> Book:
        return self.steps(deed)[-1]

    def steps(self, deed: Deed) -> list[Book]:
        """The states that a deed goes through once it has begun to be seen; the last one is its end."""
        if deed.method == "add":
            return [self._added(deed.records)]
        if deed.method == "retire":
            return [self._retired(deed.tenant, deed.ids)]
        if deed.method == "delete":
            return [self._without(deed.tenant, deed.ids)]
        if deed.method == "purge":
            # The records are gone in one step, and the traces of them in another.
            gone = self._without(deed.tenant, deed.ids)
            return [gone, gone._scrubbed()]
        return [self]

    def _added(self, records: Collection[Record]) -> Book:
        rows = dict(self.rows)
        changed: list[tuple[RowKey, Record | None]] = []
        for record in map(_PREPARATION.prepare, records):
            key = RowKey(*record.key)
            before = rows.get(key)
            if before == record:
                continue
            if before is not None:
                number = 1 + max(other.revision for other in rows if replace(other, revision=0) == key)
                rows[replace(key, revision=number)] = before
            rows[key] = record
            changed.append((key, before))
        return self._told(rows, changed)

    def _retired(self, tenant: str, ids: Collection[str]) -> Book:
        rows = dict(self.rows)
        changed: list[tuple[RowKey, Record | None]] = []
        for key in self._live(tenant, ids):
            record = rows[key]
            if record.valid_until is not None and record.valid_until <= NOW:
                continue
            ended = replace(record, valid_until=max(NOW, record.valid_from or NOW))
            rows[key] = replace(ended, content_hash=content_hash(ended))
            changed.append((key, record))
        return self._told(rows, changed)

    def _without(self, tenant: str, ids: Collection[str]) -> Book:
        gone = self._live(tenant, ids)
        rows = {k: r for k, r in self.rows.items() if k.tenant != tenant or k.id not in ids}
        return self._told(rows, [(key, self.rows[key]) for key in gone])

    def _scrubbed(self) -> Book:
        held = {(key.tenant, key.id) for key in self.rows}
        feed = (
            entry if (entry.key.tenant, entry.key.id) in held else replace(entry, before=None)
            for entry in self.feed
        )
        return replace(self, feed=tuple(feed))

    def _live(self, tenant: str, ids: Collection[str]) -> list[RowKey]:
        live = sorted(key for key in self.rows if key.revision == 0 and key.tenant == tenant)
        return [key for rid in ids for key in live if key.id == rid]

    def _told(self, rows: Mapping[RowKey, Record], changed: list[tuple[RowKey, Record | None]]) -> Book:
        touched = {key.tenant for key, _ in changed}
        numbers = {**self.watermarks, **{one: self.watermarks.get(one, 0) + 1 for one in touched}}
        entries = (
            # The feed keeps no text.
            Entry(numbers[key.tenant], key, None if before is None else replace(before, text=""))
            for key, before in changed
        )
        return Book(rows, numbers, (*self.feed, *entries))

    def remade(self) -> Book:
        """After the index was made anew: the feed says to every tenant that anything may have changed."""
        numbers = {tenant: number + 1 for tenant, number in self.watermarks.items()}
        entries = (Entry(number, RowKey(tenant, "", ""), None, True) for tenant, number in numbers.items())
        return Book(self.rows, numbers, (*self.feed, *entries))

    def feed_of(self, tenant: str) -> list[Entry]:
        return [entry for entry in self.feed if entry.key.tenant == tenant]


def notes(turn: int, tenant: str) -> tuple[Record, ...]:
    """Several records in a scope, of words that come again and again."""
    chance = Random(turn)
    return tuple(
        Record(
            id=f"note-{turn}-{line}",
            tenant=tenant,
            text=f"Pump note {turn}: valve {chance.randrange(4)} of line {line} KYO-{chance.randrange(9)}",
            source_id=f"book-{turn}",
            scope=f"plant/{turn % 3}",
            created_at=NOW - timedelta(days=1 + chance.randrange(40)),
            metadata={"line": line, "kind": "note"},
        )
        for line in range(NOTES)
    )


def fees(turn: int) -> tuple[Record, ...]:
    """A correction for both tenants: the same ids and versions each time, undated."""
    return tuple(
        Record(id=rid, tenant=tenant, text=f"The {rid} is {turn} EUR", slots=(Slot("lead-1", rid, turn),))
        for tenant in TENANTS
        for rid in FEES
    )


def states(turn: int, tenant: str) -> tuple[Record, ...]:
    """A new version of each, and a link now and then to a note that it makes void."""
    voided = (f"note-{turn - 1}-0",) if turn % 2 else ()
    return tuple(
        Record(
            id=rid,
            tenant=tenant,
            version=str(turn),
            text=f"The {rid} of the valve is {turn}",
            created_at=NOW - timedelta(days=60) + timedelta(minutes=turn),
            slots=(Slot("plant", rid, turn),),
            supersedes=voided,
        )
        for rid in STATES
    )


def deeds(seed: int) -> Iterator[Deed]:
    """Without end; the corpus stays small."""
    chance = Random(seed)
    live: dict[str, list[int]] = {tenant: [] for tenant in TENANTS}
    for turn in count(1):
        tenant = chance.choice(TENANTS)
        live[tenant].append(turn)
        yield Deed("add", notes(turn, tenant))
        yield Deed("add", fees(turn))
        yield Deed("add", (*states(turn, tenant), *notes(turn, tenant)[:2]))
        if turn % 3 == 0:
            yield Deed("retire", ids=(f"note-{turn}-1", "fee-1"), tenant=tenant)
        if len(live[tenant]) > LIVE // 2:
            gone = live[tenant].pop(chance.randrange(2))
            method = "purge" if turn % 2 else "delete"
            yield Deed(method, ids=tuple(f"note-{gone}-{n}" for n in range(NOTES)), tenant=tenant)
        if turn % 8 == 0:
            yield Deed("delete", ids=STATES, tenant=tenant)
