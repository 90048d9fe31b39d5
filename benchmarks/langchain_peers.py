"""The same questions through LangChain's own hybrid retrieval and through `CtxArithRetriever`, in one table.

    python benchmarks/langchain_peers.py [BEIR_FOLDER ...] [--questions N] [-k 5] [--model FOLDER] [--json F]

Every system holds the same texts and vectors (`peer_world.py` says which) and knows who asks. The peers are
set up with care: cosine space, the customer as Chroma's filter, a BM25 that lower-cases, stems and leaves
out stop words, ids that keep equal texts of different documents apart. LangChain's `BM25Retriever` has no
filter, so both ways about it are shown: one index for all, and one for each customer.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import Stemmer
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from peer_table import Row, System, answers, legend, rows, table, write_json
from peer_world import Question, Text, UnitVectors, World, asked_of, lacking, parser, world

from ctxarith import Principal
from ctxarith.index.stopwords import STOP_WORDS
from langchain_ctxarith import CtxArithRetriever

OURS = "**CtxArithRetriever**"
DEPTH = 50
BUDGET = 1_000
_WORD = re.compile(r"\w+")

Ask = Callable[[Question], Sequence[Document]]


class Vectors(Embeddings):
    """The same model for every system."""

    def __init__(self, model: UnitVectors) -> None:
        self.name = model.name
        self._model = model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text."""
        return self._model.of_texts(texts)

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return self._model.of_query(text)


class Words:
    """The analysis of a careful user: lower case, no stop words, Snowball stems."""

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")

    def __call__(self, text: str) -> list[str]:
        """The terms of a text or question."""
        plain = [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]
        stems: list[str] = self._stemmer.stemWords(plain)
        return stems


class Peers:
    """What LangChain offers, over the same documents."""

    def __init__(self, data: World, vectors: Vectors, folder: Path, k: int) -> None:
        from langchain_chroma import Chroma

        self._data = data
        self._k = k
        self._documents = {text.id: as_document(text, data) for text in data.texts}
        self._store = Chroma(
            "world",
            vectors,
            persist_directory=str(folder),
            collection_configuration={"hnsw": {"space": "cosine"}},
        )
        listed = list(self._documents.values())
        for start in range(0, len(listed), 5_000):
            self._store.add_documents(listed[start : start + 5_000])

    def dense(self) -> Ask:
        """Chroma alone, filtered."""
        chosen = {tenant: self._chroma(self._k, tenant) for tenant in self._data.tenants}
        return lambda question: chosen[question.tenant].invoke(question.text)

    def shared(self, *, cut: bool) -> Ask:
        """One BM25 for all customers beside the filtered Chroma; each gives k, and both are joined."""
        lexical = self._bm25(self._data.texts, self._k)
        chosen = {t: self._ensemble(self._chroma(self._k, t), lexical) for t in self._data.tenants}
        end = self._k if cut else None
        return lambda question: chosen[question.tenant].invoke(question.text)[:end]

    def apart(self, depth: int, *, without_superseded: bool = False) -> Ask:
        """One BM25 for each customer; each leg gives `depth`, the first k of the fused are taken."""
        chosen = {}
        for tenant in self._data.tenants:
            known = [text for text in self._data.texts if text.tenant == tenant]
            if without_superseded:
                known = [text for text in known if text.id not in self._data.superseded]
            dense = self._chroma(depth, tenant, without_superseded=without_superseded)
            chosen[tenant] = self._ensemble(dense, self._bm25(known, depth))
        return lambda question: chosen[question.tenant].invoke(question.text)[: self._k]

    def _chroma(self, depth: int, tenant: str, *, without_superseded: bool = False) -> Any:
        wanted: dict[str, Any] = {"tenant": tenant}
        if without_superseded:
            wanted = {"$and": [wanted, {"superseded": False}]}
        return self._store.as_retriever(search_kwargs={"k": depth, "filter": wanted})

    def _bm25(self, texts: Sequence[Text], depth: int) -> Any:
        from langchain_community.retrievers import BM25Retriever

        listed = [self._documents[text.id] for text in texts]
        return BM25Retriever.from_documents(listed, preprocess_func=Words(), k=depth)

    def _ensemble(self, dense: Any, lexical: Any) -> Any:
        from langchain_classic.retrievers import EnsembleRetriever

        return EnsembleRetriever(retrievers=[lexical, dense], weights=[0.5, 0.5], id_key="source")


def as_document(text: Text, data: World) -> Document:
    """A text with the metadata that the peers filter and sort by."""
    dated = {} if text.created is None else {"created": text.created}
    told = {"source": text.id, "tenant": text.tenant, "superseded": text.id in data.superseded}
    return Document(id=text.id, page_content=text.text, metadata={**told, **dated})


def as_our_document(text: Text) -> Document:
    """A text with the headers as they stand: which it supersedes, and when it was made."""
    told: dict[str, Any] = {"source": text.id, "tenant": text.tenant}
    if text.created is not None:
        told["created_at"] = text.created
    if text.supersedes:
        told["supersedes"] = list(text.supersedes)
    return Document(id=text.id, page_content=text.text, metadata=told)


def newest_first(ask: Ask) -> Ask:
    """The same documents by their dates; undated ones keep their order, at the end."""

    def sorted_by_date(question: Question) -> list[Document]:
        return sorted(ask(question), key=lambda one: str(one.metadata.get("created", "")), reverse=True)

    return sorted_by_date


def systems(data: World, peers: Peers | None, ours: CtxArithRetriever, k: int) -> list[System]:
    """Everything that can be asked with what is installed."""
    asked: dict[str, Ask] = {}
    if peers is not None:
        asked["Chroma, filtered"] = peers.dense()
        if hybrid():
            asked["Ensemble, one BM25 for all, all it gives"] = peers.shared(cut=False)
            asked["Ensemble, one BM25 for all, first k"] = peers.shared(cut=True)
            asked["Ensemble, a BM25 for each customer, first k"] = peers.apart(k)
            asked["... sorted newest first"] = newest_first(peers.apart(k))
            asked["... superseded filtered by hand"] = peers.apart(k, without_superseded=True)
            asked[f"... {DEPTH} from each leg"] = peers.apart(DEPTH)
            both = peers.apart(DEPTH, without_superseded=True)
            asked[f"... {DEPTH} from each leg, superseded filtered by hand"] = both

    def as_asker(retriever: CtxArithRetriever, **options: Any) -> Ask:
        callers = {tenant: {"configurable": {"principal": Principal(tenant)}} for tenant in data.tenants}
        return lambda question: retriever.invoke(question.text, callers[question.tenant], **options)

    formula = CtxArithRetriever(corpus=ours.corpus, k=k, search_kwargs={"rank": "relevance"})
    asked[OURS] = as_asker(ours)
    asked["CtxArithRetriever, rank='relevance'"] = as_asker(formula)
    asked[f"CtxArithRetriever, token_budget={BUDGET:_}"] = as_asker(ours, token_budget=BUDGET)
    return [System(name, ask) for name, ask in asked.items()]


def hybrid() -> bool:
    """Whether what EnsembleRetriever and BM25Retriever need is installed."""
    return all(map(find_spec, ("langchain_community", "langchain_classic", "rank_bm25")))


def read(document: Document) -> tuple[str, str]:
    """The id and the text of a document."""
    return str(document.id), document.page_content


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Print the table."""
    asked = asked_of(parser(__doc__), arguments)
    data = world(asked.folders)
    vectors = Vectors(UnitVectors(asked.model))
    questions = data.sample(asked.questions)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        peers = None
        if find_spec("langchain_chroma"):
            peers = Peers(data, vectors, Path(scratch) / "peers", asked.k)
        ours = CtxArithRetriever.from_documents(
            [as_our_document(text) for text in data.texts], vectors, path=Path(scratch) / "ours", k=asked.k
        )
        with ours.corpus:
            print(f"{data}\n{vectors.name} for all, k = {asked.k}\n")
            found = answers(systems(data, peers, ours, asked.k), questions, read)
    lines = rows(data, questions, found)
    print(table(lines, questions, OURS))
    print(f"\n{legend(questions)}")
    if peers is None:
        lacking("langchain-chroma langchain-classic langchain-community rank-bm25", "every peer")
    elif not hybrid():
        lacking("langchain-classic langchain-community rank-bm25", "the rows with EnsembleRetriever")
    if asked.json:
        write_json(asked.json, {"LangChain": lines})
    return lines


if __name__ == "__main__":
    main()
