"""What a packet says of itself, and what is stored of it: never a text of a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Self

from ctxarith.errors import ArgumentError

MEMBERS = "member_versions"
WATERMARK = "corpus_watermark"
SCOPE_VERSION = "principal_scope_version"
POLICY_VERSION = "policy_version"
DELETION = "deletion_state"
QUERY_SCOPE = "query_scope"
DEPENDENCIES = (MEMBERS, WATERMARK, SCOPE_VERSION, POLICY_VERSION, DELETION, QUERY_SCOPE)


class _Json:
    """A dataclass as JSON, checked by pydantic, which is loaded when it is first needed."""

    __slots__ = ()

    def as_json(self) -> str:
        """JSON text; `from_json` gives an equal value back."""
        kind: Any = self.__class__
        return str(_adapter(kind).dump_json(self).decode())

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read `as_json`.

        Raises:
            ArgumentError: the text is no such JSON; a missing or an additional field is named.
        """
        kind: Any = cls
        try:
            made: Self = _adapter(kind).validate_json(text)
        except ValueError as error:
            raise ArgumentError("json", text, str(error)) from error
        return made

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema of the value."""
        kind: Any = cls
        return dict(_adapter(kind).json_schema())


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@dataclass(frozen=True, slots=True)
class Member:
    """A document at its version."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    source_id: str
    version: str


@dataclass(frozen=True, slots=True)
class Manifest(_Json):
    """The fields of a packet that others may read.

    Args:
        packet_id: unique.
        tenant: whose records.
        principal_scope_version, policy_version: of the permission under which members were chosen.
        corpus_watermark: of the tenant, taken with the data that was searched.
        query_scope: the paths searched, joined by " | "; "*" for all that the principal may see.
        assembled_at: the clock of the retrieval, UTC.
        expires_at: no later than the next boundary of validity, embargo or retention in the predicate.
        members: in the order of their marks.
        unresolved: what was looked for and not found.
        invalidation_dependencies: what `revalidate` compares.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    packet_id: str
    tenant: str
    principal_scope_version: str
    policy_version: str
    corpus_watermark: int
    query_scope: str
    assembled_at: datetime
    expires_at: datetime
    members: tuple[Member, ...]
    unresolved: tuple[str, ...]
    invalidation_dependencies: tuple[str, ...] = DEPENDENCIES


@dataclass(frozen=True, slots=True)
class Holding:
    """The record behind a mark: its key, and the hash of the content that was shown."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    id: str
    version: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class Note:
    """What has been compared so far, and the marks that it rests on."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    text: str
    cites: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept(_Json):
    """A packet as it is stored: the manifest, and what revalidation compares. No text of a record.

    Args:
        manifest: see `Manifest`.
        owner: a digest of tenant and user.
        rights: a digest of all that the principal was granted.
        policy: a digest of the policy's rules.
        embedder: the model of the question.
        granted: the named scopes that the principal held, which it must still hold.
        request: what was asked, as canonical JSON.
        rendering: SHA-256 of the rendered bytes.
        holdings: the records behind the marks.
        notes: see `Packet.note`.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    manifest: Manifest
    owner: str
    rights: str
    policy: str
    embedder: str
    granted: tuple[str, ...]
    request: str
    rendering: str
    holdings: tuple[Holding, ...]
    notes: tuple[Note, ...] = field(default=())
