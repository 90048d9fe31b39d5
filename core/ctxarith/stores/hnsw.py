"""The files of hnswlib, Chroma's graph index: looked at from outside, before and after Chroma uses them."""

from __future__ import annotations

import struct
from pathlib import Path

# hnswlib: version, offset of the first element, capacity, elements, bytes an element.
_HEADER = struct.Struct("<IQQQQ")
_LENGTH = 4  # a float for each element


def is_whole(header: Path) -> bool:
    """Whether a vector file holds the elements that its header counts; Chroma crashes on others."""
    layout = header.read_bytes()[: _HEADER.size]
    vectors = header.with_name("data_level0.bin")
    if len(layout) < _HEADER.size or not vectors.exists():
        return False
    _, offset, most, used, size = _HEADER.unpack(layout)
    return bool(used <= most and offset + used * size <= vectors.stat().st_size)


def clear_unused(header: Path, vectors: Path, *, scaled: bool) -> None:
    """Overwrite what hnswlib writes from memory that it never set, in which pieces of documents can lie.

    That is the part of the vector file that holds no element yet, and of the file of lengths too; or all of
    the latter in a space whose vectors are not `scaled`, since there it is never set.
    """
    layout = header.read_bytes()[: _HEADER.size]
    if len(layout) < _HEADER.size:
        return
    version, offset, most, used, size = _HEADER.unpack(layout)
    if version != 1 or used > most:
        return
    _clear_from(vectors, offset + used * size)
    _clear_from(header.with_name("length.bin"), used * _LENGTH if scaled else 0)


def _clear_from(path: Path, start: int) -> None:
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = file.seek(0, 2)
        start = file.seek(min(start, end))
        file.write(bytes(end - start))


def stamp(file: Path) -> tuple[int, int]:
    """What changes whenever a file is written: its time in ns and its size."""
    status = file.stat()
    return status.st_mtime_ns, status.st_size
