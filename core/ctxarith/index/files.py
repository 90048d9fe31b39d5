"""A segment as one file: its arrays one after another, a directory of them at the end.

A file is complete on disk before its name is written down anywhere, and never changed afterwards.
"""

from __future__ import annotations

import json
import os
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxarith.errors import StoreError
from ctxarith.index.segment import Segment
from ctxarith.index.strings import Arrays

FORMAT = 1
_SUFFIX = ".segment"
_ALIGNED = 64
# Length of the directory, its checksum, the format.
_TAIL = struct.Struct("<QII8s")
_MAGIC = b"ctxarith"


class SegmentFiles:
    """The segments of a corpus folder.

    Raises:
        StoreError: a file cannot be written, is missing, or is not as it was written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {str(folder)!r} cannot be used: {error}") from error

    def write(self, arrays: Arrays) -> Segment:
        """Write a new file to disk, and map it."""
        name = uuid.uuid4().hex
        path = self._path(name)
        try:
            with path.open("xb") as file:
                _write(file, arrays)
                file.flush()
                os.fsync(file.fileno())
            _name_on_disk(self._folder)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise StoreError(f"the index cannot be written in {str(self._folder)!r}: {error}") from error
        return self.open(name)

    def open(self, name: str) -> Segment:
        """Map a file; every array is checked against the sum that was taken when it was written."""
        path = self._path(name)
        try:
            return Segment(_mapped(path), name)
        except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
            raise StoreError(f"the index file {str(path)!r} is missing or damaged: {error}") from error

    def drop(self, names: Iterable[str]) -> None:
        """Delete files; what another process still reads stays readable for it."""
        for name in names:
            try:
                self._path(name).unlink(missing_ok=True)
            except OSError:  # mapped by somebody, where a system forbids that: the next sweep takes it
                continue

    def sweep(self, keep: Iterable[str]) -> None:
        """Delete every other file: what a process left that died between a file and its settling."""
        self.drop(self.names().difference(keep))

    def names(self) -> set[str]:
        """The names of all files."""
        return {path.stem for path in self._folder.glob(f"*{_SUFFIX}")}

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"


def _name_on_disk(folder: Path) -> None:
    """Bring the names of a folder's files to disk too, where the system has a way."""
    if os.name != "posix":
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


class SegmentMemory:
    """The segments of a corpus that is gone with the process."""

    def write(self, arrays: Arrays) -> Segment:
        """The segment of these arrays."""
        return Segment(arrays, uuid.uuid4().hex)

    def open(self, name: str) -> Segment:
        """Nothing was kept.

        Raises:
            StoreError: always.
        """
        raise StoreError(f"the segment {name} was never kept")

    def names(self) -> set[str]:
        """None: they live as long as the snapshot that holds them."""
        return set()

    def drop(self, names: Iterable[str]) -> None:
        """Nothing to delete."""

    def sweep(self, keep: Iterable[str]) -> None:
        """Nothing to delete."""


def _write(file: Any, arrays: Arrays) -> None:
    directory: dict[str, list[Any]] = {}
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array)
        start = file.tell()
        padding = -start % _ALIGNED
        data = plain.reshape(-1).view(np.uint8) if plain.size else np.empty(0, np.uint8)
        file.write(bytes(padding))
        file.write(data.data)
        directory[name] = [plain.dtype.str, list(plain.shape), start + padding, zlib.crc32(data.data)]
    listed = json.dumps(directory).encode()
    file.write(listed)
    file.write(_TAIL.pack(len(listed), zlib.crc32(listed), FORMAT, _MAGIC))


def _mapped(path: Path) -> Mapping[str, NDArray[Any]]:
    whole = np.memmap(path, np.uint8, mode="r")
    length, checksum, version, magic = _TAIL.unpack(whole[-_TAIL.size :].tobytes())
    if magic != _MAGIC or version != FORMAT:
        raise ValueError(f"not of format {FORMAT}")
    listed = whole[-_TAIL.size - length : -_TAIL.size]
    if len(listed) != length or zlib.crc32(listed.data) != checksum:
        raise ValueError("its directory is damaged")
    arrays: dict[str, NDArray[Any]] = {}
    for name, (kind, shape, start, wanted) in json.loads(listed.tobytes()).items():
        dtype = np.dtype(kind)
        size = dtype.itemsize * int(np.prod(shape))
        data = whole[start : start + size]
        if zlib.crc32(data.data) != wanted:
            raise ValueError(f"the sum of {name} is wrong")
        arrays[name] = np.ndarray(tuple(shape), dtype, buffer=data.data) if size else np.empty(shape, dtype)
    return arrays
