"""Our MCP server in the settings of an agent's client: added, brought up to date and removed, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backstory import agents
from backstory.agents import json_text
from backstory.agents.entries import added, entry_in, has_table, removed, waiting, waiting_no_more
from backstory.agents.text_edit import NotEditable, applied
from backstory.errors import AgentWithout, EntryNotOurs, NotInstalled, SettingsUnusable
from backstory.export.installed import SERVER, InstallNote, InstallNotes
from backstory.export.rewriting import check_writable, found_file, missing_folders
from backstory.workspace.clients.settings_change import (
    ADD,
    NONE,
    PROJECT,
    REMOVE,
    UPDATE,
    SettingsChange,
    bytes_of,
    perform,
    shown,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from backstory.agents.contract import ServerFile, ServerPart
    from backstory.agents.text_edit import TextEdit
    from backstory.export.rewriting import FoundFile

NAME = "backstory"
"""The name of the server in settings."""
NOT_SHARED = "The entry names a path of this machine, so it is of no use to others who share this project."


class ServerProgram(Struct, frozen=True, kw_only=True):
    """The command by which a client starts the server, and variables beyond those that it gives every server."""

    command: tuple[str, ...]
    environ: dict[str, str]


class _Place(Struct, frozen=True, kw_only=True):
    """The place of an agent's entry, and its present content."""

    agent: str
    scope: str
    part: ServerPart
    file: ServerFile
    found: FoundFile
    text: str
    present: tuple[Any] | None
    note: InstallNote | None


class AgentServers:
    """The settings of one person's agents. ``project``: the folder that scope ``project`` is about."""

    def __init__(self, home: Path, environ: Mapping[str, str], user_home: Path, project: Path) -> None:
        self._environ, self._user_home, self._project = environ, user_home, project
        self._notes = InstallNotes(home)

    def plan_install(self, agent: str, scope: str, program: ServerProgram) -> SettingsChange:
        """Return the change that adds the server to an agent's settings; an empty one if it is there.

        Raises UnknownAgent, AgentWithout, SettingsUnusable, SettingsReadOnly, EntryNotOurs, InstallNoteUnreadable.
        """
        place = self._place(agent, scope)
        entry = place.part.entry(program.command, program.environ)
        if place.present is None:
            return self._added(place, entry, ADD, place.text, ())
        (present,) = place.present
        if _starts_same(present, entry) and _has_environ(present, entry, place.note):
            return self._with_wait(place) or _nothing(place)
        if not (place.note and _starts_same(present, place.note.entry)) or present.keys() - place.note.entry.keys():
            raise EntryNotOurs(place.file.path, NAME)
        cut = _removed(place)
        return self._added(place, entry, UPDATE, applied(place.text, cut), cut)

    def plan_uninstall(self, agent: str, scope: str, program: ServerProgram) -> SettingsChange:
        """Return the change that removes the server from an agent's settings, as it was added.

        Raises NotInstalled, and what ``plan_install`` raises.
        """
        place = self._place(agent, scope)
        if place.present is None:
            raise NotInstalled(NAME, place.file.path)
        known = [place.part.entry(program.command, program.environ), *([place.note.entry] if place.note else [])]
        if not any(_starts_same(place.present[0], each) for each in known):
            raise EntryNotOurs(place.file.path, NAME)
        cut = (*waiting_no_more(place.text, place.note.wait if place.note else ""), *_removed(place))
        left = applied(place.text, cut)
        is_ours = place.note is not None and not place.note.existed and left.strip() in ("", "{}")
        return SettingsChange(
            what=SERVER, agent=agent, scope=scope, path=place.file.path, action=REMOVE, found=place.found,
            data=None if is_ours else bytes_of(left, place.found), edits=shown(place.text, cut), earlier=place.note,
        )  # fmt: skip

    def perform(self, change: SettingsChange) -> None:
        """See ``settings_change.perform``."""
        perform(change, self._notes)

    def _place(self, agent: str, scope: str) -> _Place:
        part = agents.load(agent).servers
        if part is None:
            raise AgentWithout(agent, "MCP servers", agents.with_part("servers"))
        project = self._project if scope == PROJECT else None
        file = part.file(self._environ, self._user_home, project)
        found = found_file(file.path, project)
        text = text_of(found, file.path)
        try:
            present = entry_in(text, file, NAME)
        except NotEditable as refused:
            raise SettingsUnusable(file.path, str(refused)) from refused
        check_writable(found)
        note = self._notes.of(SERVER, found.path)
        return _Place(
            agent=agent, scope=scope, part=part, file=file, found=found, text=text, present=present, note=note
        )

    def _with_wait(self, place: _Place) -> SettingsChange | None:
        """The line that has a client wait, for an entry that an earlier version added without one."""
        if place.note is None or place.note.wait or (wait := waiting(place.text, place.file)) is None:
            return None
        return SettingsChange(
            what=SERVER, agent=place.agent, scope=place.scope, path=place.file.path, action=UPDATE, found=place.found,
            data=bytes_of(applied(place.text, [wait]), place.found), edits=shown(place.text, [wait]),
            remarks=_remarks(place), note=replace(place.note, wait=wait.text), earlier=place.note,
        )  # fmt: skip

    def _added(
        self, place: _Place, entry: dict[str, Any], action: str, text: str, cut: tuple[TextEdit, ...]
    ) -> SettingsChange:
        """An entry added to a text, from which an earlier one was ``cut``."""
        try:
            wait = waiting(text, place.file)
            first = [wait] if wait is not None else []
            begun = applied(text, first)
            edit = added(begun, place.file, NAME, entry)
        except NotEditable as refused:
            raise SettingsUnusable(place.file.path, str(refused)) from refused
        before = place.note if cut else None
        kept = before.wait if before else ""
        note = InstallNote(
            what=SERVER, agent=place.agent, path=str(place.found.path), entry=entry, inserted=edit.text,
            existed=before.existed if before else place.found.data is not None,
            folders=before.folders if before else missing_folders(place.found.path),
            has_own_table=not has_table(text, place.file), wait=wait.text if wait is not None else kept,
        )  # fmt: skip
        return SettingsChange(
            what=SERVER, agent=place.agent, scope=place.scope, path=place.file.path, action=action, found=place.found,
            data=bytes_of(applied(begun, [edit]), place.found),
            edits=(*shown(place.text, cut), *shown(text, first), *shown(begun, [edit])), remarks=_remarks(place),
            note=note, earlier=place.note,
        )  # fmt: skip


def _removed(place: _Place) -> tuple[TextEdit, ...]:
    """Return the edits that take the present entry away. Raises SettingsUnusable."""
    inserted, with_table = (place.note.inserted, place.note.has_own_table) if place.note is not None else ("", False)
    try:
        return tuple(removed(place.text, place.file, NAME, inserted, with_table=with_table))
    except NotEditable as refused:
        raise SettingsUnusable(place.file.path, str(refused)) from refused


def _nothing(place: _Place) -> SettingsChange:
    return SettingsChange(
        what=SERVER, agent=place.agent, scope=place.scope, path=place.file.path, action=NONE, found=place.found,
        data=place.found.data, remarks=_remarks(place),
    )  # fmt: skip


def _remarks(place: _Place) -> tuple[str, ...]:
    title, found = agents.load(place.agent).title, []
    if not place.file.has_comments and json_text.has_extras(place.text):
        found.append(f"{title} reads plain JSON, and may refuse {place.file.path}: it has comments or stray commas.")
    if place.scope == PROJECT:
        found += [NOT_SHARED, *([place.file.remark] if place.file.remark else [])]
    return tuple(found)


def _starts_same(entry: Any, other: Mapping[str, Any]) -> bool:
    """Return True if an entry, of any form, starts what another one of ours starts."""
    return isinstance(entry, dict) and all(entry.get(key) == other.get(key) for key in ("command", "args"))


def _has_environ(present: Mapping[str, Any], entry: Mapping[str, Any], note: InstallNote | None) -> bool:
    """Return True if an entry has the variables it needs, and none of ours that it no longer needs, such as a home."""
    there, needed = _environ(present), _environ(entry)
    given = _environ(note.entry) if note is not None else {}
    is_outdated = any(name not in needed and there.get(name) == value for name, value in given.items())
    return needed.items() <= there.items() and not is_outdated


def _environ(entry: Mapping[str, Any]) -> dict[str, Any]:
    found = entry.get("env", {})
    return found if isinstance(found, dict) else {}
