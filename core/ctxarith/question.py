"""The everyday question as a pipeline: what `Corpus.retrieve` builds from its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctxarith.algebra import Pipeline, Stage, lexical, semantic, superseded
from ctxarith.errors import ArgumentError
from ctxarith.predicate import Predicate
from ctxarith.scopes import Scope, everyone, scope
from ctxarith.stages.assemble import Template, budget
from ctxarith.stages.fuse import rrf
from ctxarith.stages.rank import auto, composite, top
from ctxarith.stages.rerank import Rerank
from ctxarith.where import Where, where

ScopeLike = str | Scope | Sequence[str] | None

# How each way to rank orders what was fused; "fused" leaves it.
_RANKS: dict[str, Stage | None] = {
    "auto": auto(),
    "fused": None,
    "composite": composite(),
    "relevance": composite(weights=(1, 0, 0)),
}
_WORDS = ("plain", "exact", "fuzzy_prefix")


def guard(given: ScopeLike) -> Predicate:
    """The scope of a question; `None` is all that the caller may see, `[]` is nothing."""
    if given is None:
        return everyone
    if isinstance(given, Scope):
        return given
    return scope(given)


def reranking(stage: Rerank | None, wanted: bool | int) -> Stage | None:
    """The corpus's reranking stage as one question wants it: not, as it is, or over so many hits.

    Raises:
        ArgumentError: the corpus has no reranker, or the number is below 1.
    """
    if not isinstance(wanted, int) or (wanted is not False and wanted < 1):
        raise ArgumentError("rerank", wanted, "True, False, or how many of the best hits to read")
    if wanted is False:
        return None
    if stage is None:
        raise ArgumentError("rerank", wanted, "this corpus has no reranker: open it with reranker=")
    return stage if wanted is True else replace(stage, top=wanted)


@dataclass(frozen=True, slots=True)
class Question:
    """What a question is asked under; `pipeline()` writes it in the algebra."""

    scope: ScopeLike = None
    where: Where | None = None
    top: int | None = 5
    tokens: int | None = 400
    rank: str = "auto"
    include_superseded: bool = False
    template: Template | None = None
    order: str = "rank"
    group_by: str | None = None
    reranking: Stage | None = None
    words: str = "plain"

    def pipeline(self) -> Pipeline:
        """`((semantic | lexical) & scope & where) - superseded >> rrf() >> rank >> top >> budget`.

        With `reranking`, that stage stands after `rrf()`.

        Raises:
            ArgumentError, PredicateError, ScopeError: name what is wrong.
        """
        if not isinstance(self.include_superseded, bool):
            raise ArgumentError("include_superseded", self.include_superseded, "True or False")
        if not isinstance(self.rank, str) or self.rank not in _RANKS:
            raise ArgumentError("rank", self.rank, f"one of {', '.join(_RANKS)}")
        if not isinstance(self.words, str) or self.words not in _WORDS:
            raise ArgumentError("words", self.words, f"one of {', '.join(_WORDS)}")
        sources = (semantic | lexical)(exact=self.words == "exact", fuzzy_prefix=self.words == "fuzzy_prefix")
        found = sources & guard(self.scope) & where(self.where)
        pipeline = (found if self.include_superseded else found - superseded) >> rrf(group_by=self.group_by)
        if self.reranking is not None:
            pipeline = pipeline >> self.reranking
        stage = _RANKS[self.rank]
        if stage is not None:
            pipeline = pipeline >> stage
        if self.top is not None:
            pipeline = pipeline >> top(self.top)
        return pipeline >> budget(self.tokens, template=self.template, order=self.order)
