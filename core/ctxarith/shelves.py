"""The folders that this process has open: opening one again shares it, the last handle closes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from ctxarith.errors import ArgumentError, StoreError
from ctxarith.index.files import SegmentFiles, SegmentMemory
from ctxarith.ports import Store
from ctxarith.remembered import check_settings
from ctxarith.shelf import Parts, Shelf
from ctxarith.stores.chroma import ChromaStore
from ctxarith.stores.inmemory import InMemoryStore
from ctxarith.stores.journal import SqliteJournal
from ctxarith.stores.lock import NoLock, WriterLock

CHROMA = "chroma"

_OPEN: dict[Path, Shelf] = {}
_OPENING = threading.Lock()


def open_shelf(
    path: str | Path, wanted: Mapping[str, str], make_store: Callable[[Path], Store] | None = None
) -> Shelf:
    """The shelf of a folder; opening it again in this process shares it.

    Raises:
        StoreError: the folder cannot be used.
        EmbedderMismatch: it was written with another embedding model.
    """
    try:
        folder = Path(path).expanduser().resolve()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError("path", path, f"not a folder: {error}") from error
    with _OPENING:
        shelf = _OPEN.get(folder)
        if shelf is None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except (OSError, ValueError) as error:
                raise StoreError(f"the folder {str(folder)!r} cannot be used: {error}") from error
            make = make_store or (lambda place: ChromaStore(place / CHROMA))
            shelf = _made(folder, lambda: make(folder), wanted, own=make_store is None)
            _OPEN[folder] = shelf
        else:
            check_settings(shelf.settings, wanted)
        shelf.handles += 1
        return shelf


def _made(folder: Path, make: Callable[[], Store], wanted: Mapping[str, str], *, own: bool) -> Shelf:
    journal = SqliteJournal(folder / "journal.sqlite")
    lock = WriterLock(folder / "writer.lock")
    store: Store | None = None
    try:
        check_settings(journal.settings(), wanted)
        store = make()
        parts = Parts(
            store,
            journal,
            lock,
            SegmentFiles(folder / "index"),
            may_hold=(folder / CHROMA / "chroma.sqlite3").exists if own else lambda: True,
            own=own,
        )
        shelf = Shelf(parts, wanted)
        shelf.remember()
    except BaseException:
        # What was not there before must not look as if it had been.
        journal.close()
        if store is not None:
            store.close()
        lock.release()
        raise
    return shelf


def shelf_in_memory(wanted: Mapping[str, str]) -> Shelf:
    """A shelf that is gone with the process."""
    shelf = Shelf(Parts(InMemoryStore(), SqliteJournal(), NoLock(), SegmentMemory()), wanted)
    shelf.handles = 1
    return shelf


def let_go(shelf: Shelf) -> None:
    """Give back one handle; the last one closes the files."""
    with _OPENING:
        shelf.handles -= 1
        if shelf.handles == 0:
            for folder in [place for place, one in _OPEN.items() if one is shelf]:
                del _OPEN[folder]
            shelf.close()
