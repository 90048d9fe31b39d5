"""A planned query against the same query worked out record by record, in the words of the specification."""

from __future__ import annotations

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ctxarith import (
    Candidates,
    Corpus,
    Policy,
    Principal,
    Record,
    Slot,
    everyone,
    field,
    lexical,
    rrf,
    scope,
    semantic,
    superseded,
    top,
    where,
)
from ctxarith.instant import instant
from ctxarith.model import TIME_FIELDS
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.strategies import IDS, PATHS, filters, records, rivals
from tests.test_policy import PRINCIPALS, permitted

Key = tuple[str, str]
ANYONE = Principal("default")

# Examples


def memory(rows: Iterable[Record], **options: Any) -> Corpus:
    corpus = Corpus.in_memory(**{"clock": lambda: NOW, "embedder": WordEmbedder(), **options})
    corpus.add(rows)
    return corpus


def test_a_plan_touches_nothing() -> None:
    embedder = WordEmbedder()
    with memory([Record(id="r1", text="pump")], embedder=embedder) as corpus:
        asked: list[str] = []
        embedder.embed_query = asked.append  # type: ignore[method-assign, assignment]
        corpus.plan((semantic & everyone) >> top(5))
        str(corpus.explain((semantic & everyone) >> top(5)))
        assert asked == []


def test_a_plan_names_each_arm_and_its_conditions() -> None:
    lease = field("kind") == "lease"
    query = ((semantic | lexical & lease | lexical) & scope("acme")) - superseded
    with memory([]) as corpus:
        made = corpus.plan(query >> rrf() >> top(5))
    assert [planned.name for planned in made.arms] == ["semantic", "lexical", "lexical#2"]
    assert [[c.text for c in planned.conditions] for planned in made.arms] == [
        ["scope acme"],
        ["scope acme", "kind = 'lease'"],
        ["scope acme"],
    ]
    assert made.scope == scope("acme")
    assert made.current
    assert made.policy[0].text == "tenant = 'default'"


def test_two_scopes_are_both_kept() -> None:
    rows = [Record(id="r1", text="pump", scope="acme/ops"), Record(id="r2", text="pump", scope="acme")]
    with memory(rows) as corpus:
        found = corpus.run(semantic & scope("acme") & scope("acme/ops"), "pump").hits
    assert [hit.id for hit in found] == ["r1"]


def test_a_wide_cut_widens_a_narrow_recall() -> None:
    rows = [Record(id=f"r{n}", text="pump") for n in range(1, 5)]
    with memory(rows) as corpus:

        def found(query: Any) -> list[str]:
            return [hit.id for hit in corpus.run(query, "pump").hits]

        assert found(semantic(depth=2) & everyone) == ["r1", "r2"]
        assert found((semantic(depth=2) & everyone) >> top(3)) == ["r1", "r2", "r3"]
        assert found((semantic & everyone) >> top(3) >> top(1)) == ["r1"]


def test_the_same_source_under_two_filters_is_two_rankings() -> None:
    rows = [Record(id="r1", text="pump", metadata={"n": 1}), Record(id="r2", text="pump", metadata={"n": 2})]
    with memory(rows) as corpus:
        query = ((lexical & (field("n") == 1)) | lexical) & everyone
        hits = {hit.id: [found.source for found in hit.found_by] for hit in corpus.run(query, "pump").hits}
    assert hits == {"r1": ["lexical", "lexical#2"], "r2": ["lexical#2"]}


def test_every_way_of_finding_leaves_its_rank_and_score() -> None:
    with memory([Record(id="r1", text="pump"), Record(id="r2", text="valve")]) as corpus:
        hits = corpus.run((semantic | lexical) & everyone, "pump").hits
    found = {hit.id: {one.source: one.rank for one in hit.found_by} for hit in hits}
    assert found == {"r1": {"semantic": 1, "lexical": 1}, "r2": {"semantic": 2}}
    (first,) = (hit for hit in hits if hit.id == "r1")
    evidence = first.found("semantic")
    assert evidence is not None
    assert abs(evidence.score - 1.0) < 1e-6


def test_records_that_replace_each_other_in_a_circle_all_stay() -> None:
    first, second = Slot("s", "first", 1), Slot("s", "second", 1)
    circle = [
        Record(id="a", text="pump", slots=(first,), supersedes=("d",)),
        Record(id="b", text="pump", slots=(first,), created_at="2026-01-01"),
        Record(id="c", text="pump", slots=(second,), created_at="2026-02-01", supersedes=("b",)),
        Record(id="d", text="pump", slots=(second,), created_at="2026-03-01"),
    ]
    with memory(circle) as corpus:
        result = corpus.run((semantic & everyone) - superseded, "pump")
    assert sorted(hit.id for hit in result.hits) == ["a", "b", "c", "d"]
    assert {hit.flags for hit in result.hits} == {("loop",)}
    assert Scene(circle, ANYONE, None).heirs() == {}


# A filter, one condition at a time


def kind(value: object) -> str:
    names = {bool: "bool", int: "number", float: "number", str: "text", datetime: "time"}
    return names.get(type(value), "list")


def same(held: object, wanted: object) -> bool:
    return kind(held) == kind(wanted) and held == wanted


def operand(key: str, op: str, value: Any) -> Any:
    if op == "$exists":
        return value
    if isinstance(value, list):
        return [operand(key, op, one) for one in value]
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    return instant(value) if key in TIME_FIELDS else value


ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def stands(held: Any, op: str, wanted: Any) -> bool:
    if op == "$exists":
        return (held is not None) is wanted
    if held is None:
        return False
    if op in ("$in", "$nin"):
        return any(same(held, one) for one in wanted) == (op == "$in")
    if op in ("$contains", "$not_contains"):
        inside = isinstance(held, tuple) and any(same(one, wanted) for one in held)
        return inside == (op == "$contains")
    if op in ("$eq", "$ne"):
        return same(held, wanted) == (op == "$eq")
    in_order = kind(held) == kind(wanted) and kind(held) in ("number", "text", "time")
    return in_order and ORDER[op](held, wanted)


def passes(row: Record, condition: Mapping[str, Any]) -> bool:
    return all(entry_holds(row, key, value) for key, value in condition.items())


def entry_holds(row: Record, key: str, value: Any) -> bool:
    if key == "$and":
        return all(passes(row, one) for one in value)
    if key == "$or":
        return any(passes(row, one) for one in value)
    if key == "$not":
        return not passes(row, value)
    held = getattr(row, key) if hasattr(row, key) else row.metadata.get(key)
    held = None if held == () else held
    operators = value if isinstance(value, Mapping) else {"$eq": value}
    return all(stands(held, op, operand(key, op, one)) for op, one in operators.items())


# Who retires whom


@dataclass(frozen=True)
class Scene:
    """What one caller may see at one moment, and what replaces what in its eyes."""

    rows: Sequence[Record]
    who: Principal
    at: datetime | None

    def visible(self, row: Record) -> bool:
        return permitted(row, self.who, Policy(), self.at)

    def standing(self, row: Record) -> bool:
        """Permitted, the upper end of validity aside."""
        return self.visible(replace(row, valid_until=None))

    def retires(self, row: Record) -> bool:
        """One dated in the future retires nothing yet."""
        moment = NOW if self.at is None else self.at
        return self.standing(row) and all(
            dated is None or dated <= moment for dated in (row.created_at, row.valid_from)
        )

    def heirs(self) -> dict[Key, set[Key]]:
        """For each retired record the records that retire it."""
        old_rows = [row for row in self.rows if self.standing(row)]
        active = [row for row in self.rows if self.retires(row)]
        heirs: dict[Key, set[Key]] = defaultdict(set)
        against: set[Key] = set()
        for old in old_rows:
            for new in active:
                if old.id in new.supersedes:
                    heirs[key(old)].add(key(new))
                    if is_backwards(new, old):
                        against.add(key(old))
        for old in old_rows:
            versions = [row for row in active if row.id == old.id and newness(row) > newness(old)]
            heirs[key(old)] |= {key(max(versions, key=newness))} if versions else set()
            heirs[key(old)] |= self._by_slots(old, [row for row in active if key(row) not in against])
        return without_loops({old: new for old, new in heirs.items() if new})

    def _by_slots(self, old: Record, active: Sequence[Record]) -> set[Key]:
        newest: set[Key] = set()
        for fact in facts(old):
            newer = [row for row in active if fact in facts(row) and newness(row) > newness(old)]
            if not newer:
                return set()
            newest.add(key(max(newer, key=newness)))
        return newest


def key(row: Record) -> Key:
    return (row.id, row.version)


def facts(row: Record) -> set[tuple[str | None, str]]:
    return {(slot.subject, slot.attribute) for slot in row.slots if slot.value is not None}


def newness(row: Record) -> tuple[datetime, datetime, int, str]:
    never = datetime.min.replace(tzinfo=UTC)
    return (row.valid_from or row.created_at or never, row.created_at or never, int(row.version), row.id)


def is_backwards(new: Record, old: Record) -> bool:
    """Against the dates; or, where they say nothing, against the order of two that assert one fact."""
    late, early = old.valid_from or old.created_at, new.valid_from or new.created_at
    if late is not None and early is not None and late > early:
        return True
    return newness(new) < newness(old) and bool(facts(new) & facts(old))


def reached(start: Key, heirs: Mapping[Key, set[Key]]) -> set[Key]:
    found: set[Key] = set()
    pending = [start]
    while pending:
        for heir in heirs.get(pending.pop(), set()) - found:
            found.add(heir)
            pending.append(heir)
    return found


def without_loops(heirs: Mapping[Key, set[Key]]) -> dict[Key, set[Key]]:
    """All members of a loop stay."""
    after = {old: reached(old, heirs) for old in heirs}
    kept = {old: {new for new in news if old not in after.get(new, set())} for old, news in heirs.items()}
    return {old: news for old, news in kept.items() if news}


# A query


@dataclass(frozen=True)
class Source:
    name: str


@dataclass(frozen=True)
class Union:
    left: Node
    right: Node


@dataclass(frozen=True)
class Narrowed:
    inside: Node
    condition: Mapping[str, Any]
    away: bool


Node = Source | Union | Narrowed


@dataclass(frozen=True)
class Query:
    """A tree of sources and filters; scope and `- superseded` stand around it, or at each source."""

    tree: Node
    paths: tuple[str, ...] | None
    inherit: bool
    scope_at_source: bool
    current: bool
    current_at_source: bool

    def written(self) -> Candidates:
        """The query in the algebra."""
        guard = everyone if self.paths is None else scope(self.paths, inherit=self.inherit)

        def at_source(found: Candidates) -> Candidates:
            found = found & guard if self.scope_at_source else found
            return found - superseded if self.current and self.current_at_source else found

        whole = assembled(self.tree, at_source)
        whole = whole - superseded if self.current and not self.current_at_source else whole
        return whole if self.scope_at_source else whole & guard

    def in_scope(self, row: Record) -> bool:
        return self.paths is None or any(
            below(path, row.scope) or (self.inherit and below(row.scope, path)) for path in self.paths
        )


def assembled(node: Node, at_source: Callable[[Candidates], Candidates]) -> Candidates:
    if isinstance(node, Source):
        return at_source(semantic if node.name == "semantic" else lexical)
    if isinstance(node, Union):
        return assembled(node.left, at_source) | assembled(node.right, at_source)
    inside, condition = assembled(node.inside, at_source), where(node.condition)
    return inside - condition if node.away else inside & condition


def below(node: str, path: str) -> bool:
    return node == "" or path == node or path.startswith(node + "/")


def arms(node: Node) -> list[tuple[str, list[Narrowed]]]:
    """Each way of finding, with the filters that it stands under."""
    if isinstance(node, Source):
        return [(node.name, [])]
    if isinstance(node, Union):
        return arms(node.left) + arms(node.right)
    return [(name, [*conditions, node]) for name, conditions in arms(node.inside)]


def is_found(source: str, row: Record, text: str) -> bool:
    """Meaning finds every text that has words; words find those that share one."""
    if source == "semantic":
        return re.search(r"\w", row.text) is not None
    return bool(set(text.split()) & set(row.text.split()))


def naive(query: Query, rows: Sequence[Record], text: str, scene: Scene) -> tuple[set[Key], set[Key]]:
    """The keys that are hits, and those that are dropped as superseded.

    A retired record that is found brings in the ends of its chain, where they pass all filters; it
    stays itself only if the query does not take superseded records away.
    """
    heirs = scene.heirs()
    hits: set[Key] = set()
    dropped: set[Key] = set()
    for source, conditions in arms(query.tree):
        target = {
            key(row): row
            for row in rows
            if scene.visible(row)
            and query.in_scope(row)
            and all(passes(row, one.condition) != one.away for one in conditions)
        }
        for name, row in target.items():
            if not is_found(source, row, text):
                continue
            if name not in heirs:
                hits.add(name)
                continue
            (dropped if query.current else hits).add(name)
            ends = {end for end in reached(name, heirs) if end not in heirs}
            hits |= ends & set(target)
    return hits, dropped


HALVES: SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {"kind": {"$exists": False}},
        {"kind": {"$in": ["a", 1]}},
        {"$not": {"kind": "a"}},
        {"created_at": {"$lte": NOW}},
        {"$or": [{"year": {"$gte": 2026}}, {"version": {"$ne": "1"}}]},
        {"id": {"$in": list(IDS[:3])}},
        {"scope": {"$gte": "acme"}},
    )
)
FILTERS = (
    HALVES | HALVES | filters(keys=("kind", "year", "tags", "seen", "created_at", "scope"), max_leaves=2)
)
SOURCES: SearchStrategy[Node] = st.sampled_from(("semantic", "lexical")).map(Source)
TREES: SearchStrategy[Node] = st.recursive(
    SOURCES,
    lambda inner: st.builds(Union, inner, inner) | st.builds(Narrowed, inner, FILTERS, st.booleans()),
    max_leaves=4,
)
QUERIES = st.builds(
    Query,
    tree=TREES,
    paths=st.none() | st.lists(st.sampled_from(PATHS[:3]), min_size=1, max_size=2).map(tuple),
    inherit=st.booleans(),
    scope_at_source=st.booleans(),
    current=st.sampled_from((True, True, False)),
    current_at_source=st.booleans(),
)
TEXTS = st.sampled_from(("pump", "valve", "lamp pump"))
MOMENTS = st.sampled_from((None, None, NOW - timedelta(days=30), NOW + timedelta(days=30)))
ROWS = rivals(min_size=4)
HOSTILE_ROWS = records(
    ids=IDS[:5], versions=("1", "2"), tenants=("acme", "beta"), max_size=8, facts=True, guarded=True
)


@given(QUERIES, ROWS, TEXTS, MOMENTS)
def test_a_planned_query_finds_what_the_words_say(
    query: Query, rows: list[Record], text: str, at: datetime | None
) -> None:
    with memory(rows) as corpus:
        result = corpus.run(query.written(), text, as_of=at)
    hits, dropped = naive(query, rows, text, Scene(rows, ANYONE, at))
    assert {hit.key for hit in result.hits} == hits
    assert {key(drop.record) for drop in result.drops} == dropped


@given(QUERIES, HOSTILE_ROWS, TEXTS, PRINCIPALS)
def test_a_planned_query_finds_what_its_caller_may_see(
    query: Query, rows: list[Record], text: str, who: Principal
) -> None:
    with memory(rows) as corpus:
        result = corpus.run(query.written(), text, principal=who)
    hits, dropped = naive(query, rows, text, Scene(rows, who, None))
    assert {hit.key for hit in result.hits} == hits
    assert {key(drop.record) for drop in result.drops} == dropped


@given(ROWS, TEXTS, st.none() | FILTERS, st.none() | st.sampled_from(PATHS[:4]), st.booleans())
def test_the_front_door_asks_the_same_question(
    rows: list[Record], text: str, condition: dict[str, Any] | None, path: str | None, keep_old: bool
) -> None:
    with memory(rows) as corpus:
        result = corpus.retrieve(
            text,
            where=condition,
            scope=path,
            include_superseded=keep_old,
            top=None,
            tokens=None,
        )
    tree = Narrowed(Union(Source("semantic"), Source("lexical")), condition or {}, away=False)
    paths = None if path is None else (path,)
    query = Query(tree, paths, False, False, not keep_old, False)
    hits, _ = naive(query, rows, text, Scene(rows, ANYONE, None))
    assert {hit.key for hit in result.hits} == hits


@given(records(versions=("1", "2")), FILTERS)
def test_a_filter_passes_what_the_words_say(rows: list[Record], condition: dict[str, Any]) -> None:
    assert [where(condition).matches(row) for row in rows] == [passes(row, condition) for row in rows]
