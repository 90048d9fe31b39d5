"""A corpus goes over to another embedding model: every text is embedded again, or nothing changes."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from ctxarith.errors import ArgumentError, StoreError
from ctxarith.ingest.vectors import Embed
from ctxarith.models.embedders import embedded
from ctxarith.options import Setup
from ctxarith.ports import Vector
from ctxarith.progress import watching
from ctxarith.shelves import CHROMA, chroma_folder, folder_at, in_chroma, let_go, open_shelf
from ctxarith.stores.chroma import ChromaStore


def reembed(path: str | Path, setup: Setup) -> int:
    """Embed every text of a folder again with the model of a setup.

    The new vectors go into a Chroma collection of their own; one transaction of the journal makes it
    the corpus's, and then the old one is deleted. Until then the corpus answers as before.

    Returns:
        How many rows were embedded.

    Raises:
        ArgumentError: no corpus in Chroma lies there.
        StoreError: the folder is open, in this process or for writing in another one.
        EmbeddingError: the model failed; nothing has changed.
    """
    folder = folder_at(path)
    if not (folder / "journal.sqlite").is_file():
        raise ArgumentError("path", str(path), "no corpus in this folder")
    kept = {name: value for name, value in setup.wanted.items() if name != "embedder"}
    shelf = open_shelf(folder, kept, in_chroma)
    try:
        if shelf.handles > 1:
            raise StoreError("this corpus is open: close every handle of it first")
        old = shelf.settings.get(CHROMA, CHROMA)
        number = int(old.partition("-")[2] or 0) + 1
        name = f"{CHROMA}-{number}"
        shutil.rmtree(folder / name, ignore_errors=True)
        fresh = ChromaStore(folder / name)
        try:
            settings = {"embedder": setup.wanted["embedder"], CHROMA: name}
            count = shelf.reembed(fresh, _embed(setup), settings)
        finally:
            fresh.close()
    finally:
        let_go(shelf)
    shutil.rmtree(chroma_folder(folder, old), ignore_errors=True)
    return count


def _embed(setup: Setup) -> Embed:
    def embed(texts: Sequence[str]) -> Iterable[Sequence[Vector]]:
        with watching(len(texts), "embedding") as watch:
            yield from embedded(setup.embedder, texts, watch=watch)

    return embed
