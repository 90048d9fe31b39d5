"""What a text asserts, by rule: an attribute and a pattern that captures its value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ctxarith.errors import ArgumentError
from ctxarith.model import Record, Slot

SUBJECT_KEY = "lead_id"


class SlotExtractor(Protocol):
    """Finds the slots of a record at ingest."""

    def __call__(self, record: Record, /) -> tuple[Slot, ...]:
        """The slots found, most often none."""
        ...


@dataclass(frozen=True, slots=True, init=False)
class RuleSlots:
    """Deterministic slots: each rule is an attribute and a pattern with a group named `value`.

    The subject is the record's metadata under `subject`, by default the corpus's own subject key
    ("lead_id" unless told otherwise); a record without it gets no slots. Where a pattern matches
    several times the last match counts, as in "was 40, now 45".

    Raises:
        ArgumentError: for a pattern that cannot be compiled or has no group `value`.

    >>> rules = RuleSlots({"fee_quote": r"fee quote.*?(?P<value>[0-9,]+)"})
    >>> rules(Record(id="r1", text="New fee quote: INR 45,000", metadata={"lead_id": "GJ-1"}))[0].value
    '45,000'
    """

    rules: tuple[tuple[str, re.Pattern[str]], ...]
    subject: str | None

    def __init__(self, rules: Mapping[str, str], *, subject: str | None = None) -> None:
        if not isinstance(rules, Mapping):
            raise ArgumentError("rules", rules, "attributes with their patterns")
        compiled = tuple((name, _compiled(name, pattern)) for name, pattern in rules.items())
        object.__setattr__(self, "rules", compiled)
        object.__setattr__(self, "subject", subject)

    def about(self, subject: str) -> RuleSlots:
        """The same rules with a subject key, unless they have one of their own."""
        if self.subject is not None:
            return self
        return RuleSlots({name: pattern.pattern for name, pattern in self.rules}, subject=subject)

    def __call__(self, record: Record, /) -> tuple[Slot, ...]:
        """The slots that the rules find in the text."""
        subject = record.metadata.get(self.subject or SUBJECT_KEY)
        if subject is None:
            return ()
        found = ((name, list(pattern.finditer(record.text))) for name, pattern in self.rules)
        return tuple(Slot(str(subject), name, matches[-1]["value"]) for name, matches in found if matches)


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern, re.IGNORECASE | re.DOTALL)
    except (re.error, TypeError) as error:
        raise ArgumentError(f"rules[{name!r}]", pattern, f"not a pattern: {error}") from error
    if "value" not in compiled.groupindex:
        raise ArgumentError(f"rules[{name!r}]", pattern, "needs a group (?P<value>...)")
    return compiled
