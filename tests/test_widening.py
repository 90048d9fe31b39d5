"""No filter, scope or name that a caller passes ever reaches a record outside the policy."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ctxarith import (
    Corpus,
    CtxArithError,
    Policy,
    Principal,
    Record,
    Result,
    everyone,
    field,
    lexical,
    rrf,
    scope,
    semantic,
    superseded,
)
from ctxarith.predicate import EVERY, And, Compare, Exists, Not, OneOf, Or, Predicate
from ctxarith.scopes import Everyone, Scope
from tests import strategies
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.test_policy import POLICIES, PRINCIPALS, permitted

QUERY = "pump valve lamp fund"
MANY = settings(max_examples=3 * settings().max_examples)


# Conditions of the caller's own, which lie about what they are


class Yes(Predicate):
    """Lets every record through."""

    def matches(self, record: Record) -> bool:
        return True


class Truthy(Yes):
    """Answers with something that is no bool, and looks like every other condition."""

    def matches(self, record: Record) -> Any:
        return ["yes"]

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class WideScope(Scope):
    def matches(self, record: Record) -> bool:
        return True

    def lowered(self) -> Predicate:
        return EVERY


class WideAnd(And):
    def matches(self, record: Record) -> bool:
        return True

    def __and__(self, other: Predicate) -> Predicate:
        return self

    def __rand__(self, other: Predicate) -> Predicate:
        return self


class WideOr(Or):
    def matches(self, record: Record) -> bool:
        return True


class WideNot(Not):
    def matches(self, record: Record) -> bool:
        return True

    def __invert__(self) -> Predicate:
        return EVERY


class WideCompare(Compare):
    def matches(self, record: Record) -> bool:
        return True


class Anyone(Everyone):
    def __and__(self, other: Predicate) -> Predicate:
        return self


HOSTILE: tuple[Callable[[], Predicate], ...] = (
    Yes,
    Truthy,
    Anyone,
    lambda: WideScope(("nowhere",)),
    lambda: WideAnd((Yes(), EVERY)),
    lambda: WideOr((Compare("tenant", "ne", "acme"), EVERY)),
    lambda: WideNot(Compare("tenant", "eq", "acme")),
    lambda: WideCompare("tenant", "eq", "beta"),
    lambda: Or.of(Yes(), Not(Yes())),
    lambda: Not(And.of(Exists("nobody"), WideScope(()))),
)


def built() -> SearchStrategy[Predicate]:
    """Trees put together by hand, past the operators that would have checked them."""
    names = st.sampled_from(("tenant", "audience", "scope", "embargo_until", "kind"))
    leaf = st.one_of(
        st.builds(Exists, names),
        st.builds(lambda n, v: Compare(n, "ne", v), names, st.sampled_from(("", "acme", "beta"))),
        st.builds(lambda n: OneOf(n, frozenset(), negated=True), names),
        st.sampled_from(HOSTILE).map(lambda make: make()),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(lambda a, b: And((a, b)), inner, inner),
            st.builds(lambda a, b: Or((a, b)), inner, inner),
            st.builds(Not, inner),
        ),
        max_leaves=5,
    )


WHERES: SearchStrategy[Any] = st.one_of(
    strategies.predicates(),
    strategies.filters(),
    built(),
    st.sampled_from(HOSTILE).map(lambda make: make()),
    st.builds(lambda a, b: {"$or": [a, {"$not": b}]}, strategies.filters(), built()),
)
TIMES = st.none() | st.sampled_from((NOW, NOW - 30 * strategies._DAY, NOW + 30 * strategies._DAY))


def met(result: Result) -> set[str]:
    """Everyone whose id, text or name the caller can read anywhere."""
    by = {rid for drop in result.drops for rid in drop.by}
    named = {rid for hit in result.hits for rid in (*hit.replaces, *hit.superseded_by)}
    return {h.id for h in result.hits} | {d.id for d in result.drops} | by | named


def answered(call: Callable[[], Result]) -> Result:
    try:
        return call()
    except CtxArithError:
        reject()


@MANY
@given(
    strategies.records(min_size=1, tenants=("acme", "beta"), facts=True), PRINCIPALS, POLICIES, WHERES, TIMES
)
def test_no_filter_in_any_form_returns_a_record_outside_the_policy(
    rows: list[Record], who: Principal, policy: Policy, where: Any, at: Any
) -> None:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder(), policy=policy)
    corpus.add(rows)
    may_see = {row.id for row in rows if permitted(row, who, policy, at)}
    asks: list[dict[str, Any]] = [{}, {"include_superseded": True, "words": "fuzzy_prefix"}]
    for options in asks:
        asked = {"principal": who, "where": where, "as_of": at, "top": None, "tokens": None, **options}
        result = answered(partial(corpus.retrieve, QUERY, **asked))
        assert met(result) <= may_see
        for row in rows:
            if row.id not in may_see:
                said = str(result.why(row.id))
                assert said == str(result.why("nobody-ever")).replace("nobody-ever", row.id)
    assert corpus.count(where, principal=who) <= sum(permitted(row, who, policy, None) for row in rows)


@MANY
@given(
    strategies.records(min_size=1, tenants=("acme", "beta"), facts=True),
    PRINCIPALS,
    POLICIES,
    built(),
    built(),
)
def test_no_expression_of_the_algebra_returns_a_record_outside_the_policy(
    rows: list[Record], who: Principal, policy: Policy, one: Predicate, other: Predicate
) -> None:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder(), policy=policy)
    corpus.add(rows)
    may_see = {row.id for row in rows if permitted(row, who, policy, None)}
    shapes = [
        (semantic & one & everyone) | (lexical(fuzzy_prefix=True) & other & everyone),
        ((semantic | lexical) & WideScope(("nowhere",)) & one) - other,
        ((semantic | lexical) & (everyone & one) & ~other) - superseded,
        (lexical(exact=True) | semantic(depth=1)) & Anyone() & (one | other),
    ]
    for candidates in shapes:
        result = answered(partial(corpus.run, candidates >> rrf(), QUERY, principal=who))
        assert met(result) <= may_see


# Names that look alike


ALIKE = (
    *(
        "acme",
        "acme-corp",
        "ACME",
        "Acme",
        "acme ",
        "acme%",
        "acme_",
        "acm%",
        "%",
        "*",
        "acme*",
        "acme.",
        "acmé",
    ),
    *(
        "аcme",
        "ａｃｍｅ",
        "acme\u200b",
        "acme\u00ad",
        "ac\u0301me",
        "acme%2Fops",
        "acme%2f..",
        "acme\\ops",
        "ⅿe",
    ),
    *(
        "acme/ops",
        "acme/opsx",
        "acme/ops ",
        "acme-corp/ops",
        "a/acme",
        "acme0",
        "acme.ops",
        "...",
        "acme/...",
    ),
)


def placed(names: Sequence[str], key: str) -> tuple[Corpus, dict[str, str]]:
    """One record at each name; and the one form that each name is kept in, for those that are taken."""
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder())
    forms: dict[str, str] = {}
    for n, name in enumerate(names):
        record = {"id": f"r{n}", "text": "pump", key: name}
        try:
            corpus.add([record])
        except CtxArithError:
            continue
        forms[f"r{n}"] = unicodedata.normalize("NFC", name).strip("/") if key == "scope" else name
    return corpus, forms


def test_a_grant_or_a_question_sees_whole_segments_and_no_look_alike() -> None:
    corpus, forms = placed(ALIKE, "scope")
    assert len(forms) > 20
    for path in ALIKE:
        wanted = unicodedata.normalize("NFC", path).strip("/")
        inside = {rid for rid, form in forms.items() if form == wanted or form.startswith(f"{wanted}/")}
        above = {rid for rid, form in forms.items() if wanted.startswith(f"{form}/")}
        try:
            granted = Principal("default", scopes=[path], inherit_grants=False)
        except CtxArithError:
            assert wanted not in forms.values()
            continue
        by_grant = corpus.retrieve("pump", principal=granted, top=None, tokens=None)
        by_scope = corpus.retrieve("pump", scope=path, top=None, tokens=None)
        flowing = corpus.retrieve("pump", scope=scope(path, inherit=True), top=None, tokens=None)
        assert {hit.id for hit in by_grant.hits} == {hit.id for hit in by_scope.hits} == inside
        assert {hit.id for hit in flowing.hits} == inside | above


def test_a_tenant_is_itself_and_no_look_alike() -> None:
    corpus, forms = placed(ALIKE, "tenant")
    assert len(forms) > 20
    for name in ALIKE:
        try:
            who = Principal(name)
        except CtxArithError:
            continue
        wheres: list[Any] = [None, Yes(), field("tenant").exists(), {"tenant": {"$nin": [name]}}]
        for where in wheres:
            result = corpus.retrieve("pump", principal=who, where=where, top=None, tokens=None)
            assert {forms[hit.id] for hit in result.hits} <= {name}


@pytest.mark.parametrize(
    "path",
    [
        *(
            "..",
            "acme/..",
            "../acme",
            "acme/../beta",
            "acme/./ops",
            ".",
            "acme//ops",
            "//",
            "acme/../../beta",
        ),
        *("/".join(["a"] * 5_000), "a" * 100_000, "acme/\x00", "acme\n/ops\x00", "\ud800"),
    ],
    ids=lambda path: ascii(path)[:24],
)
def test_a_path_that_climbs_or_never_ends_is_refused_and_never_everything(path: str) -> None:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder())
    corpus.add([Record(id="r1", text="pump", scope="beta"), Record(id="r2", text="pump", scope="acme")])
    for ask in (
        lambda: corpus.retrieve("pump", scope=path),
        lambda: corpus.retrieve("pump", scope=[path, "acme"]),
        lambda: corpus.retrieve("pump", scope=scope(path, inherit=True)),
        lambda: corpus.retrieve("pump", principal=Principal("default", scopes=[path])),
        lambda: corpus.count(scope=path),
        lambda: Scope((path,)),
    ):
        with pytest.raises(CtxArithError, match="scope"):
            ask()


@pytest.mark.parametrize(
    "path", ["acme/%2e%2e/beta", "%2e%2e", "acme%00", "%", "acme/%", "‥", "acme/‥/beta", "…"]
)
def test_what_another_program_would_decode_is_a_segment_like_any_other(path: str) -> None:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder())
    corpus.add([Record(id="r1", text="pump", scope="beta"), Record(id="r2", text="pump", scope="acme")])
    assert corpus.retrieve("pump", scope=path).hits == ()
    assert (
        corpus.retrieve("pump", principal=Principal("default", scopes=[path], inherit_grants=False)).hits
        == ()
    )


def test_a_very_long_name_is_a_name() -> None:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder())
    long = "/".join(["a" * 20] * 20)
    corpus.add([Record(id="r1", text="pump", scope=long), Record(id="r2", text="pump", scope=f"{long}b")])
    assert [hit.id for hit in corpus.retrieve("pump", scope=long).hits] == ["r1"]
    assert corpus.count({"scope": {"$in": ["x" * 100_000, "%" * 9_999]}}) == 0
