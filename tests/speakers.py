"""Language models of LlamaIndex that say what a test tells them; nothing else of the host is replaced."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from llama_index.core.base.llms.types import (
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import CustomLLM

Answer = Callable[[str], str]


class Speaker(CustomLLM):
    """Answers a prompt by a function, whole or in pieces, and keeps the prompts."""

    _answer: Answer = PrivateAttr()
    _prompts: list[str] = PrivateAttr(default_factory=list)

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer

    @property
    def prompts(self) -> list[str]:
        """What it was asked."""
        return self._prompts

    @property
    def metadata(self) -> LLMMetadata:
        """The sizes of a small model."""
        return LLMMetadata(context_window=2048, num_output=256)

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        """The answer."""
        self._prompts.append(prompt)
        return CompletionResponse(text=self._answer(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponseGen:
        """The answer in pieces of five characters."""
        self._prompts.append(prompt)
        text = self._answer(prompt)

        def pieces() -> CompletionResponseGen:
            for at in range(0, len(text), 5):
                yield CompletionResponse(text=text[: at + 5], delta=text[at : at + 5])

        return pieces()

    async def astream_complete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> CompletionResponseAsyncGen:
        """The same in an event loop."""

        async def pieces() -> CompletionResponseAsyncGen:
            for piece in self.stream_complete(prompt):
                yield piece

        return pieces()


def cites(word: str) -> Answer:
    """Says a word of the evidence and cites the mark before it; "I do not know." where there is none."""

    def answer(prompt: str) -> str:
        found = re.search(rf"ctx_citation: \[([^\]]+)\](?:(?!ctx_citation).)*?{word}", prompt, re.DOTALL)
        return f"It is {word} [{found[1]}]." if found else "I do not know."

    return answer
