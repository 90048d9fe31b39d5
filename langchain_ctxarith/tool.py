"""A retriever as a tool of an agent: cited text for the model, the evidence packet for the program."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.runnables import RunnableConfig, run_in_executor
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from ctxarith.errors import Withheld
from langchain_ctxarith.caller import principal_of
from langchain_ctxarith.documents import as_documents
from langchain_ctxarith.evidence import DOCUMENTS, EVIDENCE, MANIFEST, held_by, packed, told
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

    The content is the context with its citation marks. The artifact has `documents`, whose `ctx_citation` is
    the mark (LangGraph's checkpoints give them back as mappings); `packet`, the manifest of the evidence
    packet made of them; and `evidence`, the records by their marks, which `CtxArithMiddleware` looks at
    again before each model call. Principal and thread come from the run's config or context; the model
    sees neither.

    Args:
        retriever: its `token_budget` bounds the content.
        name: as the model reads it.
        description: as the model reads it.

    >>> tool = as_agent_tool(CtxArithRetriever.from_texts(["The fee is 12 EUR"]))
    >>> tool.invoke({"query": "what is the fee?"})
    '[1] The fee is 12 EUR'
    """

    def look_up(query: str, config: RunnableConfig) -> tuple[str, dict[str, Any]]:
        answer = retriever.retrieve_evidence(query, config=config)
        principal = principal_of(config, retriever.principal)
        packet = packed(answer, retriever.corpus, principal)
        try:
            packet.revalidate(principal).check()
        except Withheld as error:
            return f"(Evidence is withheld: {error})", {DOCUMENTS: [], EVIDENCE: []}
        documents = as_documents(
            answer, fields=retriever.fields, passages=retriever.passages, evidence=retriever.evidence
        )
        artifact = {
            DOCUMENTS: documents,
            MANIFEST: json.loads(packet.manifest.as_json()),
            EVIDENCE: told(held_by(packet, answer)),
        }
        return answer.text if documents else NOTHING, artifact

    async def alook_up(query: str, config: RunnableConfig) -> tuple[str, dict[str, Any]]:
        return await run_in_executor(None, look_up, query, ensure_config(config))

    return StructuredTool.from_function(
        look_up,
        coroutine=alook_up,
        name=name,
        description=description,
        args_schema=Query,
        response_format="content_and_artifact",
    )
