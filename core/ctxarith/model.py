"""The values that flow through the library: records on the way in, hits and drops on the way out.

All of them are frozen. A function that changes one returns a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ctxarith.errors import RecordError
from ctxarith.instant import TimeLike
from ctxarith.normalise import (
    Metadata,
    Scalar,
    clean_id,
    clean_metadata,
    clean_scope,
    clean_text,
    clean_time,
    clean_value,
    clean_words,
)

ROOT = ""
DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Slot:
    """A fact that a record speaks of: `subject`'s `attribute` is `value`.

    `value is None` means that the record *mentions* the attribute and asserts nothing, so it
    retires nothing. `subject` may be left out when the corpus names a metadata key for it.
    `inferred` slots were guessed by a model; similarity must support them before they retire.
    """

    subject: str | None
    attribute: str
    value: Scalar | None = None
    inferred: bool = False

    @property
    def asserts(self) -> bool:
        """Whether this slot can retire an older assertion."""
        return self.value is not None


@dataclass(frozen=True, slots=True)
class Record:
    """One piece of evidence. The key is (tenant, id, version).

    Args:
        id: 1 to 512 characters; refused, never changed.
        text: sanitised once (lone surrogates and NUL).
        source_id: the document it is a chunk of; `id` by default.
        version: compared in natural order, so "10" is newer than "9".
        scope: a path such as "acme/ops"; the root by default.
        created_at: when the fact was asserted, never when the row was written.
        valid_from, valid_until: half-open validity.
        slots: what it asserts or mentions.
        supersedes: ids that it replaces, whatever their dates say.
        audience: groups that may see it; empty means everyone in the tenant.
        metadata: flat; str, int, float, bool, datetime, or a list of one of these.
        token_count, entity_count, content_hash: added at ingest.

    Raises:
        RecordError: names the record, the field and the value.

    >>> Record(id="r1", text="Fee is 12 EUR", created_at="2026-03-01").created_at.year
    2026
    """

    id: str
    text: str
    source_id: str = ""
    version: str = "1"
    tenant: str = DEFAULT_TENANT
    scope: str = ROOT
    created_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    slots: tuple[Slot, ...] = ()
    supersedes: tuple[str, ...] = ()
    source_type: str | None = None
    jurisdiction: str | None = None
    audience: tuple[str, ...] = ()
    embargo_until: datetime | None = None
    retain_until: datetime | None = None
    metadata: Mapping[str, Metadata] = field(default_factory=dict)
    token_count: int | None = None
    entity_count: int | None = None
    content_hash: str | None = None

    if TYPE_CHECKING:
        # What the border takes is wider than what the fields hold.
        def __init__(
            self,
            id: str,
            text: str,
            source_id: str = "",
            version: str | int = "1",
            tenant: str = DEFAULT_TENANT,
            scope: str = ROOT,
            created_at: TimeLike | None = None,
            valid_from: TimeLike | None = None,
            valid_until: TimeLike | None = None,
            slots: Iterable[Slot | Mapping[str, Any]] = (),
            supersedes: str | Iterable[str] = (),
            source_type: str | None = None,
            jurisdiction: str | None = None,
            audience: str | Iterable[str] = (),
            embargo_until: TimeLike | None = None,
            retain_until: TimeLike | None = None,
            metadata: Mapping[str, Any] | None = None,
            token_count: int | None = None,
            entity_count: int | None = None,
            content_hash: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        rid = clean_id(self.id, self.id, "id", limit=512)
        put("id", rid)
        put("text", clean_text(rid, "text", self.text))
        given = self.source_id
        source = rid if given is None or (isinstance(given, str) and not given) else given
        put("source_id", clean_id(rid, source, "source_id", limit=512))
        put("version", clean_id(rid, _plain_version(self.version), "version", limit=128))
        put("tenant", clean_id(rid, self.tenant, "tenant", limit=1024))
        put("scope", clean_scope(self.scope, record=rid))
        for name, value in zip(TIME_FIELDS, times_of(self), strict=True):
            if value is not None:
                put(name, clean_time(rid, name, value))
        put("slots", tuple(_slot(rid, one) for one in _several(rid, "slots", self.slots)))
        put("supersedes", clean_words(rid, "supersedes", self.supersedes))
        put("audience", clean_words(rid, "audience", self.audience))
        for name, value in (("source_type", self.source_type), ("jurisdiction", self.jurisdiction)):
            if value is not None:
                put(name, clean_id(rid, value, name, limit=256))
        for name, count in (("token_count", self.token_count), ("entity_count", self.entity_count)):
            if not (count is None or isinstance(count, int)):
                raise RecordError(rid, name, count, "a whole number, added at ingest")
        if not (self.content_hash is None or isinstance(self.content_hash, str)):
            raise RecordError(rid, "content_hash", self.content_hash, "text, added at ingest")
        put("metadata", MappingProxyType(clean_metadata(rid, self.metadata, RESERVED)))
        if rid in self.supersedes:
            raise RecordError(rid, "supersedes", rid, "a record cannot supersede itself")
        if self._ends_before_it_starts():
            raise RecordError(rid, "valid_until", self.valid_until, "validity ends before it begins")

    def _ends_before_it_starts(self) -> bool:
        start, end = self.valid_from, self.valid_until
        if start is None or end is None:
            return False
        return bool(start.tzinfo) == bool(end.tzinfo) and end < start

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return Record, (*{**given, "metadata": dict(self.metadata)}.values(),)

    @property
    def key(self) -> tuple[str, str, str]:
        """(tenant, id, version): what an add replaces."""
        return (self.tenant, self.id, self.version)

    @property
    def dated(self) -> datetime | None:
        """The ranking date: `created_at`, else `valid_from`, else none."""
        return self.created_at or self.valid_from


TIME_FIELDS = ("created_at", "valid_from", "valid_until", "embargo_until", "retain_until")
times_of = attrgetter(*TIME_FIELDS)
RESERVED = frozenset(f.name for f in fields(Record)) | {"distance", "document", "embedding"}


def _plain_version(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _several(rid: str, name: str, value: object) -> Sequence[object]:
    if value is None:
        return ()
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(value)
    raise RecordError(rid, name, value, "expected a list")


def _slot(rid: str, given: object) -> Slot:
    if isinstance(given, Mapping):
        unknown = set(given) - {"subject", "attribute", "value", "inferred"}
        if unknown or "attribute" not in given:
            raise RecordError(rid, "slots", given, "a slot has subject, attribute, value and inferred")
        given = Slot(
            given.get("subject"), given["attribute"], given.get("value"), given.get("inferred", False)
        )
    if not isinstance(given, Slot):
        raise RecordError(rid, "slots", given, "expected a Slot or a mapping")
    subject = None if given.subject is None else clean_id(rid, given.subject, "slots.subject", limit=512)
    attribute = clean_id(rid, given.attribute, "slots.attribute", limit=512)
    value = None if given.value is None else clean_value(rid, "slots.value", given.value)
    if isinstance(value, tuple):
        raise RecordError(rid, "slots.value", given.value, "a slot asserts one value, not a list")
    if not isinstance(given.inferred, bool):
        raise RecordError(rid, "slots.inferred", given.inferred, "True or False")
    return Slot(subject, attribute, value, given.inferred)
