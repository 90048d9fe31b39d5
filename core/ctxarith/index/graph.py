"""Two questions about the graph of who replaces whom; both without recursion, for long chains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def looping(edges: Iterable[tuple[Node, Node]]) -> set[Node]:
    """The nodes left when everything that is not on a loop has been peeled away from both ends.

    >>> sorted(looping([(1, 2), (2, 1), (2, 3)]))
    [1, 2]
    """
    after: dict[Node, set[Node]] = defaultdict(set)
    before: dict[Node, set[Node]] = defaultdict(set)
    for start, end in edges:
        after[start].add(end)
        before[end].add(start)
    left = set(after) | set(before)
    for forward, backward in ((after, before), (before, after)):
        pending = [node for node in left if not (backward[node] & left)]
        left -= set(pending)
        while pending:
            node = pending.pop()
            for neighbour in forward[node] & left:
                if not (backward[neighbour] & left):
                    left.discard(neighbour)
                    pending.append(neighbour)
    return left


def heads(start: Node, heirs: Mapping[Node, Iterable[Node]]) -> set[Node]:
    """The ends of all chains of heirs from a node.

    >>> sorted(heads("a", {"a": ["b"], "b": ["c", "d"]}))
    ['c', 'd']
    """
    ends: set[Node] = set()
    seen = {start}
    pending = [start]
    while pending:
        node = pending.pop()
        following = [heir for heir in heirs.get(node, ()) if heir not in seen]
        if node != start and node not in heirs:
            ends.add(node)
        seen.update(following)
        pending.extend(following)
    return ends
