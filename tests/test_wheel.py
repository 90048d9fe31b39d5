"""The wheel holds what it should, and works in an environment that has nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "ctxarith": ROOT / "core" / "ctxarith",
    "langchain_ctxarith": ROOT / "langchain_ctxarith",
    "llamaindex_ctxarith": ROOT / "llamaindex_ctxarith",
}
FIRST_STEPS = """
import ctxarith
from ctxarith import Corpus, Record
from ctxarith.errors import MissingExtra

missing = [name for name in ctxarith.__all__ if not hasattr(ctxarith, name)]
assert not missing, missing

corpus = Corpus.in_memory()
corpus.add(
    [
        Record(id="fee", text="The course fee is 45,000 rupees, payable in two parts."),
        Record(id="batch", text="The March batch starts on the second Monday."),
        Record(id="language", text="The parent prefers to speak Gujarati."),
    ]
)
result = corpus.retrieve("how much is the fee", tokens=100)
assert "45,000" in result.text, result.text
assert "fee" in [hit.record.id for hit in result.hits], result.hits

for adapter in ("langchain_ctxarith", "llamaindex_ctxarith"):
    try:
        __import__(adapter)
    except MissingExtra as error:
        assert "pip install" in str(error)
    else:
        raise SystemExit(f"{adapter} imports without its host library")
"""


def run(*command: str | Path, cwd: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert process.returncode == 0, f"{command}\n{process.stdout}\n{process.stderr}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    isolation = ["--no-isolation"] if find_spec("hatchling") else []
    run(sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", out, ROOT, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    source = {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as archive:
        content = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert content == source
    assert {f"{package}/py.typed" for package in PACKAGES} <= content
    assert any(name.startswith("ctxarith/demo/") and name.endswith(".jsonl") for name in content)


@pytest.mark.slow
def test_the_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    binaries = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    run(binaries / "python", "-m", "pip", "install", "--quiet", "--no-compile", wheel, cwd=tmp_path)

    empty = tmp_path / "empty"
    empty.mkdir()
    run(binaries / "python", "-I", "-c", FIRST_STEPS, cwd=empty)
    run(binaries / "ctxarith", "--help", cwd=empty)
    assert list(empty.iterdir()) == []
