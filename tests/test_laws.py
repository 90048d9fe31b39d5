"""Laws of a retrieval as a whole, on random corpora."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ctxarith import (
    CtxArithError,
    Record,
    Template,
    everyone,
    semantic,
    superseded,
)
from ctxarith.models.tokens import TiktokenCounter
from tests import strategies
from tests.conftest import NOW
from tests.worlds import OPEN, QUERY, answers, drawn, in_memory

CL100K = TiktokenCounter("cl100k_base")
ROOT = Path(__file__).resolve().parents[1]


# The budget


ORDERS = st.sampled_from(["rank", "edges", "chronological", "sections"])
LINES = st.lists(
    strategies.texts() | st.text(max_size=30) | st.just("One. Two! Three? " * 9), min_size=1, max_size=6
)
TEMPLATES = st.builds(
    Template,
    profile=st.text(max_size=20),
    interactions=st.none() | st.integers(0, 99),
    approach=st.none() | st.just(lambda hits: f"call about {hits[0].record.text[:20]}"),
)


@given(LINES, st.integers(0, 120), ORDERS, TEMPLATES, st.sampled_from([None, len]))
def test_the_text_never_exceeds_its_budget(
    texts: list[str],
    tokens: int,
    order: str,
    template: Template,
    counter: Callable[[str], int] | None,
) -> None:
    records = [Record(id=f"r{n}", text=text, metadata={"kind": text[:9]}) for n, text in enumerate(texts)]
    corpus = in_memory(records, tokenizer=counter)
    try:
        result = corpus.retrieve(QUERY, tokens=tokens, order=order, template=template)
    except CtxArithError:
        assume(False)
    assert (counter or CL100K)(result.text) == result.tokens <= tokens
    marks = [line for line in result.text.splitlines() if line.startswith("[")]
    assert [line.split("]")[0] for line in marks] == [f"[{n}" for n in range(1, len(result.hits) + 1)]


SEEDS = st.integers(0, 2**64 - 1)
MANY = settings(max_examples=3 * settings().max_examples)


@given(SEEDS)
def test_the_order_of_arrival_changes_nothing(seed: int) -> None:
    chance = random.Random(seed)
    records = drawn(chance, OPEN, 7)
    shuffled, middle = chance.sample(records, len(records)), chance.randint(0, len(records))
    one, other = in_memory(records), in_memory(shuffled[:middle], shuffled[middle:])
    assert answers(one, random.Random(seed)) == answers(other, random.Random(seed))


# Supersession, held against the rule as the specification says it


_FIRST = datetime.min.replace(tzinfo=UTC)
Key = tuple[str, str]


def key(record: Record) -> Key:
    return record.id, record.version


def newness(record: Record) -> tuple[datetime, datetime, int, str]:
    asserted = record.created_at or _FIRST
    return record.valid_from or asserted, asserted, int(record.version), record.id


def newer(one: Record, other: Record) -> bool:
    return newness(one) > newness(other)


def facts(record: Record) -> set[tuple[str | None, str]]:
    return {(slot.subject, slot.attribute) for slot in record.slots if slot.value is not None}


def against(link: Record, old: Record) -> bool:
    """A link against the dates; without dates that differ, one by which the old could retire its heir."""
    ours, theirs = link.valid_from or link.created_at, old.valid_from or old.created_at
    if ours and theirs and ours != theirs:
        return ours < theirs
    return newer(old, link) and bool(facts(old) & facts(link))


def direct_heirs(records: Sequence[Record]) -> dict[Key, list[Record]]:
    """Who retires whom at once."""
    standing = [r for r in records if r.valid_from is None or r.valid_from <= NOW]
    active = [r for r in standing if r.created_at is None or r.created_at <= NOW]
    linked = {key(old): [n for n in active if old.id in n.supersedes] for old in standing}
    backwards = [old for old in standing if any(against(n, old) for n in linked[key(old)])]
    heirs: dict[Key, list[Record]] = {}
    for old in standing:
        versions = [n for n in active if n.id == old.id and newer(n, old)]
        holders = [
            [n for n in active if fact in facts(n) and newer(n, old) and n not in backwards]
            for fact in facts(old)
        ]
        by_facts = holders if all(holders) else []
        found = [
            *linked[key(old)],
            *(max(several, key=newness) for several in [versions, *by_facts] if several),
        ]
        if found:
            heirs[key(old)] = found
    return heirs


def heads(record: Record, heirs: dict[Key, list[Record]], path: tuple[Key, ...] = ()) -> set[str]:
    assume(key(record) not in path)
    if key(record) not in heirs:
        return {record.id} if visible(record) else set()
    ahead = (heads(heir, heirs, (*path, key(record))) for heir in heirs[key(record)])
    return set().union(*ahead)


def visible(record: Record) -> bool:
    begun = record.valid_from is None or record.valid_from <= NOW
    return begun and (record.valid_until is None or record.valid_until > NOW)


@MANY
@given(SEEDS)
def test_retirement_is_what_the_rule_says(seed: int) -> None:
    chance = random.Random(seed)
    records = [
        replace(r, text="valve", slots=tuple(replace(slot, inferred=False) for slot in r.slots))
        for r in drawn(chance, [{}], 8)
    ]
    heirs = direct_heirs(records)
    retired = {key(r): heads(r, heirs) for r in records if visible(r) and key(r) in heirs}
    current = {key(r) for r in records if visible(r)} - set(retired)
    result = in_memory(records).run((semantic & everyone) - superseded, "valve")
    assert {(drop.id, drop.record.version): set(drop.by) for drop in result.drops} == retired
    assert {hit.key for hit in result.hits} == current


# Other processes


SCRIPT = """
from datetime import date, datetime, timedelta, timezone
from ctxarith import Corpus, Principal, Record, Slot, field
from tests.conftest import NOW
from tests.fakes import WordEmbedder
corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder(), naive_zone="Asia/Kolkata")
tokyo = timezone(timedelta(hours=9))
fee = lambda value: [Slot("lead", "fee", value), Slot("lead", "seen", NOW)]
corpus.add([
    Record(id="a", text="fee 10", created_at=date(2026, 6, 14), slots=fee(10), audience={"x", "y", "z"}),
    Record(id="b", text="fee 12", created_at="2026-06-14T09:00:00", slots=fee(12), audience={"z", "y"}),
    Record(id="c", text="fee of KYO-H12", created_at=1781400000, metadata={"on": date(2026, 1, 1)}),
    Record(id="d", text="KYO-H12 valve", created_at=datetime(2026, 6, 15, 1, tzinfo=tokyo)),
    Record(id="e", text="lamp", valid_until="2026-06-15T12:00:00"),
    *(Record(id=f"t{n}", text="fee fee") for n in range(9)),
])
me = Principal("default", groups={"x", "y", "z", "w"})
where = field("on").exists() | ~field("created_at").is_in({date(2020, 1, n) for n in range(1, 20)})
said = []
everything = {"include_superseded": True, "top": None}
for extra in ({}, {"order": "chronological"}, {"as_of": date(2026, 6, 14)}, everything):
    result = corpus.retrieve("fee of the KYO-H12", principal=me, where=where, **extra)
    said.append([result.text, [(h.id, h.score.hex(), h.stale_slots) for h in result.hits], result.drops])
    said.append([(s.stage, s.count, s.note) for s in result.trace.steps])
said.append([(one.record.id, one.status, one.reason) for one in corpus.history("lead", "fee", principal=me)])
print(repr(said))
"""


def test_neither_time_zone_nor_hash_seed_changes_a_result() -> None:  # FU-09
    settings_of = [("UTC", "0"), ("Asia/Tokyo", "1"), ("America/New_York", "2")]
    path = os.pathsep.join([str(ROOT / "core"), str(ROOT)])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | {"PYTHONPATH": path, "TZ": zone, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for zone, seed in settings_of
    ]
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert said[0] == said[1] == said[2]
    assert "fee 12" in said[0]
