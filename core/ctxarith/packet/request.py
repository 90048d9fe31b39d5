"""What a packet was asked for: normalised, as one spelling of JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ctxarith.algebra import Candidates, Kept, Moment, Pipeline, Stage
from ctxarith.errors import ArgumentError, PredicateError
from ctxarith.evidence import Hit
from ctxarith.instant import TimeLike, instant, iso
from ctxarith.normalise import clean_text
from ctxarith.packet.conditions import canonical, decoded, encoded
from ctxarith.predicate import EVERY, And, Or, Predicate
from ctxarith.question import Question, guard, reranking
from ctxarith.run import Result
from ctxarith.scopes import Scope
from ctxarith.stages.assemble import Budget
from ctxarith.stages.rank import Top
from ctxarith.stages.rerank import Rerank
from ctxarith.where import Where, where

MEMBERS, TOKENS = 8, 1_200
LIFETIME = timedelta(hours=1)

_ASKED = ("scope", "where", "top", "tokens", "as_of", "rank", "rerank", "include_superseded", "group_by")
_PASSED = ("rank", "include_superseded", "group_by")


@dataclass(frozen=True, slots=True)
class Pinned(Stage):
    """What was cited stands first, in the order in which it was cited."""

    names: tuple[str, ...]
    name = "cited"
    makes_order = True
    needs_order = True

    def __call__(self, hits: Sequence[Hit], moment: Moment, /) -> Kept:
        """Bring the cited hits to the front."""
        place = {name: n for n, name in enumerate(self.names)}
        last = len(place)

        def at(hit: Hit) -> int:
            return min(place.get(hit.id, last), place.get(hit.record.source_id, last))

        return sorted(hits, key=at), []


@dataclass(frozen=True, slots=True)
class Request:
    """The question of a packet and its bounds.

    Args:
        text: the question.
        pipeline: what chooses the members, without a budget: the packet counts its own rendering.
        top, tokens: at most so many members, and tokens of the rendering.
        as_of: the time that the question is about.
        sections: labels with their conditions, in the order of the page.
        cited: ids or sources that stand first.
        task: what the packet is for.
        lifetime: how long at most.
        plain: all of it as canonical JSON; the key of the cache.
        asked: the arguments of the same question for a session.
        restorable: whether `plain` suffices to ask again.
    """

    text: str
    pipeline: Pipeline
    top: int
    tokens: int
    as_of: datetime | None
    sections: tuple[tuple[str, Predicate], ...]
    cited: tuple[str, ...]
    task: str
    lifetime: timedelta
    plain: str
    asked: Mapping[str, Any]
    restorable: bool = True


@dataclass(frozen=True, slots=True)
class Case:
    """What the maker of a packet may say beside the question; see `Corpus.packet`."""

    task: str = ""
    sections: Mapping[str, Where] | None = None
    cited: Iterable[str] = ()
    lifetime: timedelta = LIFETIME

    def checked(self) -> tuple[str, tuple[tuple[str, Predicate], ...], tuple[str, ...], timedelta]:
        """Task, sections, cited names and lifetime.

        Raises:
            ArgumentError: names the parameter.
        """
        if not isinstance(self.task, str):
            raise ArgumentError("task", self.task, "the name of a task")
        if not isinstance(self.lifetime, timedelta) or self.lifetime <= timedelta(0):
            raise ArgumentError("lifetime", self.lifetime, "a timedelta above zero")
        if not isinstance(self.sections, Mapping | None):
            raise ArgumentError("sections", self.sections, "labels with their conditions")
        several = not isinstance(self.cited, str) and isinstance(self.cited, Iterable)
        cited: list[Any] = list(self.cited) if several else [self.cited]
        labelled = tuple((_label(name), where(rule)) for name, rule in (self.sections or {}).items())
        if not all(isinstance(name, str) for name in cited):
            raise ArgumentError("cited", cited, "ids or sources, as text")
        return self.task, labelled, tuple(dict.fromkeys(cited)), self.lifetime


def _label(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ArgumentError("sections", name, "a label is one line of text")
    return name


def request(text: str, case: Case, asked: Mapping[str, Any], *, reranker: Rerank | None) -> Request:
    """The request of a question in words.

    Args:
        text: the question.
        case: see `Case`.
        asked: `scope`, `where`, `top`, `tokens`, `as_of`, `rank`, `rerank`, `include_superseded`, `group_by`.
        reranker: the corpus's.

    Raises:
        ArgumentError, PredicateError, ScopeError: names what is wrong.
    """
    if not isinstance(text, str):
        raise ArgumentError("query", text, "the question as text, or a Result")
    unknown = sorted(set(asked) - set(_ASKED))
    if unknown:
        raise ArgumentError("packet", unknown, f"known arguments are {', '.join(_ASKED)}")
    task, sections, cited, lifetime = case.checked()
    given = {"top": MEMBERS, "tokens": TOKENS, "rank": "auto", "rerank": False, **asked}
    top, tokens = _bound("top", given["top"]), _bound("tokens", given["tokens"])
    as_of = _moment(given.get("as_of"))
    scope, condition = guard(given.get("scope")), where(given.get("where"))
    kept: dict[str, Any] = {name: given[name] for name in _PASSED if name in given}
    searched = {"scope": given.get("scope"), "where": condition, "top": top, **kept}
    question = Question(**searched, tokens=None, reranking=reranking(reranker, given["rerank"]))
    pipeline = _pinning(question.pipeline(), cited)
    clean = clean_text(None, "query", text)
    plain: dict[str, Any] = {"text": clean, "top": top, "tokens": tokens, "rerank": given["rerank"], **kept}
    plain |= {"as_of": None if as_of is None else iso(as_of), "task": task, "cited": list(cited)}
    plain["lifetime"] = lifetime.total_seconds()
    conditions = _spelled(scope, condition, sections)
    return Request(
        text=clean,
        pipeline=pipeline,
        top=top,
        tokens=tokens,
        as_of=as_of,
        sections=sections,
        cited=cited,
        task=task,
        lifetime=lifetime,
        plain=canonical({**plain, **(conditions or {})}),
        asked={**searched, "tokens": tokens},
        restorable=conditions is not None,
    )


def _spelled(
    scope: Predicate, condition: Predicate, sections: Iterable[tuple[str, Predicate]]
) -> dict[str, Any] | None:
    """The conditions as JSON values; `None` if one is of the caller's own class."""
    try:
        labelled = [[label, encoded(rule)] for label, rule in sections]
        return {"scope": encoded(scope), "where": encoded(condition), "sections": labelled}
    except PredicateError:
        return None


def request_of(result: Result, case: Case, asked: Mapping[str, Any]) -> Request:
    """The request behind a result; it cannot be written down, and lives in this process.

    Raises:
        ArgumentError: the result has no scene, or an argument is given that it has settled already.
    """
    task, sections, cited, lifetime = case.checked()
    unknown = sorted(set(asked) - {"top", "tokens"})
    if unknown or cited:
        settled = unknown or ["cited"]
        raise ArgumentError("packet", settled, "a result has settled this: ask with it, then make the packet")
    plan, trace = result.scene.plan, result.trace
    stages = tuple(stage for stage in plan.stages if not isinstance(stage, Budget))
    pipeline = Pipeline(Candidates(tuple(planned.arm for planned in plan.arms)), stages)
    top = _bound("top", asked.get("top", MEMBERS))
    tokens = _bound("tokens", asked.get("tokens", TOKENS))
    conditions = Or.of(*(planned.arm.condition for planned in plan.arms))
    return Request(
        text=trace.query,
        pipeline=pipeline,
        top=top,
        tokens=tokens,
        as_of=plan.permission.at,
        sections=sections,
        cited=(),
        task=task,
        lifetime=lifetime,
        plain=canonical({"text": trace.query, "stages": list(trace.stages), "task": task}),
        asked={"where": And.of(conditions, plan.scope), "top": top, "tokens": tokens},
        restorable=False,
    )


def restored(plain: str, *, reranker: Rerank | None) -> Request:
    """The request that a stored packet was made for."""
    given = json.loads(plain)
    sections = {label: decoded(rule) for label, rule in given.pop("sections")}
    case = Case(given.pop("task"), sections, given.pop("cited"), timedelta(seconds=given.pop("lifetime")))
    scope = decoded(given.pop("scope"))
    asked = {**given, "where": decoded(given["where"]), "scope": scope if isinstance(scope, Scope) else None}
    made = request(asked.pop("text"), case, asked, reranker=reranker)
    return replace(made, plain=plain)


def _pinning(pipeline: Pipeline, cited: tuple[str, ...]) -> Pipeline:
    """With an arm that recalls what is cited, and a stage before the cut that puts it first."""
    if not cited:
        return pipeline
    first = pipeline.candidates.arms[0]
    named = where({"$or": [{"id": {"$in": list(cited)}}, {"source_id": {"$in": list(cited)}}]})
    arm = replace(first, condition=named if first.condition == EVERY else And.of(first.condition, named))
    at = next((n for n, stage in enumerate(pipeline.stages) if isinstance(stage, Top)), len(pipeline.stages))
    stages = (*pipeline.stages[:at], Pinned(cited), *pipeline.stages[at:])
    return Pipeline(Candidates((*pipeline.candidates.arms, arm)), stages)


def _bound(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(name, value, "a packet is bounded: a whole number, 1 or more")
    return value


def _moment(given: TimeLike | None) -> datetime | None:
    try:
        return None if given is None else instant(given)
    except ValueError as error:
        raise ArgumentError("as_of", given, str(error)) from error
