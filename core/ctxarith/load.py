"""Many records into a corpus, batch by batch: each is whole or absent, and a second run resumes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ctxarith.corpus import Corpus
from ctxarith.ingest.chunk import document_of
from ctxarith.ingest.files import batches
from ctxarith.model import DEFAULT_TENANT, Record

Line = Record | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was done over all batches, and the linked ids that the corpus does not hold at the end."""

    counts: dict[str, int]
    dangling: tuple[str, ...]


def load(corpus: Corpus, lines: Iterable[Line], *, batch: int, chunked: bool = False) -> Loaded:
    """Add the lines in batches. With `chunked`, chunks that a source no longer has are deleted.

    Raises:
        RecordError, StoreError: the batches before are kept; run it again to go on.
    """
    counts = {"added": 0, "corrected": 0, "unchanged": 0, "embedded": 0}
    dangling: set[tuple[str, str]] = set()
    chunks: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for part in batches(lines, batch):
        report = corpus.add(part)
        owners = {_tenant_of(line) for line in part}
        dangling.update((owner, one) for owner in owners for one in report.dangling)
        for name in counts:
            counts[name] += getattr(report, name)
        for line in part if chunked else ():
            chunks[(line.tenant, line.source_id, document_of(line.id))].add(line.id)
    for (owner, source, document), kept in chunks.items():
        # What an edited document no longer says must not be found; other documents of its source stay.
        own = {one for one in corpus.ids_of(source, tenant=owner) if document_of(one) == document}
        corpus.delete(own - kept, tenant=owner)
    # A later batch may have brought what an earlier one named.
    held = {one for owner, one in dangling if corpus.holds(one, tenant=owner)}
    return Loaded(counts, tuple(sorted({one for _, one in dangling} - held)))


def _tenant_of(line: Line) -> str:
    return line.tenant if isinstance(line, Record) else str(line.get("tenant", DEFAULT_TENANT))
