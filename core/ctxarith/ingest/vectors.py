"""A vector for each incoming record, with as few calls of the model as can be."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ctxarith.errors import EmbeddingError
from ctxarith.index.segment import Segment
from ctxarith.index.snapshot import Snapshot
from ctxarith.model import Record
from ctxarith.ports import Store, Vector

Embed = Callable[[Sequence[str]], Iterable[Sequence[Vector]]]
Given = tuple[Record, Vector | None]


class Staging:
    """Vectors of texts that were embedded and not yet written; a retry finds them here."""

    def __init__(self) -> None:
        self._staged: dict[str, Vector] = {}

    def clear(self) -> None:
        """Let go of them: the write is done, or can never succeed."""
        self._staged.clear()

    def vectors(self, changed: Sequence[Given], snapshot: Snapshot, embed: Embed) -> tuple[list[Vector], int]:
        """A vector for each record: given, known from the same text, staged before, or embedded now.

        Raises:
            EmbeddingError: names the records whose vectors are staged.
        """
        if all(vector is not None for _, vector in changed):
            return [vector for _, vector in changed if vector is not None], 0
        texts = [snapshot.passage(record) for record, _ in changed]
        known = {_digest(t): v for (_, v), t in zip(changed, texts, strict=True) if v is not None}
        for (record, _), text in zip(changed, texts, strict=True):
            for row in snapshot.named(record.tenant, record.id):
                if snapshot.passage(snapshot.records[row]) == text:
                    known.setdefault(_digest(text), snapshot.vector(row))
        missing = {d: t for t in texts if (d := _digest(t)) not in known and d not in self._staged}
        digests = iter(missing)
        try:
            for batch in embed(list(missing.values())):
                # Kept batch by batch, so that a failure further on costs only what is still missing.
                self._staged.update((digest, vector) for vector, digest in zip(batch, digests, strict=False))
        except EmbeddingError as error:
            staged = [r.id for (r, _), t in zip(changed, texts, strict=True) if _digest(t) in self._staged]
            raise EmbeddingError(str(error), staged=staged) from error
        found = {**self._staged, **known}
        own = [v for _, v in changed]
        return [found[_digest(t)] if v is None else v for v, t in zip(own, texts, strict=True)], len(missing)


def renewed(
    segment: Segment, passage: Callable[[Record], str], embed: Embed, store: Store
) -> NDArray[np.float32]:
    """New vectors for the rows of a segment, which are also written into another store.

    Returns:
        Shape (rows, dimension).
    """
    rows = [segment.stored(row) for row in range(len(segment))]
    vectors = [vector for batch in embed([passage(row.record) for row in rows]) for vector in batch]
    store.write([replace(row, vector=vector) for row, vector in zip(rows, vectors, strict=True)])
    return np.stack(vectors)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
