"""What a text holds by rule: entities that are counted, and slots that it asserts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import ArgumentError, Corpus, Record, RecordError, RuleSlots, Slot
from ctxarith.ingest.entities import count_entities
from tests.fakes import WordEmbedder


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("the fee is due soon", 0),
        ("Fee. Rent. Keys are here", 0),
        ("the fee is ₹45,000", 1),
        ("due on 2026-03-15", 1),
        ("valve KYO-H12 leaks", 1),
        ("KYO-H12 leaks", 1),
        ("case JPN-2026-0417 of lead GJ-4521", 2),
        ("we met Ines Vogt and Tomas Rell", 2),
        ("Fee is ₹45,000 until 2026-03-15. She asked Meera Shah about KYO-H12.", 4),
        ("Gültig bis 31.12.2026 in Zürich", 2),
        ("ફી 45000 છે", 1),
    ],
)
def test_entities_are_counted_by_rule(text: str, count: int) -> None:
    assert count_entities(text) == count


def test_a_word_that_begins_a_sentence_is_no_name() -> None:
    assert count_entities("Yesterday she called. Tomorrow she comes.\nNothing else.") == 0


@given(st.text(st.sampled_from("aZ9b3Q_-.,:/!?|$ \t\n\r\x0b\x0c\x1c'A"), max_size=24))
def test_a_sign_of_another_script_after_a_text_changes_no_count(text: str) -> None:
    assert count_entities(text) == count_entities(f"{text}。")


@given(st.text())
def test_any_text_can_be_counted(text: str) -> None:
    assert 0 <= count_entities(text) <= len(text)


@pytest.mark.parametrize("text", ["a" * 200_000, "A-" * 100_000, "1" * 200_000, "Ab " * 60_000])
def test_a_long_unbroken_text_is_counted_in_one_pass(text: str) -> None:
    # TK-02
    assert count_entities(text) in (0, 1)


RULES = RuleSlots({"fee": r"fee (?:is|was) (?P<value>[0-9]+)", "batch": r"(?P<value>\w+) batch"})


def found(text: str, **metadata: Any) -> list[tuple[str | None, str, Any]]:
    record = Record(id="r1", text=text, metadata={"lead_id": "GJ-4521", **metadata})
    return [(slot.subject, slot.attribute, slot.value) for slot in RULES(record)]


def test_a_rule_finds_the_value_of_its_attribute() -> None:
    assert found("The fee is 45 EUR") == [("GJ-4521", "fee", "45")]


def test_several_rules_find_several_slots() -> None:
    assert found("March batch, fee is 45") == [("GJ-4521", "fee", "45"), ("GJ-4521", "batch", "March")]


def test_the_last_match_counts() -> None:
    assert found("The fee was 40, now the fee is 45") == [("GJ-4521", "fee", "45")]


def test_case_does_not_matter_and_a_match_may_cross_lines() -> None:
    rules = RuleSlots({"fee": r"new fee.*?(?P<value>[0-9]+)"})
    record = Record(id="r1", text="NEW FEE\nof EUR 45", metadata={"lead_id": "GJ-4521"})
    assert [slot.value for slot in rules(record)] == ["45"]


def test_a_text_without_a_match_or_a_record_without_a_subject_has_no_slots() -> None:
    assert found("Nothing about money") == []
    assert RULES(Record(id="r1", text="The fee is 45")) == ()


def test_the_subject_may_stand_under_another_key() -> None:
    rules = RuleSlots({"fee": r"fee is (?P<value>\d+)"}, subject="learner_id")
    assert rules(Record(id="r1", text="fee is 45", metadata={"learner_id": 7})) == (Slot("7", "fee", "45"),)


@pytest.mark.parametrize("pattern", ["fee is ([0-9]+)", "fee is (?P<amount>[0-9]+)", "(?P<value>", 7])
def test_a_rule_that_can_find_no_value_is_refused_by_name(pattern: Any) -> None:
    with pytest.raises(ArgumentError, match=r"rules\['fee'\]"):
        RuleSlots({"fee": pattern})


def slots_after_ingest(given: dict[str, Any], **options: Any) -> tuple[Slot, ...]:
    corpus = Corpus.in_memory(embedder=WordEmbedder(), **options)
    corpus.add([{"id": "r1", **given}])
    (record,) = corpus.get("r1")
    return record.slots


def test_slots_are_found_at_ingest() -> None:
    given = {"text": "The fee is 45 EUR", "metadata": {"lead_id": "GJ-4521"}}
    assert slots_after_ingest(given, slots=RULES) == (Slot("GJ-4521", "fee", "45"),)


def test_a_slot_that_was_given_wins_over_the_rule_for_its_attribute() -> None:
    given = {
        "text": "March batch, fee is 45",
        "metadata": {"lead_id": "GJ-4521"},
        "slots": [{"subject": "GJ-4521", "attribute": "fee", "value": 40}],
    }
    assert slots_after_ingest(given, slots=RULES) == (
        Slot("GJ-4521", "fee", 40),
        Slot("GJ-4521", "batch", "March"),
    )


def test_a_slot_without_a_subject_speaks_of_the_records_own() -> None:
    given = {"text": "x", "metadata": {"lead_id": "GJ-4521"}, "slots": [{"attribute": "fee", "value": 40}]}
    assert slots_after_ingest(given) == (Slot("GJ-4521", "fee", 40),)
    given["metadata"] = {"learner_id": "L-1"}
    assert slots_after_ingest(given, subject_key="learner_id") == (Slot("L-1", "fee", 40),)


def test_a_slot_without_any_subject_is_refused_by_name() -> None:
    with pytest.raises(RecordError, match=r"r1.*slots\.subject.*lead_id"):
        slots_after_ingest({"text": "x", "slots": [{"attribute": "fee", "value": 40}]})


def test_any_function_from_a_record_to_slots_is_an_extractor() -> None:
    def said(record: Record) -> tuple[Slot, ...]:
        return (Slot("s", "words", len(record.text.split()), inferred=True),)

    assert slots_after_ingest({"text": "one two"}, slots=said) == (Slot("s", "words", 2, inferred=True),)
