"""A query engine whose evidence is checked before the model is asked, and its answer before it leaves."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from llama_index.core import PromptTemplate
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import Response
from llama_index.core.llms import LLM
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.response_synthesizers import BaseSynthesizer, get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index_instrumentation import get_dispatcher

from ctxarith.errors import ArgumentError, Withheld
from ctxarith.memory.options import whole_number
from ctxarith.packet.citations import Citations
from ctxarith.packet.guard import Guard
from ctxarith.packet.handle import Packet
from ctxarith.packet.request import TOKENS
from ctxarith.packet.verdict import REFRESH
from ctxarith.session import Session
from llamaindex_ctxarith.evidence_packet import cite
from llamaindex_ctxarith.retriever import CtxArithRetriever

dispatcher = get_dispatcher(__name__)

# What an answer is withheld as when it cites what was not served.
UNSUPPORTED = "unsupported"
_PROMPT = PromptTemplate(
    "Evidence is below.\n"
    "---------------------\n"
    "{context_str}\n"
    "---------------------\n"
    "Answer the question from this evidence alone. Put the mark of its evidence, such as [1], behind every "
    "sentence.\n"
    "Question: {query_str}\n"
    "Answer: "
)


@dataclass
class VerifiedResponse(Response):
    """An answer that was released, with the packet it rests on and what it cites.

    `metadata` has both as JSON values: `ctx_packet` (the manifest) and `ctx_citations`.

    Args:
        citations: supported, unknown and wrong-version marks, and sentences without any.
        packet: to `revalidate` before the answer is used once more.
    """

    citations: Citations = field(default_factory=lambda: Citations({}, (), (), ()))
    packet: Packet | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """One question under way."""

    packet: Packet
    guard: Guard
    nodes: list[NodeWithScore]
    page: list[NodeWithScore]
    session: Session | None


class VerifiedQueryEngine(BaseQueryEngine):
    """Answers from an evidence packet: revalidated before the model is called and before the answer leaves.

    The model reads the packet's page, whose marks it is asked to cite. `response.citations` says which are
    supported. If the evidence has changed meanwhile, the question is asked once more; if it was revoked or
    cannot be checked, nothing leaves. A stream cannot be recalled, so there is none. Within a thread
    (`acting_as`), what the answer cites is cited last.

    Args:
        retriever: finds the evidence, for the caller of the request.
        llm: `Settings.llm` by default.
        synthesizer: in place of `llm`; one that does not stream.
        tokens: a budget over the page.
        task: what the packets are for.
        strict: withhold an answer that has an unknown or wrong mark, or a sentence without any.

    Raises:
        ArgumentError: names the parameter.
        Withheld: when asked: `verdict` and `reasons` say why.
    """

    def __init__(
        self,
        retriever: CtxArithRetriever,
        *,
        llm: LLM | None = None,
        synthesizer: BaseSynthesizer | None = None,
        tokens: int = TOKENS,
        task: str = "",
        strict: bool = False,
    ) -> None:
        if not isinstance(retriever, CtxArithRetriever):
            raise ArgumentError("retriever", retriever, "a CtxArithRetriever, whose corpus makes the packets")
        whole_number("tokens", tokens, least=1)
        for name, value, kind in (("task", task, str), ("strict", strict, bool)):
            if not isinstance(value, kind):
                raise ArgumentError(name, value, f"a {kind.__name__}")
        if synthesizer is not None and not isinstance(synthesizer, BaseSynthesizer):
            raise ArgumentError("synthesizer", synthesizer, "a synthesizer of LlamaIndex")
        if llm is not None and not isinstance(llm, LLM):
            raise ArgumentError("llm", llm, "an LLM of LlamaIndex")
        if synthesizer is not None and getattr(synthesizer, "_streaming", False):
            rule = "an answer is checked before it leaves, so it cannot be streamed: leave streaming=True out"
            raise ArgumentError("synthesizer", synthesizer, rule)
        super().__init__(retriever.callback_manager)
        self._retriever = retriever
        self._synthesizer = synthesizer or get_response_synthesizer(
            llm=llm, text_qa_template=_PROMPT, callback_manager=self.callback_manager
        )
        self._tokens = tokens
        self._task = task
        self._strict = strict

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """What the retriever finds; no packet is made of it."""
        return self._retriever.retrieve(query_bundle)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"response_synthesizer": self._synthesizer}

    def _query(self, query_bundle: QueryBundle) -> VerifiedResponse:
        try:
            return self._answered(query_bundle)
        except Withheld as error:
            if error.verdict != REFRESH:
                raise
        # The evidence has changed meanwhile.
        return self._answered(query_bundle)

    @dispatcher.span
    async def _aquery(self, query_bundle: QueryBundle) -> VerifiedResponse:
        try:
            return await self._aanswered(query_bundle)
        except Withheld as error:
            if error.verdict != REFRESH:
                raise
        return await self._aanswered(query_bundle)

    def _answered(self, bundle: QueryBundle) -> VerifiedResponse:
        work = self._begun(bundle)
        return self._ended(work, self._synthesizer.synthesize(bundle, work.page))

    async def _aanswered(self, bundle: QueryBundle) -> VerifiedResponse:
        work = await asyncio.to_thread(self._begun, bundle)
        said = await self._synthesizer.asynthesize(bundle, work.page)
        return await asyncio.to_thread(self._ended, work, said)

    def _begun(self, bundle: QueryBundle) -> _Work:
        principal = self._retriever.caller.principal
        result = self._retriever.result(bundle)
        packet = self._retriever.corpus.packet(
            result, principal=principal, task=self._task, tokens=self._tokens, top=max(1, len(result.hits))
        )
        guard = packet.guard(principal).__enter__()
        found = {(hit.id, hit.record.version): hit for hit in result.hits}
        nodes = self._retriever.nodes([found[one.id, one.version] for one in packet.stored.holdings])
        for mark, one in enumerate(nodes, start=1):
            cite(one.node, f"[{mark}]")
        page = [NodeWithScore(node=TextNode(text=guard.text, id_=packet.manifest.packet_id), score=1.0)]
        return _Work(packet, guard, nodes, page if nodes else [], self._retriever.session())

    def _ended(self, work: _Work, said: Any) -> VerifiedResponse:
        answer = said.response if isinstance(said.response, str) else str(said)
        citations = work.packet.verify_citations(answer)
        if self._strict and work.nodes and not citations.complete:
            reasons = [
                *(f"[{mark}] names nothing that was served" for mark in citations.unknown),
                *(f"[{mark}] was served at another version" for mark in citations.wrong_version),
                *(f"without a mark: {sentence}" for sentence in citations.uncited),
            ]
            raise Withheld(UNSUPPORTED, reasons, "ask again, or without strict=True")
        released = work.guard.release(answer)
        if work.session is not None:
            work.session.cite(list(dict.fromkeys(one.source_id for one in citations.supported.values())))
        told = {"ctx_packet": json.loads(work.packet.manifest.as_json()), "ctx_citations": _plain(citations)}
        by_node = {one.node.node_id: one.node.metadata for one in work.nodes}
        return VerifiedResponse(released, work.nodes, {**by_node, **told}, citations, work.packet)


def _plain(citations: Citations) -> dict[str, Any]:
    supported = {mark: f"{one.source_id}@{one.version}" for mark, one in citations.supported.items()}
    return {
        "supported": supported,
        "unknown": list(citations.unknown),
        "wrong_version": list(citations.wrong_version),
        "uncited": list(citations.uncited),
        "complete": citations.complete,
    }
