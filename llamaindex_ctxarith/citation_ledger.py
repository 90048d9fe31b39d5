"""What answers have cited, written into the thread of the caller who got them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from llama_index.core.agent.workflow import AgentOutput, ToolCallResult
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.bridge.pydantic import ConfigDict, PrivateAttr
from llama_index.core.instrumentation.events.synthesis import SynthesizeEndEvent
from llama_index.core.schema import NodeWithScore
from llama_index.core.types import TokenAsyncGen, TokenGen
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler

from ctxarith.packet.citations import Citations
from ctxarith.session import Session
from llamaindex_ctxarith.evidence_packet import NodePacket
from llamaindex_ctxarith.retriever import CtxArithRetriever

log = logging.getLogger(__name__)


class CitationLedger(BaseEventHandler):
    """Listens to query and chat engines: what an answer cites is cited last in its thread.

    A thread remembers a bounded number of sources; those that answers rest on stay longest. The thread is the
    one of `acting_as`, and the principal's own. A streamed answer counts when it has been read to its end, or
    left. Marks that name nothing, and sources that the caller may not see, are passed over. A failure is
    logged, and harms no answer. In an event loop the writing is done in a thread beside it; see `wait`.

    Args:
        retriever: whose corpus keeps the threads.

    >>> retriever = CtxArithRetriever.from_documents([])
    >>> with CitationLedger(retriever=retriever).listening() as ledger:
    ...     pass  # engine.query(...) within acting_as(principal, thread_id="t-1")
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    retriever: CtxArithRetriever
    _worker: ThreadPoolExecutor | None = PrivateAttr(default=None)
    _waiting: set[Future[None]] = PrivateAttr(default_factory=set)

    @classmethod
    def class_name(cls) -> str:
        """The name of the handler."""
        return "CitationLedger"

    @contextmanager
    def listening(self) -> Iterator[CitationLedger]:
        """Hear every engine of this process within the block."""
        root = get_dispatcher()
        root.add_event_handler(self)
        try:
            yield self
        finally:
            # Another ledger of the same retriever is equal to this one.
            root.event_handlers[:] = [one for one in root.event_handlers if one is not self]
            self.wait()

    def handle(self, event: Any, **_: Any) -> None:
        """Record what a synthesizer's answer cites, now or when it has been streamed."""
        if not isinstance(event, SynthesizeEndEvent):
            return
        thread = event.tags.get("thread_id")
        response = event.response
        if not isinstance(thread, str) or not response.source_nodes:
            return
        try:
            # The caller is known here; who reads a stream may know nothing of it.
            session, packet = self.retriever.session(thread), NodePacket.of(response.source_nodes)
        except Exception as error:
            log.warning("an answer's citations were not recorded: %s", error)
            return
        heard = _Heard(lambda answer: self._later(session, packet, answer))
        if isinstance(response, StreamingResponse):
            response.response_gen = heard.through(response.response_gen)
        elif isinstance(response, AsyncStreamingResponse):
            response.response_gen = heard.athrough(response.response_gen)
        else:
            self._later(session, packet, str(response))

    def record(
        self, answer: str, nodes: Sequence[NodeWithScore], *, thread_id: str | None = None
    ) -> Citations:
        """Record by hand what an answer cites of the nodes that were served for it.

        Args:
            answer: text.
            nodes: `response.source_nodes`, or the `raw_output` of a `RetrieverTool`.
            thread_id: of the caller; the thread of `acting_as` by default, without one nothing is written.

        Raises:
            PrincipalRequired, StoreError.
        """
        return self._recorded(answer, NodePacket.of(nodes), thread_id)

    async def follow(self, run: Any, *, thread_id: str | None = None) -> AgentOutput:
        """Await a run of an agent and record what its answer cites of what its tools have found.

        Args:
            run: `agent.run(...)`, whose events nobody else reads.
            thread_id: as for `record`.
        """
        found: list[list[NodeWithScore]] = []
        async for event in run.stream_events():
            if isinstance(event, ToolCallResult):
                found.append(nodes_of(event.tool_output.raw_output))
        output: AgentOutput = await run
        served = [nodes for nodes in found if nodes]
        # Each call counts from one, so that after several a number names nothing.
        packet = NodePacket.of([one for nodes in served for one in nodes], by_place=len(served) == 1)
        await asyncio.to_thread(self._recorded, str(output), packet, thread_id)
        return output

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until everything that was heard is written."""
        return not wait(list(self._waiting), timeout).not_done

    def _recorded(self, answer: str, packet: NodePacket, thread_id: str | None) -> Citations:
        found = packet.verify_citations(answer)
        session = self.retriever.session(thread_id)
        if session is not None:
            session.cite(packet.cited_sources(answer))
        return found

    def _later(self, session: Session | None, packet: NodePacket, answer: str) -> None:
        def write() -> None:
            try:
                if session is not None:
                    session.cite(packet.cited_sources(answer))
            except Exception as error:
                log.warning("an answer's citations were not recorded: %s", error)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            write()
            return
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "ctxarith-citations")
        done = self._worker.submit(write)
        self._waiting.add(done)
        done.add_done_callback(self._waiting.discard)


class _Heard:
    """Passes a stream on and hands over its text when it ends, however it ends."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told

    def through(self, stream: Any) -> TokenGen:
        said: list[str] = []
        try:
            for part in stream:
                said.append(part)
                yield part
        finally:
            self._told("".join(said))

    async def athrough(self, stream: Any) -> TokenAsyncGen:
        said: list[str] = []
        try:
            async for part in stream:
                said.append(part)
                yield part
        finally:
            self._told("".join(said))


def nodes_of(output: Any) -> list[NodeWithScore]:
    """The nodes in what a tool returned: those of a retriever, or the sources of a query engine's answer."""
    found = getattr(output, "source_nodes", output)
    several = found if isinstance(found, list | tuple) else ()
    return [one for one in several if isinstance(one, NodeWithScore)]
