"""Does a question about a long conversation get the current value, and for how many tokens?

    python benchmarks/memory.py [FOLDER] [--max-tokens 1000]

The default folder is the sample of 16 LongMemEval questions with their conversations. Every conversation is
appended to a memory turn by turn, at the times of the set; then its question is asked, of `recall` and of
one corpus that holds all conversations. Three of the questions are about a value that changed; for them the
current and the stale turn are labelled by hand. Too few for scores: read them as worked examples.
The rules by which a summary keeps sentences were looked at on these conversations; nothing of how turns are
recalled or ranked was chosen on them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ranking import SHARED

from ctxarith import Corpus, RollingMemory
from ctxarith.ingest.files import objects
from ctxarith.instant import instant
from ctxarith.instant import zone as time_zone
from ctxarith.models.tokens import TiktokenCounter

DEPTH = 5
TOKENS = 400
ZONE = "UTC"


@dataclass(frozen=True)
class Asked:
    """A question, with the turns of its conversation in the order in which they were said."""

    text: str
    conversation: str
    answer: str
    turns: Sequence[Mapping[str, Any]]
    current: frozenset[str]
    stale: frozenset[str]


def main() -> None:
    """Print tokens for all questions, and the places of the labelled turns."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("folder", nargs="?", type=Path, default=SHARED / "longmemeval16")
    parser.add_argument("--max-tokens", type=int, default=1_000, help="the bound of the window")
    given = parser.parse_args()
    asked = read(given.folder)
    turns = sum(len(one.turns) for one in asked)
    print(f"{given.folder.name}: {len(asked)} questions, {turns} turns; window of {given.max_tokens} tokens,")
    print(
        f"recall of {DEPTH} turns, corpus context of {TOKENS} tokens; offline embedder, no model is called\n"
    )
    with Corpus.in_memory(naive_zone=ZONE) as corpus:
        corpus.add(
            {"id": t["_id"], "text": said(t), "scope": one.conversation, "created_at": t["metadata"]["date"]}
            for one in asked
            for t in one.turns
        )
        print(f"{'question':<58}{'turns':>6}{'all':>8}{'window':>8}{'recalled':>9}{'corpus':>8}")
        totals = [0, 0, 0, 0]
        labelled: list[str] = []
        for one in asked:
            sizes, lines = replay(one, corpus, given.max_tokens)
            totals = [total + size for total, size in zip(totals, sizes, strict=True)]
            print(f"{one.text[:56]:<58}{len(one.turns):>6}" + columns(sizes))
            labelled += lines
        print(f"{'tokens in all':<64}" + columns(totals))
    print("\nquestions about a value that changed: place of the current turn and of the stale one")
    print("\n".join(labelled))


def replay(one: Asked, corpus: Corpus, max_tokens: int) -> tuple[list[int], list[str]]:
    """Tokens (all turns, window, recalled turns, context of the corpus), and what the labels say."""
    count = TiktokenCounter()
    last = instant(one.turns[-1]["metadata"]["date"], naive_zone=time_zone(ZONE))
    with RollingMemory(thread_id=one.conversation, max_tokens=max_tokens, clock=lambda: last) as memory:
        ids = {}
        for turn in one.turns:
            at = instant(turn["metadata"]["date"], naive_zone=time_zone(ZONE))
            ids[memory.append(turn["metadata"]["role"], said(turn), time=at).number] = turn["_id"]
        memory.flush()
        window = memory.window()
        recalled = memory.recall(one.text, top=DEPTH)
    # Asked at the end of the conversation, since recency is counted from there.
    found, everything = (
        corpus.retrieve(one.text, scope=one.conversation, top=DEPTH, tokens=tokens, as_of=last)
        for tokens in (TOKENS, None)
    )
    sizes = [
        sum(count(turn["text"]) for turn in one.turns),
        window.tokens,
        sum(count(hit.message.content) for hit in recalled),
        count(found.text),
    ]
    if not one.current:
        return sizes, []
    dates = {turn["_id"]: turn["metadata"]["date"] for turn in one.turns}
    orders = {
        "memory.recall": [ids[hit.message.number] for hit in recalled],
        f"corpus, {DEPTH} turns": [hit.id for hit in everything.hits],
        f"corpus, {TOKENS} tokens": [hit.id for hit in found.hits],
    }
    there = [ids[turn] for point in window.points for turn in point.turns]
    there += [ids[number] for number in window.turns]
    lines = [f"  {one.text}  (answer: {one.answer})"]
    lines += [f"    {name:<20} {verdict(one, order, dates)}" for name, order in orders.items()]
    in_window = ", ".join(f"{name} {there_or_not(those, there)}" for name, those in labels(one).items())
    return sizes, [*lines, f"    {'window':<20} {in_window}"]


def verdict(one: Asked, order: Sequence[str], dates: Mapping[str, str]) -> str:
    """Recall of the current turn, and both turns with their place and date."""
    best: dict[str, int] = {}
    told = []
    for name, those in labels(one).items():
        places = {turn: order.index(turn) + 1 for turn in those if turn in order}
        best[name] = min(places.values(), default=len(order) + 1)
        told += [f"{name} {places.get(turn, 'not there')} ({dates[turn]})" for turn in sorted(those)]
    above = "current first" if best["current"] < best["stale"] else "STALE FIRST"
    recall = len(one.current.intersection(order)) / len(one.current)
    return f"recall@{DEPTH} {recall:.2f}   {'   '.join(told)}   {above}"


def labels(one: Asked) -> dict[str, frozenset[str]]:
    """The labelled turns by their label."""
    return {"current": one.current, "stale": one.stale}


def there_or_not(those: frozenset[str], there: Sequence[str]) -> str:
    """Whether all of some turns are named."""
    return "there" if those <= set(there) else "not there"


def read(folder: Path) -> list[Asked]:
    """The questions of a folder, each with its conversation."""
    turns: dict[str, list[dict[str, Any]]] = {}
    for _, line in objects(next(folder.glob("corpus.jsonl*"))):
        turns.setdefault(line["metadata"]["conversation"], []).append(line)
    asked = []
    for _, line in objects(next(folder.glob("queries.jsonl*"))):
        about = line["metadata"]
        ordered = sorted(
            turns[about["conversation"]], key=lambda t: (t["metadata"]["date"], t["metadata"]["pos"])
        )
        marked = (frozenset(about.get(name, ())) for name in ("current", "stale"))
        asked.append(Asked(line["text"], about["conversation"], about["answer"], ordered, *marked))
    return asked


def said(turn: Mapping[str, Any]) -> str:
    """The text of a turn without the role before it."""
    return str(turn["text"]).removeprefix(f"{turn['metadata']['role']}: ")


def columns(sizes: Sequence[int]) -> str:
    """Numbers under their headings."""
    return "".join(f"{size:>{width},}" for size, width in zip(sizes, (8, 8, 9, 8), strict=True))


if __name__ == "__main__":
    main()
