"""The first of an order are read together with the question, and put in order anew."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ctxarith.algebra import Kept, Moment, Stage
from ctxarith.errors import ArgumentError, short
from ctxarith.evidence import Drop, Hit
from ctxarith.index.columns import Mask
from ctxarith.index.dense import Scores
from ctxarith.ports import LOGIT, UNIT, Reranker, Windowed
from ctxarith.stages.pool import Left, Pool, Ranks

TOP = 50
# Windows of one passage that are read at most: a book must not cost minutes.
MOST_WINDOWS = 8
# Calls that may run at once under a time limit, those given up on and not yet back included: a model
# that hangs must not gather a thread for every question.
_RUNNING = threading.BoundedSemaphore(32)

Answer = TypeVar("Answer")
Scorer = Reranker | Callable[[str, list[str]], Any]


@dataclass(frozen=True, slots=True, repr=False)
class Rerank(Stage):
    """See `rerank`."""

    scorer: Scorer
    scale: str
    top: int | None = TOP
    keep: int | None = None
    seconds: float | None = None
    name = "rerank"
    needs_order = True

    def __call__(self, hits: Sequence[Hit], moment: Moment, /) -> Kept:
        """Score the first, order them by it, and leave the rest below as it was."""
        pool = Pool.of(hits)
        head = pool if self.top is None else pool[: self.top]
        try:
            if len(head):
                pool = self._ordered(pool, head, *self._scores(list(head), moment))
        except Exception as error:
            # An optional step must not take retrieval down; the trace says that it was left out.
            said = short(str(error), 120)[1:-1]
            pool = replace(
                pool,
                reranked=None,
                remark=f"not reranked ({type(error).__name__}: {said}): the order as it was",
            )
        return (pool, []) if self.keep is None else self._cut(pool, len(head))

    def note(self, kept: Sequence[Hit], dropped: Sequence[Drop], moment: Moment, /) -> str:
        """What was scored, or why nothing was."""
        remark = kept.remark if isinstance(kept, Pool) else ""
        left = f"{len(dropped):,} left out" if dropped else ""
        return "; ".join(filter(None, [remark, left]))

    def __repr__(self) -> str:
        # By name and not by address, so that the trace of the same run is the same text.
        return f"rerank({_named(self.scorer)}, top={self.top}, keep={self.keep}, seconds={self.seconds})"

    def _scores(self, head: Sequence[Hit], moment: Moment) -> tuple[Scores, str]:
        """The raw score of each hit, and a remark on how they came about."""
        passages = [moment.passage(hit) for hit in head]
        context = copy_context()
        asked = partial(self._asked, moment.query, passages)
        return _within(self.seconds, lambda: context.run(asked))

    def _asked(self, query: str, passages: list[str]) -> tuple[Scores, str]:
        parts = [[passage] for passage in passages]
        if isinstance(self.scorer, Windowed):
            parts = [list(self.scorer.windows(query, passage)) or [passage] for passage in passages]
        read = [part[:MOST_WINDOWS] for part in parts]
        flat = [window for part in read for window in part]
        scores = self._checked(self.scorer(query, flat), len(flat))
        begins = np.cumsum([0, *map(len, read[:-1])])
        remark = f"{len(passages):,} scored"
        if windowed := sum(len(part) > 1 for part in parts):
            remark += f", {windowed:,} in windows"
        if cut := sum(len(part) > MOST_WINDOWS for part in parts):
            remark += f", {cut:,} truncated after {MOST_WINDOWS} windows"
        return np.maximum.reduceat(scores, begins), remark

    def _checked(self, given: Any, count: int) -> Scores:
        scores = np.asarray(given, np.float64)
        if scores.shape != (count,):
            raise ValueError(f"{count} passages and scores of shape {scores.shape}")
        if not np.isfinite(scores).all():
            raise ValueError("a score is NaN or infinite")
        if self.scale == UNIT and not ((scores >= 0) & (scores <= 1)).all():
            raise ValueError("a score outside 0 to 1, from a scorer that declares 'unit'")
        return scores

    def _ordered(self, pool: Pool, head: Pool, raw: Scores, remark: str) -> Pool:
        rows, size = head.order, len(pool.table)
        # Equal scores stand as they stood; what holds a named identifier stays ahead.
        places = np.lexsort((np.arange(len(rows)), -raw, -pool.table.tier[rows]))
        rank, score, share = np.zeros(size, np.int64), np.zeros(size), np.zeros(size)
        rank[rows[places]] = np.arange(1, len(rows) + 1)
        score[rows] = raw
        share[rows] = mapped(raw, self.scale)
        order = np.concatenate([rows[places], pool.order[len(rows) :]])
        reranked = Ranks(rank, score, share)
        return replace(pool, order=order, score=share, reranked=reranked, remark=remark).below_successors()

    def _cut(self, pool: Pool, scored: int) -> Kept:
        stays = np.arange(len(pool)) < (self.keep or 0)
        stays[:scored] |= _pinned(pool[:scored])
        reason = f"below the first {self.keep} after reranking"
        return pool.take(stays), Left(pool.take(~stays), self.name, reason)


def rerank(
    scorer: Scorer,
    *,
    top: int | None = TOP,
    keep: int | None = None,
    seconds: float | None = None,
    scale: str | None = None,
) -> Rerank:
    """A stage that orders the first `top` hits by a model that reads question and passage together.

    The scored stand above the rest, which stays as it was. Within them: hits that hold an identifier
    of the question first, then by raw score, ties as before; a superseded record below its successors.
    The mapped score (a logit through the sigmoid, a unit score as it is) is what `composite` takes for
    relevance and what `at_least(reranked=...)` compares. A scorer that fails, is late, or gives NaN or
    too few scores changes nothing: the order stays, and the step's note in the trace says why.

    Args:
        scorer: `scorer(query, passages)` gives one number for each passage, higher is better, and
            declares `scale`, as `CrossEncoderReranker` does; or a plain function together with `scale`.
        top: how many are scored; `None` for all.
        keep: how many leave the step at most; `None` for all. Successors and the records that assert
            a slot are never cut by it if they were among the scored.
        seconds: the time limit; `None` for none. A late model goes on in a thread of its own.
        scale: "logit" or "unit", for a scorer that does not declare it.

    Raises:
        ArgumentError: names the parameter.
    """
    if not callable(scorer):
        raise ArgumentError("scorer", scorer, "a function from (query, passages) to scores")
    declared = getattr(scorer, "scale", None)
    if scale is not None and declared is not None and scale != declared:
        raise ArgumentError("scale", scale, f"the scorer itself declares {declared!r}")
    settled = declared if scale is None else scale
    if not isinstance(settled, str) or settled not in (LOGIT, UNIT):
        rule = f"{LOGIT!r} or {UNIT!r}, as the scorer's attribute scale or here: it is not guessed"
        raise ArgumentError("scale", settled, rule)
    for name, count in (("top", top), ("keep", keep)):
        whole = isinstance(count, int) and not isinstance(count, bool)
        if count is not None and not (whole and count >= 1):
            raise ArgumentError(name, count, "a positive whole number of records, or None for all")
    if seconds is not None:
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not number or not 0 < seconds < threading.TIMEOUT_MAX:
            raise ArgumentError("seconds", seconds, "a number above 0, or None for no limit")
    return Rerank(scorer, settled, top, keep, None if seconds is None else float(seconds))


def mapped(raw: Scores, scale: str) -> Scores:
    """Raw scores on a scale from 0 to 1: `1 / (1 + exp(-x))` of a logit, a unit score as it is.

    >>> [round(float(one), 4) for one in mapped(np.asarray([8.1, 0.4, -8.2, 1000, -1000]), "logit")]
    [0.9997, 0.5987, 0.0003, 1.0, 0.0]
    """
    if scale == UNIT:
        return raw
    # In this form no power overflows.
    return np.exp(-np.logaddexp(0.0, -raw))


def _pinned(pool: Pool) -> Mask:
    """Successors, and the current assertions of slots: another signal had them right."""
    return np.asarray([bool(hit.replaces) or _asserts(hit) for hit in pool], np.bool_)


def _asserts(hit: Hit) -> bool:
    stale = set(hit.stale_slots)
    return not hit.superseded_by and any(
        slot.value is not None and slot not in stale for slot in hit.record.slots
    )


def _named(scorer: Scorer) -> str:
    name = getattr(scorer, "name", None) or getattr(scorer, "__qualname__", None)
    return str(name or type(scorer).__qualname__)


def _within(seconds: float | None, call: Callable[[], Answer]) -> Answer:
    """The answer of a call, or `TimeoutError` after so many seconds."""
    if seconds is None:
        return call()
    if not _RUNNING.acquire(blocking=False):
        raise TimeoutError("too many earlier calls are still running")
    answers: queue.SimpleQueue[Callable[[], Answer]] = queue.SimpleQueue()

    def failed(error: BaseException) -> Answer:
        raise error

    def work() -> None:
        try:
            answer = call()
            answers.put(lambda: answer)
        except BaseException as error:
            answers.put(partial(failed, error))
        finally:
            _RUNNING.release()

    # A daemon, so that a model that never comes back does not keep the process alive.
    threading.Thread(target=work, name="ctxarith-rerank", daemon=True).start()
    try:
        return answers.get(timeout=seconds)()
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
