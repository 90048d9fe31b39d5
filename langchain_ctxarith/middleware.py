"""Middleware for `create_agent`: evidence before each answer, history within a budget, both under policy."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Literal

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, run_in_executor
from langchain_core.runnables.config import ensure_config

from ctxarith.errors import ArgumentError, Withheld
from ctxarith.packet.handle import Packet
from ctxarith.packet.verdict import REUSE
from ctxarith.policy import Principal
from ctxarith.ports import Summarizer
from langchain_ctxarith.answers import WITHHELD, Served, answer_of, is_final, noted, objections, withheld
from langchain_ctxarith.caller import principal_of, thread_of
from langchain_ctxarith.compaction import Histories, Key
from langchain_ctxarith.evidence import CHANGED, CURRENT, Standing, all_behind, held_by, packed, seen_behind
from langchain_ctxarith.placing import split, with_evidence, with_summary
from langchain_ctxarith.retriever import CtxArithRetriever
from langchain_ctxarith.tool import NOTHING, as_agent_tool
from langchain_ctxarith.withdrawal import readable

# Packets of turns that are going on; the least recently used leave, and are made anew.
_PACKETS = 256
# LangGraph streams no tokens of a model call that bears it.
_NO_STREAM = "nostream"


@dataclass(frozen=True, slots=True)
class _Call:
    """One model call: who asks, in which thread, with which config."""

    config: RunnableConfig
    principal: Principal | None
    thread: str | None

    @property
    def key(self) -> Key | None:
        """What is remembered between calls is remembered for this caller alone."""
        if self.thread is None:
            return None
        who = self.principal
        return (self.thread,) if who is None else (who.tenant, who.user or repr(who), self.thread)


@dataclass(frozen=True, slots=True)
class _Fresh:
    """The packet of a turn that is going on, and the stage that found it."""

    packet: Packet
    stage: str


class CtxArithMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives an agent its evidence at every turn, and keeps its history within a budget.

    Before each model call: what was found or said earlier and no longer holds for this caller is taken out
    of the request; history beyond the budget becomes a summary; the evidence for the user's question, a
    packet, stands before it. Before the answer leaves, its evidence is looked at again: if it no longer
    holds, the model is asked once more with fresh evidence, and if that does not help the answer is
    withheld. What an answer rests on and cites is noted in `response_metadata["ctxarith"]`, and the sources
    that it cites are recorded in the thread. The agent's state stays whole: only requests are changed.

    Args:
        retriever: its `principal`, `filter`, `k`, `thread_key` and the rest hold here too.
        context: "inject" puts evidence before each question; "tool" gives the model the tool
            `retrieve_context`; "none" does neither, for agents that have a tool of their own.
        max_context_tokens: of the evidence that is injected.
        max_history_tokens: of all that was said before the present turn, summary included; `None` leaves
            history as it is. The present turn is never cut.
        keep_recent: how many of the last messages come first, word for word.
        summarizer: see `RollingMemory`; by rule, without a model, by default. It works behind.
        retries: how often a model is asked again when its evidence changed while it wrote.
        hold_answers: let no token out before the answer was checked. Tokens that are streamed while the model
            writes cannot be called back.
        name: of the instance, for agents with several.
        **memory: `tokenizer`, `slots`, `clock` and the others of `MemoryOptions`.

    Raises:
        ArgumentError: names the argument.

    `create_agent(model, middleware=[CtxArithMiddleware(retriever)], checkpointer=..., context_schema=...)`
    """

    def __init__(
        self,
        retriever: CtxArithRetriever,
        *,
        context: Literal["inject", "tool", "none"] = "inject",
        max_context_tokens: int = 1_200,
        max_history_tokens: int | None = 2_000,
        keep_recent: int = 6,
        summarizer: Summarizer | None = None,
        retries: int = 1,
        hold_answers: bool = True,
        name: str | None = None,
        **memory: Any,
    ) -> None:
        super().__init__()
        if not isinstance(retriever, CtxArithRetriever):
            raise ArgumentError("retriever", retriever, "a CtxArithRetriever")
        if context not in ("inject", "tool", "none"):
            raise ArgumentError("context", context, '"inject", "tool" or "none"')
        for told, value, least in (("max_context_tokens", max_context_tokens, 1), ("retries", retries, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ArgumentError(told, value, f"a whole number, {least} or more")
        self.retriever = retriever
        self.tools = [as_agent_tool(retriever)] if context == "tool" else []
        self._injects = context == "inject"
        self._tokens = max_context_tokens
        self._retries = retries
        self._holds = hold_answers
        self._name = name or type(self).__name__
        self._histories = (
            None
            if max_history_tokens is None
            else Histories(
                max_tokens=max_history_tokens, keep_recent=keep_recent, summarizer=summarizer, **memory
            )
        )
        self._fresh: OrderedDict[tuple[Any, ...], _Fresh] = OrderedDict()
        self._lock = Lock()

    @property
    def name(self) -> str:
        """Two middlewares of one agent need two names."""
        return self._name

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Prepare the request, ask the model, check its answer; see the class."""
        config = ensure_config()
        for left in range(self._retries, -1, -1):
            prepared, served = self._prepared(request, config)
            response = self._checked(handler(prepared), served, config, last=not left)
            if response is not None:
                return response
        raise AssertionError("unreachable")

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """`wrap_model_call`, with all that is not the model in a worker thread."""
        config = ensure_config()
        for left in range(self._retries, -1, -1):
            prepared, served = await run_in_executor(None, self._prepared, request, config)
            answered = await handler(prepared)
            check = partial(self._checked, answered, served, config, last=not left)
            response = await run_in_executor(None, check)
            if response is not None:
                return response
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Release the memories of all threads; the corpus stays its owner's to close."""
        if self._histories is not None:
            self._histories.close()

    def _prepared(
        self, request: ModelRequest[Any], config: RunnableConfig
    ) -> tuple[ModelRequest[Any], Served]:
        call = self._call(config)
        standing = Standing(self.retriever.corpus, call.principal, all_behind(request.messages))
        past, turn = split(readable(request.messages, standing))
        system, shown = request.system_message, past
        if self._histories is not None:
            compacted = self._histories.compacted(call.key, past)
            system, shown = with_summary(system, compacted.told), compacted.shown
        fresh, page = self._evidence(call, turn) if self._injects and turn else (None, "")
        earlier, present = split(request.messages)
        served = Served(
            packet=None if fresh is None else fresh.packet,
            stage="" if fresh is None else fresh.stage,
            numbered=() if fresh is None else held_by(fresh.packet),
            found=seen_behind(present, standing, CURRENT),
            earlier=seen_behind(earlier, standing, CURRENT, CHANGED),
        )
        messages: Any = [*shown, *(with_evidence(turn, page) if page else turn)]
        model = self._held_back(request.model)
        return request.override(messages=messages, system_message=system, model=model), served

    def _evidence(self, call: _Call, turn: list[BaseMessage]) -> tuple[_Fresh | None, str]:
        """The packet of the present question and its page; looked at now, made anew if need be."""
        question = turn[0].text
        if not question.strip():
            return None, ""
        name = None if call.key is None or turn[0].id is None else (*call.key, turn[0].id, question)
        fresh = self._fresh.get(name) if name is not None else None
        if fresh is None or fresh.packet.revalidate(call.principal).verdict != REUSE:
            answer = self.retriever.retrieve_evidence(question, config=call.config)
            corpus = self.retriever.corpus
            packet = packed(answer, corpus, call.principal, task=call.thread or "", tokens=self._tokens)
            fresh = _Fresh(packet, answer.trace.stage)
            self._keep(name, fresh)
        try:
            return fresh, fresh.packet.render(call.principal) if held_by(fresh.packet) else NOTHING
        except Withheld as error:
            return None, f"(Evidence is withheld: {error})"

    def _checked(
        self, response: ModelResponse[Any], served: Served, config: RunnableConfig, *, last: bool
    ) -> ModelResponse[Any] | None:
        """The response as it may leave; `None` to ask again."""
        answer = answer_of(response)
        if answer is None:
            return response
        call = self._call(config)  # the caller's rights may be others by now
        if is_final(answer, response):
            why = objections(served, self.retriever.corpus, call.principal)
            if why:
                return withheld(answer, WITHHELD, why) if last else None
        made, found = noted(response, answer, served)
        if call.thread is not None and found.supported:
            sources = [one.source_id for one in found.supported.values()]
            self.retriever.record_citations(call.thread, sources, config=config)
        return made

    def _call(self, config: RunnableConfig) -> _Call:
        retriever = self.retriever
        principal = principal_of(config, retriever.principal)
        return _Call(config, principal, thread_of(config, config.get("metadata"), retriever.thread_key))

    def _keep(self, name: tuple[Any, ...] | None, fresh: _Fresh) -> None:
        if name is None:
            return
        with self._lock:
            self._fresh[name] = fresh
            self._fresh.move_to_end(name)
            while len(self._fresh) > _PACKETS:
                self._fresh.popitem(last=False)

    def _held_back(self, model: BaseChatModel) -> BaseChatModel:
        if not self._holds or not isinstance(model, BaseChatModel):
            return model
        return model.model_copy(update={"tags": [*(model.tags or []), _NO_STREAM], "disable_streaming": True})
