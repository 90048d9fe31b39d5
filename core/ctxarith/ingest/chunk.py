"""A long text becomes several records of one source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ctxarith.errors import ArgumentError
from ctxarith.model import Record

# A full stop, question or exclamation mark, and then white space.
_SENTENCE_END = re.compile(r"(?<=[.!?。！？।])\s+")

Splitter = Callable[[str], Sequence[str]]


def chunked(records: Iterable[Record], splitter: Splitter | Any) -> Iterator[Record]:
    """Split each record's text; a chunk is `id#n` of the record's source and keeps everything else.

    `splitter` is a function from text to texts, or anything with LangChain's `split_text`.

    >>> [chunk.id for chunk in chunked([Record(id="a", text="one. two")], lambda text: text.split(". "))]
    ['a#0', 'a#1']
    """
    split = getattr(splitter, "split_text", splitter)
    if not callable(split):
        raise ArgumentError(
            "splitter", splitter, "a function from text to texts, or an object with split_text"
        )
    for record in records:
        pieces = list(split(record.text))
        for number, piece in enumerate(pieces):
            chunk_id = record.id if len(pieces) == 1 else f"{record.id}#{number}"
            yield replace(record, id=chunk_id, text=piece, source_id=record.source_id)


def document_of(chunk_id: str) -> str:
    """The id of the document that a chunk was cut from.

    >>> document_of("a#0"), document_of("a")
    ('a', 'a')
    """
    return re.sub(r"#[0-9]+$", "", chunk_id)


def paragraphs(limit: int, count: Callable[[str], int]) -> Splitter:
    r"""A splitter that packs whole paragraphs up to `limit` tokens, and sentences of longer ones.

    A single sentence that is longer stays whole.


    >>> paragraphs(3, lambda text: len(text.split()))("one two\n\nthree\n\nfour five")
    ['one two\n\nthree', 'four five']
    """
    if limit < 1:
        raise ArgumentError("limit", limit, "at least one token")

    def pack(parts: Iterable[str], between: str) -> list[str]:
        packed: list[str] = []
        for part in parts:
            joined = f"{packed[-1]}{between}{part}" if packed else part
            if packed and count(joined) <= limit:
                packed[-1] = joined
            else:
                packed.append(part)
        return packed

    def split(text: str) -> list[str]:
        pieces: list[str] = []
        for paragraph in filter(None, (part.strip() for part in text.split("\n\n"))):
            whole = count(paragraph) <= limit
            pieces.extend([paragraph] if whole else pack(_SENTENCE_END.split(paragraph), " "))
        return pack(pieces, "\n\n") or [text]

    return split
