"""An agent of another package: one folder with an ``AGENT``, registered by an entry point; nothing else is edited."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.agents import example

FOLDER = Path(example.__file__).parent
CONTRIBUTING = FOLDER.parent.parent.parent / "CONTRIBUTING.md"
OLD = "class Old:\n    name = 'example'\n\n\nAGENT = Old()\n"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder of packages with the example in it, as an installer leaves it."""
    site = tmp_path / "site"
    shutil.copytree(FOLDER, site / "example_agent", ignore=shutil.ignore_patterns("__pycache__"))
    about = site / "example_agent-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: example-agent\nVersion: 1.0\n")
    points = tomllib.loads(block("toml"))["project"]["entry-points"]
    lines = (
        f"[{group}]\n" + "".join(f"{name} = {of}\n" for name, of in each.items()) for group, each in points.items()
    )
    (about / "entry_points.txt").write_text("".join(lines))
    return site


def block(language: str) -> str:
    """A block of what CONTRIBUTING.md tells the author of such a package to write."""
    part = CONTRIBUTING.read_text("utf-8").partition("### In a package of your own")[2]
    found = re.search(rf"```{language}\n(.*?)```", part, re.DOTALL)
    assert found is not None
    return found.group(1)


def run(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    home = site.parent
    environ = {
        "HOME": str(home),
        "BACKSTORY_HOME": str(home / "b"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(site),
    }
    return subprocess.run(
        [sys.executable, *words], cwd=home, env=environ, capture_output=True, text=True, timeout=120, check=False
    )


def test_its_logs_are_read_and_shown(installed: Path) -> None:
    log = installed.parent / ".example" / "birds.jsonl"
    log.parent.mkdir()
    shutil.copy(FOLDER / "recorded.jsonl", log)
    done = run(installed, "-m", "backstory", "ingest")
    assert "example 1 session" in done.stdout, done
    shown = run(installed, "-m", "backstory", "show", "birds").stdout
    assert all(each in shown for each in ("Where does the heron nest?", "In the reeds.", "In a hole of a tree."))


def test_its_own_tests_can_ask_whether_it_keeps_the_contract(installed: Path) -> None:
    test = installed / "example_agent" / "test_example.py"
    test.write_text(f"{block('python')}\n\ntest_it_keeps_the_contract()\n", "utf-8")
    done = run(installed, str(test))
    assert (done.returncode, done.stderr) == (0, "")


def test_its_own_tests_fail_where_it_does_not_keep_the_contract(installed: Path) -> None:
    module = installed / "example_agent" / "__init__.py"
    module.write_text(module.read_text("utf-8").replace("return record.id if record else None", "return 'a'"), "utf-8")
    test = installed / "example_agent" / "test_example.py"
    test.write_text(f"{block('python')}\n\ntest_it_keeps_the_contract()\n", "utf-8")
    assert "log.native_id_of: two records are called 'a'" in run(installed, str(test)).stderr


def test_keys_that_it_does_not_decode_are_found(installed: Path) -> None:
    (installed / "example_agent" / "formats.json").write_text('{"kind": ["role"], "decoded": ["example_agent:Record"]}')
    log = installed.parent / ".example" / "birds.jsonl"
    log.parent.mkdir()
    lines = (FOLDER / "recorded.jsonl").read_text("utf-8")
    log.write_text(lines.replace('"at"', '"mood": 1, "at"', 1), "utf-8")
    run(installed, "-m", "backstory", "ingest")
    assert "user: mood" in run(installed, "-m", "backstory", "doctor", "formats").stdout


def test_an_agent_made_for_another_version_is_named_and_costs_no_traceback(installed: Path) -> None:
    (installed / "example_agent" / "__init__.py").write_text(OLD)
    done = run(installed, "-m", "backstory", "ingest", "--agent", "example")
    assert done.returncode == 64
    assert "The agent 'example' is not made for this version" in done.stderr
    assert "Traceback" not in done.stderr


def test_contributing_says_how_long_the_smallest_agent_is() -> None:
    said = re.search(r"the smallest one,\s+`tests/agents/example/`,\s+has (\d+) lines", CONTRIBUTING.read_text("utf-8"))
    assert said is not None
    assert int(said.group(1)) == len((FOLDER / "__init__.py").read_text("utf-8").splitlines())


@pytest.mark.parametrize("text", [OLD, "raise_no_more = 1\n"])
def test_an_agent_that_cannot_be_used_keeps_no_other_from_being_told_of_the_server(installed: Path, text: str) -> None:
    (installed / "example_agent" / "__init__.py").write_text(text)
    done = run(installed, "-m", "backstory", "mcp", "install", "claude")
    assert done.returncode == 0, done.stderr
    refused = run(installed, "-m", "backstory", "mcp", "install", "ah")
    assert "Agents with MCP servers: claude, codex, copilot." in refused.stderr
    assert run(installed, "-m", "backstory", "mcp", "install", "example").returncode == 64
