"""The command line: ingest, query, explain, demo, evaluate."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from ctxarith import flags
from ctxarith.console import BAD_INPUT, err, existing, out, print_json, printable, reported
from ctxarith.corpus import Corpus
from ctxarith.demo import scenarios
from ctxarith.errors import ArgumentError
from ctxarith.explain import PlanView
from ctxarith.ingest.chunk import chunked, paragraphs
from ctxarith.ingest.files import Mapped, pairs, read_folder, read_lines
from ctxarith.load import load
from ctxarith.measure.beir import read_set
from ctxarith.measure.evaluate import METRICS, SKIP
from ctxarith.measure.metrics import LINEAR
from ctxarith.models.embedders import SentenceTransformerEmbedder
from ctxarith.models.rerankers import CrossEncoderReranker
from ctxarith.models.tokens import token_counter
from ctxarith.plain import record_from
from ctxarith.question import Question
from ctxarith.show import play, result_as_dict, show_funnel
from ctxarith.stages.rerank import rerank
from ctxarith.trial import Trial, assess

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
    corpus: flags.CorpusDir = flags.DEFAULT_CORPUS,
    field: flags.Fields = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant of lines that name none.")] = None,
    scope: Annotated[str | None, typer.Option(help="The scope of lines that name none.")] = None,
    searchable: Annotated[
        list[str] | None, typer.Option(help="Metadata that is searched and shown before the text [title].")
    ] = None,
    chunk: Annotated[int | None, typer.Option(help="Split texts into chunks of this many tokens.")] = None,
    naive_zone: Annotated[str | None, typer.Option(help="The zone of times without an offset.")] = None,
    batch: Annotated[int, typer.Option(help="Records in one all-or-nothing batch.", min=1)] = 2000,
    as_json: flags.AsJson = False,
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
    corpus: flags.CorpusDir = flags.DEFAULT_CORPUS,
    tenant: flags.Tenant = None,
    group: flags.Groups = None,
    grant: flags.Grants = None,
    scope: flags.Scopes = None,
    inherit: flags.Inherit = False,
    where: flags.WhereText = None,
    top: flags.Top = 5,
    tokens: flags.Tokens = 400,
    as_of: flags.AsOf = None,
    rank: flags.Rank = "auto",
    words: flags.Words = "plain",
    include_superseded: flags.Superseded = False,
    as_json: flags.AsJson = False,
) -> None:
    """Print the context for a question."""
    with reported(as_json), existing(corpus) as opened:
        places = flags.places_of(scope, inherit)
        asked = Question(places, None, top, tokens, rank, include_superseded, words=words)
        result = opened.run(
            flags.pipeline_of(asked, where),
            text,
            principal=flags.principal_of(opened, tenant, group, grant),
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
    corpus: flags.CorpusDir = flags.DEFAULT_CORPUS,
    tenant: flags.Tenant = None,
    group: flags.Groups = None,
    grant: flags.Grants = None,
    scope: flags.Scopes = None,
    inherit: flags.Inherit = False,
    where: flags.WhereText = None,
    top: flags.Top = 5,
    tokens: flags.Tokens = 400,
    as_of: flags.AsOf = None,
    rank: flags.Rank = "auto",
    words: flags.Words = "plain",
    include_superseded: flags.Superseded = False,
    why: Annotated[list[str] | None, typer.Option(help="What became of this id; may be repeated.")] = None,
    auditors: flags.Auditors = None,
    as_published: flags.Published = False,
    as_json: flags.AsJson = False,
) -> None:
    """Print the funnel of a question, with what was left out and why."""
    with reported(as_json), existing(corpus, auditors) as opened:
        places = flags.places_of(scope, inherit)
        asked = Question(places, None, top, tokens, rank, include_superseded, words=words)
        pipeline = flags.pipeline_of(asked, where)
        caller = flags.principal_of(opened, tenant, group, grant)
        if text is None:
            view = PlanView(opened.plan(pipeline, principal=caller, as_of=as_of))
            print_json({"plan": str(view).splitlines()}) if as_json else out.print(str(view), markup=False)
            return
        result = opened.run(pipeline, text, principal=caller, as_of=as_of)
        verdicts = {one: [line for line in result.why(one).lines] for one in why or []}
        funnel = result.explain(as_published=as_published)
        if as_json:
            print_json({**result_as_dict(result), "funnel": funnel.as_dict()["funnel"], "why": verdicts})
            return
        show_funnel(out, funnel)
        for one, lines in verdicts.items():
            for line in lines:
                out.print(f"{one}: {line}", markup=False)


@app.command()
def demo(
    corpus: Annotated[Path | None, typer.Option(help="Keep the corpus in this folder.")] = None,
    name: Annotated[list[str] | None, typer.Option(help="Only this example; may be repeated.")] = None,
    as_json: flags.AsJson = False,
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


@app.command()
def evaluate(
    folder: flags.SetFolder,
    split: flags.Split = None,
    model: flags.Model = None,
    reranker: flags.CrossEncoderFolder = None,
    read: flags.Read = 50,
    corpus: flags.KeptCorpus = None,
    field: flags.Fields = None,
    metric: flags.Metrics = None,
    gain: flags.Gain = LINEAR,
    no_relevant: flags.NoRelevant = SKIP,
    seed: flags.Seed = 0,
    as_json: flags.AsJson = False,
) -> None:
    """Measure each step on a judged set: BM25, dense, RRF, reranked, full."""
    with reported(as_json):
        data = read_set(folder, split=split, fields=pairs(field or []))
        trial = Trial(tuple(metric or METRICS), gain, no_relevant, seed)
        embedder = None if model is None else SentenceTransformerEmbedder(model)
        stage = None if reranker is None else rerank(CrossEncoderReranker(reranker), top=read)
        options: dict[str, Any] = {"searchable": ["title"], "embedder": embedder}
        with Corpus.in_memory(**options) if corpus is None else Corpus.open(corpus, **options) as opened:
            told = assess(opened, data, trial, stage, out=None if as_json else out)
        if as_json:
            print_json(told)


def _records(path: Path, mapped: Mapped, chunk: int | None, unmatched: list[str]) -> Iterable[Any]:
    in_file = read_lines(path, mapped, missing=unmatched.append)
    lines = read_folder(path, mapped) if path.is_dir() else in_file
    return lines if chunk is None else chunked(map(record_from, lines), paragraphs(chunk, token_counter()))


def _given(**defaults: str | None) -> dict[str, str]:
    return {name: value for name, value in defaults.items() if value is not None}
