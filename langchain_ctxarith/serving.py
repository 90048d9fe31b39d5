"""The evidence for the question of a turn: a packet, kept while the turn goes on and checked at each call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from ctxarith.errors import Withheld
from ctxarith.packet.handle import Packet
from ctxarith.packet.verdict import REFRESH, REUSE
from ctxarith.policy import Principal
from ctxarith.session import CORPUS
from langchain_ctxarith.compaction import Key
from langchain_ctxarith.evidence import Held, held_by, packed
from langchain_ctxarith.retriever import CtxArithRetriever
from langchain_ctxarith.tool import NOTHING

# Of turns that are going on; the least recently used leave, and are made anew.
_CAPACITY = 256
TOO_LONG = "(Records were found, and each is too long to be shown here.)"


@dataclass(frozen=True, slots=True)
class Call:
    """One model call: who asks, in which thread, with which config."""

    config: RunnableConfig
    principal: Principal | None
    thread: str | None

    @property
    def key(self) -> Key | None:
        """What is remembered between calls is remembered for this caller alone; nothing without a thread."""
        if self.thread is None:
            return None
        who = self.principal
        return (self.thread,) if who is None else (who.tenant, who.user or repr(who), self.thread)


@dataclass(frozen=True, slots=True)
class Fresh:
    """The evidence for a turn.

    Args:
        question: of the user.
        packet: made of what was found.
        held: its records, in the order of their marks.
        stage: which stage of the thread's session found them, "cited" or "corpus".
        found: how many records there were, shown or not.
    """

    question: str
    packet: Packet
    held: tuple[Held, ...]
    stage: str
    found: int


class Serving:
    """Makes the packets of turns; use it from any number of threads.

    Args:
        retriever: asked with the config of the run.
        tokens: the bound of a page.
    """

    def __init__(self, retriever: CtxArithRetriever, tokens: int) -> None:
        self._retriever = retriever
        self._tokens = tokens
        self._made: OrderedDict[tuple[Any, ...], Fresh] = OrderedDict()
        self._lock = Lock()

    def evidence(self, call: Call, turn: Sequence[BaseMessage]) -> tuple[Fresh | None, str]:
        """The packet for the user's message that begins a turn, and its page.

        It is looked at now, and made anew if it does not hold. Where its source cannot be looked at, there is
        no packet, and the page says why.
        """
        question = turn[0].text
        if not question.strip():
            return None, ""
        name = None if call.key is None or turn[0].id is None else (*call.key, turn[0].id, question)
        fresh = None if name is None else self._made.get(name)
        if fresh is None or fresh.packet.revalidate(call.principal).verdict != REUSE:
            # What is asked again has changed: what the thread has cited is not enough then.
            fresh = self._retrieved(call, question, whole=fresh is not None)
            self._keep(name, fresh)
        try:
            page = fresh.packet.render(call.principal)
            return fresh, page if fresh.held else TOO_LONG if fresh.found else NOTHING
        except Withheld as error:
            return None, f"(Evidence is withheld: {error})"

    def objections(self, call: Call, fresh: Fresh) -> tuple[str, ...]:
        """Why evidence may not be used any more; nothing if the same would be found and shown now."""
        found = fresh.packet.revalidate(call.principal)
        if found.verdict == REFRESH:
            again = self._retrieved(call, fresh.question, whole=True)
            if again.held == fresh.held:
                return ()
        return found.why

    def _retrieved(self, call: Call, question: str, *, whole: bool) -> Fresh:
        config, key = call.config, self._retriever.thread_key
        if whole and key is not None:
            kept = {name: one for name, one in config.get("configurable", {}).items() if name != key}
            config = {**config, "configurable": kept, "metadata": {}}
        answer = self._retriever.retrieve_evidence(question, config=config)
        corpus, task = self._retriever.corpus, call.thread or ""
        packet = packed(answer, corpus, call.principal, task=task, tokens=self._tokens)
        stage = CORPUS if whole else answer.trace.stage
        return Fresh(question, packet, held_by(packet, answer), stage, len(answer.hits))

    def _keep(self, name: tuple[Any, ...] | None, fresh: Fresh) -> None:
        if name is None:
            return
        with self._lock:
            self._made[name] = fresh
            self._made.move_to_end(name)
            while len(self._made) > _CAPACITY:
                self._made.popitem(last=False)
