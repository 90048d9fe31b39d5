"""The law of a store as plain checks, for third parties too: no test framework is needed.

Each check asks for new and empty stores, closes them, and raises `AssertionError` with what was
wanted and what came back.

>>> from ctxarith.stores.inmemory import InMemoryStore
>>> for check in CHECKS:
...     check(InMemoryStore)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from ctxarith.fields import field
from ctxarith.model import TIME_FIELDS, Record, Slot
from ctxarith.plain import record_from
from ctxarith.ports import Row, RowKey, Store, Vector
from ctxarith.predicate import EVERY, NOTHING, And, Or, Predicate
from ctxarith.scopes import everyone, scope

MakeStore = Callable[[], Store]
Check = Callable[[MakeStore], None]

_MOMENTS = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1, 1, 1, microsecond=1, tzinfo=UTC),
    datetime(1900, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2026, 6, 15, 12, 0, 0, 123_457, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
)
_WORDS = ("", " ", "1", "a", "A", "true", "$in", "%", "_", "o'brien", 'a"b', "é", "e\u0301", "日本", "z🦆")
_NUMBERS = (0, 1, 1.0, -0.0, 3, 3.0, 0.1, 2**53, 2**53 + 1, 2.0**53, 2**63 - 1, 1 - 2**63, 5e-324, 1e308)
_LISTS = (("a", "b"), ("1",), ("",), (1, 3), (1.0, 3.5), (2**53 + 1,), (True,), (True, False), _MOMENTS)
_NAMES = (
    *("a", "A", "a/b", "a|b", "a%7Cb", "a%b", "a b", " a", "o'brien", 'a"b', "a\\b", "*", "_", "%", "$and"),
    *("é", "e\u0301", "日本", "🦆", "a" * 128, "1|1", "ctx_revision", "chroma:document"),
)
_PATHS = ("acme", "acme/ops", "acme/opsx", "acme-corp/ops", "acme0", "1", "11", "é/日本")
_TEXTS = (*_WORDS, "\n", " a ", "a\r\nb", "\u200b", "\ufeff", "ગુજરાતી", "<|endoftext|> \\n %s", "x" * 99_999)
_MANY = 2_002


def check_every_field_is_read_back(make: MakeStore) -> None:
    """A record that fills every field, and one that fills none."""
    values: list[Any] = ["x", True, 1, 1.0, _MOMENTS[4], None]
    slots = [Slot("s", f"a{n}", one) for n, one in enumerate(values)]
    slots.append(Slot("s", "guess", "x", inferred=True))
    words = {"source_id": "doc|1%", "version": "v1.10/β", "tenant": "o'brien & co", "scope": "acme/é/日本"}
    labels = {"source_type": "contract", "jurisdiction": "IN", "content_hash": "0" * 64}
    lists = {"slots": slots, "supersedes": ["a|b", "%"], "audience": ["sales", "ops|admin"]}
    metadata = {"a key": "value", "when": _MOMENTS[5], "tags": ["b", "a", "a"], "a.b": 1, "x#": True}
    dates = dict(zip(TIME_FIELDS, _MOMENTS[1:], strict=True))
    counts = {"token_count": 12, "entity_count": 0}
    said = {"id": "full", "text": "Fee is ₹45,000\n\tuntil “March” 🦆", "metadata": metadata}
    full = record_from({**said, **words, **labels, **lists, **dates, **counts})
    _check_round_trip(make, [_row(full), _row(full, 2), _row(Record(id="least", text="x"))])


def check_every_value_keeps_its_type(make: MakeStore) -> None:
    """`True`, `1`, `1.0` and "1" stay apart; lists keep their order, times their microseconds, texts all."""
    texts = [_row(Record(id=f"text {n}", text=text)) for n, text in enumerate(_TEXTS)]
    _check_round_trip(make, [*hostile_rows(), *texts])


def check_any_key_is_a_row_of_its_own(make: MakeStore) -> None:
    """Quotes, bars, signs and scripts in ids, tenants and versions; one id in each of them apart."""
    by_id = [Record(id=name, text=f"id {name}") for name in (*_NAMES, "a" * 512)]
    by_tenant = [Record(id="a", text=f"tenant {name}", tenant=name) for name in (*_NAMES, "t" * 600)]
    by_version = [Record(id="a", text=f"version {name}", version=name) for name in _NAMES]
    shifted = [Record(id="b|c", text="x", tenant="a"), Record(id="c", text="y", tenant="a|b")]
    rows = [_row(record) for record in (*by_id, *by_tenant, *by_version, *shifted)]
    _check_round_trip(make, [*rows, _row(by_id[0], 1), _row(by_id[0], 2)])


def check_vectors_are_kept(make: MakeStore) -> None:
    """Within the precision of float32; a zero vector (a blank text) stays zero."""
    vectors = [_vector(seed) for seed in "abcdefg"] + [np.zeros(3, np.float32)]
    _check_round_trip(make, [Row(Record(id=f"v{n}", text=""), vector) for n, vector in enumerate(vectors)])


def check_a_write_replaces_the_row_whole(make: MakeStore) -> None:
    """Metadata is never merged, and nothing of the earlier row shines through; revisions stay."""
    metadata: dict[str, Any] = {"kind": "draft", "pages": 3, "when": _MOMENTS[4]}
    old = Record(id="r", text="old", scope="a/b", slots=(Slot("s", "fee", 1),), metadata=metadata)
    new = Row(Record(id="r", text="new", metadata={"pages": "3"}), _vector("elsewhere"))
    with closing(make()) as store:
        store.write([_row(old), _row(old, 1)])
        store.write([new])
        _check_rows("rows()", store.rows(), [new, _row(old, 1)])


def check_a_removal_takes_the_named_rows_alone(make: MakeStore) -> None:
    """Other revisions, versions and tenants stay; unknown keys are ignored; so is an empty call."""
    record, other = Record(id="r", text="x"), Record(id="r", text="x", tenant="other")
    near = [_row(record), _row(record, 1), _row(Record(id="r", text="x", version="2")), _row(other)]
    unknown = [RowKey("default", "nobody", "1"), RowKey("default", "r", "1", 7)]
    with closing(make()) as store:
        store.write([])
        store.remove([])
        store.remove(unknown)
        store.write(near)
        store.remove([near[0].key, near[0].key, *unknown])
        _check_rows("rows() after remove", store.rows(), near[1:])
        store.remove([row.key for row in near])
        _check_rows("rows() after removing all", store.rows(), [])
        store.write(near[:1])
        _check_rows("rows() after writing again", store.rows(), near[:1])


def check_many_rows_come_once_each(make: MakeStore) -> None:
    """More rows than a page holds, from `rows` and from `select`."""
    rows = [_row(Record(id=f"r{n:04}", text="x", metadata={"first": n == 0})) for n in range(_MANY)]
    with closing(make()) as store:
        store.write(rows)
        _check_keys("rows()", store.rows(), rows)
        _check_keys("select()", store.select(field("first").is_in([False])), rows[1:])
        store.remove([row.key for row in rows[:-2]])
        _check_rows("rows() after remove", store.rows(), rows[-2:])


def check_select_returns_exactly_the_matching_rows(make: MakeStore) -> None:
    """Each condition means what `Predicate.matches` says; revisions are selected like any row."""
    rows = hostile_rows()
    with closing(make()) as store:
        store.write(rows)
        for predicate in hostile_predicates():
            shown = f"({str(predicate)[:200]})"
            matching = [row for row in rows if predicate.matches(row.record)]
            _check_keys("select" + shown, store.select(predicate), matching)
            _require(isinstance(store.can(predicate), bool), f"can{shown} is no boolean")


def check_scrubbing_loses_no_row(make: MakeStore) -> None:
    """What was not removed is read back after `scrub`, and the store can be written again."""
    rows = [_row(Record(id=f"r{n}", text=f"text {n}", metadata={"n": n})) for n in range(5)]
    with closing(make()) as store:
        store.write(rows)
        store.remove([rows[0].key])
        store.scrub()
        store.write(rows[:1])
        _check_rows("select() after scrub", store.select(field("n") <= 1), rows[:2])


CHECKS: tuple[Check, ...] = (
    check_every_field_is_read_back,
    check_every_value_keeps_its_type,
    check_any_key_is_a_row_of_its_own,
    check_vectors_are_kept,
    check_a_write_replaces_the_row_whole,
    check_a_removal_takes_the_named_rows_alone,
    check_many_rows_come_once_each,
    check_select_returns_exactly_the_matching_rows,
    check_scrubbing_loses_no_row,
)


def hostile_rows() -> list[Row]:
    """Rows on which a careless translation of a condition gives itself away."""
    values: tuple[Any, ...] = (*_WORDS, *_NUMBERS, True, False, *_MOMENTS, *_LISTS)
    records = [
        *(Record(id=f"v {n}", text="x", metadata={"v": value}) for n, value in enumerate(values)),
        *(Record(id=f"scope {path}", text="x", scope=path) for path in _PATHS),
        *(Record(id=name, text="x", source_type=name) for name in _NAMES),
        *(Record(id=f"at {n}", text="x", created_at=at, valid_until=at) for n, at in enumerate(_MOMENTS)),
        Record(id="same", text="x", tenant="other"),
        Record(id="same", text="x", version="2", audience=("ops", "sales"), supersedes=("a", "a|b")),
        Record(id="same", text="x", token_count=3, jurisdiction="IN"),
    ]
    return [*map(_row, records), _row(records[0], 1), _row(records[-1], 4)]


def hostile_predicates() -> Iterator[Predicate]:
    """Every operator with every kind of operand, nested, empty, and very long."""
    v, created, until = field("v"), field("created_at"), field("valid_until")
    yield from (EVERY, NOTHING, everyone, ~everyone, scope(), scope(""), v.is_in([]), v.not_in([]))
    for one in (*_WORDS[::2], *_NUMBERS, True, False, *_MOMENTS[::2]):
        yield from (v == one, v != one, v.contains(one), v.is_in([one, "a"]))
        yield from () if isinstance(one, bool) else (v < one, v >= one)
    for name in _NAMES:
        yield from (field("id") == name, field("source_type").is_in([name, 1]))
    for at in (*_MOMENTS, *(moment + timedelta(microseconds=1) for moment in _MOMENTS[:-1])):
        yield from (created == at, created < at, until >= at, created.is_in([at]))
    for path in ("acme", "acme/ops", "1", "é", "nobody"):
        yield from (scope(path), ~scope(path), scope(path, "acme-corp", inherit=True))
    for name in ("v", "scope", "audience", "supersedes", "created_at", "token_count", "nobody"):
        yield from (field(name).exists(), ~field(name).exists())
    yield from (field("audience").contains("ops"), field("supersedes").contains("a|b"), v <= "a", v > 3)
    yield from ((field("tenant") == "other") | (field("token_count") == 3.0), ~((v == 1) | (v > "a")))
    numbers = range(2_000)
    yield from (v.is_in([*numbers, "a"]), v.not_in(numbers))
    yield from (Or.of(*(v == n for n in numbers)), And.of(*(v != n for n in numbers)))


def _row(record: Record, revision: int = 0) -> Row:
    return Row(record, _vector(f"{record.key} {revision}"), revision)


def _vector(seed: str) -> Vector:
    angle = float(sum(seed.encode()))
    return np.asarray([np.cos(angle), np.sin(angle), 0], np.float32)


def _check_round_trip(make: MakeStore, rows: list[Row]) -> None:
    with closing(make()) as store:
        store.write(rows)
        _check_rows("rows()", store.rows(), rows)


def _check_rows(call: str, given: Iterable[Row], wanted: Iterable[Row]) -> None:
    found, expected = list(given), {row.key: row for row in wanted}
    _check_keys(call, found, expected.values())
    for row in found:
        other = expected[row.key]
        for f in fields(Record):
            one, two = (_exactly(getattr(each.record, f.name)) for each in (row, other))
            _require(one == two, f"{call}, {row.key}, {f.name}: wrote {two!r:.300}, read {one!r:.300}")
        kept = row.vector.shape == other.vector.shape and np.allclose(row.vector, other.vector, 1e-6, 1e-7)
        _require(kept and row.vector.dtype == np.float32, f"{call}, {row.key}: vector {row.vector}")


def _check_keys(call: str, given: Iterable[Row], wanted: Iterable[Row]) -> None:
    found, expected = (Counter(row.key for row in rows) for rows in (given, wanted))
    wrong = f"missing {sorted(expected - found)}, too many {sorted(found - expected)}"
    _require(found == expected, f"{call}: {wrong:.2000}")


def _exactly(value: Any) -> Any:
    """A value together with its type, since True == 1 == 1.0 in Python."""
    if isinstance(value, Mapping):
        return {key: _exactly(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_exactly(one) for one in value]
    if isinstance(value, Slot):
        return (value.subject, value.attribute, _exactly(value.value), value.inferred)
    return (type(value).__name__, value)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)
