"""The command line: ingest, query, explain, demo."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from ctxarith.algebra import Pipeline
from ctxarith.console import BAD_INPUT, err, existing, out, print_json, printable, reported
from ctxarith.corpus import Corpus
from ctxarith.demo import scenarios
from ctxarith.errors import ArgumentError
from ctxarith.explain import PlanView
from ctxarith.flags import (
    DEFAULT_CORPUS,
    AsJson,
    AsOf,
    CorpusDir,
    Grants,
    Groups,
    Inherit,
    Rank,
    Scopes,
    Superseded,
    Tenant,
    Tokens,
    Top,
    WhereText,
)
from ctxarith.ingest.chunk import chunked, paragraphs
from ctxarith.ingest.files import Mapped, pairs, read_folder, read_lines
from ctxarith.load import load
from ctxarith.models.tokens import token_counter
from ctxarith.plain import record_from
from ctxarith.policy import Principal
from ctxarith.question import Question
from ctxarith.scopes import Scope
from ctxarith.scopes import scope as scope_of
from ctxarith.show import play, result_as_dict, show_funnel

app = typer.Typer(
    help="The right few hundred tokens for an agent, with the reason for every record left out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A console without the character shows a question mark, and no traceback.
            stream.reconfigure(errors="replace")
    app()


@app.callback(invoke_without_command=True)
def about(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """The right few hundred tokens for an agent, with the reason for every record left out."""
    if version:
        out.print(metadata.version("ctxarith"))
        raise typer.Exit
    if context.invoked_subcommand is None:
        out.print(context.get_help(), markup=False)
        raise typer.Exit(BAD_INPUT)


@app.command()
def ingest(
    path: Annotated[
        Path, typer.Argument(help="A .jsonl or .jsonl.gz file, or a folder of .txt and .md files.")
    ],
    corpus: CorpusDir = DEFAULT_CORPUS,
    field: Annotated[
        list[str] | None,
        typer.Option(help="TARGET=KEY: a record's field from a key of the file (created_at=created)."),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant of lines that name none.")] = None,
    scope: Annotated[str | None, typer.Option(help="The scope of lines that name none.")] = None,
    searchable: Annotated[
        list[str] | None, typer.Option(help="Metadata that is searched and shown before the text [title].")
    ] = None,
    chunk: Annotated[int | None, typer.Option(help="Split texts into chunks of this many tokens.")] = None,
    naive_zone: Annotated[str | None, typer.Option(help="The zone of times without an offset.")] = None,
    batch: Annotated[int, typer.Option(help="Records in one all-or-nothing batch.", min=1)] = 2000,
    as_json: AsJson = False,
) -> None:
    """Add records from a file or folder. Each batch is whole or absent; run it again to resume."""
    with reported(as_json):
        if not path.exists():
            raise ArgumentError("path", str(path), "no such file or folder")
        fresh = not (corpus / "journal.sqlite").exists()
        shown = searchable or (["title"] if fresh else None)
        unmatched: list[str] = []
        mapped = Mapped(pairs(field or []), _given(tenant=tenant, scope=scope))
        lines = _records(path, mapped, chunk, unmatched)
        with Corpus.open(corpus, searchable=shown, naive_zone=naive_zone) as opened:
            loaded = load(opened, lines, batch=batch, chunked=chunk is not None)
        missing = sorted({*loaded.dangling, *unmatched})
        if as_json:
            print_json({**loaded.counts, "dangling": missing, "corpus": str(corpus)})
            return
        done = ", ".join(f"{count:,} {name}" for name, count in loaded.counts.items())
        out.print(f"{done} in {corpus}", markup=False)
        if missing:
            out.print(f"linked and not found: {', '.join(missing[:10])}", markup=False)


@app.command()
def query(
    text: Annotated[str, typer.Argument(help="The question.")],
    corpus: CorpusDir = DEFAULT_CORPUS,
    tenant: Tenant = None,
    group: Groups = None,
    grant: Grants = None,
    scope: Scopes = None,
    inherit: Inherit = False,
    where: WhereText = None,
    top: Top = 5,
    tokens: Tokens = 400,
    as_of: AsOf = None,
    rank: Rank = "auto",
    include_superseded: Superseded = False,
    as_json: AsJson = False,
) -> None:
    """Print the context for a question."""
    with reported(as_json), existing(corpus) as opened:
        result = opened.run(
            _pipeline(_places(scope, inherit), where, rank, top, tokens, include_superseded),
            text,
            principal=_principal(opened, tenant, group, grant),
            as_of=as_of,
        )
        if as_json:
            print_json(result_as_dict(result))
            return
        nothing = "(nothing fits the budget)" if result.drops else "(nothing found)"
        out.print(printable(result.text) or nothing, markup=False)
        spent = f"{result.tokens} tokens, {len(result.hits)} in the context, {len(result.drops)} left out"
        err.print(f"{spent}; `ctxarith explain` says why", style="dim", markup=False)


@app.command()
def explain(
    text: Annotated[str | None, typer.Argument(help="The question; without one, the plan.")] = None,
    corpus: CorpusDir = DEFAULT_CORPUS,
    tenant: Tenant = None,
    group: Groups = None,
    grant: Grants = None,
    scope: Scopes = None,
    inherit: Inherit = False,
    where: WhereText = None,
    top: Top = 5,
    tokens: Tokens = 400,
    as_of: AsOf = None,
    rank: Rank = "auto",
    include_superseded: Superseded = False,
    why: Annotated[list[str] | None, typer.Option(help="What became of this id; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the funnel of a question, with what was left out and why."""
    with reported(as_json), existing(corpus) as opened:
        pipeline = _pipeline(_places(scope, inherit), where, rank, top, tokens, include_superseded)
        caller = _principal(opened, tenant, group, grant)
        if text is None:
            view = PlanView(opened.plan(pipeline, principal=caller, as_of=as_of))
            print_json({"plan": str(view).splitlines()}) if as_json else out.print(str(view), markup=False)
            return
        result = opened.run(pipeline, text, principal=caller, as_of=as_of)
        verdicts = {one: [line for line in result.why(one).lines] for one in why or []}
        if as_json:
            print_json({**result_as_dict(result), "why": verdicts})
            return
        show_funnel(out, result.explain())
        for one, lines in verdicts.items():
            for line in lines:
                out.print(f"{one}: {line}", markup=False)


@app.command()
def demo(
    corpus: Annotated[Path | None, typer.Option(help="Keep the corpus in this folder.")] = None,
    name: Annotated[list[str] | None, typer.Option(help="Only this example; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play the worked examples: ingest into Chroma, ask, print funnel and context."""
    with reported(as_json), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        known = [one.name for one in scenarios()]
        for given in name or []:
            if given not in known:
                raise ArgumentError("name", given, f"one of {', '.join(known)}")
        told = [one for one in scenarios() if not name or one.name in name]
        played = [
            play(one, (corpus or Path(scratch)) / one.name, out=None if as_json else out) for one in told
        ]
        if as_json:
            print_json({"scenarios": played})
        else:
            kept = "Keep the corpora with --corpus DIR; then:" if corpus is None else "Kept; now try:"
            place = f"{corpus or 'DIR'}/NAME"
            out.print(f"{kept} ctxarith explain QUESTION --corpus {place} --tenant TENANT", markup=False)


def _records(path: Path, mapped: Mapped, chunk: int | None, unmatched: list[str]) -> Iterable[Any]:
    in_file = read_lines(path, mapped, missing=unmatched.append)
    lines = read_folder(path, mapped) if path.is_dir() else in_file
    return lines if chunk is None else chunked(map(record_from, lines), paragraphs(chunk, token_counter()))


def _given(**defaults: str | None) -> dict[str, str]:
    return {name: value for name, value in defaults.items() if value is not None}


def _pipeline(
    scope: Scope | None, where: str | None, rank: str, top: int, tokens: int, superseded_too: bool
) -> Pipeline:
    try:
        condition = None if where is None else json.loads(where)
    except (ValueError, RecursionError) as error:
        raise ArgumentError("where", where, f"not JSON: {error}") from error
    return Question(scope, condition, top, tokens, rank, superseded_too).pipeline()


def _principal(
    opened: Corpus, tenant: str | None, groups: list[str] | None, grants: list[str] | None
) -> Principal | None:
    if tenant is not None:
        return Principal(tenant, groups=groups or (), scopes=grants)
    return opened.sole_principal(groups=groups or (), scopes=grants) if groups or grants else None


def _places(scopes: list[str] | None, inherit: bool) -> Scope | None:
    return scope_of(scopes, inherit=inherit) if scopes else None
