"""Middleware for `create_agent`: evidence before each answer, history within a budget, both under policy.

Without `langchain` the import raises `MissingExtra`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig, run_in_executor
from langchain_core.runnables.config import ensure_config, patch_config, set_config_context

from ctxarith.errors import ArgumentError, MissingExtra
from ctxarith.memory.options import SMALLEST, MemoryOptions, whole_number
from ctxarith.options import utc_now
from ctxarith.ports import Summarizer

if find_spec("langchain") is None:
    raise MissingExtra(what="CtxArithMiddleware", package="langchain", extra="agents")

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse

from langchain_ctxarith.answers import Served, answer_of, noted, objections, withheld
from langchain_ctxarith.caller import principal_of, thread_of
from langchain_ctxarith.compaction import Histories
from langchain_ctxarith.evidence import Standing, all_behind, only_result, seen_behind
from langchain_ctxarith.placing import split, with_evidence, with_summary
from langchain_ctxarith.retriever import CtxArithRetriever
from langchain_ctxarith.serving import Call, Serving
from langchain_ctxarith.tool import as_agent_tool
from langchain_ctxarith.withdrawal import readable

_DESCRIPTION = (
    "Look up what is known. Each line begins with its citation mark, such as [contract@v3]: cite by it."
)
# LangGraph streams no tokens of a model call that bears it.
_NO_STREAM = "nostream"


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
        hold_answers: let no token out before the answer was checked, since tokens that are streamed while the
            model writes cannot be called back. `stream` and `astream` then show the answer as a whole;
            `astream_events` and callbacks also hear of a model call whose answer is not let out.
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
        whole_number("max_context_tokens", max_context_tokens, least=1)
        whole_number("retries", retries)
        self.retriever = retriever
        self.tools = [as_agent_tool(retriever, description=_DESCRIPTION)] if context == "tool" else []
        if not isinstance(hold_answers, bool):
            raise ArgumentError("hold_answers", hold_answers, "True or False")
        if name is not None and (not isinstance(name, str) or not name):
            raise ArgumentError("name", name, "a name for this instance")
        self._injects = context == "inject"
        self._serving = Serving(retriever, max_context_tokens)
        self._retries = retries
        self._holds = hold_answers
        self._name = name or type(self).__name__
        # A thread's memory is made of its messages, which the agent's checkpointer keeps.
        known = sorted(set(MemoryOptions.__annotations__) - {"store", "tenant", "user"})
        if unknown := sorted(set(memory) - set(known)):
            raise ArgumentError("memory", unknown, f"known are {', '.join(known)}")
        self._clock = memory.get("clock") or utc_now
        self._histories = None
        if max_history_tokens is not None:
            bound = whole_number("max_history_tokens", max_history_tokens, least=SMALLEST)
            self._histories = Histories(
                max_tokens=bound, keep_recent=keep_recent, summarizer=summarizer, **memory
            )

    @property
    def name(self) -> str:
        """Two middlewares of one agent need two names."""
        return self._name

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Prepare the request, ask the model, check its answer; see the class."""
        config, left = ensure_config(), self._retries
        while True:
            prepared, served = self._prepared(request, config)
            with set_config_context(self._quiet(config)) as context:
                answered = context.run(handler, prepared)
            response = self._checked(answered, served, config, last=not left)
            if response is not None:
                return response
            left -= 1

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """`wrap_model_call`, with all that is not the model in a worker thread."""
        config, left = ensure_config(), self._retries
        while True:
            prepared, served = await run_in_executor(None, self._prepared, request, config)
            with set_config_context(self._quiet(config)) as context:
                answered = await asyncio.create_task(_awaited(handler(prepared)), context=context)
            check = partial(self._checked, answered, served, config, last=not left)
            response = await run_in_executor(None, check)
            if response is not None:
                return response
            left -= 1

    def close(self) -> None:
        """Release the memories of all threads; the corpus stays its owner's to close."""
        if self._histories is not None:
            self._histories.close()

    def _prepared(
        self, request: ModelRequest[Any], config: RunnableConfig
    ) -> tuple[ModelRequest[Any], Served]:
        call = self._call(config)
        standing = Standing(self.retriever, call.principal, all_behind(request.messages))
        past, turn = split(readable(request.messages, standing))
        system, shown = request.system_message, past
        if self._histories is not None:
            compacted = self._histories.compacted(call.key, past)
            system, shown = with_summary(system, compacted.told), compacted.shown
        fresh, page = self._serving.evidence(call, turn) if self._injects and turn else (None, "")
        earlier, present = split(request.messages)
        served = Served(
            fresh=fresh,
            numbered=only_result(present, standing) if fresh is None else fresh.held,
            found=seen_behind(present, standing),
            earlier=seen_behind(earlier, standing),
        )
        messages: Any = [*shown, *(with_evidence(turn, page) if page else turn)]
        model = self._held_back(request.model)
        return request.override(messages=messages, system_message=system, model=model), served

    def _checked(
        self, response: ModelResponse[Any], served: Served, config: RunnableConfig, *, last: bool
    ) -> ModelResponse[Any] | None:
        """The response as it may leave; `None` to ask again."""
        answer = answer_of(response)
        if answer is None:
            return response
        call = self._call(config)  # the caller's rights may be others by now
        says = answer.text.strip() or not answer.tool_calls or response.structured_response is not None
        if says and (why := self._objections(served, call)):
            return withheld(response, answer, served, why) if last else None
        made, found = noted(response, answer, served, self._clock())
        if call.thread is not None and found.supported:
            sources = [one.source_id for one in found.supported.values()]
            self.retriever.record_citations(call.thread, sources, config=config)
        return made

    def _objections(self, served: Served, call: Call) -> tuple[str, ...]:
        fresh = () if served.fresh is None else self._serving.objections(call, served.fresh)
        standing = Standing(self.retriever, call.principal, (*served.found, *served.earlier))
        return (*fresh, *objections(served, standing))

    def _call(self, config: RunnableConfig) -> Call:
        retriever = self.retriever
        principal = principal_of(config, retriever.principal)
        return Call(config, principal, thread_of(config, config.get("metadata"), retriever.thread_key))

    def _quiet(self, config: RunnableConfig) -> RunnableConfig:
        """The config under which the model runs: whichever it is, and whoever has exchanged it."""
        if not self._holds:
            return config
        quiet = patch_config(config)
        quiet["tags"] = [*(config.get("tags") or ()), _NO_STREAM]
        return quiet

    def _held_back(self, model: BaseChatModel) -> BaseChatModel:
        if not self._holds or not isinstance(model, BaseChatModel):
            return model
        # So that `astream_events` shows no token either.
        return model.model_copy(update={"disable_streaming": True})


async def _awaited(answer: Awaitable[ModelResponse[Any]]) -> ModelResponse[Any]:
    return await answer
