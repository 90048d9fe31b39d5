"""What the writes since a watermark have changed, as one caller may see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ctxarith.durable import Entry
from ctxarith.index.snapshot import Snapshot
from ctxarith.model import Record
from ctxarith.policy import Permission
from ctxarith.ports import RowKey

ADDED, CHANGED, REMOVED, REBUILT = "added", "changed", "removed", "rebuilt"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one record, in this caller's eyes.

    Args:
        watermark: the number of the write, counted for each tenant; all changes of a write share it.
        kind: "added", "changed" or "removed"; a record that moves out of the caller's sight is removed.
            "rebuilt" names no record: the index was made anew from the store, so anything may have changed.
        id, version: of the record.
        before, after: its fields then and next, without the text, which the feed does not keep.
    """

    watermark: int
    kind: str
    id: str = ""
    version: str = ""
    before: Record | None = None
    after: Record | None = None


def changes_of(
    entries: Sequence[Entry], snapshot: Snapshot, allowed: Permission, *, upto: int
) -> list[Change]:
    """The permitted changes up to a watermark, oldest first.

    Args:
        entries: of one tenant, read after the snapshot was taken.
        snapshot: the present state, for what nothing has changed since.
        allowed: what the caller may see; a state of a record that it does not cover is not shown.
        upto: the snapshot's own watermark.
    """
    return [change for change in _read(entries, snapshot, allowed) if change.watermark <= upto]


def _read(entries: Sequence[Entry], snapshot: Snapshot, allowed: Permission) -> Iterator[Change]:
    for entry, after in zip(entries, following_of(entries, snapshot), strict=True):
        if entry.rebuilt:
            yield Change(entry.watermark, REBUILT)
            continue
        before, after = _seen(entry.before, allowed), _seen(after, allowed)
        if before is not None or after is not None:
            kind = ADDED if before is None else REMOVED if after is None else CHANGED
            yield Change(entry.watermark, kind, entry.key.id, entry.key.version, before, after)


def following_of(entries: Sequence[Entry], snapshot: Snapshot) -> list[Record | None]:
    """What each entry's record was next: before its next change, or now."""
    keys = list(dict.fromkeys(entry.key for entry in entries if not entry.rebuilt))
    latest: dict[RowKey, Record | None] = dict.fromkeys(keys)
    latest |= {key: snapshot.records[row] for key, row in snapshot.rows_of(keys).items()}
    following: list[Record | None] = []
    for entry in reversed(entries):
        following.append(None if entry.rebuilt else latest[entry.key])
        if not entry.rebuilt:
            latest[entry.key] = entry.before
    return following[::-1]


def _seen(record: Record | None, allowed: Permission) -> Record | None:
    if record is None or not allowed.visible.matches(record):
        return None
    return replace(record, text="")
