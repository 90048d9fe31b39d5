"""Ask every system every question, in turn, and print what came back as one table.

The systems take turns question by question, in a new seeded order each time, so that a busy machine, and
what the one before leaves in the caches, slows all of them alike. A system's time is from the question to
its documents, the embedding of the question included. What is not timed: reading ids and texts from the
answers, counting, and a warm-up.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peer_world import SEED, Question, World

from ctxarith.models.tokens import token_counter

WARM_UP = 10
ENCODING = "cl100k_base"

# From what a system gives: the id of a document, and the text that the model would read of it.
Reader = Callable[[Any], tuple[str, str]]


@dataclass(frozen=True)
class System:
    """One way to find documents."""

    name: str
    ask: Callable[[Question], Sequence[Any]]


@dataclass(frozen=True)
class Answer:
    """What a system gave for a question, and how long it took."""

    ids: tuple[str, ...]
    tokens: int
    ms: float


@dataclass(frozen=True)
class Row:
    """A system's line; `recall` and `mrr` are `None` where no question has what they measure."""

    name: str
    recall: float | None
    mrr: float | None
    stale: int
    leaked: int
    touched: int
    documents: float
    tokens: float
    p50: float
    p95: float


def answers(
    systems: Sequence[System], questions: Sequence[Question], read: Reader, warm_up: int = WARM_UP
) -> dict[str, list[Answer]]:
    """Each system's answers, in the order of the questions."""
    count = token_counter(ENCODING)
    given: dict[str, list[Answer]] = {system.name: [] for system in systems}
    for question in questions[:warm_up]:
        for system in systems:
            system.ask(question)
    gc.collect()
    draw = random.Random(SEED)
    for turn, question in enumerate(questions):
        if sys.stderr.isatty():
            print(f"\r\x1b[K{turn + 1} of {len(questions)}", end="", file=sys.stderr, flush=True)
        for system in draw.sample(systems, len(systems)):
            begun = time.perf_counter()
            found = system.ask(question)
            ms = (time.perf_counter() - begun) * 1e3
            read_out = [read(one) for one in found]
            text = "\n\n".join(text for _, text in read_out)
            given[system.name].append(Answer(tuple(one for one, _ in read_out), count(text), ms))
    return given


def rows(world: World, questions: Sequence[Question], given: dict[str, list[Answer]]) -> list[Row]:
    """One line for each system."""
    return [_row(name, world, questions, found) for name, found in given.items()]


def _row(name: str, world: World, questions: Sequence[Question], given: Sequence[Answer]) -> Row:
    pairs = list(zip(questions, given, strict=True))
    recall = [len(q.relevant & set(a.ids)) / len(q.relevant) for q, a in pairs if not q.current]
    reciprocal = [_reciprocal(a.ids, q.current) for q, a in pairs if q.current]
    strangers = [sum(world.tenant_of[one] != q.tenant for one in a.ids) for q, a in pairs]
    times = [a.ms for a in given]
    return Row(
        name=name,
        recall=float(np.mean(recall)) if recall else None,
        mrr=float(np.mean(reciprocal)) if reciprocal else None,
        stale=sum(bool(q.stale & set(a.ids)) for q, a in pairs),
        leaked=sum(strangers),
        touched=sum(map(bool, strangers)),
        documents=float(np.mean([len(a.ids) for a in given])),
        tokens=float(np.mean([a.tokens for a in given])),
        p50=float(np.percentile(times, 50)),
        p95=float(np.percentile(times, 95)),
    )


def _reciprocal(ids: Sequence[str], wanted: frozenset[str]) -> float:
    return next((1 / rank for rank, one in enumerate(ids, start=1) if one in wanted), 0.0)


def table(lines: Sequence[Row], questions: Sequence[Question], ours: str) -> str:
    """Markdown. The last column is the p95 as a multiple of that of the row `ours`."""
    dated = sum(bool(q.current) for q in questions)
    plain = len(questions) - dated
    base = next(line.p95 for line in lines if line.name == ours)
    head = [
        "system",
        f"recall ({plain} questions)",
        f"MRR of the current ({dated})",
        f"stale returned ({dated})",
        f"leaked documents / questions ({len(questions)})",
        "documents",
        "tokens",
        "p50 ms",
        "p95 ms",
        "p95, ours = 1",
    ]
    out = [_line(head), _line(["---"] * len(head))]
    for one in lines:
        out.append(
            _line(
                [
                    one.name,
                    _share(one.recall),
                    _share(one.mrr),
                    str(one.stale),
                    f"{one.leaked} / {one.touched}",
                    f"{one.documents:.1f}",
                    f"{one.tokens:,.0f}",
                    f"{one.p50:.1f}",
                    f"{one.p95:.1f}",
                    f"{one.p95 / base:.1f}",
                ]
            )
        )
    return "\n".join(out)


def legend(questions: Sequence[Question]) -> str:
    """What the columns say, and on which sets they were measured."""
    versioned = sorted({q.set for q in questions if q.current})
    others = sorted({q.set for q in questions if not q.current})
    return (
        f"recall: share of the relevant documents that came back ({', '.join(others) or 'no set'}). MRR of\n"
        "the current document, and questions with a stale one among the answers "
        f"({', '.join(versioned) or 'no set'}).\n"
        "Leaked: documents of another customer than the asker's, and the questions that got any. Tokens:\n"
        f"{ENCODING}, of what the model would read, mean. One run, the systems in turn."
    )


def write_json(path: Path, tables: dict[str, Sequence[Row]]) -> None:
    """The numbers of every table."""
    told = {name: [asdict(line) for line in lines] for name, lines in tables.items()}
    path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
