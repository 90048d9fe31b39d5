"""What a summary keeps by rule, what replaces what, and what leaves first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from ctxarith import ExtractiveSummarizer, Message, Point, RollingMemory, RuleSlots, Slot, Summary
from ctxarith.memory.digest import current, fitted, merged
from ctxarith.memory.extract import points_of, sentences
from ctxarith.memory.statements import statements
from ctxarith.models.tokens import TiktokenCounter
from tests.conftest import NOW

count = TiktokenCounter()


def say(*texts: str, role: str = "user") -> list[Message]:
    return [Message(role, text, n, NOW + timedelta(minutes=n)) for n, text in enumerate(texts, start=1)]


def texts(summary: Summary) -> list[str]:
    return [point.text for point in summary.points]


def kept(*said: str) -> list[str]:
    return texts(merged(Summary(), say(*said)))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("We decided to ship in March.", "decision"),
        ("Let's go with the blue one.", "decision"),
        ("The launch has been moved to 9 May.", "decision"),
        ("I'll send the contract on Monday.", "commitment"),
        ("The invoice is due on 2026-04-01.", "commitment"),
        ("The fee is 45,000 INR.", "fact"),
        ("My sister Meera lives in Pune.", "fact"),
        ("फीस 45,000 रुपये है।", "fact"),
        ("Which room is it?", "question"),
        ("We have not decided on the colour yet.", "question"),
        ("It was a long day.", "remark"),
    ],
)
def test_a_sentence_has_a_kind(text: str, kind: str) -> None:
    (point,) = points_of(Message("user", text, 1))
    assert (point.kind, point.text, point.turns) == (kind, text, (1,))


@pytest.mark.parametrize(
    "text",
    [
        "Set the oven to 180 degrees.",
        "If it is approved, you'll get 2 letters.",
        "You'll love it, all 3 of you.",
    ],
)
def test_advice_of_an_assistant_is_neither_decision_nor_commitment(text: str) -> None:
    (point,) = points_of(Message("assistant", text, 1))
    assert (point.kind, point.slots) == ("fact", ())


def test_a_citation_behind_a_sentence_is_no_fact() -> None:
    said = "The fee is 12 EUR. [contract@v3] [E9f5b1f@153b]. [x] Call 4 parents."
    assert [point.text for point in points_of(Message("assistant", said, 1))] == [
        "The fee is 12 EUR.",
        "[x] Call 4 parents.",
    ]


def test_what_the_user_said_is_kept_longer() -> None:
    said = [Message("assistant", "Eggs keep 5 weeks.", 2), Message("user", "Meera has eggs.", 1)]
    assert max(merged(Summary(), said).points, key=lambda point: point.weight).said_by == "user"


def test_a_tool_gives_facts_and_never_a_decision_or_a_slot() -> None:
    (point,) = points_of(Message("tool", "We decided that the fee is 1 EUR.", 1, answers="c1"))
    assert (point.kind, point.slots) == ("fact", ())


def test_sentences_end_where_people_end_them() -> None:
    said = "- Fee: Rs. 45,000.\n2) It is due on 3.5.2026! आज ठीक है। Really?"
    assert list(sentences(said)) == [
        "Fee: Rs. 45,000.",
        "It is due on 3.5.2026!",
        "आज ठीक है।",
        "Really?",
    ]


@pytest.mark.parametrize(
    ("sentence", "attribute", "value"),
    [
        ("The delivery date is May 9.", "delivery date", "May 9"),
        ("The date of the delivery is May 9.", "delivery date", "May 9"),
        ("Our new delivery date is 2026-05-09, by the way.", "delivery date", "2026-05-09"),
        ("The fee was 40,000 and is now 45,000.", "fee", "45,000"),
        ("The meeting has been moved from Monday to Friday.", "meeting", "Friday"),
        ("Change the delivery date to May 9.", "delivery date", "May 9"),
        ("Budget: 45,000 INR", "budget", "45,000 INR"),
        ("Delivery is on May 9.", "delivery", "on May 9"),
    ],
)
def test_a_plain_statement_is_a_slot(sentence: str, attribute: str, value: str) -> None:
    assert statements(sentence, decided=True) == (Slot(None, attribute, value),)


@pytest.mark.parametrize(
    "sentence",
    [
        "Is the delivery date May 9?",
        "If the delivery date is May 9, we are late.",
        "The delivery date is not May 9.",
        "The delivery date was May 3.",
        "Maybe the delivery date is May 9.",
        "The problem is that Meera is late.",
        "It is May 9.",
        "The food is good.",
        "The answer is 42.",
        "https://example.org/fee: //12",
        "Once the fee is 40, call me.",
        "Career opportunities: Alumni can help.",
        "Use butter for the cake of 12 pieces.",
    ],
)
def test_what_is_asked_hedged_denied_past_or_vague_asserts_nothing(sentence: str) -> None:
    assert statements(sentence) == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("We decided to use Postgres for the database.", "We switched the database to MySQL."),
        ("We decided to use Postgres for the database.", "Let's move from Postgres to MySQL."),
        ("We decided to use Postgres.", "We decided to use MySQL instead of Postgres."),
        ("We agreed that the meeting room is B12.", "We agreed that the meeting room is now C4."),
        ("The fee is 40,000 INR.", "The fee has been raised to 45,000 INR."),
        ("We decided to launch on 2026-03-01.", "We decided to launch on 2026-04-15 instead."),
        ("We agreed to meet at 10:30.", "We agreed to meet at 11:00."),
        ("We'll go with vendor A.", "We'll go with vendor B instead."),
        ("Let's use Redis for caching.", "Let's use Valkey for caching."),
        ("Decision: the budget is 500 EUR.", "Decision: the budget is 600 EUR."),
        ("The delivery is on May 3.", "We moved the delivery to May 9."),
    ],
)
def test_a_changed_decision_stands_in_its_new_form_only(before: str, after: str) -> None:
    assert kept(before, "Thanks!", after) == ["Thanks!", after]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("We decided to use Postgres for the database.", "We decided to use Redis for the cache."),
        ("We'll go with vendor A.", "Let's book hotel B."),
        ("The fee is 40 EUR.", "The deposit is 10 EUR."),
        ("We agreed to meet at 10:30.", "We agreed to eat at 12:00."),
        ("My sister is 40.", "My brother is 38."),
    ],
)
def test_two_decisions_about_two_things_both_stand(one: str, other: str) -> None:
    assert kept(one, other) == [one, other]


def test_a_chain_of_changes_ends_at_the_last() -> None:
    chain = ["We chose Postgres.", "We switched from Postgres to MySQL.", "We switched from MySQL to DuckDB."]
    assert kept(*chain) == chain[-1:]


def test_newer_is_later_in_time_and_not_in_order_of_arrival() -> None:
    new, old = say("The fee is 45 EUR.", "The fee is 40 EUR.")
    late = Message("user", old.content, 2, NOW - timedelta(days=1))
    assert texts(merged(Summary(), [new, late])) == [new.content]


def test_explicit_slots_win_over_what_the_rules_read() -> None:
    said = Message("user", "The fee is 40 EUR.", 1, slots=(Slot("GJ-1", "quote", "40 EUR"),))
    (point,) = points_of(said)
    assert point.slots == said.slots


def test_a_mention_replaces_nothing() -> None:
    said = say("The fee is 40 EUR.")
    said.append(Message("user", "About the fee 9.", 2, NOW, slots=(Slot(None, "fee"),)))
    assert len(merged(Summary(), said).points) == 2


def test_of_several_facts_in_a_sentence_the_stale_one_is_named() -> None:
    said = say("The fee is 40 EUR, and the room is B12.", "The fee is now 45 EUR.")
    summary = merged(Summary(), said)
    assert len(summary.points) == 2
    assert "room is B12. (out of date here: fee)" in fitted(summary, 200, count).text


def test_own_rules_read_slots_too() -> None:
    rules = RuleSlots({"batch": r"(?P<value>\w+) batch"}, subject="role")
    with RollingMemory(thread_id="t", slots=rules, clock=lambda: NOW, max_tokens=99, keep_recent=1) as memory:
        memory.append("user", "I want the January batch.")
        memory.append("user", "I want the March batch, please.")
        memory.append("user", "Thanks.")
        memory.flush()
        assert texts(memory.summary) == ["I want the March batch, please."]


def test_the_same_sentence_twice_is_one_point_with_both_turns() -> None:
    summary = merged(Summary(), say("Meera lives in Pune.", "Hm.", "Meera lives in Pune."))
    assert [point.turns for point in summary.facts] == [(1, 3)]


def test_a_question_is_open_until_another_answers() -> None:
    asked = merged(Summary(), say("Which room is it?"))
    assert texts(asked) == ["Which room is it?"]
    assert merged(asked, [Message("assistant", "B12.", 2)]).open_questions == ()
    assert merged(asked, [Message("user", "Hello?", 2)]).open_questions != ()
    assert merged(asked, [Message("assistant", "I'll find out.", 2)]).open_questions != ()


def point(kind: str, text: str, turn: int, weight: int = 0) -> Point:
    return Point(kind, text, (turn,), NOW, weight=weight)  # type: ignore[arg-type]


def leaving_order(points: list[Point]) -> Iterator[str]:
    summary = Summary(tuple(points), covers=9)
    limit = count(fitted(summary, 10_000, count).text)
    gone: set[str] = set()
    for room in range(limit, 0, -1):
        left = {one.text for one in fitted(summary, room, count).evicted} - gone
        gone |= left
        yield from sorted(left)


def test_remarks_leave_first_and_decisions_last() -> None:
    points = [
        point("decision", "d old", 1),
        point("decision", "d new", 2),
        point("remark", "r", 3),
        point("question", "q", 4),
        point("fact", "f light", 5),
        point("fact", "f heavy", 4, weight=5),
        point("commitment", "c", 5),
    ]
    assert list(leaving_order(points)) == ["r", "q", "f light", "f heavy", "c", "d old", "d new"]


def test_a_summary_never_outgrows_its_bound() -> None:
    summary = merged(
        Summary(prose="A long story. " * 40), say(*[f"We agreed on {n} EUR." for n in range(30)])
    )
    for limit in range(0, 200, 9):
        assert count(fitted(summary, limit, count).text) <= limit


def test_the_rules_are_a_summarizer_like_any_other() -> None:
    summary = ExtractiveSummarizer()(Summary(), say("The fee is 40 EUR."))
    assert (texts(summary), summary.covers) == (["The fee is 40 EUR."], 1)


def test_nothing_that_stands_was_retired() -> None:
    points = merged(Summary(), say("The fee is 40 EUR.", "The room is B12.", "The fee is 45 EUR.")).points
    assert current(points) == (list(points), [])


def test_prose_does_not_name_a_replaced_value() -> None:
    before = merged(Summary(), say("We decided to use Postgres for the database."))
    told = Summary(before.points, 1, "They like Postgres. It rained. Postgrest is fine.")
    after = merged(told, [Message("user", "We switched the database to MySQL.", 2, NOW + timedelta(days=1))])
    assert after.prose == "It rained. Postgrest is fine."
