"""The terminal: where results and errors are printed, and with which exit code."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from ctxarith.corpus import Corpus
from ctxarith.errors import ArgumentError, CtxArithError, StoreError
from ctxarith.policy import Policy

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

BAD_INPUT, BAD_STORE = 2, 3

# Line ends and tabs; the joiners are letters to Indic scripts and to emoji.
_HARMLESS = "\n\t\u200c\u200d"


@contextmanager
def existing(folder: Path, auditors: Sequence[str] | None = None) -> Iterator[Corpus]:
    """An existing corpus, opened; a folder without one is refused. `auditors` is for `Policy`."""
    if not (folder / "journal.sqlite").exists():
        raise ArgumentError("corpus", str(folder), "no corpus there: `ctxarith ingest FILE --corpus DIR`")
    policy = Policy(auditors=auditors) if auditors else None
    with Corpus.open(folder, policy=policy) as opened:
        yield opened


@contextmanager
def reported(as_json: bool) -> Iterator[None]:
    """Errors as one line, or one JSON object, on standard error; 2 for input, 3 for the store."""
    try:
        yield
    except CtxArithError as error:
        kind = type(error).__name__
        if as_json:
            typer.echo(json.dumps({"error": kind, "message": str(error)}, ensure_ascii=False), err=True)
        else:
            err.print(f"{kind}: {error}", style="red", markup=False)
        raise typer.Exit(BAD_STORE if isinstance(error, StoreError) else BAD_INPUT) from error


def print_json(plain: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(plain, ensure_ascii=False, indent=2))


def printable(text: str) -> str:
    """A text without the control characters that would steer a terminal, line ends and tabs aside."""
    steering = ("Cc", "Cf")
    return "".join(
        "\ufffd" if unicodedata.category(c) in steering and c not in _HARMLESS else c for c in text
    )
