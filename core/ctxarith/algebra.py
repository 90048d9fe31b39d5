"""Queries as values: sets of candidates, stages, and pipelines. Nothing here runs.

    query = ((semantic | lexical) & scope("jkshah/ca-foundation") & mine) - superseded >> rrf() >> top(5)

* `candidates & condition` narrows, `|` adds a way of finding, `-` removes, `>>` orders.
* Set operators never compute or drop a score: every hit keeps who found it and at which rank.
* Python binds `-` before `>>` before `&` before `|`. Each expression that this makes to mean
  something else than it reads is an error, for the type checker and at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ctxarith.errors import AlgebraError, ArgumentError
from ctxarith.evidence import LEXICAL, SEMANTIC, Drop, Hit
from ctxarith.ports import TokenCounter
from ctxarith.predicate import EVERY, And, Not, Predicate
from ctxarith.scopes import Everyone, Scope

Kept = tuple[Sequence[Hit], Sequence[Drop]]

_PARENTHESES = (
    "`>>` binds tighter than `&` and `|`: put the whole set in parentheses, "
    "((semantic | lexical) & scope(...)) - superseded >> stage"
)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a stage may know of the run: the question, the time it is about, and the tools of the corpus."""

    now: datetime
    count: TokenCounter
    similarity: Callable[[Hit, Hit], float]
    passage: Callable[[Hit], str]
    query: str = ""


class Stage:
    """One step of a pipeline: `kept, dropped = stage(hits, moment)`.

    A stage never changes its input, and names every hit that it leaves out. Subclass it as a frozen
    dataclass to make one of your own.
    """

    __slots__ = ()
    name: ClassVar[str] = "stage"
    makes_order: ClassVar[bool] = False
    needs_order: ClassVar[bool] = False

    def __call__(self, hits: Sequence[Hit], moment: Moment, /) -> Kept:
        """Apply the step."""
        raise NotImplementedError

    def __bool__(self) -> NoReturn:
        raise AlgebraError("a stage has no truth value: chain stages with >>")

    def check(self, moment: Moment, /) -> None:
        """Raise before retrieval when the step cannot succeed whatever is found."""

    def note(self, kept: Sequence[Hit], dropped: Sequence[Drop], moment: Moment, /) -> str:
        """One line for the funnel."""
        return f"{len(dropped):,} left out" if dropped else ""

    @property
    def limit(self) -> int | None:
        """At most this many hits leave the step, whatever comes in; `None` if it depends."""
        return None


class Superseded:
    """What `- superseded` takes away: records that a newer or linked one replaces."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "superseded"

    def __bool__(self) -> NoReturn:
        raise AlgebraError("`superseded` has no truth value: write candidates - superseded")


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of finding, with the conditions it searches under."""

    source: str
    depth: int
    exact: bool = False
    fuzzy_prefix: bool = False
    guards: tuple[Predicate, ...] = ()
    condition: Predicate = EVERY
    current: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """A set of records, each with who found it; it has no order until a stage makes one."""

    arms: tuple[Arm, ...]

    def __and__(self, condition: Predicate) -> Candidates:
        if not isinstance(condition, Predicate):
            return NotImplemented
        return Candidates(tuple(_narrowed(arm, condition) for arm in self.arms))

    def __or__(self, other: Candidates) -> Candidates:
        if not isinstance(other, Candidates):
            return NotImplemented
        return Candidates(self.arms + other.arms)

    def __sub__(self, other: Predicate | Superseded) -> Candidates:
        if isinstance(other, Superseded):
            return Candidates(tuple(replace(arm, current=True) for arm in self.arms))
        if isinstance(other, Predicate):
            return self & Not(other)
        return NotImplemented

    def __rshift__(self, stage: Stage) -> Pipeline:
        if not isinstance(stage, Stage):
            return NotImplemented
        return Pipeline(self, (stage,))

    def __bool__(self) -> NoReturn:
        raise AlgebraError("a set of candidates has no truth value before it runs: use & and |")

    def __call__(
        self, *, depth: int | None = None, exact: bool | None = None, fuzzy_prefix: bool | None = None
    ) -> Candidates:
        """The same sources with another recall depth, or another way of taking the words.

        Args:
            depth: how many records each source may find.
            exact: quoted phrases, word by word, and identifiers must occur; of any source.
            fuzzy_prefix: a word that none of the records holds is looked for as the beginning of a term,
                from 3 letters, and as a misspelling: 1 edit from 4 letters, 2 from 8, digits never
                edited. The match counts by the share of characters that agree. Words in quotation
                marks are taken as they stand. Only lexical search uses it.

        Raises:
            ArgumentError: for a depth below 1, or a mode that is neither on nor off.
        """
        if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 1):
            raise ArgumentError("depth", depth, "a positive whole number of records")
        for name, mode in (("exact", exact), ("fuzzy_prefix", fuzzy_prefix)):
            if not isinstance(mode, bool | None):
                raise ArgumentError(name, mode, "True or False")
        given = {"depth": depth, "exact": exact, "fuzzy_prefix": fuzzy_prefix}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return Candidates(tuple(replace(arm, **changes) for arm in self.arms))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A set of candidates and the stages that order, cut and render it: a plain value."""

    candidates: Candidates
    stages: tuple[Stage, ...]

    def __rshift__(self, stage: Stage) -> Pipeline:
        if not isinstance(stage, Stage):
            return NotImplemented
        return Pipeline(self.candidates, (*self.stages, stage))

    def __bool__(self) -> NoReturn:
        raise AlgebraError("a pipeline has no truth value: run it with corpus.run(pipeline, text)")

    # Hidden from the type checker, which would otherwise accept the very mistakes that these explain.
    if not TYPE_CHECKING:

        def _unparenthesised(self, other: object) -> NoReturn:
            raise AlgebraError(_PARENTHESES)

        __rand__ = __and__ = __ror__ = __or__ = __rsub__ = __sub__ = _unparenthesised


def _narrowed(arm: Arm, condition: Predicate) -> Arm:
    if isinstance(condition, And):
        return reduce(_narrowed, condition.parts, arm)
    if isinstance(condition, Scope | Everyone):
        return replace(arm, guards=(*arm.guards, condition))
    return replace(arm, condition=And.of(arm.condition, condition))


# Recall is wide: precision comes from the stages after it.
DEPTH = 2_000

semantic = Candidates((Arm(SEMANTIC, DEPTH),))
lexical = Candidates((Arm(LEXICAL, DEPTH),))
superseded = Superseded()
