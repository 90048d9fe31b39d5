"""Fixtures: one corpus for every store, a clock that stands still, small embedders without weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from ctxarith import Corpus
from tests.fakes import WordEmbedder
from tests.servers import ChromaProcess

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)

settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("long", max_examples=2_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"

MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def now() -> datetime:
    """The present in all tests."""
    return NOW


@pytest.fixture(params=["memory", "chroma"])
def make_corpus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeCorpus]:
    """Opens corpora over each store, with a still clock and the word embedder unless told otherwise."""
    opened: list[Corpus] = []

    def make(**options: Any) -> Corpus:
        options = {"clock": lambda: NOW, "embedder": WordEmbedder(), **options}
        if request.param == "memory":
            corpus = Corpus.in_memory(**options)
        else:
            corpus = Corpus.open(tmp_path / f"corpus-{len(opened)}", **options)
        opened.append(corpus)
        return corpus

    yield make
    for corpus in opened:
        corpus.close()


@pytest.fixture
def corpus(make_corpus: MakeCorpus) -> Corpus:
    """An empty corpus over each store."""
    return make_corpus()


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaProcess]:
    """A real Chroma server on a free port of this machine, for the whole run."""
    server = ChromaProcess(tmp_path_factory.mktemp("chroma-server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The evaluation sets; absent means failed in CI and skipped elsewhere."""
    if not SHARED.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"the evaluation sets are missing: {SHARED}")
        pytest.skip(f"the evaluation sets are not here: {SHARED}")
    return SHARED
