"""The options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CorpusDir = Annotated[Path, typer.Option("--corpus", help="The corpus folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Tenant = Annotated[str | None, typer.Option(help="Whose records; may be left out while there is one tenant.")]
Groups = Annotated[list[str] | None, typer.Option("--group", help="A group of the caller; may be repeated.")]
Grants = Annotated[
    list[str] | None,
    typer.Option("--grant", help="A scope the caller may see [the whole tenant]."),
]
Inherit = Annotated[bool, typer.Option("--inherit", help="Also what hangs on the ancestors of --scope.")]
Scopes = Annotated[list[str] | None, typer.Option("--scope", help="A scope path; several are a union.")]
WhereText = Annotated[str | None, typer.Option("--where", help='A filter as JSON: \'{"kind": "lease"}\'.')]
Top = Annotated[int, typer.Option(help="At most this many records.")]
Tokens = Annotated[int, typer.Option(help="At most this many tokens.")]
AsOf = Annotated[str | None, typer.Option(help="The time that the question is about, ISO 8601.")]
Rank = Annotated[str, typer.Option(help="auto, fused or composite.")]
Superseded = Annotated[bool, typer.Option("--include-superseded", help="Keep retired records, labelled.")]
DEFAULT_CORPUS = Path("corpus.ctxarith")
