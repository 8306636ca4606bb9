"""Our skill among those of an agent's client: a file of its own, put there, brought up to date and removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backstory import agents
from backstory.errors import AgentWithout, FileNotOurs, NotInstalled
from backstory.export.installed import SKILL, InstallNote, InstallNotes
from backstory.export.rewriting import check_writable, found_file, missing_folders
from backstory.workspace.clients.settings_change import (
    ADD,
    NONE,
    PROJECT,
    REMOVE,
    UPDATE,
    SettingsChange,
    ShownEdit,
    perform,
    sha256_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.export.rewriting import FoundFile

NAME, FILE = "backstory", "SKILL.md"


def skill_text() -> str:
    """The skill, as an agent reads it."""
    return Path(__file__).with_name("skill.md").read_text("utf-8")


class AgentSkills:
    """The skills of one person's agents. ``project``: the folder that scope ``project`` is about."""

    def __init__(self, home: Path, environ: Mapping[str, str], user_home: Path, project: Path) -> None:
        self._environ, self._user_home, self._project = environ, user_home, project
        self._notes = InstallNotes(home)

    def plan_install(self, agent: str, scope: str) -> SettingsChange:
        """Return the change that adds the skill for an agent's client; an empty one if it is there.

        Raises UnknownAgent, AgentWithout, SettingsUnusable, SettingsReadOnly, FileNotOurs, InstallNoteUnreadable.
        """
        path, found, note = self._place(agent, scope)
        data = skill_text().encode()
        if found.data is not None and found.data != data and not _is_as_noted(found, note):
            raise FileNotOurs(path)
        action = NONE if found.data == data else ADD if found.data is None else UPDATE
        gone = (found.data or b"").decode("utf-8", "replace").splitlines()
        noted = InstallNote(
            what=SKILL, agent=agent, path=str(found.path), existed=False, sha256=sha256_of(data),
            folders=note.folders if note is not None and action == UPDATE else missing_folders(found.path),
        )  # fmt: skip
        edit = ShownEdit(line=1, removed=tuple(gone), added=tuple(data.decode().splitlines()))
        return SettingsChange(
            what=SKILL, agent=agent, scope=scope, path=path, action=action, found=found, data=data,
            edits=() if action == NONE else (edit,), note=noted, earlier=note,
        )  # fmt: skip

    def plan_uninstall(self, agent: str, scope: str) -> SettingsChange:
        """Return the change that removes the skill. Raises NotInstalled, and what ``plan_install`` raises."""
        path, found, note = self._place(agent, scope)
        if found.data is None:
            raise NotInstalled(FILE, path.parent)
        if found.data != skill_text().encode() and not _is_as_noted(found, note):
            raise FileNotOurs(path)
        return SettingsChange(
            what=SKILL, agent=agent, scope=scope, path=path, action=REMOVE, found=found, data=None, earlier=note
        )

    def perform(self, change: SettingsChange) -> None:
        """See ``settings_change.perform``."""
        perform(change, self._notes)

    def _place(self, agent: str, scope: str) -> tuple[Path, FoundFile, InstallNote | None]:
        part = agents.load(agent).skills
        if part is None:
            raise AgentWithout(agent, "skills", agents.with_part("skills"))
        project = self._project if scope == PROJECT else None
        path = part.folder(self._environ, self._user_home, project) / NAME / FILE
        found = found_file(path, project)
        check_writable(found)
        return path, found, self._notes.of(SKILL, found.path)


def _is_as_noted(found: FoundFile, note: InstallNote | None) -> bool:
    """Return True if a file is one that was written from here, to the last byte."""
    return note is not None and found.data is not None and sha256_of(found.data) == note.sha256
