"""Marks on what is served, and the check of what an answer cites of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from llama_index.core.schema import BaseNode, NodeWithScore

from ctxarith.algebra import Moment
from ctxarith.errors import ArgumentError
from ctxarith.evidence import Hit
from ctxarith.model import Record
from ctxarith.packet.citations import Citations, cited
from ctxarith.packet.manifest import Member
from llamaindex_ctxarith.chain import HitPostprocessor, Kept
from llamaindex_ctxarith.nodes import CITATION, EVIDENCE, ContextNode

# Of the hash of a record's key, and of its version with its text.
NAME, VERSION = 6, 4
_MARK = re.compile(rf"\[(E[0-9a-f]{{{NAME}}}@[0-9a-f]{{{VERSION}}})\]")


class EvidencePacket(HitPostprocessor):
    """Gives every node a mark to cite it by, such as `[E3fa9c2@1f0b]`, which the model reads.

    The mark names a record and what it says: the same evidence has the same mark in every turn, corrected
    evidence has another one behind the `@`. What is served is checked by
    `NodePacket.of(nodes).verify_citations(answer)`. Order, scores and texts stay as they are. Put it before
    `TokenBudget`, which then counts the marks.
    """

    def _step(self, hits: list[Hit], moment: Moment) -> Kept:
        return hits, []

    def _scored(self, one: NodeWithScore, hit: Hit) -> ContextNode:
        made = super()._scored(one, hit)
        made.score = None if one.score is None else float(one.score)
        cite(made.node, f"[{mark_of(hit.record)}]")
        return made


def mark_of(record: Record) -> str:
    """The mark of a record: `E`, a hash of tenant and id, `@`, a hash of version and text.

    >>> mark_of(Record(id="fees#0", text="The fee is 12 EUR.")).partition("@")[0]
    'E590c1f'
    """
    return f"E{_hash(record.tenant, record.id)[:NAME]}@{_hash(record.version, record.text)[:VERSION]}"


def cite(node: BaseNode, mark: str) -> None:
    """Write a mark into a node of our own making; it is shown to the model, and never embedded."""
    node.metadata = {CITATION: mark, **{k: v for k, v in node.metadata.items() if k != CITATION}}
    hidden = [key for key in node.excluded_embed_metadata_keys if key != CITATION]
    node.excluded_embed_metadata_keys = [*hidden, CITATION]


@dataclass(frozen=True, slots=True)
class NodePacket:
    """What was served for one answer, read from its nodes; a copy of them through JSON reads the same.

    Args:
        packet_id: a hash of the members; the same nodes have the same.
        members: the documents at their versions, by everything that names a node: its mark, the mark without
            its version, its id; and if no node has a mark, its place, as `CitationQueryEngine` and
            `VerifiedQueryEngine` count.
    """

    packet_id: str
    members: Mapping[str, Member]

    @classmethod
    def of(cls, nodes: Sequence[NodeWithScore], *, by_place: bool = True) -> Self:
        """The packet of `response.source_nodes`, or of the nodes that tools returned.

        Args:
            nodes: in the order in which the model read them.
            by_place: whether `[1]` is the first of them where none has a mark; no for nodes of several calls.
        """
        members: dict[str, Member] = {}
        marks = [_marked(one.node) for one in nodes]
        for place, (one, mark) in enumerate(zip(nodes, marks, strict=True), start=1):
            names = [mark, mark.partition("@")[0]] if mark else []
            if by_place and not any(marks):
                names.append(str(place))
            for name in (*names, one.node.node_id):
                members.setdefault(name, _member(one.node))
        shown = sorted((name, one.source_id, one.version) for name, one in members.items())
        return cls(_hash(repr(shown))[:24], members)

    def verify_citations(self, answer: str) -> Citations:
        """Whether every mark of an answer names a member at its version, and which sentences have none.

        Raises:
            ArgumentError: the answer is no text.
        """
        if not isinstance(answer, str):
            raise ArgumentError("answer", answer, "text")
        return cited(answer, self.members)

    def cited_sources(self, answer: str) -> tuple[str, ...]:
        """The documents that an answer cites, in the order of its marks, each once."""
        found = self.verify_citations(answer).supported.values()
        return tuple(dict.fromkeys(one.source_id for one in found))


def _marked(node: BaseNode) -> str:
    found = _MARK.fullmatch(str(node.metadata.get(CITATION, "")))
    return found[1] if found else ""


def _member(node: BaseNode) -> Member:
    told: Any = node.metadata.get(EVIDENCE)
    told = told if isinstance(told, Mapping) else {}
    source = told.get("source_id") or node.ref_doc_id or node.node_id
    return Member(str(source), str(told.get("version", "1")))


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()
