from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import ArgumentError, Corpus, Record, RecordError
from ctxarith.instant import EPOCH, instant, iso
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.strategies import anything, times

NINE = datetime(2026, 6, 1, 9, tzinfo=UTC)
EIGHT = datetime(2026, 6, 1, 8, tzinfo=UTC)
MIDNIGHT = datetime(2026, 6, 1, tzinfo=UTC)


def memory(**options: Any) -> Corpus:
    return Corpus.in_memory(**{"clock": lambda: NOW, "embedder": WordEmbedder(), **options})


@pytest.mark.parametrize(
    "given_time",
    [
        EIGHT,
        datetime(2026, 6, 1, 17, tzinfo=timezone(timedelta(hours=9))),
        "2026-06-01T08:00:00Z",
        "2026-06-01T03:00:00-05:00",
        "2026-06-01 08:00+00:00",
        "  2026-06-01T08:00Z\n",
        1_780_300_800,
        1_780_300_800.0,
    ],
    ids=repr,
)
def test_every_accepted_form_is_the_same_moment(given_time: Any) -> None:
    assert instant(given_time) == EIGHT
    assert instant(given_time).tzinfo is UTC


@pytest.mark.parametrize("bare", [date(2026, 6, 1), "2026-06-01", "20260601"])
def test_a_bare_date_is_midnight_in_utc_whatever_the_zone(bare: Any) -> None:
    assert instant(bare, naive_zone=timezone(timedelta(hours=9))) == MIDNIGHT


@pytest.mark.parametrize("naive", [datetime(2026, 6, 1, 9), "2026-06-01T09:00", "2026-06-01 09:00:00.5"])
def test_a_time_without_an_offset_is_refused(naive: Any) -> None:
    with pytest.raises(ValueError, match="naive_zone"):
        instant(naive)


def test_a_zone_that_knows_no_offset_counts_as_none() -> None:
    class Nowhere(tzinfo):
        def utcoffset(self, moment: datetime | None) -> None:
            return None

        dst = tzname = utcoffset

    with pytest.raises(ValueError, match="naive_zone"):
        instant(datetime(2026, 6, 1, 9, tzinfo=Nowhere()))


def test_a_naive_time_is_read_in_the_zone_that_is_given() -> None:
    assert instant("2026-06-01T17:00", naive_zone=timezone(timedelta(hours=9))) == EIGHT


@pytest.mark.parametrize(
    "unreadable",
    [
        *("", "  ", "yesterday", "15/01/2026", "2026-13-01", "2026-02-30", "1780300800", "2026-06-01T25:00Z"),
        *(True, None, [], float("nan"), float("inf"), 10**12, -(10**12), 10**400),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9))),
        "0001-01-01T00:00:00+09:00",
        "9999-12-31T23:59:59-05:00",
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_time_is_refused(unreadable: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        instant(unreadable)


@given(anything() | st.text(st.sampled_from("0123456789-:TZ+.W ,"), max_size=24))
def test_anything_is_a_time_in_utc_or_refused(value: Any) -> None:
    try:
        moment = instant(value)
    except ValueError:
        return
    assert moment.tzinfo is UTC


def test_the_first_and_the_last_moment_are_times() -> None:
    assert instant("0001-01-01") == datetime(1, 1, 1, tzinfo=UTC)
    assert instant("9999-12-31T23:59:59.999999Z") == datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def test_seconds_before_1970_and_fractions_are_exact() -> None:
    assert instant(-1) == EPOCH - timedelta(seconds=1)
    assert instant(0.000_001) == EPOCH + timedelta(microseconds=1)


@given(times())
def test_the_canonical_text_is_read_back_as_the_same_moment(moment: datetime) -> None:
    assert iso(moment).endswith("Z")
    assert instant(iso(moment)) == moment


@given(times(), st.integers(-14, 14))
def test_the_offset_a_moment_is_written_in_makes_no_difference(moment: datetime, hours: int) -> None:
    try:
        elsewhere = moment.astimezone(timezone(timedelta(hours=hours)))
    except OverflowError:
        return
    assert iso(elsewhere) == iso(moment)
    assert instant(elsewhere.isoformat()) == moment


def test_naive_and_aware_times_stand_in_one_order() -> None:  # RE-01
    with memory(naive_zone="UTC") as corpus:
        corpus.add(
            [
                Record(id="t1", text="pump", created_at=datetime(2026, 6, 1, 9)),
                Record(id="t2", text="pump", created_at=EIGHT),
                {"id": "t3", "text": "pump", "created_at": "2026-06-01"},
                {"id": "t4", "text": "pump", "created_at": 1_780_300_800},
            ]
        )
        hits = corpus.retrieve("pump").hits
    assert [hit.id for hit in hits] == ["t1", "t2", "t4", "t3"]
    assert [hit.record.created_at for hit in hits] == [NINE, EIGHT, EIGHT, MIDNIGHT]


@pytest.mark.parametrize("naive", [datetime(2026, 6, 1, 9), "2026-06-01T09:00"])
def test_a_corpus_without_a_zone_refuses_naive_times(naive: Any) -> None:  # RE-01
    with memory() as corpus:
        with pytest.raises(RecordError, match=r"'t1'.*'created_at'.*naive_zone"):
            corpus.add([Record(id="t0", text="pump"), Record(id="t1", text="pump", created_at=naive)])
        assert corpus.count() == 0


def test_offsets_are_compared_as_moments(corpus: Corpus) -> None:  # RE-02
    corpus.add([{"id": "o1", "text": "pump", "created_at": "2019-03-04T21:30:15-05:00"}])

    def found(condition: dict[str, str]) -> list[str]:
        return [hit.id for hit in corpus.retrieve("pump", where={"created_at": condition}).hits]

    assert found({"$lte": "2019-03-05T02:00:00Z"}) == []
    assert found({"$lte": "2019-03-05T03:00:00Z"}) == ["o1"]
    assert found({"$gte": "2019-03-05T04:20:00+02:00"}) == ["o1"]
    (record,) = corpus.get("o1")
    assert record.created_at is not None
    assert record.created_at.isoformat() == "2019-03-05T02:30:15+00:00"


@pytest.mark.parametrize(
    "written", ["2026-01-15T10:00:00Z", "2026-01-15T10:00:00.123Z", "2026-01-15 10:00", "20260115T1000Z"]
)
def test_a_trailing_z_is_read(written: str) -> None:  # RE-04
    with memory(naive_zone="UTC") as corpus:
        corpus.add([{"id": "z1", "text": "pump", "created_at": written}])
        (record,) = corpus.get("z1")
    assert record.created_at is not None
    assert record.created_at.replace(microsecond=0) == datetime(2026, 1, 15, 10, tzinfo=UTC)


def test_a_compact_date_is_a_bare_date() -> None:  # RE-04
    assert Record(id="z2", text="pump", created_at="20260115").created_at == datetime(2026, 1, 15, tzinfo=UTC)


@pytest.mark.parametrize("written", ["15/01/2026", "", "soon"])
def test_an_unreadable_time_never_makes_a_dateless_record(written: str) -> None:  # RE-04
    with pytest.raises(RecordError, match=r"'z3'.*'created_at'.*ISO 8601"):
        Record(id="z3", text="pump", created_at=written)


def test_no_date_is_the_same_as_leaving_it_out() -> None:  # RE-08
    assert Record(id="n1", text="pump", created_at=None) == Record(id="n1", text="pump")
    with memory(clock=None) as corpus:
        corpus.add([{"id": "n1", "text": "pump", "created_at": None}])
        assert [hit.id for hit in corpus.retrieve("pump", as_of=None).hits] == ["n1"]


def test_a_clock_without_an_offset_is_refused_by_name() -> None:  # RE-08
    with memory(clock=lambda: datetime(2026, 6, 15)) as corpus, pytest.raises(ArgumentError, match="clock"):
        corpus.retrieve("pump")


@pytest.mark.parametrize("given_time", ["2026-06-01T09:00", datetime(2026, 6, 1, 9), "soon", 1e300])
def test_an_unreadable_as_of_is_refused_by_name(given_time: Any) -> None:
    with memory() as corpus, pytest.raises(ArgumentError, match="as_of"):
        corpus.retrieve("pump", as_of=given_time)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../UTC", 5])
def test_an_unknown_zone_is_refused_by_name(name: Any) -> None:
    with pytest.raises(ArgumentError, match="naive_zone"):
        memory(naive_zone=name)


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    if before is None:
        monkeypatch.delenv("TZ")
    else:
        monkeypatch.setenv("TZ", before)
    time.tzset()


@pytest.mark.usefixtures("far_away")
def test_the_zone_of_the_machine_changes_nothing() -> None:
    assert datetime(2026, 6, 1, 9).astimezone().utcoffset() == timedelta(hours=9)
    assert instant("2026-06-01") == MIDNIGHT
    assert instant(1_780_300_800) == EIGHT
    assert iso(EIGHT) == "2026-06-01T08:00:00Z"
    with pytest.raises(ValueError, match="naive_zone"):
        instant(datetime(2026, 6, 1, 9))
    with memory(naive_zone="UTC") as corpus:
        corpus.add([{"id": "t1", "text": "pump", "created_at": "2026-06-01T09:00"}])
        assert corpus.get("t1")[0].created_at == NINE
        assert corpus.count({"created_at": date(2026, 6, 1)}) == 0
        assert corpus.count({"created_at": {"$gte": date(2026, 6, 1)}}) == 1
