"""What the postprocessors share: nodes become hits of the core, and hits become copies of the nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from ctxarith.algebra import Moment
from ctxarith.evidence import Drop, Hit
from ctxarith.ingest.prepare import Preparation
from ctxarith.instant import zone
from ctxarith.model import Record
from llamaindex_ctxarith.budget import host_tokens
from llamaindex_ctxarith.caller import question_of
from llamaindex_ctxarith.nodes import ContextNode, NodeReader, context_node, hit_of

log = logging.getLogger(__name__)

Kept = tuple[list[Hit], list[Drop]]


class HitPostprocessor(BaseNodePostprocessor):
    """A step over hits. It changes no node that it was given, and one instance serves any number of threads.

    Nodes of our retriever bring their record; those of others are read by `fields` (see `NodeReader`). A
    node id that stands twice counts once, at its first place. `split` also says what was left out.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    fields: Mapping[str, Any] | None = Field(default=None, exclude=True)
    naive_zone: str | None = None
    clock: Callable[[], datetime] | None = Field(default=None, exclude=True)
    _reader: NodeReader = PrivateAttr()
    _prepare: Callable[[Record], Record] = PrivateAttr()

    # Here and not in pydantic's own hooks, which would wrap our errors into theirs.
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._reader = NodeReader(self.fields)
        self._prepare = Preparation(count_tokens=host_tokens, zone=zone(self.naive_zone)).prepare

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex stores it."""
        return cls.__name__

    def split(
        self, nodes: Sequence[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> tuple[list[NodeWithScore], list[Drop]]:
        """The nodes that stay, as copies in their new order, and the others with their reasons.

        Raises:
            RecordError: a node that cannot be read by `fields`; `PolicyGate` leaves it out instead.
        """
        given: dict[str, NodeWithScore] = {}
        hits: list[Hit] = []
        for one in nodes:
            if one.node.node_id in given:
                continue
            record = self._read(one)
            if record is not None:
                given[record.id] = one
                hits.append(hit_of(one, len(hits) + 1, record))
        kept, dropped = self._step(hits, self._moment(given, question_of(query_bundle)))
        return [self._scored(given[hit.id], hit) for hit in kept], dropped

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        kept, dropped = self.split(nodes, query_bundle)
        for drop in dropped:
            log.debug("%s left out %s: %s", self.class_name(), drop.id, drop.reason)
        return kept

    def _step(self, hits: list[Hit], moment: Moment) -> Kept:
        raise NotImplementedError

    def _read(self, one: NodeWithScore) -> Record | None:
        if isinstance(one, ContextNode) and one.hit is not None:
            return one.hit.record
        return self._prepare(replace(self._reader.record(one.node), id=one.node.node_id))

    def _scored(self, one: NodeWithScore, hit: Hit) -> ContextNode:
        return context_node(one.node, hit, hit.score)

    def _moment(self, given: Mapping[str, NodeWithScore], query: str) -> Moment:
        def passage(hit: Hit) -> str:
            # What LlamaIndex's own rerankers read.
            return given[hit.id].node.get_content(metadata_mode=MetadataMode.EMBED)

        now = datetime.now(UTC) if self.clock is None else self.clock()
        return Moment(now, host_tokens, _no_vectors, passage, query)


def _no_vectors(one: Hit, other: Hit) -> float:
    return 0.0
