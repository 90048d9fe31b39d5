"""Hypothesis strategies for hostile records and for conditions on them, shared by the property tests.

Records miss keys, hold several types under one key, and carry values that compare in surprising ways
(`True`, `1`, `1.0`, `"1"`; whole numbers that no double holds; two spellings of one accented word).
Pools are small on purpose, so that random conditions meet random records often.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ctxarith import Record, Slot, everyone, field, scope
from ctxarith.model import TIME_FIELDS
from ctxarith.predicate import Predicate
from tests.conftest import NOW

# Words that stemming leaves alone: a text holds one of them, or it does not.
WORDS = ("pump", "valve", "lamp", "fund")
ODD_WORDS = ("🦆", "---", "日本", "ગુજરાતી", "cafe\u0301", "KYO-H12", "<|endoftext|>")

METADATA_KEYS = ("kind", "year", "tags", "seen")
MISSING_KEY = "nobody_has_it"
CORE_KEYS = ("id", "version", "tenant", "scope", "source_id", "source_type", "jurisdiction")
LIST_KEYS = ("audience", "supersedes")
KEYS = (*METADATA_KEYS, MISSING_KEY, *CORE_KEYS, *LIST_KEYS, *TIME_FIELDS)

IDS = ("r1", "r2", "r3", "o'brien", 'a"b', "*", "日本", "a|b%", "7b1f0c52-9a44")
VERSIONS = ("1", "2", "10", "v9", "v10")
PATHS = (
    "",
    "acme",
    "acme/ops",
    "acme/ops/kyoto",
    "acme/opsx",
    "acme-corp",
    "acme-corp/ops",
    "1",
    "11",
    "é/日本",
)
GROUPS = ("ops", "sales", "ops-admin")
PLACES = ("IN", "JP", "in")
SOURCE_TYPES = ("contract", "mail")
SUBJECTS = ("lead-1", "lead-2")
ATTRIBUTES = ("fee", "batch")

_DAY = timedelta(days=1)
_MICRO = timedelta(microseconds=1)
DATES = (
    NOW - 400 * _DAY,
    NOW - 30 * _DAY,
    NOW - _DAY,
    NOW - _MICRO,
    NOW,
    NOW + _MICRO,
    NOW + 30 * _DAY,
)
FAR_DATES = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
)
ZONES = (UTC, timezone(timedelta(hours=9)), timezone(-timedelta(hours=5)))

NUMBERS: tuple[int | float, ...] = (
    *(0, 1, -1, 3, 2026, 2**53, 2**53 + 1, 2**63 - 1, -(2**63) + 1),
    *(-0.0, 1.0, 3.0, 0.1, 0.1 + 0.2, 2.0**53, 1e308, -5e-324),
)
STRINGS = (
    "",
    " ",
    "a",
    "A",
    "1",
    "3",
    "true",
    "2026-06-15",
    "é",
    "e\u0301",
    "日本",
    "z\U0001f986",
    "$in",
    "%",
)


_NEAR = tuple(moment.astimezone(zone) for moment in DATES for zone in ZONES)


def texts() -> SearchStrategy[str]:
    """Up to three words in a row; also nothing at all, and words of signs alone."""
    word = st.sampled_from((*WORDS, *WORDS, *ODD_WORDS))
    return st.lists(word, max_size=3).map(" ".join)


def times(*, far: bool = True) -> SearchStrategy[datetime]:
    """Aware datetimes, most of them around the tests' present, some with an offset."""
    return st.sampled_from((*_NEAR, *FAR_DATES) if far else _NEAR)


def scalars() -> SearchStrategy[Any]:
    """One metadata value of any kind."""
    return st.sampled_from((*STRINGS, *NUMBERS, True, False, *_NEAR[:9], *FAR_DATES, NOW.date()))


def lists() -> SearchStrategy[list[Any]]:
    """A metadata list of one kind, also an empty one."""
    whole = [n for n in NUMBERS if isinstance(n, int)]
    broken = [n for n in NUMBERS if isinstance(n, float)]
    pools: tuple[Sequence[Any], ...] = (STRINGS, whole, broken, (True, False), _NEAR)
    return st.sampled_from(pools).flatmap(lambda pool: st.lists(st.sampled_from(pool), max_size=2))


def metadata() -> SearchStrategy[dict[str, Any]]:
    """Any kind of value under any key; missing keys, `None` and empty lists among them."""
    value = st.one_of(st.none(), scalars(), scalars(), lists())
    return st.fixed_dictionaries({}, optional=dict.fromkeys(METADATA_KEYS, value))


def anything() -> SearchStrategy[Any]:
    """What a caller might pass by mistake: JSON of any shape, and Python objects that are no JSON."""
    words = ("id", "kind", "created_at", "scope", "$and", "$or", "$not", "$eq", "$in", "$exists", "$gt")
    slot = ("subject", "attribute", "value", "inferred")
    atom = st.one_of(
        st.none(),
        st.booleans(),
        st.integers() | st.integers(10**300, 10**301) | st.floats(),
        st.text(max_size=4) | st.sampled_from((*words, *STRINGS)),
        st.binary(max_size=2),
        st.datetimes() | st.dates() | st.timedeltas() | st.uuids() | st.complex_numbers(),
    )
    keys = st.sampled_from((*words, *slot)) | st.text(max_size=4) | st.integers(0, 3)
    return st.recursive(
        atom,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.tuples(inner), st.dictionaries(keys, inner, max_size=3)
        ),
        max_leaves=5,
    )


def slots() -> SearchStrategy[list[Slot]]:
    """Facts of a few subjects, asserted or only mentioned."""
    pool = [Slot(s, a, v) for s in SUBJECTS for a in ATTRIBUTES for v in (None, "a", 1)]
    return st.lists(st.sampled_from(pool), max_size=2, unique_by=lambda slot: (slot.subject, slot.attribute))


def record(
    *,
    ids: Sequence[str] = IDS,
    tenants: Sequence[str] = ("default",),
    versions: Sequence[str] = ("1",),
    facts: bool = False,
    guarded: bool = True,
) -> SearchStrategy[Record]:
    """One record. `facts` adds slots and links to ids that stand earlier in `ids` (so never a loop).

    `guarded` adds audience, jurisdiction, source type, embargo and retention.
    """
    perhaps = st.none() | times()
    given: dict[str, SearchStrategy[Any]] = {
        "id": st.sampled_from(ids),
        "text": texts(),
        "tenant": st.sampled_from(tenants),
        "version": st.sampled_from(versions),
        "scope": st.sampled_from(PATHS),
        "metadata": metadata(),
    }
    given |= dict.fromkeys(("created_at", "valid_from", "valid_until"), perhaps)
    if facts:
        given |= {"slots": slots(), "supersedes": st.lists(st.sampled_from(ids), max_size=2)}
    if guarded:
        given |= {
            "audience": st.lists(st.sampled_from(GROUPS), max_size=2),
            "jurisdiction": st.sampled_from((None, *PLACES)),
            "source_type": st.sampled_from((None, *SOURCE_TYPES)),
            "embargo_until": perhaps,
            "retain_until": perhaps,
        }

    def made(fields: dict[str, Any]) -> Record:
        start, end = fields["valid_from"], fields["valid_until"]
        if start is not None and end is not None:
            fields |= {"valid_from": min(start, end), "valid_until": max(start, end)}
        if facts:
            earlier = ids[: ids.index(fields["id"])]
            fields["supersedes"] = [rid for rid in fields["supersedes"] if rid in earlier]
        return Record(**fields)

    return st.fixed_dictionaries(given).map(made)


def records(
    *,
    min_size: int = 0,
    max_size: int = 6,
    ids: Sequence[str] = IDS,
    tenants: Sequence[str] = ("default",),
    versions: Sequence[str] = ("1",),
    facts: bool = False,
    guarded: bool = True,
) -> SearchStrategy[list[Record]]:
    """Records with different keys (tenant, id, version), ready for one `add`; see `record`."""
    one = record(ids=ids, tenants=tenants, versions=versions, facts=facts, guarded=guarded)
    return st.lists(one, min_size=min_size, max_size=max_size, unique_by=lambda made: made.key)


def rivals(
    *, min_size: int = 0, max_size: int = 7, tenants: Sequence[str] = ("default",)
) -> SearchStrategy[list[Record]]:
    """Records of few places, words and dates, so that most are seen and many replace each other.

    They have slots, links (never in a loop), several versions of an id, and now and then an end.
    """
    ids = IDS[:5]
    fields: dict[str, SearchStrategy[Any]] = {
        "id": st.sampled_from(ids),
        "version": st.sampled_from(("1", "2", "10")),
        "tenant": st.sampled_from(tenants),
        "text": st.sampled_from(("pump", "valve", "pump valve", "lamp", "---")),
        "scope": st.sampled_from(("", "acme", "acme/ops", "acme/ops/kyoto")),
        "created_at": st.sampled_from((None, *DATES)),
        "valid_from": st.sampled_from((None, None, None, *DATES[:5])),
        "valid_until": st.sampled_from((None, None, None, None, NOW, NOW + _DAY)),
        "slots": st.lists(
            st.sampled_from([Slot("lead-1", a, v) for a in ATTRIBUTES for v in ("a", "b", None)]),
            max_size=2,
            unique_by=lambda slot: slot.attribute,
        ),
        "supersedes": st.lists(st.sampled_from(ids), max_size=1),
        "metadata": st.fixed_dictionaries(
            {}, optional={"kind": st.sampled_from(("a", "b", 1)), "year": st.sampled_from((2025, 2026.0))}
        ),
        "audience": st.sampled_from(((), (), (), ("ops",))),
    }

    def made(given: dict[str, Any]) -> Record:
        given["supersedes"] = [rid for rid in given["supersedes"] if rid in ids[: ids.index(given["id"])]]
        return Record(**given)

    one = st.fixed_dictionaries(fields).map(made)
    return st.lists(one, min_size=min_size, max_size=max_size, unique_by=lambda made: made.key)


def scopes() -> SearchStrategy[Predicate]:
    """A node, a union of nodes or none, with and without what hangs on the ancestors."""
    paths = st.lists(st.sampled_from(PATHS), max_size=2)
    return st.builds(lambda given, inherit: scope(given, inherit=inherit), paths, st.booleans())


_ANY_KIND: tuple[Callable[[Any, Any], Any], ...] = (operator.eq, operator.ne)
_ORDERED: tuple[Callable[[Any, Any], Any], ...] = (operator.lt, operator.le, operator.gt, operator.ge)


def comparisons(keys: Sequence[str] = KEYS) -> SearchStrategy[Predicate]:
    """One comparison, membership, containment or existence over one of the keys."""
    by_key = {name: _comparison(name) for name in keys}
    return st.sampled_from(keys).flatmap(by_key.__getitem__)


def _comparison(name: str) -> SearchStrategy[Predicate]:
    operand = operands(name)
    ordered = operand.filter(lambda value: not isinstance(value, bool))
    several = st.lists(operand, max_size=3)

    def compared(relation: Callable[[Any, Any], Any], value: object) -> Predicate:
        made: Predicate = relation(field(name), value)
        return made

    return st.one_of(
        st.builds(compared, st.sampled_from(_ANY_KIND), operand),
        st.builds(compared, st.sampled_from(_ORDERED), ordered),
        operand.map(field(name).contains),
        several.map(field(name).is_in),
        several.map(field(name).not_in),
        st.just(field(name).exists()),
    )


def operands(name: str) -> SearchStrategy[Any]:
    """What a key may be compared with: times for times, for the rest the key's own pool and all others."""
    if name in TIME_FIELDS:
        return times() | st.sampled_from((NOW.date(), NOW.isoformat(), int(NOW.timestamp())))
    own: dict[str, Sequence[str]] = {
        "id": IDS,
        "version": VERSIONS,
        "tenant": ("default", "acme", "beta"),
        "scope": PATHS,
        "source_id": IDS,
        "source_type": SOURCE_TYPES,
        "jurisdiction": PLACES,
        "audience": GROUPS,
        "supersedes": IDS,
    }
    return st.sampled_from(own[name]) | scalars() if name in own else scalars()


def predicates(*, keys: Sequence[str] = KEYS, max_leaves: int = 6) -> SearchStrategy[Predicate]:
    """Conditions with every operator, nested with `&`, `|` and `~`; scopes and `everyone` among them."""
    leaf = comparisons(keys) | comparisons(keys) | scopes() | st.just(everyone)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a & b, inner, inner),
            st.builds(lambda a, b: a | b, inner, inner),
            st.builds(lambda a: ~a, inner),
        ),
        max_leaves=max_leaves,
    )


_DICT_ANY_KIND = ("$eq", "$ne", "$contains", "$not_contains")
_DICT_ORDERED = ("$gt", "$gte", "$lt", "$lte")


def _operator_dict(name: str) -> SearchStrategy[Any]:
    operand = operands(name)
    ordered = operand.filter(lambda value: not isinstance(value, bool))

    def one(op: str, value: object) -> dict[str, object]:
        return {op: value}

    return st.one_of(
        operand,
        st.builds(one, st.sampled_from(_DICT_ANY_KIND), operand),
        st.builds(one, st.sampled_from(_DICT_ORDERED), ordered),
        st.builds(one, st.sampled_from(("$in", "$nin")), st.lists(operand, max_size=3)),
        st.builds(one, st.just("$exists"), st.booleans()),
        st.builds(lambda low, other: {"$gte": low, "$ne": other}, ordered, operand),
    )


def _plain_filter(keys: Sequence[str]) -> SearchStrategy[dict[str, Any]]:
    by_key = {name: _operator_dict(name) for name in keys}
    names = st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: by_key[name] for name in chosen}))


def filters(*, keys: Sequence[str] = KEYS, max_leaves: int = 4) -> SearchStrategy[dict[str, Any]]:
    """Conditions as dicts, with every operator, nested with `$and`, `$or` and `$not`."""
    plain = _plain_filter(keys)
    return st.recursive(
        plain,
        lambda inner: st.one_of(
            st.builds(lambda parts: {"$and": parts}, st.lists(inner, min_size=1, max_size=2)),
            st.builds(lambda parts: {"$or": parts}, st.lists(inner, min_size=1, max_size=2)),
            st.builds(lambda part: {"$not": part}, inner),
            st.builds(lambda part, beside: {**beside, "$or": [part]}, inner, plain),
        ),
        max_leaves=max_leaves,
    )
