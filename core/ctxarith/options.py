"""The settings of an open corpus, in one place for `Corpus.open` and `Corpus.in_memory`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import TypedDict

from ctxarith.algebra import Stage
from ctxarith.errors import ArgumentError, RecordError
from ctxarith.ingest.prepare import Preparation
from ctxarith.ingest.slots import SUBJECT_KEY, RuleSlots, SlotExtractor
from ctxarith.instant import zone
from ctxarith.models.embedders import WordLlamaEmbedder, checked_embedder, identity
from ctxarith.models.slots import LLMSlots
from ctxarith.models.tokens import token_counter
from ctxarith.normalise import clean_id
from ctxarith.policy import Policy
from ctxarith.ports import Clock, Embedder, LlamaIndexEmbedding, TokenCounter
from ctxarith.remembered import wanted_settings
from ctxarith.stages.rerank import Rerank, Scorer, rerank


class Options(TypedDict, total=False):
    """What a corpus may be told when it is opened; all of it may be left out.

    embedder: any object with LangChain's or LlamaIndex's embedding methods; offline by default.
    policy: once set, every call must name its principal.
    clock: the present, as a function to an aware datetime; inject one to repeat a run.
    reranker: what `retrieve(rerank=True)` reads the best hits with, such as `CrossEncoderReranker()`;
        or a whole `rerank(...)` stage with its time limit.
    tokenizer: an encoding or model name, or a function from text to a count.
    slots: what extracts slots at ingest, such as `RuleSlots` or `LLMSlots`; explicit slots win.
    subject_key: the metadata key that names a slot's subject ("lead_id").
    searchable: metadata keys that are embedded, indexed and shown before the text.
    stem, stop_words: English analysis; fixed when the corpus is made.
    naive_zone: the zone of times without an offset, which are refused otherwise.
    """

    embedder: Embedder | LlamaIndexEmbedding | None
    policy: Policy | None
    clock: Clock | None
    reranker: Scorer | Stage | None
    tokenizer: str | TokenCounter | None
    slots: SlotExtractor | None
    subject_key: str
    searchable: Sequence[str] | None
    stem: bool | None
    stop_words: bool | None
    naive_zone: str | None


@dataclass(frozen=True, slots=True)
class Setup:
    """Options, checked and with their defaults."""

    embedder: Embedder
    reranker: Rerank | None
    policy: Policy | None
    clock: Clock
    counter: TokenCounter
    slots: SlotExtractor | None
    subject_key: str
    zone: tzinfo | None
    wanted: dict[str, str]

    @classmethod
    def of(cls, options: Options) -> Setup:
        """Check the options.

        Raises:
            ArgumentError: names the option.
        """
        unknown = sorted(set(options) - set(Options.__annotations__))
        if unknown:
            known = ", ".join(Options.__annotations__)
            raise ArgumentError("options", unknown, f"known options are {known}")
        policy = options.get("policy")
        if policy is not None and not isinstance(policy, Policy):
            raise ArgumentError("policy", policy, "a Policy, or None for none")
        given = options.get("embedder")
        embedder = checked_embedder(WordLlamaEmbedder() if given is None else given)
        for name in ("clock", "slots"):
            if options.get(name) is not None and not callable(options.get(name)):
                raise ArgumentError(name, options.get(name), "a function")
        for name in ("stem", "stop_words"):
            if not isinstance(options.get(name), bool | None):
                raise ArgumentError(name, options.get(name), "True, False or None")
        subject_key = options.get("subject_key", SUBJECT_KEY)
        if not isinstance(subject_key, str) or not subject_key:
            raise ArgumentError("subject_key", subject_key, "the name of a metadata key")
        clock, slots = options.get("clock"), options.get("slots")
        return cls(
            embedder=embedder,
            reranker=_reranking(options.get("reranker")),
            policy=policy,
            clock=utc_now if clock is None else clock,
            counter=token_counter(options.get("tokenizer")),
            slots=slots.about(subject_key) if isinstance(slots, RuleSlots | LLMSlots) else slots,
            subject_key=subject_key,
            zone=_zone(options.get("naive_zone")),
            wanted=wanted_settings(
                embedder=identity(embedder),
                stem=options.get("stem"),
                stop_words=options.get("stop_words"),
                searchable=_keys(options.get("searchable")),
            ),
        )

    def preparation(self, searchable: Sequence[str]) -> Preparation:
        """The write path's settings, with what the corpus remembers as searchable."""
        return Preparation(
            count_tokens=self.counter,
            searchable=tuple(searchable),
            slots=self.slots,
            subject_key=self.subject_key,
            zone=self.zone,
        )


def utc_now() -> datetime:
    """The present, in UTC."""
    return datetime.now(UTC)


def _reranking(given: Scorer | Stage | None) -> Rerank | None:
    if given is None or isinstance(given, Rerank):
        return given
    if isinstance(given, Stage):
        raise ArgumentError("reranker", given, "a scorer, or a stage made by rerank(...)")
    # The stage's own checks, so that a scorer without a scale is refused at opening.
    return rerank(given)


def _keys(given: object) -> list[str] | None:
    if given is None:
        return None
    if not isinstance(given, list | tuple) or not all(isinstance(key, str) for key in given):
        raise ArgumentError("searchable", given, "a list of metadata keys")
    try:
        return [clean_id(None, key, "searchable", limit=256) for key in given]
    except RecordError as error:
        raise ArgumentError("searchable", given, str(error)) from error


def _zone(name: str | None) -> tzinfo | None:
    try:
        return zone(name)
    except ValueError as error:
        raise ArgumentError("naive_zone", name, str(error)) from error
