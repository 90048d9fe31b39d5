"""MetadataFilters through our tree: each operator, each condition, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from ctxarith import PredicateError, field
from llamaindex_ctxarith import CtxArithRetriever
from tests.fakes import WordEmbedder

SITES = [
    TextNode(id_="s1", text="river gauge", metadata={"site_no": "550017", "year": 2024, "tags": ["a", "b"]}),
    TextNode(id_="s2", text="river gauge", metadata={"site_no": "550482", "year": 2025, "tags": ["b"]}),
    TextNode(id_="s3", text="river gauge", metadata={"site_no": "99", "year": 2026, "wet": True, "tags": []}),
    TextNode(id_="s4", text="river gauge", metadata={}),
]


def one(key: str, operator: str, value: Any) -> MetadataFilter:
    return MetadataFilter(key=key, value=value, operator=FilterOperator(operator))


def group(condition: str, *parts: MetadataFilter | MetadataFilters) -> MetadataFilters:
    return MetadataFilters(filters=list(parts), condition=FilterCondition(condition))


def found(filters: Any) -> list[str]:
    retriever = CtxArithRetriever.from_nodes(SITES, embed_model=WordEmbedder(), filters=filters)  # type: ignore[arg-type]
    return sorted(node.node_id for node in retriever.retrieve("river gauge"))


TWO = ["550017", "550482"]


@pytest.mark.parametrize(
    "filters",
    [
        group("and", one("site_no", "in", TWO)),
        group("or", one("site_no", "==", TWO[0]), one("site_no", "==", TWO[1])),
        group("and", one("year", ">", 2000), group("or", *(one("site_no", "==", site) for site in TWO))),
        group("not", one("site_no", "==", "99"), one("year", "is_empty", None)),
    ],
    ids=["in", "or of two", "nested", "not"],
)
def test_one_question_in_four_forms_finds_the_same_two_sites(filters: MetadataFilters) -> None:
    """CH-21."""
    assert found(filters) == ["s1", "s2"]


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (one("year", "!=", 2024), ["s2", "s3"]),
        (one("year", ">", 2024), ["s2", "s3"]),
        (one("year", ">=", 2025), ["s2", "s3"]),
        (one("year", "<", 2025), ["s1"]),
        (one("year", "<=", 2024.0), ["s1"]),
        (one("site_no", "nin", ["99"]), ["s1", "s2"]),
        (one("site_no", "in", []), []),
        (one("tags", "contains", "a"), ["s1"]),
        (one("tags", "any", ["a", "b"]), ["s1", "s2"]),
        (one("tags", "all", ["a", "b"]), ["s1"]),
        (one("tags", "any", []), []),
        (one("tags", "is_empty", None), ["s3", "s4"]),
        (one("year", "==", "2024"), []),
        (one("wet", "==", 1), []),
    ],
    ids=str,
)
def test_a_missing_key_passes_no_comparison_and_nothing_is_coerced(
    filter_: MetadataFilter, expected: list[str]
) -> None:
    assert found(group("and", filter_)) == expected


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        (group("and", one("site_no", "text_match", "55")), "'site_no' text_match"),
        (group("or", one("site_no", "text_match_insensitive", "55")), "text_match_insensitive"),
        (group("and", one("site_no", "in", "550017")), "in"),
        (group("and", one("site_no", "==", None)), "site_no"),
        (group("and", one("tags", "all", [])), "'tags' all"),
        (group("and", one("tags", "any", "a")), "'tags' any"),
        (group("and"), "no condition"),
        (group("and", one("year", "==", 1), group("or")), "no condition"),
        (group("and", one("year", "==", float("nan"))), "year"),
        ("year == 1", "MetadataFilters"),
    ],
    ids=str,
)
def test_what_cannot_be_held_is_refused_by_name_at_construction(filters: Any, named: str) -> None:
    with pytest.raises(PredicateError, match=named):
        found(filters)


def test_a_boolean_which_llamaindex_cannot_write_is_a_predicate_of_ours() -> None:
    """#16310."""
    assert found(field("wet") == True) == ["s3"]  # noqa: E712
