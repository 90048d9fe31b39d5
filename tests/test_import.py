"""What `import ctxarith` costs, and what an adapter says when its host library is absent."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

from ctxarith.errors import MissingExtra

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {
    *("chromadb", "langchain_core", "llama_index", "pydantic", "rank_bm25", "regex", "rich"),
    *("snowballstemmer", "tiktoken", "torch", "tqdm", "typer", "wordllama"),
}
ADAPTERS = [
    ("langchain_ctxarith", "langchain_core", "langchain"),
    ("llamaindex_ctxarith", "llama_index", "llamaindex"),
    ("llamaindex_ctxarith", "llama_index.core", "llamaindex"),
]


def loaded_by(statement: str) -> set[str]:
    """Top-level names of the modules that the statement loads in a fresh interpreter."""
    script = (
        "import json, sys; before = set(sys.modules)\n"
        f"{statement}\n"
        "json.dump(sorted(set(sys.modules) - before), sys.stdout)"
    )
    path = os.pathsep.join([str(ROOT / "core"), str(ROOT)])
    process = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return {name.partition(".")[0] for name in json.loads(process.stdout)}


def test_import_loads_numpy_at_most() -> None:
    loaded = loaded_by("import ctxarith")
    assert "ctxarith" in loaded
    assert loaded & HEAVY == set()
    assert (loaded & packages_distributions().keys()) - {"ctxarith"} <= {"numpy"}


@pytest.mark.parametrize(("adapter", "host", "extra"), ADAPTERS)
def test_an_adapter_without_its_host_names_the_pip_line(
    adapter: str, host: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "." in host and find_spec(host.partition(".")[0]) is None:
        pytest.skip(f"the parent of {host} is absent as well")
    monkeypatch.setitem(sys.modules, host, None)
    monkeypatch.delitem(sys.modules, adapter, raising=False)
    with pytest.raises(MissingExtra, match=rf"pip install .*ctxarith\[{extra}\]"):
        importlib.import_module(adapter)


@pytest.mark.parametrize(("adapter", "host"), [pair[:2] for pair in ADAPTERS[:2]])
def test_an_adapter_imports_beside_its_host(adapter: str, host: str) -> None:
    if find_spec(host) is None:
        pytest.skip(f"{host} is not installed")
    assert adapter in loaded_by(f"import {adapter}")
