"""A caller of an invented academy asks fifteen questions, twice: the conversation of the second notebook."""

from __future__ import annotations

from datetime import UTC, datetime

from ctxarith.model import Record

START = datetime(2026, 3, 2, 9, tzinfo=UTC)

_LIBRARY = {
    "fees.pdf": (
        "The foundation course costs INR 68,500, in three instalments of INR 22,834.",
        "A scholarship of ten percent is open until 30 April for students above 90 percent.",
        "The registration fee of INR 2,000 is not refunded when a student withdraws.",
    ),
    "batches.pdf": (
        "The March batch meets on Monday, Wednesday and Friday at 18:00 in Ahmedabad.",
        "The weekend batch meets on Saturday and Sunday at 10:00, online only.",
        "A student may change the batch once, within the first fourteen days.",
    ),
    "exams.pdf": (
        "The CA Foundation examination takes place in June and in December.",
        "Four papers are written: accounting, law, quantitative aptitude and economics.",
        "A mock examination is held on the last Sunday of each month.",
    ),
    "hostel.pdf": (
        "The hostel has 120 rooms; a shared room costs INR 9,000 a month, meals included.",
        "Visitors are welcome on Sunday afternoons, and the gate closes at 21:30.",
    ),
}

QUESTIONS = (
    "What does the foundation course cost?",
    "What does the foundation course cost in instalments?",
    "Is a scholarship open for the foundation course?",
    "Until when is the scholarship open?",
    "Is the registration fee refunded?",
    "When does the March batch meet?",
    "Where does the March batch meet?",
    "When does the weekend batch meet?",
    "Is the weekend batch online only?",
    "May a student change the batch?",
    "When does the CA Foundation examination take place?",
    "Which papers are written in the examination?",
    "When is the mock examination held?",
    "What does a shared room in the hostel cost?",
    "When does the gate of the hostel close?",
)


def records(*, fees_for: str | None = None) -> list[Record]:
    """The documents, a record for each sentence; `fees_for` closes those on fees to all but a group."""
    return [
        Record(
            id=f"{name}#{number}",
            text=text,
            source_id=name,
            tenant="academy",
            created_at="2026-02-01",
            audience=[fees_for] if fees_for and name == "fees.pdf" else [],
        )
        for name, texts in _LIBRARY.items()
        for number, text in enumerate(texts)
    ]
