"""The settings of a retriever, checked when it is made; the open corpus is held by reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Self

from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, field_validator, model_validator

from ctxarith.corpus import Corpus
from ctxarith.errors import ArgumentError, CtxArithError
from ctxarith.question import Question
from ctxarith.stores.foreign import Reading
from ctxarith.where import where
from langchain_ctxarith.caller import checked_principal
from langchain_ctxarith.documents import mapped

# Of `Corpus.retrieve`; the others are settings of their own here, or would move the citation marks.
SEARCH = ("scope", "as_of", "rank", "words", "rerank", "include_superseded", "group_by")
_ELSEWHERE = {
    **dict.fromkeys(("tokens", "max_tokens"), "token_budget="),
    **dict.fromkeys(("top", "top_k"), "k="),
    "where": "filter=",
    **dict.fromkeys(("slots", "policy", "clock", "embedder", "options"), "corpus_options={...}"),
}
# These need the corpus.
_WHEN_ASKED = ("as_of", "rerank")


class NotPicklable(CtxArithError, TypeError):
    """A retriever holds an open corpus, which stays in its process."""


class Settings(BaseRetriever):
    """See `CtxArithRetriever`. `configurable_fields` makes a new one for a request, so this stays cheap."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    # Left out of repr, which goes into traces: whatever may name a customer.
    corpus: Corpus = Field(repr=False, exclude=True)
    k: int = Field(default=4, ge=1, strict=True)
    filter: Any = Field(default=None, repr=False)
    principal: Any = Field(default=None, repr=False, exclude=True)
    token_budget: int | None = Field(default=None, ge=1, strict=True)
    thread_key: str | None = "thread_id"
    fields: Mapping[str, Any] | None = Field(default=None, repr=False)
    passages: bool = False
    evidence: bool = True
    search_kwargs: dict[str, Any] = Field(default_factory=dict, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        for name in given if isinstance(given, dict) else ():
            if name in _ELSEWHERE or name in SEARCH:
                place = _ELSEWHERE.get(name, "search_kwargs={...}")
                raise ArgumentError("settings", name, f"is given as {place}")
        return given

    @field_validator("filter")
    @classmethod
    def _check_filter(cls, given: Any) -> Any:
        where(given)
        return given

    @field_validator("principal")
    @classmethod
    def _check_principal(cls, given: Any) -> Any:
        return given if callable(given) else checked_principal("principal", given)

    @field_validator("fields")
    @classmethod
    def _check_fields(cls, given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        Reading.of(mapped(given))
        return given

    @field_validator("search_kwargs")
    @classmethod
    def _check_search(cls, given: dict[str, Any]) -> dict[str, Any]:
        for name in given:
            if name not in SEARCH:
                raise ArgumentError("search_kwargs", name, f"known are {', '.join(SEARCH)}")
        Question(**{name: value for name, value in given.items() if name not in _WHEN_ASKED}).pipeline()
        return given

    def __getstate__(self) -> NoReturn:
        raise NotPicklable(
            f"{type(self).__name__} holds an open corpus, which stays in its process: open the corpus in the "
            "other process with Corpus.open(path) and make the retriever there"
        )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        # The corpus is shared: it is safe from any number of threads, and there is one a folder.
        return self.model_copy()
