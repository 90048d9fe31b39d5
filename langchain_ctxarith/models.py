"""LangChain's chat models behind a memory and at ingest: summaries and slots, heard by nobody else."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from pydantic import BaseModel, Field

from ctxarith.errors import ArgumentError
from ctxarith.models.slots import LLMSlots
from ctxarith.models.summarizers import INSTRUCTIONS, PromptSummarizer

# LangGraph streams no token of a call with this tag.
_NO_STREAM = "nostream"

Model = Runnable[Any, Any]


class SummaryPoint(BaseModel):
    """One thing that the summary keeps."""

    kind: Literal["decision", "commitment", "fact", "question", "remark"]
    text: str = Field(description="one sentence")
    turns: list[int] = Field(description="the numbers of the turns that say so")


class ConversationSummary(BaseModel):
    """The points of a conversation that are still true."""

    points: list[SummaryPoint]


class FoundSlot(BaseModel):
    """An attribute and the value that the text states."""

    attribute: str
    value: str | None = Field(default=None, description="copied from the text; null where none is stated")


class FoundSlots(BaseModel):
    """What a text asserts."""

    slots: list[FoundSlot]


def chat_summarizer(
    model: Model, *, instructions: str = INSTRUCTIONS, structured: bool | None = None
) -> PromptSummarizer:
    """A chat model as the summariser of `RollingMemory(summarizer=...)`.

    It is called behind, outside the run that appended: no callback, tag or stream of that run hears of it.
    What the model may do wrong is taken care of by the memory; see `ctxarith.ports.Summarizer`.

    Args:
        model: a chat model, or a runnable made of one (`with_retry`, `with_fallbacks`).
        instructions: what stands above the points and the turns.
        structured: whether to ask through `with_structured_output`; by default where the model has it,
            and otherwise for JSON in the prompt.

    Raises:
        ArgumentError: it is no model, or has no structured output and that was asked for.

    >>> from langchain_core.language_models import FakeListChatModel
    >>> model = FakeListChatModel(responses=['{"points": []}'])
    >>> chat_summarizer(model).prompt.__name__
    'prompt'
    """
    ask = _asking(model, ConversationSummary, source="ctxarith_summary", structured=structured)
    return PromptSummarizer(ask, instructions=instructions)


def chat_slots(model: Model, *, structured: bool | None = None, **options: Any) -> LLMSlots:
    """A chat model as the slot extractor of `Corpus.open(slots=...)`; see `ctxarith.LLMSlots`.

    Args:
        model: see `chat_summarizer`.
        structured: see `chat_summarizer`.
        **options: of `LLMSlots`: `attributes`, `subject`, `otherwise`, `instructions`.

    >>> from langchain_core.language_models import FakeListChatModel
    >>> from ctxarith import Record
    >>> model = FakeListChatModel(responses=['{"slots": [{"attribute": "fee", "value": "12 EUR"}]}'])
    >>> slots = chat_slots(model, attributes=["fee"], subject="school")
    >>> slots(Record("r1", "The fee is 12 EUR.", metadata={"school": "s1"}))[0].value
    '12 EUR'
    """
    ask = _asking(model, FoundSlots, source="ctxarith_slots", structured=structured)
    return LLMSlots(ask, **options)


def _asking(
    model: Model, schema: type[BaseModel], *, source: str, structured: bool | None
) -> Callable[[str], str]:
    if not isinstance(model, Runnable):
        raise ArgumentError("model", model, "a chat model of langchain_core, or a runnable made of one")
    asked = model if structured is False else _structured(model, schema, obliged=structured is True)
    config: RunnableConfig = {
        "tags": [_NO_STREAM],
        "metadata": {"lc_source": source},
        "run_name": source,
    }

    def alone(prompt: str) -> Any:
        # Runs find their parent here; this call has none.
        var_child_runnable_config.set(None)
        return asked.invoke(prompt, config)

    return lambda prompt: _text(copy_context().run(alone, prompt))


def _structured(model: Model, schema: type[BaseModel], *, obliged: bool) -> Model:
    structure = getattr(model, "with_structured_output", None)
    try:
        if structure is not None:
            made: Model = structure(schema)
            return made
    except NotImplementedError as error:
        if obliged:
            raise ArgumentError(
                "structured", True, f"this model has no structured output: {error}"
            ) from error
    if obliged:
        raise ArgumentError("structured", True, "this runnable has no with_structured_output")
    return model


def _text(answer: Any) -> str:
    if answer is None:
        rule = "the model gave no structured answer: say structured=False to ask for JSON in the prompt"
        raise ArgumentError("structured", None, rule)
    if isinstance(answer, BaseModel) and isinstance(answer, ConversationSummary | FoundSlots):
        return answer.model_dump_json()
    return str(answer if isinstance(answer, str) else getattr(answer, "text", ""))
