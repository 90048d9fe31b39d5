"""BM25 for a handful of candidates that have no postings, fused with the order in which they came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rank_bm25 import BM25Okapi

from ctxarith.algebra import Moment
from ctxarith.evidence import LEXICAL, SEMANTIC, Found, Hit
from ctxarith.index.analysis import Analyzer
from ctxarith.index.lexical import K1, B, idf
from ctxarith.stages.fuse import rrf

_ANALYZER = Analyzer()


def fused_with_words(
    hits: Sequence[Hit], moment: Moment, *, k: float, weights: tuple[float, float]
) -> list[Hit]:
    """The hits by `w1 / (k + place) + w2 / (k + rank by BM25)`; ties by id.

    Hits whose retriever has looked at words are left as they are.

    Raises:
        ArgumentError: for a k or weights that are negative or not finite.
    """
    if any(hit.found(LEXICAL) for hit in hits):
        return list(hits)
    placed = [_placed(hit, place) for place, hit in enumerate(hits, start=1)]
    stage = rrf(k=k, weights={SEMANTIC: weights[0], LEXICAL: weights[1]})
    kept, _ = stage(_with_words(placed, moment), moment)
    return list(kept)


def _placed(hit: Hit, place: int) -> Hit:
    """The hit as one source found it at this place, whatever sources its retriever had."""
    share = max((one.share for one in hit.found_by), default=0.0)
    return replace(hit, found_by=(Found(SEMANTIC, place, hit.score, share),))


def _with_words(hits: list[Hit], moment: Moment) -> list[Hit]:
    texts = [list(_ANALYZER.terms(moment.passage(hit)).counts.items()) for hit in hits]
    query = _ANALYZER.query(moment.query)
    scores, bound = scored([[term for term, n in text for _ in range(n)] for text in texts], query)
    order = sorted(np.flatnonzero(scores).tolist(), key=lambda at: (-scores[at], hits[at].key))
    ranks = {at: rank for rank, at in enumerate(order, start=1)}
    return [_found(hit, ranks.get(at), float(scores[at]), bound) for at, hit in enumerate(hits)]


def _found(hit: Hit, rank: int | None, score: float, bound: float) -> Hit:
    # A text that shares no word was not found: a score of zero earns no rank.
    if rank is None:
        return hit
    return replace(hit, found_by=(*hit.found_by, Found(LEXICAL, rank, score, score / bound)))


def scored(texts: Sequence[Sequence[str]], query: dict[str, int]) -> tuple[np.ndarray, float]:
    """BM25 of each text, and the bound that no score reaches; k1 and b as in the index.

    `rank_bm25` counts; its IDF may be negative, so that of `ctxarith.index.lexical` stands in its place.
    """
    if not query or not any(texts):
        return np.zeros(len(texts)), 0.0
    counted = BM25Okapi([list(text) for text in texts], k1=K1, b=B)
    holders = {term: sum(term in text for text in texts) for term in query}
    counted.idf = {term: idf(len(texts), count) for term, count in holders.items()}
    asked = [term for term, times in query.items() for _ in range(times)]
    bound = sum(counted.idf[term] * (K1 + 1) for term in asked)
    return np.asarray(counted.get_scores(asked)), bound
