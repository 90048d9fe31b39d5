"""A retrieval becomes a packet: manifest, holdings, page."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from secrets import token_hex
from typing import Any

import numpy as np

from ctxarith.errors import ArgumentError
from ctxarith.packet.borrowed import Source
from ctxarith.packet.boundary import expiry
from ctxarith.packet.manifest import Holding, Kept, Manifest, Member
from ctxarith.packet.render import Leaf, bound
from ctxarith.packet.request import Case, Request, request_of
from ctxarith.packet.rights import granted, owner_of, query_scope, rights_of, rules_of
from ctxarith.policy import Principal, rights
from ctxarith.run import Result


@dataclass(frozen=True, slots=True)
class Assembled:
    """A packet whole: what is stored of it, what was asked, its page, and the run while it may be used."""

    kept: Kept
    request: Request
    leaf: Leaf
    result: Result | None


def assembled(request: Request, principal: Principal, source: Source) -> Assembled:
    """Retrieve with the clock standing still, and make the packet of what came."""
    now = source.gate.now()
    return bound_to(source.retrieve(request, principal, now), request, principal, source, now)


def from_result(
    result: Result, case: Case, asked: Mapping[str, Any], principal: Principal, source: Source
) -> Assembled:
    """The packet of a result; its watermark is that of the data which the result was taken from.

    Raises:
        ArgumentError: the result is another principal's, or its moment cannot be told.
    """
    request = request_of(result, case, asked)
    now = source.gate.now() if request.as_of is not None else result.trace.at
    scene = result.scene
    visible = scene.snapshot.columns.mask(source.permission(principal, now, request.as_of).visible)
    if not np.array_equal(visible, scene.visible):
        rule = "was retrieved for another principal or under another policy: retrieve it again"
        raise ArgumentError("result", result.text, rule)
    return bound_to(result, request, principal, source, now)


def bound_to(
    result: Result, request: Request, principal: Principal, source: Source, now: datetime
) -> Assembled:
    """Manifest and page of a result that was retrieved with the clock at `now`."""
    scene = result.scene
    leaf = bound(result.hits, request, source.desk(scene.snapshot))
    decision = scene.plan.permission.decision
    mine = rights(source.policy, principal)
    manifest = Manifest(
        packet_id=token_hex(12),
        tenant=principal.tenant,
        principal_scope_version=decision.scope_version,
        policy_version=decision.policy_version,
        corpus_watermark=scene.snapshot.watermarks.get(principal.tenant, 0),
        query_scope=query_scope(scene.plan),
        assembled_at=now,
        expires_at=expiry(scene.plan, scene.snapshot, mine, since=now, lifetime=request.lifetime),
        members=tuple(Member(hit.record.source_id, hit.record.version) for hit in leaf.hits),
        unresolved=leaf.unresolved,
    )
    kept = Kept(
        manifest=manifest,
        owner=owner_of(principal),
        rights=rights_of(principal),
        policy=rules_of(source.policy),
        embedder=source.embedder,
        granted=granted(scene.plan, principal),
        request=request.plain,
        rendering=hash_of(leaf.text),
        holdings=tuple(
            Holding(hit.id, hit.record.version, hit.record.content_hash or "") for hit in leaf.hits
        ),
    )
    return Assembled(kept, request, leaf, result)


def hash_of(text: str) -> str:
    """SHA-256 of a rendering."""
    return hashlib.sha256(text.encode()).hexdigest()
