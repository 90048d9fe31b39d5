"""Stand-ins for models: deterministic, weightless, and real in every other respect."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ctxarith import Record
from ctxarith.index.analysis import Analyzer
from ctxarith.index.filters import Filters
from ctxarith.index.segment import Segment
from ctxarith.index.snapshot import Indexer
from ctxarith.index.stack import Stack
from ctxarith.ports import Row
from ctxarith.predicate import Predicate


class WordEmbedder:
    """Hashed bags of words: texts that share words are near each other."""

    name = "words-64"
    dimension = 64

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors of shape (len(texts), 64)."""
        self.embedded.extend(texts)
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimension
        for word in re.findall(r"\w+", text.lower()):
            digest = hashlib.sha256(word.encode()).digest()
            vector[digest[0] % self.dimension] += 1.0 + digest[1] / 255
        return vector


class TableEmbedder:
    """Vectors by exact text, for tests that state what is near to what; unknown texts are far away."""

    name = "table"

    def __init__(self, table: Mapping[str, Sequence[float]]) -> None:
        self._table = dict(table)
        self._dimension = len(next(iter(self._table.values())))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One row of the table for each text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The row of a text; the last unit vector for an unknown one."""
        unknown = [0.0] * (self._dimension - 1) + [1.0]
        return list(self._table.get(text, unknown))


def stacked(
    records: Sequence[Record], vectors: NDArray[np.float32] | None = None, *, analyzer: Analyzer | None = None
) -> Stack:
    """One segment in memory. Its rows are sorted by tenant, scope and id, not as they were given."""
    given = np.ones((len(records), 1), np.float32) if vectors is None else vectors
    rows = [Row(record, vector) for record, vector in zip(records, given, strict=True)]
    return Stack([Segment(Indexer(analyzer or Analyzer()).arrays(rows), "one")])


def matching(records: Sequence[Record], condition: Predicate) -> list[bool]:
    """What the index's filters say of each record, in the order given."""
    mask = Filters(stacked(records), np.ones(len(records), np.bool_)).mask(condition)
    order = sorted(
        range(len(records)), key=lambda n: (records[n].tenant, records[n].scope, *records[n].key[1:])
    )
    return [passed for _, passed in sorted(zip(order, mask.tolist(), strict=True))]
