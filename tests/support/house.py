"""Facts about the shape of the package, read from its source: sizes, imports, names, methods that only pass on."""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Set

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "backstory"
AGENTS = SOURCE / "agents"
MODULES = tuple(sorted(SOURCE.rglob("*.py")))
COMMON = tuple(path for path in MODULES if path.parent == AGENTS or not path.is_relative_to(AGENTS))
"""All modules but those of an agent's own package, which follow one contract: their names and methods recur."""
LISTED_SHARE = 0.6
"""A module lists a table's columns if it names this share of them."""
COLUMNS_MIN = 20
"""Tables of fewer columns have names that any module may have for reasons of its own."""


class Size(NamedTuple):
    """Lines and modules of a room."""

    lines: int
    modules: int


def name(path: Path) -> str:
    """The dotted name of a module below the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(path: Path) -> str:
    """The room of a module: its first folder, and ``nouns`` for a module at the root."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else "nouns"


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a module; no collection of garbage looks at it."""
    found = ast.parse(path.read_text("utf-8"))
    # All of them are a million and a half objects: each collection in a test that follows would take a second longer.
    gc.freeze()
    return found


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a module's syntax tree, found once for all that look through them."""
    return tuple(ast.walk(tree(path)))


def lines(path: Path) -> int:
    """The length of a module in lines."""
    return path.read_bytes().count(b"\n")


def sizes() -> dict[str, Size]:
    """The size of every room."""
    found: dict[str, list[int]] = defaultdict(list)
    for path in MODULES:
        found[room(path)].append(lines(path))
    return {each: Size(sum(counts), len(counts)) for each, counts in found.items()}


def long_modules(most: int) -> set[str]:
    """The modules of more than ``most`` lines."""
    return {name(path) for path in MODULES if lines(path) > most}


def long_functions(most: int) -> set[str]:
    """The functions of more than ``most`` lines, their signature and docstring included."""
    return {
        f"{name(path)}.{node.name}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > most
    }


def imported(path: Path) -> set[str]:
    """The modules of ours that a module imports anywhere: at the top, inside a function, or for types alone."""
    known = _known()
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            below = {f"{module}.{alias.name}" for alias in node.names}
            inside = {each for each in below if each.removeprefix("backstory.") in known}
            found |= inside | ({module} if len(inside) < len(below) else set())
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazy_module":
            found |= {str(each.value) for each in node.args if isinstance(each, ast.Constant)}
    ours = {each.removeprefix("backstory.") for each in found if each.startswith("backstory.")}
    return (ours & known) - {name(path)}


@cache
def _known() -> frozenset[str]:
    return frozenset(map(name, MODULES))


def circles() -> list[set[str]]:
    """Groups of modules that import each other, directly or by way of others."""
    wanted = {name(path): imported(path) for path in MODULES}
    reach = {module: _reach(module, wanted) for module in wanted}
    found: list[set[str]] = []
    for module, reached in sorted(reach.items()):
        if module in reached and not any(module in each for each in found):
            found.append({other for other in reached if module in reach[other]})
    return found


def _reach(start: str, wanted: Mapping[str, Set[str]]) -> set[str]:
    seen, todo = set[str](), list(wanted[start])
    while todo:
        each = todo.pop()
        if each not in seen:
            seen.add(each)
            todo += wanted[each]
    return seen


def class_names() -> dict[str, set[str]]:
    """Public class names that stand for several classes, with their modules. Agents' own packages are apart."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in COMMON:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(name(path))
    return {each: modules for each, modules in found.items() if len(modules) > 1}


CALLED_BY_TEXTUAL = ("action_", "on_", "render_", "validate_")
"""The beginnings of methods that a key, a message or the screen calls by their names: they have no other caller."""


def passing_methods(promised: Set[str]) -> set[str]:
    """Public methods that only hand their own arguments to another function, but for ``promised`` names."""
    return {
        f"{name(path)}.{owner.name}.{method.name}"
        for path in COMMON
        for owner in nodes(path)
        if isinstance(owner, ast.ClassDef)
        for method in owner.body
        if isinstance(method, ast.FunctionDef)
        and not method.name.startswith(("_", *CALLED_BY_TEXTUAL))
        and method.name not in promised
        and _only_passes(method)
    }


def _only_passes(method: ast.FunctionDef) -> bool:
    body = [node for node in method.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    if len(body) != 1 or method.decorator_list or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    called = body[0].value
    own = {each.arg for each in (*method.args.args, *method.args.kwonlyargs)}
    return isinstance(called, ast.Call) and _passes(called, own)


def _passes(node: ast.expr, own: Set[str]) -> bool:
    """True if an expression only names arguments, or calls something with expressions that do."""
    if isinstance(node, ast.Lambda):
        return _passes(node.body, own | {each.arg for each in node.args.args})
    if isinstance(node, ast.Call):
        given = [*node.args, *(each.value for each in node.keywords)]
        return all(_passes(each, own) for each in given)
    if isinstance(node, ast.Attribute):
        return _passes(node.value, own)
    return isinstance(node, ast.Name | ast.Constant)


def promised_names(document: Path) -> set[str]:
    """The names that a document promises: each word of its code."""
    text = document.read_text("utf-8")
    code = [*re.findall(r"```.*?```", text, re.DOTALL), *re.findall(r"`[^`\n]+`", text)]
    return {word for each in code for word in re.findall(r"[a-z_][a-z0-9_]+", each)}


def tables() -> dict[str, set[str]]:
    """The columns of each table of the store that has enough of them to be known by."""
    found: dict[str, set[str]] = {}
    for file in ("schema.sql", "derived.sql"):
        text = next(SOURCE.rglob(file)).read_text("utf-8")
        for table, inside in re.findall(r"create table (?:if not exists )?(\w+)\s*\((.*?)\n\)", text, re.DOTALL):
            columns = set(re.findall(r"^\s+(\w+)", inside, re.MULTILINE)) - _NO_COLUMNS
            if len(columns) >= COLUMNS_MIN:
                found[table] = columns
    return found


_NO_COLUMNS = {"primary", "unique", "check", "foreign", "constraint", "references", "on", "without"}


def listing_modules(columns: Set[str]) -> set[str]:
    """The modules that list these columns, as names of Python or inside SQL."""
    return {name(path) for path in MODULES if len(_words(path) & columns) >= LISTED_SHARE * len(columns)}


@cache
def _words(path: Path) -> frozenset[str]:
    return frozenset(_all_words(nodes(path)))


def _all_words(module: Iterable[ast.AST]) -> Iterator[str]:
    docstrings = {node.value for node in module if isinstance(node, ast.Expr)}
    for node in module:
        if node in docstrings:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\w+", node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg


def first_words() -> Counter[str]:
    """How often docstrings, and texts below constants and fields, begin with each word."""
    texts = (
        node.value.value
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return Counter(text.split(maxsplit=1)[0] for text in texts if text.strip())
