"""The memory of LangChain's classic chains. Without `langchain_classic` the import raises `MissingExtra`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import ConfigDict, Field

from ctxarith.errors import ArgumentError, MissingExtra
from langchain_ctxarith.history import CtxArithChatMessageHistory
from langchain_ctxarith.spoken import window_messages

if find_spec("langchain_classic") is None:
    raise MissingExtra(what="CtxArithConversationMemory", package="langchain_classic", extra="classic")

from langchain_classic.base_memory import BaseMemory

# What classic chains add to their inputs, and what is never said.
_STOP = "stop"
_OUTPUT = "output"


class CtxArithConversationMemory(BaseMemory):
    """A thread as one variable of a classic chain's prompt: the window, never above its token budget.

    `BaseMemory` is deprecated in LangChain and goes with its version 2; new code takes
    `CtxArithChatMessageHistory` or the middleware. The async twins work in a worker thread.

    Args:
        chat_memory: the history of the thread; its memory's window is what the chain sees.
        memory_key: the variable.
        return_messages: give messages; by default one text, its lines as "user: ..." and "assistant: ...".
        input_key: what the user says; needed where the chain has several inputs.
        output_key: what the chain answers; "output", or the only one, by default.

    >>> memory = CtxArithConversationMemory(chat_memory=CtxArithChatMessageHistory("t1"))
    >>> memory.save_context({"input": "What is the fee?"}, {"output": "12 EUR."})
    >>> print(memory.load_memory_variables({})["history"])
    user: What is the fee?
    assistant: 12 EUR.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    # Left out of repr, which goes into traces.
    chat_memory: CtxArithChatMessageHistory = Field(repr=False, exclude=True)
    memory_key: str = "history"
    return_messages: bool = False
    input_key: str | None = None
    output_key: str | None = None

    @property
    def memory_variables(self) -> list[str]:
        """The variable that this adds to the inputs of a chain."""
        return [self.memory_key]

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The window now; the inputs do not matter."""
        window = self.chat_memory.memory.window()
        return {self.memory_key: window_messages(window) if self.return_messages else window.text}

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Append what the user said and what the chain answered.

        Raises:
            ArgumentError: it is not clear which of the values was said; name `input_key` or `output_key`.
        """
        asked = _one(inputs, self.input_key, "input_key", without=(self.memory_key, _STOP))
        answered = _one(outputs, self.output_key, "output_key", preferred=_OUTPUT)
        self.chat_memory.add_messages([_message(asked, HumanMessage), _message(answered, AIMessage)])

    def clear(self) -> None:
        """Delete the thread."""
        self.chat_memory.clear()


def _one(
    values: Mapping[str, Any],
    key: str | None,
    name: str,
    *,
    without: tuple[str, ...] = (),
    preferred: str | None = None,
) -> Any:
    left = [one for one in values if one not in without]
    if key is None:
        key = left[0] if len(left) == 1 else preferred
    if key is None or key not in values:
        raise ArgumentError(name, key, f"name one of {', '.join(left) or 'no values at all'}")
    return values[key]


def _message(said: Any, kind: type[HumanMessage] | type[AIMessage]) -> BaseMessage:
    return said if isinstance(said, BaseMessage) else kind(said if isinstance(said, list) else str(said))
