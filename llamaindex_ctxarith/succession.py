"""Supersession among nodes of any retriever: the core's own rule, over a corpus of these nodes alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ctxarith.algebra import semantic, superseded
from ctxarith.corpus import Corpus
from ctxarith.evidence import Drop, Hit
from ctxarith.model import ROOT, Record
from ctxarith.policy import Principal
from ctxarith.run import Result
from ctxarith.scopes import everyone


class _NoModel:
    """Vectors without a meaning: what is current does not depend on what is near."""

    name = "none"

    def embed_documents(self, texts: list[str], /) -> Any:
        return [[1.0]] * len(texts)

    def embed_query(self, text: str, /) -> Any:
        return [1.0]


def succeeded(hits: Sequence[Hit], now: datetime) -> tuple[list[Hit], list[Drop]]:
    """The current hits in their order, each at the best place of those that it replaces; and the others.

    A successor takes the higher score too. A hit that is not valid now, or not yet, is left as it is.
    """
    current: dict[str, Hit] = {}
    drops: dict[str, Drop] = {}
    for tenant, own in _by_tenant(hits).items():
        found = _current(tenant, own, now)
        current |= {hit.id: hit for hit in found.hits}
        drops |= {drop.id: drop for drop in found.drops}
    place = {hit.id: at for at, hit in enumerate(hits)}
    given = {hit.id: hit for hit in hits}
    kept: list[tuple[int, int, Hit]] = []
    for hit in hits:
        if hit.id in drops:
            continue
        settled = current.get(hit.id)
        replaces = () if settled is None else tuple(old for old in settled.replaces if old in place)
        best = min([place[hit.id], *(place[old] for old in replaces)])
        kept.append((best, place[hit.id], _told(hit, settled, [given[old] for old in replaces])))
    dropped = [replace(drops[hit.id], record=hit.record) for hit in hits if hit.id in drops]
    return [hit for *_, hit in sorted(kept, key=lambda one: one[:2])], dropped


def _told(hit: Hit, settled: Hit | None, replaced: Sequence[Hit]) -> Hit:
    if settled is None:
        return hit
    return replace(
        hit,
        score=max([hit.score, *(old.score for old in replaced)]),
        found_by=max([hit, *replaced], key=_evidence).found_by,
        replaces=tuple(dict.fromkeys([*hit.replaces, *settled.replaces])),
        stale_slots=settled.stale_slots or hit.stale_slots,
        flags=tuple(dict.fromkeys([*hit.flags, *settled.flags])),
    )


def _evidence(hit: Hit) -> float:
    return max((one.share for one in hit.found_by), default=0.0)


def _current(tenant: str, hits: Sequence[Hit], now: datetime) -> Result:
    # One pass over at most a few hundred rows; nothing is written to disk.
    with Corpus.in_memory(embedder=_NoModel(), clock=lambda: now) as corpus:
        corpus.add([_open(hit.record) for hit in hits], embeddings=[[1.0]] * len(hits))
        question = (semantic(depth=len(hits)) & everyone) - superseded
        return corpus.run(question, "which are current?", principal=Principal(tenant))


def _open(record: Record) -> Record:
    """The record without its guards: who may see it is the gate's to judge."""
    return replace(
        record, scope=ROOT, audience=(), jurisdiction=None, embargo_until=None, retain_until=None, metadata={}
    )


def _by_tenant(hits: Sequence[Hit]) -> dict[str, list[Hit]]:
    groups: dict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        groups[hit.record.tenant].append(hit)
    return groups
