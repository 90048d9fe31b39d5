"""The postprocessors over nodes of any retriever: alone, as a chain, and in a query engine."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.utils import get_tokenizer
from pydantic import ValidationError

from ctxarith import (
    ArgumentError,
    Corpus,
    CrossEncoderReranker,
    Policy,
    Principal,
    PrincipalRequired,
    RecordError,
)
from llamaindex_ctxarith import (
    Bm25Fusion,
    CompositeRank,
    CrossEncoderRerank,
    CtxArithRetriever,
    EvidencePacket,
    PolicyGate,
    SlotExtractor,
    Supersession,
    TokenBudget,
    acting_as,
    ctxarith_postprocessors,
)
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.test_rerank import tiny  # noqa: F401

ACME, BETA = Principal("acme"), Principal("beta")
FACTS = {"slots": ["fee"], "subject": "lead"}


def clock() -> Any:
    return NOW


def scored(
    node_id: str, text: str = "The annual fee.", score: float | None = 0.5, **metadata: Any
) -> NodeWithScore:
    return NodeWithScore(node=TextNode(id_=node_id, text=text, metadata=metadata), score=score)


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [one.node_id for one in nodes]


def words_shared(query: str, passages: list[str]) -> list[float]:
    asked = set(query.lower().split())
    return [len(asked & set(passage.lower().split())) / max(len(asked), 1) for passage in passages]


EACH: list[BaseNodePostprocessor] = [
    PolicyGate(principal=ACME, clock=clock),
    Bm25Fusion(),
    Supersession(fields=FACTS, clock=clock),
    CrossEncoderRerank(scorer=words_shared, scale="unit"),
    CompositeRank(rank="composite", clock=clock),
    EvidencePacket(),
    TokenBudget(tokens=60),
]
GIVEN = [
    scored("x1", "The fee was twelve.", 0.9, tenant="acme", lead="L1", fee=12, created_at="2026-01-01"),
    scored("x2", "The fee is fourteen.", 0.8, tenant="acme", lead="L1", fee=14, created_at="2026-03-01"),
    scored("x3", "Rooms open at nine.", 0.7, tenant="acme"),
]


@pytest.mark.parametrize("step", EACH, ids=lambda step: step.class_name())
def test_each_step_keeps_the_contract_of_its_host(step: BaseNodePostprocessor) -> None:
    before = [one.model_dump_json() for one in GIVEN]
    bundle = QueryBundle("the fee")
    found = step.postprocess_nodes(GIVEN, query_bundle=bundle)
    again = asyncio.run(step.apostprocess_nodes(GIVEN, query_bundle=bundle))
    assert [one.model_dump_json() for one in GIVEN] == before
    assert [one.to_json() for one in again] == [one.to_json() for one in found]
    assert all(json.loads(one.to_json())["node"]["id_"] == one.node_id for one in found)
    assert step.to_dict()["class_name"] == type(step).__name__
    copied = pickle.loads(pickle.dumps(step)).postprocess_nodes(GIVEN, query_bundle=bundle)
    assert [one.to_json() for one in copied] == [one.to_json() for one in found]
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda _: step.postprocess_nodes(GIVEN, query_bundle=bundle), range(8))
        assert all(ids(answer) == ids(found) for answer in answers)
    for one in found:
        assert one.node.get_content(MetadataMode.EMBED).count("ctx_") == 0
    assert step.postprocess_nodes([]) == []
    with pytest.raises(ValidationError):
        type(step)(tokes=3)  # type: ignore[call-arg]


def test_the_gate_leaves_out_what_is_not_the_callers_or_not_valid_now() -> None:
    nodes = [
        scored("mine", tenant="acme"),
        scored("theirs", tenant="beta"),
        scored("nobodys"),
        scored("closed", tenant="acme", audience=["board"]),
        scored("over", tenant="acme", valid_until="2026-02-01"),
        scored("later", tenant="acme", embargo_until="2027-01-01"),
        scored("blank", tenant=" "),
        scored("undated", tenant="acme", valid_until="soon"),
    ]
    gate = PolicyGate(principal=ACME, clock=clock)
    kept, dropped = gate.split(nodes)
    assert ids(kept) == ["mine"]
    assert [drop.id for drop in dropped] == ["theirs", "nobodys", "closed", "over", "later"]
    with acting_as(Principal("acme", groups=["board"])):
        assert ids(gate.postprocess_nodes(nodes)) == ["mine", "closed"]
    with acting_as(BETA):
        assert ids(gate.postprocess_nodes(nodes)) == ["theirs"]
    assert ids(PolicyGate(clock=clock).postprocess_nodes(nodes)) == ["nobodys"]
    with pytest.raises(PrincipalRequired):
        PolicyGate(policy=Policy()).postprocess_nodes(nodes)


def test_a_node_that_cannot_be_read_is_nobodys_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    bad = scored("bad", tenant="acme", created_at="2026-03-01T10:00")
    with caplog.at_level(logging.WARNING):
        assert PolicyGate(principal=ACME).postprocess_nodes([bad]) == []
    assert "'bad'" in caplog.text
    with pytest.raises(RecordError, match="created_at"):
        CompositeRank().postprocess_nodes([bad])
    assert ids(CompositeRank(naive_zone="Asia/Kolkata").postprocess_nodes([bad])) == ["bad"]


def test_forbidden_nodes_change_no_rank_score_or_evidence_of_the_others() -> None:
    nodes = [scored("b1", "annual fee", 0.9, tenant="beta"), scored("a1", "annual", 0.8, tenant="acme")]
    nodes += [scored("b2", "fee fee", 0.7, tenant="beta"), scored("a2", "annual fee", 0.6, tenant="acme")]
    chain = ctxarith_postprocessors(principal=ACME)

    def through(given: list[NodeWithScore]) -> list[str]:
        for step in chain:
            given = step.postprocess_nodes(given, query_str="annual fee")
        return [one.to_json() for one in given]

    alone = [one for one in nodes if one.node.metadata["tenant"] == "acme"]
    assert through(nodes) == through(alone)


def test_metadata_cannot_forge_a_hit() -> None:
    forged = scored(
        "f", tenant="beta", ctx_evidence={"policy": {"version": "1"}}, ctx_record='{"tenant": "acme"}'
    )
    assert PolicyGate(principal=ACME).postprocess_nodes([forged]) == []


def test_words_lift_a_node_and_sharing_none_earns_no_rank() -> None:
    nodes = [scored("near", "Opening hours of the pool", 0.9), scored("exact", "Valve KYO-H12 leaks", None)]
    found = Bm25Fusion().postprocess_nodes(nodes, query_str="is KYO-H12 leaking?")
    assert ids(found) == ["exact", "near"]
    evidence = [one.node.metadata["ctx_evidence"]["found_by"] for one in found]
    assert [[one["source"] for one in each] for each in evidence] == [["semantic", "lexical"], ["semantic"]]
    assert found[0].score == pytest.approx(1 / 62 + 1 / 61)
    heavy = Bm25Fusion(weights=(1.0, 0.0)).postprocess_nodes(nodes, query_str="KYO-H12")
    assert ids(heavy) == ["near", "exact"]
    with pytest.raises(ArgumentError):
        Bm25Fusion(weights=(1.0, -1.0)).postprocess_nodes(nodes, query_str="KYO-H12")


def test_two_documents_of_the_same_text_stay_two() -> None:
    """#11538, PR 15172, PR 14383."""
    nodes = [scored("d1", "same", 0.9), scored("d2", "same", 0.9), scored("d1", "same", 0.1)]
    assert ids(Bm25Fusion().postprocess_nodes(nodes, query_str="same")) == ["d1", "d2"]


def test_the_newer_assertion_takes_the_place_and_score_of_the_older() -> None:
    nodes = [
        scored("old", "Fee 12", 0.9, lead="L1", fee=12, created_at="2026-01-01"),
        scored("other", "Fee 30", 0.8, lead="L2", fee=30, created_at="2025-01-01"),
        scored("new", "Fee 14", 0.1, lead="L1", fee=14, created_at="2026-03-01"),
        scored("planned", "Fee 16", 0.1, lead="L1", fee=16, created_at="2027-03-01"),
    ]
    kept, (drop,) = Supersession(fields=FACTS, clock=clock).split(nodes)
    assert ids(kept) == ["new", "other", "planned"]
    assert kept[0].score == 0.9
    assert kept[0].node.metadata["ctx_evidence"]["replaces"] == ["old"]
    assert (drop.id, drop.by) == ("old", ("new",))
    assert "L1/fee is now 14, was 12" in drop.reason


def test_facts_of_two_tenants_do_not_retire_each_other() -> None:
    nodes = [
        scored("a", tenant="acme", lead="L1", fee=1, created_at="2026-01-01"),
        scored("b", tenant="beta", lead="L1", fee=2, created_at="2026-02-01", audience=["board"]),
    ]
    assert ids(Supersession(fields=FACTS, clock=clock).postprocess_nodes(nodes)) == ["a", "b"]


def test_a_link_retires_and_a_partly_stale_node_says_so_to_the_model() -> None:
    both = {"slots": ["fee", "batch"], "subject": "lead"}
    nodes = [
        scored("linked", "v1"),
        scored("link", "v2", supersedes=["linked"]),
        scored("half", "Fee 12, March batch", lead="L1", fee=12, batch="March", created_at="2026-01-01"),
        scored("fee", "Fee 14", lead="L1", fee=14, created_at="2026-03-01"),
    ]
    kept = Supersession(fields=both, clock=clock).postprocess_nodes(nodes)
    assert ids(kept) == ["link", "half", "fee"]
    assert "ctx_note: out of date here: fee" in kept[1].node.get_content(MetadataMode.LLM)


def test_slots_written_at_ingest_decide_later() -> None:
    extract = SlotExtractor(rules={"fee": r"fee is (?P<value>\d+)"}, subject="lead")
    texts = {"2026-01-01": "The fee is 12", "2026-03-01": "The fee is 14"}
    raw = [
        TextNode(id_=date, text=text, metadata={"lead": "L1", "created_at": date})
        for date, text in texts.items()
    ]
    nodes = [NodeWithScore(node=node, score=0.5) for node in extract(raw)]
    assert ids(Supersession(clock=clock).postprocess_nodes(nodes)) == ["2026-03-01"]


def test_the_cross_encoder_orders_the_first_and_pins_successors() -> None:
    nodes = [scored("a", "rooms", 0.9), scored("b", "annual fee", 0.2), scored("c", "annual", 0.1)]
    step = CrossEncoderRerank(scorer=words_shared, scale="unit", top=2, keep=1)
    found = step.postprocess_nodes(nodes, query_str="annual fee")
    assert [(one.node_id, one.score) for one in found] == [("b", 1.0)]
    assert ids(step.postprocess_nodes(nodes)) == ["a", "b", "c"]


def test_a_failing_model_leaves_the_order_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def broken(query: str, passages: list[str]) -> list[float]:
        raise RuntimeError("no such device")

    nodes = [scored("a", score=0.9), scored("b", score=0.2)]
    step = CrossEncoderRerank(scorer=broken, scale="logit")
    with caplog.at_level(logging.WARNING):
        assert ids(step.postprocess_nodes(nodes, query_str="fee")) == ["a", "b"]
    assert "no such device" in caplog.text
    with pytest.raises(ArgumentError, match="scale"):
        CrossEncoderRerank(scorer=words_shared)


def test_near_equal_relevance_is_decided_by_date_and_a_scale_must_be_said() -> None:
    nodes = [
        scored("old", score=0.801, created_at="2026-01-01"),
        scored("new", score=0.799, created_at="2026-06-01"),
        scored("off", score=0.1, created_at="2026-06-14"),
    ]
    assert ids(CompositeRank(clock=clock).postprocess_nodes(nodes)) == ["new", "old", "off"]
    undated = [scored("p", score=0.2), scored("q", score=0.9)]
    assert ids(CompositeRank(clock=clock).postprocess_nodes(undated)) == ["p", "q"]
    bm25 = [scored("p", score=14.2, created_at="2026-06-01"), scored("q", score=9.1, created_at="2026-06-01")]
    ranked = CompositeRank(scores="rank", weights=(1, 0, 0), clock=clock).postprocess_nodes(bm25)
    assert [(one.node_id, one.score) for one in ranked] == [("p", 1.0), ("q", 0.98)]


@pytest.mark.parametrize("limit", [0, 7, 25, 40, 200])
def test_the_budget_is_never_exceeded_and_names_what_it_skips(limit: int) -> None:
    nodes = [scored(f"n{n}", "One two three. Four five six. " * (3 - n), page=n) for n in range(3)]
    kept, dropped = TokenBudget(tokens=limit).split(nodes)
    text = "\n\n".join(one.node.get_content(MetadataMode.LLM) for one in kept)
    assert len(get_tokenizer()(text)) <= limit
    assert {one.node_id for one in kept} | {drop.id for drop in dropped} == {"n0", "n1", "n2"}
    helper = CompactAndRefine(llm=MockLLM())._prompt_helper
    prompt = CompactAndRefine(llm=MockLLM())._text_qa_template
    chunks = [one.node.get_content(MetadataMode.LLM) for one in kept]
    assert len(helper.repack(prompt, chunks, llm=MockLLM())) <= 1


def test_the_chain_behind_llamaindexes_own_retriever_in_a_query_engine() -> None:
    nodes = [one.node for one in GIVEN]
    nodes.append(TextNode(id_="b1", text="The fee is ninety.", metadata={"tenant": "beta"}))
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(8))
    chain = ctxarith_postprocessors(principal=ACME, fields=FACTS, scorer=None)
    engine = RetrieverQueryEngine.from_args(
        index.as_retriever(similarity_top_k=10), llm=MockLLM(), node_postprocessors=chain
    )
    for answer in (engine.query("the fee"), asyncio.run(engine.aquery("the fee"))):
        assert set(ids(answer.source_nodes)) == {"x2", "x3"}
        assert "ninety" not in str(answer)
        assert "twelve" not in str(answer)


def test_the_chain_behind_our_retriever_keeps_its_hits_and_evidence() -> None:
    with Corpus.in_memory(embedder=WordEmbedder(), clock=clock) as corpus:
        retriever = CtxArithRetriever.from_nodes([one.node for one in GIVEN], corpus=corpus, fields=FACTS)
        found = retriever.retrieve("the fee")
        for step in ctxarith_postprocessors(tokens=1_000):
            found = step.postprocess_nodes(found, query_str="the fee")
    assert ids(found) == ["x2", "x3"]
    sources = [one["source"] for one in found[0].node.metadata["ctx_evidence"]["found_by"]]
    assert sources == ["semantic", "lexical"]


def test_llamaindexes_fusion_merges_two_documents_of_one_text_and_ours_keeps_both() -> None:
    twins = [TextNode(id_="docA", text="Fee is 12 EUR."), TextNode(id_="docB", text="Fee is 12 EUR.")]

    class Fixed(BaseRetriever):
        def __init__(self, node: TextNode) -> None:
            super().__init__()
            self._node = node

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [NodeWithScore(node=self._node, score=0.5)]

    theirs = QueryFusionRetriever(
        [Fixed(node) for node in twins],
        llm=MockLLM(),
        mode=FUSION_MODES.RECIPROCAL_RANK,
        num_queries=1,
        use_async=False,
    )
    assert len(theirs.retrieve("fee")) == 1
    with Corpus.in_memory(embedder=WordEmbedder(), clock=clock) as corpus:
        ours = CtxArithRetriever.from_nodes(twins, corpus=corpus)
        assert sorted(ids(ours.retrieve("fee"))) == ["docA", "docB"]


def test_crowding_out_is_what_a_gate_cannot_mend_and_the_retriever_does() -> None:
    """CH-20: many nearer nodes of another tenant."""
    nodes = [TextNode(id_=f"b{n}", text="annual fee", metadata={"tenant": "beta"}) for n in range(50)] + [
        TextNode(id_=f"a{n}", text="the annual school fee of the year", metadata={"tenant": "acme"})
        for n in range(5)
    ]
    with Corpus.in_memory(embedder=WordEmbedder(), clock=clock) as corpus:
        found = CtxArithRetriever.from_nodes(nodes, corpus=corpus, principal=ACME).retrieve("annual fee")
    assert sorted(ids(found)) == ["a0", "a1", "a2", "a3", "a4"]


def test_a_real_cross_encoder_reads_question_and_passage(tiny: Path) -> None:  # noqa: F811
    scorer = CrossEncoderReranker(tiny, device="cpu")
    texts = ["the fee", "the gate code is 7731", "filler"]
    nodes = [scored(str(n), text, 0.5) for n, text in enumerate(texts)]
    found = CrossEncoderRerank(scorer=scorer).postprocess_nodes(nodes, query_str="gate code")
    raw = dict(zip("012", scorer("gate code", texts), strict=True))
    assert ids(found) == sorted(raw, key=lambda name: -raw[name])
    assert [one.node.metadata["ctx_evidence"]["reranked"]["rank"] for one in found] == [1, 2, 3]
    assert all(json.loads(one.to_json())["score"] == one.score for one in found)
