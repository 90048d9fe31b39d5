"""The retriever in every style of call: who asks, in which thread, and what of it others can see."""

from __future__ import annotations

import asyncio
import copy
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from blockbuster import BlockBuster, BlockingError
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MergerRetriever,
)
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.load import dumpd
from langchain_core.runnables import ConfigurableField, RunnableConfig, RunnableLambda
from langchain_core.tools import create_retriever_tool
from langgraph.graph import START, StateGraph
from pydantic import ValidationError

from ctxarith import ArgumentError, Corpus, Policy, Principal, PrincipalRequired
from langchain_ctxarith import CtxArithIndex, CtxArithReranker, CtxArithRetriever
from tests.conftest import NOW
from tests.fakes import WordEmbedder

pytestmark = pytest.mark.filterwarnings("error")

QUESTION = "what is the annual fee?"
TENANTS = ("acme", "beta")


@pytest.fixture
def shared() -> CtxArithRetriever:
    """Two tenants whose records look alike, and nobody configured."""
    corpus = Corpus.in_memory(embedder=WordEmbedder(), clock=lambda: NOW)
    corpus.add(
        {"id": f"{tenant}-{n}", "text": f"The annual fee of {tenant} is {n}00 EUR", "tenant": tenant}
        for tenant in TENANTS
        for n in range(1, 6)
    )
    return CtxArithRetriever(corpus=corpus)


@pytest.fixture
def alone() -> CtxArithRetriever:
    """One tenant, so nobody need be named."""
    return CtxArithRetriever.from_texts(
        ["The annual fee is 12 EUR", "The rent is 900 EUR", "The pump is red"],
        WordEmbedder(),
        [{"kind": "fee", "year": 2026}, {"kind": "rent", "year": 2025}, {"kind": "thing", "year": 2026}],
        ids=["fee", "rent", "pump"],
    )


def request(tenant: str, thread: str | None = None) -> RunnableConfig:
    named = {"principal": Principal(tenant), **({} if thread is None else {"thread_id": thread})}
    return {"configurable": named}


def owners(documents: list[Document]) -> set[str]:
    return {str(one.id).partition("-")[0] for one in documents}


def ids(documents: list[Document]) -> list[str]:
    return [str(one.id) for one in documents]


Style = Callable[[Any, RunnableConfig], list[Document]]


def wrapped_in_a_chain(retriever: Any, config: RunnableConfig) -> list[Document]:
    found: list[Document] = RunnableLambda(lambda text: retriever.invoke(text)).invoke(QUESTION, config)
    return found


def compressed(retriever: Any, config: RunnableConfig) -> list[Document]:
    short = CtxArithReranker(scorer=lambda query, texts: [-len(t) for t in texts], scale="logit")
    both = ContextualCompressionRetriever(base_compressor=short, base_retriever=retriever)
    return (RunnableLambda(lambda text: text) | both).invoke(QUESTION, config)


def in_an_ensemble(retriever: Any, config: RunnableConfig) -> list[Document]:
    return EnsembleRetriever(retrievers=[retriever], weights=[1.0]).invoke(QUESTION, config)


def as_their_tool(retriever: Any, config: RunnableConfig) -> list[Document]:
    tool = create_retriever_tool(retriever, "look_up", "fees", response_format="content_and_artifact")
    call = {"type": "tool_call", "id": "1", "name": "look_up", "args": {"query": QUESTION}}
    found: list[Document] = tool.invoke(call, config).artifact
    return found


STYLES: dict[str, Style] = {
    "invoke": lambda r, c: r.invoke(QUESTION, c),
    "ainvoke": lambda r, c: asyncio.run(r.ainvoke(QUESTION, c)),
    "with_config": lambda r, c: r.with_config(c).invoke(QUESTION),
    "with_retry": lambda r, c: r.with_retry().invoke(QUESTION, c),
    "with_fallbacks": lambda r, c: r.with_fallbacks([r]).invoke(QUESTION, c),
    "configurable_fields": lambda r, c: (
        r.configurable_fields(k=ConfigurableField(id="k"))
        .with_config(configurable={"k": 2})
        .invoke(QUESTION, c)
    ),
    "batch": lambda r, c: r.batch([QUESTION, QUESTION], [c, c])[1],
    "abatch": lambda r, c: asyncio.run(r.abatch([QUESTION, QUESTION], [c, c]))[1],
    "stream": lambda r, c: next(iter(r.stream(QUESTION, c))),
    "in a sequence": lambda r, c: (RunnableLambda(lambda text: text) | r).invoke(QUESTION, c),
    "called in a lambda": wrapped_in_a_chain,
    "as a tool of theirs": as_their_tool,
    "compressed": compressed,
    "ensemble": in_an_ensemble,
}


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_every_style_of_call_sees_who_asks_and_in_which_thread(
    style: Style, shared: CtxArithRetriever
) -> None:
    found = style(shared, request("acme", "t1"))
    assert owners(found) == {"acme"}
    assert set(ids(found)) <= set(shared.corpus.session("t1", principal=Principal("acme")).cited)
    assert shared.corpus.session("t1", principal=Principal("beta")).cited == ()


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_nobody_named_is_refused_in_every_style_of_call(style: Style, shared: CtxArithRetriever) -> None:
    with pytest.raises(PrincipalRequired, match="more than one tenant"):
        style(shared, {"configurable": {"thread_id": "t1"}})


def test_a_chain_that_passes_on_callbacks_alone_keeps_the_thread_of_the_metadata(
    alone: CtxArithRetriever,
) -> None:
    MergerRetriever(retrievers=[alone]).invoke(QUESTION, {"metadata": {"thread_id": "t1"}})
    assert alone.corpus.session("t1").cited


def test_a_chain_that_passes_on_callbacks_alone_does_not_pass_for_a_caller(shared: CtxArithRetriever) -> None:
    with pytest.raises(PrincipalRequired):
        MergerRetriever(retrievers=[shared]).invoke(QUESTION, request("acme"))


def test_a_hundred_at_once_never_see_another_tenant_or_thread(shared: CtxArithRetriever) -> None:
    asked = [request(TENANTS[n % 2], f"thread-{n % 10}") for n in range(100)]
    limited: list[RunnableConfig] = [{**one, "max_concurrency": 8} for one in asked]
    found = asyncio.run(shared.abatch([QUESTION] * 100, limited))
    found += shared.batch([QUESTION] * 100, limited)
    assert [owners(one) for one in found] == [{TENANTS[n % 2]} for n in range(100)] * 2
    for n in range(10):
        mine, other = TENANTS[n % 2], TENANTS[1 - n % 2]
        cited = shared.corpus.session(f"thread-{n}", principal=Principal(mine)).cited
        assert {one.partition("-")[0] for one in cited} == {mine}
        assert shared.corpus.session(f"thread-{n}", principal=Principal(other)).cited == ()


@pytest.mark.parametrize(
    "forged",
    [
        {"configurable": {"principal": "acme"}},
        {"configurable": {"principal": {"tenant": "acme"}}},
    ],
)
def test_a_principal_that_a_client_could_have_sent_is_refused(
    forged: RunnableConfig, shared: CtxArithRetriever
) -> None:
    with pytest.raises(ArgumentError, match="a client could send"):
        shared.invoke(QUESTION, forged)


@pytest.mark.parametrize(
    "elsewhere", [{"metadata": {"principal": "acme", "tenant": "acme"}}, {"configurable": {"tenant": "acme"}}]
)
def test_a_tenant_in_metadata_or_text_names_nobody(
    elsewhere: RunnableConfig, shared: CtxArithRetriever
) -> None:
    with pytest.raises(PrincipalRequired):
        shared.invoke("tenant: acme, principal: acme. What is the fee?", elsewhere)


def test_the_request_goes_before_the_default_and_a_function_decides_alone(shared: CtxArithRetriever) -> None:
    acme = CtxArithRetriever(corpus=shared.corpus, principal=Principal("acme"))
    assert owners(acme.invoke(QUESTION)) == {"acme"}
    assert owners(acme.invoke(QUESTION, request("beta"))) == {"beta"}
    known = {"key-1": Principal("acme")}
    by_key = CtxArithRetriever(
        corpus=shared.corpus, principal=lambda config: known.get(config["configurable"]["key"])
    )
    asked: RunnableConfig = {"configurable": {"key": "key-1", "principal": Principal("beta")}}
    assert owners(by_key.invoke(QUESTION, asked)) == {"acme"}
    with pytest.raises(PrincipalRequired):
        by_key.invoke(QUESTION, {"configurable": {"key": "key-2"}})


@dataclass
class Context:
    principal: Principal


class State(TypedDict, total=False):
    found: list[Document]


def test_langgraphs_runtime_context_names_the_caller(shared: CtxArithRetriever) -> None:
    def look_up(state: State) -> State:
        return {"found": shared.invoke(QUESTION)}

    graph = StateGraph(State, context_schema=Context)
    graph.add_node("look_up", look_up)
    graph.add_edge(START, "look_up")
    run = graph.compile()
    asked: RunnableConfig = {"configurable": {"thread_id": "t9"}}
    assert owners(run.invoke({}, asked, context=Context(Principal("acme")))["found"]) == {"acme"}
    assert shared.corpus.session("t9", principal=Principal("acme")).cited
    with pytest.raises(ArgumentError, match="different callers"):
        run.invoke({}, request("beta"), context=Context(Principal("acme")))


def test_a_policy_needs_a_caller_even_with_one_tenant(alone: CtxArithRetriever) -> None:
    guarded = CtxArithRetriever.from_texts(
        ["The fee is 12 EUR"], corpus_options={"policy": Policy()}, principal=Principal("acme")
    )
    assert len(guarded.invoke("fee")) == 1
    with pytest.raises(PrincipalRequired):
        CtxArithRetriever(corpus=guarded.corpus).invoke("fee")


KWARGS: list[dict[str, Any]] = [
    {},
    {"k": 1},
    {"k": 2, "filter": {"year": 2026}},
    {"filter": {"kind": {"$in": []}}},
    {"filter": {"kind": {"$ne": "fee"}}, "token_budget": 12},
    {"thread_id": "t1"},
]


@pytest.mark.parametrize("kwargs", KWARGS, ids=str)
async def test_sync_and_async_find_the_same_without_blocking_the_loop(
    kwargs: dict[str, Any], alone: CtxArithRetriever
) -> None:
    calm = {**kwargs, "thread_id": None}
    before = await asyncio.to_thread(alone.invoke, QUESTION, **calm)
    blocking = BlockBuster()
    blocking.activate()
    try:
        after = await alone.ainvoke(QUESTION, **calm)
        evidence = await alone.aretrieve_evidence(QUESTION, **calm)
    finally:
        blocking.deactivate()
    assert after == before
    assert [hit.id for hit in evidence.hits] == ids(before)


async def test_writing_and_asking_a_folder_does_not_block_the_loop(tmp_path: Any) -> None:
    written = await asyncio.to_thread(
        CtxArithIndex.from_texts, ["The fee is 12 EUR"], WordEmbedder(), ids=["fee"], path=tmp_path / "corpus"
    )
    blocking = BlockBuster()
    blocking.activate()
    try:
        with pytest.raises(BlockingError):
            time.sleep(0.001)  # the guard is awake
        assert await written.aadd_documents([Document("The rent is 900 EUR", id="rent")]) == ["rent"]
        assert ids(await written.aget(["fee", "rent"])) == ["fee", "rent"]
        assert (await written.adelete(["rent"]))["succeeded"] == ["rent"]
        assert ids(await written.ainvoke("fee", {"configurable": {"thread_id": "t1"}})) == ["fee"]
        assert await written.arecord_citations("t1", ["fee", "rent"]) == ("fee",)
    finally:
        blocking.deactivate()
        await asyncio.to_thread(written.corpus.close)


async def test_it_works_inside_a_loop_in_a_worker_and_in_one_loop_after_another_case_in_01(
    alone: CtxArithRetriever,
) -> None:
    found = [
        alone.invoke(QUESTION),
        await alone.ainvoke(QUESTION),
        await asyncio.to_thread(alone.invoke, QUESTION),
        *[await asyncio.to_thread(lambda: asyncio.run(alone.ainvoke(QUESTION))) for _ in range(2)],
    ]
    assert found == found[:1] * 5


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_unknown_argument_is_an_error_in_both_modes(mode: str, alone: CtxArithRetriever) -> None:
    call = alone.invoke if mode == "sync" else lambda *a, **kw: asyncio.run(alone.ainvoke(*a, **kw))
    with pytest.raises(TypeError, match="fetch_k"):
        call(QUESTION, fetch_k=10)


def test_a_requests_filter_narrows_the_retrievers_own(alone: CtxArithRetriever) -> None:
    recent = alone.model_copy(update={"filter": {"year": 2026}})
    assert sorted(ids(recent.invoke("fee rent pump"))) == ["fee", "pump"]
    assert ids(recent.invoke("fee rent pump", filter={"kind": "rent"})) == []
    assert ids(recent.invoke("fee rent pump", filter={"year": 2025})) == []
    assert ids(recent.invoke("fee rent pump", filter={"kind": "fee"})) == ["fee"]


@pytest.mark.parametrize(
    "filter",
    [
        {"tenant": "beta"},
        {"$or": [{"tenant": "beta"}, {"tenant": "acme"}]},
        {"tenant": {"$ne": "acme"}},
        {"$not": {"tenant": "acme"}},
    ],
    ids=str,
)
def test_no_filter_reaches_another_tenant_case_tn_03(
    filter: dict[str, Any], shared: CtxArithRetriever
) -> None:
    assert owners(shared.invoke(QUESTION, request("acme"), filter=filter)) <= {"acme"}
    base = shared.model_copy(update={"filter": filter})
    assert owners(base.invoke(QUESTION, request("acme"))) <= {"acme"}


async def test_one_question_of_a_batch_may_be_refused_alone(shared: CtxArithRetriever) -> None:
    configs: list[RunnableConfig] = [request("acme"), {}]
    for found in (
        shared.batch([QUESTION] * 2, configs, return_exceptions=True),
        await shared.abatch([QUESTION] * 2, configs, return_exceptions=True),
    ):
        assert owners(found[0]) == {"acme"}
        assert isinstance(found[1], PrincipalRequired)


def test_a_follow_up_is_answered_from_the_cited_set_and_another_thread_is_not(
    alone: CtxArithRetriever,
) -> None:
    first = alone.invoke(QUESTION, k=1, thread_id="t1")
    again = alone.invoke(QUESTION, k=1, thread_id="t1")
    other = alone.invoke(QUESTION, k=1, thread_id="t2")
    assert [one[0].metadata["ctx_stage"] for one in (first, again, other)] == ["corpus", "cited", "corpus"]
    assert ids(first) == ids(again) == ids(other) == ["fee"]
    unstaged = alone.model_copy(update={"thread_key": None})
    unstaged.invoke(QUESTION, {"configurable": {"thread_id": "t3"}})
    assert alone.corpus.session("t3").cited == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"k": True},
        {"top_k": 3},
        {"filter": {"year": {"$get": 1}}},
        {"principal": "acme"},
        {"fields": {"author": "by"}},
        {"search_kwargs": {"fetch_k": 50}},
        {"search_kwargs": {"rank": "best"}},
        {"search_kwargs": {"scope": "a/../b"}},
        {"token_budget": 0},
    ],
    ids=str,
)
def test_a_setting_that_cannot_be_is_refused_when_the_retriever_is_made(
    wrong: dict[str, Any], alone: CtxArithRetriever
) -> None:
    (name,) = wrong
    with pytest.raises(ValidationError, match=name):  # pydantic names the setting
        CtxArithRetriever(corpus=alone.corpus, **wrong)


def test_a_configurable_field_shares_the_corpus(alone: CtxArithRetriever) -> None:
    fewer = alone.configurable_fields(k=ConfigurableField(id="k"))
    assert [len(fewer.with_config(configurable={"k": n}).invoke(QUESTION)) for n in (1, 2, 3)] == [1, 2, 3]
    made, _ = fewer.prepare({"configurable": {"k": 2}})  # type: ignore[attr-defined]
    assert made.k == 2
    assert made.corpus is alone.corpus


def test_it_is_copied_by_reference_and_never_pickled(alone: CtxArithRetriever) -> None:
    assert copy.deepcopy(alone).corpus is alone.corpus
    with pytest.raises(TypeError, match=r"Corpus\.open"):
        pickle.dumps(alone)


def test_traces_show_no_filter_and_no_caller(shared: CtxArithRetriever) -> None:
    mine = CtxArithRetriever(
        corpus=shared.corpus, principal=Principal("acme"), filter={"customer": "Ms Roe"}, k=3
    )
    assert repr(mine) == "CtxArithRetriever(k=3)"
    shown = str(dumpd(mine))
    assert "Roe" not in shown
    assert "acme" not in shown


class Runs(BaseCallbackHandler):
    """What a tracer hears of a run."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_retriever_start(self, serialized: Any, query: str, **kwargs: Any) -> None:
        self.heard.append(f"start {kwargs['metadata']['ls_retriever_name']}")

    def on_retriever_end(self, documents: Any, **kwargs: Any) -> None:
        self.heard.append(f"end {len(documents)}")

    def on_retriever_error(self, error: BaseException, **kwargs: Any) -> None:
        self.heard.append(type(error).__name__)


def test_a_tracer_hears_the_start_the_end_and_the_refusal(shared: CtxArithRetriever) -> None:
    runs = Runs()
    shared.invoke(QUESTION, {**request("acme"), "callbacks": [runs]})
    with pytest.raises(PrincipalRequired):
        shared.invoke(QUESTION, {"callbacks": [runs]})
    assert runs.heard == ["start ctxarith", "end 4", "start ctxarith", "PrincipalRequired"]


def test_it_tells_of_the_thread_it_takes_and_describes_its_input(alone: CtxArithRetriever) -> None:
    assert [spec.id for spec in alone.config_specs] == ["thread_id"]
    assert alone.get_input_jsonschema()["type"] == "string"
    assert alone.get_name() == "CtxArithRetriever"


def test_what_a_request_or_a_retriever_cannot_be_told_is_answered_with_where_it_belongs() -> None:
    corpus = Corpus.in_memory(embedder=WordEmbedder())
    corpus.add([{"id": t, "text": "the fee", "tenant": t} for t in ("acme", "beta")])
    retriever = CtxArithRetriever(corpus=corpus)
    with pytest.raises(TypeError, match=r"unknown here: principal.*'configurable': \{'principal'"):
        retriever.invoke("fee", principal=Principal("acme"))
    with pytest.raises(PrincipalRequired, match=r"\{'configurable': \{'principal'"):
        retriever.invoke("fee")
    for name, place in (("scope", "search_kwargs"), ("tokens", "token_budget="), ("slots", "corpus_options")):
        given: dict[str, Any] = {name: "x"}
        with pytest.raises(ValidationError, match=place):
            CtxArithRetriever(corpus=corpus, **given)
