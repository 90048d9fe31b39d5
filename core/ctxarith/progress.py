"""A progress bar over long work; quiet when nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Below this many texts, work is over before a bar could be read.
_LONG = 500


@contextmanager
def watching(total: int, what: str) -> Iterator[Callable[[int], object]]:
    """Yield a function that hears how many more are done; shows a bar on a terminal, nothing elsewhere."""
    if total < _LONG:
        yield lambda done: None
        return
    from tqdm import tqdm

    # None: tqdm itself looks whether the output is a terminal.
    with tqdm(total=total, desc=what, unit=" texts", disable=None) as bar:
        yield bar.update
