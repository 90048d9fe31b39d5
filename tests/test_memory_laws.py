"""The laws of the window, at every turn of any conversation, however it is summarised."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxarith import BudgetError, Message, Point, RollingMemory, Summary
from ctxarith.memory.script import page
from ctxarith.memory.units import recent, units
from ctxarith.models.tokens import TiktokenCounter
from tests.conftest import NOW

count = TiktokenCounter()

WORDS = st.sampled_from(
    [
        *("apple", "river", "Meera", "12", "45,000", "2026-03-15", "we", "decided", "on", "the", "fee", "is"),
        *("7", ".", "?", "!", "\n", "GJ-4521", "नमस्ते", "<|endoftext|>", "{"),
    ]
)
TEXT = st.lists(WORDS, max_size=60).map(" ".join) | st.text(max_size=40)
TURN = st.one_of(
    st.tuples(st.sampled_from(["user", "assistant"]), TEXT),
    st.tuples(st.just("call"), st.integers(1, 3)),
    st.tuples(st.just("result"), TEXT),
    st.tuples(st.just("system"), st.text("ab ", max_size=20)),
    st.tuples(st.just("flush"), st.none()),
)


@dataclass
class Talk:
    """Says one thing after the other; results answer open calls, and now and then no call at all."""

    memory: RollingMemory
    open_calls: list[str]
    said: list[Message]
    made: int = 0

    def say(self, kind: str, what: Any) -> None:
        append = self.memory.append
        if kind == "flush":
            self.memory.flush(20)
        elif kind == "call":
            names = [f"c{self.made + n}" for n in range(what)]
            self.made += what
            self.open_calls = names
            calls = [{"id": name, "name": "look", "arguments": {"n": name}} for name in names]
            self.said.append(append("assistant", tool_calls=calls))
        elif kind == "result":
            name = self.open_calls.pop(0) if self.open_calls else "of no call"
            self.said.append(append("tool", what, answers=name))
        else:
            try:
                self.said.append(append(kind, what))
            except BudgetError:
                assert kind == "system"


def check(memory: RollingMemory, said: Sequence[Message], *, max_tokens: int, keep_recent: int) -> None:
    covers = memory.status.covers
    window, higher = memory.window(), memory.window(max_tokens + 1_000)
    # A summary may have come in between, made behind.
    assert higher == window or memory.status.covers != covers
    assert window.tokens == count(window.text) <= max_tokens
    system = [message for message in said if message.role == "system"]
    assert list(window.messages[: len(system)]) == system
    groups, _ = units(said)
    shown = {message.number for message in window.messages}
    called: set[str] = set()
    for message in window.messages:
        assert message.role != "tool" or message.answers in called
        called.update(call.id for call in message.tool_calls)
    for unit in groups:
        numbers = {message.number for message in unit.messages}
        assert numbers <= shown or not numbers & shown or unit.messages[0].role != "assistant"
    if groups and not window.cut:
        assert groups[-1].last in shown
    asked = [message for message in said if message.role == "user"][-1:]
    assert {message.number for message in asked} <= shown
    for point in window.points:
        assert not (shown - {*window.cut}).issuperset(point.turns)
    last = [m for unit in groups[recent(groups, keep_recent) :] for m in unit.messages]
    whole = [*([] if not asked or asked[0] in last else asked), *last]
    if count(page(system, "", whole)) + len(whole) + len(system) <= max_tokens:
        assert {message.number for message in last} <= shown
        assert not window.cut


SUMMARIZERS: list[Callable[[Summary, Sequence[Message]], Any] | None] = [
    None,
    lambda previous, turns: "",
    lambda previous, turns: previous.prose + " More and more was said about apples." * 5,
    lambda previous, turns: Summary(
        (*previous.points, *(Point("fact", f"Turn {t.number}.", (t.number,), t.time) for t in turns))
    ),
]


@given(
    turns=st.lists(TURN, max_size=40),
    max_tokens=st.integers(48, 400),
    keep_recent=st.integers(1, 8),
    summarizer=st.sampled_from(SUMMARIZERS),
)
def test_at_every_turn_the_window_keeps_its_laws(
    turns: list[tuple[str, Any]], max_tokens: int, keep_recent: int, summarizer: Any
) -> None:
    with RollingMemory(
        thread_id="t",
        max_tokens=max_tokens,
        keep_recent=keep_recent,
        summarizer=summarizer,
        clock=lambda: NOW,
        retries=0,
    ) as memory:
        talk = Talk(memory, [], [])
        for turn in turns:
            talk.say(*turn)
            check(memory, talk.said, max_tokens=max_tokens, keep_recent=keep_recent)
        assert list(memory.turns) == talk.said


@given(turns=st.lists(st.tuples(st.sampled_from(["user", "assistant"]), TEXT), max_size=30), data=st.data())
def test_a_lower_bound_holds_and_a_higher_one_does_not(turns: list[tuple[str, str]], data: Any) -> None:
    with RollingMemory(thread_id="t", max_tokens=300, clock=lambda: NOW) as memory:
        for role, text in turns:
            memory.append(role, text)
        bound = data.draw(st.integers(30, 600))
        assert count(memory.window(bound).text) <= min(bound, 300)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), TEXT), max_size=30), st.integers(1, 29))
def test_the_window_is_the_same_whenever_it_was_looked_at(turns: list[tuple[str, str]], every: int) -> None:
    windows = []
    for looks in (False, True):
        # A summariser that always fails: the digest alone, made in one go or bit by bit.
        with RollingMemory(
            thread_id="t", max_tokens=120, clock=lambda: NOW, summarizer=lambda p, t: "", retries=0
        ) as memory:
            for n, (role, text) in enumerate(turns):
                memory.append(role, text)
                if looks and n % every == 0:
                    memory.window()
                    memory.window(60)
            windows.append(memory.window())
    assert windows[0] == windows[1]


FILLER = (
    *("apple", "river", "stone", "cloud", "table", "quick", "seven", "Meera", "12", "delivery", "green"),
    *("walk", "open", "door", "light", "Kyoto", "plan"),
)
FIRST = "We decided to use Postgres for the database. The fee of 45,000 is due by 2026-03-15."


def chatter(source: random.Random) -> tuple[str, str]:
    words = source.choices(FILLER, k=source.randint(1, 60))
    return source.choice(["user", "assistant"]), " ".join(words) + source.choice([".", "?", "!"])


def test_what_the_first_turn_says_is_there_after_two_hundred() -> None:
    source = random.Random(5)
    with RollingMemory(thread_id="t", max_tokens=800, clock=lambda: NOW) as memory:
        memory.append(
            "user", "We decided to use Postgres for the database. The fee of 45,000 is due by 2026-03-15."
        )
        for n in range(200):
            if n == 119:
                memory.append("user", "We decided to switch the database to MySQL.")
            memory.append(*chatter(source))
            text = memory.window().text
            assert ("Postgres" in text, "MySQL" in text) == (n < 119, n >= 119)
            assert "45,000 is due by 2026-03-15" in text or memory.recall("fee due")[0].message.number == 1


@pytest.mark.slow
def test_ten_thousand_turns_stay_in_the_window_and_appending_stays_constant() -> None:
    source = random.Random(7)
    took: list[float] = []
    with RollingMemory(thread_id="t", max_tokens=600, clock=lambda: NOW) as memory:
        memory.append(
            "user", "We decided to use Postgres for the database. The fee of 45,000 is due by 2026-03-15."
        )
        for _ in range(10_000):
            turn = chatter(source)
            begun = time.perf_counter()
            memory.append(*turn)
            took.append(time.perf_counter() - begun)
            window = memory.window()
            assert count(window.text) <= 600
        assert "Postgres" in window.text
        assert "2026-03-15" in window.text or memory.recall("when is the fee due?")[0].message.number == 1
        assert len(memory.turns) == 10_001
    assert statistics.median(took[-1_000:]) < 5 * statistics.median(took[:1_000])
