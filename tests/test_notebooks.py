"""The notebooks run from a clean kernel without a network, and show what they would show today.

`python -m tests.test_notebooks` renews their outputs; what differs by its timings only stays as it is.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

# No name can be looked up in the kernel, so that nothing outside this machine is reached.
OFFLINE = "import socket; socket.getaddrinfo = None; del socket"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
MACHINE = re.compile(r"/(?:tmp|home|root|Users|work|usr|opt|private|var)/|[A-Z]:\\|site-packages|\.venv")


class ThisPython(AsyncKernelManager):
    """A kernel of the interpreter that runs the tests, whatever else the machine calls python3."""

    @property
    def kernel_spec(self) -> KernelSpec:
        """The launcher of ipykernel."""
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, language="python", display_name="Python 3")


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def executed(path: Path) -> Any:
    """The notebook as a clean kernel makes it, without what changes from machine to machine."""
    notebook = read(path)
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    with TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        NotebookClient(
            notebook,
            kernel_manager_class=ThisPython,
            extra_arguments=["--log-level=ERROR", f"--IPKernelApp.exec_lines={OFFLINE}"],
            timeout=120,
            record_timing=False,
            coalesce_streams=True,
        ).execute(cwd=str(FOLDER), env={**os.environ, "IPYTHONDIR": scratch})
    notebook.metadata = METADATA
    return notebook


def shown(cell: Any) -> list[Any]:
    """What a cell shows, without its timings."""
    return [_untimed(output) for output in cell.get("outputs", [])]


def _untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _untimed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_untimed(one) for one in value]
    return re.sub(r"\s*\d+\.\d ms", " # ms", value) if isinstance(value, str) else value


def renew(path: Path) -> None:
    """Write the outputs of today into a notebook."""
    kept, notebook = read(path), executed(path)
    for old, new in zip(kept.cells, notebook.cells, strict=True):
        if new.cell_type == "code" and shown(old) == shown(new):
            new.outputs = old.outputs
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """A notebook as it is kept, and as it is today; a cell that fails fails here."""
    return read(request.param), executed(request.param)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


def test_the_kept_outputs_are_those_of_today(notebook: tuple[Any, Any]) -> None:
    kept, today = ([(cell.source, shown(cell)) for cell in one.cells] for one in notebook)
    assert kept == today, "renew them with: python -m tests.test_notebooks"


def test_it_was_run_from_top_to_bottom(notebook: tuple[Any, Any]) -> None:
    kept, today = ([cell.get("execution_count") for cell in one.cells] for one in notebook)
    assert kept == today


def test_a_funnel_with_bars_is_among_the_outputs(notebook: tuple[Any, Any]) -> None:
    pages = [
        output["data"].get("text/html", "")
        for cell in notebook[0].cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    widths = [[int(width) for width in re.findall(r'<div style="width:(\d+)px', page)] for page in pages]
    assert any(len(bars) > 5 and bars[0] == max(bars) > bars[-1] > 0 for bars in widths)


def test_no_output_is_on_the_error_stream(notebook: tuple[Any, Any]) -> None:
    names = {output.get("name") for cell in notebook[0].cells for output in cell.get("outputs", [])}
    assert names <= {None, "stdout"}


def test_nothing_tells_on_which_machine_it_ran(notebook: tuple[Any, Any]) -> None:
    kept, _ = notebook
    assert MACHINE.findall(json.dumps(kept, ensure_ascii=False)) == []
    assert (kept.metadata, [cell.metadata for cell in kept.cells if cell.metadata]) == (METADATA, [])


def test_a_cell_of_code_has_at_most_six_lines(notebook: tuple[Any, Any]) -> None:
    cells = [cell.source.split("\n") for cell in notebook[0].cells if cell.cell_type == "code"]
    assert max(sum(bool(line) for line in lines) for lines in cells) <= 6


def main() -> None:
    """Renew every notebook."""
    for path in NOTEBOOKS:
        renew(path)


if __name__ == "__main__":
    main()
