"""What makes a write whole and what it did: lock and journal as small protocols, and their values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ctxarith.conversation import ConversationKey, Message, Summary
from ctxarith.model import Record
from ctxarith.ports import Row, RowKey


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
        settings: what the corpus remembers about itself from now on; `HOLDS` says whether records are left.
        rebuilt: the index was made anew from the store, so that what changed is not known.
    """

    added: Sequence[str] = ()
    dropped: Sequence[str] = ()
    dead: Mapping[str, Sequence[int]] = field(default_factory=dict)
    changed: Sequence[tuple[RowKey, Record | None]] = ()
    rebuilt: Collection[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True)
class Head:
    """Where a thread stands: `generation` changes when it is cleared; 0 before its first turn.

    Args:
        last: the number of its last turn.
        covers: the number of the last turn that its summary covers.
    """

    generation: int = 0
    last: int = 0
    covers: int = 0


class Conversations(Protocol):
    """Where conversations live. Turns are only added; a summary is replaced by compare-and-set.

    So two processes on one thread never lose a turn, and of two summaries of the same turns one stands.
    """

    def head(self, key: ConversationKey) -> Head:
        """Where a thread stands."""
        ...

    def append(self, key: ConversationKey, message: Message) -> Message:
        """Add a message at the end, and give it back with its number; one with a known id is not added."""
        ...

    def since(self, generation: int, number: int) -> list[Message]:
        """The turns after a number, oldest first."""
        ...

    def pinned(self, generation: int, upto: int) -> list[Message]:
        """The system messages, and the last message of the user, among the turns 1 to `upto`."""
        ...

    def turn(self, generation: int, number: int) -> Message | None:
        """One turn by its number; `None` where there is none."""
        ...

    def summary(self, generation: int) -> Summary:
        """The summary of a thread; an empty one that covers nothing at first."""
        ...

    def replace(self, generation: int, summary: Summary, *, covered: int) -> bool:
        """Put a summary in the place of the one that covers `covered` turns; whether it was that one."""
        ...

    def clear(self, key: ConversationKey) -> None:
        """Delete a thread and leave no trace of its text."""
        ...

    def claim(self, key: ConversationKey) -> Lock:
        """What keeps every other process and handle from summarising this thread."""
        ...

    def close(self) -> None:
        """Release the file."""
        ...
