"""The ways to come by a retriever: documents, texts, or a vector store that is there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from langchain_core.documents import Document

from ctxarith.corpus import Corpus
from ctxarith.errors import ArgumentError
from ctxarith.options import Options
from ctxarith.ports import Embedder
from langchain_ctxarith.documents import mapped
from langchain_ctxarith.writing import Writing


class Opening(Writing):
    """Factories; each opens a corpus, which `retriever.corpus.close()` gives back."""

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        embedding: Embedder | None = None,
        *,
        path: str | Path | None = None,
        corpus_options: Options | None = None,
        **settings: Any,
    ) -> Self:
        """A retriever over the corpus in a folder, new or not, with these documents added.

        Args:
            documents: what to add.
            embedding: any `Embeddings` of LangChain; an offline one by default.
            path: the folder, in which Chroma lies; in memory by default.
            corpus_options: what `Corpus.open` takes besides.
            **settings: of the retriever.
        """
        options = _with_embedder(corpus_options, embedding)
        corpus = Corpus.in_memory(**options) if path is None else Corpus.open(path, **options)
        try:
            retriever = cls(corpus=corpus, **settings)
            if documents:
                retriever.add_documents(documents)
        except BaseException:
            corpus.close()  # else a corpus that nobody holds keeps the folder locked
            raise
        return retriever

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        embedding: Embedder | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **settings: Any,
    ) -> Self:
        """`from_documents` of plain texts."""
        for name, given in (("metadatas", metadatas), ("ids", ids)):
            if given is not None and len(given) != len(texts):
                raise ArgumentError(name, given, f"one for each of the {len(texts)} texts")
        documents = [
            Document(
                id=None if ids is None else ids[n],
                page_content=text,
                metadata={} if metadatas is None else metadatas[n],
            )
            for n, text in enumerate(texts)
        ]
        return cls.from_documents(documents, embedding, **settings)

    @classmethod
    def from_vectorstore(
        cls,
        vectorstore: Any,
        *,
        fields: Mapping[str, Any] | None = None,
        mode: Literal["owned", "followed"] = "owned",
        path: str | Path | None = None,
        corpus_options: Options | None = None,
        **settings: Any,
    ) -> Self:
        """A retriever over a `langchain_chroma.Chroma` that you have; nothing is embedded again.

        Args:
            vectorstore: made with its embedding model, which embeds the questions.
            fields: which of your metadata keys hold tenant, scope, dates; see `Corpus.adopt`.
            mode: "owned": write through this retriever from now on. "followed": go on writing through the
                vector store, and call `retriever.corpus.sync()` after it.
            path: a folder for our index; in memory by default.
            corpus_options: what `Corpus.adopt` takes besides.
            **settings: of the retriever.

        Raises:
            ArgumentError: it is no Chroma vector store, or has no embedding model.
        """
        collection = getattr(vectorstore, "_collection", None)
        embedding = getattr(vectorstore, "embeddings", None)
        if collection is None:
            rule = "a langchain_chroma.Chroma; of other stores take the documents to from_documents"
            raise ArgumentError("vectorstore", vectorstore, rule)
        if embedding is None:
            rule = "a vector store made with embedding_function=, which is to embed the questions"
            raise ArgumentError("vectorstore", vectorstore, rule)
        options = _with_embedder(corpus_options, embedding)
        corpus = Corpus.adopt(collection, fields=mapped(fields), mode=mode, path=path, **options)
        try:
            return cls(corpus=corpus, fields=fields, **settings)
        except BaseException:
            corpus.close()
            raise


def _with_embedder(options: Options | None, embedding: object) -> Any:
    given = dict(options or {})
    if embedding is not None and given.setdefault("embedder", embedding) is not embedding:
        raise ArgumentError("corpus_options", "embedder", "named twice: leave it out here")
    return given
