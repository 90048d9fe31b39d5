"""Nodes as records and hits as nodes: ids, metadata and relationships survive the way there and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import (
    BaseNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from ctxarith.errors import CtxArithError, RecordError
from ctxarith.evidence import SEMANTIC, Decision, Found, Hit
from ctxarith.index.retirement import CONFLICT, LOOP, RETIRED
from ctxarith.model import Record, Slot
from ctxarith.plain import jsonable, record_from
from ctxarith.stores.collection import Raw
from ctxarith.stores.foreign import Fields, Reading

# Where LlamaIndex's own stores keep what a node is beside its text: any of its tools can read it.
NODE_CONTENT, NODE_TYPE = "_node_content", "_node_type"
# What ingestion writes into a node's metadata. No prefix of the core's, so that an adopted row keeps it.
SLOTS, ENTITIES, TOKENS = "ctxarith_slots", "ctxarith_entity_count", "ctxarith_token_count"
# What a returned node bears: EVIDENCE for programs, NOTE and CITATION for the model that reads it.
EVIDENCE, NOTE, CITATION = "ctx_evidence", "ctx_note", "ctx_citation"
_TOLD = (EVIDENCE, NOTE, CITATION)

_DATED = "created_at"
# What of a row decides who may see it, or is shown.
_COMPARED = ("tenant", "scope", "audience", "jurisdiction", "source_type", "source_id", "metadata")
_INGESTED = (SLOTS, ENTITIES, TOKENS)
# Of a node that no corpus and no gate has judged.
UNJUDGED = Decision(True, "none", "none")


class ContextNode(NodeWithScore):
    """A scored node that remembers the hit it was made of; a copy through JSON is a plain `NodeWithScore`.

    The hit stands beside the metadata and not in it, since metadata may come from anybody.
    """

    _hit: Hit | None = PrivateAttr(default=None)

    @property
    def hit(self) -> Hit | None:
        """The record with all evidence for it, as long as the node is still that record's."""
        hit = self._hit
        return hit if hit is not None and hit.id == self.node.node_id else None


class NodeReader:
    """Reads nodes as records, by the rules by which a foreign Chroma row is read.

    `fields` maps our fields to metadata keys, such as `{"tenant": "customer", "created_at": "day"}`; a key
    called like a field of ours maps by itself (see `ctxarith.stores.adopted.Adopted`). A node without a
    tenant is the default tenant's, unless `fields` says where the tenant stands. Metadata that no record
    can hold (nested values, `None`) is kept with the node, and cannot be filtered by.

    Raises:
        ArgumentError: `fields` names something that cannot be mapped.
    """

    def __init__(self, fields: Fields | None = None) -> None:
        self._fields = fields
        self._reading = Reading.of(fields)
        self._tenant_is_open = fields is None or "tenant" not in fields

    def __reduce__(self) -> tuple[object, ...]:
        return NodeReader, (None if self._fields is None else dict(self._fields),)

    def record(self, node: BaseNode) -> Record:
        """The record of a node: its id, its text, the document as source.

        Raises:
            RecordError: names the node, the field and the value.
        """
        metadata = {k: v for k, v in node.metadata.items() if k not in (*_INGESTED, *_TOLD)}
        if node.ref_doc_id:
            metadata["ref_doc_id"] = node.ref_doc_id
        reading = self._reading
        if self._tenant_is_open and "tenant" not in metadata:
            reading = reading.without_tenant()
        text = node.get_content(metadata_mode=MetadataMode.NONE)
        record = reading.record(Raw(node.node_id, text, metadata, None))
        slots = (*record.slots, *written_slots(node.node_id, node.metadata))
        entities, tokens = node.metadata.get(ENTITIES), node.metadata.get(TOKENS)
        return replace(record, slots=slots, entity_count=entities, token_count=tokens)

    def kept(self, node: BaseNode) -> Record:
        """The same, with the node itself beside the text, so that it can be made again.

        Raises:
            RecordError: names the node, the field and the value.
        """
        record = self.record(node)
        bare = without_evidence(node)
        shape = node_to_metadata_dict(bare, remove_text=True)
        beside = {key: shape[key] for key in (NODE_CONTENT, NODE_TYPE)}
        return replace(record, metadata={**record.metadata, **beside})

    def same(self, record: Record, row: Raw) -> BaseNode | None:
        """The node that LlamaIndex wrote into a row, if the row still is what the record was read from.

        A row may have changed since, its tenant included; then it says nothing.
        """
        if row.text != record.text or NODE_CONTENT not in row.metadata:
            return None
        open_tenant = self._tenant_is_open and "tenant" not in row.metadata
        try:
            now = (self._reading.without_tenant() if open_tenant else self._reading).record(row)
            node = metadata_dict_to_node(dict(row.metadata), text=record.text)
        except (CtxArithError, ValueError):
            return None
        told = {key: "" if value is None else value for key, value in node.metadata.items()}
        whole = all(row.metadata.get(key) == value for key, value in told.items())
        kept = all(getattr(now, name) == getattr(record, name) for name in _COMPARED)
        return node if whole and kept and node.node_id == row.name else None


def written_slots(node_id: str, metadata: Mapping[str, Any]) -> tuple[Slot, ...]:
    """The slots that `SlotExtractor` wrote into a node's metadata.

    Raises:
        RecordError: something else wrote them.
    """
    given = metadata.get(SLOTS)
    if given is None or given == "":
        return ()
    try:
        return record_from({"id": node_id, "text": "", "slots": json.loads(given)}).slots
    except (TypeError, ValueError) as error:
        raise RecordError(node_id, SLOTS, given, f"not what SlotExtractor writes: {error}") from error


def without_evidence(node: BaseNode) -> BaseNode:
    """A copy without what an earlier retrieval said of the node, and without its vector."""
    hidden = {
        name: [key for key in getattr(node, name) if key not in _TOLD]
        for name in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
    }
    metadata = {key: value for key, value in node.metadata.items() if key not in _TOLD}
    return node.model_copy(update={"metadata": metadata, "embedding": None, **hidden})


def node_of(record: Record) -> BaseNode:
    """The node of a record: as it was given, or a text node with the record's metadata and date."""
    if NODE_CONTENT in record.metadata:
        return metadata_dict_to_node(dict(record.metadata), text=record.text)
    metadata: dict[str, Any] = {key: jsonable(value) for key, value in record.metadata.items()}
    if record.dated is not None:
        metadata = {_DATED: jsonable(record.dated), **metadata}
    return TextNode(
        id_=record.id,
        text=record.text,
        metadata=metadata,
        excluded_embed_metadata_keys=[_DATED],
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=record.source_id)},
    )


def context_node(node: BaseNode, hit: Hit, score: float | None) -> ContextNode:
    """A scored copy of a node that bears the evidence for it; the node itself is not changed."""
    note = note_of(hit)
    metadata = {key: value for key, value in node.metadata.items() if key != NOTE}
    metadata |= {EVIDENCE: evidence_of(hit)} | ({NOTE: note} if note else {})
    ours = [key for key in (EVIDENCE, *_INGESTED) if key in metadata]
    copy = node.model_copy(
        update={
            "metadata": metadata,
            "excluded_llm_metadata_keys": _also(node.excluded_llm_metadata_keys, ours),
            "excluded_embed_metadata_keys": _also(node.excluded_embed_metadata_keys, [*ours, NOTE]),
        }
    )
    made = ContextNode(node=copy, score=None if score is None else float(score))
    made._hit = hit
    return made


def evidence_of(hit: Hit) -> dict[str, Any]:
    """Who found a record, at which rank and score, and what else is known of it; JSON-ready."""
    said: dict[str, Any] = {
        "source_id": hit.record.source_id,
        "version": hit.record.version,
        "found_by": [
            {"source": one.source, "rank": one.rank, "score": one.score, "via": one.via}
            for one in hit.found_by
        ],
        "fused": hit.fused,
        "reranked": hit.reranked and {"rank": hit.reranked.rank, "score": hit.reranked.score},
        "relevance": hit.relevance,
        "replaces": list(hit.replaces),
        "superseded_by": list(hit.superseded_by),
        "flags": list(hit.flags),
        "notes": list(hit.notes),
    }
    if hit.decision != UNJUDGED:
        decision = hit.decision
        said["policy"] = {"version": decision.policy_version, "scope_version": decision.scope_version}
    return {key: value for key, value in said.items() if value is not None and value != []}


def note_of(hit: Hit) -> str:
    """What a reader must know of a passage before believing it; most often nothing."""
    notes = []
    if RETIRED in hit.flags:
        notes.append("superseded")
    elif hit.stale_slots:
        stale = dict.fromkeys(" ".join(slot.attribute.split()) for slot in hit.stale_slots)
        notes.append("out of date here: " + ", ".join(stale))
    if CONFLICT in hit.flags or LOOP in hit.flags:
        notes.append("conflicts with another record")
    return "; ".join(notes)


def hit_of(scored: NodeWithScore, rank: int, record: Record) -> Hit:
    """The hit of a node: what our retriever found, or what another one says by its rank and score.

    A foreign score is taken for a share of its scale where it lies in 0 to 1, and for none elsewhere.
    """
    if isinstance(scored, ContextNode) and scored.hit is not None:
        return scored.hit
    score = scored.score
    share = float(score) if score is not None and 0 <= score <= 1 else 0.0
    found = Found(SEMANTIC, rank, 0.0 if score is None else float(score), share)
    return Hit(record, UNJUDGED, (found,), score=found.score)


def _also(keys: Sequence[str], more: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*keys, *more]))
