"""Several processes on one thread: no turn is lost or summarised twice, and a killed one leaves no mark."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

from ctxarith import RollingMemory
from tests.conftest import NOW

ROOT = Path(__file__).resolve().parents[1]

WRITER = """
import json, sys
from ctxarith import Point, RollingMemory, Summary

folder, name, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
told = []

def summarizer(previous, turns):
    told.append([turn.number for turn in turns])
    points = tuple(Point("remark", f"Turn {t.number}.", (t.number,), t.time) for t in turns)
    return Summary((*previous.points, *points))

memory = RollingMemory(
    thread_id="t", max_tokens=200, keep_recent=2, summarizer=summarizer, path=folder,
)
print("open", flush=True)
sys.stdin.readline()
for n in range(turns):
    memory.append("user", f"{name} says that pump {n} is green, and so is its cover.")
    window = memory.window()
    assert window.tokens <= 200, window
memory.flush(60)
mine = [m.content for m in memory.turns if m.content.startswith(name)]
assert len(mine) == turns
print(json.dumps(told), flush=True)
memory.close()
"""

HANGING = """
import sys, threading
from ctxarith import RollingMemory

def summarizer(previous, turns):
    print("begun", flush=True)
    threading.Event().wait()

memory = RollingMemory(thread_id="t", max_tokens=200, keep_recent=2, summarizer=summarizer, path=sys.argv[1])
for n in range(30):
    memory.append("user", f"We agreed that pump {n} costs {n}00 EUR.")
print("appended", flush=True)
threading.Event().wait()
"""


def started(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_two_processes_on_one_thread_summarise_each_turn_once(tmp_path: Path) -> None:
    both = [started(WRITER, tmp_path, name, 60) for name in ("Meera", "Akbar")]
    assert [line(process) for process in both] == ["open", "open"]
    outputs = []
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        outputs.append(json.loads(line(process)))
        process.communicate()
        assert process.returncode == 0
    told = [turn for calls in outputs for turns in calls for turn in turns]
    assert len(told) == len(set(told))
    with RollingMemory(thread_id="t", max_tokens=200, keep_recent=2, path=tmp_path) as memory:
        assert [message.number for message in memory.turns] == list(range(1, 121))
        assert memory.flush()
        assert memory.status.covers == 118
        assert max(told) <= 118


def test_a_process_killed_in_the_middle_of_a_summary_leaves_the_thread_whole(tmp_path: Path) -> None:
    process = started(HANGING, tmp_path)
    assert {line(process), line(process)} == {"begun", "appended"}
    process.kill()
    process.communicate()
    options = {"thread_id": "t", "max_tokens": 200, "keep_recent": 2, "path": tmp_path}
    with RollingMemory(**options, clock=lambda: NOW) as memory:  # type: ignore[arg-type]
        assert len(memory.turns) == 30
        assert memory.flush()
        assert memory.status.covers == 28
        assert memory.window().tokens <= 200
        assert memory.recall("What does pump 7 cost?")[0].message.number == 8


def test_another_handle_is_followed_and_keeps_the_claim(tmp_path: Path) -> None:
    with (
        RollingMemory(thread_id="t", path=tmp_path, max_tokens=200, keep_recent=1) as one,
        RollingMemory(thread_id="t", path=tmp_path, max_tokens=200, keep_recent=1) as other,
    ):
        one.append("user", "The fee is 40 EUR.")
        other.append("assistant", "Noted.")
        assert one.window() == other.window()
        assert one.window().turns == (1, 2)
        assert other.flush()
        assert one.summary == other.summary
        assert one.window() == other.window()
        assert one.window().turns[-1] == 2


APPENDING = """
import sys
from ctxarith import RollingMemory

memory = RollingMemory(thread_id="t", max_tokens=200, keep_recent=2, path=sys.argv[1])
while True:
    added = memory.append("user", "We agreed that this pump costs 100 EUR and no more.")
    print(added.number, flush=True)
"""


def test_what_append_gave_back_is_there_after_a_kill(tmp_path: Path) -> None:
    process = started(APPENDING, tmp_path)
    told = [int(line(process)) for _ in range(40)]
    process.kill()
    process.communicate()
    with RollingMemory(thread_id="t", max_tokens=200, keep_recent=2, path=tmp_path) as memory:
        numbers = [message.number for message in memory.turns]
        assert told == list(range(1, 41))
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= 40
        assert memory.flush()
        assert memory.status.covers == len(numbers) - 2


def test_many_threads_and_two_handles_lose_nothing(tmp_path: Path) -> None:
    options = {"thread_id": "t", "max_tokens": 200, "keep_recent": 2, "path": tmp_path}
    with RollingMemory(**options) as one, RollingMemory(**options) as other:  # type: ignore[arg-type]
        failures: list[BaseException] = []

        def work(memory: RollingMemory, name: str) -> None:
            try:
                for n in range(25):
                    mine = memory.append("user", f"{name} agreed on {n} EUR.", id=f"{name}-{n}")
                    window = memory.window()
                    assert window.tokens <= 200
                    assert window.turns[-1] >= mine.number
                    if n % 10 == 9:
                        memory.flush(60)
                        memory.recall("EUR")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=((one, other)[n % 2], f"N{n}")) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert sorted(m.id or "" for m in one.turns) == sorted(
            f"N{n}-{i}" for n in range(6) for i in range(25)
        )
        assert one.wait(60)
        assert other.wait(60)
        assert one.flush(60)
        assert (one.summary, one.window()) == (other.summary, other.window())
