"""The tool in a real agent, the reranker over any retriever, and the examples in the docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import ValidationError

import langchain_ctxarith
from ctxarith import Corpus, Principal, PrincipalRequired
from langchain_ctxarith import CtxArithReranker, CtxArithRetriever, as_agent_tool
from tests.conftest import NOW
from tests.fakes import WordEmbedder

pytestmark = pytest.mark.filterwarnings("error")

MODULES = sorted(m.name for m in pkgutil.walk_packages(langchain_ctxarith.__path__, "langchain_ctxarith."))


@dataclass
class Context:
    principal: Principal


class Caller(FakeMessagesListChatModel):
    """Calls the tool, then answers; remembers the tools it was shown."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        SHOWN[:] = [tool.tool_call_schema.model_json_schema()["properties"] for tool in tools]
        return self


SHOWN: list[dict[str, Any]] = []


@pytest.fixture
def shared() -> CtxArithRetriever:
    corpus = Corpus.in_memory(embedder=WordEmbedder(), clock=lambda: NOW)
    corpus.add(
        {"id": f"{tenant}-{n}", "text": f"The fee of {tenant}, part {n}, is {n}00 EUR", "tenant": tenant}
        for tenant in ("acme", "beta")
        for n in (1, 2)
    )
    return CtxArithRetriever(corpus=corpus)


def agent_over(retriever: CtxArithRetriever, **args: Any) -> Any:
    call = {"type": "tool_call", "id": "1", "name": "retrieve_context", "args": {"query": "fee", **args}}
    model = Caller(responses=[AIMessage("", tool_calls=[call]), AIMessage("100 EUR [1]")])
    return create_agent(
        model, tools=[as_agent_tool(retriever)], context_schema=Context, checkpointer=InMemorySaver()
    )


def looked_up(messages: list[BaseMessage]) -> ToolMessage:
    (found,) = (one for one in messages if isinstance(one, ToolMessage))
    return found


ASKED = {"messages": [HumanMessage("What is the fee?")]}


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_an_agent_sees_its_customer_alone_and_cites(mode: str, shared: CtxArithRetriever) -> None:
    agent = agent_over(shared)
    config, context = {"configurable": {"thread_id": "t1"}}, Context(Principal("acme"))
    if mode == "sync":
        said = agent.invoke(ASKED, config, context=context)["messages"]
    else:
        said = (await agent.ainvoke(ASKED, config, context=context))["messages"]
    found = looked_up(said)
    assert sorted(line[:16] for line in str(found.content).split("\n")) == [
        "[1] The fee of a",
        "[2] The fee of a",
    ]
    for document in found.artifact["documents"]:
        assert f"{document.metadata['ctx_citation']} {document.page_content}" in found.content
    assert set(shared.corpus.session("t1", principal=Principal("acme")).cited) == {"acme-1", "acme-2"}
    kept = looked_up(agent.get_state(config).values["messages"])
    assert [Document(**one) for one in kept.artifact["documents"]] == found.artifact["documents"]
    assert kept.artifact["packet"]["members"] == [
        {"source_id": one.id, "version": "1"} for one in found.artifact["documents"]
    ]


def test_the_model_is_shown_the_query_alone_and_can_say_nothing_else(shared: CtxArithRetriever) -> None:
    forged = agent_over(
        shared, principal="beta", tenant="beta", config={"configurable": {"principal": "beta"}}
    )
    config = {"configurable": {"thread_id": "t1"}}
    said = forged.invoke(ASKED, config, context=Context(Principal("acme")))["messages"]
    assert [set(one) for one in SHOWN] == [{"query"}]
    assert {one.id for one in looked_up(said).artifact["documents"]} == {"acme-1", "acme-2"}


def test_an_agent_without_a_caller_is_refused(shared: CtxArithRetriever) -> None:
    with pytest.raises(PrincipalRequired):
        agent_over(shared).invoke(ASKED, {"configurable": {"thread_id": "t1"}})


def test_nothing_found_is_said_and_not_empty(shared: CtxArithRetriever) -> None:
    config: RunnableConfig = {"configurable": {"principal": Principal("gamma")}}
    assert as_agent_tool(shared).invoke({"query": "fee"}, config) == "No matching records."


class Pairs(BaseCrossEncoder):
    """Counts the words that both texts have."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        return [float(len(set(one.split()) & set(other.split()))) for one, other in text_pairs]


TEXTS = [
    Document("a pump", id="a", metadata={"source": "a.pdf"}),
    Document("the fee is due", id="b"),
    Document("the fee", id="c"),
    Document("a valve", id="d"),
]


def test_a_cross_encoder_of_langchain_orders_copies_that_keep_id_and_metadata() -> None:
    ranked = CtxArithReranker(scorer=Pairs(), scale="logit", top_n=None)
    found = ranked.compress_documents(TEXTS, "the fee is")
    assert [one.id for one in found] == ["b", "c", "a", "d"]
    assert [one.metadata["ctx_rerank_score"] for one in found] == [3.0, 2.0, 0.0, 0.0]
    assert all(0 < one.metadata["relevance_score"] < 1 for one in found)
    assert found[2].metadata["source"] == "a.pdf"
    assert TEXTS[0].metadata == {"source": "a.pdf"}


async def test_the_reranker_keeps_the_first_and_async_finds_the_same(shared: CtxArithRetriever) -> None:
    ranked = CtxArithReranker(scorer=Pairs(), scale="logit", top_n=1)
    both = ContextualCompressionRetriever(
        base_compressor=ranked,
        base_retriever=shared.model_copy(update={"principal": Principal("acme"), "thread_key": None}),
    )
    query = "part 2, is"
    found = both.invoke(query)
    assert [one.id for one in found] == ["acme-2"]
    assert await both.ainvoke(query) == found
    assert ranked.compress_documents([], query) == []


def test_one_document_twice_is_two_documents() -> None:
    ranked = CtxArithReranker(scorer=Pairs(), scale="logit")
    assert len(ranked.compress_documents([TEXTS[0], TEXTS[0]], "a pump")) == 2


def broken(query: str, passages: list[str]) -> list[float]:
    raise OSError("no model")


def late(query: str, passages: list[str]) -> list[float]:
    time.sleep(0.2)
    return [0.0] * len(passages)


@pytest.mark.parametrize(("scorer", "said"), [(broken, "no model"), (late, "no answer within")])
def test_a_reranker_that_fails_leaves_the_order_and_says_so(scorer: Any, said: str) -> None:
    ranked = CtxArithReranker(scorer=scorer, scale="unit", seconds=0.05, top_n=2)
    with pytest.warns(RuntimeWarning, match=said):
        found = ranked.compress_documents(TEXTS, "the fee")
    assert found == TEXTS[:2]


@pytest.mark.parametrize(
    "wrong", [{}, {"scale": "percent"}, {"scale": "unit", "top_n": 0}, {"scale": "unit", "top_k": 3}], ids=str
)
def test_a_reranker_that_cannot_be_is_refused_when_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CtxArithReranker(scorer=broken, **wrong)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
