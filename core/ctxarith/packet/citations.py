"""Whether every mark of an answer names a member at its version, and which sentences have none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ctxarith.errors import ArgumentError
from ctxarith.packet.manifest import Kept, Member

_BRACKET = re.compile(r"\[([^\[\]\n]+)\](?!\()")
_SENTENCE = re.compile(r"(?<=[.!?])((?:\s*\[[^\[\]\n]+\])*)\s+|(?<=[。！？।])((?:\s*\[[^\[\]\n]+\])*)|\n+")


@dataclass(frozen=True, slots=True)
class Citations:
    """The marks of an answer, each once, in the order in which they stand.

    Args:
        supported: marks that name a member, with the member.
        unknown: marks that name nothing in the packet.
        wrong_version: marks that name a member at another version than the packet holds.
        uncited: sentences without any mark.
    """

    supported: Mapping[str, Member]
    unknown: tuple[str, ...]
    wrong_version: tuple[str, ...]
    uncited: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every mark is supported and every sentence has one."""
        return not (self.unknown or self.wrong_version or self.uncited)


def cited(answer: str, members: Mapping[str, Member]) -> Citations:
    """Read the marks of an answer: `[1]`, `[source]`, `[source@version]`, and several as `[1, 2]`.

    Args:
        answer: text.
        members: what the packet holds, by the number of its mark and by the id of its record.

    >>> members = {"1": Member("contract", "v3")}
    >>> found = cited("Free until 10 April [1]. It was 24 hours [contract@v2]. Enjoy!", members)
    >>> list(found.supported), found.wrong_version, found.uncited
    (['1'], ('contract@v2',), ('Enjoy!',))
    """
    marks: dict[str, Member | str] = {}
    for bracket in _BRACKET.findall(answer):
        for mark in _marks(bracket, members):
            marks[mark] = _named(mark, members)
    return Citations(
        {mark: found for mark, found in marks.items() if isinstance(found, Member)},
        tuple(mark for mark, found in marks.items() if found == "unknown"),
        tuple(mark for mark, found in marks.items() if found == "version"),
        tuple(one for one in _sentences(answer) if not _BRACKET.search(one)),
    )


def named_members(kept: Kept) -> dict[str, Member]:
    """What a packet holds, by the number of its mark and by the id of its record."""
    held = list(zip(kept.manifest.members, kept.holdings, strict=True))
    named = {str(mark): member for mark, (member, _) in enumerate(held, start=1)}
    for member, holding in held:
        named.setdefault(holding.id, member)
    return named


def mark_of(named: int | str, kept: Kept) -> int:
    """The mark of a member that is named by it, by its source or by its record.

    Raises:
        ArgumentError: the packet holds no such member.
    """
    members, word = kept.manifest.members, str(named)
    for mark, (member, holding) in enumerate(zip(members, kept.holdings, strict=True), start=1):
        if word in (str(mark), member.source_id, holding.id):
            return mark
    raise ArgumentError("cites", named, "a mark, source or record of this packet")


def _marks(bracket: str, members: Mapping[str, Member]) -> list[str]:
    # An id may hold a comma itself.
    if isinstance(_named(bracket, members), Member):
        return [bracket]
    return [
        part.strip() if part.strip().isdigit() else part for part in re.split(r"[,;]\s*", bracket) if part
    ]


def _named(mark: str, members: Mapping[str, Member]) -> Member | str:
    if mark in members:
        return members[mark]
    of_source = [member for member in members.values() if member.source_id == mark]
    if of_source:
        return of_source[0]
    exact = (one for one in members.values() if f"{one.source_id}@{one.version}" == mark)
    found = next(exact, None)
    if found:
        return found
    source = mark.rpartition("@")[0]
    known = {member.source_id for member in members.values()} | members.keys()
    return "version" if source and source in known else "unknown"


def _sentences(answer: str) -> Iterator[str]:
    begin = 0
    for end in _SENTENCE.finditer(answer):
        # Marks behind the full stop belong to the sentence that it ends.
        trailing = end.group(1) or end.group(2) or ""
        yield from _worded(answer[begin : end.start()] + trailing)
        begin = end.end()
    yield from _worded(answer[begin:])


def _worded(sentence: str) -> Iterator[str]:
    if re.search(r"\w", _BRACKET.sub("", sentence)):
        yield sentence.strip()
