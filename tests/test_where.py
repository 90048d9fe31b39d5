from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import Corpus, PredicateError, Principal, Record, field, scope, where
from ctxarith.predicate import EVERY, And, Or, Predicate
from ctxarith.where import OPERATORS
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.strategies import anything, filters, records

LEASES = [
    Record(id="r1", text="pump", metadata={"kind": "lease", "year": 2026}),
    Record(id="r2", text="pump", metadata={"kind": "lease", "year": 2025}),
    Record(id="r3", text="pump", metadata={"kind": "memo", "year": 2026}),
]


def passing(condition: Mapping[str, Any] | Predicate | None, rows: list[Record] = LEASES) -> list[str]:
    """What a filter lets through, in the library's own process and as a question to a corpus."""
    with Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder()) as corpus:
        corpus.add(rows)
        asked = sorted(hit.id for hit in corpus.retrieve("pump", where=condition, top=None).hits)
        assert corpus.count(condition) == len(asked)
    assert asked == sorted(row.id for row in rows if where(condition).matches(row))
    return asked


# What a dict means


def test_plain_keys_mean_and() -> None:  # CH-01
    assert passing({"kind": "lease", "year": 2026}) == ["r1"]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"$and": [{"kind": "lease"}]}, ["r1", "r2"]),
        ({"$or": [{"year": 2025}]}, ["r2"]),
        ({"$and": [{"$and": [{"kind": "memo"}]}]}, ["r3"]),
    ],
)
def test_a_junction_of_one_is_that_one(condition: dict[str, Any], found: list[str]) -> None:  # CH-02
    assert passing(condition) == found


@pytest.mark.parametrize("condition", [None, {}])
def test_no_filter_is_every_record(condition: dict[str, Any] | None) -> None:  # CH-04
    assert passing(condition) == ["r1", "r2", "r3"]
    assert where(condition) == EVERY


def test_operators_of_one_key_mean_and() -> None:
    assert passing({"year": {"$gt": 2025, "$lte": 2026}, "kind": {"$ne": "memo"}}) == ["r1"]


def test_a_junction_stands_beside_plain_keys() -> None:
    assert passing({"kind": "lease", "$or": [{"year": 2025}, {"year": 2024}]}) == ["r2"]
    assert passing({"$not": {"kind": "lease", "year": 2026}}) == ["r2", "r3"]
    assert passing({"$or": [{"kind": "memo"}, {"$and": [{"kind": "lease"}, {"year": 2025}]}]}) == ["r2", "r3"]


def test_conditions_written_with_operators_stand_inside_a_dict() -> None:
    assert passing({"$or": [field("kind") == "memo", {"year": 2025}]}) == ["r2", "r3"]


def test_text_dates_are_read_by_the_time_fields_alone() -> None:  # CH-05
    rows = [
        Record(id="e1", text="pump", created_at=datetime(2026, 3, 1, tzinfo=UTC)),
        Record(id="e2", text="pump", created_at=datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)),
        Record(id="e3", text="pump", created_at=datetime(2025, 12, 31, tzinfo=UTC)),
        Record(id="e4", text="pump", metadata={"seen": datetime(2026, 3, 1, tzinfo=UTC)}),
        Record(id="e5", text="pump"),
    ]
    for bound in (
        date(2026, 2, 1),
        datetime(2026, 2, 1, tzinfo=UTC),
        "2026-02-01",
        "2026-02-01T09:00:00+09:00",
    ):
        assert passing({"created_at": {"$gte": bound}}, rows) == ["e1"]
    assert passing({"seen": {"$gte": date(2026, 2, 1)}}, rows) == ["e4"]
    assert passing({"seen": {"$gte": "2026-02-01"}}, rows) == []


FLAGS = [
    Record(id="f1", text="pump", metadata={"ok": True}),
    Record(id="f2", text="pump", metadata={"ok": 1}),
    Record(id="f3", text="pump", metadata={"ok": "1"}),
    Record(id="g1", text="pump", metadata={"level": 3}),
    Record(id="g2", text="pump", metadata={"level": 3.0}),
    Record(id="g3", text="pump", metadata={"level": "3"}),
]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"ok": True}, ["f1"]),
        ({"ok": 1}, ["f2"]),
        ({"ok": "1"}, ["f3"]),
        ({"level": 3}, ["g1", "g2"]),
        ({"level": 3.0}, ["g1", "g2"]),
        ({"level": "3"}, ["g3"]),
        ({"level": {"$in": [3, "3"]}}, ["g1", "g2", "g3"]),
        ({"ok": {"$nin": [1]}}, ["f1", "f3"]),
    ],
)
def test_types_are_never_mixed_up(condition: dict[str, Any], found: list[str]) -> None:  # CH-06
    assert passing(condition, FLAGS) == found


def test_types_are_told_apart_after_the_store_is_read_again(corpus: Corpus) -> None:  # CH-06
    corpus.add(FLAGS)
    store = corpus._shelf.store
    for condition, found in (
        ({"ok": True}, ["f1"]),
        ({"ok": 1}, ["f2"]),
        ({"level": 3}, ["g1", "g2"]),
        ({"level": "3"}, ["g3"]),
    ):
        assert sorted(row.record.id for row in store.select(where(condition))) == found


def test_lists_are_asked_for_an_element() -> None:  # CH-08
    rows = [
        Record(id="k1", text="pump", metadata={"tags": ["hr", "policy"]}),
        Record(id="k2", text="pump", metadata={"tags": []}),
        Record(id="k3", text="pump", metadata={"tags": ("hr",)}),
        Record(id="k4", text="pump"),
    ]
    assert passing({"tags": {"$contains": "hr"}}, rows) == ["k1", "k3"]
    assert passing({"tags": {"$not_contains": "policy"}}, rows) == ["k3"]
    assert passing({"tags": {"$exists": False}}, rows) == ["k2", "k4"]


def test_not_equal_leaves_out_the_untagged() -> None:  # CH-09
    rows = [
        Record(id="p1", text="pump", metadata={"status": "draft"}),
        Record(id="p2", text="pump", metadata={"status": "final"}),
        Record(id="p3", text="pump"),
    ]
    assert passing({"status": {"$ne": "draft"}}, rows) == ["p2"]
    assert passing({"status": {"$nin": ["draft"]}}, rows) == ["p2"]
    assert passing({"status": {"$nin": []}}, rows) == ["p1", "p2"]
    assert passing({"$not": {"status": "draft"}}, rows) == ["p2", "p3"]


def test_an_empty_in_matches_nothing_and_never_all() -> None:
    assert passing({"kind": {"$in": []}}) == []
    assert passing({"kind": "lease", "year": {"$in": ()}}) == []
    assert passing({"$or": [{"kind": {"$in": []}}, {"kind": "memo"}]}) == ["r3"]


def test_a_callers_filter_is_joined_with_the_tenant(corpus: Corpus) -> None:  # CH-03
    both = {"team": "ops", "tier": "gold"}
    corpus.add(
        [
            Record(id="r1", text="pump", tenant="acme", metadata=both),
            Record(id="r9", text="pump", tenant="beta", metadata=both),
        ]
    )
    for sign in ("$and", "$or"):
        condition = {sign: [{"team": "ops"}, {"tier": "gold"}]}
        result = corpus.retrieve("pump", principal=Principal("acme"), where=condition)
        assert [hit.id for hit in result.hits] == ["r1"]
        assert corpus.count(condition, principal=Principal("acme")) == 1


# No condition is ever dropped


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"year": {"$gtt": 1}}, r"'year'.*'\$gtt'.*did you mean \$gt"),
        ({"year": {"gte": 1}}, r"'year'.*'gte'.*did you mean \$gte"),
        ({"year": {"$regex": "2"}}, r"'year'.*'\$regex'"),
        ({"year": {5: 1}}, r"'year'.*5"),
        ({"year": {}}, r"'year'.*empty operator dict"),
        ({"year": {"$gt": 2025, "$typo": 1}}, r"'year'.*'\$typo'"),
        ({"$nor": [{"year": 1}]}, r"'\$nor'.*did you mean \$or"),
        ({"$and": []}, r"\$and needs a non-empty list"),
        ({"$or": []}, r"\$or needs a non-empty list"),
        ({"$or": {"year": 1}}, r"\$or needs a non-empty list"),
        ({"$or": [{"year": 1}, {}]}, r"\$or needs filters"),
        ({"$and": [None]}, r"\$and needs filters"),
        ({"$not": {}}, r"\$not needs filters"),
        ({"$not": []}, r"\$not needs filters"),
        ({"year": None}, r"'year' ="),
        ({"year": [2025]}, r"'year' =.*\$in"),
        ({"year": {"$eq": {"a": 1}}}, r"'year' ="),
        ({"year": float("nan")}, r"'year' = nan"),
        ({"year": {"$gt": float("nan")}}, r"'year' > nan"),
        ({"year": {"$in": [1, float("nan")]}}, r"'year' \$in nan"),
        ({"year": {"$in": 2025}}, r"'year' \$in needs a list"),
        ({"kind": {"$nin": "lease"}}, r"'kind' \$nin needs a list"),
        ({"kind": {"$exists": 1}}, r"'kind' \$exists needs true or false"),
        ({"done": {"$gt": True}}, r"'done' > True"),
        ({"created_at": {"$gt": "soon"}}, r"'created_at' > 'soon'"),
        ({"created_at": {"$gt": "2026-01-01T09:00"}}, r"'created_at' >.*naive_zone"),
        ({"created_at": {"$exists": None}}, r"'created_at' \$exists"),
        ({5: 1}, r"filter keys are text"),
        ({"": 1}, r"field name"),
        ({" ": {"$exists": True}}, r"field name"),
        ({"text": "pump"}, r"'text' cannot be used"),
        ({"text": {"$exists": False}}, r"'text' cannot be used"),
        ({"slots": {"$exists": True}}, r"'slots' cannot be used"),
        ({"metadata": {"$contains": "a"}}, r"'metadata' cannot be used"),
        ({"content_hash": {"$not_contains": "a"}}, r"'content_hash' cannot be used"),
    ],
    ids=repr,
)
def test_a_condition_that_means_nothing_is_refused(condition: Any, message: str) -> None:
    with pytest.raises(PredicateError, match=message):
        where(condition)


@pytest.mark.parametrize("condition", ["kind = 'lease'", [], [{"kind": "lease"}], 5, True, field("kind")])
def test_a_filter_is_a_predicate_or_a_dict(condition: Any) -> None:
    with pytest.raises(PredicateError, match="predicate or a dict"):
        where(condition)


@given(anything())
def test_any_filter_is_read_or_refused(condition: Any) -> None:
    try:
        read = where(condition)
    except PredicateError:
        return
    assert condition is None or isinstance(condition, dict)
    assert read == where(condition)
    read.matches(LEASES[0])


@given(st.sampled_from(("kind", "created_at")), st.sampled_from(OPERATORS), anything())
def test_any_operand_is_read_or_refused_by_its_key(key: str, op: str, operand: Any) -> None:
    try:
        read = where({key: {op: operand}})
    except PredicateError as error:
        assert repr(key) in str(error)  # noqa: PT017
    else:
        assert isinstance(read.matches(LEASES[0]), bool)


def test_a_bad_filter_is_refused_before_anything_is_searched() -> None:
    embedder = WordEmbedder()
    with Corpus.in_memory(embedder=embedder) as corpus:
        corpus.add(LEASES)
        before = list(embedder.embedded)
        with pytest.raises(PredicateError):
            corpus.retrieve("pump", where={"year": {"$gtt": 1}})
        with pytest.raises(PredicateError):
            corpus.count({"year": {}})
        assert embedder.embedded == before


def test_a_filter_given_is_not_changed() -> None:
    given_filter = {"kind": {"$in": ["lease"]}, "$or": [{"year": 2026}]}
    where(given_filter)
    assert given_filter == {"kind": {"$in": ["lease"]}, "$or": [{"year": 2026}]}


# The same condition in both forms


def written(condition: Mapping[str, Any]) -> Predicate:
    """The operator form of a dict, key by key."""
    parts: list[Predicate] = []
    for key, value in condition.items():
        if key == "$not":
            parts.append(~written(value))
        elif key in ("$and", "$or"):
            branches = [written(one) for one in value]
            parts.append(And.of(*branches) if key == "$and" else Or.of(*branches))
        elif isinstance(value, Mapping):
            parts.extend(OPERATED[op](field(key), operand) for op, operand in value.items())
        else:
            parts.append(field(key) == value)
    return And.of(*parts)


OPERATED: dict[str, Callable[[Any, Any], Predicate]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
    "$in": lambda f, values: f.is_in(values),
    "$nin": lambda f, values: f.not_in(values),
    "$contains": lambda f, value: f.contains(value),
    "$not_contains": lambda f, value: f.exists() & ~f.contains(value),
    "$exists": lambda f, wanted: f.exists() if wanted else ~f.exists(),
}


@given(filters(), records(max_size=3))
def test_the_dict_and_the_operators_say_the_same(condition: dict[str, Any], rows: list[Record]) -> None:
    read, built = where(condition), written(condition)
    assert read == built
    assert str(read) == str(built)
    assert [read.matches(row) for row in rows] == [built.matches(row) for row in rows]


def test_a_predicate_is_read_as_itself() -> None:
    condition = (field("kind") == "lease") & scope("acme")
    assert where(condition) is condition
