"""A packet to look at: members with their versions, the verdict, the age, what has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any

from ctxarith.instant import iso
from ctxarith.packet.manifest import Kept
from ctxarith.packet.request import Request
from ctxarith.packet.verdict import DENY, NEXT, REFRESH, REUSE, UNVERIFIED, Reason, Revalidation

if TYPE_CHECKING:
    from rich.console import Group

_COLOUR = {REUSE: "#2e7d32", REFRESH: "#b26a00", UNVERIFIED: "#5e35b1", DENY: "#b71c1c"}
_STYLE = {REUSE: "green", REFRESH: "yellow", UNVERIFIED: "magenta", DENY: "red"}
_SHOWN = 20
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


@dataclass(frozen=True, slots=True)
class Row:
    """A member: its mark, its source and version as they were shown, and what became of it since."""

    mark: int
    source_id: str
    version: str
    state: str


@dataclass(frozen=True, slots=True)
class PacketView:
    """`str` for logs, `rich.print` for a terminal, a card in a notebook, `as_dict` for JSON.

    It holds no text of a record; to whom the packet is denied it shows the verdict and nothing else.

    Args:
        packet_id, task: of the packet; both empty where it is denied.
        found: the verdict with its reasons.
        at: the moment of the look, UTC.
        assembled_at, expires_at: of the packet; `None` where it is denied.
        rows: its members in the order of their marks.
        unresolved: what was looked for and not found.
        notes: how many there are.
    """

    packet_id: str
    task: str
    found: Revalidation
    at: datetime
    assembled_at: datetime | None
    expires_at: datetime | None
    rows: tuple[Row, ...]
    unresolved: tuple[str, ...]
    notes: int

    @property
    def verdict(self) -> str:
        """What `revalidate` said."""
        return self.found.verdict

    @property
    def age(self) -> timedelta | None:
        """Since it was assembled; `None` where it is denied."""
        return None if self.assembled_at is None else self.at - self.assembled_at

    @property
    def changed(self) -> tuple[Reason, ...]:
        """Everything that speaks against reuse, in the order in which it was found."""
        return self.found.reasons

    def __str__(self) -> str:
        lines = [f"{self._name}: {self.verdict}", *([f"  {self._times}"] if self._times else [])]
        width = max((len(_member(row)) for row in self.rows), default=0)
        lines += [f"  [{row.mark}] {_member(row):<{width}}  {row.state}" for row in self.rows]
        lines += [f"  - {line}" for line in self._reasons]
        lines += [f"  not found: {one}" for one in self.unresolved]
        return "\n".join([*lines, f"  next: {NEXT[self.verdict]}"])

    def __repr__(self) -> str:
        return str(self)

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[Any] = [Text.assemble(f"{self._name}: ", (self.verdict, _STYLE[self.verdict]))]
        if self._times:
            table = Table(caption=self._times, caption_justify="left")
            table.add_column("mark", justify="right", no_wrap=True)
            table.add_column("member")
            table.add_column("since", ratio=1)
            for row in self.rows:
                table.add_row(Text(str(row.mark)), Text(_member(row)), Text(row.state))
            parts.append(table)
        parts += [Text(f"  - {line}") for line in self._reasons]
        parts += [Text(f"  not found: {one}") for one in self.unresolved]
        return Group(*parts, Text(f"  next: {NEXT[self.verdict]}", style="dim"))

    def _repr_html_(self) -> str:
        cell = '<td style="padding:2px 8px;text-align:left">'
        rows = "".join(
            f"<tr>{cell}[{row.mark}]</td>{cell}{escape(_member(row))}</td>{cell}{escape(row.state)}</td></tr>"
            for row in self.rows
        )
        lists = "".join(f"<li>{escape(line)}</li>" for line in self._reasons)
        lists += "".join(f"<li>not found: {escape(one)}</li>" for one in self.unresolved)
        colour = _COLOUR[self.verdict]
        return (
            f'<div style="border-left:4px solid {colour};padding-left:8px">'
            f'<p>{escape(self._name)}: <b style="color:{colour}">{self.verdict}</b></p>'
            + (f'<p style="color:#777">{escape(self._times)}</p>' if self._times else "")
            + (f'<table style="border-collapse:collapse">{rows}</table>' if rows else "")
            + (f"<ul>{lists}</ul>" if lists else "")
            + f'<p style="color:#777">{escape(NEXT[self.verdict])}</p></div>'
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; times in ISO 8601, the age in seconds."""
        return {
            "packet_id": self.packet_id,
            "task": self.task,
            "verdict": self.verdict,
            "at": iso(self.at),
            "age_seconds": None if self.age is None else self.age.total_seconds(),
            "assembled_at": self.assembled_at and iso(self.assembled_at),
            "expires_at": self.expires_at and iso(self.expires_at),
            "members": [
                {"mark": row.mark, "source_id": row.source_id, "version": row.version, "state": row.state}
                for row in self.rows
            ],
            "changed": [
                {"verdict": one.verdict, "dependency": one.dependency, "found": one.found, "about": one.about}
                for one in self.changed
            ],
            "unresolved": list(self.unresolved),
            "notes": self.notes,
        }

    @property
    def _name(self) -> str:
        return f"packet {self.packet_id}".strip() + (f" for {self.task!r}" if self.task else "")

    @property
    def _times(self) -> str:
        if self.assembled_at is None or self.expires_at is None:
            return ""
        left = self.expires_at - self.at
        until = f"expires in {_spoken(left)}" if left > timedelta() else f"expired {_spoken(-left)} ago"
        noted = f"; {self.notes} notes" if self.notes else ""
        return (
            f"assembled {iso(self.assembled_at)}, {_spoken(self.at - self.assembled_at)} ago; {until}{noted}"
        )

    @property
    def _reasons(self) -> list[str]:
        told = [str(reason) for reason in self.changed[:_SHOWN]]
        more = len(self.changed) - len(told)
        return [*told, f"and {more} more"] if more else told


def view_of(kept: Kept, request: Request, found: Revalidation, at: datetime) -> PacketView:
    """A packet and a verdict on it, put together for the eye."""
    manifest, denied = kept.manifest, found.verdict == DENY
    states = _states(kept, found)
    return PacketView(
        packet_id="" if denied else manifest.packet_id,
        task="" if denied else request.task,
        found=found,
        at=at,
        assembled_at=None if denied else manifest.assembled_at,
        expires_at=None if denied else manifest.expires_at,
        rows=()
        if denied
        else tuple(
            Row(mark, member.source_id, member.version, state)
            for mark, (member, state) in enumerate(zip(manifest.members, states, strict=True), start=1)
        ),
        unresolved=() if denied else manifest.unresolved,
        notes=0 if denied else len(kept.notes),
    )


def _states(kept: Kept, found: Revalidation) -> Sequence[str]:
    """What became of each member: what was found of its record, or nothing, or that nobody could look."""
    untold = "cannot be looked at" if found.verdict == UNVERIFIED else "as it was shown"
    told: dict[str, str] = {}
    for reason in found.reasons:
        if reason.about:
            told.setdefault(reason.about, reason.found)
    return [told.get(holding.id, untold) for holding in kept.holdings]


def _member(row: Row) -> str:
    return f"{row.source_id}@{row.version}"


def _spoken(span: timedelta) -> str:
    """A span of time in its largest whole unit."""
    seconds = int(span.total_seconds())
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), _UNITS[-1])
    count = seconds // size
    return f"{count} {unit}{'' if count == 1 else 's'}"
