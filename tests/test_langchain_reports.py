"""Public reports of LangChain's users as small inputs; the number is that of the issue or pull request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from ctxarith import Principal, StoreError
from ctxarith.models.tokens import token_counter
from langchain_ctxarith import (
    CtxArithChatMessageHistory,
    CtxArithIndex,
    CtxArithReranker,
    CtxArithRetriever,
    as_agent_tool,
)
from tests.fakes import WordEmbedder

pytestmark = pytest.mark.filterwarnings("error")


def over(*documents: Document, **settings: Any) -> CtxArithRetriever:
    return CtxArithRetriever.from_documents(list(documents), WordEmbedder(), **settings)


def test_many_chunks_of_one_source_do_not_add_up_to_the_first_place_37046() -> None:
    chunks = [Document(f"fee part {n}", id=f"c{n}", metadata={"source": "long.pdf"}) for n in range(5)]
    found = over(*chunks, Document("fee", id="d", metadata={"source": "short.pdf"}), k=6).invoke("fee")
    assert found[0].id == "d"
    assert len({one.id for one in found}) == len(found) == 6


def test_words_are_found_again_after_a_restart_and_nothing_is_pickled_27071(tmp_path: Path) -> None:
    first = over(Document("the zygote valve", id="a"), Document("a pump", id="b"), path=tmp_path / "c")
    first.corpus.close()
    assert not [one for one in tmp_path.rglob("*") if one.suffix in (".pkl", ".pickle")]
    again = CtxArithRetriever.from_documents([], WordEmbedder(), path=tmp_path / "c", k=1)
    (found,) = again.invoke("zygote")
    assert (found.id, found.metadata["ctx_lexical_rank"]) == ("a", 1)
    again.corpus.close()


def test_a_filter_of_two_keys_and_one_of_one_value_are_filters_28469() -> None:
    kept = Document("fee", id="a", metadata={"area": "x", "year": 2026})
    retriever = over(kept, Document("fee", id="b", metadata={"area": "x", "year": 2025}))
    for asked in ({"area": "x", "year": 2026}, {"$and": [{"year": 2026}]}, {"year": {"$in": [2026]}}):
        assert [one.id for one in retriever.invoke("fee", filter=asked)] == ["a"]
    assert retriever.invoke("fee", filter={"year": {"$in": []}}) == []


def test_an_owner_that_is_lost_on_the_way_finds_nothing_of_others_9493() -> None:
    mine = Document("fee of ana", id="a", metadata={"audience": ["ana"]})
    retriever = over(mine, Document("fee of ben", id="b", metadata={"audience": ["ben"]}))
    ana: RunnableConfig = {"configurable": {"principal": Principal("default", groups=["ana"])}}
    assert [one.id for one in retriever.invoke("fee", ana)] == ["a"]
    assert retriever.invoke("fee") == []


def test_unchanged_documents_of_a_source_are_not_embedded_again_in_any_batch_22135() -> None:
    embedder = WordEmbedder()
    target = CtxArithIndex.from_documents([], embedder)
    records = InMemoryRecordManager("fees")
    records.create_schema()
    papers = [Document(f"fee {n}", metadata={"source": "fees.pdf"}) for n in range(6)]
    # "incremental" deletes what a later batch brings again, whatever the target; this one waits for the last.
    told = {"cleanup": "scoped_full", "source_id_key": "source", "key_encoder": "sha256", "batch_size": 2}
    index(papers, records, target, **told)  # type: ignore[arg-type]
    embedded = len(embedder.embedded)
    papers[5] = Document("fee changed", metadata={"source": "fees.pdf"})
    index(papers, records, target, **told)  # type: ignore[arg-type]
    assert embedder.embedded[embedded:] == ["fee changed"]


def test_a_source_is_deleted_with_all_its_chunks_16604() -> None:
    chunks = [Document(f"fee {n}", id=f"c{n}", metadata={"source": "fees.pdf"}) for n in range(3)]
    retriever = over(*chunks, Document("fee", id="d", metadata={"source": "other.pdf"}))
    assert retriever.delete(source_id="fees.pdf")["num_deleted"] == 3
    assert [one.id for one in retriever.invoke("fee")] == ["d"]


def test_what_could_not_be_written_is_not_found_40507(monkeypatch: pytest.MonkeyPatch) -> None:
    retriever = over(Document("a pump", id="a"))
    store = retriever.corpus._shelf.store

    def full(rows: Any) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(store, "write", full)
        with pytest.raises(StoreError):
            retriever.add_documents([Document("the fee", id="b")])
    assert [one.id for one in retriever.invoke("fee")] == ["a"]


def test_a_tool_says_where_each_line_comes_from_3256() -> None:
    tool = as_agent_tool(over(Document("the fee is 12 EUR", id="a", metadata={"source": "fees.pdf"})))
    call = {"type": "tool_call", "id": "1", "name": tool.name, "args": {"query": "fee"}}
    message = tool.invoke(call)
    assert isinstance(message, ToolMessage)
    (document,) = message.artifact["documents"]
    assert message.text == f"{document.metadata['ctx_citation']} the fee is 12 EUR"
    assert document.metadata["source"] == "fees.pdf"
    assert message.artifact["packet"]["members"] == [{"source_id": "fees.pdf", "version": "1"}]


def test_reranking_keeps_metadata_19142() -> None:
    ranked = CtxArithReranker(scorer=lambda query, texts: [float(len(one)) for one in texts], scale="logit")
    given = [Document("a", metadata={"page": 1}), Document("bbb", metadata={"page": 2})]
    assert [one.metadata["page"] for one in ranked.compress_documents(given, "?")] == [2, 1]


@pytest.mark.parametrize(
    "text", ["费用是十二欧元。" * 40, "deadbeef" * 60, "fee " * 200], ids=["CJK", "hex", "words"]
)
def test_the_bound_of_a_history_holds_in_any_script_34664(text: str) -> None:
    history = CtxArithChatMessageHistory("t", max_tokens=300)
    for number in range(8):
        history.add_messages([HumanMessage(f"{number}: {text}")])
    assert token_counter()("\n".join(one.text for one in history.messages)) <= 300
