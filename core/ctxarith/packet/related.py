"""Which writes concern a packet: the change feed matched against its predicate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from ctxarith.durable import Entry
from ctxarith.feed import following_of
from ctxarith.index.analysis import Analyzer
from ctxarith.index.columns import Mask
from ctxarith.index.segment import Segment
from ctxarith.index.slots import asserted
from ctxarith.index.snapshot import Indexer, Snapshot
from ctxarith.model import TIME_FIELDS, Record
from ctxarith.packet.conditions import is_known
from ctxarith.packet.neighbours import Neighbours, TooLargeError
from ctxarith.plan import Plan
from ctxarith.policy import Permission
from ctxarith.ports import Row, RowKey
from ctxarith.predicate import And, Or, Predicate
from ctxarith.scene import Scene, set_scene


def frame(plan: Plan) -> Predicate:
    """Scope and filters of a plan, without the permission."""
    return And.of(plan.scope, Or.of(*(planned.arm.condition for planned in plan.arms)))


def timed_fields(as_of: datetime | None) -> tuple[str, ...]:
    """The fields whose boundaries the passing of time can cross; `as_of` fixes validity and assertion."""
    return TIME_FIELDS if as_of is None else ("embargo_until", "retain_until")


@dataclass(frozen=True, slots=True)
class Watch:
    """What a packet watches for.

    Args:
        plan: of its retrieval; the permission is that of the clock at `since`.
        later: the permission of the clock at `now`.
        rights: what the principal may see whatever the time.
        since: `assembled_at`.
        now: the present.
    """

    plan: Plan
    later: Permission
    rights: Predicate
    since: datetime
    now: datetime

    @property
    def as_of(self) -> datetime | None:
        """The time that the question is about, if not the present."""
        return self.plan.permission.at


@dataclass(frozen=True, slots=True)
class Finding:
    """What a write did to the predicate, and the id of the record concerned where there is one."""

    found: str
    about: str = ""


def related(entries: Sequence[Entry], snapshot: Snapshot, watch: Watch, *, upto: int) -> Iterator[Finding]:
    """What of the writes concerns the packet, one after the other; the first is enough for a verdict.

    A write is related if its old or new values pass the predicate, now or once a boundary of theirs has
    been crossed; or if it retires, revives or partly outdates a record that does.

    Args:
        entries: of the tenant since the packet's watermark, read after the snapshot was taken.
        snapshot: the present state.
        watch: what to look for.
        upto: the snapshot's own watermark.
    """
    counted = [
        (entry, after)
        for entry, after in zip(entries, following_of(entries, snapshot), strict=True)
        if entry.watermark <= upto
    ]
    for entry, after in counted:
        if entry.rebuilt:
            yield Finding("the index was made anew, so anything may have changed")
            return
        if entry.before is None and after is None:
            yield Finding("a record was purged, and what it held is forgotten")
    passes = _Passing(watch)
    for entry, after in counted:
        found = passes.found(entry.before, after)
        if found:
            yield found
    net: dict[RowKey, tuple[Record | None, Record | None]] = {}
    for entry, after in counted:
        net[entry.key] = (net[entry.key][0] if entry.key in net else entry.before, after)
    yield from _Turned(watch, snapshot, net).found()


class _Passing:
    """The direct part: values that pass the predicate."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._frame = frame(watch.plan)
        self._reads_text = not is_known(self._frame)
        self._timed = timed_fields(watch.as_of)

    def found(self, before: Record | None, after: Record | None) -> Finding | None:
        seen = [self._sees(record) for record in (before, after)]
        if any(seen):
            record = after if seen[1] else before
            word = "new evidence" if before is None else "changed" if all(seen) else "came into or left it"
            return _inside(record.id if record else "", word)
        crossed = (record for record in (before, after) if record and self._crosses(record))
        return next((_inside(record.id, "a boundary has passed") for record in crossed), None)

    def _sees(self, record: Record | None) -> bool:
        return (
            record is not None and self._watch.plan.permission.visible.matches(record) and self._fits(record)
        )

    def _fits(self, record: Record) -> bool:
        # The feed keeps no text, so that a condition of the caller's own class cannot be asked.
        return self._reads_text or self._frame.matches(record)

    def _crosses(self, record: Record) -> bool:
        times = (getattr(record, name) for name in self._timed)
        if not any(time and self._watch.since < time <= self._watch.now for time in times):
            return False
        return self._watch.rights.matches(record) and self._fits(record)


class _Turned:
    """The indirect part: whether writes outside the predicate change what is current inside it.

    The records that hang together with what was written, by a fact, an id or a link, are put into two
    small indexes, as they were and as they are, and the engine's own rule judges both.
    """

    def __init__(
        self,
        watch: Watch,
        snapshot: Snapshot,
        net: Mapping[RowKey, tuple[Record | None, Record | None]],
    ) -> None:
        self._watch = watch
        self._snapshot = snapshot
        self._permissions = (watch.plan.permission, watch.later)
        self._net = {key: pair for key, pair in net.items() if any(map(self._stands, pair))}

    def _stands(self, record: Record | None) -> bool:
        return record is not None and any(one.standing.matches(record) for one in self._permissions)

    def found(self) -> Iterator[Finding]:
        if not self._net:
            return
        standing = np.logical_or.reduce(
            [self._snapshot.columns.mask(one.standing) for one in self._permissions]
        )
        changed = [record for pair in self._net.values() for record in pair if record is not None]
        try:
            rows = Neighbours(self._snapshot, standing).of(changed)
        except TooLargeError:
            yield Finding("more records hang together with a write than are compared")
            return
        if not self._inside[list(rows)].any():
            return
        now = {self._snapshot.key(row): self._snapshot.records[row] for row in rows}
        then = {key: record for key, record in now.items() if key not in self._net}
        then |= {key: before for key, (before, _) in self._net.items() if before is not None}
        for allowed, clock in zip(self._permissions, (self._watch.since, self._watch.now), strict=True):
            plan = replace(self._watch.plan, permission=allowed)
            was = self._judged(then, plan, clock)
            is_now = self._judged(now, plan, clock)
            for key in sorted(was.keys() & is_now.keys()):
                if was[key] != is_now[key]:
                    word = "in the predicate is retired, revived or partly outdated by a write"
                    yield Finding(f"{key.id} {word}", key.id)
            if self._guessed(now, then, was.keys() - self._net.keys()):
                yield Finding("a guessed fact in the predicate was asserted by a write")

    @property
    def _inside(self) -> Mask:
        """The rows that pass the predicate at either clock, retired or not."""
        columns = self._snapshot.columns
        seen = [columns.mask(one.visible) for one in self._permissions]
        visible: Mask = np.logical_or.reduce(seen)
        return visible & columns.mask(frame(self._watch.plan), visible)

    def _judged(
        self, records: Mapping[RowKey, Record], plan: Plan, clock: datetime
    ) -> dict[RowKey, tuple[object, ...]]:
        if not records:
            return {}
        shown = list(records.values())
        if is_known(frame(plan)):
            shown = [replace(record, text="") for record in shown]
        rows = [Row(record, np.ones(1, np.float32)) for record in shown]
        indexer = Indexer(Analyzer())
        small = Snapshot(indexer, (Segment(indexer.arrays(rows), "some"),))
        return _states(set_scene(plan, small, self._watch.as_of or clock, lambda *_: None))

    def _guessed(
        self, now: Mapping[RowKey, Record], then: Mapping[RowKey, Record], inside: Iterable[RowKey]
    ) -> bool:
        """Guesses are settled by vectors, and those of what is gone are not kept: a doubt counts."""
        everything = [*now.items(), *then.items()]
        if not any(slot.inferred for _, record in everything for slot in asserted(record)):
            return False
        within = set(inside)
        facts: dict[tuple[str | None, str], set[str]] = defaultdict(set)
        for key, record in everything:
            for slot in asserted(record):
                words = facts[slot.subject, slot.attribute]
                words |= {"inferred"} if slot.inferred else set()
                words |= {"written"} if key in self._net else set()
                words |= {"inside"} if key in within else set()
        linked = any(record.supersedes for _, record in everything)
        wanted = {"inferred", "inside"} if linked else {"inferred", "inside", "written"}
        return any(wanted <= words for words in facts.values())


def _inside(record_id: str, word: str) -> Finding:
    return Finding(f"{record_id} in the predicate: {word}", record_id)


def _states(scene: Scene) -> dict[RowKey, tuple[object, ...]]:
    """What an answer depends on beside the contents: who is retired, by whom inside, what is outdated."""
    snapshot, target, retirement = scene.snapshot, scene.target, scene.retirement
    states: dict[RowKey, tuple[object, ...]] = {}
    for row in np.flatnonzero(target).tolist():
        retired = bool(scene.retired[row])
        heads = [snapshot.key(head) for head in retirement.heads(row) if target[head]] if retired else []
        states[snapshot.key(row)] = (retired, heads, retirement.stale_slots(row), retirement.flags(row))
    return states
