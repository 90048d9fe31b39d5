"""Where a corpus lies: in a folder, in memory, or over a collection that others made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, Unpack

from ctxarith.errors import ArgumentError
from ctxarith.intake import Intake
from ctxarith.models.embedders import embedded_query
from ctxarith.options import Options, Setup
from ctxarith.parts import Held
from ctxarith.ports import Store
from ctxarith.reembedding import reembed
from ctxarith.remembered import searchable_keys
from ctxarith.shelves import Hold, in_chroma, in_memory, open_shelf
from ctxarith.stores.adopted import Adopted
from ctxarith.stores.inmemory import InMemoryStore
from ctxarith.stores.packets import SqlitePackets

_COLLECTION_METHODS = ("get", "count", "add", "upsert", "delete")
STORE_METHODS = ("write", "remove", "rows", "count", "select", "can", "scrub", "close")


class Opening(Intake):
    """The ways to come by a corpus."""

    @classmethod
    def open(cls, path: str | Path, *, store: Store | None = None, **options: Unpack[Options]) -> Self:
        """Open the corpus in a folder, or make one there.

        Args:
            path: a folder; Chroma's files and the journal live in it.
            store: where rows live instead of Chroma.
            **options: see `Options`.

        Raises:
            EmbedderMismatch: the folder was written with another model.
            StoreError: the folder or the database cannot be used.
            ArgumentError: names the option.
        """
        setup = Setup.of(options)
        if store is not None and not all(callable(getattr(store, name, None)) for name in STORE_METHODS):
            raise ArgumentError("store", store, f"a store has the methods {', '.join(STORE_METHODS)}")
        return cls(
            open_shelf(path, setup.wanted, in_chroma if store is None else _over(store)),
            setup,
            _packets(path),
        )

    @classmethod
    def in_memory(cls, **options: Unpack[Options]) -> Self:
        """A corpus that is gone with the process; for the options see `Options`."""
        setup = Setup.of(options)
        return cls(in_memory(Held(InMemoryStore(), InMemoryStore.name), setup.wanted), setup)

    @classmethod
    def adopt(
        cls,
        collection: Any,
        *,
        fields: Mapping[str, Any] | None = None,
        mode: Literal["owned", "followed"] = "owned",
        path: str | Path | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """A corpus over a Chroma collection that others made; nothing is embedded again.

        Args:
            collection: of an embedded or HTTP client; made by LangChain, by LlamaIndex or by hand.
            fields: which of their metadata keys hold which fields of ours, such as
                `{"tenant": "customer", "created_at": "date"}`; for the rules see `stores.adopted.Adopted`.
            mode: "owned": only we write it from now on. "followed": others write it too, and we read;
                `sync` takes over what they did.
            path: a folder for the index and the journal; in memory by default.
            **options: see `Options`; the embedder must be the one that made the vectors.

        Raises:
            ArgumentError: names the parameter; `embedder`, if its vectors have another length.
            StoreError: Chroma fails, or the folder cannot be used.
        """
        if not all(callable(getattr(collection, name, None)) for name in _COLLECTION_METHODS):
            raise ArgumentError("collection", collection, "a Collection of a Chroma client")
        setup = Setup.of(options)
        prepare = setup.preparation(searchable_keys(setup.wanted)).prepare
        named = (
            {"subject": setup.subject_key, **(fields or {})} if isinstance(fields, Mapping | None) else fields
        )
        store = Adopted(collection, fields=named, mode=mode, prepare=prepare)
        held = Held(store, store.identity, store.reading, adopted=True, followed=mode == "followed")
        if path is None:
            corpus = cls(in_memory(held, setup.wanted), setup)
        else:
            hold = Hold(held.identity, lambda folder, settings: held)
            corpus = cls(open_shelf(path, setup.wanted, hold), setup, _packets(path))
        try:
            corpus._check_vectors()
        except BaseException:
            corpus.close()
            raise
        return corpus

    @classmethod
    def reembed(cls, path: str | Path, **options: Unpack[Options]) -> Self:
        """Go over to another embedding model: every text is embedded again, then the corpus is opened.

        Args:
            path: the folder of a corpus in Chroma that nobody has open.
            **options: see `Options`; `embedder` is the new model.

        Raises:
            EmbeddingError, StoreError: nothing has changed.
        """
        setup = Setup.of(options)
        reembed(path, setup)
        return cls(open_shelf(path, setup.wanted, in_chroma), setup, _packets(path))

    def _check_vectors(self) -> None:
        """The questions' model must be that of the rows; the length of its vectors is all one can see."""
        known = self._shelf.snapshot.dimension
        made = None if known is None else len(embedded_query(self._setup.embedder, "dimension"))
        if made != known:
            lengths = f"its vectors have {made} numbers and the collection's {known}"
            rule = f"{lengths}: pass the model that made them"
            raise ArgumentError("embedder", self._setup.wanted["embedder"], rule)


def _over(store: Store) -> Hold:
    identity = getattr(store, "identity", f"{type(store).__module__}.{type(store).__qualname__}")
    return Hold(identity, lambda folder, settings: Held(store, identity))


def _packets(path: str | Path) -> SqlitePackets:
    return SqlitePackets(Path(path).expanduser() / "packets.sqlite")
