"""A query for calls where no one has spoken yet."""

from __future__ import annotations

from ctxarith.errors import ArgumentError


def compose_query(*, objective: str = "", lead: str = "", instructions: str = "") -> str:
    """Join what is known before a call into one query of labelled parts; blank parts are left out.

    >>> compose_query(objective="resolve the fee objection", lead="parent, Gujarat")
    'objective: resolve the fee objection | lead: parent, Gujarat'
    """
    parts = {"objective": objective, "lead": lead, "instructions": instructions}
    for name, part in parts.items():
        if not isinstance(part, str):
            raise ArgumentError(name, part, "text")
    return " | ".join(f"{label}: {part.strip()}" for label, part in parts.items() if part.strip())
