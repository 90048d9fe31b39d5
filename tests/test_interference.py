"""Non-interference: all that a caller learns is the same whether or not the forbidden records exist.

`CTXARITH_CORPORA=50000` looks at so many random corpora; `CTXARITH_FIRST=N` begins at a seed that failed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ctxarith import Record
from ctxarith.ingest import compaction
from tests.worlds import CALLER, CLOSED, OPEN, POLICY, answers, drawn, in_memory, placed

CORPORA = int(os.environ.get("CTXARITH_CORPORA", "2100"))
FIRST = int(os.environ.get("CTXARITH_FIRST", "0"))
PARTS = 4


@dataclass
class Spy:
    """A scorer that remembers everything that it was shown."""

    scale: str = "logit"
    shown: list[tuple[str, list[str]]] = field(default_factory=list)

    def __call__(self, query: str, passages: list[str], /) -> list[float]:
        self.shown.append((query, list(passages)))
        return [sum(map(ord, query + passage)) % 23 / 4 - 3 for passage in passages]


def seeds(part: int) -> Iterator[int]:
    return iter(range(FIRST + part, FIRST + CORPORA, PARTS))


def learnt(batches: Sequence[Sequence[Record]], seed: int) -> list[Any]:
    """The answers over a corpus, its changes, and what its reranker was shown; numbers of writes aside."""
    chance, spy = random.Random(seed), Spy()
    reads = chance.choice((False, True, 2))
    with in_memory(*batches, policy=POLICY, reranker=spy) as corpus:
        changes = [replace(change, watermark=0) for change in corpus.changes(0, principal=CALLER)]
        return [*answers(corpus, chance, rerank=reads), changes, spy.shown]


def halves(chance: random.Random, records: Sequence[Record]) -> tuple[Sequence[Record], Sequence[Record]]:
    middle = chance.randint(0, len(records))
    return records[:middle], records[middle:]


@pytest.mark.parametrize("part", range(PARTS))
def test_what_the_caller_may_not_see_changes_nothing(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(part):
        chance = random.Random(seed)
        # Without absorption each write is a segment of its own.
        monkeypatch.setattr(compaction, "ABSORBED", chance.choice((0, 4_096)))
        seen = drawn(chance, OPEN, 8)
        taken = {record.key for record in seen}
        hidden = [record for record in drawn(chance, CLOSED, 6) if record.key not in taken]
        (one, two), (first, second) = halves(chance, seen), halves(chance, hidden)
        mixed = chance.choice(
            (
                [first, one, second, two],
                [[*first, *one], [*two, *second]],
                [one, two, hidden],
                [hidden, one, two],
            )
        )
        assert learnt(mixed, seed) == learnt([one, two], seed), f"seed {seed}"


@pytest.mark.parametrize("part", range(PARTS))
def test_what_was_closed_before_its_correction_changes_nothing(part: int) -> None:
    closed = [right for right in CLOSED if "tenant" not in right]
    for seed in list(seeds(part))[: CORPORA // PARTS // 4]:
        chance = random.Random(seed)
        seen = drawn(chance, OPEN, 8)
        first = [replace(placed(chance, closed), id=r.id, version=r.version, supersedes=()) for r in seen]
        assert learnt([first, seen], seed) == learnt([seen], seed), f"seed {seed}"


OPENED: dict[str, Any] = {
    **{"tenant": "default", "scope": "acme", "source_type": "contract", "audience": ()},
    **dict.fromkeys(("jurisdiction", "embargo_until", "retain_until")),
}


def test_the_random_corpora_are_rich_enough_to_tell() -> None:
    """Most worlds have hits, many have retirements and mended words, and hidden records would matter."""
    found = retired = mended = shown = differing = 0
    for seed in range(200):
        chance = random.Random(seed)
        seen = drawn(chance, OPEN, 8)
        result, *others = learnt([seen], seed)
        found += bool(result["hits"])
        retired += any(drop.stage == "superseded" for drop in result["drops"])
        mended += any(" as " in note for stage, _, note in result["steps"] if stage == "lexical")
        shown += bool(others[-1])
        opened = [replace(record, **OPENED) for record in drawn(chance, CLOSED, 6)]
        everything = {record.key: record for record in [*opened, *seen]}
        differing += learnt([list(everything.values())], seed)[0] != result
    assert min(found, differing) > 80
    assert min(retired, shown) > 20
    assert mended > 10
