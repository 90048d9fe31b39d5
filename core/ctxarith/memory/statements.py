"""What a sentence asserts, by rule: "the delivery date is May 9" is a slot, and so can be replaced.

This is deliberately narrow, since a slot retires older ones. It reads plain English statements of a named
attribute and its value; it does not know that "the launch" and "going live" are one thing, resolves no
pronoun, and takes no hedged, conditional, negated or past statement. What it cannot read can be given as
slots on the message, which win, or by an extractor of one's own such as `RuleSlots`.
"""

from __future__ import annotations

import re

from ctxarith.model import Record, Slot

_WORD = r"[^\W\d_][\w'’&/-]*"
_VERB = (
    r"(?:is|are|am|was|were|be|been|will|shall|has|have|had|to|at|by|for|and|or|but|that|which|who|with"
    r"|until|while|when|changed|moved|moves|goes|becomes|now|should|can|could|would|might|may|not|from|in|on|as)\b"
)
_ATTRIBUTE = rf"(?P<attribute>(?!{_VERB}){_WORD}(?:\s+(?!{_VERB}){_WORD}){{0,4}})"
_THE = r"(?:the|our|my|your|his|her|their|its)\s+"
_CHANGED = (
    r"(?:changed|moved|set|raised|lowered|pushed|postponed|extended|reduced|increased|updated|switched)"
)
_IS = (
    r"(?:(?:was|were)\s[^.;!?]{1,40}?\s(?:and|but)\s)?"
    rf"(?:(?:has|have)\s+(?:now\s+)?(?:been\s+)?{_CHANGED}(?:\s+from\s[^.;!?]{{1,30}}?)?\s+to"
    rf"|(?:is|are|was|were)\s+(?:now\s+)?{_CHANGED}(?:\s+from\s[^.;!?]{{1,30}}?)?\s+to"
    r"|(?:changed|moved|moves|went|goes)\s+to"
    r"|(?:will|shall)\s+(?:now\s+)?be|becomes|(?:is|are)(?:\s+now)?)"
)
_VALUE = (
    r"(?P<value>\S(?:[^;!?\n]*?))"
    r"(?=,\s|[;!?\n]|\.(?:\s|$)|\s(?:and|but|because|since|so|which|instead|rather|from\snow)\b|$)"
)
_SET = (
    r"\b(?:set|change|changed|move|moved|switch|switched|update|raise|lower|push|postpone|extend|keep|make)"
)
_TAKE = (
    r"\b(?:use|go(?:ing)?\s+with|went\s+with|choose|chose|pick|picked|take|adopt|book|keep"
    r"|settled\s+on)"
)


def _compiled(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


_STATED = _compiled(rf"(?:\b{_THE}|^(?:[-*]\s+)?|\bthat\s+){_ATTRIBUTE}\s+{_IS}\s+{_VALUE}")
# "Change the date to May 9" and "use butter for the cake" are advice, unless they are decisions.
_DECIDED = _compiled(
    rf"{_SET}\s+{_THE}{_ATTRIBUTE}\s+(?:from\s[^.;!?]{{1,30}}?\s+)?(?:to|at)\s+{_VALUE}",
    rf"{_TAKE}\s+(?P<value>[^,.;!?]{{1,60}}?)\s+(?:as|for)\s+(?:{_THE})?{_ATTRIBUTE}",
)
# "We decided to launch on May 9."
_PLANNED = _compiled(rf"\b(?:decided|agreed)\s+to\s+{_ATTRIBUTE}\s+(?:on|at|by|in)\s+{_VALUE}")
_LABELLED = _compiled(rf"^{_ATTRIBUTE}\s*(?::|=)\s+(?P<value>(?:[^,;!?\n]|(?<=\d),(?=\d))*?)\s*\.?$")
# "We decided to use Postgres.": of what, is not said; "from Postgres to MySQL" finds it again by its value.
_CHOICE = re.compile(rf"{_TAKE}\s+(?P<value>[^,.;!?]{{1,40}}?)(?:\s+instead)?\s*[.!]?$", re.IGNORECASE)
_ONE_OF = re.compile(r"(?:the\s+)?(?P<kind>[a-z]+(?: [a-z]+)?) [A-Z0-9][\w-]*$")
_PHRASE, _END = r"[^,.;!?]{1,40}?", r"(?=[,.;!?]|$)"
_REPLACED = re.compile(
    rf"\bfrom\s+(?P<old>{_PHRASE})\s+to\s+(?P<new>{_PHRASE})"
    r"(?=\s+(?:instead|because|since|for|as)\b|[,.;!?]|$)"
    rf"|\breplac(?:e|ed|ing)\s+(?P<old2>{_PHRASE})\s+with\s+(?P<new2>{_PHRASE}){_END}"
    rf"|{_TAKE}\s+(?P<new3>{_PHRASE})\s+(?:instead\s+of|rather\s+than|not)\s+(?P<old3>{_PHRASE}){_END}",
    re.IGNORECASE,
)
# "If the fee is 40, ..." asserts nothing.
_HEDGED = re.compile(
    r"\b(?:if|unless|whether|once|when|whenever|maybe|perhaps|might|could|would|should|suppose|imagine|assuming|probably|possibly"
    r"|not|never|no longer|isn't|aren't|won't|don't|doesn't|didn't|used to)\b|n’t\b|\?\s*$",
    re.IGNORECASE,
)
_QUALIFIERS = frozenset(
    ("new", "current", "final", "updated", "revised", "latest", "agreed", "actual", "old", "present", "exact")
)
# Heads that name nothing in particular: two sentences with one of them speak of different things.
_VAGUE_WORDS = """
it this that these those there here he she they we i you who what which why how when where one ones thing
things point points problem problems question questions answer answers idea ideas reason reasons issue
issues result results rest other others example examples goal goals way ways part kind sort bit lot fact
truth trick key best worst first second third next last same main most some all note ps re user assistant
system tool step steps tip tips option options something everything nothing anything everyone someone
and or so yes no ok okay well thanks today tomorrow yesterday subject hi hello decision
"""
_VAGUE = frozenset(_VAGUE_WORDS.split())
# A number, a name or a date, which only small words may stand before.
_CONCRETE = re.compile(
    r"(?:(?:on|at|in|by|from|about|around|only|exactly|next|this|between|till|until)\s+)*[^\w\s]{0,2}"
    r"(?:\d|[A-Z][\w&-]*|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:a )?dozen"
    r"|(?:a )?hundred|(?:a )?thousand|(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|today|january"
    r"|february|march|april|june|july|august|september|october|november|december)\b)"
)
_DIGIT = re.compile(r"\d")
_NO_VALUE = re.compile(
    r"(?:a|an|the|to|that|very|so|too|really|about|because|how|what|why|where|when)\s", re.I
)
_AROUND = " .\"'“”*"
_MOST_WORDS = 8
# So that no pattern is tried on a page without a full stop.
_LONGEST = 600


def statements(sentence: str, *, decided: bool = False, labels: bool = True) -> tuple[Slot, ...]:
    """The slots that a sentence asserts, most often none.

    Args:
        sentence: one sentence, of which 600 characters are read.
        decided: it is a decision, whose value may be any; otherwise it begins with a number, name or date.
        labels: "Budget: 45,000 INR" counts, if the value holds a number.

    >>> statements("The delivery date is now May 9, not May 3.")
    ()
    >>> statements("The delivery date is now May 9.")
    (Slot(subject=None, attribute='delivery date', value='May 9', inferred=False),)
    >>> statements("We decided to use Postgres for the database.", decided=True)[0].value
    'Postgres'
    """
    text = sentence[:_LONGEST]
    if _HEDGED.search(text):
        return ()
    found: dict[str, Slot] = {}
    decisions = (*_DECIDED, *_PLANNED) if decided else ()
    for pattern in (*_STATED, *decisions, *(_LABELLED if labels else ())):
        for match in pattern.finditer(text):
            attribute, value = _attribute(match["attribute"]), match["value"].strip(_AROUND)
            free = decided and pattern not in _PLANNED
            if attribute and _is_value(value, free) and (pattern not in _LABELLED or _DIGIT.search(value)):
                found.setdefault(attribute, Slot(None, attribute, value))
    choice = _CHOICE.search(text) if decided and not found else None
    if choice and not _NO_VALUE.match(choice["value"]):
        value = choice["value"].strip(_AROUND)
        # "vendor B" is a choice among vendors; "Postgres" among what only a later sentence can say.
        named = _ONE_OF.match(value)
        found[value] = Slot(None, f"choice of {named['kind'] if named else value.casefold()}", value)
    return tuple(found.values())


def replaced_value(sentence: str) -> tuple[str, str] | None:
    """The old and the new value of a decision that names both.

    >>> replaced_value("We decided to switch from Postgres to MySQL.")
    ('Postgres', 'MySQL')
    """
    match = _REPLACED.search(sentence[:_LONGEST])
    if match is None:
        return None
    old = next(match[name] for name in ("old", "old2", "old3") if match[name])
    new = next(match[name] for name in ("new", "new2", "new3") if match[name])
    return old.strip(_AROUND), new.strip(_AROUND)


class StatementSlots:
    """`statements` as an extractor, which is what `RollingMemory` reads messages with by default."""

    def __call__(self, record: Record, /) -> tuple[Slot, ...]:
        """The slots of a sentence; `metadata` holds its kind and the role that said it."""
        told = record.metadata
        # The labels of an assistant's list ("Warm-up: 5 minutes") are no facts of the conversation.
        return statements(
            record.text, decided=told.get("kind") == "decision", labels=told.get("role") != "assistant"
        )


def slot_key(slot: Slot) -> tuple[str, str]:
    """What two slots about one fact share: subject and attribute, whatever their case and spacing."""
    return (slot.subject or "", " ".join(slot.attribute.casefold().split()))


def _attribute(raw: str) -> str:
    words = raw.casefold().split()
    if "of" in words[1:-1]:
        # "the date of the delivery" and "the delivery date" are one attribute.
        head, tail = words[: words.index("of")], words[words.index("of") + 1 :]
        words = [word for word in tail if word not in ("the", "our", "my", "your")] + head
    while words and (words[0] in _QUALIFIERS or words[0] in ("the", "our", "my", "your")):
        words = words[1:]
    if not words or len(words) > 4 or _VAGUE.intersection((words[0], words[-1])):
        return ""
    return " ".join(words)


def _is_value(value: str, decided: bool) -> bool:
    if not value or len(value.split()) > _MOST_WORDS or value.startswith("/") or ": " in value:
        return False
    return not _NO_VALUE.match(value) and (decided or bool(_CONCRETE.match(value)))
