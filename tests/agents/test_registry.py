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


LOADED = "print([each for each in sys.modules if each.startswith(agents.__name__)])"


def run_python(code: str) -> str:
    """What a fresh interpreter that can import what we can prints."""
    path = f"import sys; sys.path[:0] = {[each for each in sys.path if each]!r}; "
    return subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True, check=True).stdout


def test_the_names_are_those_of_the_files() -> None:
    assert {"claude", "codex"} <= set(agents.names())
    assert agents.names() == sorted(agents.names())
    assert not any(name.startswith("_") for name in agents.names())


def test_listing_the_names_imports_no_agent() -> None:
    assert run_python(f"from backstory import agents; agents.names(); {LOADED}").strip() == "['backstory.agents']"


@pytest.mark.parametrize("name", agents.names())
def test_loading_an_agent_imports_no_other(name: str) -> None:
    loaded = run_python(f"from backstory import agents; agents.load({name!r}); {LOADED}")
    assert f"'backstory.agents.{name}'" in loaded
    assert [each for each in agents.names() if f"'backstory.agents.{each}'" in loaded] == [name]


@pytest.mark.parametrize("name", agents.names())
def test_whether_an_agent_s_client_continues_a_session_is_known_without_importing_it(name: str) -> None:
    said = run_python(f"from backstory import agents; print(agents.is_resumable({name!r})); {LOADED}").split("\n")
    assert said[0] == str(agents.load(name).resume is not None)
    assert f"'backstory.agents.{name}'" not in said[1]


@pytest.mark.parametrize("name", ["copycat", "", "..", "jsonl"])
def test_what_is_no_agent_here_is_not_resumable(name: str) -> None:
    assert not agents.is_resumable(name)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownAgent, match=r"'copycat'.*claude, .*codex"):
        agents.load("copycat")


@pytest.mark.parametrize("name", ["jsonl", "contract", "turn_fold", "lines"])
def test_a_module_that_agents_share_is_no_agent(name: str) -> None:
    assert name not in agents.names()
    with pytest.raises(UnknownAgent):
        agents.load(name)


@pytest.mark.parametrize("name", agents.names())
def test_an_agent_goes_by_the_name_of_its_file(name: str) -> None:
    assert agents.load(name).name == name


def test_a_new_agent_is_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "novel").mkdir()
    (tmp_path / "shared.py").write_text("")
    (tmp_path / "novel" / "__init__.py").write_text(
        "from backstory.agents.contract import Agent\nAGENT = Agent(name='novel', title='Novel', log=None)\n"
    )
    monkeypatch.setattr(agents, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(agents, "__path__", [str(tmp_path)])
    try:
        assert agents.names() == ["novel"]
        assert agents.load("novel").name == "novel"
    finally:
        sys.modules.pop("backstory.agents.novel", None)
