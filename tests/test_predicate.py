from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import Corpus, PredicateError, Record, everyone, field, scope
from ctxarith.predicate import EVERY, NOTHING, And, Or, Predicate, conjuncts
from tests.conftest import NOW
from tests.fakes import WordEmbedder, matching
from tests.strategies import FAR_DATES, METADATA_KEYS, VERSIONS, lists, predicates, records, scalars


def of(**metadata: Any) -> Record:
    return Record(id="r", text="", metadata=metadata)


def holds(condition: Predicate, values: Sequence[object], key: str = "x") -> list[object]:
    """The values under the key that pass, in both ways of evaluating; None stands for a missing key."""
    made = [of(**{key: value}) for value in values]
    passed = [condition.matches(record) for record in made]
    assert matching(made, condition) == passed
    return [value for value, is_in in zip(values, passed, strict=True) if is_in]


# What each comparison means


def test_comparisons_of_numbers() -> None:
    values = [1, 2, 2.0, 2.5, 3]
    x = field("x")
    assert holds(x == 2, values) == [2, 2.0]
    assert holds(x != 2, values) == [1, 2.5, 3]
    assert holds(x < 2, values) == [1]
    assert holds(x <= 2, values) == [1, 2, 2.0]
    assert holds(x > 2, values) == [2.5, 3]
    assert holds(x >= 2, values) == [2, 2.0, 2.5, 3]


def test_text_is_compared_by_code_point() -> None:
    values = ["", "B", "a", "ab", "é", "日本"]
    assert holds(field("x") > "a", values) == ["ab", "é", "日本"]
    assert holds(field("x") <= "a", values) == ["", "B", "a"]


def test_times_are_compared_as_moments() -> None:
    early, late = datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
    assert holds(field("x") >= date(2026, 2, 1), [early, late, "2026-03-01", 1_780_000_000]) == [late]


def test_containment_is_of_one_element_and_never_of_a_part() -> None:  # CH-08
    values = [["hr", "policy"], ["hr policy"], ["HR"], "hr", None]
    assert holds(field("x").contains("hr"), values) == [["hr", "policy"]]


def test_lists_of_different_kinds_never_stand_for_each_other() -> None:
    values = [[True], [1], [1.0], ["1"], [1, 0]]
    assert holds(field("x").contains(1), values) == [[1], [1.0], [1, 0]]
    assert holds(field("x").contains(1), values[::-1]) == [[1, 0], [1.0], [1]]
    assert holds(field("x").contains(value=True), values) == [[True]]


def test_a_list_is_equal_to_no_scalar() -> None:
    assert holds(field("x") == "hr", [["hr"], "hr"]) == ["hr"]
    assert holds(field("x") != "hr", [["hr"], "hr"]) == [["hr"]]
    assert holds(field("x").is_in(["hr"]), [["hr"], "hr"]) == ["hr"]


def test_membership() -> None:
    values = ["gu", "hi", "en", 1, True, None]
    assert holds(field("x").is_in(["gu", 1]), values) == ["gu", 1]
    assert holds(field("x").not_in(["gu", 1]), values) == ["hi", "en", True]
    assert holds(field("x").is_in({"hi"}), values) == ["hi"]
    assert holds(field("x").is_in(word for word in ("en",)), values) == ["en"]


def test_an_empty_membership_matches_nothing_and_never_all() -> None:
    values = ["a", 1, None]
    assert holds(field("x").is_in([]), values) == []
    assert holds(~field("x").is_in([]), values) == ["a", 1, None]
    assert holds(field("x").not_in([]), values) == ["a", 1]


def test_existence() -> None:
    assert holds(field("x").exists(), ["", 0, False, ["a"], [], None]) == ["", 0, False, ["a"]]


# No coercion


MIXED = [True, 1, 1.0, "1", 3, 3.0, "3", "true"]


@pytest.mark.parametrize(
    ("operand", "found"),
    [(True, [True]), (1, [1, 1.0]), ("1", ["1"]), (3, [3, 3.0]), (3.0, [3, 3.0]), ("3", ["3"])],
)
def test_types_are_never_mixed_up(operand: object, found: list[object]) -> None:  # CH-06
    assert list(map(repr, holds(field("x") == operand, MIXED))) == list(map(repr, found))
    assert list(map(repr, holds(field("x").is_in([operand]), MIXED))) == list(map(repr, found))


def test_values_of_another_type_are_different_but_in_no_order() -> None:
    assert holds(field("x") != "1", [1, "1", True, None]) == [1, True]
    assert holds(field("x") > 0, ["1", True, NOW, 2]) == [2]
    assert holds(field("x") < "z", [1, "a", NOW]) == ["a"]


def test_a_text_is_no_time_and_a_number_is_no_time() -> None:
    assert holds(field("x") == "2026-06-15T12:00:00Z", [NOW, "2026-06-15T12:00:00Z"]) == [
        "2026-06-15T12:00:00Z"
    ]
    assert holds(field("x") == NOW, [NOW, NOW.timestamp(), NOW.isoformat()]) == [NOW]


def test_whole_numbers_that_no_double_holds_are_told_apart() -> None:
    values = [2**53, 2**53 + 1, 2.0**53, 2**63 - 1, 2.0**63]
    assert holds(field("x") == 2**53 + 1, values) == [2**53 + 1]
    assert holds(field("x") > 2.0**53, values) == [2**53 + 1, 2**63 - 1, 2.0**63]
    assert holds(field("x") < 2**63, values) == [2**53, 2**53 + 1, 2.0**53, 2**63 - 1]
    assert holds(field("x") < 10**400, values) == values


def test_two_spellings_of_a_word_are_two_values() -> None:
    assert holds(field("x") == "é", ["é", "e\u0301"]) == ["é"]


def test_zero_has_no_sign() -> None:
    assert holds(field("x") == 0, [0, 0.0, -0.0, False]) == [0, 0.0, -0.0]


# Missing keys


@pytest.mark.parametrize(
    "condition",
    [
        field("x") == 1,
        field("x") != 1,
        field("x") < 1,
        field("x") >= 1,
        field("x").contains(1),
        field("x").is_in([1]),
        field("x").not_in([1]),
        field("x").exists(),
        field("created_at") != NOW,
        field("valid_until") > NOW,
        field("jurisdiction") != "IN",
        field("audience").contains("ops"),
    ],
    ids=str,
)
def test_a_missing_key_fails_every_comparison_and_passes_only_its_complement(condition: Predicate) -> None:
    untagged = Record(id="r", text="")
    assert not condition.matches(untagged)
    assert (~condition).matches(untagged)
    assert matching([untagged], condition) == [False]


def test_not_equal_leaves_out_the_untagged(corpus: Corpus) -> None:  # CH-09
    corpus.add(
        [
            {"id": "p1", "text": "pump", "metadata": {"status": "draft"}},
            {"id": "p2", "text": "pump", "metadata": {"status": "final"}},
            {"id": "p3", "text": "pump"},
        ]
    )
    status = field("status")

    def found(condition: Predicate) -> list[str]:
        return sorted(hit.id for hit in corpus.retrieve("pump", where=condition).hits)

    assert found(status != "draft") == found(status.not_in(["draft"])) == ["p2"]
    assert found(~(status == "draft")) == ["p2", "p3"]


# Fields of the record itself


def test_the_fields_of_a_record_are_compared_like_metadata() -> None:
    one = Record(
        id="r1",
        text="",
        version="2",
        tenant="acme",
        scope="acme/ops",
        created_at="2026-03-01",
        audience=("ops",),
        supersedes=("r0",),
        source_type="contract",
    )
    for condition in (
        field("id") == "r1",
        field("source_id") == "r1",
        field("version") == "2",
        field("tenant") == "acme",
        field("scope") == "acme/ops",
        field("created_at") == "2026-03-01",
        field("created_at") < datetime(2026, 3, 1, 0, 0, 1, tzinfo=UTC),
        field("created_at").is_in(["2026-03-01T09:00+09:00"]),
        field("audience").contains("ops"),
        field("supersedes").contains("r0"),
        field("source_type").exists(),
        ~field("jurisdiction").exists(),
    ):
        assert condition.matches(one), str(condition)


def test_the_root_scope_is_a_value_and_not_a_missing_one() -> None:
    assert (field("scope") == "").matches(Record(id="r", text=""))


def test_time_fields_are_compared_with_times_in_every_form(corpus: Corpus) -> None:  # CH-05
    corpus.add(
        [
            {"id": "e1", "text": "pump", "created_at": "2026-03-01T00:00:00Z"},
            {"id": "e2", "text": "pump", "created_at": "2026-01-31T23:59:59Z"},
            {"id": "e3", "text": "pump", "created_at": "2025-12-31"},
        ]
    )
    for bound in (
        date(2026, 2, 1),
        datetime(2026, 2, 1, tzinfo=UTC),
        "2026-02-01",
        "2026-02-01T09:00:00+09:00",
        1_769_904_000,
    ):
        result = corpus.retrieve("pump", where=field("created_at") >= bound)
        assert [hit.id for hit in result.hits] == ["e1"]
        assert [found.source for found in result.hits[0].found_by] == ["semantic", "lexical"]


# What cannot be compared


@pytest.mark.parametrize(
    "operand",
    [
        None,
        float("nan"),
        float("inf"),
        [1],
        (1,),
        {"a": 1},
        {1},
        b"a",
        object(),
        field("y"),
        np.array([1, 2]),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_an_operand_without_a_meaning_is_refused_by_key_and_operator(operand: object) -> None:
    with pytest.raises(PredicateError, match=r"'year' ="):
        field("year") == operand  # noqa: B015
    with pytest.raises(PredicateError, match=r"'year' >="):
        field("year") >= operand  # noqa: B015
    with pytest.raises(PredicateError, match=r"'year' contains"):
        field("year").contains(operand)
    with pytest.raises(PredicateError, match=r"'year' \$in"):
        field("year").is_in(["a", operand])


@pytest.mark.parametrize("values", ["draft", b"draft", {"draft": 1}, 5, None])
def test_membership_needs_a_list(values: Any) -> None:
    with pytest.raises(PredicateError, match=r"'status' \$in needs a list"):
        field("status").is_in(values)
    with pytest.raises(PredicateError, match=r"'status' \$nin needs a list"):
        field("status").not_in(values)


def test_booleans_have_no_order() -> None:
    with pytest.raises(PredicateError, match=r"'done' >= True.*no order"):
        field("done") >= True  # noqa: B015


@pytest.mark.parametrize("operand", ["soon", datetime(2026, 1, 1), "2026-01-01T09:00", True, 10**400])
def test_a_time_field_is_compared_with_times_alone(operand: object) -> None:
    with pytest.raises(PredicateError, match="'created_at' >"):
        field("created_at") > operand  # noqa: B015


def test_a_naive_time_is_refused_under_any_key() -> None:
    with pytest.raises(PredicateError, match=r"'seen' = .*naive_zone"):
        field("seen") == datetime(2026, 1, 1)  # noqa: B015


@pytest.mark.parametrize("name", ["", "  ", None, 5, "text", "slots", "metadata", "content_hash"])
def test_a_name_that_no_condition_can_use_is_refused(name: Any) -> None:
    with pytest.raises(PredicateError, match=r"field name|cannot be used"):
        field(name)


def test_numpy_scalars_are_plain_scalars() -> None:
    assert (field("x") == np.int64(3)) == (field("x") == 3)
    assert (field("x") == np.bool_(True)) == (field("x") == True)  # noqa: E712
    assert field("x").is_in(np.array([1, 2])) == field("x").is_in([1, 2])
    assert (np.int64(3) < field("x")) == (field("x") > 3)


# Conditions are values


def test_equal_conditions_are_equal_and_hash_alike() -> None:
    assert (field("x") == 1) == (field("x") == 1)
    assert len({field("x") == 1, field("x") == 1, field("x").is_in([1])}) == 2
    assert scope("acme/") == scope("acme")


def test_conditions_that_differ_only_in_type_are_different() -> None:
    assert (field("x") == 1) != (field("x") == True)  # noqa: E712
    assert field("x").is_in([1]) != field("x").is_in([True])
    assert field("x").is_in([1]) != field("x").not_in([1])


def test_conjunctions_are_flat() -> None:
    a, b, c = field("a") == 1, field("b") == 2, field("c") == 3
    assert (a & b) & c == a & (b & c) == And((a, b, c))
    assert (a | b) | c == a | (b | c) == Or((a, b, c))
    assert conjuncts(a & b & c) == (a, b, c)
    assert conjuncts(a | b) == (a | b,)


def test_a_condition_reads_as_it_was_written() -> None:
    condition = (field("kind") == "lease") & ((field("year") >= 2025) | ~field("tags").contains("void"))
    assert str(condition) == "kind = 'lease' & (year >= 2025 | ~(tags contains 'void'))"
    assert str(field("due") < datetime(2026, 1, 1, tzinfo=UTC)) == "due < 2026-01-01T00:00:00Z"
    assert str(field("a").not_in(["y", "x"]) & field("b").exists()) == "a not in ['x', 'y'] & b exists"
    assert (str(EVERY), str(NOTHING)) == ("every record", "no record")


# Laws on hostile records

HOSTILE = records(versions=VERSIONS, tenants=("default", "acme"), facts=True)
FEW = records(max_size=3, guarded=False)


@given(HOSTILE, predicates())
def test_the_columns_agree_with_evaluation_one_by_one(rows: list[Record], condition: Predicate) -> None:
    assert matching(rows, condition) == [condition.matches(row) for row in rows]


@given(st.lists(scalars() | lists(), max_size=8), predicates(keys=METADATA_KEYS[:1]))
def test_the_columns_agree_on_one_crowded_key(values: list[Any], condition: Predicate) -> None:
    rows = [of(kind=value) for value in values]
    assert matching(rows, condition) == [condition.matches(row) for row in rows]


@given(FEW, predicates())
def test_a_negation_is_the_exact_complement(rows: list[Record], condition: Predicate) -> None:
    assert matching(rows, ~condition) == [not passed for passed in matching(rows, condition)]
    assert matching(rows, ~~condition) == matching(rows, condition)
    assert all((~condition).matches(row) != condition.matches(row) for row in rows)


@given(FEW, predicates(max_leaves=3), predicates(max_leaves=3))
def test_and_or_not_are_those_of_sets(rows: list[Record], a: Predicate, b: Predicate) -> None:
    pairs = list(zip(matching(rows, a), matching(rows, b), strict=True))
    assert matching(rows, a & b) == [one and other for one, other in pairs]
    assert matching(rows, a | b) == [one or other for one, other in pairs]
    assert matching(rows, ~(a & b)) == matching(rows, ~a | ~b)
    assert matching(rows, everyone & a) == matching(rows, a)


def test_the_first_and_the_last_moment_can_be_compared() -> None:
    first, before_epoch, last = FAR_DATES
    assert holds(field("x") < before_epoch, [first, before_epoch, last]) == [first]
    assert holds(field("x") >= last, [first, before_epoch, last]) == [last]


def test_a_filter_of_five_hundred_values_is_exact() -> None:
    with Corpus.in_memory(embedder=WordEmbedder()) as corpus:
        corpus.add([{"id": f"r{n}", "text": "", "metadata": {"n": n}} for n in range(6)])
        assert corpus.count(field("n").is_in(range(3, 1_000))) == 3
        assert corpus.count(field("n").not_in(range(3, 1_000))) == 3
