"""Worked examples: records and questions in files beside this one. Nothing here knows what is in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

from ctxarith.corpus import Corpus
from ctxarith.ingest.slots import RuleSlots
from ctxarith.instant import instant
from ctxarith.policy import Principal
from ctxarith.run import Result
from ctxarith.stages.assemble import Rule, Template
from ctxarith.stages.compose import compose_query
from ctxarith.where import where


@dataclass(frozen=True, slots=True)
class Scenario:
    """One worked example: who asks what, of which records, at which moment."""

    name: str
    title: str
    settings: Mapping[str, Any]

    @property
    def now(self) -> datetime:
        """The moment at which the example takes place."""
        return instant(self.settings["now"])

    @property
    def principal(self) -> Principal:
        """The caller."""
        return Principal(**self.settings["principal"])

    @property
    def text(self) -> str:
        """The question, as given or composed."""
        query = self.settings["query"]
        return str(query["text"]) if "text" in query else compose_query(**query)

    @property
    def setting(self) -> str:
        """Who asks, when, and under which limits, in one line."""
        caller, limits = self.principal, self.settings
        when = self.now.strftime("%Y-%m-%d %H:%M UTC")
        who = f"{caller.user} of {caller.tenant}" if caller.user else caller.tenant
        return f"Asked on {when} by {who}; top {limits['top']}, at most {limits['tokens']} tokens;"

    @property
    def curious(self) -> list[str]:
        """Ids whose fate is worth a look; some of them the caller may not see, or nobody wrote."""
        return list(self.settings.get("why", ()))

    def records(self) -> list[dict[str, Any]]:
        """The records of the example."""
        lines = _file(self.settings["records"]).splitlines()
        return [json.loads(line) for line in lines if line.strip()]

    def clock(self) -> Callable[[], datetime]:
        """A clock that stands still."""
        return lambda: self.now

    def open(self, folder: Path | None) -> Corpus:
        """A corpus that holds the example's records: in a folder, or in memory."""
        slots = RuleSlots(self.settings.get("slots", {}))
        clock = self.clock()
        corpus = (
            Corpus.in_memory(clock=clock, slots=slots)
            if folder is None
            else Corpus.open(folder, clock=clock, slots=slots)
        )
        corpus.add(self.records())
        return corpus

    def ask(self, corpus: Corpus) -> Result:
        """Ask the question."""
        return corpus.retrieve(
            self.text,
            principal=self.principal,
            scope=self.settings.get("scope"),
            where=self.settings.get("where"),
            top=self.settings["top"],
            tokens=self.settings["tokens"],
            rank=self.settings.get("rank", "auto"),
            template=self._template(corpus),
        )

    def _template(self, corpus: Corpus) -> Template:
        given = self.settings.get("template", {})
        counted = given.get("interactions")
        interactions = None
        if counted is not None:
            interactions = corpus.count(
                counted["where"], scope=counted.get("scope"), principal=self.principal
            )
        rules = [Rule(where(rule["when"]), rule["say"]) for rule in given.get("approach", [])]
        return Template(given.get("profile", ""), interactions, rules)


def scenarios() -> Sequence[Scenario]:
    """All worked examples, in the order in which they are told."""
    return [Scenario(one["name"], one["title"], one) for one in json.loads(_file("scenarios.json"))]


def _file(name: str) -> str:
    return resources.files(__package__ or "ctxarith.demo").joinpath(name).read_text(encoding="utf-8")
