"""Imports point down, big dependencies have one home each, and what an agent is called stands in its own file."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.agents import names
from tests.support import house
from tests.support.every import every

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SOURCE = Path(__file__).parent.parent / "src" / "backstory"
NOUNS = {
    "model",
    "errors",
    "ids",
    "times",
    "config",
    "bounds",
    "lazy",
    "sqlite_memory",
}
"""The modules at the root beside the package itself; every other module is in a room."""
ROOMS = {
    "conversation": "pure", "derive": "pure",
    "store": "store", "ask": "ask", "exchange": "exchange", "agents": "agents",
    "projects": "projects",
    "ingest": "work", "runs": "work", "search": "work", "export": "work", "sync": "work",
    "workspace": "workspace",
    "chronicle": "reports",
    "cli": "faces", "mcp": "faces", "web": "faces", "server": "faces",
}  # fmt: skip
FACADE = SOURCE / "store" / "__init__.py"
"""The API promises two questions as methods of the store, which are imported when they are asked."""
FILE = ("store", "ask", "exchange")
"""Our file: what keeps it, questions to it, and copies between such files."""
MAY_IMPORT = {
    "nouns": {"nouns"},
    "pure": {"nouns", "pure"},
    "agents": {"nouns", "pure", "agents"},
    "store": {"nouns", "pure", "store"},
    "ask": {"nouns", "pure", "store", "ask"},
    "exchange": {"nouns", "pure", "store", "exchange"},
    "projects": {"nouns", "pure", *FILE, "projects"},
    "work": {"nouns", "pure", *FILE, "agents", "projects", "work"},
    "workspace": {"nouns", "pure", *FILE, "agents", "projects", "work", "workspace"},
    "reports": {"nouns", "pure", *FILE, "work", "workspace", "reports"},
    "faces": {"nouns", "pure", *FILE, "agents", "projects", "work", "workspace", "reports", "faces"},
}
IMPURE = {"os", "io", "pathlib", "time", "random", "socket", "subprocess"}
HOMES: dict[str, str | tuple[str, ...]] = {
    "apsw": ("store/", "ask/", "exchange/", "agents/foreign.py", "sqlite_memory.py"), "click": "cli/",
    "zstandard": ("store/codec.py", "agents/azureal/cells.py"),
    "rich": "cli/", "textual": "cli/tui/", "markdown_it": ("cli/tui/", "web/"),
    "tomlkit": "config.py", "platformdirs": "workspace/opening.py", "watchfiles": "ingest/watch.py",
    "psutil": ("runs/process.py", "store/file/waiting.py"),
    "starlette": ("web/", "server/"), "uvicorn": ("web/", "server/"), "jinja2": "web/", "prometheus_client": "server/",
    "markupsafe": "web/",
    "cryptography": ("web/", "sync/sealing.py"), "psycopg": "server/", "psycopg_pool": "server/", "httpx": "sync/",
    "mcp": "mcp/", "mcp_types": "mcp/", "anyio": "mcp/",
}  # fmt: skip
MODULES = sorted(SOURCE.rglob("*.py"))
IN_ROOMS = [path for path in MODULES if path not in (SOURCE / "__init__.py", SOURCE / "__main__.py")]
AGENTS = SOURCE / "agents"


def layer(module: str) -> str:
    """The layer of a module's room. There is no default: a module that is in no room raises KeyError."""
    room = module.split(".")[1]
    return "nouns" if room in NOUNS else ROOMS[room]


def name(path: Path) -> str:
    parts = ("backstory", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


KNOWN = {name(path) for path in MODULES}
OWN = {agent: [path for path in MODULES if path.is_relative_to(AGENTS / agent)] for agent in names()}
"""The modules of each agent: its package."""


@cache
def imports(path: Path, *, module_level: bool = False) -> set[str]:
    """Every module that a file imports; with ``module_level`` only those it needs to be imported itself."""
    found: set[str] = set()
    nodes: list[ast.AST] = list(house.tree(path).body)
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


def each_with(paths: Iterable[Path], found: Callable[[Path], object]) -> dict[str, object]:
    """Return what was found, by module, of those where anything was."""
    return {name(path): each for path in paths if (each := found(path))}


def test_imports_point_down() -> None:
    def pointing_up(path: Path) -> set[str]:
        allowed = MAY_IMPORT[layer(name(path))] | ({"ask"} if path == FACADE else set())
        ours = {each for each in imports(path) if each.startswith("backstory.")}
        return {each for each in ours if layer(each) not in allowed}

    assert each_with(IN_ROOMS, pointing_up) == {}


def test_a_pure_room_knows_no_files_clock_or_network() -> None:
    pure = [path for path in IN_ROOMS if ROOMS.get(path.relative_to(SOURCE).parts[0]) == "pure"]
    assert len(pure) > 30
    assert each_with(pure, lambda path: {each.split(".")[0] for each in imports(path)} & IMPURE) == {}


WORKSPACE = [path for path in IN_ROOMS if path.is_relative_to(SOURCE / "workspace")]


def test_the_workspace_has_no_terminal_and_no_environment() -> None:
    def of_a_terminal(path: Path) -> set[str]:
        names = {node.id for node in house.nodes(path) if isinstance(node, ast.Name)}
        modules = {each.split(".")[0] for each in imports(path)}
        return (modules & {"os", "sys", "click", "rich"}) | (names & {"print", "input"})

    assert each_with(WORKSPACE, of_a_terminal) == {"backstory.workspace.opening": {"os"}}


COMMANDS = [path for path in IN_ROOMS if path.match("cli/commands/*_command.py")]
FACES = [path for path in IN_ROOMS if path.is_relative_to(SOURCE / "cli")]
MACHINERY = {
    "backstory.runs.spool", "backstory.runs.lock", "backstory.runs.queued", "backstory.store.tables.queue",
    "backstory.projects.registry",
}  # fmt: skip
"""What a face asks the workspace for: spools, queues, who holds a session, where projects' stores are."""


def test_no_command_imports_another() -> None:
    every = {name(each) for each in COMMANDS}
    assert len(every) > 40
    assert each_with(COMMANDS, lambda path: imports(path) & (every - {name(path)})) == {}


def test_a_face_knows_no_spool_queue_or_lease() -> None:
    assert each_with(FACES, lambda path: imports(path) & MACHINERY) == {}


NAMES_GIT = re.compile(r"""["'](?:[^\s"']*/)?git(?:\.exe)?(?:["']|\s)""")
"""A word, or the first word of a line, that is the program git."""
MAY_START = re.compile(
    r"(?:import|from) (?:subprocess|pty|asyncio)|\bwhich\(|runs\.answering"
    r"|\bos\.(?:exec|spawn|posix_spawn|system|popen|startfile)"
)
GIT_LIBRARY = re.compile(
    r"^\s*(?:import|from)\s+(?:git|pygit2|dulwich|gitdb|sh|plumbum|invoke|pexpect|setuptools_scm)\b", re.MULTILINE
)


def starts_git(source: str) -> bool:
    """Whether a module could start git: it names it and starts programs, or has a library that does."""
    return bool(GIT_LIBRARY.search(source) or (NAMES_GIT.search(source) and MAY_START.search(source)))


def test_git_is_started_in_one_place() -> None:
    assert {name(path) for path in MODULES if starts_git(path.read_text("utf-8"))} == {"backstory.projects.git_program"}


@every(
    "source",
    [
        'import subprocess\nsubprocess.run(["git", "status"])',
        'import subprocess\ncommand = ("/usr/bin/git", *words)\nsubprocess.Popen(command)',
        'from subprocess import check_output\ncheck_output("git log", shell=True)',
        'import os\nos.execvp("git", words)',
        'import os\nos.system("git gc")',
        'import asyncio\nasyncio.create_subprocess_exec("git", "log")',
        'import shutil\nprogram = shutil.which("git")',
        "from git import Repo",
        "import dulwich.repo",
    ],
)
def test_other_ways_to_start_git_would_be_found(source: str) -> None:
    assert starts_git(source)
    assert not starts_git(source.replace("git", "other").replace("dulwich", "other"))


def writes_dollars(module: Iterable[ast.AST]) -> bool:
    """True if an amount is written behind a dollar sign."""
    return any(
        isinstance(first, ast.Constant) and str(first.value).endswith("$")
        and isinstance(second, ast.FormattedValue) and second.format_spec is not None
        for node in module if isinstance(node, ast.JoinedStr)
        for first, second in pairwise(node.values)
    )  # fmt: skip


def test_a_cost_is_written_in_one_place() -> None:
    """A face that formats dollars itself would have a notation of its own."""
    found = {path.relative_to(SOURCE).as_posix() for path in MODULES if writes_dollars(house.nodes(path))}
    assert found == {"derive/pricing.py"}
    assert writes_dollars(ast.walk(ast.parse('f"about ${usd:.2f}"')))


def test_a_plan_between_stores_knows_no_files_clock_network_or_database() -> None:
    known = {each.split(".")[0] for each in imports(SOURCE / "store" / "tables" / "plan.py")}
    assert known & (IMPURE | {"apsw"}) == set()
    assert {each for each in imports(SOURCE / "store" / "tables" / "plan.py") if each.startswith("backstory.")} == {
        "backstory.ids"
    }


def test_every_room_has_modules() -> None:
    assert {room for room in ROOMS if not list((SOURCE / room).glob("[a-z]*.py"))} == set()


@pytest.mark.parametrize("agent", names())
def test_agents_are_strangers_to_each_other(agent: str) -> None:
    others = {name(path) for other in names() if other != agent for path in OWN[other]}
    assert {module for path in OWN[agent] for module in imports(path)} & others == set()


@pytest.mark.parametrize("package", HOMES)
def test_a_big_dependency_has_one_home(package: str) -> None:
    using = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if any(each.split(".")[0] == package for each in imports(path, module_level=False))
    }
    assert {each for each in using if not each.startswith(HOMES[package])} == set()


def rooms_known_by(room: str) -> set[str]:
    paths = [path for path in IN_ROOMS if path.is_relative_to(SOURCE / room) and path != FACADE]
    known = {each for path in paths for each in imports(path)}
    return {each.split(".")[1] for each in known if each.startswith("backstory.")} & ROOMS.keys() - {room}


def test_no_two_rooms_know_each_other() -> None:
    rooms = {room: rooms_known_by(room) for room in ROOMS}
    while ready := {room for room, known in rooms.items() if not known}:
        rooms = {room: known - ready for room, known in rooms.items() if room not in ready}
    assert rooms == {}


def test_no_imports_go_in_a_circle() -> None:
    needed = {name(path): imports(path, module_level=True) & KNOWN - {name(path)} for path in MODULES}
    while ready := {module for module, wanted in needed.items() if not wanted}:
        needed = {module: wanted - ready for module, wanted in needed.items() if module not in ready}
    assert needed == {}


SOURCES = sorted(path for path in SOURCE.rglob("*") if path.suffix in (".py", ".sql", ".toml", ".json", ".md"))
PROMISED = {
    "store/schema.sql": {"last_claude_uuid"},
    "ask/views.sql": {"copilot_usage_model", "Copilot", "ah"},
    "derive/prices.json": {"claude", "codex", "copilot"},
    "conversation/context.py": {"azureal"},
    "agents/azureal/reader.py": {"codex"},
    "agents/not_read.json": {"gemini", "cline"},
    "agents/azureal/writing.py": {"last_claude_uuid"},
    "agents/codex/settings.py": {"declined"},
    "agents/codex/stream.py": {"DECLINED", "declined"},
    "conversation/compaction.py": {"decline"},
}
"""Words of formats that others read: columns, views in the shape of other tools' tables, which `docs/sql.md` names, and
prices by model and agent, the tags of contexts that another program put into agents' logs, and what it calls models;
a word that has a name in it by chance."""


def naming(agent: str) -> re.Pattern[str]:
    """Finds an agent's name inside any word; one of so few letters that words have it only as a word of a name."""
    within = agent if len(agent) > 3 else rf"(?<![a-z]){agent}(?![a-z])"
    return re.compile(rf"\w*{within}\w*", re.IGNORECASE)


@pytest.mark.parametrize("agent", names())
def test_an_agent_is_named_in_its_own_folder_only(agent: str) -> None:
    named: dict[str, set[str]] = {}
    for path in SOURCES:
        relative = str(path.relative_to(SOURCE))
        text = f"{relative}\n{path.read_text('utf-8')}"
        if path.is_relative_to(AGENTS / agent) or agent not in text.casefold():
            continue
        if found := {*naming(agent).findall(text)} - PROMISED.get(relative, set()):
            named[relative] = found
    assert named == {}


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("last_claude_uuid", True), ("CLAUDE_CONFIG_DIR", True), ("preclaudes", True), ("claims", False),
        ("a claustrophobic", False),
    ],
)  # fmt: skip
def test_a_name_is_found_inside_a_word(text: str, is_named: bool) -> None:
    assert bool(naming("claude").search(text)) == is_named


@pytest.mark.parametrize(("text", "is_named"), [("ah.db", True), (".ah", True), ("ah_files", True), ("ahead", False)])
def test_a_short_name_is_found_as_a_part_of_a_name(text: str, is_named: bool) -> None:
    assert bool(naming("ah").search(text)) == is_named


TESTS = Path(__file__).parent
TEST_FILES = sorted(TESTS.rglob("*.py"))


def test_no_test_module_is_imported() -> None:
    """What several of them need is in ``tests/support``; fixtures are in a conftest, which nobody imports either."""
    found = {str(path.relative_to(TESTS)): imported_tests(path) for path in TEST_FILES}
    assert {path: each for path, each in found.items() if each} == {}


NAMES_A_TEST = re.compile(r"(?<!def )\b(?:test_|conftest\b)|from \.")
"""Found in each text that imports a test: to parse all takes long, and few name one but where they define it."""


def imported_tests(path: Path) -> set[str]:
    text = path.read_text("utf-8")
    nodes = list(ast.walk(ast.parse(text))) if NAMES_A_TEST.search(text) else []
    asked = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    asked += [f"{node.module or ''}.{alias.name}" for node in named for alias in node.names]
    parts = {part for each in asked if each.startswith(("tests", ".")) for part in each.split(".")}
    relative = {f"relative: {node.module}" for node in named if node.level}
    return {each for each in parts if each.startswith("test_") or each == "conftest"} | relative
