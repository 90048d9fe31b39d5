"""Folders of which something is gone or broken: refused by name, and nothing is lost without a word."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.api import ClientAPI
from chromadb.config import Settings

from ctxarith import Corpus, CtxArithError, EmbedderMismatch, Record, StoreError
from ctxarith.stores.chroma_rows import COLLECTION
from tests.conftest import NOW
from tests.fakes import TableEmbedder, WordEmbedder

ROOT = Path(__file__).resolve().parents[1]
Damage = Callable[[Path], None]
IDS = [f"r{n}" for n in range(8)]


class OtherWords(WordEmbedder):
    name = "other-64"


def opened(folder: Path, embedder: WordEmbedder | TableEmbedder | None = None) -> Corpus:
    return Corpus.open(folder, clock=lambda: NOW, embedder=embedder or WordEmbedder())


def ids(folder: Path) -> list[str]:
    with opened(folder) as corpus:
        return sorted(hit.id for hit in corpus.retrieve("fee", top=None).hits)


@contextmanager
def chroma(folder: Path) -> Iterator[ClientAPI]:
    """Chroma in the hands of another tool, while no corpus is open."""
    client = chromadb.PersistentClient(
        path=str(folder / "chroma"), settings=Settings(anonymized_telemetry=False)
    )
    yield client
    getattr(client, "close", lambda: None)()


def in_chroma(folder: Path) -> list[str]:
    """The ids that Chroma has, without versions and corrections."""
    with chroma(folder) as client:
        names = client.get_collection(COLLECTION).get(include=[])["ids"]
    return sorted({name.split("|")[1] for name in names})


def dropped(folder: Path) -> None:
    with chroma(folder) as client:
        client.delete_collection(COLLECTION)


def cleared(folder: Path) -> None:
    with chroma(folder) as client:
        collection = client.get_collection(COLLECTION)
        collection.delete(ids=collection.get(include=[])["ids"])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight records and a correction, in a collection that writes its vector segment at once."""
    folder = tmp_path_factory.mktemp("prepared")
    with chroma(folder) as client:
        client.create_collection(
            COLLECTION,
            embedding_function=None,
            configuration={"hnsw": {"space": "cosine", "sync_threshold": 3, "batch_size": 2}},
        )
    with opened(folder) as corpus:
        corpus.add([Record(id="r0", text="fee 99")])
        corpus.add([Record(id=rid, text=f"fee {n}") for n, rid in enumerate(IDS)])
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / "copy"))


def segment(folder: Path) -> Path:
    (found,) = (path.parent for path in folder.glob("chroma/*/data_level0.bin"))
    return found


def index(folder: Path) -> Path:
    (found,) = folder.glob("index/*.segment")
    return found


def turned(path: Path, at: int) -> None:
    whole = bytearray(path.read_bytes())
    whole[at] ^= 1
    path.write_bytes(whole)


def contents(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Text and vector of each record."""
    with opened(folder) as corpus:
        snapshot = corpus._shelf.snapshot
        rows = np.flatnonzero(snapshot.live).tolist()
        return {
            snapshot.records[n].id: (snapshot.records[n].text, snapshot.vector(n).tobytes()) for n in rows
        }


@pytest.fixture(scope="module")
def whole(prepared: Path) -> dict[str, tuple[str, bytes]]:
    return contents(prepared)


def in_sqlite(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute(statement)
    database.close()


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def emptied(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def both(folder: Path, damage: Damage) -> None:
    damage(folder / "chroma")
    damage(folder / "index")


def as_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"")


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def junk(path: Path) -> None:
    path.write_bytes(b"junk" * 2_000)


# All that holds the records is gone.
EMPTIED: dict[str, Damage] = {
    "both gone": lambda f: both(f, remove),
    "both emptied": lambda f: both(f, emptied),
}

FORGOTTEN: dict[str, Damage] = {
    "journal gone": lambda f: remove(f / "journal.sqlite"),
    "journal of no bytes": lambda f: os.truncate(f / "journal.sqlite", 0),
    "settings dropped": lambda f: in_sqlite(f / "journal.sqlite", "DROP TABLE setting"),
    "settings deleted": lambda f: in_sqlite(f / "journal.sqlite", "DELETE FROM setting"),
}

JUNK: dict[str, Damage] = {
    "journal of junk": lambda f: junk(f / "journal.sqlite"),
    "journal cut": lambda f: os.truncate(f / "journal.sqlite", 5_000),
    "journal is a folder": lambda f: as_folder(f / "journal.sqlite"),
    "index is a file": lambda f: as_file(f / "index"),
}

# One of two copies of the records is gone or broken: Chroma's, or the index.
HALF: dict[str, Damage] = {
    "chroma gone": lambda f: remove(f / "chroma"),
    "chroma emptied": lambda f: emptied(f / "chroma"),
    "chroma.sqlite3 gone": lambda f: remove(f / "chroma/chroma.sqlite3"),
    "chroma.sqlite3 of no bytes": lambda f: os.truncate(f / "chroma/chroma.sqlite3", 0),
    "chroma.sqlite3 of junk": lambda f: junk(f / "chroma/chroma.sqlite3"),
    "chroma.sqlite3 cut": lambda f: os.truncate(f / "chroma/chroma.sqlite3", 50_000),
    "collections deleted": lambda f: in_sqlite(f / "chroma/chroma.sqlite3", "DELETE FROM collections"),
    "collection dropped": dropped,
    "Chroma's rows deleted": cleared,
    "metadata table gone": lambda f: in_sqlite(f / "chroma/chroma.sqlite3", "DROP TABLE embedding_metadata"),
    "metadata rows gone": lambda f: in_sqlite(f / "chroma/chroma.sqlite3", "DELETE FROM embedding_metadata"),
    "index gone": lambda f: remove(f / "index"),
    "index emptied": lambda f: emptied(f / "index"),
    "index of no bytes": lambda f: os.truncate(index(f), 0),
    "index of junk": lambda f: junk(index(f)),
    "index cut": lambda f: os.truncate(index(f), 5_000),
    "index without its last byte": lambda f: os.truncate(index(f), index(f).stat().st_size - 1),
    "index a folder": lambda f: as_folder(index(f)),
    "index with a bit turned": lambda f: turned(index(f), 3_000),
    "index with a bit of its directory turned": lambda f: turned(index(f), -100),
    "index of another format": lambda f: turned(index(f), -12),
}

# Chroma's own code may end the process over these; see below.
SEGMENT: dict[str, Damage] = {
    "segment gone": lambda f: remove(segment(f)),
    "vectors gone": lambda f: remove(segment(f) / "data_level0.bin"),
    "vectors cut": lambda f: os.truncate(segment(f) / "data_level0.bin", 100),
    "vectors of no bytes": lambda f: os.truncate(segment(f) / "data_level0.bin", 0),
    "header of no bytes": lambda f: os.truncate(segment(f) / "header.bin", 0),
    "header of junk": lambda f: junk(segment(f) / "header.bin"),
}


def test_the_prepared_folder_is_whole(folder: Path) -> None:
    assert ids(folder) == IDS
    assert segment(folder).is_dir()
    assert in_chroma(folder) == IDS


@pytest.mark.parametrize("damage", (HALF | SEGMENT).values(), ids=(HALF | SEGMENT).keys())
def test_a_folder_of_which_one_copy_is_damaged_is_whole_or_refused_and_nothing_less(
    damage: Damage, folder: Path, whole: dict[str, tuple[str, bytes]]
) -> None:
    damage(folder)
    for _ in range(2):
        with suppress(StoreError):
            assert contents(folder) == whole


def write_over(folder: Path) -> None:
    with suppress(StoreError):
        with opened(folder) as corpus:
            corpus.add([Record(id="new", text="fee 12")])
        assert ids(folder) == ["new", *IDS]
        assert in_chroma(folder) == ["new", *IDS]


@pytest.mark.parametrize("damage", HALF.values(), ids=HALF.keys())
def test_a_write_over_a_damaged_copy_is_in_both_copies_or_refused(damage: Damage, folder: Path) -> None:
    damage(folder)
    write_over(folder)


OTHER = """
import sys
from pathlib import Path
from tests.test_damage import SEGMENT, write_over

for name, folder in zip(SEGMENT, sys.argv[1:], strict=True):
    SEGMENT[name](Path(folder))
    write_over(Path(folder))
    print(name, flush=True)
"""


def test_a_write_over_damaged_vectors_does_not_end_the_process(prepared: Path, tmp_path: Path) -> None:
    copies = [str(shutil.copytree(prepared, tmp_path / str(n))) for n in range(len(SEGMENT))]
    done = subprocess.run([sys.executable, "-c", OTHER, *copies], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert done.stdout.splitlines() == list(SEGMENT)


@pytest.mark.parametrize("damage", (EMPTIED | JUNK).values(), ids=(EMPTIED | JUNK).keys())
def test_a_folder_that_cannot_be_read_is_refused_each_time_and_can_be_restored(
    damage: Damage, folder: Path, prepared: Path
) -> None:
    damage(folder)
    for _ in range(2):
        with pytest.raises(StoreError):
            opened(folder)
    shutil.rmtree(folder)
    shutil.copytree(prepared, folder)
    assert ids(folder) == IDS


@pytest.mark.parametrize("damage", EMPTIED.values(), ids=EMPTIED.keys())
def test_where_the_records_are_gone_the_error_says_what_to_do(damage: Damage, folder: Path) -> None:
    damage(folder)
    with pytest.raises(StoreError, match="restore the store from a copy, or delete the folder"):
        opened(folder)


@pytest.mark.parametrize("damage", FORGOTTEN.values(), ids=FORGOTTEN.keys())
def test_where_the_journal_is_gone_no_other_model_is_let_in(
    damage: Damage, folder: Path, prepared: Path
) -> None:
    damage(folder)
    for embedder in (OtherWords(), WordEmbedder(), TableEmbedder({"fee": [1.0, 0.0, 0.0]})):
        with pytest.raises(StoreError, match="journal"):
            opened(folder, embedder)
    shutil.copy(prepared / "journal.sqlite", folder / "journal.sqlite")
    assert ids(folder) == IDS


@pytest.mark.parametrize("name", JUNK)
def test_where_a_part_cannot_be_read_the_error_names_its_path(name: str, folder: Path) -> None:
    JUNK[name](folder)
    part = "journal.sqlite" if name.startswith("journal") else "index"
    with pytest.raises(StoreError) as caught:
        opened(folder)
    assert str(folder / part) in str(caught.value)


def test_chroma_is_made_again_from_the_index_at_the_next_write(folder: Path) -> None:
    dropped(folder)
    assert ids(folder) == IDS
    with opened(folder) as corpus:
        corpus.delete("r7")
    assert in_chroma(folder) == IDS[:-1]


def test_the_index_is_made_again_from_chroma(folder: Path, whole: dict[str, tuple[str, bytes]]) -> None:
    index(folder).unlink()
    assert contents(folder) == whole
    with opened(folder) as corpus:
        corpus.delete("r7")
    assert ids(folder) == in_chroma(folder) == IDS[:-1]


def test_nothing_is_added_to_a_folder_that_lost_its_records(folder: Path) -> None:
    EMPTIED["both gone"](folder)
    with pytest.raises(StoreError), opened(folder) as corpus:
        corpus.add([Record(id="new", text="fee 12")])
    with pytest.raises(StoreError, match="remembers records"):
        opened(folder)


def test_a_folder_that_was_emptied_on_purpose_opens_empty(folder: Path) -> None:
    with opened(folder) as corpus:
        assert corpus.delete(IDS) == 8
    assert ids(folder) == []
    shutil.rmtree(folder / "chroma")
    assert ids(folder) == []


def test_a_folder_that_was_emptied_and_filled_again_is_watched_again(folder: Path) -> None:
    with opened(folder) as corpus:
        corpus.purge(IDS)
        corpus.add([Record(id="new", text="fee 12")])
    assert ids(folder) == ["new"]
    EMPTIED["both gone"](folder)
    with pytest.raises(StoreError, match="remembers records"):
        opened(folder)


def test_a_folder_in_which_nothing_was_written_yet_opens_without_its_parts(tmp_path: Path) -> None:
    place = tmp_path / "new"
    opened(place).close()
    shutil.rmtree(place / "chroma")
    assert ids(place) == []
    (place / "journal.sqlite").unlink()
    assert ids(place) == []


def test_a_folder_whose_first_write_failed_opens_empty(tmp_path: Path) -> None:
    class Failing(WordEmbedder):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise OSError("offline")

    with opened(tmp_path / "new", Failing()) as corpus, pytest.raises(CtxArithError):
        corpus.add([Record(id="a", text="fee 12")])
    assert ids(tmp_path / "new") == []


def test_a_model_of_another_length_is_refused_although_the_journal_forgot_the_length(folder: Path) -> None:
    class Short(TableEmbedder):
        name = WordEmbedder.name

    in_sqlite(folder / "journal.sqlite", "DELETE FROM setting WHERE name = 'dimension'")
    with opened(folder, Short({"fee": [1.0, 0.0, 0.0]})) as corpus:
        with pytest.raises(EmbedderMismatch, match="dimension 64"):
            corpus.retrieve("fee")
        with pytest.raises(EmbedderMismatch, match="dimension 64"):
            corpus.add([Record(id="new", text="fee 12")])
        assert corpus.count() == 8


STRANGE: dict[str, dict[str, Any]] = {
    "no metadata": {},
    "foreign metadata": {"metadatas": [{"colour": "red"}], "documents": ["fee"]},
    "an id of nothing": {"metadatas": [{"id": "", "tenant": "default"}], "documents": ["fee"]},
}


@pytest.mark.parametrize("row", STRANGE.values(), ids=STRANGE.keys())
def test_a_row_of_another_tool_is_named_when_the_rows_are_read_from_chroma(
    row: dict[str, Any], folder: Path
) -> None:
    index(folder).unlink()
    with chroma(folder) as client:
        client.get_collection(COLLECTION).add(
            ids=["strange-7"], embeddings=np.ones((1, 64), np.float32), **row
        )
    for _ in range(2):
        with pytest.raises(StoreError, match="'strange-7'"):
            opened(folder)
    with chroma(folder) as client:
        client.get_collection(COLLECTION).delete(ids=["strange-7"])
    assert ids(folder) == IDS


def test_a_write_that_chroma_refuses_is_a_store_error_and_questions_go_on(folder: Path) -> None:
    junk(folder / "chroma/chroma.sqlite3")
    with suppress(StoreError), opened(folder) as corpus:
        for write in (
            lambda: corpus.add([Record(id="new", text="fee 12")]),
            lambda: corpus.add([Record(id="r1", text="fee 77")]),
            lambda: corpus.delete("r1"),
            lambda: corpus.purge("r1"),
        ):
            with pytest.raises(StoreError) as caught:
                write()
            assert str(folder / "chroma") in str(caught.value)
        assert sorted(hit.id for hit in corpus.retrieve("fee", top=None).hits) == IDS
        assert [record.text for record in corpus.get(["new", "r1"])] == ["fee 1"]
