"""How every question of a retriever is asked."""

from __future__ import annotations

from typing import Any, TypedDict

from llama_index.core.callbacks.base import CallbackManager

from ctxarith.confidence import Gate
from ctxarith.errors import ArgumentError
from ctxarith.instant import TimeLike
from ctxarith.question import ScopeLike


class Asked(TypedDict, total=False):
    """How every question is asked; see `Corpus.retrieve` and `Corpus.session`."""

    scope: ScopeLike
    as_of: TimeLike | None
    rank: str
    words: str
    rerank: bool | int
    include_superseded: bool
    group_by: str | None
    gate: Gate | None
    capacity: int
    callback_manager: CallbackManager | None
    object_map: dict[str, Any] | None
    objects: list[Any] | None
    verbose: bool


def checked(asked: Asked) -> dict[str, Any]:
    """The arguments, or a refusal of the first name that is not known.

    Raises:
        ArgumentError: so that a misspelt filter or scope is never lost.
    """
    unknown = sorted(set(asked) - set(Asked.__annotations__))
    if unknown:
        rule = f"also known are {', '.join(Asked.__annotations__)}; a corpus takes more in options={{...}}"
        raise ArgumentError("asked", unknown, rule)
    return dict(asked)
