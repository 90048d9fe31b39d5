from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import (
    ArgumentError,
    Corpus,
    Decision,
    Policy,
    Principal,
    PrincipalRequired,
    Record,
    ScopeError,
    everyone,
    field,
    semantic,
)
from ctxarith.policy import permission
from tests.conftest import NOW, MakeCorpus
from tests.fakes import WordEmbedder
from tests.strategies import GROUPS, PATHS, PLACES, SOURCE_TYPES, records

DAY = timedelta(days=1)
MICRO = timedelta(microseconds=1)
ACME = Principal("acme")


def record(rid: str, **fields: Any) -> Record:
    return Record(**{"id": rid, "text": "pump", "tenant": "acme", **fields})


def memory(*rows: Record, **options: Any) -> Corpus:
    corpus = Corpus.in_memory(**{"clock": lambda: NOW, "embedder": WordEmbedder(), **options})
    corpus.add(rows)
    return corpus


def visible(
    *rows: Record, principal: Principal = ACME, policy: Policy | None = None, at: datetime | None = None
) -> list[str]:
    """The ids that a caller may see, decided twice: from the predicate, and by asking a corpus."""
    allowed = permission(policy or Policy(), principal, now=NOW, at=at).visible
    expected = [row.id for row in rows if allowed.matches(row)]
    with memory(*rows, policy=policy) as corpus:
        result = corpus.run(semantic & everyone, "pump", principal=principal, as_of=at)
        assert sorted(hit.id for hit in result.hits) == sorted(expected)
        if at is None:
            ids = [row.id for row in rows]
            assert [got.id for got in corpus.get(ids, principal=principal)] == expected
            assert corpus.count(principal=principal) == len(expected)
    return expected


# Tenant


def test_a_caller_sees_the_records_of_its_tenant_alone() -> None:
    rows = [
        record("r1"),
        record("r2", tenant="acme-corp"),
        record("r3", tenant="Acme"),
        record("r4", tenant="beta"),
    ]
    assert visible(*rows) == ["r1"]
    assert visible(*rows, principal=Principal("acme-corp")) == ["r2"]
    assert visible(*rows, principal=Principal(" acme")) == []
    assert visible(*rows, principal=Principal("*")) == []


@pytest.mark.parametrize("tenant", ["", "   ", "\t", None, 5, b"acme", ["acme"]])
def test_a_blank_tenant_is_refused_and_never_means_everyone(tenant: Any) -> None:
    with pytest.raises(ArgumentError, match="tenant"):
        Principal(tenant)


@pytest.mark.parametrize("tenant", ["", "  ", 5])
def test_a_blank_tenant_cannot_delete_retire_or_purge(tenant: Any) -> None:
    with memory(record("r1")) as corpus:
        for write in (corpus.delete, corpus.retire, corpus.purge):
            with pytest.raises(ArgumentError, match="tenant"):
                write("r1", tenant=tenant)
        assert corpus.count() == 1


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"tenant": "beta"}, []),
        ({"$or": [{"tenant": "beta"}, {"tenant": "acme"}]}, ["r1"]),
        ({"tenant": {"$ne": "acme"}}, []),
        ({"$not": {"tenant": "acme"}}, []),
        ({"$or": [{"$not": {"tenant": "nobody"}}]}, ["r1"]),
    ],
)
def test_a_filter_never_reaches_another_tenant(
    condition: dict[str, Any], expected: list[str]
) -> None:  # TN-03
    with memory(record("r1"), record("r9", tenant="beta")) as corpus:
        result = corpus.retrieve("pump", principal=ACME, where=condition)
        assert [hit.id for hit in result.hits] == expected
        assert corpus.count(condition, principal=ACME) == len(expected)
        assert "r9" not in str(result.explain())
        assert str(result.why("r9")) == str(result.why("unknown")).replace("unknown", "r9")


@pytest.mark.parametrize(
    "text",
    [
        "weather #tenant:beta",
        '" OR tenant:beta',
        "x) | (@tenant:{beta})",
        "C:\\repo\\main.py",
        "a/b:c*",
        "%_",
        "'; DROP TABLE records; --",
        "*",
        "\x00\ud800",
        "",
    ],
    ids=ascii,
)
def test_the_text_of_a_question_is_only_text(corpus: Corpus, text: str) -> None:  # TN-04
    corpus.add(
        [record("r1", text="weather in main.py"), record("r9", tenant="beta", text="weather in main.py")]
    )
    result = corpus.retrieve(text, principal=ACME)
    assert {hit.id for hit in result.hits} <= {"r1"}
    assert "r1" in {hit.id for hit in corpus.retrieve("weather", principal=ACME).hits}


TENANTS = (
    "7b1f0c52-9a44-4e0e-8f10-5d2c6a7e9b31",
    "main",
    "o'brien",
    'a"b',
    "_",
    "*",
    "日本",
    "a|b",
    "%_",
    "default",
)


@pytest.mark.parametrize("reopened", [False, True])
def test_every_tenant_and_id_that_can_be_written_can_be_read(tmp_path: Path, reopened: bool) -> None:  # TN-05
    corpus = Corpus.open(tmp_path, embedder=WordEmbedder(), clock=lambda: NOW)
    corpus.add([record(name, tenant=name) for name in TENANTS])
    if reopened:
        corpus.close()
        corpus = Corpus.open(tmp_path, embedder=WordEmbedder(), clock=lambda: NOW)
    with corpus:
        for name in TENANTS:
            asker = Principal(name)
            assert [hit.id for hit in corpus.retrieve("pump", principal=asker).hits] == [name]
            assert [got.id for got in corpus.get(TENANTS, principal=asker)] == [name]
        assert corpus.delete("*", tenant="*") == 1
        assert [corpus.count(principal=Principal(name)) for name in TENANTS] == [1, 1, 1, 1, 1, 0, 1, 1, 1, 1]


# Zero configuration


def test_one_tenant_and_no_policy_need_no_principal(corpus: Corpus) -> None:  # TN-05
    corpus.add([Record(id="r1", text="pump")])
    assert [hit.id for hit in corpus.retrieve("pump").hits] == ["r1"]
    assert corpus.count() == 1
    assert corpus.delete("r1") == 1


def test_the_only_tenant_may_have_any_name() -> None:
    with memory(record("r1")) as corpus:
        assert [hit.id for hit in corpus.retrieve("pump").hits] == ["r1"]


def test_an_empty_corpus_answers_with_nothing() -> None:
    with memory() as corpus:
        assert corpus.retrieve("pump").hits == ()
        assert (corpus.count(), corpus.get("r1"), corpus.delete("r1")) == (0, [], 0)


READS: dict[str, Callable[[Corpus], object]] = {
    "retrieve": lambda corpus: corpus.retrieve("pump"),
    "run": lambda corpus: corpus.run(semantic & everyone, "pump"),
    "plan": lambda corpus: corpus.plan(semantic & everyone),
    "explain the plan": lambda corpus: corpus.explain(semantic & everyone),
    "explain the run": lambda corpus: corpus.explain(semantic & everyone, "pump"),
    "get": lambda corpus: corpus.get("r1"),
    "count": lambda corpus: corpus.count(),
    "history": lambda corpus: corpus.history("l1", "fee"),
}
WRITES: dict[str, Callable[[Corpus], object]] = {
    "delete": lambda corpus: corpus.delete("r1"),
    "delete a source": lambda corpus: corpus.delete(source_id="r1"),
    "retire": lambda corpus: corpus.retire("r1"),
    "purge": lambda corpus: corpus.purge("r1"),
    "holds": lambda corpus: corpus.holds("r1"),
}


@pytest.mark.parametrize("call", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
def test_a_second_tenant_makes_every_call_say_for_whom(call: Callable[[Corpus], object]) -> None:
    with memory(record("r1"), record("r2", tenant="beta")) as corpus:
        with pytest.raises(PrincipalRequired, match="more than one tenant"):
            call(corpus)
        assert corpus.count(principal=ACME) == 1


@pytest.mark.parametrize("call", READS.values(), ids=READS)
def test_a_policy_makes_every_question_name_its_principal(call: Callable[[Corpus], object]) -> None:
    with (
        memory(record("r1"), policy=Policy()) as corpus,
        pytest.raises(PrincipalRequired, match="policy is set"),
    ):
        call(corpus)


def test_the_second_tenant_counts_from_its_first_record_to_its_last() -> None:
    with memory(record("r1")) as corpus:
        corpus.add([record("r2", tenant="beta")])
        with pytest.raises(PrincipalRequired):
            corpus.count()
        corpus.delete("r2", tenant="beta")
        assert corpus.count() == 1


def test_nothing_is_embedded_for_a_caller_who_is_refused() -> None:
    embedder = WordEmbedder()
    with memory(record("r1"), policy=Policy(), embedder=embedder) as corpus:
        seen: list[str] = []
        embedder.embed_query = seen.append  # type: ignore[method-assign, assignment]
        with pytest.raises(PrincipalRequired):
            corpus.retrieve("pump")
        assert seen == []


@pytest.mark.parametrize("principal", ["acme", {"tenant": "acme"}, True, Policy()])
def test_a_principal_is_a_principal(principal: Any) -> None:
    with memory(record("r1")) as corpus, pytest.raises(ArgumentError, match="principal"):
        corpus.retrieve("pump", principal=principal)


@pytest.mark.parametrize("policy", ["strict", {}, True, ACME])
def test_a_policy_is_a_policy(policy: Any) -> None:
    with pytest.raises(ArgumentError, match="policy"):
        memory(policy=policy)


def test_every_read_takes_a_principal_and_every_removal_a_tenant() -> None:
    for name in ("retrieve", "run", "plan", "get", "count", "history"):
        assert "principal" in inspect.signature(getattr(Corpus, name)).parameters, name
    for name in ("delete", "retire", "purge", "holds"):
        assert "tenant" in inspect.signature(getattr(Corpus, name)).parameters, name


# Scopes


def tree() -> list[Record]:
    places = {
        "root": "",
        "org": "org",
        "team": "org/team",
        "below": "org/team/a",
        "side": "org/side",
        "twin": "org/teams",
    }
    return [record(rid, scope=path) for rid, path in places.items()]


def test_scopes_left_out_are_the_whole_tenant_and_none_is_nothing() -> None:
    assert visible(*tree()) == ["root", "org", "team", "below", "side", "twin"]
    assert visible(*tree(), principal=Principal("acme", scopes=None)) == visible(*tree())
    assert visible(*tree(), principal=Principal("acme", scopes=[])) == []
    assert visible(*tree(), principal=Principal("acme", scopes=())) == []


def test_a_grant_is_a_subtree_with_what_flows_down_to_it() -> None:
    assert visible(*tree(), principal=Principal("acme", scopes=["org/team"])) == [
        "root",
        "org",
        "team",
        "below",
    ]


def test_a_principal_may_decline_what_flows_down() -> None:
    closed = Principal("acme", scopes=["org/team"], inherit_grants=False)
    assert visible(*tree(), principal=closed) == ["team", "below"]


def test_several_grants_are_a_union() -> None:
    both = Principal("acme", scopes=["org/side", "org/team/a"], inherit_grants=False)
    assert visible(*tree(), principal=both) == ["below", "side"]


@pytest.mark.parametrize("scopes", [[""], ["/"], ["", "org/team"]])
def test_a_grant_of_the_root_is_a_grant_of_all(scopes: list[str]) -> None:
    root = Principal("acme", scopes=scopes, inherit_grants=False)
    assert visible(*tree(), principal=root) == visible(*tree())


def test_a_question_narrows_its_grants_and_never_widens_them() -> None:
    granted = Principal("acme", scopes=["org/team"], inherit_grants=False)
    with memory(*tree()) as corpus:

        def found(scope: Any) -> list[str]:
            return sorted(hit.id for hit in corpus.retrieve("pump", principal=granted, scope=scope).hits)

        assert found(None) == found("") == found("org") == found(["", "org/side"]) == ["below", "team"]
        assert found("org/team/a") == ["below"]
        assert found("org/side") == found([]) == []


@pytest.mark.parametrize("name", ["groups", "scopes", "jurisdictions"])
@pytest.mark.parametrize("value", ["ops", b"ops", 5, [1], ["ops", None]])
def test_a_right_is_a_list_of_names_and_never_one_string(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=name):
        Principal("acme", **{name: value})


def test_a_bad_path_is_no_grant() -> None:
    with pytest.raises(ScopeError):
        Principal("acme", scopes=["acme/../beta"])


@pytest.mark.parametrize("value", ["no", 0, None])
def test_inheritance_is_true_or_false(value: Any) -> None:
    with pytest.raises(ArgumentError, match="inherit_grants"):
        Principal("acme", inherit_grants=value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Principal("acme", user=5),  # type: ignore[arg-type]
        lambda: Principal("acme", scope_version=None),  # type: ignore[arg-type]
        lambda: Policy(version=None),  # type: ignore[arg-type]
    ],
    ids=["user", "scope_version", "version"],
)
def test_what_enters_a_cache_key_is_text(make: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError):
        make()


# Audience, jurisdiction, source type


def test_an_audience_is_everyone_or_one_of_the_callers_groups() -> None:
    rows = [
        record("all"),
        record("ops", audience=["ops"]),
        record("two", audience=["hr", "ops"]),
        record("hr", audience="hr"),
    ]
    assert visible(*rows) == ["all"]
    assert visible(*rows, principal=Principal("acme", groups=["ops"])) == ["all", "ops", "two"]
    assert visible(*rows, principal=Principal("acme", groups=["ops", "hr"])) == ["all", "ops", "two", "hr"]
    assert visible(*rows, principal=Principal("acme", groups=["OPS", "op", "ops-admin"])) == ["all"]


def test_a_record_without_a_jurisdiction_applies_everywhere_unless_the_policy_says_no() -> None:
    rows = [record("any"), record("in", jurisdiction="IN"), record("jp", jurisdiction="JP")]
    indian, nowhere = Principal("acme", jurisdictions=["IN"]), Principal("acme", jurisdictions=[])
    labelled = Policy(require_jurisdiction=True)
    assert visible(*rows) == ["any", "in", "jp"]
    assert visible(*rows, principal=indian) == ["any", "in"]
    assert visible(*rows, principal=nowhere) == ["any"]
    assert visible(*rows, policy=labelled) == ["in", "jp"]
    assert visible(*rows, principal=indian, policy=labelled) == ["in"]
    assert visible(*rows, principal=nowhere, policy=labelled) == []


def test_a_policy_may_name_the_kinds_of_source() -> None:
    rows = [record("none"), record("mail", source_type="mail"), record("contract", source_type="contract")]
    assert visible(*rows, policy=Policy(source_types=("contract",))) == ["contract"]
    assert visible(*rows, policy=Policy(source_types=())) == []
    assert visible(*rows, policy=Policy()) == ["none", "mail", "contract"]


def test_one_string_is_no_list_of_source_types() -> None:
    with pytest.raises(ArgumentError, match="source_types"):
        Policy(source_types="contract")


# Dates: validity is half open, embargo and retention are judged today


@pytest.mark.parametrize(
    ("fields", "is_visible"),
    [
        ({"valid_from": NOW}, True),
        ({"valid_from": NOW + MICRO}, False),
        ({"valid_until": NOW + MICRO}, True),
        ({"valid_until": NOW}, False),
        ({"valid_from": NOW - DAY, "valid_until": NOW + DAY}, True),
        ({"valid_from": NOW, "valid_until": NOW}, False),
        ({"embargo_until": NOW}, True),
        ({"embargo_until": NOW + MICRO}, False),
        ({"retain_until": NOW + MICRO}, True),
        ({"retain_until": NOW}, False),
        ({"created_at": NOW + DAY}, True),
        ({"created_at": datetime(1, 1, 1, tzinfo=UTC)}, True),
    ],
    ids=str,
)
def test_the_dates_of_a_record(fields: dict[str, Any], is_visible: bool) -> None:
    assert visible(record("r1", **fields)) == (["r1"] if is_visible else [])


@pytest.mark.parametrize(
    ("fields", "is_visible"),
    [
        ({"created_at": NOW - 2 * DAY}, False),
        ({"created_at": NOW - 10 * DAY}, True),
        ({"created_at": NOW - 11 * DAY}, True),
        ({"valid_from": NOW - 2 * DAY}, False),
        ({"valid_from": NOW - 11 * DAY}, True),
        ({}, True),
        ({"valid_until": NOW - 5 * DAY}, True),
        ({"valid_until": NOW - 10 * DAY}, False),
        ({"created_at": NOW - 20 * DAY, "valid_from": NOW - 2 * DAY}, False),
        ({"created_at": NOW - 2 * DAY, "valid_from": NOW - 20 * DAY}, False),
    ],
    ids=str,
)
def test_looking_back_moves_validity_and_assertion(fields: dict[str, Any], is_visible: bool) -> None:
    assert visible(record("r1", **fields), at=NOW - 10 * DAY) == (["r1"] if is_visible else [])


@pytest.mark.parametrize(
    "fields",
    [
        {"embargo_until": NOW + DAY},
        {"retain_until": NOW - DAY},
        {"audience": ["hr"]},
        {"tenant": "beta"},
        {"jurisdiction": "JP"},
        {"scope": "org/side"},
    ],
    ids=str,
)
def test_looking_back_never_opens_what_is_closed_today(fields: dict[str, Any]) -> None:
    caller = Principal("acme", scopes=["org/team"], jurisdictions=["IN"])
    old = record("r1", **{"scope": "org/team", "created_at": NOW - 90 * DAY, **fields})
    assert visible(old, principal=caller, at=NOW - 30 * DAY) == []


def test_what_lay_under_embargo_then_and_is_open_today_is_seen() -> None:
    assert visible(record("r1", embargo_until=NOW - DAY), at=NOW - 30 * DAY) == ["r1"]


# Decisions and secrets


def test_every_hit_carries_its_decision() -> None:
    caller = Principal("acme", scope_version="s-7")
    with memory(record("r1"), policy=Policy(version="p-3")) as corpus:
        (hit,) = corpus.retrieve("pump", principal=caller).hits
    assert hit.decision == Decision(allowed=True, policy_version="p-3", scope_version="s-7")


def test_not_permitted_and_unknown_are_the_same_answer(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus()
    corpus.add([record("r1"), record("hidden", audience=["hr"]), record("foreign", tenant="beta")])
    result = corpus.retrieve("pump", principal=ACME)
    answers = {str(result.why(rid)).removeprefix(rid) for rid in ("hidden", "foreign", "unknown")}
    assert answers == {": no such record for this caller"}
    assert corpus.get(["hidden", "foreign", "unknown"], principal=ACME) == []
    assert result.drops == ()


def test_a_principal_is_a_value() -> None:
    groups = ["ops"]
    one = Principal("acme", groups=groups, scopes=["a", "b"])
    groups.append("hr")
    assert one == Principal("acme", groups=("ops",), scopes=["a", "b"])
    assert hash(one) == hash(Principal("acme", groups=("ops",), scopes=["a", "b"]))


def test_rights_may_be_given_as_a_set() -> None:
    rights: Any = {"b", "a"}
    assert Principal("acme", groups=rights, scopes=rights) == Principal(
        "acme", groups=["a", "b"], scopes=["a", "b"]
    )


def test_the_policy_of_a_plan_is_shown() -> None:
    with memory(record("r1")) as corpus:
        shown = str(corpus.explain(semantic & everyone & (field("kind") == "lease"), principal=ACME))
    assert "tenant = 'acme'" in shown
    assert "kind = 'lease'" in shown


# Law: what a caller may see, against the rules written out one by one


def permitted(row: Record, who: Principal, policy: Policy, at: datetime | None) -> bool:
    then = NOW if at is None else at
    asserted = row.created_at or row.valid_from
    by_scope = who.scopes is None or any(
        _below(granted, row.scope) or (who.inherit_grants and _below(row.scope, granted))
        for granted in who.scopes
    )
    by_place = (
        not policy.require_jurisdiction
        if row.jurisdiction is None
        else who.jurisdictions is None or row.jurisdiction in who.jurisdictions
    )
    return (
        row.tenant == who.tenant
        and (not row.audience or bool(set(row.audience) & set(who.groups)))
        and by_scope
        and by_place
        and (policy.source_types is None or row.source_type in policy.source_types)
        and (row.embargo_until is None or row.embargo_until <= NOW)
        and (row.retain_until is None or row.retain_until > NOW)
        and (row.valid_from is None or row.valid_from <= then)
        and (row.valid_until is None or row.valid_until > then)
        and (at is None or asserted is None or asserted <= at)
    )


def _below(node: str, path: str) -> bool:
    return node == "" or path == node or path.startswith(node + "/")


def some(names: tuple[str, ...]) -> st.SearchStrategy[list[str] | None]:
    return st.none() | st.lists(st.sampled_from(names), max_size=2)


PRINCIPALS = st.builds(
    Principal,
    st.sampled_from(("acme", "beta")),
    groups=st.lists(st.sampled_from(GROUPS), max_size=2),
    scopes=some(PATHS),
    jurisdictions=some(PLACES),
    inherit_grants=st.booleans(),
)
POLICIES = st.builds(
    Policy,
    source_types=some(SOURCE_TYPES).map(lambda kinds: None if kinds is None else tuple(kinds)),
    require_jurisdiction=st.booleans(),
)


@given(
    records(tenants=("acme", "beta")),
    PRINCIPALS,
    POLICIES,
    st.none() | st.sampled_from((NOW - 30 * DAY, NOW, NOW + 30 * DAY)),
)
def test_a_caller_sees_exactly_what_the_rules_allow(
    rows: list[Record], who: Principal, policy: Policy, at: datetime | None
) -> None:
    allowed = permission(policy, who, now=NOW, at=at)
    assert [allowed.visible.matches(row) for row in rows] == [permitted(row, who, policy, at) for row in rows]
    assert all(allowed.standing.matches(row) for row in rows if allowed.visible.matches(row))
    named = [all(condition.matches(row) for _, condition in allowed.named) for row in rows]
    assert named == [allowed.visible.matches(row) for row in rows]


@pytest.mark.parametrize("name", ["delete", "retire", "purge", "holds", "ids_of"])
def test_a_policy_makes_every_write_say_for_whom(name: str) -> None:
    corpus = Corpus.in_memory(policy=Policy("2"), embedder=WordEmbedder())
    corpus.add([Record(id="a", text="fee")])
    with pytest.raises(PrincipalRequired):
        getattr(corpus, name)("a")
    getattr(corpus, name)("a", tenant="default")
