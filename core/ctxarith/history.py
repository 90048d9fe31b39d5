"""The chain of assertions about one fact, oldest first, as one caller may see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ctxarith.index.newness import newness
from ctxarith.index.retirement import Retirement
from ctxarith.index.slots import asserted
from ctxarith.index.snapshot import Snapshot
from ctxarith.model import Record
from ctxarith.normalise import Scalar
from ctxarith.policy import Permission, dated_by

CURRENT, SUPERSEDED, ENDED, COMING, CORRECTED = "current", "superseded", "ended", "coming", "corrected"


@dataclass(frozen=True, slots=True)
class Assertion:
    """One record's word on a fact. `superseded_by` are the ids that stand at the end of its chain.

    `status` is "current", "superseded", "ended" (its validity is over), "coming" (its date lies
    ahead) or "corrected" (a later content of the same version replaced it).
    """

    record: Record
    value: Scalar
    status: str
    superseded_by: tuple[str, ...] = ()
    reason: str = ""
    revision: int = 0


def history_of(
    subject: str,
    attribute: str,
    *,
    snapshot: Snapshot,
    allowed: Permission,
    at: datetime,
) -> list[Assertion]:
    """Every permitted assertion of a slot, oldest first, with what became of it."""
    columns = snapshot.columns
    standing = columns.mask(allowed.standing)
    visible = columns.mask(allowed.visible)
    dated = columns.mask(dated_by(at))
    retirement = Retirement(snapshot.slots, standing=standing, dated=dated, visible=visible)
    chain = []
    rows = (row for tenant in snapshot.tenants for row in snapshot.slots.of_fact(tenant, subject, attribute))
    for row in filter(standing.__getitem__, rows):
        record = snapshot.records[row]
        value = _value(record, subject, attribute)
        if value is None:
            continue
        corrected = [old for old in _revisions(record, snapshot) if allowed.standing.matches(old)]
        for number, old in enumerate(corrected, start=1):
            earlier = _value(old, subject, attribute)
            if earlier is not None:
                chain.append(Assertion(old, earlier, CORRECTED, (record.id,), "corrected in place", number))
        heads = retirement.reasserted_by(row, subject, attribute)
        if heads is not None:
            by = tuple(snapshot.records[head].id for head in heads)
            reason = retirement.ground(row) if retirement.mask[row] else f"{subject}/{attribute} has changed"
            chain.append(Assertion(record, value, SUPERSEDED, by, reason))
        else:
            status = ENDED if not visible[row] else CURRENT if dated[row] else COMING
            chain.append(Assertion(record, value, status))
    return sorted(chain, key=lambda one: (newness(one.record), one.revision == 0, one.revision))


def _revisions(record: Record, snapshot: Snapshot) -> Iterator[Record]:
    """The corrected contents of a record's version, in the order in which they were replaced."""
    kept = snapshot.kept(record.tenant, record.id)
    return (
        old for row in kept if not snapshot.live[row] and (old := snapshot.records[row]).key == record.key
    )


def _value(record: Record, subject: str, attribute: str) -> Scalar | None:
    same = (s.value for s in asserted(record) if (s.subject, s.attribute) == (subject, attribute))
    return next(same, None)
