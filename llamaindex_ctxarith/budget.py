"""A token budget over what the model will read: each node's text with its visible metadata, joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llama_index.core.schema import MetadataMode, NodeWithScore
from llama_index.core.utils import get_tokenizer

from ctxarith.evidence import Drop
from ctxarith.ports import TokenCounter, counted
from ctxarith.stages.layout import cut_sentences
from llamaindex_ctxarith.nodes import ContextNode, NodeReader, context_node, hit_of

# How LlamaIndex's synthesizers and tools join nodes.
SEPARATOR = "\n\n"


def host_tokens(text: str) -> int:
    """Tokens by LlamaIndex's own tokenizer (`Settings.tokenizer`), as its engines count them."""
    return len(get_tokenizer()(text))


def text_of(nodes: Sequence[NodeWithScore]) -> str:
    """What a synthesizer puts into its prompt for these nodes."""
    return SEPARATOR.join(one.node.get_content(metadata_mode=MetadataMode.LLM) for one in nodes)


def within(
    nodes: Sequence[NodeWithScore], tokens: int, count: TokenCounter, *, reader: NodeReader
) -> tuple[list[NodeWithScore], list[Drop]]:
    """The nodes that fit, in their order; what does not fit is skipped and named.

    The joined text is counted whole, so that it never exceeds the budget. If nothing fits, the first
    node is cut at the end of a sentence, and marked.
    """
    if counted(count, text_of(nodes)) <= tokens:
        return list(nodes), []
    kept: list[NodeWithScore] = []
    dropped: list[Drop] = []
    spent = 0
    for rank, one in enumerate(nodes, start=1):
        whole = counted(count, text_of([*kept, one]))
        if whole <= tokens:
            kept.append(one)
            spent = whole
            continue
        needed = counted(count, text_of([one]))
        reason = f"over_budget: {needed} tokens, and {tokens - spent} of {tokens} are left"
        dropped.append(Drop(hit_of(one, rank, reader.record(one.node)).record, "budget", reason))
    if kept or not nodes:
        return kept, dropped
    excerpt = _cut(nodes[0], tokens, count, reader)
    return ([], dropped) if excerpt is None else ([excerpt], dropped[1:])


def _cut(one: NodeWithScore, tokens: int, count: TokenCounter, reader: NodeReader) -> ContextNode | None:
    hit = hit_of(one, 1, reader.record(one.node))
    text = one.node.get_content(metadata_mode=MetadataMode.NONE)

    def shortened(excerpt: str) -> ContextNode:
        copy = one.node.model_copy(deep=True)
        copy.set_content(excerpt)
        told = replace(hit, excerpt=excerpt, notes=(*hit.notes, "cut to fit"))
        return context_node(copy, told, one.score)

    excerpt = cut_sentences(text, lambda cut: counted(count, text_of([shortened(cut)])) <= tokens)
    return None if excerpt is None else shortened(excerpt)
