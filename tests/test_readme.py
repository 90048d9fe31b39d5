"""The README is true: its code runs, its funnel is the demo's, its tables are the benchmarks'."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from ctxarith.demo import scenarios

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("host", ["langchain_core", "llama_index"])
def test_every_python_block_runs_in_order(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "readme"}
    for block in BLOCKS:
        needed = [one for one in ("langchain_core", "llama_index") if f"from {one}" in block]
        if any(one != host for one in needed):
            continue
        if needed and importlib.util.find_spec(host) is None:
            pytest.skip(f"{host} is not installed")
        exec(compile(block, "README.md", "exec", dont_inherit=True), names)
    names["corpus"].close()
    shown = capsys.readouterr().out
    assert shown.startswith(
        "[1] (2026-03-02) The fee quoted to the parent is INR 68,500, in three instalments."
    )
    assert "superseded: GJ-4521/fee_quote is now '68,500', was '74,000'" in shown
    found = names["documents"] if host == "langchain_core" else names["nodes"]
    assert "68,500" in str(found[0])


def test_the_funnel_is_the_one_of_the_demo() -> None:
    scenario = scenarios()[0]
    with scenario.open(None) as corpus:
        steps = scenario.ask(corpus).trace.steps
    shown = re.findall(r"^ {0,2}(\w+) +([\d,]+)  █", README, flags=re.MULTILINE)
    assert shown == [(step.stage, f"{step.count:,}") for step in steps]
