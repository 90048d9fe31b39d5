"""The layer order, the borders of the system and the size of the code, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "ctxarith": ROOT / "core" / "ctxarith",
    "langchain_ctxarith": ROOT / "langchain_ctxarith",
    "llamaindex_ctxarith": ROOT / "llamaindex_ctxarith",
}
LAYERS = (
    *("errors", "lazy", "instant", "normalise", "model", "plain", "conversation", "transcript", "flat"),
    *("kinds", "predicate", "fields", "scopes", "where", "evidence", "policy", "ports", "durable"),
    *("algebra", "plan", "index", "scene", "stages", "ingest", "ledger", "stores", "models", "measure"),
    *("progress", "explain", "published", "run", "history", "feed", "remembered", "parts", "shelf"),
    *("shelves", "options", "reembedding", "gate", "question", "intake", "opening", "reading"),
    *("confidence", "session", "packet", "running", "corpus", "load", "trial", "memory", "demo"),
    *("console", "sequel", "show", "flags", "cli", "__init__"),
)
ADAPTERS = ("langchain_ctxarith", "llamaindex_ctxarith")
POSITION = {name: place for place, name in enumerate(LAYERS)} | dict.fromkeys(ADAPTERS, len(LAYERS))

ONLY_IN = {
    **dict.fromkeys(("chromadb", "sqlite3", "psycopg"), "stores"),
    **dict.fromkeys(("wordllama", "tiktoken", "sentence_transformers", "torch"), "models"),
}
VAGUE_NAMES = {"utils", "helpers", "common", "base", "manager"}

MAX_FILE_LINES = 250
MAX_FUNCTION_LINES = 45
MAX_PARAMETERS = 6
WIDE_DOORS = {
    "Corpus.retrieve",
    "Opening.open",
    "Opening.in_memory",
    "Opening.adopt",
    "Opening.reembed",
    "CtxArithMiddleware.__init__",
    "Message.__init__",
    "Record.__init__",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Source:
    module: str
    path: Path
    text: str
    tree: ast.Module

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"


@dataclass(frozen=True, slots=True)
class Import:
    target: str
    line: int
    in_function: bool


def read_sources() -> Iterator[Source]:
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            module = ".".join(parts).removesuffix(".__init__")
            text = path.read_text(encoding="utf-8")
            yield Source(module, path.relative_to(ROOT), text, ast.parse(text))


def imports(source: Source) -> Iterator[Import]:
    functions = (node for node in ast.walk(source.tree) if isinstance(node, Function | ast.Lambda))
    inside = {node for function in functions for node in ast.walk(function)}
    for node in ast.walk(source.tree):
        for target in imported_names(source, node):
            yield Import(target, getattr(node, "lineno", 0), node in inside)


def imported_names(source: Source, node: ast.AST) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            origin = import_origin(source, node)
            return [f"{origin}.{alias.name}" for alias in node.names]
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [name]
    return []


def import_origin(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    steps = node.level - (source.path.name == "__init__.py")
    package = source.module.split(".")[: -steps or None]
    return ".".join([*package, *filter(None, [node.module])])


def top(module: str) -> str:
    return module.partition(".")[0]


def layer(module: str) -> str:
    """The layer of a module or of a name in it; a public name of the package is `__init__`'s."""
    if top(module) != "ctxarith":
        return top(module)
    name = [*module.split("."), "__init__"][1]
    return name if name in POSITION else "__init__"


def functions_of(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, Function | ast.ClassDef):
            name = f"{prefix}{child.name}."
            if not isinstance(child, ast.ClassDef):
                yield name.removesuffix("."), child
        yield from functions_of(child, name)


def docstring_lines(function: Function) -> int:
    if ast.get_docstring(function) is None:
        return 0
    return (function.body[0].end_lineno or 0) - function.body[0].lineno + 1


def is_command(source: Source, function: Function) -> bool:
    decorators = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    names = {d.attr for d in decorators if isinstance(d, ast.Attribute)}
    return source.module == "ctxarith.cli" and not names.isdisjoint({"command", "callback"})


def every_module_has_a_layer(source: Source) -> Iterator[str]:
    name = [*source.module.split("."), "__init__"][1]
    if top(source.module) == "ctxarith" and name not in POSITION:
        yield f"{source.at(1)}: {name} has no place in the layer order"


def layers_import_downwards(source: Source) -> Iterator[str]:
    own = layer(source.module)
    for found in imports(source):
        other = layer(found.target)
        if other in POSITION and other != own and POSITION[other] >= POSITION[own]:
            target = ".".join(found.target.split(".")[:2])
            yield f"{source.at(found.line)}: {own} imports {target}, which does not stand before it"


def own_imports_stand_at_the_top(source: Source) -> Iterator[str]:
    for found in imports(source):
        if found.in_function and top(found.target) in PACKAGES:
            yield f"{source.at(found.line)}: {found.target} is imported inside a function"


def libraries_stay_in_their_package(source: Source) -> Iterator[str]:
    for found in imports(source):
        home = ONLY_IN.get(top(found.target))
        if home and layer(source.module) != home:
            yield f"{source.at(found.line)}: only {home}/ imports {top(found.target)}"


def names_say_what_a_module_is(source: Source) -> Iterator[str]:
    for name in VAGUE_NAMES.intersection(source.module.split(".")):
        yield f"{source.at(1)}: a module named {name} says nothing"


def code_neither_prints_nor_asserts(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                yield f"{source.at(node.lineno)}: print()"
            case ast.Assert():
                yield f"{source.at(node.lineno)}: assert; raise a typed error"


def files_are_short(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{source.at(lines)}: {lines} lines in one file, at most {MAX_FILE_LINES}"


def functions_are_short(source: Source) -> Iterator[str]:
    for name, function in functions_of(source.tree):
        lines = (function.end_lineno or 0) - function.lineno + 1 - docstring_lines(function)
        if lines > MAX_FUNCTION_LINES:
            yield f"{source.at(function.lineno)}: {name} has {lines} lines, at most {MAX_FUNCTION_LINES}"


def functions_take_few_parameters(source: Source) -> Iterator[str]:
    for name, function in functions_of(source.tree):
        if name in WIDE_DOORS or is_command(source, function):
            continue
        given = function.args
        names = {a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        count = len(names - {"self", "cls"})
        if count > MAX_PARAMETERS:
            yield f"{source.at(function.lineno)}: {name} takes {count} parameters, at most {MAX_PARAMETERS}"


def import_cycles(sources: Sequence[Source]) -> list[str]:
    modules = {source.module for source in sources}
    places: dict[tuple[str, str], str] = {}
    for source in sources:
        for found in imports(source):
            target = found.target
            while target and target not in modules:
                target = target.rpartition(".")[0]
            if target and target != source.module:
                places.setdefault((source.module, target), source.at(found.line))
    graph: dict[str, set[str]] = {}
    for importer, imported in places:
        graph.setdefault(importer, set()).add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        steps = pairwise(reversed(error.args[1]))
        return [f"{places[step]}: {step[0]} imports {step[1]}, in a cycle" for step in steps]
    return []


Rule = Callable[[Source], Iterator[str]]
RULES: list[Rule] = [
    every_module_has_a_layer,
    layers_import_downwards,
    own_imports_stand_at_the_top,
    libraries_stay_in_their_package,
    names_say_what_a_module_is,
    code_neither_prints_nor_asserts,
    files_are_short,
    functions_are_short,
    functions_take_few_parameters,
]
SOURCES = list(read_sources())


def planted(module: str, code: str) -> Source:
    return Source(module, Path("planted.py"), code, ast.parse(code))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_code_keeps(rule: Rule) -> None:
    problems = dict.fromkeys(problem for source in SOURCES for problem in rule(source))
    assert not problems, "\n" + "\n".join(problems)


def test_no_module_imports_itself_by_a_detour() -> None:
    problems = import_cycles(SOURCES)
    assert not problems, "\n" + "\n".join(problems)


def test_every_package_is_typed() -> None:
    missing = [f"{folder}/py.typed:1" for folder in PACKAGES.values() if not (folder / "py.typed").is_file()]
    assert not missing, f"missing: {missing}"


def test_the_rules_read_all_three_packages() -> None:
    assert {top(source.module) for source in SOURCES} == set(PACKAGES)


@pytest.mark.parametrize(
    ("rule", "module", "code"),
    [
        (every_module_has_a_layer, "ctxarith.odds_and_ends", ""),
        (layers_import_downwards, "ctxarith.errors", "from ctxarith.model import Record"),
        (layers_import_downwards, "ctxarith.stages.fuse", "from ..corpus import Corpus"),
        (layers_import_downwards, "ctxarith.corpus", "from ctxarith import Record"),
        (layers_import_downwards, "ctxarith.cli", "import langchain_ctxarith"),
        (layers_import_downwards, "langchain_ctxarith.tool", "import llamaindex_ctxarith"),
        (own_imports_stand_at_the_top, "ctxarith.run", "def f():\n    from . import plan"),
        (
            own_imports_stand_at_the_top,
            "ctxarith.run",
            "f = lambda: import_module('ctxarith.plan')",
        ),
        (libraries_stay_in_their_package, "ctxarith.corpus", "def f():\n    import chromadb.api"),
        (
            libraries_stay_in_their_package,
            "langchain_ctxarith.tool",
            "from tiktoken import Encoding",
        ),
        (names_say_what_a_module_is, "ctxarith.index.utils", ""),
        (code_neither_prints_nor_asserts, "ctxarith.run", "print(1)"),
        (code_neither_prints_nor_asserts, "ctxarith.run", "def f(x):\n    assert x"),
        (files_are_short, "ctxarith.run", "\n" * 251),
        (functions_are_short, "ctxarith.run", "class A:\n  def f():\n" + "    0\n" * 45),
        (functions_take_few_parameters, "ctxarith.run", "def f(a, b, c, d, *, e, f, g): ..."),
    ],
)
def test_a_breach_is_named_with_its_line(rule: Rule, module: str, code: str) -> None:
    (problem,) = rule(planted(module, code))
    assert problem.startswith("planted.py:")


def test_a_cycle_is_named_with_its_lines() -> None:
    dense = planted("ctxarith.index.dense", "from . import columns")
    columns = planted("ctxarith.index.columns", "\nfrom ctxarith.index.dense import search")
    problems = import_cycles([dense, columns])
    assert sorted(problem.partition(" ")[0] for problem in problems) == [
        "planted.py:1:",
        "planted.py:2:",
    ]


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("ctxarith.stores.chroma", "def f():\n    import chromadb"),
        ("ctxarith.stages.fuse", "from .retrieve import recall\nfrom ..model import Record"),
        ("ctxarith.corpus", "class Corpus:\n  def retrieve(self, a, b, c, d, e, f, g): ..."),
        ("ctxarith.cli", "@app.command()\ndef ingest(a, b, c, d, e, f, g): ..."),
        (
            "ctxarith.run",
            "class A:\n  def f(self, a, b, c, d, e, f):\n    'One.\n\n    Two.'".replace("'", '"""'),
        ),
    ],
)
def test_what_is_allowed_passes(module: str, code: str) -> None:
    assert [problem for rule in RULES for problem in rule(planted(module, code))] == []
