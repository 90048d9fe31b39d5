"""Records as flat metadata: readable under their own names, and restored without loss."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import Record, RecordError, Slot
from ctxarith.flat import flatten, restore, seconds
from ctxarith.plain import FIELDS, record_from
from tests.strategies import record

MARCH = datetime(2026, 3, 1, tzinfo=UTC)


def typed(value: Any) -> Any:
    """With its type beside it, since True == 1 == 1.0."""
    if isinstance(value, tuple):
        return [typed(one) for one in value]
    return (type(value), value)


def as_told(one: Record) -> list[Any]:
    slots = [(slot.subject, slot.attribute, typed(slot.value), slot.inferred) for slot in one.slots]
    return [one, slots, {key: typed(value) for key, value in one.metadata.items()}]


@given(one=record(tenants=("default", "o'brien", "日本"), versions=("1", "v10"), facts=True))
def test_every_record_survives_flattening(one: Record) -> None:
    back, revision = restore(flatten(one, 3), one.text)
    assert revision == 3
    assert as_told(back) == as_told(one)


@given(one=record(facts=True))
def test_flat_metadata_is_plain_json(one: Record) -> None:
    flat = flatten(one, 0)
    assert json.loads(json.dumps(flat)) == flat
    for value in flat.values():
        scalars = value if isinstance(value, list) else [value]
        assert scalars
        assert {type(scalar) for scalar in scalars} <= {str, int, float, bool}


@given(moment=st.datetimes(timezones=st.just(UTC)))
def test_every_moment_survives_to_the_microsecond(moment: datetime) -> None:
    one = Record(id="r", text="x", created_at=moment, metadata={"when": moment, "all": (moment,)})
    back, _ = restore(flatten(one, 0), "x")
    assert (back.created_at, back.metadata["when"], back.metadata["all"]) == (moment, moment, (moment,))


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        datetime(1900, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 6, 15, 12, 0, 0, 123_457, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
)
def test_the_first_and_the_last_moment_survive(moment: datetime) -> None:
    back, _ = restore(flatten(Record(id="r", text="x", valid_until=moment), 0), "x")
    assert back.valid_until == moment


def test_fields_and_metadata_stand_under_their_own_names() -> None:
    one = Record(
        id="r1",
        text="Rent is 900 EUR",
        scope="acme/ops",
        created_at=MARCH,
        audience=("ops",),
        metadata={"kind": "lease", "tags": ("a", "b")},
    )
    assert flatten(one, 0) == {
        "tenant": "default",
        "scope": "acme/ops",
        "created_at": 1_772_323_200,
        "audience": ["ops"],
        "kind": "lease",
        "tags": ["a", "b"],
        "ctx_record": (
            '{"id": "r1", "revision": 0, "times": {"created_at": null}, "lists": ["audience", "tags"]}'
        ),
    }


def test_the_text_is_not_repeated_in_the_metadata() -> None:
    assert "ZEBRA" not in json.dumps(flatten(Record(id="r1", text="ZEBRA"), 0))


@pytest.mark.parametrize("value", ["x", "", True, False, 1, 1.0, 2**63 - 1, MARCH, None])
def test_slots_keep_the_type_of_their_value(value: Any) -> None:
    one = Record(id="r1", text="x", slots=(Slot("lead-1", "fee", value), Slot("lead-1", "guess", 1, True)))
    back, _ = restore(flatten(one, 0), "x")
    assert as_told(back) == as_told(one)


def test_a_text_that_looks_like_a_time_stays_text() -> None:
    said: dict[str, Any] = {"day": "2026-03-01", "moment": "2026-03-01T00:00:00Z", "number": 1_772_323_200}
    slots = (Slot("s", "from", "2026-03-01T00:00:00Z"),)
    back, _ = restore(flatten(Record(id="r1", text="x", metadata=said, slots=slots), 0), "x")
    assert dict(back.metadata) == said
    assert back.slots == slots


def test_whole_seconds_are_integers_and_others_are_floats() -> None:
    assert seconds(MARCH) == 1_772_323_200
    assert type(seconds(MARCH)) is int
    assert seconds(MARCH + timedelta(milliseconds=500)) == 1_772_323_200.5
    assert seconds(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1


@given(
    one=st.datetimes(timezones=st.just(UTC)),
    other=st.datetimes(timezones=st.just(UTC)),
)
def test_seconds_never_turn_the_order_of_two_moments(one: datetime, other: datetime) -> None:
    early, late = sorted((one, other))
    assert seconds(early) <= seconds(late)


def test_a_row_of_an_earlier_shape_is_read_as_its_first_content() -> None:
    flat = {"tenant": "default", "scope": "", "kind": "lease", "ctx_record": '{"id": "r1"}'}
    back, revision = restore(flat, "Rent is 900 EUR")
    assert back == record_from({"id": "r1", "text": "Rent is 900 EUR", "metadata": {"kind": "lease"}})
    assert revision == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("version", 2), ("audience", "ops"), ("token_count", "12"), ("kind", {"a": 1})],
)
def test_a_row_that_another_hand_changed_is_cleaned_or_refused_as_if_it_were_new(
    name: str, value: Any
) -> None:
    flat = {**flatten(Record(id="r1", text="x", metadata={"lead": "a"}), 0), name: value}
    said = {"id": "r1", "text": "x", "metadata": {"lead": "a"}}
    told = {**said, name: value} if name in FIELDS else {**said, "metadata": {"lead": "a", name: value}}
    try:
        expected: object = record_from(told)
    except RecordError:
        with pytest.raises(RecordError):
            restore(flat, "x")
    else:
        assert restore(flat, "x")[0] == expected
