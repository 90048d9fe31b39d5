"""Sessions: follow-ups are answered from what the thread has cited, when that is enough."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ctxarith import (
    ArgumentError,
    Corpus,
    Evidence,
    Principal,
    Record,
    Session,
    Slot,
    Verdict,
    coverage,
    relative,
    thread,
)
from tests.conftest import NOW, MakeCorpus
from tests.fakes import WordEmbedder

ACME = Principal("acme", user="ann")


def rec(rid: str, text: str, **rest: Any) -> Record:
    return Record(id=rid, text=text, **{"tenant": "acme", **rest})


def fee(rid: str, amount: int, **rest: Any) -> Record:
    return rec(rid, f"The fee is {amount}", slots=[Slot("acme", "fee", amount)], **rest)


PUMPS = [
    rec("pump-1", "The pump P-100 needs oil every month", source_id="pump.pdf"),
    rec("pump-2", "The pump P-100 weighs nine kilograms", source_id="pump.pdf"),
    rec("valve-1", "The valve V-200 is checked every year", source_id="valve.pdf"),
    rec("lease-1", "The lease of the office ends in June", source_id="lease.pdf"),
]


@pytest.fixture
def pumps(corpus: Corpus) -> Corpus:
    corpus.add(PUMPS)
    return corpus


def always(evidence: Evidence) -> bool:
    return True


def never(evidence: Evidence) -> bool:
    return False


def asked(session: Session, text: str, **options: Any) -> tuple[str, list[str]]:
    result = session.retrieve(text, **options)
    return result.trace.stage, [hit.id for hit in result.hits]


def test_the_first_question_searches_the_corpus_and_cites_its_sources(pumps: Corpus) -> None:
    session = pumps.session("t", principal=ACME, gate=always)
    assert asked(session, "how often does the pump need oil", top=1) == ("corpus", ["pump-1"])
    assert session.cited == ("pump.pdf",)


def test_a_follow_up_finds_another_chunk_of_the_cited_document_and_nothing_else(pumps: Corpus) -> None:
    session = pumps.session("t", principal=ACME, gate=always)
    session.retrieve("how often does the pump need oil", top=1)
    stage, ids = asked(session, "it weighs nine kilograms, and the lease of the office")
    assert (stage, ids[0], set(ids)) == ("cited", "pump-2", {"pump-1", "pump-2"})


def test_a_gate_that_is_not_content_sends_the_question_to_the_corpus(pumps: Corpus) -> None:
    session = pumps.session("t", principal=ACME, gate=never)
    session.retrieve("pump", top=1)
    assert asked(session, "when does the lease end", top=1) == ("corpus", ["lease-1"])
    assert session.cited == ("pump.pdf", "lease.pdf")


def test_the_trace_says_which_stage_answered_and_why(pumps: Corpus) -> None:
    def half(evidence: Evidence) -> Verdict:
        return Verdict("oil" in evidence.query, 0.5, "because it is Monday")

    session = pumps.session("t", principal=ACME, gate=half)
    first = session.retrieve("pump oil")
    assert (first.trace.stage, first.trace.confidence) == ("corpus", 0.0)
    assert "nothing is cited yet" in str(first.explain())
    second = session.retrieve("pump oil")
    assert (second.trace.stage, second.trace.confidence) == ("cited", 0.5)
    assert second.trace.steps[0].stage == "cited"
    assert "because it is Monday" in str(second.explain())
    third = session.retrieve("lease")
    assert (third.trace.stage, third.trace.confidence) == ("corpus", 0.5)


def test_the_cited_stage_gives_what_the_same_question_over_those_sources_gives(pumps: Corpus) -> None:
    session = pumps.session("t", principal=ACME, gate=always)
    session.cite("pump.pdf")
    result = session.retrieve("pump every month")
    plain = pumps.retrieve("pump every month", principal=ACME, where={"source_id": {"$in": ["pump.pdf"]}})
    assert [(hit.id, hit.score, hit.found_by) for hit in result.hits] == [
        (hit.id, hit.score, hit.found_by) for hit in plain.hits
    ]
    assert result.text == plain.text


def test_the_callers_own_filter_still_narrows_the_cited_stage(pumps: Corpus) -> None:
    session = pumps.session("t", principal=ACME, gate=always)
    session.cite(["pump.pdf", "valve.pdf"])
    stage, ids = asked(session, "every", where={"source_id": "valve.pdf"})
    assert (stage, ids) == ("cited", ["valve-1"])


# Today's policy, and what has become of the cited sources


def test_a_cited_source_that_is_revoked_is_gone_at_the_next_turn(pumps: Corpus) -> None:
    session = pumps.session("t", principal=ACME, gate=always)
    session.cite("pump.pdf")
    for record in PUMPS[:2]:
        pumps.add([rec(record.id, record.text, source_id="pump.pdf", audience=["board"])])
    stage, ids = asked(session, "pump oil month")
    assert stage == "corpus"
    assert not set(ids) & {"pump-1", "pump-2"}


def test_a_cited_source_that_expired_or_was_deleted_is_gone(pumps: Corpus) -> None:
    session = pumps.session("t", principal=ACME, gate=always)
    session.cite(["pump.pdf", "valve.pdf"])
    pumps.retire("pump-1", tenant="acme")
    pumps.delete("valve-1", tenant="acme")
    stage, ids = asked(session, "pump oil month every")
    assert (stage, ids) == ("cited", ["pump-2"])


def test_the_successor_of_a_cited_fact_is_found_though_its_document_was_never_cited(corpus: Corpus) -> None:
    corpus.add([fee("old", 10, source_id="january.pdf", created_at="2026-01-01")])
    session = corpus.session("t", principal=ACME, gate=always)
    session.retrieve("fee")
    corpus.add([fee("new", 12, source_id="march.pdf", created_at="2026-03-01")])
    result = session.retrieve("fee")
    assert (result.trace.stage, [hit.id for hit in result.hits]) == ("cited", ["new"])
    assert [drop.id for drop in result.drops] == ["old"]
    assert session.cited[-1] == "march.pdf"


def test_a_successor_that_the_caller_may_not_see_brings_nothing_into_sight(corpus: Corpus) -> None:
    corpus.add([fee("old", 10, source_id="january.pdf", created_at="2026-01-01")])
    session = corpus.session("t", principal=ACME, gate=always)
    session.retrieve("fee")
    corpus.add([fee("new", 12, source_id="secret.pdf", created_at="2026-03-01", audience=["board"])])
    assert asked(session, "fee") == ("cited", ["old"])
    assert session.cited == ("january.pdf",)


# Citing


def test_records_and_sources_are_cited_by_name_and_what_is_not_permitted_is_passed_over(
    pumps: Corpus,
) -> None:
    pumps.add([Record(id="other", text="x", tenant="beta", source_id="beta.pdf")])
    pumps.add([rec("board", "x", source_id="board.pdf", audience=["board"])])
    session = pumps.session("t", principal=ACME)
    assert session.cite(["pump-1", "lease.pdf", "other", "beta.pdf", "board", "nobody"]) == (
        "pump.pdf",
        "lease.pdf",
    )
    assert session.cited == ("pump.pdf", "lease.pdf")
    session.clear()
    assert not session.cited


def test_the_least_recently_cited_leave_first(pumps: Corpus) -> None:
    session = pumps.session("t", principal=ACME, capacity=2)
    session.cite("pump.pdf")
    session.cite("valve.pdf")
    session.cite("pump.pdf")
    session.cite("lease.pdf")
    assert session.cited == ("pump.pdf", "lease.pdf")


def test_threads_tenants_and_users_never_share_a_ledger(pumps: Corpus) -> None:
    pumps.add([Record(id="b", text="x", tenant="beta", source_id="pump.pdf")])
    pumps.session("t", principal=ACME).cite("pump.pdf")
    others = [
        pumps.session("t2", principal=ACME),
        pumps.session("t", principal=Principal("acme", user="bob")),
        pumps.session("t", principal=Principal("acme")),
        pumps.session("t", principal=Principal("beta", user="ann")),
    ]
    assert [one.cited for one in others] == [(), (), (), ()]
    assert pumps.session("t", principal=ACME).cited == ("pump.pdf",)


def test_ledgers_last_in_a_folder_and_are_seen_by_another_handle(tmp_path: Path) -> None:
    def opened() -> Corpus:
        return Corpus.open(tmp_path, embedder=WordEmbedder(), clock=lambda: NOW)

    with opened() as corpus:
        corpus.add(PUMPS)
        corpus.session("t", principal=ACME).retrieve("pump oil", top=1)
    with opened() as corpus:
        session = corpus.session("t", principal=ACME, gate=always)
        assert session.cited == ("pump.pdf",)
        assert asked(session, "weighs kilograms", top=1) == ("cited", ["pump-2"])


def test_many_threads_may_use_one_session(pumps: Corpus) -> None:
    session = pumps.session("t", principal=ACME)
    barrier = threading.Barrier(8)

    def turn(n: int) -> str:
        barrier.wait()
        for text in ("pump oil", "valve year", "lease June"):
            session.retrieve(f"{text} {n}", top=1)
        return session.retrieve("pump oil", top=1).hits[0].id

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(turn, range(8))) == {"pump-1"}
    assert set(session.cited) == {"pump.pdf", "valve.pdf", "lease.pdf"}


# Gates


def test_the_default_gate_reads_the_cited_set_alone(pumps: Corpus) -> None:
    def refuse() -> float:
        raise AssertionError("the corpus was asked")

    evidence = Evidence("q", (), 0.6, 0.8, 0.75, 0.5, refuse)
    assert thread(0.8)(evidence) == Verdict(True, 0.8, "thread 0.80 >= 0.8")
    assert thread(0.81)(evidence).enough is False
    assert coverage(0.5)(evidence).enough is True


def test_the_relative_gate_compares_with_the_best_of_the_corpus(pumps: Corpus) -> None:
    session = pumps.session("t", principal=ACME, gate=relative(0.99))
    session.cite("pump.pdf")
    assert asked(session, "The pump P-100 needs oil every month", top=1) == ("cited", ["pump-1"])
    assert asked(session, "The lease of the office ends in June", top=1) == ("corpus", ["lease-1"])


def test_a_question_on_something_else_leaves_the_thread_by_default(pumps: Corpus) -> None:
    session = pumps.session("t", principal=ACME)
    session.retrieve("The pump P-100 needs oil every month", top=1)
    assert asked(session, "The pump P-100 needs oil every month", top=1) == ("cited", ["pump-1"])
    assert asked(session, "lease office June", top=1) == ("corpus", ["lease-1"])


def test_a_gate_is_calibrated_to_the_precision_that_is_wanted() -> None:
    examples = [(0.9, True), (0.8, True), (0.7, False), (0.6, True), (0.5, False)]
    assert thread().calibrate(examples, precision=1.0).threshold == 0.8
    assert thread().calibrate(examples, precision=0.75).threshold == 0.6
    assert thread().calibrate(examples, precision=0.6).threshold == 0.5
    with pytest.raises(ArgumentError, match="examples"):
        thread().calibrate([(0.9, False)], precision=0.5)


@pytest.mark.parametrize("examples", [5, [(1,)], [("x", True)], None])
def test_examples_are_pairs(examples: Any) -> None:
    with pytest.raises(ArgumentError, match="examples"):
        thread().calibrate(examples, precision=0.5)


def test_a_caller_who_lost_a_group_is_not_told_what_the_thread_cited_then(corpus: Corpus) -> None:
    corpus.add([rec("open", "pump"), rec("closed", "pump oil", audience=["board"], source_id="board.pdf")])
    board = Principal("acme", user="ann", groups=["board"])
    corpus.session("t", principal=board).retrieve("pump oil")
    assert set(corpus.session("t", principal=board).cited) == {"open", "board.pdf"}
    assert corpus.session("t", principal=ACME).cited == ("open",)


def test_callers_without_a_name_share_a_thread_if_their_rights_are_the_same(pumps: Corpus) -> None:
    pumps.session("t", principal=Principal("acme", groups=["a", "b"])).cite("pump.pdf")
    assert pumps.session("t", principal=Principal("acme", groups=["b", "a"])).cited == ("pump.pdf",)
    for other in (Principal("acme"), Principal("acme", groups=["a"]), Principal("acme", scopes=[""])):
        assert not pumps.session("t", principal=other).cited


@pytest.mark.parametrize("wrong", [1, "yes", None, (True, 0.5)])
def test_a_gate_that_gives_no_verdict_is_named(pumps: Corpus, wrong: Any) -> None:
    session = pumps.session("t", principal=ACME, gate=lambda evidence: wrong)
    session.cite("pump.pdf")
    with pytest.raises(ArgumentError, match="gate"):
        session.retrieve("pump")


@pytest.mark.parametrize(
    ("thread_id", "options"),
    [("", {}), (None, {}), (7, {}), ("t", {"capacity": 0}), ("t", {"capacity": True}), ("t", {"gate": 7})],
)
def test_wrong_arguments_are_refused(pumps: Corpus, thread_id: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        pumps.session(thread_id, principal=ACME, **options)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, "x", True, None])
def test_a_threshold_is_a_share(threshold: Any) -> None:
    for gate in (thread, relative, coverage):
        with pytest.raises(ArgumentError, match="threshold"):
            gate(threshold)


def test_an_empty_question_and_an_empty_corpus_are_answered_with_nothing(make_corpus: MakeCorpus) -> None:
    session = make_corpus().session("t", gate=always)
    assert asked(session, "pump") == ("corpus", [])
    assert asked(session, "") == ("corpus", [])


def test_each_question_is_embedded_once(make_corpus: MakeCorpus) -> None:
    class Counting(WordEmbedder):
        asked = 0

        def embed_query(self, text: str) -> list[float]:
            self.asked += 1
            return super().embed_query(text)

    model = Counting()
    corpus = make_corpus(embedder=model)
    corpus.add(PUMPS)
    session = corpus.session("t", principal=ACME, gate=never)
    session.cite("pump.pdf")
    model.asked = 0
    session.retrieve("pump")
    assert model.asked == 1
