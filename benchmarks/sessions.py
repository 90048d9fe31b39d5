"""When is what a thread has cited enough? Real conversations are replayed, turn by turn, through sessions.

    python benchmarks/sessions.py [BEIR_FOLDER] [--model FOLDER]

The queries of the folder carry `metadata.conversation` and `metadata.turn` (mtrag does). First every turn
searches the corpus, and each gate's score is noted beside whether the cited sources hold a relevant
document: AUC, with an interval from resampling conversations. A combination of all that can be read from
the cited set is fitted on the other conversations each time. Then every gate replays the conversations
for real: at a threshold that the *other* conversations say is right in two of three cases.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ranking import SHARED

from ctxarith import Corpus, Evidence, SentenceTransformerEmbedder, cosine, coverage, relative, thread
from ctxarith.confidence import Threshold
from ctxarith.errors import ArgumentError
from ctxarith.measure.beir import EvaluationSet, read_set

DEPTH = 5
PRECISION = 2 / 3
SAMPLES = 2_000

GATES: dict[str, Threshold] = {
    "thread (the default)": thread(),
    "cosine": cosine(),
    "coverage": coverage(),
    "relative (asks the corpus)": relative(),
}
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Turn:
    """A question of a conversation with its relevant documents."""

    id: str
    text: str
    relevant: frozenset[str]


@dataclass(frozen=True)
class Noted:
    """What was to be read at a turn, and whether the cited sources held a relevant document."""

    conversation: str
    features: dict[str, float]
    enough: bool


def conversations(data: EvaluationSet) -> dict[str, list[Turn]]:
    """The judged turns of each conversation that has several, in order."""
    found: dict[str, list[tuple[float, Turn]]] = defaultdict(list)
    for line in data.questions:
        said = line.get("metadata") or {}
        relevant = {doc for doc, gain in data.qrels.get(str(line["_id"]), {}).items() if gain > 0}
        if said.get("conversation") is not None and relevant:
            turn = Turn(str(line["_id"]), line["text"], frozenset(relevant))
            found[str(said["conversation"])].append((float(said.get("turn", 0)), turn))
    ordered = {name: [t for _, t in sorted(turns, key=lambda p: p[0])] for name, turns in found.items()}
    return {name: turns for name, turns in ordered.items() if len(turns) > 1}


def noted(corpus: Corpus, talks: dict[str, list[Turn]]) -> list[Noted]:
    """Search the corpus at every turn, and note what each gate would have seen."""
    notes: list[Noted] = []
    for name, turns in talks.items():
        seen: list[Evidence] = []

        def refuse(evidence: Evidence, seen: list[Evidence] = seen) -> bool:
            seen.append(evidence)
            return False

        session = corpus.session(f"noted {name}", gate=refuse, capacity=10_000)
        for turn in turns:
            seen.clear()
            cited = set(session.cited)
            session.retrieve(turn.text, top=DEPTH, tokens=None)
            if seen:
                notes.append(Noted(name, _features(seen[0]), bool(cited & turn.relevant)))
    return notes


def _features(evidence: Evidence) -> dict[str, float]:
    scores = {name: gate.score(evidence) for name, gate in GATES.items()}
    return {
        **scores,
        "familiar": evidence.familiar,
        "against the usual": min(evidence.best / evidence.usual, 1.0) if evidence.usual else 0.0,
        "words": float(len(evidence.query.split())),
    }


def auc(scores: Scores, enough: NDArray[np.bool_]) -> float:
    """The chance that a turn whose cited set is enough scores above one whose is not."""
    yes, no = scores[enough], scores[~enough]
    return float(
        ((yes[:, None] > no).mean() + (yes[:, None] == no).mean() / 2) if len(yes) and len(no) else 0.5
    )


def interval(
    scores: Scores, enough: NDArray[np.bool_], groups: Sequence[str], other: Scores | None = None
) -> str:
    """The 95 % interval of an AUC, or of its distance to another's; conversations are drawn, not turns."""
    rows = [np.flatnonzero(np.asarray(groups) == name) for name in sorted(set(groups))]
    draw = np.random.default_rng(0)
    found = []
    for _ in range(SAMPLES):
        chosen = np.concatenate([rows[n] for n in draw.integers(0, len(rows), len(rows))])
        value = auc(scores[chosen], enough[chosen])
        found.append(value if other is None else value - auc(other[chosen], enough[chosen]))
    low, high = np.percentile(found, [2.5, 97.5])
    return f"[{low:+.2f}, {high:+.2f}]" if other is not None else f"[{low:.2f}, {high:.2f}]"


def fitted(notes: Sequence[Noted], names: Sequence[str]) -> Scores:
    """A logistic combination of cited-set features; each conversation is scored by a fit on the others."""
    table = np.asarray([[note.features[name] for name in names] for note in notes])
    enough = np.asarray([note.enough for note in notes])
    groups = np.asarray([note.conversation for note in notes])
    scores = np.zeros(len(notes))
    for group in sorted(set(groups.tolist())):
        here = groups == group
        mean, spread = table[~here].mean(0), table[~here].std(0) + 1e-9
        scaled = np.c_[np.ones(len(table)), (table - mean) / spread]
        scores[here] = scaled[here] @ _logistic(scaled[~here], enough[~here])
    return scores


def _logistic(table: Scores, enough: NDArray[np.bool_], ridge: float = 1.0) -> Scores:
    """Ridge logistic regression by Newton's method (McCullagh and Nelder 1989)."""
    weights = np.zeros(table.shape[1])
    penalty = ridge * np.eye(table.shape[1])
    penalty[0, 0] = 1e-9
    for _ in range(50):
        chance = 1 / (1 + np.exp(-table @ weights))
        slope = table.T @ (chance - enough) + penalty @ weights
        weights -= np.linalg.solve(table.T @ (table * (chance * (1 - chance))[:, None]) + penalty, slope)
    return weights


def replay(
    corpus: Corpus, talks: dict[str, list[Turn]], gate_for: Callable[[str], Any], label: str
) -> dict[str, float]:
    """Run the conversations with a gate: share answered from the cited set, recall, time."""
    cited, kept, times, follow_ups = 0, [], [], 0
    for name, turns in talks.items():
        session = corpus.session(f"{label} {name}", gate=gate_for(name), capacity=10_000)
        for number, turn in enumerate(turns):
            began = time.perf_counter()
            result = session.retrieve(turn.text, top=DEPTH, tokens=None)
            times.append((time.perf_counter() - began) * 1e3)
            found = {hit.record.source_id for hit in result.hits}
            kept.append(len(found & turn.relevant) / min(len(turn.relevant), DEPTH))
            if number:
                follow_ups += 1
                cited += result.trace.stage == "cited"
    return {
        "cited": cited / max(follow_ups, 1),
        "recall": float(np.mean(kept)),
        "ms": float(np.median(times)),
    }


def calibrated(gate: Threshold, name: str, notes: Sequence[Noted]) -> Callable[[str], Any]:
    """For each conversation the gate as the others would set it; closed if none is right."""

    def gate_for(conversation: str) -> Any:
        others = [(note.features[name], note.enough) for note in notes if note.conversation != conversation]
        try:
            return gate.calibrate(others, precision=PRECISION)
        except ArgumentError:
            return lambda evidence: False

    return gate_for


def main() -> None:
    """Print both tables."""
    asked = _arguments()
    data = read_set(asked.folder)
    model = None if asked.model is None else SentenceTransformerEmbedder(asked.model)
    corpus = Corpus.in_memory(searchable=["title"], embedder=model)
    corpus.add(data.documents)
    talks = conversations(data)
    notes = noted(corpus, talks)
    enough = np.asarray([note.enough for note in notes])
    groups = [note.conversation for note in notes]
    print(f"{data.name}: {len(talks)} conversations of several turns, {len(notes)} follow-ups;")
    print(f"in {enough.sum()} of them the cited sources hold a relevant document; {corpus.embedder_name}\n")
    reference = np.asarray([note.features["relative (asks the corpus)"] for note in notes])
    print(f"{'gate':<40}{'AUC':>6}  95 %            less relative's")
    rows = {name: np.asarray([note.features[name] for note in notes]) for name in notes[0].features}
    rows["all of the cited set, fitted on others"] = fitted(notes, [n for n in rows if "corpus" not in n])
    for name, scores in rows.items():
        away = "" if scores is reference else interval(scores, enough, groups, reference)
        gap = auc(scores, enough) - auc(reference, enough)
        print(
            f"{name:<40}{auc(scores, enough):>6.3f}  {interval(scores, enough, groups)}    {gap:+.3f} {away}"
        )
    print(f"\n{'gate, set to be right in 2 of 3 cases':<40}{'from cited':>11}{'recall@5':>10}{'ms':>7}")
    plans: dict[str, Callable[[str], Any]] = {"always the corpus": lambda name: lambda evidence: False}
    plans |= {name: calibrated(gate, name, notes) for name, gate in GATES.items()}
    plans |= {"the default as it comes": lambda name: thread()}
    for label, gate_for in plans.items():
        done = replay(corpus, talks, gate_for, label)
        print(f"{label:<40}{done['cited']:>10.0%} {done['recall']:>9.3f}{done['ms']:>7.1f}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=SHARED / "mtrag", help="a BEIR folder")
    parser.add_argument("--model", type=Path, help="a sentence-transformers folder [WordLlama, offline]")
    return parser.parse_args()


if __name__ == "__main__":
    main()
