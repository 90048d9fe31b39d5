"""The graph of who replaces whom: loops, refused and met on disk; long chains."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import Corpus, Principal, Record, RecordError, Slot
from ctxarith.index.graph import looping, looping_rows
from ctxarith.ports import Row
from ctxarith.stores.inmemory import InMemoryStore
from tests.conftest import NOW
from tests.fakes import WordEmbedder


def record(rid: str, **given: Any) -> Record:
    return Record(**{"id": rid, "text": f"the fee of {rid}", **given})


def in_memory(*records: Record) -> Corpus:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder())
    corpus.add(records)
    return corpus


def met_on_disk(folder: Path, records: Sequence[Record], links: dict[str, list[str]]) -> Corpus:
    """A corpus whose store was given links behind its back."""
    store = InMemoryStore()
    with Corpus.open(folder, store=store, clock=lambda: NOW, embedder=WordEmbedder()) as corpus:
        corpus.add(records)
    linked = [
        Row(replace(row.record, supersedes=links[row.record.id]), row.vector)  # type: ignore[arg-type]
        for row in store.rows()
        if row.record.id in links
    ]
    store.write(linked)
    shutil.rmtree(folder / "index")
    return Corpus.open(folder, store=store, clock=lambda: NOW, embedder=WordEmbedder())


@pytest.mark.parametrize(
    ("edges", "members"),
    [
        ([], set()),
        ([(1, 2), (2, 3)], set()),
        ([(1, 1)], {1}),
        ([(1, 2), (2, 1)], {1, 2}),
        ([(0, 1), (1, 2), (2, 1), (2, 3)], {1, 2}),
        ([(1, 2), (2, 3), (3, 1), (3, 4), (4, 3)], {1, 2, 3, 4}),
        ([(1, 2), (2, 1), (2, 3), (3, 4), (4, 5), (5, 4)], {1, 2, 4, 5}),
        ([(1, 2), (1, 3), (2, 4), (3, 4)], set()),
    ],
)
def test_only_what_stands_on_a_loop_is_a_member(edges: list[tuple[int, int]], members: set[int]) -> None:
    assert looping(edges) == members


NODES = st.integers(0, 7)


@given(st.lists(st.tuples(NODES, NODES), max_size=16))
def test_a_node_is_on_a_loop_when_it_can_reach_itself(edges: list[tuple[int, int]]) -> None:
    def reached(start: int) -> set[int]:
        ends: set[int] = set()
        pending = [start]
        while pending:
            node = pending.pop()
            ahead = {end for begin, end in edges if begin == node} - ends
            ends |= ahead
            pending += ahead
        return ends

    members = {node for node in range(8) if node in reached(node)}
    assert looping(edges) == members
    assert looping_rows(*np.array(edges, np.int64).reshape(-1, 2).T) == members


def test_a_ring_of_twenty_thousand_nodes_needs_no_recursion() -> None:
    ring = [(n, (n + 1) % 20_000) for n in range(20_000)]
    assert len(looping(ring)) == 20_000
    assert looping(ring[:-1]) == set()
    starts, ends = np.array(ring).T
    assert len(looping_rows(starts, ends)) == 20_000
    assert looping_rows(starts[:-1], ends[:-1]) == set()


def test_a_record_cannot_replace_itself() -> None:  # SU-04
    with pytest.raises(RecordError, match=r"'c3'.*cannot supersede itself"):
        record("c3", supersedes=["c3"])


def test_a_link_that_closes_a_loop_is_refused_with_its_members(corpus: Corpus) -> None:  # SU-04
    corpus.add([record("c1"), record("c2", supersedes=["c1"]), record("c3", supersedes=["c2"])])
    with pytest.raises(RecordError, match=r"close a loop.*: c1, c2, c3"):
        corpus.add([record("c1", supersedes=["c3"]), record("other")])
    assert [one.id for one in corpus.get(["c1", "other"])] == ["c1"]
    assert [hit.id for hit in corpus.retrieve("fee").hits] == ["c3"]


def test_a_loop_within_one_batch_is_refused() -> None:  # SU-04
    with pytest.raises(RecordError, match=r"close a loop.*: c1, c2"):
        in_memory(record("c1", supersedes=["c2"]), record("c2", supersedes=["c1"]))


def test_a_newer_version_closes_no_loop_either() -> None:
    corpus = in_memory(record("a", version="1"), record("b", supersedes=["a"]))
    with pytest.raises(RecordError, match="close a loop"):
        corpus.add([record("a", version="2", supersedes=["b"])])


def test_tenants_close_no_loop_together() -> None:
    corpus = in_memory(record("a", supersedes=["b"]), record("b", tenant="beta", supersedes=["a"]))
    assert [hit.id for hit in corpus.retrieve("fee", principal=Principal("beta")).hits] == ["b"]


def test_a_corrected_link_frees_the_other_direction() -> None:
    corpus = in_memory(record("a", supersedes=["b"]), record("b"))
    corpus.add([record("a", supersedes=[])])
    corpus.add([record("b", supersedes=["a"])])
    assert [hit.id for hit in corpus.retrieve("fee").hits] == ["b"]


def test_a_link_to_an_unknown_id_is_accepted_and_reported(corpus: Corpus) -> None:  # SU-04
    assert corpus.add([record("c9", supersedes=["zz"])]).dangling == ("zz",)
    assert [hit.id for hit in corpus.retrieve("fee").hits] == ["c9"]


def test_a_dangling_link_counts_from_the_moment_its_target_arrives() -> None:
    corpus = in_memory(record("c9", supersedes=["zz"]))
    corpus.add([record("zz")])
    assert [hit.id for hit in corpus.retrieve("fee").hits] == ["c9"]


def test_the_members_of_a_loop_met_on_disk_all_stay_and_are_flagged(tmp_path: Path) -> None:  # SU-04
    both = [record("c1"), record("c2"), record("before"), record("after")]
    corpus = met_on_disk(tmp_path, both, {"c1": ["c2"], "c2": ["c1", "before"], "after": []})
    result = corpus.retrieve("fee")
    assert {hit.id: hit.flags for hit in result.hits} == {"c1": ("loop",), "c2": ("loop",), "after": ()}
    assert [(drop.id, drop.by) for drop in result.drops] == [("before", ("c2",))]
    assert result.text.count("(conflicts with another record)") == 2


def test_a_loop_that_something_newer_replaces_is_gone(tmp_path: Path) -> None:
    both = [record("c1"), record("c2"), record("new")]
    corpus = met_on_disk(tmp_path, both, {"c1": ["c2"], "c2": ["c1"], "new": ["c1", "c2"]})
    result = corpus.retrieve("fee")
    assert [(hit.id, hit.flags) for hit in result.hits] == [("new", ())]
    assert {drop.id: drop.by for drop in result.drops} == {"c1": ("new",), "c2": ("new",)}


def test_a_record_between_two_loops_is_on_neither(tmp_path: Path) -> None:
    links = {"a": ["b"], "b": ["a", "bridge"], "bridge": ["c"], "c": ["d"], "d": ["c"]}
    corpus = met_on_disk(tmp_path, [record(rid) for rid in links], links)
    result = corpus.retrieve("fee")
    assert {hit.id for hit in result.hits if "loop" in hit.flags} >= {"a", "b"}
    assert ("bridge", ("b",)) in [(drop.id, drop.by) for drop in result.drops]


def test_members_of_a_loop_stay_though_they_assert_the_same_fact(tmp_path: Path) -> None:
    fact = [Slot("lead", "fee", 1)]
    both = [
        record("c1", slots=fact, created_at="2026-01-01"),
        record("c2", slots=fact, created_at="2026-02-01"),
    ]
    corpus = met_on_disk(tmp_path, both, {"c1": ["c2"], "c2": ["c1"]})
    result = corpus.retrieve("fee")
    assert {hit.id: hit.flags for hit in result.hits} == {"c1": ("loop",), "c2": ("loop",)}
    assert result.drops == ()


def test_a_loop_through_a_record_that_the_caller_may_not_see_is_none(tmp_path: Path) -> None:
    three = [record("c1"), record("c2", audience=["board"]), record("c3")]
    corpus = met_on_disk(tmp_path, three, {"c1": ["c2"], "c2": ["c3"], "c3": ["c1"]})
    result = corpus.retrieve("fee", principal=Principal("default"))
    assert [(hit.id, hit.flags) for hit in result.hits] == [("c3", ())]


def test_a_link_and_slots_that_close_a_loop_leave_all_of_its_members() -> None:
    fact = [Slot("lead", "fee", 1)]
    # b names a later c, and c names a; a and b assert the same fact, and a is the newer.
    corpus = in_memory(
        record("a", created_at="2026-03-01", slots=fact),
        record("b", created_at="2026-02-01", slots=fact, supersedes=["c"]),
        record("c", created_at="2026-04-01", supersedes=["a"]),
    )
    result = corpus.retrieve("fee", rank="fused")
    assert {hit.id for hit in result.hits} == {"a", "b", "c"}
    assert all("loop" in hit.flags for hit in result.hits)
    assert result.drops == ()


def test_a_chain_of_five_thousand_links_resolves_quickly_to_its_head() -> None:  # SU-04
    chain = [record(f"c{n}", supersedes=[f"c{n - 1}"] if n else []) for n in range(5_000)]
    corpus = in_memory(*chain)
    begun = time.process_time()
    result = corpus.retrieve("fee")
    spent = time.process_time() - begun
    assert [hit.id for hit in result.hits] == ["c4999"]
    assert len(result.hits[0].replaces) == len(result.drops) == 4_999
    assert {drop.by for drop in result.drops} == {("c4999",)}
    assert spent < 5
