"""Advice on retrieval, packets and a preloaded corpus."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ctxarith import ArgumentError, advise
from ctxarith.measure.advise import Setting


@pytest.mark.parametrize(
    ("asked", "choice"),
    [
        ((20_000_000, 40, 0), "rag"),
        ((20_000_000, 40, 12), "case_packet"),
        ((1_000, 0, 12, 3_000), "case_packet"),
        ((500, 0, 12), "cached_corpus"),
        ((500, 200, 12), "case_packet"),
    ],
)
def test_the_way_that_costs_least_is_advised(asked: Any, choice: str) -> None:
    found = advise(*asked)
    assert found.choice == choice
    assert found.costs[choice] == min(found.costs.values())
    assert found.reasons


def test_what_does_not_fit_is_never_preloaded_however_cheap() -> None:
    found = advise(200_001, 0, 1_000, 0, setting=Setting(cases_per_day=1e9))
    assert found.costs["cached_corpus"] == math.inf
    assert "do not fit" in found.reasons[1]


@pytest.mark.parametrize("asked", [(-1, 0, 0), (1, math.nan, 0), (1, 0, True), (1, 0, 0, math.inf)])
def test_numbers_are_checked(asked: Any) -> None:
    with pytest.raises(ArgumentError):
        advise(*asked)
