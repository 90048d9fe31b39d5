"""Loops in the graph of who replaces whom; without recursion, since chains can be long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from ctxarith.index.columns import Rows

# A loop of few links hangs together with short chains, which are gone by then; longer ones are searched.
_ROUNDS = 16

Node = TypeVar("Node", bound=Hashable)


def looping(edges: Iterable[tuple[Node, Node]]) -> set[Node]:
    """The nodes that stand on a loop.

    These are the members of strongly connected components of two or more nodes (Tarjan 1972), and
    nodes with an edge to themselves.

    >>> sorted(looping([(1, 2), (2, 1), (2, 3), (3, 4), (4, 5), (5, 4)]))
    [1, 2, 4, 5]
    """
    after: dict[Node, list[Node]] = defaultdict(list)
    members: set[Node] = set()
    for start, end in edges:
        after[start].append(end)
        if start == end:
            members.add(start)
    for component in _components(dict(after)):
        if len(component) > 1:
            members.update(component)
    return members


def looping_rows(starts: Rows, ends: Rows) -> set[int]:
    """As `looping`, of many edges at once: they are searched when those at loose ends are off.

    Args:
        starts: the rows where the edges begin.
        ends: the rows where they end.
    """
    size = 1 + max((int(rows.max()) for rows in (starts, ends) if len(rows)), default=0)
    for _ in range(_ROUNDS):
        entered, left = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        entered[ends] = left[starts] = True
        kept = entered[starts] & left[ends]
        if kept.all():
            break
        starts, ends = starts[kept], ends[kept]
    return looping(zip(starts.tolist(), ends.tolist(), strict=True))


def _components(after: Mapping[Node, list[Node]]) -> Iterator[list[Node]]:
    """The strongly connected components, with an explicit stack of (node, its edges still to follow)."""
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    open_nodes: list[Node] = []
    waiting: set[Node] = set()
    for root in after:
        work: list[tuple[Node, Iterator[Node]]] = []
        if root not in number:
            work.append((root, iter(after[root])))
        while work:
            node, edges = work[-1]
            if node not in number:
                number[node] = lowest[node] = len(number)
                open_nodes.append(node)
                waiting.add(node)
            for neighbour in edges:
                if neighbour not in number:
                    work.append((neighbour, iter(after.get(neighbour, []))))
                    break
                if neighbour in waiting:
                    lowest[node] = min(lowest[node], number[neighbour])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    yield _closed(node, open_nodes, waiting)


def _closed(root: Node, open_nodes: list[Node], waiting: set[Node]) -> list[Node]:
    component: list[Node] = []
    while not component or component[-1] != root:
        component.append(open_nodes.pop())
    waiting.difference_update(component)
    return component
