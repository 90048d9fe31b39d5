"""LangChain's own standard suites, over each place that a corpus may lie in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.indexing.base import DocumentIndex
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    ToolsIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.integration_tests.indexer import AsyncDocumentIndexTestSuite, DocumentIndexerTestSuite
from langchain_tests.unit_tests import ToolsUnitTests

from ctxarith import Corpus
from langchain_ctxarith import CtxArithIndex, CtxArithRetriever, as_agent_tool, chroma_vectorstore
from tests.fakes import WordEmbedder

pytestmark = pytest.mark.filterwarnings("error")

FEES = [f"The fee of part {part} is {part}00 EUR" for part in range(1, 8)]


def fees() -> CtxArithRetriever:
    return CtxArithRetriever.from_texts(FEES, WordEmbedder())


class TestTheRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return CtxArithRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"corpus": fees().corpus}

    @property
    def retriever_query_example(self) -> str:
        return "what is the fee?"


class _Tool:
    @property
    def tool_constructor(self) -> type[BaseTool] | BaseTool:
        return as_agent_tool(fees())

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"query": "what is the fee?"}


class TestTheToolAlone(_Tool, ToolsUnitTests):
    pass


class TestTheTool(_Tool, ToolsIntegrationTests):
    pass


def opened(folder: Path, where: str) -> CtxArithIndex:
    path = None if where == "memory" else folder / "corpus"
    return CtxArithIndex.from_documents([], WordEmbedder(), path=path)


@pytest.fixture(params=["memory", "chroma"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CtxArithIndex]:
    made = opened(tmp_path, request.param)
    yield made
    made.corpus.close()


class TestTheDocumentIndex(DocumentIndexerTestSuite):
    @pytest.fixture
    def index(self, empty: CtxArithIndex) -> DocumentIndex:
        return empty


class TestTheDocumentIndexAsync(AsyncDocumentIndexTestSuite):
    @pytest.fixture
    async def index(self, empty: CtxArithIndex) -> DocumentIndex:
        return empty


class TestTheVectorStore(VectorStoreIntegrationTests):
    """Chroma as `chroma_vectorstore` makes it."""

    @pytest.fixture
    def vectorstore(self) -> Iterator[VectorStore]:
        store = chroma_vectorstore(self.get_embeddings(), collection_name="standard")
        yield store
        store.delete_collection()


def test_index_skips_what_it_has_and_takes_out_what_its_source_no_longer_has(empty: CtxArithIndex) -> None:
    records = InMemoryRecordManager("fees")
    records.create_schema()

    def again(*texts: str) -> dict[str, int]:
        documents = [Document(text, metadata={"source": "fees.pdf"}) for text in texts]
        done = index(
            documents, records, empty, cleanup="incremental", source_id_key="source", key_encoder="sha256"
        )
        return {name: count for name, count in done.items() if count}  # type: ignore[misc]

    assert again("The fee is 12 EUR", "The rent is 900 EUR") == {"num_added": 2}
    assert again("The fee is 12 EUR", "The rent is 900 EUR") == {"num_skipped": 2}
    assert again("The fee is 14 EUR", "The rent is 900 EUR") == {
        "num_added": 1,
        "num_skipped": 1,
        "num_deleted": 1,
    }
    assert sorted(found.page_content for found in empty.invoke("fee or rent")) == [
        "The fee is 14 EUR",
        "The rent is 900 EUR",
    ]
    assert empty.delete(source_id="fees.pdf")["num_deleted"] == 2


def test_a_folder_is_free_again_when_the_documents_are_refused(tmp_path: Path) -> None:
    nested = Document("The fee is 12 EUR", metadata={"where": {"page": 1}})
    with pytest.raises(ValueError, match="where"):
        CtxArithIndex.from_documents([nested], WordEmbedder(), path=tmp_path / "corpus")
    Corpus.open(tmp_path / "corpus", embedder=WordEmbedder()).close()
