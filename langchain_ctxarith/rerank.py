"""A reranking model as LangChain's document compressor."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, Self

from langchain_core.callbacks import Callbacks
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field, model_validator

from ctxarith.algebra import Moment
from ctxarith.evidence import Decision, Hit
from ctxarith.model import Record
from ctxarith.stages.rerank import Rerank, rerank

_SEEN = Decision(True, "", "")


class CtxArithReranker(BaseDocumentCompressor):
    """Reads each document together with the question, orders by it and keeps the first.

    For `ContextualCompressionRetriever(base_compressor=..., base_retriever=...)` over any retriever; a
    `CtxArithRetriever` reranks by itself with `search_kwargs={"rerank": True}`.

    Args:
        scorer: `CrossEncoderReranker()`, a LangChain `BaseCrossEncoder`, or a function from
            (query, passages) to one number each, higher is better.
        scale: "logit" or "unit": what the numbers are, for a scorer that does not say.
        top_n: how many documents are kept; `None` for all.
        seconds: the time limit; `None` for none.

    The copies that come back have `relevance_score` from 0 to 1 and the raw `ctx_rerank_score`. Equal scores
    stand as they stood. When the model fails or is late, the documents come back in their order, without
    these keys, and a `RuntimeWarning` says why.

    Raises:
        ArgumentError: the scorer declares no scale, or a number is out of its range.

    >>> short = CtxArithReranker(scorer=lambda q, texts: [-len(t) for t in texts], scale="logit", top_n=1)
    >>> [d.page_content for d in short.compress_documents([Document("long"), Document("two")], "q")]
    ['two']
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    scorer: Any = Field(repr=False)
    scale: str | None = None
    top_n: int | None = 3
    seconds: float | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._stage()
        return self

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The best documents, best first; copies, with id and metadata.

        Args:
            documents: in the order of whoever found them.
            query: the question.
            callbacks: not used.
        """
        given = list(documents)
        hits = [Hit(Record(id=f"{place}", text=one.page_content), _SEEN) for place, one in enumerate(given)]
        moment = Moment(datetime.now(UTC), len, _unknown, lambda hit: hit.record.text, query)
        kept, dropped = self._stage()(hits, moment)
        if given and not any(hit.reranked for hit in kept):
            warnings.warn(self._stage().note(kept, dropped, moment), RuntimeWarning, stacklevel=2)
        return [_scored(given[int(hit.id)], hit) for hit in kept]

    def _stage(self) -> Rerank:
        scorer = self.scorer
        if isinstance(scorer, BaseCrossEncoder):
            return rerank(
                _pairwise(scorer), top=None, keep=self.top_n, seconds=self.seconds, scale=self.scale
            )
        return rerank(scorer, top=None, keep=self.top_n, seconds=self.seconds, scale=self.scale)


def _pairwise(model: BaseCrossEncoder) -> Any:
    def score(query: str, passages: list[str]) -> list[float]:
        return model.score([(query, passage) for passage in passages])

    return score


def _unknown(one: Hit, other: Hit) -> NoReturn:
    raise NotImplementedError("documents from elsewhere have no vectors here")


def _scored(document: Document, hit: Hit) -> Document:
    told = (
        {} if hit.reranked is None else {"relevance_score": hit.score, "ctx_rerank_score": hit.reranked.score}
    )
    return Document(
        id=document.id, page_content=document.page_content, metadata={**document.metadata, **told}
    )
