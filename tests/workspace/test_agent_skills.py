"""The skill where an agent looks for skills: written once, brought up to date, and taken away if nobody changed it."""

from __future__ import annotations

from pathlib import Path

import pytest

from backstory.errors import AgentWithout, FileNotOurs, NotInstalled, SettingsReadOnly
from backstory.workspace.clients import agent_skills
from backstory.workspace.clients.agent_skills import AgentSkills, skill_text
from backstory.workspace.clients.settings_change import SettingsChange

FILES = {
    ("claude", "user"): "home/.claude/skills", ("claude", "project"): "project/.claude/skills",
    ("codex", "user"): "home/.codex/skills", ("codex", "project"): "project/.codex/skills",
    ("copilot", "user"): "home/.copilot/skills", ("copilot", "project"): "project/.github/skills",
}  # fmt: skip


class Home:
    """A person's home, a project, and our home."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("home", "project"):
            (root / name).mkdir()
        self.skills = AgentSkills(root / "ours", {}, root / "home", root / "project")

    def file(self, agent: str = "claude", scope: str = "user") -> Path:
        return self.root / FILES[agent, scope] / "backstory" / "SKILL.md"

    def install(self, agent: str = "claude", scope: str = "user") -> SettingsChange:
        change = self.skills.plan_install(agent, scope)
        self.skills.perform(change)
        return change

    def uninstall(self, agent: str = "claude", scope: str = "user") -> None:
        self.skills.perform(self.skills.plan_uninstall(agent, scope))

    def tree(self) -> list[str]:
        found = (each for top in ("home", "project") for each in (self.root / top).rglob("*"))
        return sorted(str(each.relative_to(self.root)) for each in found)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize(("agent", "scope"), FILES)
def test_the_skill_comes_once_and_goes_with_its_folders(home: Home, agent: str, scope: str) -> None:
    assert home.install(agent, scope).action == "add"
    assert home.file(agent, scope).read_text() == skill_text()
    assert home.install(agent, scope).action == "none"
    home.uninstall(agent, scope)
    assert home.tree() == []
    with pytest.raises(NotInstalled):
        home.uninstall(agent, scope)


def test_other_skills_and_files_beside_it_stay(home: Home) -> None:
    home.install()
    for name in ("backstory/notes.md", "other/SKILL.md"):
        path = home.file().parent.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    home.uninstall()
    assert [name for name in home.tree() if name.endswith(".md")] == [
        "home/.claude/skills/backstory/notes.md", "home/.claude/skills/other/SKILL.md",
    ]  # fmt: skip


def test_a_skill_of_another_is_left_alone(home: Home) -> None:
    home.file().parent.mkdir(parents=True)
    home.file().write_text("mine")
    with pytest.raises(FileNotOurs):
        home.install()
    with pytest.raises(FileNotOurs):
        home.uninstall()
    assert home.file().read_text() == "mine"


def test_a_skill_that_a_person_changed_is_theirs(home: Home) -> None:
    home.install()
    with home.file().open("a") as file:
        file.write("And be brief.\n")
    for act in (home.install, home.uninstall):
        with pytest.raises(FileNotOurs):
            act()
    assert home.file().read_text().endswith("And be brief.\n")


def test_an_older_text_of_ours_is_brought_up_to_date_and_removed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.install()
    monkeypatch.setattr(agent_skills, "skill_text", lambda: "newer\n")
    assert home.install().action == "update"
    assert home.file().read_text() == "newer\n"
    monkeypatch.undo()
    home.uninstall()
    assert home.tree() == []


def test_a_read_only_skill_is_left_alone(home: Home) -> None:
    home.install()
    home.file().chmod(0o444)
    with pytest.raises(SettingsReadOnly):
        home.uninstall()
    assert home.file().exists()


def test_an_agent_without_skills_is_refused(home: Home) -> None:
    with pytest.raises(AgentWithout):
        home.install("ah")


def test_the_skill_has_what_every_client_reads_of_it_first() -> None:
    head, body = skill_text().removeprefix("---\n").split("\n---\n", 1)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert fields.keys() == {"name", "description"}
    assert fields["name"] == "backstory"
    # The limits of the format that the clients share.
    assert len(fields["description"]) <= 1024
    assert len(body.splitlines()) <= 500
