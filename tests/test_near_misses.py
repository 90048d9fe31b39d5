"""Expressions that Python reads in another way than a reader does; each must be loud.

Every row is evaluated at run time, and written as one line of a file for the type checker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from mypy import api as mypy

from ctxarith import (
    AlgebraError,
    Candidates,
    Corpus,
    Pipeline,
    PredicateError,
    ScopeError,
    composite,
    everyone,
    field,
    lexical,
    rrf,
    scope,
    semantic,
    superseded,
    top,
)
from tests.fakes import WordEmbedder

ROOT = Path(__file__).resolve().parents[1]

NAMES = {
    "s": semantic,
    "l": lexical,
    "here": scope("acme"),
    "where": field("kind") == "lease",
    "f": field("year"),
    "g": field("fee"),
    "rank": rrf(),
    "query": (semantic & everyone) >> rrf(),
    "composite": composite,
    "everyone": everyone,
    "scope": scope,
    "superseded": superseded,
    "top": top,
}
PREAMBLE = """\
from ctxarith import composite, everyone, field, lexical, rrf, scope, semantic, superseded, top

s, l, here, where = semantic, lexical, scope("acme"), field("kind") == "lease"
f, g, rank = field("year"), field("fee"), rrf()
query = (semantic & everyone) >> rrf()
"""

SHIFT_FIRST = r"`>>` binds tighter than `&`.*parenthes"
MINUS_FIRST = r"`-` binds tighter than `&`.*\(semantic & scope\(\.\.\.\)\) - superseded"
AND_FIRST = r"`&` and `\|` bind tighter than comparisons.*each comparison in parentheses"
HALF_DROPPED = r"no truth value.*&"
UNGUARDED = r"is not under any scope.*& everyone"

# Operators that Python groups otherwise: loud at run time, and for the type checker.
REGROUPED = {
    "s & here >> rank": SHIFT_FIRST,
    "s & where >> top(5)": SHIFT_FIRST,
    "s | l >> rank": SHIFT_FIRST,
    "(s | l) & here & where >> rank >> top(5)": SHIFT_FIRST,
    "s & here - superseded": MINUS_FIRST,
    "s & where - superseded >> rank": MINUS_FIRST,
    "(s | l) & here & where - superseded": MINUS_FIRST,
    "where - here": MINUS_FIRST,
    "f == 1 & g == 2": AND_FIRST,
    "f >= 1 | g >= 2": AND_FIRST,
    "where & f": AND_FIRST,
    "s & f": AND_FIRST,
    "query & where": SHIFT_FIRST,
    "query | l": SHIFT_FIRST,
    "query - superseded": SHIFT_FIRST,
    "where & query": SHIFT_FIRST,
    "s - query": SHIFT_FIRST,
}

# A truth value where none exists: Python would drop one half. The type checker cannot see it.
TRUTHY = {
    "where and here": HALF_DROPPED,
    "where or here": HALF_DROPPED,
    "not where": HALF_DROPPED,
    "here and s": HALF_DROPPED,
    "1 if where else 2": HALF_DROPPED,
    "0 < f < 5": HALF_DROPPED,
    "5 >= f > 0": HALF_DROPPED,
    "f and where": r"alone is not a condition.*\.exists\(\)",
    "not f": r"alone is not a condition",
    "s and l": r"no truth value.*& and \|",
    "s or l": r"no truth value.*& and \|",
    "not (s & here)": r"no truth value",
    "s if s else l": r"no truth value",
    "query and s": r"corpus\.run",
    "not query": r"corpus\.run",
    "s - (superseded and where)": r"superseded|truth value",
    "s - (superseded or where)": r"superseded|truth value",
    "query >> (rank and top(5))": r">>|truth value",
    "query >> (rank or top(5))": r">>|truth value",
}

# Operands that do not belong there: Python's own error names both types, and mypy sees it.
FOREIGN = (
    "s & {}",
    's & {"kind": "lease"}',
    "s & None",
    "s & True",
    's & "acme"',
    "s & l",
    "s & superseded",
    "s | here",
    "s | None",
    "s | {}",
    "s - l",
    "s - None",
    's - "r1"',
    "s >> here",
    "s >> top",
    "s >> None",
    "s + l",
    "s * 2",
    "s @ l",
    "~s",
    "~superseded",
    "here & s",
    "here | s",
    "where & {}",
    "where | None",
    "where & True",
    "where & superseded",
    "where ^ here",
    "where + here",
    "-where",
    "True & where",
    "f == 1 & where",
    "{} & s",
    "None | s",
    "superseded - s",
    "superseded & where",
    "rank >> top(5)",
    "rank & where",
    "query >> here",
    "query >> query",
    "query >> None",
    "query >> top",
)

# Well typed, and refused before anything is searched: one arm would not be under the scope.
LEAKS = {
    "s | l & here": r"semantic is not under any scope.*guards only b",
    "s & here | l": r"lexical is not under any scope",
    "s & here | l & where": r"lexical is not under any scope",
    "s": UNGUARDED,
    "s & where": UNGUARDED,
    "(s | l) - superseded": UNGUARDED,
    "s & ~here": UNGUARDED,
    "s - here": UNGUARDED,
    "s & (here | where)": UNGUARDED,
    "s & ~(here & where)": UNGUARDED,
    's & here | l & scope("beta")': r"different scopes.*\(semantic \| lexical\)",
    's & here | l & here & scope("beta")': r"different scopes",
    "s & here | l & everyone": r"different scopes",
    "s & here | (l & here) - superseded": r"only one arm leaves out superseded.*\(\(a \| b\) & scope",
    "(s & here) - superseded | l & here": r"only one arm leaves out superseded",
}

UNORDERED = {
    "((s | l) & here) >> top(5)": r"no order yet.*rrf\(\)",
    "((s | l) & here) >> top(5) >> rank": r"no order yet.*rrf\(\)",
}

AS_MEANT = (
    "(s & here & where) - superseded >> rank >> top(5)",
    "((s | l) & here & where) - superseded >> rank >> top(5)",
    "(s & here) - superseded | (l & here) - superseded",
    "s & here & where | l & here",
    "(s & here & (f >= 1) & (g != 2)) - superseded",
    "(s | l) & everyone",
    "(s - superseded) & here",
    "(s & here) - where - superseded >> top(5)",
    '(s | l) & here & scope("acme/ops")',
    "((s | l) & here) >> composite() >> top(5)",
    "s & here & ~where & (f.exists() | g.is_in([1]))",
)


@pytest.fixture
def corpus_with_a_record() -> Iterator[Corpus]:
    with Corpus.in_memory(embedder=WordEmbedder()) as corpus:
        corpus.add([{"id": "r1", "text": "pump", "scope": "acme"}])
        yield corpus


def evaluated(expression: str) -> object:
    return eval(expression, dict(NAMES))


@pytest.mark.parametrize(
    ("expression", "message"), [*REGROUPED.items(), *TRUTHY.items()], ids=[*REGROUPED, *TRUTHY]
)
def test_an_expression_read_otherwise_is_an_error_that_says_how_to_write_it(
    expression: str, message: str
) -> None:
    with pytest.raises(AlgebraError, match=message):
        evaluated(expression)


@pytest.mark.parametrize("expression", FOREIGN)
def test_an_operand_of_another_sort_is_a_type_error(expression: str) -> None:
    with pytest.raises(TypeError, match=r"operand type"):
        evaluated(expression)


@pytest.mark.parametrize(("expression", "message"), LEAKS.items(), ids=LEAKS)
def test_an_unguarded_arm_is_refused(expression: str, message: str, corpus_with_a_record: Corpus) -> None:
    query = evaluated(expression)
    assert isinstance(query, Candidates)
    for run_or_plan in (
        lambda: corpus_with_a_record.run(query, "pump"),
        lambda: corpus_with_a_record.plan(query),
    ):
        with pytest.raises(ScopeError, match=message):
            run_or_plan()
    with pytest.raises(ScopeError, match=message):
        corpus_with_a_record.explain(query >> rrf() >> top(5))


@pytest.mark.parametrize(("expression", "message"), UNORDERED.items(), ids=UNORDERED)
def test_a_set_without_an_order_is_not_cut(
    expression: str, message: str, corpus_with_a_record: Corpus
) -> None:
    query = evaluated(expression)
    assert isinstance(query, Pipeline)
    with pytest.raises(AlgebraError, match=message):
        corpus_with_a_record.run(query, "pump")


@pytest.mark.parametrize("expression", AS_MEANT)
def test_what_is_written_as_meant_runs(expression: str, corpus_with_a_record: Corpus) -> None:
    query = evaluated(expression)
    assert isinstance(query, Candidates | Pipeline)
    corpus_with_a_record.run(query, "pump")


@pytest.mark.parametrize("query", [None, "pump", {}, rrf(), superseded, field("a") == 1, [semantic]])
def test_what_is_no_query_is_refused(query: object, corpus_with_a_record: Corpus) -> None:
    with pytest.raises(AlgebraError, match="expected a pipeline"):
        corpus_with_a_record.run(query, "pump")  # type: ignore[arg-type]


@pytest.mark.parametrize("expression", ["f == g", "f in [g]", "f == where", "f == None", "f == s"])
def test_a_field_is_compared_with_values_alone(expression: str) -> None:
    with pytest.raises(PredicateError, match="compare with text, a number, a boolean or a time"):
        evaluated(expression)


def test_an_unguarded_query_embeds_nothing() -> None:
    embedder = WordEmbedder()
    with Corpus.in_memory(embedder=embedder) as corpus:
        corpus.add([{"id": "r1", "text": "pump"}])
        asked: list[str] = []
        embedder.embed_query = asked.append  # type: ignore[method-assign, assignment]
        with pytest.raises(ScopeError):
            corpus.run(semantic | lexical & scope("acme"), "pump")
        assert asked == []


def errors_by_line(folder: Path, expressions: list[str]) -> Counter[int]:
    """How many errors mypy reports for each expression, by its place in the list."""
    source = folder / "near_misses.py"
    source.write_text(PREAMBLE + "\n".join(expressions) + "\n", encoding="utf-8")
    quick = ["--no-site-packages", "--follow-imports=silent", "--cache-dir", str(folder)]
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary", "--hide-error-context"]
    report, trouble, _ = mypy.run([*settings, *quick, "--no-pretty", str(source)])
    assert not trouble
    first = len(PREAMBLE.splitlines()) + 1
    lines = [int(line.split(":")[1]) for line in report.splitlines() if ": error:" in line]
    assert all(line >= first for line in lines), report
    return Counter(line - first for line in lines)


def test_the_type_checker_sees_what_it_can_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    wrong, silent = [*REGROUPED, *FOREIGN], [*TRUTHY, *LEAKS, *UNORDERED, *AS_MEANT]
    errors = errors_by_line(tmp_path, [*wrong, *silent])
    assert [wrong[n] for n in range(len(wrong)) if not errors[n]] == []
    assert [silent[n - len(wrong)] for n in errors if n >= len(wrong)] == []
