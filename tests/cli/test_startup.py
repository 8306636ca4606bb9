"""What commands import: each takes time before the first word, so a command has only what it needs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import backstory
from backstory.store import open_store

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

SOURCE = Path(backstory.__file__).parent
DATABASE = {"apsw", "click", "msgspec", "typing_extensions", "zstandard"}
"""Other people's packages that a command needs which reads the store."""
DEAR = {
    "argparse", "asyncio", "ctypes", "email", "http", "importlib.metadata", "json", "logging", "multiprocessing",
    "random", "sqlite3", "ssl", "tempfile", "tomllib", "xml",
}  # fmt: skip
"""Modules of Python itself that take long, and that no command needs which people wait for."""
OURS = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__") for path in SOURCE.rglob("*.py")
}
"""The names of our modules, without the package's."""
WRITING = {
    f"backstory.{name}"
    for name in (
        "exchange.replicate", "store.file.verify", "store.intake.append", "store.intake.batches",
        "store.intake.own_log", "store.intake.run_facts", "store.tables.copies", "store.tables.decisions",
        "store.tables.plan", "store.tables.runs",
    )
}  # fmt: skip
"""Modules of the store that only what writes needs, or what checks all of it."""
AGENT = """#!/bin/sh
cat >/dev/null
echo '{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a53"}'
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"answered"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}'
"""


def imported(shell: Shell, *words: str) -> set[str]:
    """The modules that a command imports, as a process of its own; its own module is found by name, and not told."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "backstory", *words], cwd=shell.cwd, env=shell.environ,
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True, timeout=120,
    )  # fmt: skip
    told = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in told[1:]}


def of_others(modules: set[str]) -> set[str]:
    """The packages among them that are neither Python's nor ours."""
    packages = {each.partition(".")[0] for each in modules} - sys.stdlib_module_names - {"backstory"}
    # A machine may have hooks of its own; Python's copy asks for org, which only another Python has.
    hooks = {each for each in packages if each.startswith("_") or each.endswith("customize")}
    return packages - hooks - {"org"}


def ours(modules: set[str], *beginnings: str) -> set[str]:
    """Those of our modules whose names begin so; a beginning that no module has is a mistake of the test."""
    wrong = [begin for begin in beginnings if not any(each.startswith(begin) for each in OURS)]
    assert wrong == []
    return {each for each in modules if each.startswith(tuple(f"backstory.{begin}" for begin in beginnings))}


@pytest.fixture
def agent(read_once: Shell, tmp_path: Path) -> Path:
    """A folder with an agent that answers in one line."""
    (tmp_path / "codex").write_text(AGENT)
    (tmp_path / "codex").chmod(0o755)
    return tmp_path


def test_the_modules_that_only_writers_need_are_ours() -> None:
    assert {each.removeprefix("backstory.") for each in WRITING} <= OURS


def test_the_version_imports_nothing(bare: Shell) -> None:
    modules = imported(bare, "--version")
    assert of_others(modules) == set()
    assert ours(modules, "") == set()
    assert modules & (DEAR | {"hashlib", "inspect", "re", "shutil", "subprocess", "typing"}) == set()


@pytest.mark.parametrize("target", ["/dev/full", None], ids=["full", "closed"])
def test_a_version_that_cannot_be_printed_fails_as_other_commands_do(bare: Shell, target: str | None) -> None:
    with open(target or os.devnull, "wb") as out:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "backstory", "--version"], cwd=bare.cwd, env=bare.environ, stdout=out,
            stderr=subprocess.PIPE, text=True, timeout=120, check=False,
            preexec_fn=None if target else lambda: os.close(1),
        )  # fmt: skip
    assert (done.returncode, "could not be written" in done.stderr) == ((74, True) if target else (0, False))


@pytest.mark.parametrize("words", [["list"], ["show", "SESSION"], ["search", "the"]], ids=lambda words: words[0])
def test_a_command_that_reads_imports_nothing_that_ingests_or_parses_sql(read_once: Shell, words: list[str]) -> None:
    with open_store(read_once.store) as store:
        uid = store.uids()[0]
    modules = imported(read_once, *(word.replace("SESSION", uid) for word in words))
    assert of_others(modules) - DATABASE == set()
    assert ours(modules, "ingest.ingest", "ingest.watch", "ask.readonly", "ask.sql_functions") == set()
    assert ours(modules, "runs.runner", "runs.stream") == set()
    # Which turns were rewound is decided where they are derived again.
    rederives = {"backstory.store.intake.batches"} if words[0] == "show" else set()
    assert modules & (WRITING - rederives) == set()


def test_what_picks_and_what_follows_is_imported_only_by_who_asks_for_it(read_once: Shell) -> None:
    with open_store(read_once.store) as store:
        uid = store.uids()[0]
    for words in (["list"], ["search", "the"], ["show", uid]):
        modules = imported(read_once, *words)
        assert ours(modules, "cli.picker", "cli.views.following", "cli.completing") == set(), words
        assert (
            ours(modules, "workspace.history.following", "workspace.stores.importing", "ingest.tail", "ingest.watch")
            == set()
        ), words
        assert words[0] == "show" or modules & {"subprocess"} == set(), words


@pytest.mark.parametrize("words", [("list",), ()], ids=["list", "alone"])
def test_list_imports_no_agent_and_nothing_that_derives(read_once: Shell, words: tuple[str, ...]) -> None:
    modules = imported(read_once, *words)
    derives = ours(modules, "derive.deriver", "derive.file_touches")
    searches = ours(modules, "search.", "ask.search", "ask.ranking")
    assert (derives, searches, ours(modules, "agents.claude", "agents.contract")) == (set(), set(), set())
    # Whether there are new logs is found out without what reads them.
    assert ours(modules, "ingest.") == {"backstory.ingest.news"}
    assert ours(modules, "runs.runner", "workspace.runs.scheduler", "workspace.runs.run_events") == set()
    assert modules & (DEAR | {"hashlib", "shutil", "subprocess", "zstandard"}) == set()


def test_the_library_for_agents_is_imported_only_by_the_server(read_once: Shell) -> None:
    for words in (["mcp", "--help"], ["--help"], ["config", "list"]):
        modules = imported(read_once, *words)
        assert of_others(modules) & {"mcp", "mcp_types", "anyio", "pydantic", "starlette"} == set(), words
        assert ours(modules, "mcp.") == set(), words


def test_a_line_for_a_prompt_imports_nothing_that_looks_for_logs(read_once: Shell) -> None:
    modules = imported(read_once, "stats", "--line")
    assert ours(modules, "ingest.", "agents.claude", "agents.contract", "search.", "ask.search", "runs.runner") == set()
    assert (
        ours(
            modules,
            "workspace.stores.up_to_date",
            "workspace.stores.importing",
            "ask.tool_stats",
            "chronicle.",
        )
        == set()
    )
    assert of_others(modules) - DATABASE == set()
    assert modules & (DEAR | WRITING | {"shutil", "subprocess", "zstandard"}) == set()


def test_a_search_begins_neither_openssl_nor_what_only_a_terminal_needs(read_once: Shell) -> None:
    assert imported(read_once, "search", "the") & (DEAR | {"_hashlib", "hashlib", "shlex", "shutil"}) == set()


def test_a_run_without_calls_imports_only_its_agent_and_what_stores_an_answer(machine: Shell, agent: Path) -> None:
    machine.environ["PATH"] = f"{agent}:{os.environ['PATH']}"
    modules = imported(machine, "run", "-a", "codex", "-n", "go")
    assert "backstory.agents.codex.stream" in modules
    assert of_others(modules) - DATABASE == set()
    others = ours(modules, "agents.ah", "agents.claude", "agents.copilot")
    unneeded = ours(modules, "derive.file_touches", "search.", "export.", "ingest.ingest", "ask.search")
    assert (others, unneeded) == (set(), set())
    assert ours(modules, "ask.readonly", "ask.sql_functions", "ask.search") == set()
    assert (
        ours(
            modules,
            "workspace.reader",
            "workspace.runs.prompt_queue",
            "workspace.runs.run_list",
            "workspace.runs.unsent",
        )
        == set()
    )
    other_commands = {each for each in ours(modules, "cli.") if each.endswith("_command")}
    assert other_commands == set()
    assert modules & DEAR == set()


def test_a_list_of_what_does_not_run_needs_no_look_at_processes(machine: Shell) -> None:
    for words in (["list"], ["ps"], ["queue", "list"]):
        assert "psutil" not in imported(machine, *words)


@pytest.mark.parametrize("words", [["list"], ["show", "nonesuch"]], ids=["done", "refused"])
def test_a_command_closes_the_store_when_it_is_over(machine: Shell, words: list[str]) -> None:
    assert (machine(*words).code == 0) == (words == ["list"])
    assert [each.name for each in machine.store.parent.glob("store.db*")] == ["store.db"]


def test_no_expression_is_compiled_before_it_is_used() -> None:
    at_once = []
    for path in SOURCE.rglob("*.py"):
        nodes: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                at_once.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
            nodes += ast.iter_child_nodes(node)
    assert at_once == [], "lazy_regex compiles when it is first used"
