"""Real conversations in which a value changed, with the default embedder: the current one stands first."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_the_current_value_is_recalled_above_the_stale_one(
    shared_data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(sys, "argv", ["memory.py", str(shared_data / "longmemeval16")])
    # By its path, since a package of the library is called memory as well.
    import runpy

    runpy.run_path(str(ROOT / "benchmarks" / "memory.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    places = [line for line in lines if "recall@5" in line]
    assert len(places) == 9
    assert all("recall@5 1.00" in line and line.endswith("current first") for line in places)
    total = next(line.split() for line in lines if line.startswith("tokens in all"))
    everything, window, *_ = (int(number.replace(",", "")) for number in total[3:])
    assert window < everything / 5
