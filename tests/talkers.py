"""Chat models for tests: they say what a function makes of the messages, and remember what they were sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

Say = Callable[[list[BaseMessage]], AIMessage | str]


class Talker(BaseChatModel):
    """Answers by a function. Streams word for word where it is asked to."""

    say: Say
    requests: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "talker"

    @property
    def last(self) -> str:
        """The last request as one text: everything that a provider would be sent."""
        return as_sent(self.requests[-1])

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._said(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Any:
        said = self._said(messages)
        for word in said.text.split(" "):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))
            if run_manager is not None:
                run_manager.on_llm_new_token(f"{word} ", chunk=chunk)
            yield chunk

    def _said(self, messages: list[BaseMessage]) -> AIMessage:
        self.requests.append(list(messages))
        said = self.say(messages)
        return AIMessage(said) if isinstance(said, str) else said


def as_sent(messages: Sequence[BaseMessage]) -> str:
    """What of messages a provider is sent: contents and calls."""
    lines = []
    for one in messages:
        calls = [call["args"] for call in getattr(one, "tool_calls", [])]
        lines.append(f"{one.type}: {one.content} {calls or ''}")
    return "\n".join(lines)


def calling(name: str, call_id: str, **arguments: Any) -> AIMessage:
    """A message that calls one tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": call_id, "type": "tool_call"}])
