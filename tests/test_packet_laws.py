"""Packets against a model: whatever happens, `reuse` is said only where a fresh retrieval would agree."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ctxarith import Corpus, Packet, Policy, Principal, Record
from ctxarith.errors import StoreError, Withheld
from ctxarith.packet.verdict import DENY, REUSE, UNVERIFIED
from ctxarith.stores.inmemory import InMemoryStore
from tests.conftest import NOW
from tests.fakes import WordEmbedder

IDS = [f"r{n}" for n in range(7)]
SCOPES = ["sales", "sales", "sales/eu", "service", "service", "salesroom"]
WORDS = ["fee", "fee rise", "lift", "fee lift contract"]
TIMES = st.one_of(st.none(), st.integers(-6, 8))


class Outage(InMemoryStore):
    """A store with a switch: while it is off, nobody can look at it."""

    down = False

    def probe(self) -> None:
        """Fail while it is off."""
        if self.down:
            raise StoreError("the source is down")


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    rid = draw(st.sampled_from(IDS))
    times = {
        name: NOW + timedelta(hours=hours)
        for name in ("valid_from", "embargo_until", "retain_until", "created_at")
        if (hours := draw(TIMES)) is not None and draw(st.booleans())
    }
    begin = times.get("valid_from", NOW - timedelta(hours=8))
    if draw(st.integers(0, 3)) == 0:
        times["valid_until"] = begin + timedelta(hours=draw(st.integers(1, 12)))
    attributes = draw(st.lists(st.sampled_from(["fee", "lift"]), max_size=2, unique=True))
    slots = [
        {"subject": "h", "attribute": a, "value": draw(st.integers(0, 2)), "inferred": draw(st.booleans())}
        for a in attributes
    ]
    others = [other for other in IDS if other < rid]  # never a loop
    links = draw(st.lists(st.sampled_from(others), max_size=1)) if others else []
    return {
        "id": rid,
        "text": draw(st.sampled_from(WORDS)),
        "version": draw(st.sampled_from(["1", "1", "2"])),
        "tenant": draw(st.sampled_from(["acme"] * 7 + ["beta"])),
        "scope": draw(st.sampled_from(SCOPES)),
        "audience": draw(st.sampled_from([[]] * 5 + [["board"]])),
        "source_type": draw(st.sampled_from(["note", "mail"])),
        "metadata": {"kind": draw(st.sampled_from(["a", "b"]))},
        "slots": slots,
        "supersedes": links,
        **times,
    }


def timed(record: Record, since: datetime, upto: datetime) -> bool:
    names = ("valid_from", "valid_until", "embargo_until", "retain_until")
    return any((t := getattr(record, name)) is not None and since < t <= upto for name in names)


class Packets(RuleBasedStateMachine):
    """Random writes, grants, rules, clock steps and outages against one packet after another."""

    @initialize(
        first=st.lists(records(), min_size=2, max_size=6), where=st.sampled_from([None, {"kind": "a"}])
    )
    def begin(self, first: list[dict[str, Any]], where: dict[str, str] | None) -> None:
        self.now = NOW
        self.store = Outage()
        self.corpus = Corpus.in_memory(
            clock=lambda: self.now, embedder=WordEmbedder(), policy=Policy(), tokenizer=len
        )
        self.corpus._shelf._store = self.store  # the switch; rows live in the index
        self.where = where
        self.me = Principal("acme", user="ana", scopes=["sales", "service"], groups=["board"])
        self.write(first)
        self.make()

    def teardown(self) -> None:
        if hasattr(self, "corpus"):
            self.corpus.close()

    def write(self, given: list[dict[str, Any]]) -> None:
        for one in given:
            self.corpus.add([one])

    def make(self) -> None:
        """A packet of few members that lives long, so that boundaries are what ends it."""
        asked: dict[str, Any] = {
            "where": self.where,
            "scope": "sales",
            "top": 2,
            "lifetime": timedelta(days=9),
        }
        self.packet: Packet = self.corpus.packet("fee lift", principal=self.me, **asked)
        self.text = self.packet.render(self.me)

    @rule(record=records())
    def add(self, record: dict[str, Any]) -> None:
        self.write([record])

    @rule(record=records(), rid=st.sampled_from(IDS))
    def add_then_wait(self, record: dict[str, Any], rid: str) -> None:
        self.write([{**record, "id": f"{rid}-new", "supersedes": record["supersedes"] or [rid]}])
        self.now += timedelta(hours=1)

    @rule(record=records())
    def add_where_nothing_connects(self, record: dict[str, Any]) -> None:
        """An unrelated write: outside the scope, and nothing in common with anything."""
        verdict = self.packet.revalidate(self.me, self.now).verdict
        lone = {**record, "id": f"{record['id']}-lone", "scope": "salesroom", "slots": [], "supersedes": []}
        self.write([lone])
        assert self.packet.revalidate(self.me, self.now).verdict == verdict

    @rule(rid=st.sampled_from(IDS))
    def delete(self, rid: str) -> None:
        self.corpus.delete(rid, tenant="acme")

    @rule(rid=st.sampled_from(IDS))
    def retire(self, rid: str) -> None:
        self.corpus.retire(rid, tenant="acme")

    @rule(hours=st.sampled_from([0.5, 1, 1, 3]))
    def wait(self, hours: float) -> None:
        self.now += timedelta(hours=hours)

    @rule()
    def outage(self) -> None:
        """While nothing can be checked, nothing but denial is said."""
        self.store.down = True
        verdict = self.packet.revalidate(self.me, self.now).verdict
        assert verdict == (UNVERIFIED if self.members_allowed() and verdict != DENY else DENY)
        with pytest.raises(Withheld):
            self.packet.render(self.me)
        self.store.down = False

    @rule(
        scopes=st.sampled_from([["sales"], ["sales/eu"], ["sales", "service"], ["sales", "service"]]),
        groups=st.sampled_from([[], ["board"], ["board"]]),
        types=st.sampled_from([None, None, ["note"]]),
        versions=st.tuples(st.sampled_from(["1", "2"]), st.sampled_from(["1", "2"])),
    )
    def upheaval(
        self, scopes: list[str], groups: list[str], types: list[str] | None, versions: tuple[str, str]
    ) -> None:
        """Other grants, and another policy."""
        self.me = replace(self.me, scopes=scopes, groups=groups, scope_version=versions[0])
        setup = replace(self.corpus._setup, policy=Policy(versions[1], source_types=types))
        self.corpus._setup = setup
        object.__setattr__(self.corpus._gate, "setup", setup)

    @precondition(lambda self: hasattr(self, "packet"))
    @invariant()
    def the_verdict_is_right(self) -> None:
        manifest = self.packet.manifest
        found = self.packet.revalidate(self.me, self.now)
        stranger = Principal("acme", user="eve", scopes=["sales"])
        assert self.packet.revalidate(stranger, self.now).verdict == DENY
        allowed = self.members_allowed()
        if not allowed:
            assert found.verdict == DENY
        if found.verdict != REUSE:
            with pytest.raises(Withheld):
                self.packet.render(self.me)
            self.make()
            return
        assert self.now < manifest.expires_at
        present, self.now = self.now, manifest.assembled_at
        try:
            fresh = self.corpus._packets._source
            again = fresh.retrieve(self.packet._made.request, self.me, manifest.assembled_at)
        finally:
            self.now = present
        held = [(h.id, h.version, h.content_hash) for h in self.packet.stored.holdings]
        assert sorted(held) == sorted((h.id, h.record.version, h.record.content_hash) for h in again.hits)
        decision = again.scene.plan.permission.decision
        assert decision.policy_version == manifest.policy_version
        assert decision.scope_version == manifest.principal_scope_version
        assert self.packet.render(self.me) == self.text
        kinds = self.where["kind"] if self.where else None
        for row in again.scene.snapshot.live.nonzero()[0].tolist():
            record = again.scene.snapshot.records[row]
            inside = (record.scope + "/").startswith("sales/") and record.tenant == "acme"
            if inside and (kinds is None or record.metadata["kind"] == kinds) and self.mine(record):
                assert not timed(record, manifest.assembled_at, self.now)

    def mine(self, record: Record) -> bool:
        policy = self.corpus._setup.policy
        types = policy.source_types if policy else None
        place = record.scope + "/"
        # A grant holds what lies below it, and what hangs exactly on its ancestors.
        granted = any(place.startswith(f"{g}/") or f"{g}/".startswith(place) for g in self.me.scopes or ())
        grouped = not record.audience or bool(set(record.audience) & set(self.me.groups))
        return granted and grouped and (types is None or record.source_type in types)

    def members_allowed(self) -> bool:
        return all(self.mine(hit.record) for hit in self.packet._made.leaf.hits)


Packets.TestCase.settings = settings(stateful_step_count=20, deadline=None)
TestPackets = Packets.TestCase
