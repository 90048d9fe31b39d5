"""Text to vectors."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ctxarith.errors import ArgumentError, EmbeddingError
from ctxarith.index.dense import unit
from ctxarith.lazy import lazy
from ctxarith.models.folders import model_name, sentence_transformers
from ctxarith.ports import Embedder, LlamaIndexEmbedding, Vector

_BATCH = 256
# Averages of static vectors say no more beyond this; a megabyte of text must not cost seconds.
_LONGEST = 32_000


class WordLlamaEmbedder:
    """The offline default: WordLlama static embeddings, 256 dimensions, weights in the package (MIT).

    Tens of thousands of texts a second on one core and no torch. The first 32,000 characters count.
    """

    name = "wordllama-l2-supercat-256"

    def embed_documents(self, texts: list[str]) -> Any:
        """Vectors of shape (len(texts), 256)."""
        # Texts of like length together: a batch is padded to its longest.
        order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
        vectors = np.empty((len(texts), 256), dtype=np.float32)
        if texts:
            vectors[order] = self._model.embed([texts[n][:_LONGEST] for n in order])
        return vectors

    def embed_query(self, text: str) -> Any:
        """The vector of a query, shape (256,)."""
        return self._model.embed([text[:_LONGEST]])[0]

    @lazy
    def _model(self) -> Any:
        from wordllama import WordLlama

        spec = importlib.util.find_spec("wordllama")
        folder = Path(str(spec.origin)).parent if spec else Path()
        # Without these, loading asks the network first even though the weights are here.
        return WordLlama.load(cache_dir=folder, disable_download=True)


class SentenceTransformerEmbedder:
    """A model of sentence-transformers, from a folder (offline) or by its name on the hub.

    A model that has prompts gets its own for queries and for documents. Texts are cut at the model's
    length (256 tokens for all-MiniLM-L6-v2). The model is loaded when it is first used.

    Args:
        model: a folder that holds the model, which is then read without any network; or a hub name.
        device: "cpu", "cuda", "mps"; by default what sentence-transformers finds.
        batch_size: texts in one pass of the model.
        name: what a corpus remembers it by; by default the folder's or model's name, for a folder
            with a fingerprint of its weights, so that another model in a folder of that name is noticed.

    Raises:
        ArgumentError: at construction, for a folder without a model or a batch below 1.
        MissingExtra: at construction, without sentence-transformers.
    """

    def __init__(
        self,
        model: str | Path = "sentence-transformers/all-MiniLM-L6-v2",
        *,
        device: str | None = None,
        batch_size: int = 32,
        name: str | None = None,
    ) -> None:
        sentence_transformers("SentenceTransformerEmbedder")
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ArgumentError("batch_size", batch_size, "a positive whole number of texts")
        self.name = name or model_name(model)
        self._folder = str(model)
        self._device = device
        self._batch_size = batch_size

    def embed_documents(self, texts: list[str]) -> Any:
        """Vectors of shape (len(texts), dimension)."""
        return self._model.encode_document(texts, batch_size=self._batch_size, show_progress_bar=False)

    def embed_query(self, text: str) -> Any:
        """The vector of a query, shape (dimension,)."""
        return self._model.encode_query(text, show_progress_bar=False)

    @lazy
    def _model(self) -> Any:
        library = sentence_transformers("SentenceTransformerEmbedder")
        local = Path(self._folder).is_dir()
        return library.SentenceTransformer(self._folder, device=self._device, local_files_only=local)


class LlamaIndexEmbedder:
    """An embedding model of LlamaIndex (`get_text_embedding_batch`, `get_query_embedding`) as one of ours."""

    def __init__(self, model: LlamaIndexEmbedding) -> None:
        self.name = identity(model)
        self._model = model

    def embed_documents(self, texts: list[str]) -> Any:
        """One vector for each text."""
        return self._model.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> Any:
        """The vector of a query."""
        return self._model.get_query_embedding(text)


def checked_embedder(embedder: object) -> Embedder:
    """An object with LangChain's or LlamaIndex's embedding methods, or a clear refusal."""
    if isinstance(embedder, Embedder):
        return embedder
    if isinstance(embedder, LlamaIndexEmbedding):
        return LlamaIndexEmbedder(embedder)
    raise ArgumentError(
        "embedder",
        embedder,
        "an object with embed_documents(texts) and embed_query(text), or with LlamaIndex's "
        "get_text_embedding_batch(texts) and get_query_embedding(text)",
    )


def identity(embedder: object) -> str:
    """The name by which a corpus remembers its embedding model."""
    for attribute in ("name", "model_name", "model"):
        value = getattr(embedder, attribute, None)
        # LlamaIndex calls every model "unknown" that nobody has named.
        if isinstance(value, str) and value not in ("", "unknown"):
            return value
    return f"{type(embedder).__module__}.{type(embedder).__qualname__}"


def embedded(
    embedder: Embedder, texts: Sequence[str], *, watch: Callable[[int], object] = lambda done: None
) -> Iterator[list[Vector]]:
    """Unit vectors of the texts, batch by batch; `watch` hears how many are done.

    Raises:
        EmbeddingError: the model failed, or gave something else than one finite vector a text.
    """
    for start in range(0, len(texts), _BATCH):
        batch = list(texts[start : start + _BATCH])
        yield list(_checked(_called(embedder.embed_documents, batch), len(batch)))
        watch(len(batch))


def embedded_query(embedder: Embedder, text: str) -> Vector:
    """The unit vector of a query, shape (dimension,)."""
    vector: Vector = _checked([_called(embedder.embed_query, text)], 1)[0]
    return vector


def given_vectors(embeddings: Sequence[Any], count: int) -> list[Vector]:
    """Vectors that the caller brings, checked and scaled to length one.

    Raises:
        ArgumentError: not one finite vector for each record.
    """
    try:
        return list(_checked(embeddings, count))
    except EmbeddingError as error:
        raise ArgumentError("embeddings", type(embeddings).__name__, str(error)) from error


def _called(method: Callable[[Any], Any], argument: object) -> Any:
    try:
        return method(argument)
    except Exception as error:
        raise EmbeddingError(f"the embedding model failed: {type(error).__name__}: {error}") from error


def _checked(vectors: Any, count: int) -> Any:
    try:
        with np.errstate(over="ignore"):  # too large is not finite, which is said below
            array = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise EmbeddingError(f"the embedding model gave no numbers: {error}") from error
    if array.ndim != 2 or len(array) != count or array.shape[1] == 0:
        raise EmbeddingError(f"expected {count} vectors of one length, the model gave shape {array.shape}")
    if not np.isfinite(array).all():
        raise EmbeddingError("the embedding model gave NaN or infinity")
    return unit(array)
