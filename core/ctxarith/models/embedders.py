"""Text to vectors."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ctxarith.errors import ArgumentError, EmbeddingError
from ctxarith.index.dense import unit
from ctxarith.ports import Embedder, Vector

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

    @cached_property
    def _model(self) -> Any:
        from wordllama import WordLlama

        spec = importlib.util.find_spec("wordllama")
        folder = Path(str(spec.origin)).parent if spec else Path()
        # Without these, loading asks the network first even though the weights are here.
        return WordLlama.load(cache_dir=folder, disable_download=True)


def checked_embedder(embedder: object) -> Embedder:
    """An object with `embed_documents` and `embed_query`, or a clear refusal."""
    if not isinstance(embedder, Embedder):
        raise ArgumentError(
            "embedder", embedder, "an object with embed_documents(texts) and embed_query(text)"
        )
    return embedder


def identity(embedder: object) -> str:
    """The name by which a corpus remembers its embedding model."""
    for attribute in ("name", "model_name", "model"):
        value = getattr(embedder, attribute, None)
        if isinstance(value, str) and value:
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
