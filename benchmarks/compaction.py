"""A long conversation through LangChain's SummarizationMiddleware and through ours: what is still known.

    python benchmarks/compaction.py [FOLDER] [--pairs 150] [--max-tokens 3000]

Two agents have the same conversation: questions and answers of LongMemEval (the folder; upstream is
https://github.com/xiaowu0162/LongMemEval), and among them decisions about made-up orders, some of which are
changed later. Then the last request of each is read: which decisions does the model still see as they
stand, and which in a form that was changed? The peer's summaries come from a stand-in that copies every
decision that it is shown in its last form, which no model does better; ours are made by rule, without one.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from memory import read, said
from pydantic import Field
from ranking import SHARED

from ctxarith import Corpus
from ctxarith.models.tokens import TiktokenCounter
from langchain_ctxarith import CtxArithMiddleware, CtxArithRetriever

EVERY = 5
# A trigger such as a share of a large context window gives.
LARGE = 20_000
DECISION = re.compile(r"We decided that the delivery date of order (KX-\d+) is (\d+ May)\.")
CONFIG: Any = {"configurable": {"thread_id": "one"}, "recursion_limit": 50}


class Spoken(BaseChatModel):
    """Says what a function makes of the messages, and remembers what it was sent last."""

    say: Callable[[Sequence[BaseMessage]], str]
    sent: list[Sequence[BaseMessage]] = Field(default_factory=list)
    calls: list[int] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "spoken"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.sent[:] = [messages]
        self.calls.append(len(messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.say(messages)))])


@dataclass
class Decisions:
    """What was decided about each order, and what that was before it was changed."""

    current: dict[str, str] = field(default_factory=dict)
    earlier: list[tuple[str, str]] = field(default_factory=list)

    def decide(self, order: str, day: str) -> str:
        """The sentence that decides it."""
        if order in self.current:
            self.earlier.append((order, self.current[order]))
        self.current[order] = day
        return f"We decided that the delivery date of order {order} is {day}."


def main() -> None:
    """Print one line for each way to keep a history."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("folder", nargs="?", type=Path, default=SHARED / "longmemeval16")
    parser.add_argument("--pairs", type=int, default=150, help="questions and answers in all")
    parser.add_argument("--max-tokens", type=int, default=3_000, help="of the history")
    given = parser.parse_args()
    pairs, decisions = conversation(given.folder, given.pairs)
    count = TiktokenCounter()
    whole = sum(count(text) for pair in pairs for text in pair)
    print(f"{len(pairs)} questions with their answers, {whole:,} tokens; {len(decisions.current)} decisions")
    print(f"stand, {len(decisions.earlier)} were changed; history within {given.max_tokens:,} tokens\n")
    print(f"{'':<48}{'known':>7}{'outdated':>9}{'tokens':>9}{'model calls':>13}{'kept':>13}")
    for way in ways(given.max_tokens):
        print(line(way, pairs, decisions))
    print(
        "\nknown: decisions that the last request shows as they stand; outdated: changed ones that it shows"
    )
    print(
        "as they were; tokens: of that request; model calls: for summaries, each of which a turn waited for;"
    )
    print("kept: messages in the agent's state, of all that were said. A long thread had all of it before.")


def conversation(folder: Path, count: int) -> tuple[list[tuple[str, str]], Decisions]:
    """Questions with their answers; every fifth is a decision, and later decisions change the first ones."""
    turns = [turn for one in read(folder) for turn in one.turns]
    texts = [(turn["metadata"]["role"], said(turn)) for turn in turns]
    found = [
        (first[1], second[1])
        for first, second in pairwise(texts)
        if (first[0], second[0]) == ("user", "assistant")
    ]
    decisions, pairs = Decisions(), []
    planted = count // EVERY
    for place, pair in enumerate(found[:count]):
        if place % EVERY:
            pairs.append((f"({place}) {pair[0]}", pair[1]))
            continue
        number = place // EVERY
        # The last third changes what the first third has decided.
        order = number if number < planted * 2 // 3 else number - planted * 2 // 3
        pairs.append((decisions.decide(f"KX-{order:03d}", f"{number % 28 + 1} May"), "Noted."))
    return pairs, decisions


@dataclass(frozen=True)
class Way:
    """A middleware, made with a model for summaries; `late` if it comes to a thread that is long already."""

    name: str
    make: Callable[[BaseChatModel], Any]
    late: bool = False


def ways(max_tokens: int) -> list[Way]:
    """One line of the table each."""

    def peer(trigger: int, **more: Any) -> Callable[[BaseChatModel], Any]:
        return lambda model: SummarizationMiddleware(model, trigger=("tokens", trigger), **more)

    def ours(model: BaseChatModel) -> Any:
        retriever = CtxArithRetriever(corpus=Corpus.in_memory())
        return CtxArithMiddleware(retriever, context="none", max_history_tokens=max_tokens)

    theirs, mine = "SummarizationMiddleware", "CtxArithMiddleware"
    return [
        Way(f"{theirs} at {max_tokens:,}", peer(max_tokens)),
        Way(f"{theirs} at {max_tokens:,}, keep 4", peer(max_tokens, keep=("messages", 4))),
        Way(f"{theirs} at {LARGE:,}", peer(LARGE)),
        Way(f"{theirs}, long thread", peer(max_tokens), late=True),
        Way(f"{theirs}, long thread, untrimmed", peer(max_tokens, trim_tokens_to_summarize=None), late=True),
        Way(mine, ours),
        Way(f"{mine}, long thread", ours, late=True),
    ]


def line(way: Way, pairs: Sequence[tuple[str, str]], decisions: Decisions) -> str:
    """Have the conversation, and read the last request."""
    answers = dict(pairs)
    oracle = Spoken(say=copied)
    model = Spoken(say=lambda sent: answers.get(last_question(sent), "Fine."))
    agent: Any = create_agent(model, middleware=[way.make(oracle)], checkpointer=InMemorySaver())
    if way.late:
        said: list[BaseMessage] = [one for q, a in pairs for one in (HumanMessage(q), AIMessage(a))]
        agent.invoke({"messages": [*said, HumanMessage("What is decided?")]}, CONFIG)
    else:
        for question, _ in [*pairs, ("What is decided?", "")]:
            agent.invoke({"messages": [HumanMessage(question)]}, CONFIG)
    request = "\n".join(one.text for one in model.sent[0])
    kept = len(agent.get_state(CONFIG).values["messages"])
    shown = {(found[1], found[2]) for found in DECISION.finditer(request)}
    known = sum((order, day) in shown for order, day in decisions.current.items())
    stale = sum(one in shown for one in decisions.earlier)
    return (
        f"{way.name:<48}{known:>4}/{len(decisions.current):<2}{stale:>6}/{len(decisions.earlier):<2}"
        f"{TiktokenCounter()(request):>9,}{len(oracle.calls):>13}{kept:>9}/{2 * len(pairs) + 2}"
    )


def last_question(sent: Sequence[BaseMessage]) -> str:
    """What the user asked last."""
    return next((one.text for one in reversed(sent) if isinstance(one, HumanMessage)), "")


def copied(sent: Sequence[BaseMessage]) -> str:
    """Every decision that is shown, in its last form: no model can do better at what it is asked about."""
    text = "\n".join(one.text for one in sent)
    return "\n".join({found[1]: found[0] for found in DECISION.finditer(text)}.values())


if __name__ == "__main__":
    main()
