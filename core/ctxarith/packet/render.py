"""The page of a packet: the same members give the same bytes, whoever renders them and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ctxarith.evidence import Drop, Hit
from ctxarith.packet.request import Request
from ctxarith.stages.layout import block, cut_sentences, indented

OTHER = "Other evidence"
NOT_FOUND = "Looked for and not found"


@dataclass(frozen=True, slots=True)
class Desk:
    """The tools that a page is made with.

    Args:
        count: tokens of a text.
        passage: the text of a hit.
        identifiers: the codes that a text names, such as "KYO-H12".
    """

    count: Callable[[str], int]
    passage: Callable[[Hit], str]
    identifiers: Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A finished page: members in the order of their marks, the text, and what was not found."""

    hits: tuple[Hit, ...]
    text: str
    unresolved: tuple[str, ...]
    drops: tuple[Drop, ...]


def bound(hits: Sequence[Hit], request: Request, desk: Desk) -> Leaf:
    """The members that fit, best first, in the sections of the request.

    What does not fit is skipped and named; only if nothing fits is the first cut at the ends of
    sentences. The whole text, headings and what was not found included, stays within the tokens.
    """
    unresolved = _missing(hits, request, desk)
    kept: list[Hit] = []
    drops: list[Drop] = []
    for hit in hits[: request.top]:
        if _size([*kept, hit], unresolved, request, desk) <= request.tokens:
            kept.append(hit)
        else:
            drops.append(Drop(hit.record, "packet", f"over_budget: more than {request.tokens} tokens"))
    if not kept and hits:
        cut = _cut(hits[0], unresolved, request, desk)
        kept = [cut] if cut else []
    placed = [hit for _, group in sectioned(kept, request) for hit in group]
    left_out = [f"{drop.id}: found, and left out for want of tokens" for drop in drops]
    return Leaf(
        tuple(placed), page(placed, unresolved, request, desk), (*unresolved, *left_out), tuple(drops)
    )


def page(hits: Sequence[Hit], unresolved: Sequence[str], request: Request, desk: Desk) -> str:
    """The text: no time, no number of the packet, nothing but what was asked and found."""
    lines = ["Evidence (cite by mark):"]
    mark = 0
    for label, group in sectioned(hits, request):
        lines.extend([f"## {label}"] if label else [])
        for hit in group:
            mark += 1
            named = indented(f"{hit.record.source_id}@{hit.record.version}")
            lines.append(f"[{mark}] {named} {block(hit, desk.passage(hit)).text}")
    if unresolved:
        lines += [f"## {NOT_FOUND}", *(f"- {indented(one)}" for one in unresolved)]
    return "\n".join(lines)


def sectioned(hits: Sequence[Hit], request: Request) -> list[tuple[str, list[Hit]]]:
    """The hits under their labels, in the order of the labels; a hit stands under the first that fits."""
    if not request.sections:
        return [("", list(hits))]
    groups: dict[str, list[Hit]] = {label: [] for label, _ in request.sections}
    groups[OTHER] = []
    for hit in hits:
        fits = (label for label, rule in request.sections if rule.matches(hit.record))
        groups[next(fits, OTHER)].append(hit)
    return [(label, group) for label, group in groups.items() if group]


def _missing(hits: Sequence[Hit], request: Request, desk: Desk) -> tuple[str, ...]:
    held = {name for hit in hits for name in (hit.id, hit.record.source_id)}
    missing = [f"{name}: no such record here" for name in request.cited if name not in held]
    for label, rule in request.sections:
        if not any(rule.matches(hit.record) for hit in hits):
            missing.append(f"{label}: nothing found")
    said = {code for hit in hits for code in desk.identifiers(desk.passage(hit))}
    asked = dict.fromkeys(desk.identifiers(request.text))
    missing += [f"{code}: named in the question, in no evidence" for code in asked if code not in said]
    return tuple(missing) if hits or missing else (f"{request.text}: nothing found",)


def _size(hits: Sequence[Hit], unresolved: Sequence[str], request: Request, desk: Desk) -> int:
    return desk.count(page(hits, unresolved, request, desk))


def _cut(hit: Hit, unresolved: Sequence[str], request: Request, desk: Desk) -> Hit | None:
    def fits(excerpt: str) -> bool:
        return _size([replace(hit, excerpt=excerpt)], unresolved, request, desk) <= request.tokens

    excerpt = cut_sentences(desk.passage(hit), fits)
    return replace(hit, excerpt=excerpt, notes=(*hit.notes, "cut to fit")) if excerpt else None
