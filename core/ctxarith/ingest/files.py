"""Records read from files: JSON lines, plain or gzipped, and folders of text."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from ctxarith.errors import ArgumentError, RecordError
from ctxarith.model import Record

SUPERSEDED_BY = "superseded_by"
TEXT_SUFFIXES = (".txt", ".md", ".markdown")

_CORE = {f.name for f in fields(Record)}
_ADDED = {"token_count", "entity_count", "content_hash"}


@dataclass(frozen=True, slots=True)
class Mapped:
    """How the keys of a file become fields of records.

    Args:
        sources: field of a record to key in the file, such as `{"created_at": "created"}`. Keys are
            looked up at the top level and in `metadata`. The target `superseded_by` names ids that
            replace this record, and is turned around into their `supersedes`.
        defaults: values for fields that a line does not give.
    """

    sources: Mapping[str, str]
    defaults: Mapping[str, Any]

    def __post_init__(self) -> None:
        for target in (*self.sources, *self.defaults):
            if target not in _CORE - _ADDED | {SUPERSEDED_BY}:
                known = ", ".join(sorted(_CORE - _ADDED | {SUPERSEDED_BY}))
                raise ArgumentError("field", target, f"a field of a record: {known}")

    def apply(self, line: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """One line as (fields of a record, ids that replace it).

        `_id` and `title` as in BEIR files are known. Other top-level keys go into metadata.
        """
        rid = line.get("id", line.get("_id"))
        metadata = line.get("metadata") or {}
        if not isinstance(metadata, Mapping):
            raise RecordError(rid, "metadata", metadata, "expected a mapping")
        metadata = dict(metadata)
        rest = {k: v for k, v in line.items() if k != "metadata"}
        given: dict[str, Any] = {}
        for target, key in self.sources.items():
            for place in (rest, metadata):
                if key in place:
                    given[target] = place.pop(key)
                    break
        if "_id" in rest:
            given.setdefault("id", str(rest.pop("_id")))
        for key in rest:
            _refuse_misspelt(rid, key)
        given = {**{k: rest.pop(k) for k in list(rest) if k in _CORE - _ADDED}, **given}
        heirs = given.pop(SUPERSEDED_BY, None) or []
        kept = {k: v for k, v in {**metadata, **rest}.items() if v not in ("", None, [])}
        whole = {**self.defaults, **{k: v for k, v in given.items() if v not in (None, [])}, "metadata": kept}
        heirs = [heirs] if isinstance(heirs, str) else heirs
        if not isinstance(heirs, list) or not all(isinstance(heir, str) for heir in heirs):
            raise RecordError(rid, SUPERSEDED_BY, heirs, "expected an id or a list of ids")
        return whole, heirs


def read_lines(
    path: Path, mapped: Mapped, *, missing: Callable[[str], object] = lambda heir: None
) -> Iterator[dict[str, Any]]:
    """The records of a JSON-lines file, as mappings for `Corpus.add`.

    When `superseded_by` is mapped the file is read twice: the links stand on the records that are
    replaced, and belong on those that replace them. `missing` hears of each one that is not in the file.

    Raises:
        RecordError: a line is not a JSON object; names the line.
    """
    links: dict[str, list[str]] = {}
    if SUPERSEDED_BY in mapped.sources:
        for _, line in objects(path):
            whole, heirs = mapped.apply(line)
            for heir in heirs:
                links.setdefault(heir, []).append(str(whole.get("id")))
    for number, line in objects(path):
        whole, _ = mapped.apply(line)
        for needed in ("id", "text"):
            if needed not in whole:
                rule = (
                    f"is missing; keys here: {', '.join(map(str, line))}; map one with --field {needed}=KEY"
                )
                raise RecordError(f"line {number}", needed, None, rule)
        replaced = links.get(str(whole.get("id")))
        if replaced:
            own = whole.get("supersedes") or []
            whole["supersedes"] = [*([own] if isinstance(own, str) else own), *replaced]
            del links[str(whole.get("id"))]
        yield whole
    for heir in sorted(links):
        missing(heir)


def read_folder(path: Path, mapped: Mapped) -> Iterator[dict[str, Any]]:
    """The text files below a folder; the id is the path inside it, and there is no date."""
    if mapped.sources:
        raise ArgumentError("field", dict(mapped.sources), "a folder of texts has no keys to map")
    root = path.resolve()
    found = (file for file in path.rglob("*") if file.suffix.lower() in TEXT_SUFFIXES and file.is_file())
    # A link that leads out of the folder is not followed.
    files = sorted(file for file in found if file.resolve().is_relative_to(root))
    if not files:
        raise ArgumentError("path", str(path), f"holds no file that ends in {', '.join(TEXT_SUFFIXES)}")
    for file in files:
        name = file.relative_to(path).as_posix()
        yield {**mapped.defaults, "id": name, "text": file.read_text(encoding="utf-8-sig", errors="replace")}


def _refuse_misspelt(rid: object, key: str) -> None:
    """A misspelt field would become metadata without a word, and never expire, retire or hide anything."""
    near = get_close_matches(key, sorted(_CORE - _ADDED), n=1, cutoff=0.82)
    if near and key not in _CORE:
        rule = f"did you mean {near[0]}? else map it (--field {near[0]}={key}) or put it into metadata"
        raise RecordError(rid, key, "", rule)


def batches(records: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The records in lists of `size`; the last may be shorter."""
    iterator = iter(records)
    while part := list(islice(iterator, size)):
        yield part


def pairs(given: Iterable[str]) -> dict[str, str]:
    """`TARGET=KEY` texts as a mapping.

    >>> pairs(["created_at=created"])
    {'created_at': 'created'}
    """
    read = {}
    for one in given:
        target, sign, key = one.partition("=")
        if not (target and sign and key):
            raise ArgumentError("field", one, "TARGET=KEY, such as created_at=created")
        read[target] = key
    return read


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file of lines, each with the number of its line.

    Raises:
        RecordError: a line is not a JSON object; names the line.
    """
    for number, text in enumerate(texts(path), start=1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"line {number}", "json", text[:60], f"not JSON: {error}") from error
        if not isinstance(line, dict):
            raise RecordError(f"line {number}", "json", text[:60], "expected a JSON object")
        yield number, line


def texts(path: Path) -> Iterator[str]:
    """The lines of a text file, plain or gzipped.

    Raises:
        ArgumentError: the file cannot be read; names it.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig") as file:
            yield from file
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ArgumentError("path", str(path), f"cannot be read: {error}") from error
