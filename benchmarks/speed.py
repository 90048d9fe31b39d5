"""How fast, beside Chroma's own filtered query and beside numpy + bm25s by hand: one run, same rows.

    python benchmarks/speed.py [--records 100000] [--dimension 384] [--queries 30] [--beir DIR] [--json FILE]

Every timing of one question is taken right after the others', in turn, so that a busy machine slows
them alike. With `--beir` the texts and questions are those of a BEIR folder and the vectors those of the
default embedder; without it they are synthetic (see `speed_data.py`). 100,000 records take some minutes.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from speed_data import Data, exact_scores, from_folder, recall, synthetic
from speed_peers import (
    DEFAULT,
    DEPTH,
    LIGHT,
    BareChroma,
    ByHand,
    Holder,
    OurCorpus,
    OurPipeline,
    OurSearch,
    Peer,
)
from speed_report import Ingest, Measured, Report, machine, render
from speed_superseded import superseded_too

from ctxarith import Corpus
from ctxarith.models.embedders import WordLlamaEmbedder

T = TypeVar("T")

LARGEST_BATCH = 5_000
CITED = 50
HERE = Path(__file__).resolve().parent


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the table, and write the JSON if it is asked for."""
    asked = _arguments(arguments)
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    data = (
        from_folder(asked.beir, asked.records, asked.queries, WordLlamaEmbedder())
        if asked.beir
        else synthetic(asked.records, asked.dimension, asked.queries)
    )
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        ExitStack() as stack,
    ):
        report = measured(data, Path(scratch), stack)
    print(render(report))
    if asked.json:
        asked.json.write_text(json.dumps(report.as_dict(), indent=2) + "\n", encoding="utf-8")


def measured(data: Data, scratch: Path, stack: ExitStack) -> Report:
    """Put the rows into every holder, open ours again in a fresh process, ask every peer."""
    ours = OurCorpus(scratch / "ctxarith", data.queries)
    chroma = BareChroma(scratch / "chroma", "Chroma", DEFAULT)
    light = BareChroma(scratch / "light", "Chroma, light graph", LIGHT)
    holders: list[Holder] = [ours, chroma, light]
    for holder in holders:
        stack.enter_context(closing(holder))
    seconds = ingested(data, holders)
    places = (scratch / "ctxarith", scratch / "chroma", scratch / "light")
    ingest = [
        Ingest(holder.name, taken, len(data) / taken, _size(place))
        for holder, taken, place in zip(holders, seconds, places, strict=True)
    ]
    serving = served(data, scratch)
    peers: list[Peer] = [OurSearch(ours.corpus), OurPipeline(ours.corpus), chroma]
    if ByHand.installed():
        peers.append(ByHand(data))
    rows = asked(data, peers)
    follow_up = followed(data, ours.corpus)
    _say("supersede")
    superseding = superseded_too(data)
    shape = {"records": len(data), "dimension": data.vectors.shape[1], "queries": len(data.queries)}
    return Report(
        machine(), shape, ingest, serving, [peer.name for peer in peers], rows, follow_up, superseding
    )


def ingested(data: Data, holders: Sequence[Holder]) -> list[float]:
    """Seconds of each holder for all rows, given their vectors; they take turns batch by batch."""
    seconds = [0.0] * len(holders)
    size = min(LARGEST_BATCH, -(-len(data) // 5))
    for turn, part in enumerate(data.parts(size)):
        for place in range(len(holders)):
            number = (turn + place) % len(holders)
            seconds[number] += _timed(partial(holders[number].add, data, part))[0]
        _say(f"ingest {part.stop:,} of {len(data):,}")
    return seconds


def asked(data: Data, peers: Sequence[Peer]) -> list[Measured]:
    """Every question under every filter, the peers in turn; the first question also warms up untimed."""
    exact = exact_scores(data)
    rows = {name: n for n, name in enumerate(data.ids)}
    measured = []
    for case in data.cases():
        _say(f"ask {case.name}")
        times: dict[str, list[float]] = {peer.name: [] for peer in peers}
        found: dict[str, list[float]] = {peer.name: [] for peer in peers if peer.nearest}
        for peer in peers:
            peer.search(data.queries[0], case)
        for turn, query in enumerate(data.queries):
            for place in range(len(peers)):
                peer = peers[(turn + place) % len(peers)]
                seconds, ids = _timed(partial(peer.search, query, case))
                times[peer.name].append(seconds * 1e3)
                if peer.nearest:
                    numbers = [rows[name] for name in ids]
                    found[peer.name].append(recall(numbers, exact[turn], case.mask, DEPTH))
        measured.append(
            Measured(
                case.name,
                int(case.mask.sum()),
                {name: (_percentile(taken, 50), _percentile(taken, 95)) for name, taken in times.items()},
                {name: (float(np.mean(shares)), min(shares)) for name, shares in found.items()},
            )
        )
    return measured


def followed(data: Data, corpus: Corpus) -> dict[str, float]:
    """A follow-up answered from 50 cited sources, and the same questions to the whole corpus, in turn."""
    session = corpus.session("follow-ups", gate=lambda evidence: True)
    session.cite(data.ids[:CITED])
    session.retrieve(data.queries[0].text)
    times: dict[str, list[float]] = {"cited": [], "whole": []}
    for query in data.queries:
        times["cited"].append(_timed(partial(session.retrieve, query.text))[0] * 1e3)
        times["whole"].append(_timed(partial(corpus.retrieve, query.text))[0] * 1e3)
    return {
        f"{name}_p{share}": _percentile(taken, share) for name, taken in times.items() for share in (50, 95)
    }


def served(data: Data, scratch: Path) -> dict[str, Any]:
    """What a fresh process says of opening and serving our folder."""
    questions = scratch / "questions.npy"
    np.save(questions, np.stack([query.vector for query in data.queries]))
    told = {
        "texts": [query.text for query in data.queries],
        "cases": [{"scope": case.scope, "where": case.where} for case in data.cases()],
    }
    questions.with_suffix(".json").write_text(json.dumps(told), encoding="utf-8")
    _say("open in a fresh process")
    command = [sys.executable, str(HERE / "speed_serve.py"), str(scratch / "ctxarith"), str(questions)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(answer.stdout)
    return report


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed beside Chroma and beside numpy + bm25s by hand.")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384, help="of synthetic vectors")
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--beir", type=Path, help="a BEIR folder whose texts to use")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    asked = parser.parse_args(given)
    if asked.records < 1_000 or asked.queries < 1:
        parser.error("at least 1,000 records and one query")
    return asked


def _timed(action: Callable[[], T]) -> tuple[float, T]:
    before = time.perf_counter()
    answer = action()
    return time.perf_counter() - before, answer


def _percentile(values: Sequence[float], share: int) -> float:
    return float(np.percentile(values, share))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
