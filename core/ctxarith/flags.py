"""The options that commands share, and what they mean together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ctxarith.algebra import Pipeline
from ctxarith.corpus import Corpus
from ctxarith.errors import ArgumentError
from ctxarith.policy import Principal
from ctxarith.question import Question
from ctxarith.scopes import Scope
from ctxarith.scopes import scope as scope_of

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
Rank = Annotated[str, typer.Option(help="auto, fused, composite or relevance.")]
Words = Annotated[str, typer.Option(help="plain; exact: quoted phrases and codes must occur; fuzzy_prefix.")]
Auditors = Annotated[
    list[str] | None,
    typer.Option(
        "--auditors", help="With --why: a --group whose members see why a record is closed to them."
    ),
]
Published = Annotated[bool, typer.Option("--as-published", help="For auditors: search first, filter after.")]
Superseded = Annotated[bool, typer.Option("--include-superseded", help="Keep retired records, labelled.")]
Fields = Annotated[
    list[str] | None,
    typer.Option(help="TARGET=KEY: a record's field from a key of the file (created_at=created)."),
]
SetFolder = Annotated[
    Path, typer.Argument(help="A BEIR folder: corpus.jsonl, queries.jsonl, qrels/*.tsv; each may be .gz.")
]
Split = Annotated[str | None, typer.Option(help="Which judgements: test, dev, train [test].")]
Model = Annotated[Path | None, typer.Option(help="A sentence-transformers folder [WordLlama, offline].")]
CrossEncoderFolder = Annotated[Path | None, typer.Option("--reranker", help="A cross-encoder's folder.")]
Read = Annotated[int, typer.Option(help="How many hits the cross-encoder reads.", min=1)]
KeptCorpus = Annotated[Path | None, typer.Option("--corpus", help="Keep the embedded corpus here.")]
Metrics = Annotated[list[str] | None, typer.Option("--metric", help="nDCG@10, RR ...; may be repeated.")]
Gain = Annotated[str, typer.Option(help="linear (g) or exponential (2^g - 1), for nDCG.")]
NoRelevant = Annotated[str, typer.Option(help="A query without relevant documents: skip, zero or error.")]
Seed = Annotated[int, typer.Option(help="Of the bootstrap.", min=0)]
DEFAULT_CORPUS = Path("corpus.ctxarith")


def pipeline_of(asked: Question, where: str | None) -> Pipeline:
    """The pipeline of a question with a filter in JSON.

    Raises:
        ArgumentError: the filter is not JSON.
    """
    try:
        condition = None if where is None else json.loads(where)
    except (ValueError, RecursionError) as error:
        raise ArgumentError("where", where, f"not JSON: {error}") from error
    return replace(asked, where=condition).pipeline()


def principal_of(
    opened: Corpus, tenant: str | None, groups: list[str] | None, grants: list[str] | None
) -> Principal | None:
    """Who asks, as far as the options say."""
    if tenant is not None:
        return Principal(tenant, groups=groups or (), scopes=grants)
    return opened.sole_principal(groups=groups or (), scopes=grants) if groups or grants else None


def places_of(scopes: list[str] | None, inherit: bool) -> Scope | None:
    """The union of the paths."""
    return scope_of(scopes, inherit=inherit) if scopes else None
