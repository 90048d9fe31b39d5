"""Several processes on one folder: one writes, the others follow."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctxarith import Corpus, Record, StoreError
from tests.fakes import WordEmbedder

ROOT = Path(__file__).resolve().parents[1]

OTHER = """
import sys
from ctxarith import Corpus, Record
from tests.fakes import WordEmbedder

corpus = Corpus.open(sys.argv[1], embedder=WordEmbedder())
print("open", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class Other:
    """Another process with the same folder open, which does what it is told, line by line."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(OTHER), str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def do(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "corpus"


@pytest.fixture
def other(folder: Path) -> Iterator[Other]:
    one = Other(folder)
    yield one
    one.kill()
    for stream in (one.process.stdin, one.process.stdout):
        if stream is not None:
            stream.close()


def ids(corpus: Corpus, question: str) -> list[str]:
    return [hit.id for hit in corpus.retrieve(question).hits]


def test_what_another_process_writes_is_found_on_an_open_handle(folder: Path, other: Other) -> None:  # CH-15
    with Corpus.open(folder, embedder=WordEmbedder()) as corpus:
        assert ids(corpus, "gate code") == []
        other.do('corpus.add([Record(id="y1", text="gate code is in the blue folder")])')
        assert ids(corpus, "gate code") == ["y1"]
        other.do('corpus.delete("y1")')
        assert ids(corpus, "gate code") == []


def test_a_second_writer_gets_a_clear_error_until_the_first_lets_go(folder: Path, other: Other) -> None:
    other.do('corpus.add([Record(id="a", text="fee 10")])')
    with Corpus.open(folder, embedder=WordEmbedder()) as corpus:
        for write in (
            lambda: corpus.add([Record(id="b", text="fee 12")]),
            lambda: corpus.delete("a"),
            lambda: corpus.retire("a"),
            lambda: corpus.purge("a"),
        ):
            with pytest.raises(StoreError, match="another process is writing"):
                write()
        assert ids(corpus, "fee") == ["a"]
        other.do("corpus.close()")
        corpus.add([Record(id="b", text="fee 12")])
        assert ids(corpus, "fee") == ["a", "b"]


def test_a_writer_that_died_leaves_the_folder_to_others(folder: Path, other: Other) -> None:
    other.do('corpus.add([Record(id="a", text="fee 10")])')
    other.kill()
    with Corpus.open(folder, embedder=WordEmbedder()) as corpus:
        corpus.add([Record(id="b", text="fee 12")])
        assert ids(corpus, "fee") == ["a", "b"]


def test_a_reader_leaves_the_write_of_a_living_process_alone(folder: Path, other: Other) -> None:
    other.do('corpus.add([Record(id="a", text="fee 10")])')
    # The other process stands between intent and settlement: the new text is in the store already.
    other.do("import threading; gate, there = threading.Event(), threading.Event()")
    other.do("shelf = corpus._shelf; kept = shelf._journal.settle")
    other.do("shelf._journal.settle = lambda written: (there.set(), gate.wait(), kept(written))[2]")
    other.do('new = [Record(id="a", text="fee 12"), Record(id="b", text="fee 14")]')
    other.do("writer = threading.Thread(target=lambda: corpus.add(new)); writer.start(); there.wait()")
    with Corpus.open(folder, embedder=WordEmbedder()) as corpus:
        assert [(hit.id, hit.record.text) for hit in corpus.retrieve("fee").hits] == [("a", "fee 10")]
        other.do("gate.set(); writer.join()")
        found = {hit.id: hit.record.text for hit in corpus.retrieve("fee").hits}
        assert found == {"a": "fee 12", "b": "fee 14"}


def test_a_missing_index_is_not_made_from_a_chroma_that_another_process_has_open(
    folder: Path, other: Other
) -> None:
    other.do('corpus.add([Record(id="a", text="fee 10")])')
    shutil.rmtree(folder / "index")
    with pytest.raises(StoreError, match="another process is writing"):
        Corpus.open(folder, embedder=WordEmbedder())
    other.kill()
    with Corpus.open(folder, embedder=WordEmbedder()) as corpus:
        assert ids(corpus, "fee") == ["a"]
