"""Going over to another embedding model: all of it, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chromadb
import pytest
from chromadb.config import Settings

from ctxarith import ArgumentError, Corpus, EmbedderMismatch, EmbeddingError, Record, StoreError
from tests.conftest import NOW
from tests.fakes import TableEmbedder, WordEmbedder

FEES = [Record(id=rid, text=f"The {rid} fee is {n} EUR") for n, rid in enumerate(("annual", "joining"))]


class Reversed(WordEmbedder):
    """Another model of the same dimension: what was near is not."""

    name = "reversed-64"

    def _vector(self, text: str) -> list[float]:
        return super()._vector(text[::-1])


class Failing(WordEmbedder):
    name = "failing"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise RuntimeError("no more memory")


def opened(folder: Path, embedder: Any = None) -> Corpus:
    return Corpus.open(folder, clock=lambda: NOW, embedder=embedder or WordEmbedder())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with opened(tmp_path / "c") as corpus:
        corpus.add(FEES)
        corpus.add([Record(id="annual", text="The annual fee is 12 EUR")])
        corpus.add([Record(id="gone", text="fee")])
        corpus.delete("gone")
    return tmp_path / "c"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("chroma"))


@pytest.mark.parametrize("model", [Reversed(), TableEmbedder({"The joining fee is 1 EUR": [1.0, 0, 0]})])
def test_the_corpus_answers_with_the_new_model_and_keeps_its_history(folder: Path, model: Any) -> None:
    with pytest.raises(EmbedderMismatch, match=r"Corpus\.reembed"):
        opened(folder, model)
    with Corpus.reembed(folder, embedder=model, clock=lambda: NOW) as corpus:
        assert sorted(hit.id for hit in corpus.retrieve("fee").hits) == ["annual", "joining"]
        assert corpus.changes(0)[-1].kind == "rebuilt"
        corpus.add([Record(id="new", text="The new fee is 3 EUR")])
    assert files(folder) == ["chroma-1"]
    with opened(folder, model) as corpus:
        assert len(corpus.retrieve("fee").hits) == 3
    with pytest.raises(EmbedderMismatch):
        opened(folder)
    client = chromadb.PersistentClient(
        path=str(folder / "chroma-1"), settings=Settings(anonymized_telemetry=False)
    )
    assert client.get_collection("ctxarith").count() == 4


def test_scores_are_those_of_a_corpus_made_with_the_new_model(folder: Path, tmp_path: Path) -> None:
    fresh = Corpus.in_memory(clock=lambda: NOW, embedder=Reversed())
    fresh.add([Record(id="annual", text="The annual fee is 12 EUR"), FEES[1]])
    with Corpus.reembed(folder, embedder=Reversed(), clock=lambda: NOW) as corpus:
        one, other = (
            [(hit.id, hit.score, hit.found_by) for hit in made.retrieve("annual fee").hits]
            for made in (corpus, fresh)
        )
    assert one == other


def test_a_model_that_fails_leaves_the_corpus_as_it_was(folder: Path) -> None:
    with pytest.raises(EmbeddingError, match="no more memory"):
        Corpus.reembed(folder, embedder=Failing())
    with opened(folder) as corpus:
        assert len(corpus.retrieve("fee").hits) == 2
        corpus.add([Record(id="new", text="fee")])
    assert files(folder) == ["chroma"]


def test_an_open_corpus_is_refused(folder: Path) -> None:
    with opened(folder) as corpus:
        with pytest.raises(StoreError, match="close every handle"):
            Corpus.reembed(folder, embedder=Reversed())
        assert len(corpus.retrieve("fee").hits) == 2


def test_a_folder_without_a_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no corpus"):
        Corpus.reembed(tmp_path / "nothing", embedder=Reversed())
    assert not (tmp_path / "nothing").exists()
