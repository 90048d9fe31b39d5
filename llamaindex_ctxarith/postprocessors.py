"""The steps of the core behind any LlamaIndex retriever: alone, or as a chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict, Unpack

from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from ctxarith.algebra import Moment, Stage
from ctxarith.errors import ArgumentError
from ctxarith.evidence import Drop, Found, Hit
from ctxarith.models.rerankers import CrossEncoderReranker
from ctxarith.policy import Policy, Principal
from ctxarith.ports import TokenCounter
from ctxarith.stages.fuse import K
from ctxarith.stages.rank import FLOOR, HALF_DENSITY, HALF_LIFE_DAYS, WEIGHTS, Composite, composite
from ctxarith.stages.rerank import TOP, rerank
from llamaindex_ctxarith.budget import host_tokens, within
from llamaindex_ctxarith.caller import question_of
from llamaindex_ctxarith.chain import HitPostprocessor, Kept, log
from llamaindex_ctxarith.evidence_packet import EvidencePacket
from llamaindex_ctxarith.nodes import NodeReader
from llamaindex_ctxarith.policy_gate import PolicyGate
from llamaindex_ctxarith.succession import succeeded
from llamaindex_ctxarith.words import fused_with_words

dispatcher = get_dispatcher(__name__)


class Bm25Fusion(HitPostprocessor):
    """Fuses the order of the nodes with BM25 over their texts, by reciprocal rank.

    For candidates of a retriever that knows no words; what our retriever found by words stays as it is.
    Statistics are those of the nodes alone, so put the gate before. Nodes that share no word with the
    question keep their own rank and gain nothing.

    Args:
        k: the constant of RRF.
        weights: of the order as it was, and of BM25.
    """

    k: float = K
    weights: tuple[float, float] = (1.0, 1.0)

    def _step(self, hits: list[Hit], moment: Moment) -> Kept:
        return fused_with_words(hits, moment, k=self.k, weights=self.weights), []


class Supersession(HitPostprocessor):
    """Leaves out what a newer node replaces, and puts the newer one into its place.

    Decided over the given nodes alone: by slots (`fields={"slots": [...], "subject": ...}`, or
    `SlotExtractor` at ingest) and by `supersedes`. A successor that was not retrieved is
    not known here; `CtxArithRetriever` decides over all that the caller may see.
    """

    def _step(self, hits: list[Hit], moment: Moment) -> Kept:
        return succeeded(hits, moment.now)


class CrossEncoderRerank(HitPostprocessor):
    """Orders the first nodes by a model that reads question and passage together.

    A model that fails or is late changes nothing but for a warning in the log. Scores are mapped to
    0..1; the scored stand above the rest, whose score becomes 0.

    Args:
        scorer: a `ctxarith` scorer, or a function from (query, passages) with `scale`; by default
            `CrossEncoderReranker()`.
        scale: "logit" or "unit", for a scorer that does not declare it.
        top: how many are scored.
        keep: how many stay; all by default. Successors and current assertions of slots always do.
        seconds: the time limit.

    Raises:
        ArgumentError: names the parameter.
        MissingExtra: no scorer is given, and sentence-transformers is not installed.
    """

    scorer: Any = Field(default=None, exclude=True)
    scale: str | None = None
    top: int | None = TOP
    keep: int | None = None
    seconds: float | None = None
    _stage: Stage = PrivateAttr()

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        scorer = CrossEncoderReranker() if self.scorer is None else self.scorer
        self._stage = rerank(scorer, top=self.top, keep=self.keep, seconds=self.seconds, scale=self.scale)

    def split(
        self, nodes: Sequence[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> tuple[list[NodeWithScore], list[Drop]]:
        """See `HitPostprocessor.split`; without a question nothing is scored."""
        query = question_of(query_bundle)
        if not query.strip():
            return list(nodes), []
        name = str(getattr(self.scorer, "name", None) or type(self.scorer).__name__)
        dispatcher.event(
            ReRankStartEvent(query=query, nodes=list(nodes), top_n=self.top or len(nodes), model_name=name)
        )
        kept, dropped = super().split(nodes, query_bundle)
        dispatcher.event(ReRankEndEvent(nodes=kept))
        return kept, dropped

    def _step(self, hits: list[Hit], moment: Moment) -> Kept:
        kept, dropped = self._stage(hits, moment)
        said = self._stage.note(kept, dropped, moment)
        if said.startswith("not reranked"):
            log.warning("CrossEncoderRerank: %s", said)
        return list(kept), list(dropped)


class CompositeRank(HitPostprocessor):
    """Orders by `0.40 * relevance + 0.35 * recency + 0.25 * density`; see `ctxarith.composite`.

    Relevance is the reranker's mapped score where there is one, else what our retriever or `Bm25Fusion`
    found, else the node's own score.

    Args:
        rank: "auto" leaves the order where nothing is dated, and lifts no node of less than half the
            best relevance; "composite" is the plain formula.
        scores: of foreign nodes: "unit" for 0 to 1 (cosine; others count as no evidence), or "rank"
            where the order says more than the number (RRF, BM25, `exp(-distance)`): 61 / (60 + rank).
        weights, half_life_days, half_density: see `ctxarith.composite`.
    """

    rank: Literal["auto", "composite"] = "auto"
    scores: Literal["unit", "rank"] = "unit"
    weights: tuple[float, float, float] = WEIGHTS
    half_life_days: float = HALF_LIFE_DAYS
    half_density: float = HALF_DENSITY
    _stage: Composite = PrivateAttr()

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        formula = {"half_life_days": self.half_life_days, "half_density": self.half_density}
        stage: Any = composite(weights=self.weights, **formula)  # type: ignore[arg-type]
        self._stage = replace(stage, floor=FLOOR, only_dated=True) if self.rank == "auto" else stage

    def _step(self, hits: list[Hit], moment: Moment) -> Kept:
        kept, _ = self._stage(hits if self.scores == "unit" else list(map(_by_rank, hits)), moment)
        return list(kept), []


def _by_rank(hit: Hit) -> Hit:
    found: tuple[Found, ...] = tuple(replace(one, share=(K + 1) / (K + one.rank)) for one in hit.found_by)
    return replace(hit, found_by=found)


class TokenBudget(BaseNodePostprocessor):
    """Keeps what fits into a number of tokens, in order; skips what does not.

    Counted is what the model reads: each node's text with its visible metadata, joined as LlamaIndex
    joins them. If nothing fits, the first node is cut at the end of a sentence, and marked.

    Args:
        tokens: the limit; leave room for the prompt and the history beside it.
        top: at most this many nodes.
        tokenizer: a function from text to a count; LlamaIndex's own by default.
    """

    model_config = HitPostprocessor.model_config

    tokens: int = Field(default=400, ge=0)
    top: int | None = Field(default=None, ge=1)
    tokenizer: Callable[[str], int] | None = Field(default=None, exclude=True)
    _reader: NodeReader = PrivateAttr(default_factory=NodeReader)

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex stores it."""
        return cls.__name__

    def split(self, nodes: Sequence[NodeWithScore]) -> tuple[list[NodeWithScore], list[Drop]]:
        """The nodes that stay, and the others with their reasons."""
        count: TokenCounter = self.tokenizer or host_tokens
        return within(list(map(_plain, nodes[: self.top])), self.tokens, count, reader=self._reader)

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return self.split(nodes)[0]


def _plain(one: NodeWithScore) -> NodeWithScore:
    """With a score that JSON can hold; rerankers of others give numbers of numpy."""
    if one.score is None or type(one.score) is float:
        return one
    return one.model_copy(update={"score": float(one.score)})


class Served(TypedDict, total=False):
    """What a chain serves: at most `top` nodes (5) within `tokens` (400); with marks, unless `cite=False`."""

    top: int | None
    tokens: int
    cite: bool


def ctxarith_postprocessors(
    *,
    principal: Principal | None = None,
    policy: Policy | None = None,
    fields: Mapping[str, Any] | None = None,
    scorer: Any = None,
    **served: Unpack[Served],
) -> list[BaseNodePostprocessor]:
    """The chain for `node_postprocessors=`: gate, words, supersession, cross-encoder, formula, marks, budget.

    Put no postprocessor behind it that sorts by score or adds nodes. `NodePacket.of(response.source_nodes)`
    then checks what the answer cites.

    Args:
        principal: who asks; `acting_as` overrules it.
        policy: the rules beside the caller's own rights.
        fields: which metadata keys hold which fields of ours; see `NodeReader`.
        scorer: reads question and passage together, such as `CrossEncoderReranker()`; none by default.
        **served: see `Served`; the marks count too.

    Raises:
        ArgumentError: an option that is not known.
    """
    if unknown := sorted(set(served) - set(Served.__annotations__)):
        raise ArgumentError("served", unknown, f"known are {', '.join(Served.__annotations__)}")
    marks = [EvidencePacket(fields=fields)] if served.get("cite", True) else []
    reranking = [] if scorer is None else [CrossEncoderRerank(scorer=scorer, fields=fields)]
    return [
        PolicyGate(principal=principal, policy=policy, fields=fields),
        Bm25Fusion(fields=fields),
        Supersession(fields=fields),
        *reranking,
        CompositeRank(fields=fields),
        # Before the budget, which counts what they add.
        *marks,
        TokenBudget(tokens=served.get("tokens", 400), top=served.get("top", 5)),
    ]
