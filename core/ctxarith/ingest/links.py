"""Links of incoming records: none may close a loop, and those that name nobody are reported."""

from __future__ import annotations

from collections.abc import Sequence

from ctxarith.errors import RecordError
from ctxarith.index.graph import looping
from ctxarith.index.snapshot import Snapshot
from ctxarith.model import Record

Node = tuple[str, str]


def checked_links(records: Sequence[Record], snapshot: Snapshot) -> tuple[str, ...]:
    """Refuse links that close a loop; return the ids that they name and nobody holds.

    Raises:
        RecordError: names a record on the loop, and the loop.
    """
    linking = [record for record in records if record.supersedes]
    if not linking:
        return ()
    edges = [(_node(record), (record.tenant, old)) for record in linking for old in record.supersedes]
    edges += _reached(edges, {record.key for record in records}, snapshot)
    loops = looping(edges)
    for record in linking:
        if _node(record) in loops:
            members = sorted(rid for tenant, rid in loops if tenant == record.tenant)
            rule = f"would close a loop of records that replace each other: {', '.join(members)}"
            raise RecordError(record.id, "supersedes", record.supersedes, rule)
    ids = {_node(record) for record in records}
    named = {(record.tenant, old) for record in linking for old in record.supersedes}
    return tuple(sorted(old for tenant, old in named - ids if not snapshot.linked_to(tenant, old)))


def _reached(
    edges: Sequence[tuple[Node, Node]], coming: set[tuple[str, str, str]], snapshot: Snapshot
) -> list[tuple[Node, Node]]:
    """The links that stand already and can be come to from the new ones: only these can close a loop."""
    found: list[tuple[Node, Node]] = []
    seen: set[Node] = set()
    pending = [old for _, old in edges]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        for row in snapshot.named(*node):
            record = snapshot.records[row]
            if record.key not in coming:
                further = [(node, (record.tenant, old)) for old in record.supersedes]
                found += further
                pending += [old for _, old in further]
    return found


def _node(record: Record) -> Node:
    return record.tenant, record.id
