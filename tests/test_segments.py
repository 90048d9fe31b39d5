"""How the index is cut into segments is seen in no answer; and what holds of the segments themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ctxarith import (
    Corpus,
    Principal,
    Record,
    Result,
    Slot,
    StoreError,
    everyone,
    lexical,
    semantic,
    superseded,
)
from ctxarith.index.analysis import Analyzer
from ctxarith.index.arrange import Arrays
from ctxarith.index.files import SegmentFiles
from ctxarith.index.segment import Segment
from ctxarith.index.snapshot import Indexer, Snapshot
from ctxarith.index.values import Values
from ctxarith.ingest import compaction
from ctxarith.ingest.compaction import Merger
from ctxarith.ingest.keeper import Keeper
from ctxarith.ports import Row
from ctxarith.run import Tools, run
from ctxarith.stores.inmemory import InMemoryStore
from ctxarith.stores.journal import SqliteJournal
from tests import strategies
from tests.answers import anew, answers, held, with_vectors
from tests.conftest import NOW
from tests.deeds import Book, Deed
from tests.fakes import WordEmbedder

IDS = strategies.IDS[:5]
VERSIONS = ("1", "01", "2", "10", "v9")
TENANTS = ("default", "beta")
QUESTION = "pump valve KYO-H12"
CALLER = Principal("default", groups=("ops",))
FACTS = [(subject, attribute) for subject in strategies.SUBJECTS for attribute in strategies.ATTRIBUTES]
INDEXER = Indexer(Analyzer())


# The same writes, cut in every way


@contextmanager
def uncompacted() -> Iterator[None]:
    """Nothing is compacted unless a test asks for it."""
    with mock.patch.object(Keeper, "compact_in_background", return_value=None):
        yield


@contextmanager
def in_pieces() -> Iterator[None]:
    """Each write leaves a segment of its own, too."""
    with uncompacted(), mock.patch.object(compaction, "ABSORBED", 0):
        yield


def steps() -> SearchStrategy[Deed]:
    batches = st.one_of(
        strategies.rivals(min_size=1, max_size=5, tenants=TENANTS),
        strategies.records(min_size=1, max_size=3, ids=IDS, tenants=TENANTS, versions=VERSIONS, facts=True),
    )
    some = st.lists(st.sampled_from(IDS), min_size=1, max_size=2, unique=True).map(tuple)
    ending = st.builds(
        lambda method, ids, tenant: Deed(method, ids=ids, tenant=tenant),
        st.sampled_from(("delete", "retire", "purge")),
        some,
        st.sampled_from(TENANTS),
    )
    return batches.map(lambda records: Deed("add", tuple(records))) | ending


HISTORIES = st.lists(steps(), min_size=1, max_size=5)
CONDITIONS = st.lists(strategies.predicates(max_leaves=4), max_size=3)


def memory() -> Corpus:
    return Corpus.in_memory(embedder=WordEmbedder(), clock=lambda: NOW)


def asked(corpus: Corpus, conditions: Sequence[Any] = ()) -> dict[str, Any]:
    return answers(corpus, CALLER, [QUESTION], ids=IDS, facts=FACTS, conditions=conditions)


def done(deeds: Sequence[Deed], corpus: Corpus, between: Callable[[Corpus], object] = bool) -> Corpus:
    for deed in deeds:
        deed.do(corpus)
        between(corpus)
    return corpus


def compacted(corpus: Corpus) -> None:
    """All segments become one, however few they are."""
    keeper = corpus._shelf._keeper
    with mock.patch.object(compaction, "RATIO", 10**9):
        while keeper.compact():
            pass
    snapshot = corpus._shelf.snapshot
    assert sum(compaction.staying(one, snapshot) > 0 for one in snapshot.segments) <= 1


@given(HISTORIES, CONDITIONS)
def test_answers_do_not_depend_on_how_the_index_is_cut(deeds: list[Deed], conditions: list[Any]) -> None:
    plain = done(deeds, memory())
    wanted = asked(plain, conditions)
    with in_pieces():
        pieces = done(deeds, memory())
        assert asked(pieces, conditions) == wanted
        again = done(deeds, memory(), compacted)
        assert asked(again, conditions) == wanted
    whole = anew(held(plain))
    assert asked(whole, conditions) == wanted
    for tenant in TENANTS:
        feed = plain._shelf.feed(tenant, 0)
        assert pieces._shelf.feed(tenant, 0) == feed
        assert again._shelf.feed(tenant, 0) == feed


@given(HISTORIES, st.data())
def test_a_corpus_that_is_opened_again_after_each_write_answers_as_one_that_was_never_closed(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[Deed], data: st.DataObject
) -> None:
    folder, store = tmp_path_factory.mktemp("corpus"), InMemoryStore()
    wanted = asked(done(deeds, memory()))
    cut = data.draw(st.booleans())
    with ExitStack() as stack:
        if cut:
            stack.enter_context(in_pieces())
        for deed in deeds:
            with Corpus.open(folder, store=store, embedder=WordEmbedder(), clock=lambda: NOW) as corpus:
                deed.do(corpus)
        with Corpus.open(folder, store=store, embedder=WordEmbedder(), clock=lambda: NOW) as corpus:
            assert asked(corpus) == wanted
            compacted(corpus)
            assert asked(corpus) == wanted


@given(HISTORIES)
def test_a_corpus_holds_what_a_plain_book_of_the_writes_tells(deeds: list[Deed]) -> None:
    with in_pieces():
        corpus = done(deeds, memory())
    book = Book()
    for deed in deeds:
        book = book.after(deed)
    assert {row.key: row.record for row in held(corpus)} == book.rows
    assert {row.key: row.record for row in corpus._shelf.store.rows()} == book.rows
    assert dict(corpus._shelf.snapshot.watermarks) == book.watermarks
    for tenant in TENANTS:
        assert corpus._shelf.feed(tenant, 0) == book.feed_of(tenant)


@given(
    strategies.records(max_size=9, ids=IDS, tenants=TENANTS, versions=VERSIONS, facts=True),
    st.lists(st.integers(0, 3), min_size=9, max_size=9),
)
def test_one_add_or_many_in_any_order_is_the_same(records: list[Record], places: list[int]) -> None:
    whole, parts = memory(), memory()
    whole.add(records)
    with in_pieces():
        for place in range(4):
            parts.add([record for record, own in zip(records, places, strict=False) if own == place])
    assert asked(parts) == asked(whole)


def fee(rid: str, **more: Any) -> Record:
    return Record(id=rid, text=f"the pump fee of {rid}", slots=[Slot("lead-1", "fee", rid)], **more)


TIES = {
    "undated": (fee("a"), fee("b")),
    "of one date": (fee("b", created_at=NOW), fee("a", created_at=NOW)),
    "versions of an id": (fee("a", version="10"), fee("a", version="9")),
    "versions that count as the same number": (fee("a", version="1"), fee("a", version="01")),
    "a link against the dates": (fee("a", created_at=NOW), fee("b", supersedes=["a"])),
    "a link to a source": (Record(id="a", text="pump", source_id="book"), fee("b", supersedes=["book"])),
}


@pytest.mark.parametrize("pair", TIES.values(), ids=TIES.keys())
def test_two_that_compete_decide_alike_in_one_segment_in_two_and_in_either_order(
    pair: tuple[Record, Record],
) -> None:
    whole = memory()
    whole.add(pair)
    wanted = asked(whole)
    with in_pieces():
        for order in (pair, pair[::-1]):
            corpus = done([Deed("add", (one,)) for one in order], memory())
            assert len(corpus._shelf.snapshot.segments) == 2
            assert asked(corpus) == wanted
            compacted(corpus)
            assert asked(corpus) == wanted


# Arrays


def segment_of(rows: Sequence[Row], name: str = "one") -> Segment:
    return Segment(INDEXER.arrays(rows), name)


def plain(arrays: Arrays) -> dict[str, Any]:
    """Arrays as they compare: 1 and 1.0 are one value, and the holders of a list's element are a set."""
    numbers = {name.removesuffix(".number.ends") for name in arrays if name.endswith(".number.ends")}
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        if name.endswith(".item.rows"):
            starts = arrays[name.removesuffix("rows") + "starts"].tolist()
            found[name] = [sorted(array[start:stop].tolist()) for start, stop in pairwise(starts)]
        elif name.rpartition(".number.")[0] not in numbers:
            found[name] = (array.dtype.str, array.shape, array.tobytes())
    for prefix in numbers:
        values = Values(arrays, prefix)
        found[prefix] = values.typed(np.ones(values.count + 1, np.bool_))
    return found


@given(
    strategies.records(max_size=8, ids=IDS, tenants=TENANTS, versions=VERSIONS, facts=True),
    st.lists(st.sampled_from(("first", "second", "third")), min_size=8, max_size=8),
    st.sets(st.integers(0, 7)),
)
def test_segments_merged_are_the_segment_that_is_built_of_the_rows_that_stay(
    records: list[Record], places: list[str], gone: set[int]
) -> None:
    rows = with_vectors({row.key: row.record for row in map(bare, records)})
    names = places[: len(rows)]
    segments = [
        segment_of([row for row, name in zip(rows, names, strict=True) if name == own], own)
        for own in sorted(set(names))
    ]
    if not segments:
        return
    dying = {row.key for n, row in enumerate(rows) if n in gone}
    dead = {
        segment.name: np.asarray([n for n in range(len(segment)) if segment.stored(n).key in dying], np.int64)
        for segment in segments
    }
    staying = [row for row in rows if row.key not in dying]
    merger = Merger.of(segments, dead)
    if staying:
        assert plain(merger.arrays) == plain(INDEXER.arrays(staying))
    whole = Segment(merger.arrays)
    for segment in segments:
        for n, at in enumerate(merger.at[segment.name].tolist()):
            kept = segment.stored(n)
            assert at < 0 if kept.key in dying else whole.stored(at).record == kept.record


def bare(record: Record) -> Row:
    return Row(record, np.ones(1, np.float32))


@given(strategies.records(max_size=6, tenants=TENANTS, versions=VERSIONS, facts=True))
def test_every_array_survives_the_file_and_cannot_be_written_to(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    files = SegmentFiles(tmp_path_factory.mktemp("index"))
    arrays = INDEXER.arrays([bare(record) for record in records])
    mapped = files.open(files.write(arrays).name).arrays
    assert mapped.keys() == arrays.keys()
    for name, array in arrays.items():
        kept = mapped[name]
        assert (kept.dtype, kept.shape, kept.tobytes()) == (array.dtype, array.shape, array.tobytes())
        assert not kept.size or not kept.flags.writeable


# Files, and those who read them


def opened(folder: Path, store: InMemoryStore) -> Corpus:
    return Corpus.open(folder, store=store, embedder=WordEmbedder(), clock=lambda: NOW)


def several(first: int, last: int) -> tuple[Record, ...]:
    return tuple(
        Record(
            id=f"r{n:05}",
            text=f"pump {n} valve {n % 7}",
            created_at=NOW - timedelta(days=n % 90),
            slots=[Slot("lead-1", f"fee-{n % 50}", n)],
        )
        for n in range(first, last)
    )


def stamps(folder: Path) -> dict[str, tuple[int, int, int]]:
    """What changes with a file when it is written to or made anew."""
    found = {path.name: path.stat() for path in (folder / "index").iterdir()}
    return {name: (one.st_ino, one.st_size, one.st_mtime_ns) for name, one in found.items()}


def answered(corpus: Corpus, snapshot: Snapshot) -> str:
    """What a query gets that holds this snapshot."""
    plan = corpus.plan(((semantic | lexical) & everyone) - superseded, principal=Principal("default"))
    tools = Tools(corpus._embedded_query, corpus._setup.counter)
    result: Result = run(plan, QUESTION, snapshot, at=NOW, tools=tools)
    return repr((result.text, result.hits, result.drops, [str(result.why(f"r{n:05}")) for n in range(9)]))


def test_questions_write_to_no_file(tmp_path: Path) -> None:
    store = InMemoryStore()
    with in_pieces(), opened(tmp_path, store) as corpus:
        done([Deed("add", several(n, n + 5)) for n in range(0, 20, 5)], corpus)
    before = stamps(tmp_path)
    contents = {path: path.read_bytes() for path in (tmp_path / "index").iterdir()}
    with opened(tmp_path, store) as corpus:
        asked(corpus)
    assert stamps(tmp_path) == before
    assert {path: path.read_bytes() for path in (tmp_path / "index").iterdir()} == contents


def test_a_snapshot_answers_the_same_when_compaction_has_deleted_its_files(tmp_path: Path) -> None:
    store = InMemoryStore()
    with in_pieces(), opened(tmp_path, store) as corpus:
        done([Deed("add", several(n, n + 5)) for n in range(0, 20, 5)], corpus)
    with in_pieces(), opened(tmp_path, store) as corpus:
        wanted = answered(corpus, anew(held(corpus))._shelf.snapshot)
    with in_pieces(), opened(tmp_path, store) as corpus:
        snapshot = corpus._shelf.snapshot
        compacted(corpus)
        corpus.delete("r00003")
        compacted(corpus)
        assert not {f"{one.name}.segment" for one in snapshot.segments} & stamps(tmp_path).keys()
        # Nothing was read of it before its files were gone.
        assert answered(corpus, snapshot) == wanted
        assert answered(corpus, corpus._shelf.snapshot) != wanted


class Outrun(SegmentFiles):
    """Files of a reader that is slow: before it opens one, others do something, a number of times."""

    def __init__(self, folder: Path, meanwhile: Callable[[], object], times: int) -> None:
        super().__init__(folder)
        self.meanwhile, self.times = meanwhile, times

    def open(self, name: str) -> Segment:
        if self.times:
            self.times -= 1
            self.meanwhile()
        return super().open(name)


@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_reader_follows_when_files_vanish_between_their_names_and_their_opening(
    times: int, tmp_path: Path
) -> None:
    store = InMemoryStore()
    with in_pieces(), opened(tmp_path, store) as writer:
        numbers = iter(range(0, 10**6, 5))

        def overtaken() -> None:
            first = next(numbers)
            writer.add(several(first, first + 5))
            compacted(writer)

        for _ in range(3):
            overtaken()
        journal = SqliteJournal(tmp_path / "journal.sqlite")
        keeper = Keeper(journal, Outrun(tmp_path / "index", overtaken, times), INDEXER)
        keeper.follow()
        journal.close()
        assert len(keeper.snapshot) == 15 + 5 * times == writer.count()
        assert keeper.snapshot.watermarks == writer._shelf.snapshot.watermarks


def test_a_reader_says_that_a_file_is_missing_and_does_not_wait_for_it(tmp_path: Path) -> None:
    with opened(tmp_path, InMemoryStore()) as writer:
        writer.add(several(0, 5))
        journal = SqliteJournal(tmp_path / "journal.sqlite")
        (path,) = (tmp_path / "index").iterdir()
        path.unlink()
        keeper = Keeper(journal, SegmentFiles(tmp_path / "index"), INDEXER)
        with pytest.raises(StoreError, match="missing or damaged"):
            keeper.follow()
        journal.close()


# Sizes


def sizes(corpus: Corpus) -> list[int]:
    return sorted(map(len, corpus._shelf.snapshot.segments), reverse=True)


def test_small_writes_never_rewrite_a_large_file_and_sizes_stay_geometric(tmp_path: Path) -> None:
    written: list[int] = []
    keep = SegmentFiles.write

    def counting(files: SegmentFiles, arrays: Arrays) -> Segment:
        written.append(len(arrays["row.length"]))
        return keep(files, arrays)

    with (
        mock.patch.object(compaction, "ABSORBED", 64),
        mock.patch.object(SegmentFiles, "write", counting),
        opened(tmp_path, InMemoryStore()) as corpus,
    ):
        corpus.add(several(0, 1_000))
        (large,) = stamps(tmp_path).items()
        for first in range(1_000, 1_400, 10):
            corpus.add(several(first, first + 10))
            corpus._shelf._keeper.finish()
            known = sizes(corpus)
            assert large in stamps(tmp_path).items()
            assert all(size >= compaction.RATIO * sum(known[n + 1 :]) for n, size in enumerate(known[:-1]))
            assert len(known) <= 1 + math.log(sum(known), 1 + compaction.RATIO)
        # Each row is written again a logarithmic number of times.
        assert sum(written) - 1_000 <= 400 * (1 + math.log2(400))
        assert corpus.count() == 1_400
