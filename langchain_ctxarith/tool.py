"""A retriever as a tool of an agent: cited text for the model, documents for the program."""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from ctxarith.run import Result
from langchain_ctxarith.documents import as_documents
from langchain_ctxarith.retriever import CtxArithRetriever

# An empty message is refused by some models, and invites others to make something up.
NOTHING = "No matching records."


class Query(BaseModel):
    """All that the model may say. Who asks, and in which thread, is in the config."""

    query: str = Field(description="what to look up, in full words")


def as_agent_tool(
    retriever: CtxArithRetriever,
    name: str = "retrieve_context",
    description: str = "Look up what is known. Each line begins with its citation mark, such as [1].",
) -> BaseTool:
    """A tool for `create_agent` and LangGraph.

    The content is the context with its citation marks, the artifact the documents, whose `ctx_citation` is
    the mark (LangGraph's checkpoints give them back as mappings). Principal and thread come from the run's
    config or context; the model sees neither.

    Args:
        retriever: its `token_budget` bounds the content.
        name: as the model reads it.
        description: as the model reads it.

    >>> tool = as_agent_tool(CtxArithRetriever.from_texts(["The fee is 12 EUR"]))
    >>> tool.invoke({"query": "what is the fee?"})
    '[1] The fee is 12 EUR'
    """

    def look_up(query: str, config: RunnableConfig) -> tuple[str, list[Document]]:
        return told(retriever.retrieve_evidence(query, config=config))

    async def alook_up(query: str, config: RunnableConfig) -> tuple[str, list[Document]]:
        return told(await retriever.aretrieve_evidence(query, config=config))

    def told(answer: Result) -> tuple[str, list[Document]]:
        documents = as_documents(
            answer, fields=retriever.fields, passages=retriever.passages, evidence=retriever.evidence
        )
        return answer.text if documents else NOTHING, documents

    return StructuredTool.from_function(
        look_up,
        coroutine=alook_up,
        name=name,
        description=description,
        args_schema=Query,
        response_format="content_and_artifact",
    )
