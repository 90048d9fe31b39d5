"""The content of a segment is put in order: rows by scope, and everything that names a row with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxarith.index.columns import Elements, Rows, coded_arrays
from ctxarith.index.newness import natural
from ctxarith.index.strings import Strings
from ctxarith.kinds import Typed

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Coded:
    """A field whose values are numbered in any order; see `columns.coded_arrays`."""

    distinct: dict[Typed, int]
    arrival: Rows
    elements: Elements


@dataclass(frozen=True, slots=True)
class Loose:
    """The content of a segment before its rows have been put in order.

    Args:
        rows: arrays aligned with the rows.
        packed: each row's record.
        columns: each field's values.
        terms: the distinct terms, sorted.
        postings: (term number, row, count) of every term in every row.
        facts: (group, row, ordinal, inferred) of every assertion.
        links: (row, target) of every name in `supersedes`.
    """

    rows: Mapping[str, NDArray[Any]]
    packed: Strings
    columns: Mapping[str, Coded]
    terms: Sequence[bytes]
    postings: tuple[Rows, Rows, NDArray[np.int32]]
    facts: tuple[NDArray[np.bytes_], Rows, NDArray[np.int32], NDArray[np.bool_]]
    links: tuple[Rows, NDArray[np.bytes_]]


def arranged(loose: Loose) -> tuple[Arrays, Rows]:
    """Put the rows in order, and everything that names a row with them.

    Returns:
        The arrays of a segment, and the new number of each row.
    """
    arrays: Arrays = {}
    for name, coded in loose.columns.items():
        arrays |= coded_arrays(coded.distinct, coded.arrival, coded.elements, f"column.{name}")
    size = len(loose.packed)
    order, place, age = _orders(arrays, loose, size)
    at = _inverse(order)
    for name in loose.columns:
        arrays[f"column.{name}.codes"] = arrays[f"column.{name}.codes"][order]
        arrays[f"column.{name}.item.rows"] = at[arrays[f"column.{name}.item.rows"]].astype(np.int32)
    rows = {f"row.{name}": array[order] for name, array in loose.rows.items()}
    names = Strings.of(name.encode("utf-8", "surrogatepass") for name in sorted(loose.columns))
    whole = {
        **arrays,
        **rows,
        "row.place": place[order].astype(np.int32),
        "row.age": age[order].astype(np.int32),
        **names.arrays("fields"),
        **loose.packed.taken(order).arrays("record"),
        **_arranged_postings(loose, at),
        **_arranged_facts(loose, at, age),
        **_versions(rows["row.id"], age[order]),
        **_sorted_by(rows["row.id"], "id"),
        **_sorted_by(rows["row.source"], "source"),
        **_arranged_links(loose, at),
    }
    return whole, at


def _orders(arrays: Arrays, loose: Loose, size: int) -> tuple[Rows, Rows, Rows]:
    """The order of the rows on disk; each row's rank by key; each row's rank from oldest to newest."""

    def codes(name: str) -> NDArray[np.int32]:
        return arrays.get(f"column.{name}.codes", np.zeros(size, np.int32))

    revision, start, created = (loose.rows[name] for name in ("revision", "start", "created"))
    versions = loose.columns.get("version")
    naturally = np.zeros(size, np.int64)
    if versions is not None:
        spelt = {number: natural(str(version)) for (_, version), number in versions.distinct.items()}
        # "1" and "01" share a rank: the id, and then the spelling, decides between them.
        ranks = {one: rank for rank, one in enumerate(sorted(set(spelt.values())))}
        rank_of = np.zeros(len(spelt) + 1, np.int64)
        rank_of[list(spelt)] = [ranks[one] for one in spelt.values()]
        naturally = rank_of[versions.arrival]
    key = (revision, codes("version"), codes("id"))
    order = np.lexsort((*key, codes("scope"), codes("tenant")))
    by_key = np.lexsort((*key, codes("tenant")))
    by_age = np.lexsort((revision, codes("version"), codes("tenant"), codes("id"), naturally, created, start))
    return order, _inverse(by_key), _inverse(by_age)


def _inverse(order: Rows) -> Rows:
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return inverse


def _arranged_postings(loose: Loose, at: Rows) -> Arrays:
    numbers, owners, counts = loose.postings
    rows = at[owners]
    order = np.lexsort((rows, numbers))
    sizes = np.bincount(numbers, minlength=len(loose.terms))
    return {
        **Strings.of(loose.terms).arrays("term"),
        "post.starts": np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)]),
        "post.rows": rows[order].astype(np.int32),
        "post.counts": counts[order],
    }


def _arranged_facts(loose: Loose, at: Rows, age: Rows) -> Arrays:
    group, row, ordinal, inferred = loose.facts
    order = np.lexsort((age[row], group))
    return {
        "fact.group": group[order],
        "fact.row": at[row][order].astype(np.int32),
        "fact.ordinal": ordinal[order],
        "fact.inferred": inferred[order],
    }


def _versions(ids: NDArray[np.bytes_], age: Rows) -> Arrays:
    """The rows whose id has more than one row, by id, oldest first."""
    order = np.lexsort((age, ids))
    ordered = ids[order]
    same = ordered[1:] == ordered[:-1]
    several = np.zeros(len(ids), np.bool_)
    several[1:] |= same
    several[:-1] |= same
    return {
        "version.group": ordered[several],
        "version.row": order[several].astype(np.int32),
        "version.ordinal": np.zeros(int(several.sum()), np.int32),
        "version.inferred": np.zeros(int(several.sum()), np.bool_),
    }


def _sorted_by(digests_: NDArray[np.bytes_], name: str) -> Arrays:
    order = np.argsort(digests_, kind="stable")
    return {f"{name}.digest": digests_[order], f"{name}.row": order.astype(np.int32)}


def _arranged_links(loose: Loose, at: Rows) -> Arrays:
    row, target = loose.links
    rows = at[row]
    order = np.argsort(rows, kind="stable")
    return {"link.row": rows[order].astype(np.int32), "link.target": target[order]}
