"""What `fuzzy_prefix` costs and what it brings.

Its cost on 100,000 records whose words follow Zipf's law; with `--set DIR`, BM25 on a judged set in BEIR form
whose questions have two words misspelt.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "core"))

from ctxarith import Corpus, everyone, lexical, top
from ctxarith.index.analysis import Terms
from ctxarith.index.build import segment_arrays
from ctxarith.index.columns import Mask
from ctxarith.index.lexical import Lexical
from ctxarith.index.segment import Segment
from ctxarith.index.stack import Stack
from ctxarith.measure.beir import read_set
from ctxarith.measure.evaluate import evaluate
from ctxarith.model import Record
from ctxarith.ports import Row

SYLLABLES = [c + v + e for c in "bcdfghklmnprstvw" for v in "aeiou" for e in ("", "n", "r", "st")]


def vocabulary(size: int, chance: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < size:
        words["".join(chance.choices(SYLLABLES, k=chance.choice((1, 2, 2, 3, 3, 4))))] = None
    return list(words)


def stacked(records: int, words: Sequence[str], length: int, segments: int) -> Stack:
    numbers = np.random.default_rng(7)
    weights = 1 / np.arange(1, len(words) + 1)
    drawn = numbers.choice(len(words), size=(records, length), p=weights / weights.sum())
    parts = []
    for number, chunk in enumerate(np.array_split(np.arange(records), segments)):
        rows = [Row(Record(id=f"r{n:07}", text="x"), np.ones(1, np.float32)) for n in chunk.tolist()]
        terms = []
        for n in chunk.tolist():
            counts: dict[str, int] = {}
            for word in drawn[n].tolist():
                counts[words[word]] = counts.get(words[word], 0) + 1
            terms.append(Terms(counts, length))
        parts.append(Segment(segment_arrays(rows, terms), str(number)))
    return Stack(parts)


def misspelt(word: str, chance: random.Random) -> str:
    at = chance.randrange(len(word) - 1)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=200_000)
    parser.add_argument("--length", type=int, default=60)
    parser.add_argument("--segments", type=int, default=3)
    parser.add_argument("--set", type=Path, help="a judged set, in place of the made-up records")
    given = parser.parse_args()
    if given.set is not None:
        quality(given.set)
        return
    chance = random.Random(7)
    words = vocabulary(given.words, chance)
    stack = stacked(given.records, words, given.length, given.segments)
    terms = [len(segment.terms) for segment in stack.segments]
    print(f"{given.records:,} records, {given.length} words each, terms of each segment {terms}")
    index = Lexical(stack)
    everything = np.ones(given.records, np.bool_)
    few = np.zeros(given.records, np.bool_)
    few[np.random.default_rng(3).choice(given.records, 500, replace=False)] = True
    first = timed(lambda: index.near(everything, ["warrenty"]))
    print(f"first fuzzy question after opening: {first:.1f} ms")
    longer = [word for word in words[:20_000] if len(word) >= 8]
    kinds = {
        "3 letters": [word[:3] for word in chance.sample(longer, 100)],
        "5 letters": [word[:5] for word in chance.sample(longer, 100)],
        "one edit or two": [misspelt(word, chance) for word in chance.sample(longer, 100)],
    }
    for name, asked in kinds.items():
        for rows, target in (("all", everything), ("500", few)):
            terms = [timed(partial(index.near, target, [word])) for word in asked]
            whole = [timed(partial(searched, index, target, word)) for word in asked]
            print(f"{name:16} {rows:>4} rows   terms {told(terms)}   with scores {told(whole)}")


def quality(folder: Path) -> None:
    data, chance = read_set(folder), random.Random(7)
    corpus = Corpus.in_memory(searchable=["title"])
    corpus.add(data.documents)
    spoilt = {name: mistyped(text, chance) for name, text in data.queries.items()}
    for kind, questions in (("as they are", data.queries), ("two words misspelt", spoilt)):
        for fuzzy in (False, True):
            found = (lexical(fuzzy_prefix=fuzzy) & everyone) >> top(10)
            run = {name: [hit.id for hit in corpus.run(found, q).hits] for name, q in questions.items()}
            score = evaluate(run, data.qrels, ["nDCG@10"]).scores["nDCG@10"]
            print(f"{data.name} {kind:20} fuzzy_prefix={fuzzy!s:5}  nDCG@10 {score:.4f}")


def mistyped(question: str, chance: random.Random) -> str:
    """Two plain words of six letters or more, each with one slip: swapped, lost, doubled or another vowel."""
    words = question.split()
    long = [n for n, word in enumerate(words) if len(word) >= 6 and word.isalpha() and word.islower()]
    for n in chance.sample(long, min(2, len(long))):
        word, at = words[n], chance.randrange(1, len(words[n]) - 1)
        slips = (
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
            word[:at] + chance.choice("aeiou") + word[at + 1 :],
        )
        words[n] = chance.choice(slips)
    return " ".join(words)


def searched(index: Lexical, target: Mask, word: str) -> None:
    query = {word: 1}
    index.scores(target, query, index.near(target, query))


def told(spent: Sequence[float]) -> str:
    p50, p95 = np.percentile(spent, [50, 95])
    return f"p50 {p50:6.2f} p95 {p95:6.2f} ms"


if __name__ == "__main__":
    main()
