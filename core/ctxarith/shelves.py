"""The folders that this process has open: opening one again shares it, the last handle closes it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ctxarith.errors import ArgumentError, StoreError
from ctxarith.index.files import SegmentFiles, SegmentMemory
from ctxarith.parts import Held, Parts
from ctxarith.remembered import check_settings, check_store
from ctxarith.shelf import Shelf
from ctxarith.stores.chroma import ChromaStore
from ctxarith.stores.journal import SqliteJournal
from ctxarith.stores.lock import NoLock, WriterLock
from ctxarith.stores.threads import MemoryThreads, SqliteThreads

CHROMA = "chroma"


@dataclass(frozen=True, slots=True)
class Hold:
    """Which store a folder is opened with, and how it is made: given the folder and its settings."""

    identity: str
    make: Callable[[Path, Mapping[str, str]], Held]


_OPEN: dict[Path, Shelf] = {}
_OPENING = threading.Lock()
# A child of a fork has copies of connections and locks that are its parent's: it opens folders anew.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPEN.clear)


def open_shelf(path: str | Path, wanted: Mapping[str, str], hold: Hold) -> Shelf:
    """The shelf of a folder; opening it again in this process shares it.

    Args:
        path: the folder, made if need be.
        wanted: settings that must not contradict what the folder remembers.
        hold: the store.

    Raises:
        StoreError: the folder cannot be used.
        EmbedderMismatch: it was written with another embedding model.
    """
    folder = folder_at(path)
    with _OPENING:
        shelf = _OPEN.get(folder)
        if shelf is None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except (OSError, ValueError) as error:
                raise StoreError(f"the folder {str(folder)!r} cannot be used: {error}") from error
            shelf = _made(folder, wanted, hold)
            _OPEN[folder] = shelf
        else:
            check_settings(shelf.settings, wanted)
        shelf.handles += 1
        return shelf


def folder_at(path: str | Path) -> Path:
    """Where a path leads.

    Raises:
        ArgumentError: nowhere.
    """
    if path in ("", b"") or path is None:
        raise ArgumentError("path", path, "the name of a folder")
    try:
        return Path(path).expanduser().resolve()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError("path", path, f"not a folder: {error}") from error


def _made(folder: Path, wanted: Mapping[str, str], hold: Hold) -> Shelf:
    journal = SqliteJournal(folder / "journal.sqlite")
    lock = WriterLock(folder / "writer.lock")
    held: Held | None = None
    try:
        known = journal.settings()
        check_settings(known, wanted)
        check_store(known, hold.identity)
        held = hold.make(folder, known)
        shelf = Shelf(
            Parts(
                held, journal, lock, SegmentFiles(folder / "index"), SqliteThreads(folder / "threads.sqlite")
            ),
            wanted,
        )
        shelf.remember()
    except BaseException:
        # What was not there before must not look as if it had been.
        journal.close()
        if held is not None:
            held.store.close()
        lock.release()
        raise
    return shelf


OWN = "Chroma in this folder"


def _own_chroma(folder: Path, settings: Mapping[str, str]) -> Held:
    place = chroma_folder(folder, settings.get(CHROMA, CHROMA))

    def sweep() -> None:
        # What `reembed` left when it died, before its end or after.
        for other in folder.glob(f"{CHROMA}*"):
            if other != place and other.is_dir():
                shutil.rmtree(other, ignore_errors=True)

    return Held(ChromaStore(place), OWN, may_hold=(place / "chroma.sqlite3").exists, own=True, sweep=sweep)


# The default: a Chroma collection in the folder.
in_chroma = Hold(OWN, _own_chroma)


def chroma_folder(folder: Path, name: str) -> Path:
    """Where Chroma's files lie; a corpus that was embedded again has a folder of another number."""
    return folder / name


def in_memory(held: Held, wanted: Mapping[str, str]) -> Shelf:
    """A shelf whose index is gone with the process."""
    shelf = Shelf(Parts(held, SqliteJournal(), NoLock(), SegmentMemory(), MemoryThreads()), wanted)
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
