"""Transformations for an `IngestionPipeline`: slots, entities and tokens, written into the nodes at ingest.

Put them after the splitter and before the embedding model. What they write is neither embedded nor shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.bridge.pydantic import ConfigDict, PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode, TransformComponent

from ctxarith.ingest.entities import count_entities
from ctxarith.ingest.slots import SUBJECT_KEY, RuleSlots
from ctxarith.ingest.slots import SlotExtractor as Extractor
from ctxarith.model import Record, Slot
from ctxarith.models.slots import LLMSlots
from ctxarith.plain import jsonable, record_as_dict
from llamaindex_ctxarith.budget import host_tokens
from llamaindex_ctxarith.nodes import ENTITIES, SLOTS, TOKENS, written_slots


class _Writing(TransformComponent):
    """Writes one metadata key into copies of nodes."""

    model_config = ConfigDict(extra="forbid")

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Copies of the nodes with the key; the given ones are untouched."""
        return [self._with(node, *self._written(node)) for node in nodes]

    def _written(self, node: BaseNode) -> tuple[str, Any]:
        raise NotImplementedError

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex stores it."""
        return cls.__name__

    @staticmethod
    def _with(node: BaseNode, key: str, value: Any) -> BaseNode:
        metadata = {name: old for name, old in node.metadata.items() if name != key}
        if value is not None:
            metadata[key] = value
        hidden = {
            name: list(dict.fromkeys([*getattr(node, name), key]))
            for name in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
        }
        return node.model_copy(update={"metadata": metadata, **hidden})


class SlotExtractor(_Writing):
    r"""Writes what a text asserts, by rule, as JSON under `ctxarith_slots`.

    Args:
        rules: attribute → pattern with a group `value`; see `ctxarith.RuleSlots`.
        subject: the metadata key that names the subject; a node without it gets no slots.

    Raises:
        ArgumentError: a pattern that cannot be compiled or has no group `value`.

    >>> from llama_index.core.schema import TextNode
    >>> extract = SlotExtractor(rules={"fee": r"fee is (?P<value>\d+)"}, subject="school")
    >>> extract([TextNode(text="The fee is 12", metadata={"school": "s1"})])[0].metadata["ctxarith_slots"]
    '[{"subject": "s1", "attribute": "fee", "value": "12"}]'
    """

    rules: dict[str, str]
    subject: str = SUBJECT_KEY
    _extract: RuleSlots = PrivateAttr()

    # Here and not in pydantic's own hooks, which would wrap our errors into theirs.
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._extract = RuleSlots(self.rules, subject=self.subject)

    def _written(self, node: BaseNode) -> tuple[str, Any]:
        subject = node.metadata.get(self.subject)
        known = {} if subject is None else {self.subject: subject}
        record = Record(node.node_id, node.get_content(metadata_mode=MetadataMode.NONE), metadata=known)
        found = replace(record, slots=self._extract(record))
        slots = record_as_dict(found).get("slots")
        return SLOTS, None if slots is None else json.dumps(jsonable(slots), ensure_ascii=False)


class EntityCounter(_Writing):
    """Writes how many numbers, dates, amounts, codes and names a text holds under `ctxarith_entity_count`."""

    def _written(self, node: BaseNode) -> tuple[str, Any]:
        return ENTITIES, count_entities(node.get_content(metadata_mode=MetadataMode.NONE))


class TokenCounter(_Writing):
    """Writes how many tokens a text has, by LlamaIndex's tokenizer, under `ctxarith_token_count`."""

    def _written(self, node: BaseNode) -> tuple[str, Any]:
        return TOKENS, host_tokens(node.get_content(metadata_mode=MetadataMode.NONE))


class WrittenSlots:
    """For the core: the slots that `SlotExtractor` wrote into an adopted row, else another extractor's."""

    def __init__(self, otherwise: Extractor | None = None, subject_key: str | None = None) -> None:
        if isinstance(otherwise, RuleSlots | LLMSlots):
            otherwise = otherwise.about(subject_key or SUBJECT_KEY)
        self._otherwise: Callable[[Record], Sequence[Slot]] | None = otherwise

    def __call__(self, record: Record, /) -> tuple[Slot, ...]:
        """The slots of a record.

        Raises:
            RecordError: the key holds something else.
        """
        written = written_slots(record.id, record.metadata)
        if written or self._otherwise is None:
            return written
        return tuple(self._otherwise(record))
