"""Small worlds, in which ids, texts, facts and links of different records meet; and all they tell a caller.

Drawn from a seed, since that is ten times faster than drawing each field by itself.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from ctxarith import Corpus, CtxArithError, Policy, Principal, Record, Result, Slot
from tests import strategies
from tests.conftest import NOW
from tests.fakes import WordEmbedder

QUERY = "valve pump KYO-H12"
IDS = ("r1", "r2", "r3", "o'brien", "日本")
CALLER = Principal("default", groups=["ops"], scopes=["acme"], jurisdictions=["IN"])
BEFORE, AFTER = NOW - timedelta(days=9), NOW + timedelta(days=9)
OPEN: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"scope": ""},
    {"scope": "acme/ops"},
    {"audience": ["sales", "ops"]},
    {"jurisdiction": "IN"},
    {"embargo_until": BEFORE, "retain_until": AFTER},
)
CLOSED: tuple[dict[str, Any], ...] = (
    {"tenant": "beta"},
    {"scope": "acme-corp"},
    {"scope": "other/acme"},
    {"audience": ["sales"]},
    {"jurisdiction": "JP"},
    {"embargo_until": AFTER},
    {"retain_until": NOW},
    {"source_type": "mail"},
    {"source_type": None},
)
# Records of no other kind are drawn, so that it closes only what is meant to be closed.
POLICY = Policy("7", source_types=["contract"])


def placed(chance: random.Random, rights: Sequence[dict[str, Any]]) -> Record:
    """A record with any facts, dates and links to earlier ids (so never a loop of links)."""
    number = chance.randrange(len(IDS))
    start, end = sorted(chance.sample(strategies.DATES, 2))
    several = chance.sample(
        [(s, a) for s in strategies.SUBJECTS for a in strategies.ATTRIBUTES], chance.randrange(3)
    )
    values = [chance.choice((None, "a", 1, True)) for _ in several]
    guess = chance.random() < 0.2
    given: dict[str, Any] = {
        "id": IDS[number],
        "text": " ".join(chance.choices((*strategies.WORDS, *strategies.ODD_WORDS), k=chance.randrange(5))),
        "version": chance.choice(("1", "2", "10")),
        "source_id": chance.choice(("", "contract")),
        "scope": "acme",
        "source_type": "contract",
        "created_at": chance.choice((None, *strategies.DATES)),
        "valid_from": chance.choice((None, None, start)),
        "valid_until": chance.choice((None, None, end)),
        "slots": [Slot(*fact, value, guess) for fact, value in zip(several, values, strict=True)],
        "supersedes": chance.sample(IDS[:number], min(number, chance.randrange(2))),
        "metadata": chance.choice(({}, {"kind": "note"}, {"kind": "memo", "year": 2026})),
    }
    return Record(**given | chance.choice(rights))


def drawn(chance: random.Random, rights: Sequence[dict[str, Any]], most: int) -> list[Record]:
    made = (placed(chance, rights) for _ in range(chance.randint(1, most)))
    return list({record.key: record for record in made}.values())


def asked(chance: random.Random) -> dict[str, Any]:
    return {
        "rank": chance.choice(("auto", "fused", "composite")),
        "include_superseded": chance.choice((False, True)),
        "where": chance.choice(
            (None, None, None, {"kind": "note"}, {"kind": {"$ne": "note"}}, {"year": {"$exists": False}})
        ),
        "scope": chance.choice((*(None,) * 5, "acme", "acme/ops", "acme-corp", ["acme", "other"], [])),
        "top": chance.choice((None, 1, 3)),
        "tokens": chance.choice((None, 25, 400)),
        "order": chance.choice(("rank", "edges", "chronological", "sections")),
        "group_by": chance.choice((None, "source")),
        "as_of": chance.choice((*(None,) * 5, BEFORE, NOW - timedelta(days=31), AFTER)),
        "words": chance.choice(("plain", "exact", "fuzzy_prefix", "fuzzy_prefix")),
    }


QUESTIONS = (
    *(QUERY, "lamp", "fund 日本", "<|endoftext|>", "", 'KYO-H12\'s "valve pump"'),
    *("vavle pmup", "KYO-H1 val", "fun lampe", "ગુજરા cafés 日"),
)


def question(chance: random.Random) -> str:
    return chance.choice(QUESTIONS)


def in_memory(*batches: Sequence[Record], **options: Any) -> Corpus:
    corpus = Corpus.in_memory(**{"clock": lambda: NOW, "embedder": WordEmbedder(), **options})
    for batch in batches:
        corpus.add(batch)
    return corpus


def told(result: Result) -> dict[str, Any]:
    """Everything that a result says, times of stages aside; floats to their last bit."""
    return {
        "text": result.text,
        "hits": result.hits,
        "bits": [(hit.score.hex(), [found.score.hex() for found in hit.found_by]) for hit in result.hits],
        "drops": result.drops,
        "steps": [(step.stage, step.count, step.note) for step in result.trace.steps],
        "tokens": (result.tokens, result.naive_tokens),
        "citations": dict(result.citations),
        "passages": result.passages,
        "trace": (result.trace.query, result.trace.at, result.trace.arms, result.trace.stages),
    }


def answers(corpus: Corpus, chance: random.Random, **options: Any) -> list[Any]:
    """All that the caller can learn from questions, errors included."""
    words, arguments = question(chance), asked(chance) | options
    result = corpus.retrieve(words, principal=CALLER, **arguments)
    everything: list[Any] = [told(result), [result.why(rid) for rid in (*IDS, "contract", "nobody")]]
    everything += [corpus.history(subject, "fee", principal=CALLER) for subject in strategies.SUBJECTS]
    everything.append(corpus.get([*IDS, "nobody"], principal=CALLER))
    everything.append(corpus.count(arguments["where"], scope=arguments["scope"], principal=CALLER))
    for mistake in MISTAKES:
        with pytest.raises(CtxArithError) as caught:
            corpus.retrieve(words, principal=CALLER, **mistake)
        everything.append((type(caught.value), str(caught.value)))
    return everything


MISTAKES: tuple[dict[str, Any], ...] = (
    {"where": {"kind": {"$is": 1}}},
    {"where": {"kind": {"$gt": True}}},
    {"top": 0},
    {"scope": "a//b"},
    {"words": "near"},
    {"as_of": "then"},
)
