"""Where a piece of evidence stands on the page, and how it is kept in its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ctxarith.evidence import Hit
from ctxarith.index.retirement import CONFLICT, LOOP, RETIRED
from ctxarith.kinds import value_of
from ctxarith.stages.order import newest_first

ORDERS = ("rank", "edges", "chronological", "sections")
CUT_MARK = " [...]"

_LINE_ENDS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？।])\s*|\n+")


@dataclass(frozen=True, slots=True)
class Block:
    """One passage on the page; `heading` opens a new section."""

    hit: Hit
    text: str
    heading: str = ""


def arranged(hits: Sequence[Hit], order: str, section: str) -> list[tuple[Hit, str]]:
    """The hits in page order, each with the heading to print above it ("" for none).

    "edges" puts the best two at the two ends and the least in the middle: 1, 3, 5, 4, 2, since
    models read the middle of a long context least (Liu et al. 2023, "Lost in the Middle").
    """
    if order == "edges":
        placed = [*hits[::2], *reversed(hits[1::2])]
    elif order == "chronological":
        placed = [hits[n] for n in reversed(newest_first(hits))]
    elif order == "sections":
        return _in_sections(hits, section)
    else:
        placed = list(hits)
    return [(hit, "") for hit in placed]


def _in_sections(hits: Sequence[Hit], section: str) -> list[tuple[Hit, str]]:
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        value = value_of(hit.record, section)
        groups.setdefault("other" if value is None else _one_line(str(value)), []).append(hit)
    return [(hit, "" if n else name) for name, group in groups.items() for n, hit in enumerate(group)]


def block(hit: Hit, passage: str, heading: str = "") -> Block:
    """A passage with its date and what a reader must know of it.

    Every line after the first is indented, so that text inside a record can never look like the
    start of another passage or heading: what begins at the left margin is ours.
    """
    label = "".join(f"({note}) " for note in _labels(hit, passage))
    text = hit.excerpt if hit.excerpt is not None else passage
    return Block(hit, f"{label}{indented(text)}", heading)


def indented(text: str) -> str:
    """The text with every line after the first set in from the left margin."""
    first, *rest = _LINE_ENDS.split(text)
    return "\n".join([first, *(f"    {line}" for line in rest)])


def _labels(hit: Hit, passage: str) -> list[str]:
    dated = hit.record.dated
    labels = [dated.date().isoformat()] if dated else []
    if not labels and passage.lstrip().startswith("("):
        # Else the record's own words would stand where the label does.
        labels.append("undated")
    if RETIRED in hit.flags:
        labels.append("superseded")
    elif hit.stale_slots:
        labels.append(
            "out of date here: " + ", ".join(dict.fromkeys(_one_line(s.attribute) for s in hit.stale_slots))
        )
    if CONFLICT in hit.flags or LOOP in hit.flags:
        labels.append("conflicts with another record")
    return labels


def _one_line(text: str) -> str:
    return " ".join(_LINE_ENDS.split(text))


def cut_sentences(text: str, fits: Callable[[str], bool]) -> str | None:
    """The longest run of whole sentences from the beginning that fits with the mark, or `None`."""
    ends = [m.start() for m in _SENTENCE_END.finditer(text) if m.start()]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(text[: ends[middle - 1]] + CUT_MARK):
            low = middle
        else:
            high = middle - 1
    return text[: ends[low - 1]] + CUT_MARK if low else None
