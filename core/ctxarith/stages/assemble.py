"""Evidence becomes one text under a token budget: the last stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ctxarith.algebra import Kept, Moment, Stage
from ctxarith.errors import ArgumentError, BudgetError
from ctxarith.evidence import Drop, Hit
from ctxarith.predicate import Predicate
from ctxarith.stages.layout import ORDERS, Block, arranged, block, cut_sentences, indented

_SLACK = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """A recommendation for the case that some record in the context matches."""

    when: Predicate
    say: str

    def __post_init__(self) -> None:
        if not isinstance(self.when, Predicate):
            raise ArgumentError("when", self.when, "a condition, such as field('kind') == 'objection'")
        if not isinstance(self.say, str):
            raise ArgumentError("say", self.say, "text")


Approach = Callable[[Sequence[Hit]], str] | Sequence[Rule]


@dataclass(frozen=True, slots=True)
class Template:
    """What stands around the evidence.

    Args:
        profile: one line about the person.
        interactions: how many earlier interactions there were, across campaigns.
        approach: the recommendation, from a rule that you write: a function of the hits, or `Rule`s,
            the first that matches.
    """

    profile: str = ""
    interactions: int | None = None
    approach: Approach | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.profile, str):
            raise ArgumentError("profile", self.profile, "text")
        if self.interactions is not None and not isinstance(self.interactions, int):
            raise ArgumentError("interactions", self.interactions, "a number")
        rules = self.approach
        if rules is None or callable(rules):
            return
        if not isinstance(rules, list | tuple) or not all(isinstance(rule, Rule) for rule in rules):
            raise ArgumentError("approach", rules, "a function of the hits, or a list of Rules")

    def head(self) -> list[str]:
        """The lines above the evidence, which do not depend on what is found."""
        lines = [f"Profile: {indented(self.profile)}"] if self.profile else []
        if self.interactions is not None:
            lines.append(f"Earlier interactions: {self.interactions}")
        return lines

    def tail(self, hits: Sequence[Hit]) -> list[str]:
        """The recommended approach for these hits."""
        said = self._recommend(hits)
        return [f"Recommended approach: {indented(said)}"] if said else []

    def _recommend(self, hits: Sequence[Hit]) -> str:
        if self.approach is None or not hits:
            return ""
        if callable(self.approach):
            said = self.approach(hits)
            if not isinstance(said, str):
                raise ArgumentError("approach", said, "the function must return text")
            return said
        fits = (r.say for r in self.approach if any(r.when.matches(h.record) for h in hits))
        return next(fits, "")


@dataclass(frozen=True, slots=True)
class Budget(Stage):
    """See `budget`."""

    tokens: int | None
    template: Template = Template()
    order: str = "rank"
    section: str = "kind"
    name = "budget"
    needs_order = True

    def __call__(self, hits: Sequence[Hit], moment: Moment, /) -> Kept:
        """Keep what fits, in rank order; skip and name what does not."""
        if self.tokens is None:
            return list(hits), []
        kept: list[Hit] = []
        dropped: list[Drop] = []
        used = moment.count(self.render([], moment))
        for hit in hits:
            own = moment.count(block(hit, moment.passage(hit)).text)
            trial = [*kept, hit]
            # A joined text can have a few tokens less than its parts; far over, it need not be counted.
            far_over = used + own > self.tokens + _SLACK
            size = used + own if far_over else moment.count(self.render(trial, moment))
            if size <= self.tokens:
                kept, used = trial, size
            else:
                reason = f"over_budget: {own} tokens, and {self.tokens - used} of {self.tokens} are left"
                dropped.append(Drop(hit.record, self.name, reason))
        if kept or not hits:
            return kept, dropped
        excerpt = self._cut(hits[0], moment)
        return ([excerpt], dropped[1:]) if excerpt else ([], dropped)

    def check(self, moment: Moment, /) -> None:
        """The fixed part must fit before anything is retrieved."""
        fixed = "\n".join(self.template.head())
        if self.tokens is not None and (needed := moment.count(fixed)) > self.tokens:
            raise BudgetError(needed, self.tokens)

    def note(self, kept: Sequence[Hit], dropped: Sequence[Drop], moment: Moment, /) -> str:
        """How much of the budget is spent."""
        spent = f"{moment.count(self.render(kept, moment)):,}"
        left_out = f", {len(dropped):,} left out" if dropped else ""
        return (
            f"{spent} of {self.tokens:,} tokens{left_out}" if self.tokens is not None else f"{spent} tokens"
        )

    def render(self, hits: Sequence[Hit], moment: Moment) -> str:
        """The text for these hits: the same hits give the same bytes."""
        lines = self.template.head()
        if lines and hits:
            lines.append("Evidence:")
        for mark, placed in enumerate(self.blocks(hits, moment), start=1):
            lines.extend([f"## {placed.heading}"] if placed.heading else [])
            lines.append(f"[{mark}] {placed.text}")
        return "\n".join([*lines, *self.template.tail(hits)])

    def blocks(self, hits: Sequence[Hit], moment: Moment) -> list[Block]:
        """The hits in the order of the page, one block each; their marks are 1, 2, ..."""
        return [
            block(hit, moment.passage(hit), heading)
            for hit, heading in arranged(hits, self.order, self.section)
        ]

    def _cut(self, hit: Hit, moment: Moment) -> Hit | None:
        """The longest run of whole sentences of the best hit that fits, marked as cut."""

        def fits(excerpt: str) -> bool:
            text = self.render([replace(hit, excerpt=excerpt)], moment)
            return self.tokens is not None and moment.count(text) <= self.tokens

        excerpt = cut_sentences(moment.passage(hit), fits)
        return replace(hit, excerpt=excerpt, notes=(*hit.notes, "cut to fit")) if excerpt else None


def budget(
    tokens: int | None, *, template: Template | None = None, order: str = "rank", section: str = "kind"
) -> Stage:
    """The stage that renders: the final text, counted whole, never exceeds `tokens`.

    Args:
        tokens: the limit, 0 or more; `None` for no limit.
        template: what stands around the evidence.
        order: "rank", "edges" (best first and last), "chronological" or "sections".
        section: the field that names a record's section.

    Raises:
        ArgumentError: names the parameter.
        BudgetError: before retrieval, when the fixed part alone is larger.
    """
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0):
        raise ArgumentError("tokens", tokens, "a whole number, zero or more, or None for no limit")
    if template is not None and not isinstance(template, Template):
        raise ArgumentError("template", template, "a Template")
    if not isinstance(section, str) or not section:
        raise ArgumentError("section", section, "the name of a field")
    if not isinstance(order, str) or order not in ORDERS:
        raise ArgumentError("order", order, f"one of {', '.join(ORDERS)}")
    return Budget(tokens, template or Template(), order, section)
