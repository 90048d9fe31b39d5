"""Under which Chroma ids the rows of a key stand in a collection that others made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from ctxarith.errors import RecordError
from ctxarith.model import Record
from ctxarith.ports import RowKey
from ctxarith.stores.collection import ChromaCollection, Raw, row_id

# Of SQLite's variables in one request.
_MOST_NAMES = 500


@dataclass(frozen=True, slots=True)
class Places:
    """Finds rows by their keys.

    Args:
        collection: theirs.
        record: reads a row as a record with its revision, or raises a `RecordError`.
        id_key: their metadata key that names a record, if one is mapped.
    """

    collection: ChromaCollection
    record: Callable[[Raw], tuple[Record, int]]
    id_key: str | Callable[..., object] | None

    def of(self, keys: Sequence[RowKey], *, new: bool) -> dict[RowKey, list[str]]:
        """The Chroma ids of each key's rows.

        A key without any gets the id where a `new` row goes; else the one where a row may lie unseen.
        """
        places: dict[RowKey, list[str]] = {key: [] for key in keys}
        near = [*map(row_id, keys), *(key.id for key in keys)]
        if self.id_key is not None:
            near += self.named(list({key.id for key in keys}))
        taken = self._placed(near, places)
        others = [key for key in keys if not places[key] and row_id(key) in taken]
        if others:  # rows of theirs under the ids that ours would have: ours are elsewhere, if anywhere
            taken |= self._placed(self.named([key.id for key in others]), places)
        for key in (key for key in keys if not places[key]):
            free = (f"{row_id(key)}{'|' * bars}" for bars in count())
            name = next(name for name in free if name not in taken)
            places[key] = [name] if new or name == row_id(key) else []
        return places

    def named(self, ids: Sequence[str]) -> list[str]:
        """The Chroma ids of the rows in which one of the ids stands as metadata: ours, and mapped ones."""
        found: list[str] = []
        for start in range(0, len(ids), _MOST_NAMES):
            wanted = {"$in": list(ids[start : start + _MOST_NAMES])}
            for key in dict.fromkeys(("id", self.id_key or "id")):
                found += self.collection.ids({str(key): wanted})
        return found

    def _placed(self, names: Iterable[str], places: dict[RowKey, list[str]]) -> set[str]:
        """Note which of the rows are of which key; the names that are taken."""
        taken = set()
        for raw in self.collection.pages(dict.fromkeys(names), vectors=False):
            taken.add(raw.name)
            with suppress(RecordError):
                record, revision = self.record(raw)
                rows = places.get(RowKey(*record.key, revision))
                if rows is not None and raw.name not in rows:
                    rows.append(raw.name)
        return taken
