"""The view of a packet: what a person sees of it, in each of its states, and what a stranger does not."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from rich.console import Console

from ctxarith import Principal
from ctxarith.demo import scenarios
from tests.test_packets import Trip


@pytest.fixture
def trip() -> Iterator[Trip]:
    made = Trip(next(one for one in scenarios() if one.name == "travel"))
    yield made
    made.corpus.close()


def states(trip: Trip, packet: object) -> dict[str, str]:
    rows = packet.view(trip.me).rows  # type: ignore[attr-defined]
    return {f"{row.source_id}@{row.version}": row.state for row in rows}


def test_an_unchanged_packet_shows_its_members_its_age_and_when_it_ends(trip: Trip) -> None:
    packet = trip.packet()
    trip.clock.step(minutes=20)
    view = packet.view(trip.me)
    assert (view.verdict, view.age) == ("reuse", timedelta(minutes=20))
    assert states(trip, packet) == {"contract@v3": "as it was shown", "inspection@v2": "as it was shown"}
    assert "20 minutes ago; expires in 40 minutes" in str(view)
    assert packet.manifest.packet_id in str(view)
    assert "for 'JPN-2026-0417'" in str(view)


def test_a_new_version_of_a_member_is_told_at_the_member(trip: Trip) -> None:
    packet = trip.packet()
    trip.corpus.add([{**trip.records["D1"], "version": "v4", "text": "Contract v4: free until 3 April."}])
    view = packet.view(trip.me)
    assert view.verdict == "refresh_required"
    assert states(trip, packet) == {
        "contract@v3": "D1 in the predicate: new evidence",
        "inspection@v2": "as it was shown",
    }
    assert "3 April" not in str(view) + view._repr_html_() + json.dumps(view.as_dict())


def test_every_write_that_concerns_it_is_listed_and_no_other(trip: Trip) -> None:
    packet = trip.packet()
    correction = {**trip.records["D2"], "slots": [], "version": "1", "source_id": "correction"}
    for name, booking in (("c1", "JPN-2026-0417"), ("c2", "JPN-2026-0417"), ("c3", "another")):
        trip.corpus.add([{**correction, "id": name, "metadata": {"booking": booking}}])
    assert [reason.about for reason in packet.view(trip.me).changed] == ["c1", "c2"]
    # A verdict needs only the first.
    assert [reason.about for reason in packet.revalidate(trip.me).reasons] == ["c1"]


def test_looking_changes_nothing_and_a_revalidation_does(trip: Trip) -> None:
    packet = trip.packet()
    trip.corpus.delete(["D2"], tenant=trip.me.tenant)
    assert states(trip, packet)["inspection@v2"] == "D2 version v2 is gone"
    assert packet._made.leaf.text
    packet.revalidate(trip.me)
    assert not packet._made.leaf.text
    assert packet.view(trip.me).verdict == "refresh_required"


@pytest.mark.parametrize(
    "who",
    [Principal("ledger", user="eve"), None],
    ids=["a stranger", "its own caller without the scope"],
)
def test_who_is_denied_sees_the_verdict_and_neither_number_task_nor_member(
    trip: Trip, who: Principal | None
) -> None:
    packet = trip.packet()
    less = Principal(trip.me.tenant, user=trip.me.user, groups=trip.me.groups, scopes=["trips/desk"])
    view = packet.view(who or less)
    assert (view.verdict, view.rows) == ("deny", ())
    told = str(view) + view._repr_html_() + json.dumps(view.as_dict())
    assert not [word for word in (packet.manifest.packet_id, "JPN", "contract", "inspection") if word in told]
    assert view.age is None
    assert "assembled" not in str(view)


def test_with_the_source_closed_no_member_is_called_unchanged(trip: Trip) -> None:
    packet = trip.packet()
    trip.corpus.close()
    view = packet.view(trip.me)
    assert view.verdict == "unverified"
    assert set(states(trip, packet).values()) == {"cannot be looked at"}


def test_terminal_notebook_and_json_tell_the_same(trip: Trip) -> None:
    packet = trip.packet()
    trip.clock.step(hours=2)
    view = packet.view(trip.me)
    terminal = io.StringIO()
    Console(width=120, file=terminal).print(view)
    for told in (str(view), view._repr_html_(), terminal.getvalue()):
        for word in ("refresh_required", "contract@v3", "inspection@v2", "expired 1 hour ago"):
            assert word in told
    plain = json.loads(json.dumps(view.as_dict()))
    assert plain["age_seconds"] == 7200
    members = {(one["source_id"], one["version"]) for one in plain["members"]}
    assert members == {("contract", "v3"), ("inspection", "v2")}


def test_the_card_of_a_notebook_escapes_what_others_wrote(trip: Trip) -> None:
    record = {**trip.records["D1"], "id": "x", "source_id": "<script>alert(1)</script>", "version": "9"}
    trip.corpus.add([record])
    packet = trip.packet(top=4)
    assert "<script>" in str(packet.view(trip.me))
    assert "<script>" not in packet._repr_html_()
