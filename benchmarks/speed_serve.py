"""One fresh process that opens the corpus and serves it: how long until it answers, how much memory it holds.

Started by `speed.py` with the folder and a file of questions; prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    """Open, answer every question under every filter, look at the memory."""
    folder, questions = Path(sys.argv[1]), Path(sys.argv[2])
    told = json.loads(questions.with_suffix(".json").read_text())
    vectors = dict(zip(told["texts"], np.load(questions), strict=True))
    before = time.perf_counter()
    from ctxarith import Corpus

    imported = time.perf_counter()
    corpus = Corpus.open(folder, embedder=Looked(vectors))
    opened = time.perf_counter()
    corpus.retrieve(told["texts"][0])
    answered = time.perf_counter()
    for case in told["cases"]:
        for text in told["texts"]:
            corpus.retrieve(text, scope=case["scope"], where=case["where"])
    report = {
        "import_seconds": imported - before,
        "open_seconds": opened - imported,
        "first_answer_seconds": answered - opened,
        "memory": memory(),
    }
    corpus.close()
    print(json.dumps(report))


class Looked:
    """Vectors by text; see `speed_peers.GivenVectors`, which would load Chroma into this process."""

    name = "given-vectors"

    def __init__(self, vectors: dict[str, Any]) -> None:
        self._vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[Any]:
        """Vectors of known texts."""
        return [self._vectors[text] for text in texts]

    def embed_query(self, text: str) -> Any:
        """The vector of a known text."""
        return self._vectors[text]


def memory() -> dict[str, int] | None:
    """Bytes of this process that are in memory, mapped files included; `None` where Linux does not say."""
    place = Path("/proc/self/smaps_rollup")
    if not place.exists():
        return None
    lines = (line.split() for line in place.read_text().splitlines()[1:])
    sizes = {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}
    resident, anonymous = sizes["Rss"], sizes["Anonymous"]
    return {"resident": resident, "anonymous": anonymous, "file": resident - anonymous}


if __name__ == "__main__":
    main()
