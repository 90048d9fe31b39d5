"""Retrieval per question, a packet per case, or the whole corpus in the model's cache: what costs least.

"CAG" stands for two things. Cache-augmented generation (Chan et al. 2024, "Don't Do RAG") preloads a small
and static corpus into the model's key-value cache. Context-augmented generation gathers evidence for one
case and keeps it while the case lasts: a packet. Neither replaces the checks of the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ctxarith.errors import ArgumentError

RAG, CACHED_CORPUS, CASE_PACKET = "rag", "cached_corpus", "case_packet"

# Prices of the large providers, relative to an uncached input token.
CACHE_READ, CACHE_WRITE = 0.1, 1.25


@dataclass(frozen=True, slots=True)
class Setting:
    """What is assumed where nothing is measured.

    Args:
        window: tokens of context that may be filled with a corpus.
        turn_tokens: evidence that a question retrieves for itself.
        packet_tokens: evidence that a packet holds.
        cases_per_day: they share a preloaded corpus until it changes.
    """

    window: int = 200_000
    turn_tokens: int = 400
    packet_tokens: int = 1_200
    cases_per_day: float = 1.0


@dataclass(frozen=True, slots=True)
class Advice:
    """The way that costs least, what each costs for one case in uncached input tokens, and why."""

    choice: str
    costs: dict[str, float]
    reasons: tuple[str, ...]


def advise(
    corpus_tokens: int,
    updates_per_day: float,
    follow_ups: float,
    preload_cost: float | None = None,
    *,
    setting: Setting | None = None,
) -> Advice:
    """Which way of giving evidence to a model costs least for one case.

    Args:
        corpus_tokens: all that a caller may ask about.
        updates_per_day: writes; each makes a preloaded corpus stale.
        follow_ups: further questions of a case.
        preload_cost: of loading the corpus once, in uncached input tokens; 1.25 a token by default.
        setting: see `Setting`.

    Raises:
        ArgumentError: a number is below zero.

    >>> advise(20_000_000, 40, 8).choice, advise(20_000_000, 40, 0).choice
    ('case_packet', 'rag')
    """
    given = setting or Setting()
    preload = CACHE_WRITE * corpus_tokens if preload_cost is None else preload_cost
    numbers = {
        "corpus_tokens": corpus_tokens,
        "updates_per_day": updates_per_day,
        "follow_ups": follow_ups,
        "preload_cost": preload,
    }
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise ArgumentError(name, number, "a number, zero or more")
    fits = corpus_tokens <= given.window
    preloads = (1 + updates_per_day) / max(given.cases_per_day, 1e-9)
    costs = {
        RAG: (1 + follow_ups) * given.turn_tokens,
        CASE_PACKET: given.packet_tokens * (CACHE_WRITE + CACHE_READ * follow_ups),
        CACHED_CORPUS: preload * preloads + (1 + follow_ups) * CACHE_READ * corpus_tokens
        if fits
        else math.inf,
    }
    choice = min(costs, key=lambda way: costs[way])
    return Advice(choice, costs, _reasons(choice, costs, numbers, given))


def _reasons(
    choice: str, costs: dict[str, float], numbers: dict[str, float], given: Setting
) -> tuple[str, ...]:
    spoken = ", ".join(f"{way} {cost:,.0f}" for way, cost in costs.items() if cost < math.inf)
    reasons = [f"tokens for one case, at the price of uncached input: {spoken}"]
    if costs[CACHED_CORPUS] == math.inf:
        reasons.append(f"{numbers['corpus_tokens']:,} tokens do not fit into {given.window:,}")
    elif numbers["updates_per_day"] > 0:
        reasons.append(f"{numbers['updates_per_day']:g} updates a day make a preloaded corpus stale as often")
    reasons.append(
        {
            RAG: "so few questions do not repay a packet",
            CASE_PACKET: f"{numbers['follow_ups']:g} further questions read one unchanged prefix",
            CACHED_CORPUS: "small and quiet: but only where every caller may see all of it",
        }[choice]
    )
    return tuple(reasons)
