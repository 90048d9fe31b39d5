"""What an open corpus is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ctxarith.durable import Journal, Lock
from ctxarith.errors import StoreError
from ctxarith.ingest.write import Segments
from ctxarith.ports import Store
from ctxarith.remembered import READING, STORE
from ctxarith.stores.threads import MemoryThreads, SqliteThreads


@dataclass(frozen=True, slots=True)
class Held:
    """The store of a corpus, and whose it is.

    Args:
        store: where rows live.
        identity: names the store; a folder belongs to one.
        reading: how rows of others are read; an index that was made otherwise is made anew.
        may_hold: says, without opening the store, whether it may hold rows.
        own: it lies in our folder and is written by us alone.
        adopted: others made it, and it may hold rows that we leave out.
        followed: others go on writing it, and we only read.
        sweep: deletes what a process left beside it that died.
    """

    store: Store
    identity: str
    reading: str = ""
    may_hold: Callable[[], bool] = lambda: True
    own: bool = False
    adopted: bool = False
    followed: bool = False
    sweep: Callable[[], object] = lambda: None

    @property
    def told(self) -> dict[str, str]:
        """What the journal remembers of the store."""
        return {STORE: self.identity, READING: self.reading}


def check_ours(held: Held) -> None:
    """Refuse to write to a store that others write.

    Raises:
        StoreError: says how to go on.
    """
    if held.followed:
        raise StoreError(
            "this collection is followed, others write it: write through its own library, then call "
            "sync(); or adopt it as 'owned'"
        )


@dataclass(frozen=True, slots=True)
class Parts:
    """A store with what makes its writes whole and its questions quick."""

    held: Held
    journal: Journal
    lock: Lock
    segments: Segments
    threads: MemoryThreads | SqliteThreads
