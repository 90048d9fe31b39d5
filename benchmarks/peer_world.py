"""The world that the peers of both frameworks are asked about: customers, each with documents of its own.

A set is a BEIR folder. Where its documents name a `domain` each domain is a customer, else the whole set is
one. Where its queries say which documents are `current` and which are `stale`, the documents' headers
(`created`, `superseded_by`, `replaces`) say how one comes to know. By default:

* mtrag, its four domains as four customers (https://github.com/IBM/mt-rag-benchmark);
* the Python Enhancement Proposals as a fifth (https://github.com/python/peps).

All texts lie in one store, and a question is asked as one customer. Nothing was tuned on it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from ranking import SHARED

from ctxarith import SentenceTransformerEmbedder
from ctxarith.index.dense import unit
from ctxarith.measure.beir import EvaluationSet, read_set
from ctxarith.models.embedders import WordLlamaEmbedder

FIELDS = {
    "tenant": "domain",
    "created_at": "created",
    "supersedes": "replaces",
    "superseded_by": "superseded_by",
}
SETS = (SHARED / "mtrag", SHARED / "peps")
SEED = 0


@dataclass(frozen=True)
class Text:
    """A document of a customer; its title is the first line of the text."""

    id: str
    text: str
    tenant: str
    created: str | None
    supersedes: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """What a customer asks. `current` and `stale` are empty where the set does not know of versions."""

    text: str
    tenant: str
    set: str
    relevant: frozenset[str]
    current: frozenset[str]
    stale: frozenset[str]


@dataclass(frozen=True)
class World:
    """Texts and questions of every customer."""

    texts: tuple[Text, ...]
    questions: tuple[Question, ...]

    @cached_property
    def tenants(self) -> tuple[str, ...]:
        """The customers."""
        return tuple(sorted({text.tenant for text in self.texts}))

    @cached_property
    def superseded(self) -> frozenset[str]:
        """What a newer document replaces, as someone reads it from the headers by hand."""
        return frozenset(chain.from_iterable(text.supersedes for text in self.texts))

    @cached_property
    def tenant_of(self) -> dict[str, str]:
        """Each document's customer."""
        return {text.id: text.tenant for text in self.texts}

    def sample(self, size: int | None) -> tuple[Question, ...]:
        """So many questions, the sets in turn and each set in a seeded order; without a size all."""
        groups: dict[str, list[Question]] = {}
        for question in self.questions:
            groups.setdefault(question.set, []).append(question)
        draw = random.Random(SEED)
        for group in groups.values():
            draw.shuffle(group)
        turns = chain.from_iterable(zip_longest(*(groups[name] for name in sorted(groups))))
        return tuple(one for one in turns if one is not None)[:size]

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {sum(t.tenant == name for t in self.texts):,}" for name in self.tenants)
        return (
            f"{len(self.texts):,} documents in one store ({sizes}), {len(self.superseded)} of them superseded"
        )


def world(folders: Sequence[Path]) -> World:
    """Read the folders as one world; ids bear the name of their set."""
    texts: list[Text] = []
    questions: list[Question] = []
    for folder in folders:
        data = read_set(folder, fields=FIELDS)
        texts += [_text(data.name, document) for document in data.documents]
        questions += _questions(data)
    return World(tuple(texts), tuple(questions))


def _text(name: str, document: Mapping[str, Any]) -> Text:
    title = document["metadata"].get("title")
    return Text(
        id=f"{name}/{document['id']}",
        text="\n".join(filter(None, [title, document["text"]])),
        tenant=str(document.get("tenant") or name),
        created=document.get("created_at"),
        supersedes=tuple(f"{name}/{one}" for one in document.get("supersedes") or ()),
    )


def _questions(data: EvaluationSet) -> list[Question]:
    found = []
    for line in data.questions:
        said = line.get("metadata") or {}
        judged = data.qrels.get(str(line["_id"]), {})
        current, stale = (
            frozenset(f"{data.name}/{one}" for one in said.get(key) or ()) for key in ("current", "stale")
        )
        relevant = current or frozenset(f"{data.name}/{one}" for one, gain in judged.items() if gain > 0)
        if relevant:
            tenant = str(said.get("domain") or data.name)
            found.append(Question(line["text"], tenant, data.name, relevant, current, stale))
    return found


class UnitVectors:
    """Vectors of length one from an offline model, as lists: what both frameworks' wrappers give on."""

    def __init__(self, model: Path | None = None) -> None:
        self._model = WordLlamaEmbedder() if model is None else SentenceTransformerEmbedder(model)
        self._known: dict[str, list[float]] = {}
        self.name = self._model.name

    def of_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text; the stores hold the same texts, and each is embedded once."""
        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            made = unit(self._model.embed_documents(new)).tolist()
            self._known.update(zip(new, made, strict=True))
        return [self._known[text] for text in texts]

    def of_query(self, text: str) -> list[float]:
        """The vector of a question, made anew each time."""
        vector: list[float] = unit(self._model.embed_query(text)[None, :])[0].tolist()
        return vector


def parser(about: str | None) -> argparse.ArgumentParser:
    """What both scripts can be told."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("folders", nargs="*", type=Path, help="BEIR folders [mtrag and peps]")
    made.add_argument("--questions", type=int, metavar="N", help="ask N, the sets in turn [all]")
    made.add_argument("-k", type=int, default=5, help="documents for an answer [5]")
    made.add_argument("--model", type=Path, help="a sentence-transformers folder [WordLlama, offline]")
    made.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to this file")
    return made


def asked_of(made: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; ends with a message if a set is not there."""
    asked = made.parse_args(arguments)
    asked.folders = asked.folders or list(SETS)
    if asked.k < 1 or (asked.questions is not None and asked.questions < 1):
        made.error("-k and --questions are 1 or more")
    if missing := [folder for folder in asked.folders if not folder.is_dir()]:
        made.error(
            f"no folder {missing[0]}: name BEIR folders (corpus.jsonl, queries.jsonl, qrels). The default "
            "sets are made from https://github.com/IBM/mt-rag-benchmark and https://github.com/python/peps"
        )
    return asked


def lacking(package: str, rows: str) -> None:
    """Say which rows are left out, and how one gets them."""
    print(f"left out: {rows}; they need: pip install {package}")
