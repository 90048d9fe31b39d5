"""Some rows, for ever as they are: their records, vectors, postings, columns and facts, all in flat arrays.

The arrays lie in memory, or in a mapped file of which only the pages that a query touches are read.
Rows are sorted by tenant, scope, id and version, so that a subtree of the scopes is one run of rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxarith.errors import CtxArithError, StoreError
from ctxarith.flat import restore
from ctxarith.index.columns import Column, Mask, Rows
from ctxarith.index.strings import Arrays, Strings
from ctxarith.index.vocabulary import Vocabulary
from ctxarith.lazy import lazy
from ctxarith.model import Record
from ctxarith.ports import Row, Vector

DIGEST = "S16"
# The first bytes of an id, which nearly always say how two ids sort.
PREFIX = "S32"
_CACHED = 20_000


@dataclass(frozen=True, slots=True)
class FactTable:
    """(group, row) pairs sorted by group, then from the oldest to the newest row of the group.

    `ordinal` is the place of the assertion among the record's slots.
    """

    group: NDArray[np.bytes_]
    row: Rows
    ordinal: NDArray[np.int32]
    inferred: Mask

    def __len__(self) -> int:
        return len(self.row)


class Segment:
    """An immutable part of the index.

    Args:
        arrays: what `build.segment_arrays` or `merge.merged` made.
        name: the file's name; empty in memory.
    """

    def __init__(self, arrays: Arrays, name: str = "") -> None:
        self.arrays = arrays
        self.name = name
        self.vectors: NDArray[np.float32] = arrays["row.vector"]
        self.blank: Mask = arrays["row.blank"]
        self.lengths: NDArray[np.int32] = arrays["row.length"]
        self.revisions: NDArray[np.int32] = arrays["row.revision"]
        self.place: NDArray[np.int32] = arrays["row.place"]
        self.age: NDArray[np.int32] = arrays["row.age"]
        self.terms = Strings.read(arrays, "term")
        self._postings: tuple[Rows, NDArray[np.int32], NDArray[np.int32]] = (
            arrays["post.starts"],
            arrays["post.rows"],
            arrays["post.counts"],
        )
        self.packed = Strings.read(arrays, "record")
        self._records: dict[int, Record] = {}
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self.lengths)

    def row(self, name: str) -> NDArray[Any]:
        """One array that is aligned with the rows."""
        return self.arrays[f"row.{name}"]

    def record(self, row: int) -> Record:
        """The record of a row, the same object each time while it is remembered."""
        known = self._records.get(row)
        if known is None:
            if len(self._records) >= _CACHED:
                self._records.clear()
            known = self._records.setdefault(row, self._unpacked(row))
        return known

    def key(self, row: int) -> tuple[bytes | int, ...]:
        """Tenant, id, version and revision of a row; they sort as the record's own do."""
        columns = (self.column(name) for name in ("tenant", "id", "version"))
        return (*(column.raw(row) for column in columns if column), int(self.revisions[row]))

    def stored(self, row: int) -> Row:
        """A row as the store has it."""
        vector: Vector = np.array(self.vectors[row])
        return Row(self.record(row), vector, int(self.revisions[row]))

    @lazy
    def fields(self) -> tuple[str, ...]:
        """Every field and metadata key that some row has."""
        return tuple(name.decode("utf-8", "surrogatepass") for name in Strings.read(self.arrays, "fields"))

    def column(self, name: str) -> Column | None:
        """The column of a field; `None` when no row has it."""
        if name not in self._columns:
            # A name that no record has is answered and not kept, or filters could fill the memory.
            if name not in self.fields:
                return None
            self._columns[name] = Column(self.arrays, f"column.{name}")
        return self._columns[name]

    def postings(self, term: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The rows that hold a term, and how often each does."""
        starts, rows, counts = self._postings
        at = self.terms.find(term.encode("utf-8", "surrogatepass"))
        part = slice(0, 0) if at < 0 else slice(int(starts[at]), int(starts[at + 1]))
        return rows[part], counts[part]

    def all_postings(self) -> tuple[Rows, NDArray[np.int32], NDArray[np.int32]]:
        """(start of each term, rows, counts)."""
        return self._postings

    @lazy
    def vocabulary(self) -> Vocabulary:
        """The terms, for words that are none."""
        return Vocabulary(self.terms, self._postings[0], self._postings[1])

    @lazy
    def facts(self) -> FactTable:
        """What the rows assert."""
        return self._table("fact")

    @lazy
    def versions(self) -> FactTable:
        """The rows whose id has several rows here."""
        return self._table("version")

    @lazy
    def links(self) -> tuple[Rows, NDArray[np.bytes_]]:
        """(row, digest of what it names in `supersedes`) pairs."""
        return self.arrays["link.row"].astype(np.int64), self.arrays["link.target"]

    def named(self, digests: NDArray[np.bytes_], by: str) -> tuple[Rows, Rows]:
        """The rows of ids or sources, as (which of the digests, row) pairs; `by` is "id" or "source"."""
        ordered, rows = self.arrays[f"{by}.digest"], self.arrays[f"{by}.row"]
        low = np.searchsorted(ordered, digests, side="left")
        sizes = np.searchsorted(ordered, digests, side="right") - low
        which = np.repeat(np.arange(len(digests)), sizes)
        at = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes - low, sizes)
        return which, rows[at].astype(np.int64)

    def _table(self, name: str) -> FactTable:
        return FactTable(
            self.arrays[f"{name}.group"],
            self.arrays[f"{name}.row"].astype(np.int64),
            self.arrays[f"{name}.ordinal"],
            self.arrays[f"{name}.inferred"],
        )

    def _unpacked(self, row: int) -> Record:
        try:
            return unpack(self.packed[row])
        except (CtxArithError, ValueError, KeyError, TypeError, IndexError) as error:
            raise StoreError(f"the index file {self.name!r} is damaged at row {row}: {error}") from error


def pack(flat: object, text: str) -> bytes:
    """A record's flat form and text as bytes."""
    return json.dumps([flat, text], separators=(",", ":")).encode()


def unpack(packed: bytes) -> Record:
    """The record that was packed."""
    flat, text = json.loads(packed)
    return restore(flat, text)[0]


def digest(*parts: str) -> bytes:
    """A name of several parts in 16 bytes (BLAKE2b); no two names that anybody can find share one."""
    lengths = ",".join(str(len(part)) for part in parts)
    whole = "\0".join((lengths, *parts))
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def digests(names: Iterable[Sequence[str]]) -> NDArray[np.bytes_]:
    """The digest of each name, shape (n,)."""
    return np.frombuffer(b"".join(digest(*name) for name in names), DIGEST)
