from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, date, datetime, timedelta, timezone
from enum import Enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import Corpus, Record, RecordError, Slot, field
from ctxarith.plain import jsonable, record_as_dict, record_from
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.strategies import IDS, VERSIONS, anything, record

LARGEST = 2**63 - 1


def made(**fields: Any) -> Record:
    return Record(**{"id": "r1", "text": "Rent is 900 EUR", **fields})


def refused(field_name: str, value: object, **fields: Any) -> str:
    with pytest.raises(RecordError) as caught:
        made(**fields)
    assert caught.value.record_id == fields.get("id", "r1")
    assert caught.value.field == field_name
    assert caught.value.value is value or caught.value.value == value
    assert f"field {field_name!r}" in str(caught.value)
    return str(caught.value)


# The border: text is cleaned once


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("a\x00b", "ab"),
        ("half a pair \ud83e", "half a pair \ufffd"),
        ("\udd86 the other half", "\ufffd the other half"),
        ("\ud83e\udd86", "🦆"),
        ("\ufeffwith a mark", "\ufeffwith a mark"),
        ("", ""),
    ],
)
def test_text_is_sanitised_once(raw: str, clean: str) -> None:
    assert made(text=raw).text == clean
    assert made(text=made(text=raw).text).text == clean


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20))
def test_sound_text_is_kept_as_it_is(text: str) -> None:
    assert made(text=text).text == text


@given(st.text(max_size=20))
def test_sanitised_text_can_be_written_anywhere(text: str) -> None:
    clean = made(text=text).text
    assert "\x00" not in clean
    assert clean.encode().decode() == clean


@pytest.mark.parametrize("text", [None, 5, b"bytes", ["a"]])
def test_what_is_not_text_is_refused(text: Any) -> None:
    refused("text", text, text=text)


# Ids are refused, never changed


@pytest.mark.parametrize("rid", [*IDS, "x" * 512, " padded ", "main", "_", "e\u0301"])
def test_an_id_is_kept_as_it_was_given(rid: str) -> None:
    assert made(id=rid).id == rid
    assert made(id=rid).source_id == rid


@pytest.mark.parametrize("rid", ["", "   ", "x" * 513, "a\x00", "line\nbreak", "\ud800", None, 7, b"r1"])
def test_a_bad_id_is_refused(rid: Any) -> None:
    refused("id", rid, id=rid)


@pytest.mark.parametrize("name", ["version", "tenant", "source_type", "jurisdiction"])
@pytest.mark.parametrize("value", ["", "  ", "a\x00", "\udcff", 1.5, True, ["a"]])
def test_a_bad_name_is_refused(name: str, value: Any) -> None:
    refused(name, value, **{name: value})


@pytest.mark.parametrize("value", ["  ", "a\n", "x" * 513, 0, 7, False])
def test_a_bad_source_is_refused(value: Any) -> None:
    refused("source_id", value, source_id=value)


def test_a_source_left_out_is_the_record_itself() -> None:
    assert made().source_id == made(source_id="").source_id == "r1"


def test_a_whole_number_is_a_version() -> None:
    assert made(version=2).version == "2"


def test_the_defaults_are_those_of_a_lone_record() -> None:
    plain = Record(id="r1", text="")
    assert (plain.version, plain.tenant, plain.scope) == ("1", "default", "")
    assert (plain.created_at, plain.audience, dict(plain.metadata)) == (None, (), {})


# Times


@pytest.mark.parametrize("name", ["created_at", "valid_from", "valid_until", "embargo_until", "retain_until"])
def test_every_time_of_a_record_is_in_utc(name: str) -> None:
    kyoto = datetime(2026, 6, 1, 17, tzinfo=timezone(timedelta(hours=9)))
    for form in (kyoto, kyoto.isoformat(), kyoto.timestamp()):
        value = getattr(made(**{name: form}), name)
        assert value == datetime(2026, 6, 1, 8, tzinfo=UTC)
        assert value.tzinfo is UTC


@pytest.mark.parametrize("value", ["soon", True, [], float("nan"), 10**400, "0001-01-01T00:00:00+09:00"])
def test_a_time_that_is_none_is_refused(value: Any) -> None:
    refused("created_at", value, created_at=value)


def test_validity_cannot_end_before_it_begins() -> None:
    message = refused(
        "valid_until", datetime(2026, 1, 1, tzinfo=UTC), valid_from="2026-02-01", valid_until="2026-01-01"
    )
    assert "ends before it begins" in message
    assert made(valid_from="2026-02-01", valid_until="2026-02-01").valid_until is not None


def test_validity_is_judged_again_when_the_zone_is_known() -> None:
    late = made(valid_from="2026-02-01T12:00", valid_until="2026-02-01T10:00Z")
    with Corpus.in_memory(embedder=WordEmbedder(), naive_zone="UTC") as corpus:
        with pytest.raises(RecordError, match=r"'valid_until'.*ends before it begins"):
            corpus.add([late])
        assert corpus.count() == 0


# Lists, slots, links


def test_one_name_counts_as_a_list_of_one() -> None:
    assert made(audience="ops").audience == ("ops",)
    assert made(supersedes="r0").supersedes == ("r0",)


def test_repeats_leave_a_list_and_its_order_stays() -> None:
    assert made(audience=["sales", "ops", "sales"]).audience == ("sales", "ops")
    assert made(audience={"sales", "ops"}).audience == ("ops", "sales")


@pytest.mark.parametrize("value", [5, {"ops": 1}, b"ops"])
def test_an_audience_that_is_no_list_is_refused(value: Any) -> None:
    refused("audience", value, audience=value)


def test_a_bad_name_in_a_list_is_named() -> None:
    refused("audience", "", audience=["ops", ""])
    refused("supersedes", None, supersedes=[None])


def test_a_record_cannot_supersede_itself() -> None:
    refused("supersedes", "r1", supersedes=["r0", "r1"])


def test_a_slot_may_be_written_as_a_mapping() -> None:
    plain = made(slots=[{"subject": "l1", "attribute": "fee", "value": 12}])
    assert plain.slots == (Slot("l1", "fee", 12),)
    assert plain.slots[0].asserts


def test_a_slot_without_a_value_only_mentions() -> None:
    assert not made(slots=[Slot("l1", "fee")]).slots[0].asserts
    assert made(slots=[Slot("l1", "fee", 0)]).slots[0].asserts
    assert made(slots=[Slot("l1", "fee", "")]).slots[0].asserts


@pytest.mark.parametrize(
    ("where", "slot"),
    [
        ("slots", {"subject": "l1"}),
        ("slots", {"subject": "l1", "attribute": "fee", "valeu": 1}),
        ("slots", "fee"),
        ("slots.attribute", Slot("l1", " ")),
        ("slots.subject", Slot("", "fee")),
        ("slots.value", Slot("l1", "fee", float("nan"))),
        ("slots.value", {"subject": "l1", "attribute": "fee", "value": [1, 2]}),
    ],
)
def test_a_bad_slot_is_refused(where: str, slot: Any) -> None:
    with pytest.raises(RecordError, match=rf"'r1', field '{where}'"):
        made(slots=[slot])


def test_slots_are_a_list() -> None:
    refused("slots", Slot("l1", "fee"), slots=Slot("l1", "fee"))


# Metadata


def test_odd_but_honest_values_are_converted() -> None:  # CH-07
    metadata = {
        "author": None,
        "pages": np.int64(7),
        "ratio": np.float32(0.5),
        "done": np.bool_(True),
        "name": np.str_("pump"),
        "when": datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=9))),
        "day": date(2026, 1, 1),
        "sizes": [np.int64(1), 2],
    }
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    kept = dict(made(metadata=metadata).metadata)
    assert kept == {
        "pages": 7,
        "ratio": 0.5,
        "done": True,
        "name": "pump",
        "when": midnight,
        "day": midnight,
        "sizes": (1, 2),
    }
    assert [type(kept[key]) for key in ("pages", "ratio", "done", "name")] == [int, float, bool, str]


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1},
        float("nan"),
        float("inf"),
        2**63,
        -(2**63),
        [1, "a"],
        [True, 1],
        [[1]],
        [None],
        ["a", float("nan")],
        {1, 2},
        b"bytes",
        1j,
        np.array([1, 2]),
        np.datetime64("NaT"),
        np.datetime64("2026-01-01T00:00:00.000000000"),
        timedelta(days=1),
        b"bytes-like",
    ],
    ids=lambda value: repr(value)[:24],
)
def test_metadata_that_cannot_be_kept_is_refused_by_key(value: Any) -> None:  # CH-07
    with pytest.raises(RecordError, match=r"'r1'.*'metadata\.extra'"):
        made(metadata={"extra": value})


def test_whole_numbers_of_63_bits_are_exact() -> None:  # CH-07
    kept = made(metadata={"most": LARGEST, "least": -LARGEST, "list": [LARGEST]}).metadata
    assert dict(kept) == {"most": LARGEST, "least": -LARGEST, "list": (LARGEST,)}


def test_a_list_of_numbers_never_changes_one_of_them() -> None:  # CH-07
    assert made(metadata={"sizes": [1, 0.5]}).metadata["sizes"] == (1.0, 0.5)
    with pytest.raises(RecordError, match=r"metadata\.sizes"):
        made(metadata={"sizes": [2**53 + 1, 0.5]})


class Kind(str, Enum):  # noqa: UP042
    LEASE = "lease"


def test_a_text_of_an_enumeration_is_its_text() -> None:
    one = made(
        id=Kind.LEASE,
        tenant=Kind.LEASE,
        scope=Kind.LEASE,
        audience=[Kind.LEASE],
        metadata={"kind": Kind.LEASE, "kinds": [Kind.LEASE]},
    )
    assert (one.id, one.tenant, one.scope, one.audience) == ("lease", "lease", "lease", ("lease",))
    assert dict(one.metadata) == {"kind": "lease", "kinds": ("lease",)}
    plain = (one.id, one.tenant, one.scope, one.audience[0], one.metadata["kind"])
    assert {type(text) for text in plain} == {str}
    assert (field("kind") == Kind.LEASE).matches(one)


def test_an_empty_list_is_a_missing_key() -> None:  # CH-08
    assert (
        made(metadata={"tags": []}) == made(metadata={"tags": ()}) == made(metadata={"tags": None}) == made()
    )


def test_metadata_text_is_sanitised_too() -> None:
    assert made(metadata={"name": "a\x00\ud800"}).metadata["name"] == "a\ufffd"


@pytest.mark.parametrize("key", ["tenant", "scope", "id", "text", "created_at", "document", "ctx_x", "$or"])
def test_reserved_keys_are_refused(key: str) -> None:  # TN-02
    with pytest.raises(RecordError, match=rf"'r1'.*'metadata\.{key.replace('$', '.')}'.*reserved"):
        made(metadata={key: "beta"})


@pytest.mark.parametrize("key", ["", " ", 5, None, "a\x00"])
def test_a_bad_metadata_key_is_refused(key: Any) -> None:
    with pytest.raises(RecordError, match="'metadata key'"):
        made(metadata={key: 1})


@pytest.mark.parametrize("value", [[("a", 1)], "a", 5])
def test_metadata_is_a_mapping(value: Any) -> None:
    refused("metadata", value, metadata=value)


# Records are values


def test_a_record_cannot_be_changed() -> None:
    plain = made(metadata={"kind": "lease"})
    with pytest.raises(FrozenInstanceError):
        plain.text = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        plain.metadata["kind"] = "memo"  # type: ignore[index]


def test_a_record_keeps_its_own_copy_of_what_it_was_given() -> None:
    tags, metadata = ["hr"], {"tags": ["hr"], "kind": "lease"}
    kept = made(audience=tags, metadata=metadata)
    tags.append("all")
    metadata["kind"] = "memo"
    metadata["tags"].append("all")  # type: ignore[attr-defined]
    assert kept.audience == ("hr",)
    assert dict(kept.metadata) == {"tags": ("hr",), "kind": "lease"}


@given(record(facts=True, versions=VERSIONS))
def test_a_record_survives_a_mapping_and_a_pickle(one: Record) -> None:
    assert record_from(record_as_dict(one)) == one
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.deepcopy(one) == one == replace(one)
    assert hash(copy.copy(one)) == hash(one)


@given(st.sampled_from([f.name for f in dataclasses.fields(Record)]), anything())
def test_any_value_in_any_field_is_taken_or_refused_by_name(name: str, value: Any) -> None:
    try:
        kept = made(**{name: value})
    except RecordError as error:
        assert error.field.split(".")[0] in (name, "metadata key")  # noqa: PT017
    else:
        assert record_from(record_as_dict(kept)) == kept


def test_the_key_is_tenant_id_and_version() -> None:
    assert made(tenant="acme", version="2").key == ("acme", "r1", "2")


def test_the_ranking_date_is_the_assertion_then_the_validity() -> None:
    day, later = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    assert made(created_at=day, valid_from=later).dated == day
    assert made(valid_from=later).dated == later
    assert made().dated is None


def test_a_mapping_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(RecordError, match=r"'r1'.*'sope'.*put it into metadata"):
        record_from({"id": "r1", "text": "", "sope": "acme"})


@pytest.mark.parametrize(("mapping", "name"), [({"text": "a"}, "id"), ({"id": "r1"}, "text")])
def test_a_mapping_needs_id_and_text(mapping: dict[str, str], name: str) -> None:
    with pytest.raises(RecordError, match=rf"field '{name}'.*required"):
        record_from(mapping)


@pytest.mark.parametrize("given_value", [None, "r1", ["r1"], 5])
def test_what_is_no_record_is_refused(given_value: Any) -> None:
    with pytest.raises(RecordError, match="'record'"):
        record_from(given_value)


def test_times_become_text_for_json() -> None:
    assert jsonable({"at": (NOW,), "n": 1}) == {"at": ["2026-06-15T12:00:00Z"], "n": 1}


# The border of a corpus: all or nothing, and what comes back


def test_one_bad_record_keeps_the_whole_batch_out(corpus: Corpus) -> None:  # CH-07
    batch: list[dict[str, Any]] = [
        {"id": "b1", "text": "pump", "metadata": {"author": None, "pages": np.int64(7)}},
        {"id": "b2", "text": "pump", "metadata": {"when": datetime(2026, 1, 1, tzinfo=UTC)}},
        {"id": "b3", "text": "pump", "metadata": {"extra": {"a": 1}}},
    ]
    with pytest.raises(RecordError, match=r"'b3'.*'metadata\.extra'"):
        corpus.add(batch)
    assert corpus.count() == 0
    corpus.add([*batch[:2], {"id": "b4", "text": "pump", "metadata": {}}])
    assert [dict(r.metadata) for r in corpus.get(["b1", "b2", "b4"])] == [
        {"pages": 7},
        {"when": datetime(2026, 1, 1, tzinfo=UTC)},
        {},
    ]


@pytest.mark.parametrize("batch", ["r1", {"id": "r1", "text": ""}, Record(id="r1", text=""), 5, None])
def test_add_takes_a_list(batch: Any) -> None:
    with (
        Corpus.in_memory(embedder=WordEmbedder()) as corpus,
        pytest.raises(ValueError, match="list of records"),
    ):
        corpus.add(batch)


def test_a_caller_cannot_move_a_record_to_another_tenant(corpus: Corpus) -> None:  # TN-02
    corpus.add([Record(id="u1", text="pump", tenant="acme")])
    for rid in ("u1", "u2"):
        with pytest.raises(RecordError, match=rf"'{rid}'.*'metadata\.tenant'.*reserved"):
            corpus.add([{"id": rid, "text": "pump", "tenant": "acme", "metadata": {"tenant": "beta"}}])
    assert [r.id for r in corpus.get(["u1", "u2"])] == ["u1"]


def test_the_same_id_in_another_tenant_is_another_record(corpus: Corpus) -> None:  # TN-02
    corpus.add([Record(id="u1", text="pump", tenant="acme")])
    report = corpus.add([Record(id="u1", text="valve", tenant="beta")])
    assert (report.added, report.corrected) == (1, 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (1, True),
        (1, 1.0),
        (1, "1"),
        ("2026-06-15T12:00:00Z", NOW),
        (["2026-06-15T12:00:00Z"], [NOW]),
        ([1], [True]),
    ],
    ids=repr,
)
def test_another_type_is_another_content(old: object, new: object) -> None:
    with Corpus.in_memory(embedder=WordEmbedder()) as corpus:
        corpus.add([{"id": "r1", "text": "pump", "metadata": {"due": old}}])
        report = corpus.add([{"id": "r1", "text": "pump", "metadata": {"due": new}}])
        assert (report.corrected, report.unchanged) == (1, 0)


def test_another_type_of_slot_value_is_another_content() -> None:
    with Corpus.in_memory(embedder=WordEmbedder()) as corpus:
        corpus.add([Record(id="r1", text="pump", slots=(Slot("l1", "due", "2026-06-15T12:00:00Z"),))])
        assert corpus.add([Record(id="r1", text="pump", slots=(Slot("l1", "due", NOW),))]).corrected == 1


def test_every_kind_of_value_comes_back_from_the_store(corpus: Corpus) -> None:
    values: dict[str, Any] = {
        "a": 1,
        "b": 1.0,
        "c": True,
        "d": "1",
        "e": NOW,
        "f": ["x"],
        "g": [NOW],
        "h": LARGEST,
    }
    corpus.add([{"id": "r1", "text": "pump", "metadata": values}])
    (kept,) = corpus.get("r1")
    assert dict(kept.metadata) == {**values, "f": ("x",), "g": (NOW,)}
    assert corpus.count(field("c") == True) == 1  # noqa: E712
    assert corpus.count(field("a") == True) == 0  # noqa: E712
