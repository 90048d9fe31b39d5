"""Who is measured: each peer holds the same rows and answers the same questions.

A new one (another framework's retriever, another database) is one class with the methods of `Peer`,
one of `Holder` if its ingest is to be measured too, and a line in `speed.py`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import chromadb
import numpy as np
from chromadb.config import Settings
from numpy.typing import NDArray
from speed_data import Case, Data, Floats, Query

from ctxarith import Corpus, Record, everyone, rrf, scope, semantic, top, where

DEPTH = 50
LIGHT = {"space": "cosine", "max_neighbors": 4, "ef_construction": 8, "ef_search": 8}
DEFAULT = {"space": "cosine"}


class Holder(Protocol):
    """What rows are put into."""

    name: str

    def add(self, data: Data, rows: range) -> None:
        """Put in some rows; durable when it returns."""
        ...

    def close(self) -> None:
        """Give back files."""
        ...


class Peer(Protocol):
    """What is asked. `nearest`: it gives the `DEPTH` nearest vectors, so that recall has a meaning."""

    name: str
    nearest: bool

    def search(self, query: Query, case: Case) -> Sequence[str]:
        """Ids of permitted rows, best first."""
        ...


class GivenVectors:
    """An embedder that looks vectors up, so that no peer's time holds a model's."""

    name = "given-vectors"

    def __init__(self, queries: Sequence[Query]) -> None:
        self._table = {query.text: query.vector for query in queries}

    def embed_documents(self, texts: list[str]) -> list[Floats]:
        """The vectors of known questions; documents come with theirs."""
        return [self._table[text] for text in texts]

    def embed_query(self, text: str) -> Floats:
        """The vector of a known question."""
        return self._table[text]


def our_record(data: Data, row: int) -> Record:
    """A row as our record."""
    return Record(
        id=data.ids[row],
        text=data.texts[row],
        scope=data.scope(row),
        created_at=data.created_at(row),
        metadata=data.metadata(row),
    )


class OurCorpus:
    """A corpus in a folder, in Chroma."""

    name = "ctxarith"

    def __init__(self, folder: Path, queries: Sequence[Query]) -> None:
        self.corpus = Corpus.open(folder, embedder=GivenVectors(queries))

    def add(self, data: Data, rows: range) -> None:
        """Records are made inside: it is part of what a user does."""
        records = [our_record(data, n) for n in rows]
        self.corpus.add(records, embeddings=data.vectors[rows.start : rows.stop])

    def close(self) -> None:
        """Close the folder."""
        self.corpus.close()


class OurSearch:
    """Vectors alone, like a vector database: `semantic & scope & where`, the nearest 50."""

    name = "semantic"
    nearest = True

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def search(self, query: Query, case: Case) -> list[str]:
        """The nearest permitted records."""
        guard = everyone if case.scope is None else scope(case.scope)
        wanted = semantic(depth=DEPTH) & guard
        if case.where is not None:
            wanted = wanted & where(case.where)
        result = self._corpus.run(wanted >> rrf() >> top(DEPTH), query.text)
        return [hit.id for hit in result.hits]


class OurPipeline:
    """The everyday call: both retrievers, superseded records out, fused, ranked, cut to 400 tokens."""

    name = "retrieve"
    nearest = False

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def search(self, query: Query, case: Case) -> list[str]:
        """The records in the context."""
        result = self._corpus.retrieve(query.text, scope=case.scope, where=case.where)
        return [hit.id for hit in result.hits]


class BareChroma:
    """A persistent collection with one metadata key for each thing that is filtered."""

    nearest = True

    def __init__(self, folder: Path, name: str, hnsw: dict[str, Any]) -> None:
        self.name = name
        self._client = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
        self._rows = self._client.create_collection(
            "rows", embedding_function=None, configuration={"hnsw": hnsw}
        )

    def add(self, data: Data, rows: range) -> None:
        """One `add`; the caller keeps to Chroma's largest batch."""
        metadatas = []
        for n in rows:
            org, dept, team = data.scope(n).split("/")
            levels = {"level_1": org, "level_2": f"{org}/{dept}", "level_3": f"{org}/{dept}/{team}"}
            created = int(data.created_at(n).timestamp())
            metadatas.append({"tenant": "default", **levels, "created_at": created, **data.metadata(n)})
        self._rows.add(
            ids=[data.ids[n] for n in rows],
            embeddings=data.vectors[rows.start : rows.stop],
            documents=[data.texts[n] for n in rows],
            metadatas=metadatas,
        )

    def search(self, query: Query, case: Case) -> list[str]:
        """Chroma's filtered query, ids only: the least work it can be asked for."""
        answer = self._rows.query(
            query_embeddings=[query.vector], where=case.native, n_results=DEPTH, include=[]
        )
        return answer["ids"][0]

    def close(self) -> None:
        """Let go of the client."""
        close = getattr(self._client, "close", None)
        if close is not None:
            close()


class ByHand:
    """What a good engineer writes for one filter: a numpy mask, a product, bm25s, and RRF of the two."""

    name = "numpy + bm25s"
    nearest = False

    def __init__(self, data: Data) -> None:
        import bm25s

        self._data = data
        self._tokenize = bm25s.tokenize
        self._bm25 = bm25s.BM25(k1=1.5, b=0.75)
        self._bm25.index(self._words(data.texts), show_progress=False)

    @staticmethod
    def installed() -> bool:
        """Whether bm25s is here; it is a dependency of the benchmarks alone."""
        return importlib.util.find_spec("bm25s") is not None

    def search(self, query: Query, case: Case) -> list[str]:
        """The best five texts of the fused order, as ids."""
        mask = case.test()
        rows = np.flatnonzero(mask)
        vectors = self._data.vectors
        cosines = (vectors if len(rows) == len(vectors) else vectors[rows]) @ query.vector
        dense = rows[_best(cosines, 100)]
        scores = self._bm25.get_scores(self._words([query.text])[0], weight_mask=mask.astype(np.float32))
        found = np.flatnonzero(scores)
        lexical = found[_best(scores[found], 100)]
        fused = np.zeros(len(vectors))
        for ranked in (dense, lexical):
            fused[ranked] += 1 / (60 + np.arange(1, len(ranked) + 1))
        either = np.union1d(dense, lexical)
        return [self._data.ids[row] for row in either[_best(fused[either], 5)]]

    def _words(self, texts: list[str]) -> Any:
        return self._tokenize(texts, stopwords="en", return_ids=False, show_progress=False)


def _best(scores: NDArray[Any], depth: int) -> NDArray[np.int64]:
    """The places of the highest scores, best first."""
    if len(scores) > depth:
        places = np.argpartition(scores, -depth)[-depth:]
        return places[np.argsort(-scores[places])]
    return np.argsort(-scores)
