"""Everything that a corpus answers, as one value, so that two corpora can be held against each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ctxarith import Corpus, Principal, Record, Result, everyone, lexical, rrf, semantic, superseded, top
from ctxarith.index.snapshot import Snapshot
from ctxarith.models.embedders import embedded
from ctxarith.options import Setup
from ctxarith.parts import Held
from ctxarith.ports import Row, RowKey
from ctxarith.predicate import Predicate
from ctxarith.shelves import in_memory
from ctxarith.stores.inmemory import InMemoryStore
from tests.conftest import NOW
from tests.fakes import WordEmbedder

_TIME = re.compile(r" +[0-9.,]+ ms")


def said(result: Result, ids: Iterable[str] = ()) -> dict[str, Any]:
    """What a result says, how long it took aside; scores to their last bit."""
    return {
        "text": result.text,
        "hits": result.hits,
        "bits": [
            [score.hex() for score in (hit.score, hit.fused or 0.0, *(found.score for found in hit.found_by))]
            for hit in result.hits
        ],
        "drops": result.drops,
        "steps": [(step.stage, step.count, step.note) for step in result.trace.steps],
        "tokens": (result.tokens, result.naive_tokens, dict(result.citations)),
        "explained": _TIME.sub(" ms", str(result.explain())),
        "why": [str(result.why(rid)) for rid in ids],
    }


WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("all", {"top": None, "tokens": None}),
    ("few", {"top": 2, "rank": "composite"}),
    ("kept", {"include_superseded": True, "top": None}),
)


def answers(
    corpus: Corpus,
    principal: Principal,
    questions: Sequence[str],
    *,
    ids: Sequence[str] = (),
    facts: Iterable[tuple[str, str]] = (),
    conditions: Iterable[Predicate] = (),
    ways: int = 3,
) -> dict[str, Any]:
    """What one caller gets for all of these, each question being asked in several ways."""
    found: dict[str, Any] = {}
    for question in questions:
        for name, more in WAYS[:ways]:
            result = corpus.retrieve(question, principal=principal, **more)
            found[f"{name}: {question}"] = said(result, ids)
        arms = (semantic | lexical) & everyone
        pipeline = arms - superseded >> rrf(group_by="source") >> top(9)
        found[f"grouped: {question}"] = said(corpus.run(pipeline, question, principal=principal))
    found["facts"] = [corpus.history(*fact, principal=principal) for fact in facts]
    found["get"] = corpus.get(ids, principal=principal)
    found["standing"] = corpus.standing(ids, principal=principal)
    found["counts"] = [corpus.count(condition, principal=principal) for condition in conditions]
    return found


def held(corpus: Corpus) -> list[Row]:
    """What the index holds, revisions too."""
    return rows_of(corpus._shelf.snapshot)


def rows_of(snapshot: Snapshot) -> list[Row]:
    stored = [snapshot.stored(row) for row in np.flatnonzero(snapshot.staying).tolist()]
    assert len(stored) == len({row.key for row in stored}), "a key is there twice"
    return stored


def with_vectors(rows: dict[RowKey, Record]) -> list[Row]:
    """Rows as the write path makes them, embedded anew."""
    texts = [record.text for record in rows.values()]
    vectors = [vector for batch in embedded(WordEmbedder(), texts) for vector in batch]
    pairs = zip(rows.items(), vectors, strict=True)
    return [Row(record, vector, key.revision) for (key, record), vector in pairs]


def anew(rows: Iterable[Row]) -> Corpus:
    """A corpus made from scratch of what a store holds: one segment, and no past."""
    setup = Setup.of({"embedder": WordEmbedder(), "clock": lambda: NOW})
    store = InMemoryStore()
    store.write(list(rows))
    return Corpus(in_memory(Held(store, store.name), setup.wanted), setup)
