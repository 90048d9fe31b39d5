"""The law of a place where conversations live, over a folder, memory and the stores of LangGraph."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import BaseStore, SearchItem
from langgraph.store.memory import InMemoryStore

from ctxarith import ArgumentError, Message, Point, RollingMemory, Slot, StoreError, Summary
from ctxarith.conversation import ConversationKey
from ctxarith.durable import Conversations, Head
from ctxarith.memory.curve import tokens_per_turn
from ctxarith.stores.conversations import SqliteConversations
from langchain_ctxarith import StoreConversations
from langchain_ctxarith.items import label
from tests.conftest import NOW
from tests.fakes import WordEmbedder
from tests.textstore import TextStore

pytestmark = pytest.mark.filterwarnings("error")

ROOT = Path(__file__).resolve().parents[1]
KEY = ConversationKey("t1")
Make = Callable[[], Conversations]


def made(store: Any, **options: Any) -> RollingMemory:
    options = {"thread_id": "t1", "clock": lambda: NOW, "embedder": WordEmbedder(), **options}
    return RollingMemory(store=store, **options)


@pytest.fixture(params=["memory", "folder", "InMemoryStore", "TextStore"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Another handle of one and the same place each time."""
    if request.param == "folder":
        return lambda: SqliteConversations(tmp_path)
    if request.param == "memory":
        one = SqliteConversations()
        return lambda: one
    store = InMemoryStore() if request.param == "InMemoryStore" else TextStore(tmp_path / "items.sqlite")
    return lambda: StoreConversations(store)


@pytest.fixture
def place(make: Make) -> Iterator[Conversations]:
    with closing(make()) as conversations:
        yield conversations


def point(turn: int) -> Point:
    return Point("decision", f"Turn {turn} was said.", (turn,), NOW, slots=(Slot("s", "a", 1),))


def test_a_thread_begins_empty_and_numbers_its_turns(place: Conversations) -> None:
    assert place.head(KEY) == Head()
    added = [place.append(KEY, Message("user", text, time=NOW)) for text in ("a", "b", "c")]
    head = place.head(KEY)
    assert (head.last, head.covers) == (3, 0)
    assert [(one.number, one.content) for one in added] == [(1, "a"), (2, "b"), (3, "c")]
    assert place.since(head.generation, 1) == added[1:]
    assert place.turn(head.generation, 2) == added[1]
    assert place.turn(head.generation, 4) is None
    assert place.turn(head.generation, 0) is None


def test_a_turn_is_read_back_as_it_was_said(place: Conversations) -> None:
    call = {"id": "c1", "name": "search", "arguments": {"query": "fee"}}
    said = [
        Message("assistant", "é\nsecond", time=NOW, tool_calls=[call], native='{"langchain": {}}'),
        Message("tool", "12", time=NOW, answers="c1", id="m1", slots=[Slot("s", "fee", 12)]),
    ]
    for message in said:
        place.append(KEY, message)
    found = place.since(place.head(KEY).generation, 0)
    assert [replace(message, number=0) for message in found] == said


def test_an_id_is_appended_once(place: Conversations) -> None:
    first = place.append(KEY, Message("user", "hello", id="m1"))
    assert place.append(KEY, Message("user", "hello again", id="m1")) == first
    assert place.head(KEY).last == 1


def test_a_summary_takes_the_place_of_the_one_it_was_made_from_and_never_goes_back(
    place: Conversations,
) -> None:
    for n in range(6):
        place.append(KEY, Message("user", f"{n}"))
    generation = place.head(KEY).generation
    assert place.summary(generation) == Summary()
    two, four = Summary((point(2),), 2), Summary((point(4),), 4, "In short.")
    assert place.replace(generation, two, covered=0)
    assert place.summary(generation) == two
    assert not place.replace(generation, four, covered=0)
    assert not place.replace(generation, two, covered=2)
    assert not place.replace(generation, Summary((), 7), covered=2)
    assert not place.replace(generation + 1, four, covered=2)
    assert place.replace(generation, four, covered=2)
    assert (place.summary(generation), place.head(KEY).covers) == (four, 4)


def test_a_cleared_thread_begins_anew_under_another_generation(make: Make) -> None:
    with closing(make()) as place, closing(make()) as other:
        place.append(KEY, Message("user", "old", id="m1"))
        old = other.head(KEY).generation
        place.replace(old, Summary((), 1), covered=0)
        place.clear(KEY)
        assert other.head(KEY) == Head()
        assert other.since(old, 0) == []
        assert other.append(KEY, Message("user", "new", id="m1")).number == 1
        head = place.head(KEY)
        assert (head.last, head.covers) == (1, 0)
        assert head.generation != old
        assert not other.replace(old, Summary((), 1), covered=0)
        assert [message.content for message in place.since(head.generation, 0)] == ["new"]


def test_system_messages_and_the_last_question_are_pinned(place: Conversations) -> None:
    for role in ("system", "user", "assistant", "user", "assistant", "system", "user"):
        place.append(KEY, Message(role, role))
    generation = place.head(KEY).generation
    assert [message.number for message in place.pinned(generation, 6)] == [1, 4, 6]
    assert [message.number for message in place.pinned(generation, 3)] == [1, 2]


def test_tenants_users_and_threads_are_apart(make: Make) -> None:
    keys = [
        ConversationKey(thread, tenant, user)
        for tenant in ("acme", "acme.com", "acme.com/t-1", "ACME")
        for user in (None, "nobody", "-", "%", "é")
        for thread in ("t-1", "t-10", "t_1", "t")
    ]
    with closing(make()) as place, closing(make()) as other:
        for n, key in enumerate(keys):
            place.append(key, Message("user", f"{n}"))
        for n, key in enumerate(keys):
            (only,) = other.since(other.head(key).generation, 0)
            assert (only.content, only.number) == (f"{n}", 1)
        place.clear(keys[0])
        assert [place.head(key).last for key in keys] == [0, *[1] * (len(keys) - 1)]


def test_one_handle_summarises_at_a_time(make: Make) -> None:
    with closing(make()) as place, closing(make()) as other:
        first, second = place.claim(KEY), other.claim(KEY)
        assert first.take()
        assert not second.take()
        assert other.claim(ConversationKey("t2")).take()
        first.release()
        assert second.take()
        second.release()


def test_many_threads_over_two_handles_lose_no_turn_and_give_no_number_twice(make: Make) -> None:
    with closing(make()) as place, closing(make()) as other:

        def say(n: int) -> int:
            return (place if n % 2 else other).append(KEY, Message("user", f"{n}", id=f"m{n % 150}")).number

        with ThreadPoolExecutor(8) as pool:
            numbers = list(pool.map(say, range(200)))
        turns = place.since(place.head(KEY).generation, 0)
        assert sorted(set(numbers)) == [turn.number for turn in turns] == list(range(1, 151))
        assert {turn.id for turn in turns} == {f"m{n}" for n in range(150)}
        assert other.since(other.head(KEY).generation, 0) == turns


def test_a_memory_over_any_place_is_the_same_memory(make: Make) -> None:
    options = {"max_tokens": 200, "keep_recent": 2}
    with closing(make()) as place, made(None, **options) as alone:
        with made(place, **options) as memory:
            for n in range(40):
                for one in (memory, alone):
                    one.append("user", f"We agreed that pump {n} costs {n}00 EUR.")
                    one.wait()
            assert memory.flush()
            assert alone.flush()
            assert memory.window() == alone.window()
            assert memory.summary == alone.summary
        with closing(make()) as again, made(again, **options) as memory:
            assert memory.window() == alone.window()
            assert memory.turns == alone.turns
            memory.clear()
            assert memory.window().text == ""


def test_a_curve_of_tokens_writes_into_no_store_of_the_thread() -> None:
    with closing(SqliteConversations()) as place:
        points = list(tokens_per_turn([Message("user", "hello")], store=place))
        assert len(points) == 1
        assert place.head(ConversationKey("tokens per turn")) == Head()


def test_a_store_that_was_given_stays_open_and_is_named_alone(tmp_path: Path) -> None:
    with closing(SqliteConversations()) as place:
        with made(place) as memory:
            memory.append("user", "hello")
        assert place.head(KEY).last == 1
        with pytest.raises(ArgumentError, match="path"):
            made(place, path=tmp_path)
    with pytest.raises(ArgumentError, match="it lacks append, claim"):
        made(InMemoryStore())


@given(st.lists(st.text(max_size=8), min_size=2, max_size=2, unique=True))
def test_no_two_texts_are_one_label_and_none_begins_another(both: list[str]) -> None:
    try:
        one, other = (label(text) for text in both)
    except UnicodeEncodeError:
        return  # a lone surrogate, which no key holds
    assert not other.startswith(one)
    assert not set(one + other) & set("._%\x00")


class Others(StoreConversations):
    """A handle as another process has it: it knows nothing of what this one does."""

    def __init__(self, store: BaseStore) -> None:
        super().__init__(store)
        self._shared = type(self._shared)()


def test_processes_that_take_turns_see_each_others_turns_in_order() -> None:
    store = InMemoryStore()
    both = Others(store), Others(store)
    for n in range(200):
        assert both[n % 2].append(KEY, Message("user", f"{n}")).number == n + 1
    heads = [one.head(KEY) for one in both]
    assert heads[0] == heads[1]
    assert [turn.content for turn in both[0].since(heads[0].generation, 0)] == [f"{n}" for n in range(200)]


@pytest.mark.parametrize("already", [0, 1, 61, 62, 63, 64, 127])
def test_two_that_claim_one_number_both_stay_and_every_handle_reads_anew(already: int) -> None:
    store = InMemoryStore()
    one, other = Others(store), Others(store)
    for n in range(already):
        one.append(KEY, Message("user", f"{n}"))
    other.head(KEY)
    before = one.head(KEY)
    put = other._items.put

    def late(*item: Any) -> None:
        # While the one writes, the other has looked already and is about to.
        one.append(KEY, Message("user", "first"))
        put(*item)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(other._items, "put", late)
        other.append(KEY, Message("user", "second"))
    heads = [one.head(KEY), other.head(KEY), Others(store).head(KEY)]
    assert heads[0] == heads[1] == heads[2]
    assert heads[0].last == already + 2
    assert heads[0].generation != before.generation
    turns = one.since(heads[0].generation, 0)
    assert turns == other.since(heads[0].generation, 0)
    assert {turn.content for turn in turns[already:]} == {"first", "second"}
    assert [turn.number for turn in turns] == list(range(1, already + 3))
    assert one.append(KEY, Message("user", "third")).number == already + 3
    assert other.head(KEY).generation == heads[0].generation


def test_a_turn_that_comes_late_is_never_hidden_by_a_summary() -> None:
    store = InMemoryStore()
    one, other = Others(store), Others(store)
    other.append(KEY, Message("user", "0"))
    put = other._items.put

    def late(*item: Any) -> None:
        for n in range(1, 6):
            one.append(KEY, Message("user", f"{n}"))
        assert one.replace(one.head(KEY).generation, Summary((point(4),), 4), covered=0)
        put(*item)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(other._items, "put", late)
        other.append(KEY, Message("user", "late"))
    for handle in (one, other):
        head = handle.head(KEY)
        assert (head.last, head.covers) == (7, 0)
        assert "late" in [turn.content for turn in handle.since(head.generation, 0)]
        assert handle.summary(head.generation) == Summary()


def test_an_open_memory_follows_a_turn_that_comes_late() -> None:
    store = InMemoryStore()
    one, other = Others(store), Others(store)
    with made(one) as memory:
        memory.append("user", "zero")
        put = one._items.put

        def late(*item: Any) -> None:
            other.append(KEY, Message("user", "of another"))
            put(*item)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(one._items, "put", late)
            memory.append("user", "mine")
        assert {message.content for message in memory.window().messages} == {"zero", "of another", "mine"}
        assert len(memory.turns) == 3


WRITER = """
import sys
from ctxarith import RollingMemory
from langchain_ctxarith import StoreConversations
from tests.textstore import TextStore

place = StoreConversations(TextStore(sys.argv[1]))
memory = RollingMemory(thread_id="t1", max_tokens=200, keep_recent=2, store=place)
print("open", flush=True)
sys.stdin.readline()
for n in range(int(sys.argv[3])):
    memory.append("user", f"{sys.argv[2]} says that pump {n} is green, and so is its cover.")
    assert memory.window().tokens <= 200
memory.wait()
memory.close()
"""


def test_two_processes_at_once_lose_and_overwrite_nothing(tmp_path: Path) -> None:
    path = tmp_path / "items.sqlite"
    names = ("Meera", "Akbar")
    both = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name, "60"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    assert [process.stdout and process.stdout.readline() for process in both] == ["open\n", "open\n"]
    for process in both:
        process.communicate("go\n")
    assert [process.returncode for process in both] == [0, 0]
    with made(StoreConversations(TextStore(path)), max_tokens=200, keep_recent=2) as memory:
        said = [message.content for message in memory.turns]
        for name in names:
            mine = [text for text in said if text.startswith(name)]
            assert [text.split()[4] for text in mine] == [str(n) for n in range(60)]
        assert len(said) == 120
        assert memory.flush()
        assert memory.status.covers == 118


def test_nothing_of_a_cleared_thread_is_left_in_the_store() -> None:
    store = InMemoryStore()
    with made(StoreConversations(store), max_tokens=100, keep_recent=1) as memory:
        for n in range(80):
            memory.append("user", f"The secret of pump {n} is {n}00.")
        memory.flush()
        memory.clear()
        memory.clear()
    (left,) = store.search((), limit=1_000)
    assert left.value == {"cleared": True}


def test_a_clear_that_failed_half_way_shows_nothing_and_is_done_by_the_next() -> None:
    store = InMemoryStore()
    place = StoreConversations(store)
    for n in range(5):
        place.append(KEY, Message("user", f"secret {n}"))
    delete, left = place._items.delete, [1, 1]

    def breaking(*item: Any) -> None:
        if not left:
            raise StoreError("the server is down")
        left.pop()
        delete(*item)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place._items, "delete", breaking)
        with pytest.raises(StoreError):
            place.clear(KEY)
    assert place.head(KEY) == Head()
    assert any("secret" in str(item.value) for item in store.search((), limit=100))
    place.clear(KEY)
    assert not any("secret" in str(item.value) for item in store.search((), limit=100))


class Failing(InMemoryStore):
    def batch(self, ops: Any) -> Any:
        raise ConnectionError("the server is down")


def test_a_store_that_fails_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="ConnectionError: the server is down"):
        StoreConversations(Failing()).head(KEY)


@pytest.mark.parametrize("wrong", [{"store": object()}, {"root": ()}, {"root": ("a.b",)}, {"root": ("",)}])
def test_what_is_no_store_or_no_namespace_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        StoreConversations(**{"store": InMemoryStore(), **wrong})


class Walked(InMemoryStore):
    """Somebody else writes while it is read."""

    times = 0

    def search(self, *given: Any, **asked: Any) -> list[SearchItem]:
        self.times += 1
        if self.times % 3:
            raise RuntimeError("dictionary changed size during iteration")
        return super().search(*given, **asked)


def test_a_store_in_memory_that_others_write_to_is_read_again() -> None:
    place = StoreConversations(Walked())
    place.append(KEY, Message("user", "hello"))
    assert place.head(KEY).last == 1


def test_a_long_thread_is_followed_at_its_end_alone() -> None:
    store = InMemoryStore()
    place = Others(store)
    for n in range(1_000):
        place.append(KEY, Message("user", f"{n}"))
    read: list[int] = []
    under = place._items.under

    def counted(namespace: Any) -> Any:
        found = under(namespace)
        read.append(len(found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place._items, "under", counted)
        place.append(KEY, Message("user", "one more"))
        assert place.head(KEY).last == 1_001
    assert sum(read) <= 4 * 64
