"""LangChain's `Document` to our `Record` and back; metadata stays flat, and nothing is lost on the way in."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document

from ctxarith.errors import RecordError
from ctxarith.evidence import LEXICAL, SEMANTIC, Hit
from ctxarith.instant import iso
from ctxarith.model import DEFAULT_TENANT, RESERVED, ROOT, TIME_FIELDS, Record
from ctxarith.normalise import clean_metadata
from ctxarith.plain import jsonable
from ctxarith.run import Result
from ctxarith.stores.collection import Raw
from ctxarith.stores.foreign import Reading

Fields = Mapping[str, Any]

# Before a metadata key that a record cannot hold under its own name, such as `id`.
APART = "lc:"
# Of texts without an id: the same text with the same metadata is one document.
_NAMES = uuid.UUID("5e0e9a4c-6f0b-4c53-9d3b-8f1f6f2f7a11")
_LONGEST_SOURCE = 512
_SCORES = ("score", "relevance_score")
_OURS = (
    *("ctx_score", "ctx_relevance", "ctx_rank", "ctx_citation", "ctx_id", "ctx_source_id", "ctx_version"),
    *(
        "ctx_date",
        "ctx_stage",
        "ctx_semantic_rank",
        "ctx_semantic_score",
        "ctx_lexical_rank",
        "ctx_lexical_score",
    ),
    "ctx_superseded_by",
)
# What a record has without being told; not given back as metadata.
_UNTOLD: dict[str, Any] = {
    "tenant": DEFAULT_TENANT,
    "scope": ROOT,
    "version": "1",
    "source_type": None,
    "jurisdiction": None,
    "audience": (),
    "supersedes": (),
    **dict.fromkeys(TIME_FIELDS),
}


def mapped(fields: Fields | None) -> dict[str, Any]:
    """The mapping from our fields to metadata keys, with LangChain's habit for the source.

    Loaders name the document of a chunk in `source`; it is the `source_id` unless mapped otherwise.
    """
    return {"source_id": _source, **(fields or {})}


def as_records(
    documents: Iterable[Document], *, fields: Fields | None = None, tenant: str | None = None
) -> list[Record]:
    """Documents as records, by the rules of `Corpus.adopt` for the keys of others.

    A key that is called like a field of `Record` is that field, unless `fields` maps another. A key that
    a record cannot hold under its name (`id`, `text`) is kept as `lc:id`; filters name it so too. A document
    without an id gets one made of its text and metadata. `None` and empty lists count as missing.

    Args:
        documents: what to translate.
        fields: see `Corpus.adopt`.
        tenant: whose documents these are where they do not say; one that says otherwise is refused.

    Raises:
        RecordError: names the document, the key and the value.
        ArgumentError: `fields` maps what cannot be mapped.
    """
    given = list(documents)
    for document in given:
        if not isinstance(document, Document):
            raise RecordError(None, "document", document, "expected a Document of langchain_core")
    named = Reading.of(mapped(fields))
    # Without a tenant here, one document that names its own obliges all of them: nobody's is guessed.
    obliged = "tenant" in (fields or {}) or (
        tenant is None and any("tenant" in one.metadata for one in given)
    )
    silent = named if obliged else named.without_tenant()
    readings = [named if "tenant" in one.metadata else silent for one in given]
    return [
        _owned(_record(one, reading), reading, tenant) for one, reading in zip(given, readings, strict=True)
    ]


def as_document(record: Record, *, fields: Fields | None = None) -> Document:
    """A record as the document that it was added as; times are ISO 8601 in UTC."""
    reading = Reading.of(mapped(fields))
    return Document(id=record.id, page_content=record.text, metadata=_metadata(record, reading))


def as_documents(
    result: Result, *, fields: Fields | None = None, passages: bool = False, evidence: bool = True
) -> list[Document]:
    """The hits of an answer as documents, best first; each has the same keys beside its own.

    `score` and `relevance_score` as other integrations write them (the document's own keys of that name
    stay), and flat `ctx_` keys: rank, mark of the citation, id, source, version, date, the stage that
    answered, rank and score of each search.

    Args:
        result: the answer.
        fields: as given when the records were added.
        passages: texts as they stand in the context, with date and labels. A text that is out of date in
            part, or had to be cut, always stands there so.
        evidence: whether the keys above are there.
    """
    reading = Reading.of(mapped(fields))
    documents = []
    for place, hit in enumerate(result.hits):
        labelled = passages or hit.stale_slots or hit.superseded_by or hit.excerpt is not None
        text = result.passages[place] if labelled else hit.record.text
        metadata = _metadata(hit.record, reading)
        if evidence:
            told = _evidence(place + 1, hit, result.trace.stage)
            scores = dict(zip(_SCORES, (told["ctx_score"], told["ctx_relevance"]), strict=True))
            metadata = {**scores, **metadata, **told}
        documents.append(Document(id=hit.id, page_content=text, metadata=metadata))
    return documents


def _source(metadata: Mapping[str, Any]) -> str | None:
    """The document of a chunk; a key that no source can be called by names none."""
    for key in ("source_id", "source"):
        value = metadata.get(key)
        if isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= _LONGEST_SOURCE:
            return value
    return None


def _record(document: Document, reading: Reading) -> Record:
    name = document.id or _name(document)
    metadata = _storable(name, document.metadata, reading)
    return reading.record(Raw(name, document.page_content, metadata, None))


def _owned(record: Record, reading: Reading, tenant: str | None) -> Record:
    if tenant is None or record.tenant == tenant:
        return record
    if "tenant" not in reading.sources:
        return replace(record, tenant=tenant)
    raise RecordError(record.id, "tenant", record.tenant, f"documents are added here for {tenant!r} only")


def _name(document: Document) -> str:
    told = json.dumps([document.page_content, document.metadata], sort_keys=True, default=str)
    return str(uuid.uuid5(_NAMES, told))


def _storable(name: str, metadata: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """Metadata under keys that a record holds, without what `as_documents` told."""
    read = {*reading.sources.values(), "source_id"}
    kept: dict[str, Any] = {}
    for key, value in metadata.items():
        if key in _OURS or (key in _SCORES and value == metadata.get(_OURS[_SCORES.index(key)])):
            continue
        apart = (key in RESERVED and key not in read) or key.startswith(APART)
        kept[APART + key if apart else key] = value
    # Reading a foreign row leaves out what cannot be held; a writer must hear of it.
    clean_metadata(name, {key: value for key, value in kept.items() if key not in RESERVED}, RESERVED)
    return kept


def _metadata(record: Record, reading: Reading) -> dict[str, Any]:
    own = {key.removeprefix(APART): jsonable(value) for key, value in record.metadata.items()}
    told = {
        name: jsonable(value)
        for name, untold in _UNTOLD.items()
        if reading.sources.get(name) == name and (value := getattr(record, name)) != untold
    }
    if callable(reading.sources.get("source_id")) and record.source_id not in (record.id, _source(own)):
        told["source_id"] = record.source_id
    return {**told, **own}


def _evidence(rank: int, hit: Hit, stage: str) -> dict[str, Any]:
    semantic, lexical = hit.found(SEMANTIC), hit.found(LEXICAL)
    dated = hit.record.dated
    values = (
        float(hit.score),
        float(hit.score if hit.relevance is None else hit.relevance),
        rank,
        f"[{rank}]",
        hit.id,
        hit.record.source_id,
        hit.record.version,
        "" if dated is None else iso(dated),
        stage,
        semantic.rank if semantic else 0,
        float(semantic.score) if semantic else 0.0,
        lexical.rank if lexical else 0,
        float(lexical.score) if lexical else 0.0,
        ", ".join(hit.superseded_by),
    )
    return dict(zip(_OURS, values, strict=True))
