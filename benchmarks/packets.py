"""What a packet saves and costs: bytes of shared prefix over follow-ups, and the time of a revalidation.

python -m benchmarks.packets [records]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import mean, quantiles

from ctxarith import Corpus
from ctxarith.demo import scenarios

FOLLOW_UPS = [
    *("Until what hour can they cancel?", "What does one day later cost?", "Is the lift wide enough?"),
    *("Which room is step-free?", "How wide is the door?", "Is the garden reachable?", "Who inspected it?"),
    *("Does insurance pay for illness?", "Is there a shower seat?", "What of the accessible room's terms?"),
]


def main(count: int) -> None:
    """Print both tables."""
    trip = next(one for one in scenarios() if one.name == "travel")
    corpus = trip.open(None)
    asked = {"scope": "trips/japan-2026", "where": {"language": "en"}}
    packet = corpus.packet(trip.text, principal=trip.principal, top=4, **asked)
    questions = FOLLOW_UPS * 2
    kept = [packet.prompt(question, trip.principal) for question in questions]
    naive = [
        f"{corpus.retrieve(question, principal=trip.principal, top=4, **asked).text}\n{question}"
        for question in questions
    ]
    sys.stdout.write(
        "prompts of 20 follow-ups: bytes, and the share that the turn before began with as well\n"
    )
    for name, prompts in (("packet", kept), ("top-k per turn", naive)):
        sys.stdout.write(f"  {name:15} {mean(map(_size, prompts)):7.0f} {_shared(prompts):6.1%}\n")
    sys.stdout.write("revalidation, ms: p50, p95\n")
    _report("nothing written", lambda: packet.revalidate(trip.principal))
    _write(corpus, trip.principal.tenant, count)
    _report(f"{count:,} unrelated", lambda: packet.revalidate(trip.principal))
    sys.stdout.write(f"  verdict: {packet.revalidate(trip.principal).verdict}\n")


def _write(corpus: Corpus, tenant: str, count: int) -> None:
    corpus.add(
        {
            "id": f"n{n}",
            "text": f"note {n}",
            "tenant": tenant,
            "scope": "trips/desk",
            "slots": [{"subject": f"s{n % 97}", "attribute": "state", "value": n}],
        }
        for n in range(count)
    )


def _report(name: str, action: Callable[[], object]) -> None:
    times = []
    for _ in range(30):
        begin = time.perf_counter()
        action()
        times.append((time.perf_counter() - begin) * 1e3)
    cuts = quantiles(times, n=20)
    sys.stdout.write(f"  {name:15} {cuts[9]:7.2f} {cuts[18]:7.2f}\n")


def _size(prompt: str) -> int:
    return len(prompt.encode())


def _shared(prompts: Sequence[str]) -> float:
    """The mean share of a prompt's bytes that lie in the prefix common with the one before."""
    return mean(_common(a.encode(), b.encode()) / _size(b) for a, b in pairwise(prompts))


def _common(one: bytes, other: bytes) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
