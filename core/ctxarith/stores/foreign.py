"""Rows that others wrote into Chroma, read as records: which of their keys hold which fields of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ctxarith.errors import ArgumentError, RecordError
from ctxarith.ingest.slots import SUBJECT_KEY
from ctxarith.model import DEFAULT_TENANT, RESERVED, TIME_FIELDS, Record, Slot
from ctxarith.normalise import clean_metadata
from ctxarith.ports import Vector
from ctxarith.stores.collection import Raw

Source = str | Callable[[Mapping[str, Any]], Any]
Fields = Mapping[str, Any]

_WORDS = ("version", "tenant", "scope", "source_type", "jurisdiction", "audience", "supersedes")
_MAPPED = ("id", "source_id", *_WORDS, *TIME_FIELDS)
_OTHER = ("slots", "subject")

# What LlamaIndex adds to a node's metadata: the node once more, and its class.
_LLAMA_TYPE = "_node_type"
_LLAMA = ("_node_content", _LLAMA_TYPE)
# Where LlamaIndex names the document of a node, or says "None".
_DOCUMENT_KEYS = ("ref_doc_id", "doc_id", "document_id")

# Who may see a row: what Chroma gives must agree with what a record says.
_GUARDS = ("tenant", "scope", "audience")


@dataclass(frozen=True, slots=True)
class Reading:
    """How foreign rows are read.

    Args:
        sources: our field → their key, or a function from their metadata to the value.
        off: our fields that are not read, whatever their keys are called.
        slots: attribute → the key of its value.
        subject: the key that names the subject of the slots.
    """

    sources: Mapping[str, Source]
    off: frozenset[str]
    slots: Mapping[str, str]
    subject: str

    @classmethod
    def of(cls, fields: Fields | None) -> Reading:
        """Check what the caller maps.

        Raises:
            ArgumentError: names the field.
        """
        given = {} if fields is None else fields
        if not isinstance(given, Mapping):
            raise ArgumentError("fields", fields, "a mapping from fields of Record to metadata keys")
        for name, source in given.items():
            if name not in (*_MAPPED, *_OTHER):
                known = ", ".join((*_MAPPED, *_OTHER))
                raise ArgumentError("fields", name, f"not a field that can be mapped; these can: {known}")
            if name != "slots" and not _is_source(name, source):
                raise ArgumentError(f"fields[{name!r}]", source, "the name of a metadata key, or None")
        named = {name: source for name, source in given.items() if name in _MAPPED and source is not None}
        # An id of theirs is a row of theirs; a key that is called `id` often names the whole document.
        same = {name: name for name in _MAPPED if name != "id" and name not in given}
        return cls(
            sources=MappingProxyType({**same, **named}),
            off=frozenset(name for name, source in given.items() if source is None),
            slots=MappingProxyType(_slot_keys(given.get("slots"))),
            subject=given.get("subject") or SUBJECT_KEY,
        )

    def check_writable(self) -> None:
        """Refuse fields that a row of ours could not carry in their keys too.

        Raises:
            ArgumentError: a function says who may see a row.
        """
        for name in _GUARDS:
            if not isinstance(self.sources.get(name, ""), str):
                rule = "in an owned collection the name of a metadata key, since what we write must carry it"
                raise ArgumentError(f"fields[{name!r}]", self.sources[name], rule)

    def without_tenant(self) -> Reading:
        """The same for a collection in which no row names a tenant."""
        sources = {name: source for name, source in self.sources.items() if name != "tenant"}
        return replace(self, sources=MappingProxyType(sources))

    def record(self, raw: Raw) -> Record:
        """A row as a record; times without an offset are left to the preparation.

        Raises:
            RecordError: the row cannot be read as what its keys are mapped to; says why.
        """
        if raw.text is None:
            raise RecordError(raw.name, "text", None, "the row has no document")
        given = self._given(raw)
        rid = given.pop("id", raw.name)
        metadata, _ = self.kept_metadata(raw)
        return Record(id=rid, text=raw.text, **given, slots=self._slots(raw), metadata=metadata)

    def guards(self, record: Record) -> dict[str, Any]:
        """Their keys that say who may see a row, as a row of ours must carry them too."""
        said = {key: getattr(record, name) for name, key in self._guard_keys().items()}
        flat = {key: list(value) if isinstance(value, tuple) else value for key, value in said.items()}
        return {key: value for key, value in flat.items() if value != [] and key not in record.metadata}

    def disagreement(self, raw: Raw, record: Record) -> str | None:
        """Where a row of ours and the keys of theirs that it carries differ on who may see it."""
        keys = self._guard_keys()
        if not keys:
            return None
        try:
            given = replace(self, sources=keys)._given(raw)
            read = Record(record.id, "", **{name: given[name] for name in keys if name in given})
        except RecordError as error:
            return str(error)
        for name, key in keys.items():
            if getattr(read, name) != getattr(record, name):
                return f"its metadata key {key!r} names another {name} than the record itself"
        return None

    def _guard_keys(self) -> dict[str, str]:
        found = {name: self.sources.get(name) for name in _GUARDS}
        return {name: key for name, key in found.items() if isinstance(key, str) and key not in RESERVED}

    def kept_metadata(self, raw: Raw) -> tuple[dict[str, Any], list[str]]:
        """Their metadata as far as a record can hold it, and the keys that are read nowhere."""
        known = {*self.sources.values(), *self.off, *_LLAMA}
        apart = [key for key in raw.metadata if key in RESERVED or key in _LLAMA]
        refused = [key for key in apart if key not in known]
        plain = {key: value for key, value in raw.metadata.items() if key not in apart}
        try:
            return clean_metadata(raw.name, plain, RESERVED), refused
        except RecordError:
            kept: dict[str, Any] = {}
        for key, value in plain.items():
            try:
                kept |= clean_metadata(raw.name, {key: value}, RESERVED)
            except RecordError:
                refused.append(key)
        return kept, refused

    def _given(self, raw: Raw) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, source in self.sources.items():
            value = self._value(raw, name, source)
            if name == "tenant" and (not isinstance(value, str) or not value.strip()):
                raise RecordError(raw.name, name, value, "the row names no tenant, so nobody may see it")
            if value is not None:
                given[name] = value
        if "source_id" not in given and "source_id" not in self.off:
            given["source_id"] = _document(raw.metadata)
        document = given.get("source_id")
        if isinstance(document, int) and not isinstance(document, bool):
            given["source_id"] = str(document)
        given.setdefault("tenant", DEFAULT_TENANT)
        return given

    def _value(self, raw: Raw, name: str, source: Source) -> Any:
        if isinstance(source, str):
            value = raw.metadata.get(source)
        else:
            try:
                value = source(MappingProxyType(dict(raw.metadata)))
            except Exception as error:
                rule = f"the function for this field failed: {type(error).__name__}: {error}"
                raise RecordError(raw.name, name, dict(raw.metadata), rule) from error
        # LlamaIndex writes None as "" into Chroma. Who may see a row is not guessed from that.
        return None if value == "" and _LLAMA_TYPE in raw.metadata and name not in _GUARDS else value

    def _slots(self, raw: Raw) -> tuple[Slot, ...]:
        subject = raw.metadata.get(self.subject)
        if subject is None or subject == "" or not self.slots:
            return ()
        if isinstance(subject, list | tuple):
            raise RecordError(raw.name, "slots.subject", subject, "slots have one subject, not a list")
        empty = (None, "") if _LLAMA_TYPE in raw.metadata else (None,)
        found = ((attribute, raw.metadata.get(key)) for attribute, key in self.slots.items())
        return tuple(Slot(str(subject), attribute, value) for attribute, value in found if value not in empty)


def names_a_tenant(rows: Iterator[Raw]) -> bool:
    """Whether any row has a key of that name."""
    return any("tenant" in raw.metadata for raw in rows)


def unit_vector(name: str, vector: Vector) -> Vector:
    """A vector of any space, for the cosine; one of zeros (a blank text) stays.

    Raises:
        RecordError: it holds numbers that are not finite.
    """
    if not np.isfinite(vector).all():
        raise RecordError(name, "embedding", None, "the vector holds numbers that are not finite")
    exact = vector.astype(np.float64)
    length = float(np.linalg.norm(exact))
    return vector if length == 0 else (exact / length).astype(np.float32)


def _is_source(name: str, source: object) -> bool:
    if source is None or (isinstance(source, str) and source != ""):
        return True
    # Rows are found again by the key of their id, and slots by the key of their subject.
    return callable(source) and name not in ("id", "subject")


def _slot_keys(given: object) -> dict[str, str]:
    if given is None:
        return {}
    keys = dict(given) if isinstance(given, Mapping) else given
    if isinstance(keys, list | tuple):
        keys = dict(zip(keys, keys, strict=True)) if all(isinstance(key, str) for key in keys) else None
    if not isinstance(keys, dict) or not all(
        isinstance(one, str) and one for kv in keys.items() for one in kv
    ):
        raise ArgumentError(
            "fields['slots']", given, "a list of metadata keys, or a mapping from attributes to keys"
        )
    return keys


def _document(metadata: Mapping[str, Any]) -> str:
    found = (metadata.get(key) for key in _DOCUMENT_KEYS)
    return next((one for one in found if isinstance(one, str) and one not in ("", "None")), "")
