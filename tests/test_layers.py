"""Imports point down, big dependencies have one home each, and what an agent is called stands in its own file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from backstory.agents import names

SOURCE = Path(__file__).parent.parent / "src" / "backstory"
CORE = {
    "wordforms", "naming",
    "errors", "ids", "model", "tree", "extract", "render", "context", "compaction", "compact_form", "reader",
    "_version", "bounds", "deriving", "found", "remotes", "shell", "touches", "refs", "sqlite_memory", "trust",
    "essence", "notices", "pairing", "pricing", "lines",
}  # fmt: skip
FACES = {"tui", "web", "mcp", "server"}
LAYERS = ("core", "agents", "store", "work", "faces", "cli")
MAY_IMPORT = {
    "core": {"core"},
    "agents": {"core", "agents"},
    "store": {"core", "store"},
    "work": {"core", "agents", "store", "work"},
    "faces": {"core", "agents", "store", "work", "faces"},
    "cli": set(LAYERS),
}
HOMES: dict[str, str | tuple[str, ...]] = {
    "apsw": ("store/", "agents/_foreign.py", "sqlite_memory.py"), "zstandard": "store/codec.py", "click": "cli/",
    "rich": "cli/", "tomlkit": "config.py",
    "platformdirs": "cli/", "watchfiles": "watching.py", "textual": "tui/", "starlette": "server/",
    "psycopg": "server/",
}  # fmt: skip
MODULES = sorted(SOURCE.rglob("*.py"))


def layer(module: str) -> str:
    first = module.split(".")[1] if "." in module else ""
    if first in CORE:
        return "core"
    return first if first in LAYERS else "faces" if first in FACES else "work"


def name(path: Path) -> str:
    parts = ("backstory", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


KNOWN = {name(path) for path in MODULES}


def imports(path: Path, *, module_level: bool = False) -> set[str]:
    """Every module that a file imports; with ``module_level`` only those it needs to be imported itself."""
    tree = ast.parse(path.read_text("utf-8"))
    found: set[str] = set()
    nodes: list[ast.AST] = list(tree.body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            below = {f"{module}.{alias.name}" for alias in node.names}
            found |= (below & KNOWN) | (set() if below <= KNOWN else {module})
        elif module_level and (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_for_types(node)):
            continue
        else:
            nodes += ast.iter_child_nodes(node)
    return found


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    if path == SOURCE / "__init__.py" or path == SOURCE / "__main__.py":
        return
    ours = {each for each in imports(path) if each.startswith("backstory.")}
    wrong = {each for each in ours if layer(each) not in MAY_IMPORT[layer(name(path))]}
    assert wrong == set()


@pytest.mark.parametrize("path", sorted((SOURCE / "agents").glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_agents_are_strangers_to_each_other(path: Path) -> None:
    strangers = {f"backstory.agents.{other.stem}" for other in (SOURCE / "agents").glob("[a-z]*.py")}
    assert imports(path) & strangers == set()


@pytest.mark.parametrize("package", HOMES)
def test_a_big_dependency_has_one_home(package: str) -> None:
    using = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if any(each.split(".")[0] == package for each in imports(path, module_level=False))
    }
    assert {each for each in using if not each.startswith(HOMES[package])} == set()


def test_no_imports_go_in_a_circle() -> None:
    needed = {name(path): imports(path, module_level=True) & KNOWN - {name(path)} for path in MODULES}
    while ready := {module for module, wanted in needed.items() if not wanted}:
        needed = {module: wanted - ready for module, wanted in needed.items() if module not in ready}
    assert needed == {}


@pytest.mark.parametrize("agent", names())
def test_an_agent_is_known_by_its_own_file_only(agent: str) -> None:
    named = re.compile(rf"\b{agent}\b", re.IGNORECASE)
    assert [str(path.relative_to(SOURCE)) for path in MODULES if named.search(path.read_text("utf-8"))] == [
        f"agents/{agent}.py"
    ]
