"""LlamaIndex's language models at ingest."""

from __future__ import annotations

from typing import Any

from llama_index.core.llms import LLM

from ctxarith.errors import ArgumentError
from ctxarith.models.slots import LLMSlots


def llm_slots(llm: LLM, **options: Any) -> LLMSlots:
    """A language model as the slot extractor of `Corpus.open(slots=...)`; see `ctxarith.LLMSlots`.

    It is asked by `complete`, for JSON in the prompt.

    Args:
        llm: any of LlamaIndex's.
        **options: of `LLMSlots`: `attributes`, `subject`, `otherwise`, `instructions`.

    Raises:
        ArgumentError: it is no such model.

    >>> from llama_index.core.llms import MockLLM
    >>> llm_slots(MockLLM(), attributes=["fee"]).prompt("The fee is 12 EUR.").splitlines()[-1]
    'Text: The fee is 12 EUR.'
    """
    if not isinstance(llm, LLM):
        raise ArgumentError("llm", llm, "a language model of llama_index.core")
    return LLMSlots(lambda prompt: llm.complete(prompt).text, **options)
