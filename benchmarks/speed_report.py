"""The numbers of a speed run, as a table, as verdicts and as JSON."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

Percentiles = tuple[float, float]  # p50 and p95 in ms
Shares = tuple[float, float]  # mean and least

SEARCH, WHOLE, CHROMA, HAND = "semantic", "retrieve", "Chroma", "numpy + bm25s"
PACKAGES = ("ctxarith", "chromadb", "numpy", "bm25s")


@dataclass(frozen=True)
class Ingest:
    """One holder's ingest: seconds, records a second, bytes on disk."""

    name: str
    seconds: float
    per_second: float
    bytes: int


@dataclass(frozen=True)
class Measured:
    """One permitted set: how many rows, times of each peer, recall@50 of those that give neighbours."""

    case: str
    rows: int
    times: dict[str, Percentiles]
    recall: dict[str, Shares]


@dataclass(frozen=True)
class Verdict:
    """One bar of the specification, and whether this run reached it."""

    bar: str
    found: str
    holds: bool


@dataclass(frozen=True)
class Report:
    """One run."""

    machine: dict[str, str]
    data: dict[str, int]
    ingest: list[Ingest]
    serving: dict[str, Any]
    peers: list[str]
    rows: list[Measured]
    follow_up: dict[str, float]
    superseding: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, verdicts included."""
        return {**asdict(self), "verdicts": [asdict(one) for one in verdicts(self)]}


def machine() -> dict[str, str]:
    """What the numbers depend on and nothing that names a machine."""
    facts = {"system": platform.system(), "cores": str(os.cpu_count()), "python": platform.python_version()}
    for package in PACKAGES:
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def verdicts(report: Report) -> list[Verdict]:
    """Each bar against the worst row that it speaks of."""
    filtered = [row for row in report.rows if row.rows < report.data["records"]]
    ratios = [(row.times[CHROMA][1] / row.times[SEARCH][1], row.case) for row in filtered]
    least, where = min(ratios)
    lowest = min(row.recall[SEARCH][1] for row in report.rows)
    ours, bare = report.ingest[0].seconds, report.ingest[1].seconds
    answer = report.serving["open_seconds"] + report.serving["first_answer_seconds"]
    found = [
        Verdict("at least 10 x Chroma at p95 with each filter", f"{least:.1f} x ({where})", least >= 10),
        Verdict("recall@50 of exact is 1.000", f"{lowest:.3f}", lowest >= 1),
        Verdict("open and give the first answer in under 2 s", f"{answer:.2f} s", answer < 2),
        Verdict("ingest within 25 % of bare Chroma", f"{ours / bare - 1:+.0%}", ours <= 1.25 * bare),
    ]
    cited = report.follow_up["cited_p95"]
    found.append(Verdict("a follow-up from the cited set under 10 ms at p95", f"{cited:.1f} ms", cited < 10))
    if HAND in report.peers:
        over = [(row.times[WHOLE][0] - 2 * row.times[HAND][0], row.case) for row in report.rows]
        most, where = max(over)
        bar = "the whole pipeline's p50 within 2 x + 2 ms of numpy + bm25s by hand"
        found.append(Verdict(bar, f"2 x {most:+.1f} ms ({where})", most <= 2))
    return found


def render(report: Report) -> str:
    """The report as text."""
    blocks = [
        ", ".join(f"{name} {fact}" for name, fact in report.machine.items()),
        f"{report.data['records']:,} records, {report.data['dimension']} dimensions, "
        f"{report.data['queries']} queries; times in ms, p50 / p95; recall@50 of exact, mean (least)",
        _answers(report),
        _ingest(report),
        _serving(report.serving),
        "a follow-up from 50 cited sources {cited_p50:.1f} / {cited_p95:.1f} ms, the same questions to "
        "the whole corpus {whole_p50:.1f} / {whole_p95:.1f} ms".format(**report.follow_up),
        "in memory, without a filter: {plain_p50:.1f} / {plain_p95:.1f} ms, and {superseding_p50:.1f} / "
        "{superseding_p95:.1f} ms where {retired:,} of the same records are superseded".format(
            **report.superseding
        ),
        "\n".join(f"{'reached' if v.holds else 'MISSED '}  {v.bar}: {v.found}" for v in verdicts(report)),
    ]
    if HAND not in report.peers:
        blocks.append("bm25s is not installed, so nothing was measured beside numpy + bm25s by hand")
    return "\n\n".join(blocks)


def _answers(report: Report) -> str:
    nearest = [name for name in report.peers if name in report.rows[0].recall]
    head = [
        "permitted",
        "rows",
        *report.peers,
        *(f"recall {name}" for name in nearest),
        f"{CHROMA} / {SEARCH}",
    ]
    if HAND in report.peers:
        head.append(f"{WHOLE} / by hand")
    lines = [head]
    for row in report.rows:
        cells = [row.case, f"{row.rows:,}"]
        cells += [f"{row.times[name][0]:.1f} / {row.times[name][1]:.1f}" for name in report.peers]
        cells += [f"{row.recall[name][0]:.3f} ({row.recall[name][1]:.2f})" for name in nearest]
        cells.append(f"{row.times[CHROMA][1] / row.times[SEARCH][1]:.1f} x")
        if HAND in report.peers:
            cells.append(f"{row.times[WHOLE][0] / row.times[HAND][0]:.1f} x")
        lines.append(cells)
    return _table(lines)


def _ingest(report: Report) -> str:
    first = report.ingest[0].seconds
    lines = [["ingest", "seconds", "records/s", "ctxarith takes", "on disk"]]
    for one in report.ingest:
        share = f"{first / one.seconds:.2f} x"
        lines.append([one.name, f"{one.seconds:.1f}", f"{one.per_second:,.0f}", share, _megabytes(one.bytes)])
    return _table(lines)


def _serving(serving: dict[str, Any]) -> str:
    line = (
        f"a fresh process: imports {serving['import_seconds']:.2f} s, opens {serving['open_seconds']:.2f} s, "
        f"first answer {serving['first_answer_seconds']:.2f} s"
    )
    memory = serving["memory"]
    if memory is None:
        return line
    parts = f"{_megabytes(memory['anonymous'])} its own, {_megabytes(memory['file'])} mapped files"
    return f"{line}; after all questions {_megabytes(memory['resident'])} in memory ({parts})"


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MB"


def _table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = (
        [
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    )
    return "\n".join("  ".join(row).rstrip() for row in rows)
