"""A record as given becomes a record as stored: settled times, slots, counts and hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any

from ctxarith.errors import ArgumentError, RecordError
from ctxarith.index.snapshot import passage
from ctxarith.ingest.entities import count_entities
from ctxarith.ingest.slots import SUBJECT_KEY, SlotExtractor
from ctxarith.model import TIME_FIELDS, Record, Slot, times_of
from ctxarith.normalise import Metadata, settle_time
from ctxarith.plain import jsonable, record_as_dict, record_from, trusted, values_of
from ctxarith.ports import TokenCounter, counted

_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
_ADDED = ("token_count", "entity_count", "content_hash")


@dataclass(frozen=True, slots=True)
class Preparation:
    """The settings of the write path."""

    count_tokens: TokenCounter
    searchable: tuple[str, ...] = ()
    slots: SlotExtractor | None = None
    subject_key: str = SUBJECT_KEY
    entities: Callable[[str], int] = count_entities
    zone: tzinfo | None = None

    def prepare(self, given: Record | Mapping[str, Any]) -> Record:
        """Clean, settle and enrich one record; the input is untouched.

        Raises:
            RecordError: names the record, the field and the value.
        """
        record = given if isinstance(given, Record) else record_from(given)
        # What has passed the border is looked at again only where something changes.
        settled = self._settled(record)
        if settled:
            record = replace(record, **settled)
        slots = self._slots(record)
        if slots != record.slots:
            record = replace(record, slots=slots)
        shown = passage(record, self.searchable)
        tokens, entities = counted(self.count_tokens, shown), self.entities(shown)
        digest = content_hash(record)
        if type(entities) is int:
            return trusted((*values_of(record)[: -len(_ADDED)], tokens, entities, digest))
        return replace(record, token_count=tokens, entity_count=entities, content_hash=digest)

    def _settled(self, record: Record) -> dict[str, Any]:
        """The times without an offset, in the corpus's zone."""
        settled: dict[str, Any] = {}
        for name, value in zip(TIME_FIELDS, times_of(record), strict=True):
            if value is not None and value.tzinfo is None:
                settled[name] = settle_time(record.id, name, value, self.zone)
        if any(map(_unsettled, record.metadata.values())):
            settled["metadata"] = {
                key: self._settled_value(record.id, key, value) for key, value in record.metadata.items()
            }
        return settled

    def _settled_value(self, rid: str, key: str, value: Metadata) -> Metadata:
        if isinstance(value, datetime):
            return settle_time(rid, f"metadata.{key}", value, self.zone)
        if isinstance(value, tuple) and isinstance(value[0], datetime):
            return tuple(
                settle_time(rid, f"metadata.{key}", v, self.zone) for v in value if isinstance(v, datetime)
            )
        return value

    def _slots(self, record: Record) -> tuple[Slot, ...]:
        """Explicit slots win over extracted ones; a slot without a subject speaks of the record's own."""
        if not record.slots and self.slots is None:
            return ()
        own = record.metadata.get(self.subject_key)
        explicit = []
        for slot in record.slots:
            if slot.subject is None and own is None:
                rule = f"has no subject, and the record no metadata key {self.subject_key!r}"
                raise RecordError(record.id, "slots.subject", slot.attribute, rule)
            explicit.append(replace(slot, subject=str(own)) if slot.subject is None else slot)
        given = {slot.attribute for slot in explicit}
        found = self._extracted(record)
        return (*explicit, *(slot for slot in found if slot.attribute not in given))

    def _extracted(self, record: Record) -> tuple[Slot, ...]:
        found = self.slots(record) if self.slots else ()
        if not isinstance(found, list | tuple) or not all(isinstance(slot, Slot) for slot in found):
            raise ArgumentError("slots", found, "the extractor must return Slots")
        # Through the border, like slots that were given.
        return replace(record, slots=tuple(found)).slots


def content_hash(record: Record) -> str:
    """SHA-256 of everything that was said about a record; what ingest adds is left out.

    The types are part of it: `True`, `1` and "1" are different contents.
    """
    plain = _typed({k: v for k, v in record_as_dict(record).items() if k not in _ADDED})
    return hashlib.sha256(_CANONICAL.encode(plain).encode()).hexdigest()


def _typed(value: object) -> object:
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return {"time": jsonable(value)}
    if isinstance(value, dict):
        return {key: _typed(one) for key, one in value.items()}
    return [_typed(one) for one in value] if isinstance(value, list | tuple) else value


def _unsettled(value: Metadata) -> bool:
    first = value[0] if isinstance(value, tuple) else value
    return isinstance(first, datetime)


def once_each(records: Sequence[Record]) -> list[Record]:
    """The batch without exact repeats.

    Raises:
        RecordError: when one key stands twice with different contents; nothing is written.
    """
    seen: dict[tuple[str, str, str], Record] = {}
    for record in records:
        known = seen.setdefault(record.key, record)
        if known.content_hash != record.content_hash:
            rule = f"stands twice in one batch with different contents (version {record.version!r})"
            raise RecordError(record.id, "id", record.id, rule)
    return list(seen.values())
