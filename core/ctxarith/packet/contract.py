"""What a packet promises, in words."""

from __future__ import annotations

from datetime import timedelta

from ctxarith.instant import iso
from ctxarith.packet.manifest import Manifest
from ctxarith.packet.request import Request


def contract(manifest: Manifest, request: Request) -> str:
    """Which pipeline chose the members, structure, lifetime, what forces a refresh, what marks mean."""
    arms = " | ".join(dict.fromkeys(arm.source for arm in request.pipeline.candidates.arms))
    conditions = dict.fromkeys(str(arm.condition) for arm in request.pipeline.candidates.arms)
    stages = " >> ".join(map(repr, request.pipeline.stages))
    current = " - superseded" if request.pipeline.candidates.arms[0].current else ""
    structure = ", ".join(label for label, _ in request.sections) or "one list, best first"
    lines = [
        f"Evidence packet {manifest.packet_id} of {manifest.tenant}"
        + (f", for the task {request.task!r}" if request.task else ""),
        f"Chosen by: ({arms}) & scope {manifest.query_scope} & {' | '.join(conditions)}{current} >> {stages}",
        f"For the question: {request.text}",
        f"Structure: {structure}; at most {request.top} members and {request.tokens} tokens",
        f"Lifetime: assembled {iso(manifest.assembled_at)}, expires {iso(manifest.expires_at)}"
        f" (at most {_spoken(request.lifetime)}, never past a boundary of validity, embargo or retention)",
        "Refreshed when: a member changes, is deleted or superseded; new evidence passes these conditions;"
        " policy, scope version or scope change; it has expired",
        "Denied when: a member or the scope is no longer the caller's, or the packet is another's",
        "Withheld when: a dependency cannot be checked",
        f"Depends on: {', '.join(manifest.invalidation_dependencies)}",
        "Claims: each carries the mark of its evidence:",
        *(
            f"  [{mark}] is {one.source_id}@{one.version}"
            for mark, one in enumerate(manifest.members, start=1)
        ),
        *(f"Unresolved: {one}" for one in manifest.unresolved),
    ]
    return "\n".join(lines)


def _spoken(lifetime: timedelta) -> str:
    return f"{lifetime.total_seconds() / 60:g} minutes"
