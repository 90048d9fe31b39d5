"""Names of measures become measures of ir-measures; the gain convention is part of the name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctxarith.errors import ArgumentError, MissingExtra

LINEAR, EXPONENTIAL = "linear", "exponential"
GAINS = (LINEAR, EXPONENTIAL)
# 2^gain - 1 must stay a whole number of 32 bits, which is what the measuring code computes with.
_MOST = {LINEAR: 2**31 - 1, EXPONENTIAL: 30}

Qrels = Mapping[str, Mapping[str, int]]


def measures(names: Sequence[str], *, gain: str, qrels: Qrels) -> dict[str, Any]:
    """Each name with its measure: `Recall@k`, `RR`, `nDCG@k`, `P@k`, `AP` and the others of ir-measures.

    The gain of a judgement g is g itself ("linear", as trec_eval and BEIR have it) or `2^g - 1`
    ("exponential"; Burges et al. 2005). Only nDCG knows gains: for all others g >= 1 is relevant.

    Raises:
        ArgumentError: names the measure that is unknown or stands twice, or the gain.
        MissingExtra: ir-measures is not installed.
    """
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ArgumentError("metrics", names, 'a list of measures, such as ["nDCG@10", "Recall@100"]')
    if not isinstance(gain, str) or gain not in GAINS:
        raise ArgumentError("gain", gain, f"one of {', '.join(GAINS)}")
    library = _library()
    parsed: dict[str, Any] = {}
    for name in names:
        measure = _parsed(library, name)
        if measure in parsed.values():
            raise ArgumentError("metrics", name, "is named twice")
        parsed[name] = measure
    return {name: _with_gains(measure, gain, qrels) for name, measure in parsed.items()}


def checked_gain(query: object, document: object, value: object, gain: str) -> int:
    """A judgement: a whole number; below zero counts as not relevant.

    Raises:
        ArgumentError: names the query and the document.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value > _MOST[gain]:
        rule = f"query {query!r}, document {document!r}: a whole number, at most {_MOST[gain]}"
        raise ArgumentError("qrels", value, rule)
    return max(value, 0)


def values(
    parsed: Mapping[str, Any], qrels: Qrels, ranked: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """The value of each measure for each query of the judgements; a query without a ranking has 0."""
    library = _library()
    # A score for each place, so that no rule of theirs for ties can change the order.
    run = {q: {d: float(len(ids) - n) for n, d in enumerate(ids)} for q, ids in ranked.items()}
    named = {measure: name for name, measure in parsed.items()}
    own = {query: dict.fromkeys(parsed, 0.0) for query in qrels}
    try:
        for one in library.iter_calc(list(named), {q: dict(judged) for q, judged in qrels.items()}, run):
            own[one.query_id][named[one.measure]] = float(one.value)
    except (ValueError, RuntimeError, AssertionError) as error:
        raise ArgumentError("metrics", list(parsed), f"cannot be computed: {error}") from error
    return own


def _parsed(library: Any, name: object) -> Any:
    if not isinstance(name, str):
        raise ArgumentError("metrics", name, "the name of a measure as text, such as nDCG@10")
    try:
        return library.parse_measure(name)
    except (NameError, ValueError, AssertionError) as error:
        rule = f"{error}; known are nDCG@k, Recall@k, RR, P@k, AP, Success@k and the others of ir-measures"
        raise ArgumentError("metrics", name, rule) from error


def _with_gains(measure: Any, gain: str, qrels: Qrels) -> Any:
    if gain == LINEAR or measure.NAME != "nDCG" or "gains" in measure.params:
        return measure
    levels = {level for judged in qrels.values() for level in judged.values()}
    return measure(gains={level: 2**level - 1 for level in sorted(levels)})


def _library() -> Any:
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtra(what="evaluate", package="ir-measures", extra="eval") from error
    return ir_measures
