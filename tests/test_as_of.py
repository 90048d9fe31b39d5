"""Looking back: what was believed at a time, under today's permissions."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from ctxarith import ArgumentError, Corpus, Principal, Record, Result, Slot, everyone, lexical, superseded
from tests.conftest import NOW
from tests.fakes import WordEmbedder

ME = Principal("default")


def in_memory(*records: Record, **options: Any) -> Corpus:
    corpus = Corpus.in_memory(**{"clock": lambda: NOW, "embedder": WordEmbedder(), **options})
    corpus.add(records)
    return corpus


def record(rid: str, text: str = "", **given: Any) -> Record:
    return Record(id=rid, text=text or f"the fee of {rid}", **given)


def ids(result: Result) -> list[str]:
    return [hit.id for hit in result.hits]


OFFICE = [
    record("f1", "Dana's office is in Lyon", valid_from="2025-01-10", valid_until="2026-01-10"),
    record("f2", "Dana's office is in Turin", valid_from="2026-01-10"),
]


@pytest.mark.parametrize(
    ("as_of", "believed"),
    [
        ("2025-01-09T23:59:59Z", []),
        ("2025-06-01", ["f1"]),
        ("2026-01-09T23:59:59.999999Z", ["f1"]),
        ("2026-01-10", ["f2"]),
        (None, ["f2"]),
    ],
)
def test_what_did_we_believe_in_march(
    corpus: Corpus, as_of: str | None, believed: list[str]
) -> None:  # SU-12
    corpus.add(OFFICE)
    assert ids(corpus.retrieve("Dana's office", as_of=as_of)) == believed


FACT = [Slot("lead", "fee", 1)]
CHAIN = [
    record("jan", created_at="2026-01-01", slots=FACT),
    record("feb", created_at="2026-02-01", slots=FACT),
    record("mar", created_at="2026-03-01", slots=FACT),
]


@pytest.mark.parametrize(
    ("as_of", "current", "gone"),
    [
        ("2025-12-31", [], {}),
        ("2026-01-15", ["jan"], {}),
        ("2026-02-01", ["feb"], {"jan": ("feb",)}),
        ("2026-02-15", ["feb"], {"jan": ("feb",)}),
        ("2026-03-15", ["mar"], {"jan": ("mar",), "feb": ("mar",)}),
    ],
)
def test_the_newest_of_what_was_asserted_by_then_wins(
    as_of: str, current: list[str], gone: dict[str, tuple[str, ...]]
) -> None:
    result = in_memory(*CHAIN).retrieve("fee", as_of=as_of)
    assert ids(result) == current
    assert {drop.id: drop.by for drop in result.drops} == gone


def test_a_link_retires_from_the_day_it_was_asserted() -> None:
    corpus = in_memory(
        record("old", created_at="2026-01-01"), record("new", created_at="2026-03-01", supersedes=["old"])
    )
    assert ids(corpus.retrieve("fee", as_of="2026-02-01")) == ["old"]
    assert ids(corpus.retrieve("fee", as_of="2026-03-01")) == ["new"]


def test_older_versions_are_kept_for_looking_back(corpus: Corpus) -> None:
    corpus.add([record("r", "fee 10", version="1", created_at="2026-01-01")])
    corpus.add([record("r", "fee 12", version="2", created_at="2026-03-01")])
    assert corpus.retrieve("fee", as_of="2026-02-01").text == "[1] (2026-01-01) fee 10"
    assert corpus.retrieve("fee").text == "[1] (2026-03-01) fee 12"


@pytest.mark.parametrize(
    ("dates", "seen"),
    [
        ({}, True),
        ({"valid_from": "2026-01-01"}, True),
        ({"valid_from": "2026-03-01"}, False),
        ({"created_at": "2026-01-01"}, True),
        ({"created_at": "2026-03-01"}, False),
        # Asserted later, valid earlier: at that time nobody had said so yet.
        ({"created_at": "2026-03-01", "valid_from": "2026-01-01"}, False),
        ({"created_at": "2026-01-01", "valid_from": "2026-03-01"}, False),
        ({"valid_until": "2026-02-01"}, False),
        ({"valid_until": "2026-02-02"}, True),
    ],
)
def test_a_record_counts_from_its_assertion_within_its_validity(dates: dict[str, str], seen: bool) -> None:
    assert ids(in_memory(record("r", **dates)).retrieve("fee", as_of="2026-02-01")) == ["r"] * seen


@pytest.mark.parametrize(
    "closed",
    [
        {"audience": ["board"]},
        {"scope": "hq"},
        {"jurisdiction": "JP"},
        {"embargo_until": "2026-07-01"},
        {"retain_until": "2026-06-01"},
    ],
)
def test_what_is_closed_today_is_closed_for_the_past_too(closed: dict[str, Any]) -> None:
    me = Principal("default", groups=["sales"], scopes=["plant"], jurisdictions=["IN"])
    corpus = in_memory(record("r", **{"scope": "plant", "created_at": "2026-01-01", **closed}))
    assert ids(corpus.retrieve("fee", principal=me, as_of="2026-02-01")) == []


@pytest.mark.parametrize("open_today", [{"embargo_until": "2026-06-01"}, {"retain_until": "2026-07-01"}])
def test_what_was_closed_then_and_is_open_today_is_seen(open_today: dict[str, Any]) -> None:
    corpus = in_memory(record("r", created_at="2026-01-01", **open_today))
    assert ids(corpus.retrieve("fee", as_of="2026-02-01")) == ["r"]
    assert ids(corpus.retrieve("fee", as_of="2027-02-01")) == ["r"]


def test_the_deleted_is_gone_from_the_past_and_what_it_retired_is_back(corpus: Corpus) -> None:
    corpus.add(CHAIN)
    corpus.delete("feb")
    assert ids(corpus.retrieve("fee", as_of="2026-02-15")) == ["jan"]


def test_the_retired_is_still_found_before_its_end(corpus: Corpus) -> None:
    corpus.add(CHAIN)
    corpus.retire("mar")
    assert ids(corpus.retrieve("fee", as_of="2026-06-14")) == ["mar"]
    assert ids(corpus.retrieve("fee")) == []


def test_what_lies_ahead_is_seen_from_the_future() -> None:
    corpus = in_memory(record("now", slots=FACT), record("plan", valid_from="2026-07-01", slots=FACT))
    assert ids(corpus.retrieve("fee")) == ["now"]
    assert ids(corpus.retrieve("fee", as_of="2026-07-01")) == ["plan"]


def test_recency_is_judged_at_the_time_asked_about() -> None:
    corpus = in_memory(record("r", "fee", created_at="2026-01-01"))
    (then,) = corpus.retrieve("fee", as_of="2026-01-31", rank="composite").hits
    (now,) = corpus.retrieve("fee", rank="composite").hits
    # 0.35 * 0.5 thirty days later, 0.35 * 2 ** -(165.5 / 30) today.
    assert then.score - now.score == pytest.approx(0.175 - 0.35 * 0.021846, abs=1e-5)


def test_the_algebra_looks_back_in_the_same_way() -> None:
    corpus = in_memory(*CHAIN)
    query = (lexical & everyone) - superseded
    assert ids(corpus.run(query, "fee", as_of="2026-02-15")) == ["feb"]
    assert [drop.id for drop in corpus.explain(query, "fee", as_of="2026-02-15").trace.drops] == ["jan"]


@pytest.mark.parametrize(
    "as_of",
    [
        "2026-02-15",
        date(2026, 2, 15),
        datetime(2026, 2, 15, tzinfo=UTC),
        "2026-02-15T09:00:00+09:00",
        int(datetime(2026, 2, 15, tzinfo=UTC).timestamp()),
    ],
)
def test_every_form_of_a_time_means_the_same(as_of: Any) -> None:
    result = in_memory(*CHAIN).retrieve("fee", as_of=as_of)
    assert (ids(result), result.trace.at) == (["feb"], datetime(2026, 2, 15, tzinfo=UTC))


@pytest.mark.parametrize("as_of", ["2026-02-15T09:00:00", datetime(2026, 2, 15, 9), "last week", True, []])
def test_a_time_that_cannot_be_read_is_refused_by_name(as_of: Any) -> None:
    with pytest.raises(ArgumentError, match="as_of="):
        in_memory().retrieve("fee", as_of=as_of)


def test_a_time_without_an_offset_is_read_in_the_zone_of_the_corpus() -> None:
    corpus = in_memory(*CHAIN, naive_zone="Asia/Tokyo")
    assert ids(corpus.retrieve("fee", as_of="2026-02-01T08:59:59")) == ["jan"]
    assert ids(corpus.retrieve("fee", as_of="2026-02-01T09:00:00")) == ["feb"]


def test_none_is_the_present() -> None:
    corpus = in_memory(*CHAIN)
    assert ids(corpus.retrieve("fee", as_of=None)) == ids(corpus.retrieve("fee")) == ["mar"]
