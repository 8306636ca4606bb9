"""What one ingest does, without a terminal: its order, its remarks, its progress."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.config import Config
from backstory.errors import ConfigBroken, UnknownAgent
from backstory.store.tables import sessions
from backstory.workspace.stores.importing import Machine
from backstory.workspace.workspace import Workspace
from tests.support.recorded import home_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.clock import Clock


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    folder = tmp_path / "user" / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    for name in ("one", "two"):
        record = {
            "type": "user", "uuid": f"{name}-1", "sessionId": name, "timestamp": "2026-11-21T10:00:00.000Z",
            "message": {"role": "user", "content": f"the heron {name}"},
        }  # fmt: skip
        (folder / f"{name}.jsonl").write_text(json.dumps(record) + "\n")
    return Machine(user_home=tmp_path / "user")


@pytest.fixture
def workspace(tmp_path: Path, clock: Clock) -> Workspace:
    home, folder = tmp_path / "home", tmp_path / "project"
    folder.mkdir()
    settings = home / "config.toml"
    return Workspace(
        lambda: Config(settings, None, is_installed=lambda *_: True, agents=list, make_folder=Path.mkdir),
        home, folder, now=clock,
    )  # fmt: skip


def test_an_ingest_stores_logs_and_prints_nothing(
    workspace: Workspace, machine: Machine, capfd: pytest.CaptureFixture[str]
) -> None:
    report = workspace.ingest(machine, pytest.fail)
    assert (report.total("listed_new"), report.errors) == (2, [])
    assert workspace.ingest(machine, pytest.fail).total("logs_read") == 0
    assert workspace.home_store.ask(sessions.count) == 2
    assert capfd.readouterr() == ("", "")


def test_only_the_agents_that_were_named_are_read(workspace: Workspace, machine: Machine) -> None:
    named = Machine(user_home=machine.user_home, only=("codex",))
    assert workspace.ingest(named, pytest.fail).total("logs_seen") == 0
    with pytest.raises(UnknownAgent):
        workspace.ingest(Machine(user_home=machine.user_home, only=("nobody",)), pytest.fail)


def test_logs_that_the_settings_exclude_are_not_read(workspace: Workspace, machine: Machine) -> None:
    workspace.home.mkdir()
    (workspace.home / "config.toml").write_text('[ingest]\nexclude = ["*/two.jsonl"]\n')
    assert workspace.ingest(machine, pytest.fail).total("logs_seen") == 1


def _places(workspace: Workspace, *places: str) -> None:
    workspace.home.mkdir()
    (workspace.home / "config.toml").write_text(f"[ingest]\nplaces = {json.dumps(places)}\n")


def test_a_second_account_and_another_systems_home_are_read_too(
    workspace: Workspace, machine: Machine, tmp_path: Path
) -> None:
    log = (machine.user_home / ".claude/projects/p/one.jsonl").read_bytes()
    for folder, name in (("user/.claude-work", "work"), ("windows/.claude", "elsewhere")):
        place = tmp_path / folder / "projects" / "p"
        place.mkdir(parents=True)
        (place / f"{name}.jsonl").write_bytes(log.replace(b'"one', f'"{name}'.encode()))
    _places(workspace, "claude=~/.claude-work", str(tmp_path / "windows"), str(machine.user_home))
    report = workspace.ingest(machine, pytest.fail)
    assert (report.total("logs_seen"), report.total("listed_new"), report.errors) == (4, 4, [])


def test_a_further_place_is_of_its_agent_only(workspace: Workspace, machine: Machine, tmp_path: Path) -> None:
    _places(workspace, f"codex={machine.user_home / '.claude'}")
    looked = workspace.ingest(machine, pytest.fail).looked
    assert {each.agent for each in looked if ".claude/" in each.folder and "sessions" in each.folder} == {"codex"}


def test_a_database_in_a_further_place_is_read(workspace: Workspace, machine: Machine, tmp_path: Path) -> None:
    _places(workspace, f"copilot={tmp_path / 'copilot'}")
    (tmp_path / "copilot").mkdir()
    (tmp_path / "copilot" / "session-store.db").write_bytes(b"no database")
    errors = workspace.ingest(machine, pytest.fail).errors
    assert [each.path for each in errors] == [str(tmp_path / "copilot" / "session-store.db")]


def test_a_live_database_in_a_further_place_is_read(workspace: Workspace, machine: Machine, tmp_path: Path) -> None:
    made = home_of(tmp_path / "made", "opencode", "hello")
    _places(workspace, str(made), f"opencode={made / '.local/share/opencode'}")
    report = workspace.ingest(machine, pytest.fail)
    assert (report.by_agent["opencode"].listed_new, report.errors) == (1, [])


@pytest.mark.parametrize(
    ("place", "why"),
    [("nobody=/x", "no agent is called 'nobody'"), ("relative", "'relative' is no folder from / or ~ on: give FOLDER")],
)
def test_a_further_place_that_names_none_is_said(workspace: Workspace, machine: Machine, place: str, why: str) -> None:
    _places(workspace, place)
    with pytest.raises(ConfigBroken, match=f"ingest.places: {why}"):
        workspace.ingest(machine, pytest.fail)


def test_progress_names_each_phase_and_counts_to_its_end(workspace: Workspace, machine: Machine) -> None:
    told: list[tuple[str, int, int]] = []

    @contextmanager
    def progress(phase: str) -> Iterator[Callable[[int, int], None]]:
        told.append((phase, 0, 0))
        yield lambda done, total: told.append((phase, done, total))

    workspace.ingest(machine, pytest.fail, progress)
    assert [phase for phase, _, total in told if not total] == ["Reading logs", "Deriving"]
    read = [(done, total) for phase, done, total in told if phase == "Reading logs" and total]
    assert read and read[-1][0] == read[-1][1]
