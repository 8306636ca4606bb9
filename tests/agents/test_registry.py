"""The list of agents: one file each, none imported before it is asked for."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from backstory import agents
from backstory.errors import UnknownAgent

if TYPE_CHECKING:
    from pathlib import Path


def run_python(code: str) -> str:
    """What a fresh interpreter that can import what we can prints."""
    path = f"import sys; sys.path[:0] = {[each for each in sys.path if each]!r}; "
    return subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True, check=True).stdout


def test_the_names_are_those_of_the_files() -> None:
    assert {"claude", "codex"} <= set(agents.names())
    assert agents.names() == sorted(agents.names())
    assert not any(name.startswith("_") for name in agents.names())


def test_listing_the_names_imports_no_agent() -> None:
    code = (
        "from backstory import agents; agents.names(); print([m for m in sys.modules if m.startswith(agents.__name__)])"
    )
    assert run_python(code).strip() == "['backstory.agents']"


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownAgent, match=r"'copycat'.*claude, codex"):
        agents.load("copycat")


def test_a_helper_module_is_no_agent() -> None:
    with pytest.raises(UnknownAgent):
        agents.load("_jsonl")


@pytest.mark.parametrize("name", agents.names())
def test_an_agent_goes_by_the_name_of_its_file(name: str) -> None:
    assert agents.load(name).name == name


def test_a_new_agent_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "novel.py").write_text("class Novel:\n    name = 'novel'\n\n\nAGENT = Novel()\n")
    monkeypatch.setattr(agents, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(agents, "__path__", [str(tmp_path)])
    try:
        assert agents.names() == ["novel"]
        assert agents.load("novel").name == "novel"
    finally:
        sys.modules.pop("backstory.agents.novel", None)
