"""What a corpus remembers about itself for its whole life, and what contradicts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctxarith.durable import HOLDS, NO, YES, Journal
from ctxarith.errors import ArgumentError, EmbedderMismatch, StoreError

# Which store a folder belongs to, and how its rows were read when the index was made.
STORE, READING = "store", "reading"


def check_whole(known: Mapping[str, str], *, holds: bool) -> None:
    """Refuse a folder of which one half is gone: an empty corpus is not what was there.

    Args:
        known: what the journal remembered when it was opened; nothing if it was made just now.
        holds: whether the store has rows.
    """
    if HOLDS not in known and holds:
        raise StoreError("the store holds records and journal.sqlite is gone: restore it from a copy")
    if known.get(HOLDS) == YES and not holds:
        raise StoreError(
            "the journal remembers records and the store holds none: restore the store from a copy, "
            "or delete the folder to begin anew"
        )


def settled(journal: Journal, wanted: Mapping[str, str]) -> dict[str, str]:
    """What the corpus remembers wins where nothing is asked for; what contradicts it is refused."""
    known = journal.settings()
    check_settings(known, wanted)
    defaults = {"stem": YES, "stop_words": YES, "searchable": ""}
    return {**defaults, **wanted, **known}


def check_settings(known: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Refuse what contradicts the settings that a corpus has for its whole life."""
    for name, value in wanted.items():
        if known.get(name, value) == value:
            continue
        if name == "embedder":
            held = f"{known[name]} of dimension {known['dimension']}" if "dimension" in known else known[name]
            raise EmbedderMismatch(held, value)
        raise ArgumentError(name, value, f"this corpus was made with {known[name]!r}, for its whole life")


def wanted_settings(
    *, embedder: str, stem: bool | None, stop_words: bool | None, searchable: Sequence[str] | None
) -> dict[str, str]:
    """The settings that a caller asks for, as the journal keeps them."""
    wanted = {"embedder": embedder}
    for name, given in (("stem", stem), ("stop_words", stop_words)):
        if given is not None:
            wanted[name] = YES if given else NO
    if searchable is not None:
        wanted["searchable"] = "\n".join(searchable)
    return wanted


def searchable_keys(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The metadata keys that are embedded and indexed with the text."""
    return tuple(filter(None, settings.get("searchable", "").split("\n")))


def check_model(settings: Mapping[str, str], name: str, length: int | None = None) -> None:
    """Refuse vectors of another model, or of another length, than the corpus holds.

    Raises:
        EmbedderMismatch: names both.
    """
    known, dimension = settings["embedder"], settings.get("dimension") or str(length)
    if known != name:
        raise EmbedderMismatch(known, name)
    if length is not None and dimension != str(length):
        raise EmbedderMismatch(f"{known} of dimension {dimension}", f"vectors of dimension {length}")


def present(size: int, dimension: int | None) -> dict[str, str]:
    """What the store must hold when it is opened again."""
    # An empty corpus takes vectors of any length.
    width = "" if not size else str(dimension or "")
    return {HOLDS: YES if size else NO, "dimension": width}


def check_store(known: Mapping[str, str], identity: str) -> None:
    """Refuse to open a folder over another store than the one it belongs to: two would hold one corpus.

    Raises:
        StoreError: names both.
    """
    owner = known.get(STORE, identity)
    if owner != identity:
        raise StoreError(
            f"this folder belongs to {owner} and was opened over {identity}: open it with that store, by "
            "Corpus.open(path, store=...) or Corpus.adopt(collection, path=...)"
        )
