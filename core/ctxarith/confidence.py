"""Gates: whether what a thread has cited is enough for the next question.

A gate reads similarities, never the composite score. None of these is sure: on real conversations the
cited set alone says little about what it lacks (see `benchmarks/sessions.py`), so a gate is a trade of
recall for work, and `calibrate` sets it to the precision that is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ctxarith.errors import ArgumentError
from ctxarith.evidence import Hit


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a gate may look at.

    Args:
        query: the question.
        hits: the answer from the cited sources.
        best: the best cosine among all permitted records of the cited sources.
        familiar: the highest cosine of the question with an earlier one of the thread; 0 for the first.
        usual: the mean of the best cosines that earlier searches of the corpus found; 0 before the first.
        coverage: the share of the question's terms, weighted by IDF among the permitted records, that
            the best covering record of the cited sources holds.
        corpus_best: the best cosine in everything that the question may search; asking costs a pass.
    """

    query: str
    hits: tuple[Hit, ...]
    best: float
    familiar: float
    usual: float
    coverage: float
    corpus_best: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the cited set is enough, how sure that is, and why."""

    enough: bool
    confidence: float
    reason: str


class Gate(Protocol):
    """Any callable that judges the evidence; a plain function may return a bool."""

    def __call__(self, evidence: Evidence, /) -> Verdict | bool:
        """The verdict."""
        ...


@dataclass(frozen=True, slots=True)
class Threshold:
    """A gate that compares a score with a threshold."""

    name: str
    score: Callable[[Evidence], float]
    threshold: float

    def __call__(self, evidence: Evidence, /) -> Verdict:
        """Enough when the score reaches the threshold."""
        score = self.score(evidence)
        relation = ">=" if score >= self.threshold else "<"
        return Verdict(
            score >= self.threshold, score, f"{self.name} {score:.2f} {relation} {self.threshold:g}"
        )

    def calibrate(self, examples: Iterable[tuple[float, bool]], *, precision: float) -> Threshold:
        """The same gate, set so that of the examples it lets through this share was right.

        Args:
            examples: (confidence that the gate gave, whether the cited set was enough) pairs.
            precision: above 0, at most 1.

        Raises:
            ArgumentError: no threshold reaches that precision on these examples.
        """
        if isinstance(precision, bool) or not isinstance(precision, int | float) or not 0 < precision <= 1:
            raise ArgumentError("precision", precision, "a share above 0, at most 1")
        try:
            known = sorted(((float(score), bool(right)) for score, right in examples), reverse=True)
        except (TypeError, ValueError) as error:
            raise ArgumentError("examples", examples, f"pairs of a confidence and a bool: {error}") from error
        reached = [score for score, share in _precisions(known) if share >= precision]
        if not reached:
            raise ArgumentError("examples", len(known), f"no threshold is right in {precision:.0%} of them")
        return replace(self, threshold=min(reached))


def thread(threshold: float = 0.8) -> Threshold:
    """The default: how near the question is to what the thread has asked and found.

    The mean of two ratios: the best cited cosine over what searches of this thread usually find, and the
    question's highest cosine with an earlier one. It reads nothing outside the cited set.
    """
    return Threshold("thread", _of_thread, _share(threshold))


def relative(threshold: float = 0.95) -> Threshold:
    """The best cited cosine over the best of the whole permitted corpus: better, and one pass dearer."""
    return Threshold("relative", _of_corpus, _share(threshold))


def cosine(threshold: float = 0.6) -> Threshold:
    """The best cited cosine as it is; depends on the embedding model."""
    return Threshold("cosine", lambda evidence: evidence.best, _share(threshold))


def coverage(threshold: float = 0.8) -> Threshold:
    """The share of the question's terms, weighted by IDF, that one cited record holds."""
    return Threshold("coverage", lambda evidence: evidence.coverage, _share(threshold))


def judged(gate: Gate, evidence: Evidence) -> Verdict:
    """The verdict of any gate; without a hit nothing is enough.

    Raises:
        ArgumentError: the gate gave something else than a verdict or a bool.
    """
    if not evidence.hits:
        return Verdict(False, 0.0, "nothing cited answers")
    given = gate(evidence)
    if isinstance(given, bool):
        return Verdict(given, float(given), "the gate's own word")
    if not isinstance(given, Verdict):
        raise ArgumentError("gate", given, "must return a Verdict, or True or False")
    return given


def _of_thread(evidence: Evidence) -> float:
    found = min(evidence.best / evidence.usual, 1.0) if evidence.usual > 0 else 0.0
    return max((found + evidence.familiar) / 2, 0.0)


def _of_corpus(evidence: Evidence) -> float:
    best = evidence.corpus_best()
    return max(evidence.best / best, 0.0) if best > 0 else 0.0


def _precisions(known: Sequence[tuple[float, bool]]) -> list[tuple[float, float]]:
    """(score, share of right ones among all that score no less); one entry for each distinct score."""
    right = 0
    shares: dict[float, float] = {}
    for count, (score, is_right) in enumerate(known, start=1):
        right += bool(is_right)
        shares[score] = right / count
    return list(shares.items())


def _share(threshold: float) -> float:
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise ArgumentError("threshold", threshold, "a number from 0 to 1")
    return float(threshold)
