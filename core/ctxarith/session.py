"""Cite before you scan: a follow-up is answered from what the thread has cited, when that is enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from ctxarith.algebra import Pipeline
from ctxarith.confidence import Evidence, Gate, Verdict, judged, thread
from ctxarith.errors import ArgumentError
from ctxarith.evidence import Drop, Step
from ctxarith.fields import field
from ctxarith.index.columns import Mask
from ctxarith.index.lexical import idf
from ctxarith.instant import TimeLike
from ctxarith.ledger import Ledger, ThreadKey
from ctxarith.ports import Vector
from ctxarith.question import Question, reranking
from ctxarith.run import Result
from ctxarith.scene import Scene
from ctxarith.stages.rerank import Rerank
from ctxarith.stages.supersede import SUPERSEDED

CITED, CORPUS = "cited", "corpus"
# What a question of a session may be asked under; the principal is the session's own.
QUESTIONS = frozenset(f.name for f in fields(Question)) - {"reranking"}

Embed = Callable[[str], Vector]


class Threads(Protocol):
    """Where ledgers are kept."""

    def get(self, key: ThreadKey) -> Ledger:
        """The ledger of a thread; an empty one for a new thread."""
        ...

    def change(self, key: ThreadKey, change: Callable[[Ledger], Ledger]) -> Ledger:
        """Replace a ledger by what a function makes of it, in one step."""
        ...

    def clear(self, key: ThreadKey) -> None:
        """Forget a thread."""
        ...


@dataclass(frozen=True, slots=True)
class Asking:
    """What a session borrows from its corpus, for one principal.

    Args:
        ask: runs a pipeline: (pipeline, text, as_of, embed).
        embed: the unit vector of a question.
        sources: the sources of permitted records, named by their ids or by themselves.
        reranker: the corpus's reranking stage.
    """

    ask: Callable[[Pipeline, str, TimeLike | None, Embed], Result]
    embed: Embed
    sources: Callable[[Iterable[str]], list[str]]
    reranker: Rerank | None


class Session:
    """One thread of one caller. Use it from any number of threads; two processes may share it.

    Each question first goes to the permitted records of the cited sources: the same pipeline, under
    today's policy. If the gate finds that answer enough, it is returned; otherwise the whole corpus is
    searched, and the sources of that answer are cited. `Result.trace` says which stage answered and why.

    Made by `Corpus.session`.
    """

    def __init__(
        self, key: ThreadKey, asking: Asking, threads: Threads, *, gate: Gate | None = None, capacity: int
    ) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise ArgumentError("capacity", capacity, "how many sources a thread keeps cited: 1 or more")
        if gate is not None and not callable(gate):
            raise ArgumentError("gate", gate, "a gate such as thread(), relative(), or a function")
        self._key = key
        self._asking = asking
        self._threads = threads
        self._gate: Gate = thread() if gate is None else gate
        self._capacity = capacity
        self._lock = threading.RLock()

    @property
    def cited(self) -> tuple[str, ...]:
        """The source ids that are cited and the caller may see now, the least recently cited first."""
        cited = self._threads.get(self._key).cited
        permitted = set(self._asking.sources(cited))
        return tuple(source for source in cited if source in permitted)

    def cite(self, ids: str | Iterable[str]) -> tuple[str, ...]:
        """Cite records or sources by their ids; what the caller may not see is passed over.

        Returns:
            The sources that were cited.
        """
        named = [ids] if isinstance(ids, str) else list(ids) if isinstance(ids, Iterable) else [ids]
        if not all(isinstance(one, str) for one in named):
            raise ArgumentError("ids", ids, "ids of records or sources")
        sources = self._asking.sources(named)
        self._threads.change(self._key, lambda ledger: ledger.citing(sources, self._capacity))
        return tuple(sources)

    def clear(self) -> None:
        """Forget what this thread has cited and asked."""
        self._threads.clear(self._key)

    def retrieve(
        self, text: str, *, as_of: TimeLike | None = None, rerank: bool | int = False, **asked: Any
    ) -> Result:
        """The right few hundred tokens for the next question of the thread.

        Args:
            text: the question.
            as_of: the time that it is about.
            rerank: as for `Corpus.retrieve`.
            **asked: `scope`, `where`, `top`, `tokens`, `rank` and the others of `Corpus.retrieve`.
        """
        if unknown := sorted(set(asked) - QUESTIONS):
            raise ArgumentError(
                "options", unknown, f"a session's question takes {', '.join(sorted(QUESTIONS))}"
            )
        question = Question(**asked, reranking=reranking(self._asking.reranker, rerank))
        embed = lru_cache(maxsize=1)(self._asking.embed)
        turn = _Turn(question.pipeline(), lambda asked: self._asking.ask(asked, text, as_of, embed))
        with self._lock:
            began = time.perf_counter()
            ledger = self._threads.get(self._key)
            first = self._from_cited(turn, ledger)
            verdict = Verdict(False, 0.0, "nothing is cited yet")
            if first is not None:
                verdict = judged(self._gate, _evidence(text, embed(text), first, ledger, turn))
            took = (time.perf_counter() - began) * 1e3
            step = Step(CITED, 0 if first is None else len(first.hits), took, verdict.reason)
            if first is not None and verdict.enough:
                answer, best = first.staged(CITED, verdict.confidence, step), None
            else:
                whole = turn.ask(turn.pipeline)
                best = _best(_target(whole.scene), embed(text), whole.scene) if text.strip() else None
                answer = whole.staged(CORPUS, verdict.confidence, step)
            sources = [hit.record.source_id for hit in reversed(answer.hits)]
            self._threads.change(
                self._key, lambda kept: kept.citing(sources, self._capacity).asked(embed(text), best)
            )
            return answer

    def _from_cited(self, turn: _Turn, ledger: Ledger) -> Result | None:
        """The answer from the cited sources, and from those that have taken their place since."""
        cited = list(ledger.cited)
        for _ in range(_FOLLOWED):
            if not cited:
                return None
            condition = field("source_id").is_in(cited)
            answer = turn.ask(Pipeline(turn.pipeline.candidates & condition, turn.pipeline.stages))
            heirs = self._asking.sources(_replaced_by(answer.drops))
            fresh = [source for source in dict.fromkeys(heirs) if source not in cited]
            if not fresh:
                return answer
            cited += fresh
        return answer


# A chain of successors from source to source is followed so many steps in one turn.
_FOLLOWED = 4


@dataclass(frozen=True, slots=True)
class _Turn:
    """A question as a pipeline, and a way to run it and narrower ones."""

    pipeline: Pipeline
    ask: Callable[[Pipeline], Result]


def _replaced_by(drops: Iterable[Drop]) -> list[str]:
    return [rid for drop in drops if drop.stage == SUPERSEDED for rid in drop.by]


def _evidence(text: str, vector: Vector, first: Result, ledger: Ledger, turn: _Turn) -> Evidence:
    scene = first.scene
    wide = vector.astype(np.float64)
    nearest = [
        float(earlier.astype(np.float64) @ wide)
        for earlier in ledger.questions
        if len(earlier) == len(vector)
    ]

    def corpus_best() -> float:
        arms = turn.pipeline.candidates.arms
        columns = scene.snapshot.columns
        masks = [scene.in_scope & columns.mask(arm.condition, scene.in_scope) for arm in arms]
        return _best(np.logical_or.reduce(masks) & ~scene.retired, vector, scene)

    return Evidence(
        query=text,
        hits=first.hits,
        best=_best(_target(scene), vector, scene),
        familiar=max(nearest, default=0.0),
        usual=float(np.mean(ledger.bests)) if ledger.bests else 0.0,
        coverage=_coverage(text, _target(scene), scene),
        corpus_best=corpus_best,
    )


def _target(scene: Scene) -> Mask:
    return scene.target & ~scene.retired


def _best(mask: Mask, vector: Vector, scene: Scene) -> float:
    """The highest cosine among some rows; 0 where there are none."""
    if not mask.any():
        return 0.0
    _, cosines = scene.snapshot.dense.nearest(mask, vector, depth=1, counted=mask)
    return float(cosines.max(initial=0.0))


def _coverage(text: str, mask: Mask, scene: Scene) -> float:
    """See `Evidence.coverage`; IDF counted over the rows that the caller may see in this scope."""
    lexical, among = scene.snapshot.lexical, scene.in_scope
    size, whole = int(among.sum()), 0.0
    held = np.zeros(len(mask))
    for term in scene.snapshot.analyzer.query(text):
        holding = lexical.holding([term], every=True)
        weight = idf(size, int((holding & among).sum()))
        whole += weight
        held[holding & mask] += weight
    return float(held.max(initial=0.0)) / whole if whole else 0.0
