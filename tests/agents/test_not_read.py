"""Agents that are not read are named with the number of their logs, so that nobody takes them for searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from backstory import agents
from backstory.agents import NOT_READ, logs_of_others

if TYPE_CHECKING:
    from pathlib import Path

LOGS = (".omp/agent/sessions/--w--/1.jsonl", ".omp/agent/sessions/--w--/2.jsonl", ".qwen/projects/a1/chats/1.jsonl")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in LOGS:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    return tmp_path


def test_logs_are_counted_by_agent(home: Path) -> None:
    assert logs_of_others(home) == {"qwen": 1, "omp": 2}


def test_folders_without_a_log_are_not_named(tmp_path: Path) -> None:
    (tmp_path / ".omp" / "agent" / "sessions").mkdir(parents=True)
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_text("{}")
    assert logs_of_others(tmp_path) == {}


def test_an_agent_that_is_read_is_not_among_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "names", lambda: ["omp"])
    assert logs_of_others(home) == {"qwen": 1}


def test_no_agent_of_ours_is_in_the_table() -> None:
    places = msgspec.json.decode(NOT_READ.read_bytes(), type=dict[str, list[str]])
    assert set(places) & set(agents.names()) == set()
    assert all(patterns and not each.startswith("/") for patterns in places.values() for each in patterns)
