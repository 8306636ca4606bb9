"""All that is ours on a machine, each with the way to take it out: files of ours go, files of others are as before.

What is in others' files is found by the notes about it, and where it is put by default. Nothing is opened for writing
until a person named it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import agents
from backstory.errors import BackstoryError, HomeInUse, NotInstalled, StoreBusy
from backstory.export.installed import SERVER, SKILL, InstallNotes
from backstory.export.rewriting import found_file, remove, rewrite
from backstory.lazy import lazy_regex
from backstory.projects import git, home_move
from backstory.projects.home_files import entries_of, files_of
from backstory.projects.registry import POINTERS, noted
from backstory.store import PROJECT_STORE
from backstory.store.file import backup
from backstory.store.private import as_ours
from backstory.workspace.clients.agent_servers import AgentServers
from backstory.workspace.clients.agent_skills import AgentSkills
from backstory.workspace.clients.settings_change import PROJECT, USER
from backstory.workspace.stores.home_moving import check_idle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backstory.export.rewriting import FoundFile
    from backstory.projects.registry import KnownProjects
    from backstory.workspace.clients.agent_servers import ServerProgram
    from backstory.workspace.clients.settings_change import SettingsChange
    from backstory.workspace.clients.timers import UserTimers

KINDS = ("timer", "mcp", "skill", "completion", "exclude", "store", "home")
"""The kinds of what is ours, in the order in which they are taken out: the notes about the first are in the last."""
PROFILES = (
    ".bashrc", ".bash_profile", ".profile", ".zshrc", ".config/fish/config.fish",
    ".config/fish/completions/backstory.fish", ".local/share/bash-completion/completions/backstory",
)  # fmt: skip
"""The files below a person's home in which shells look for completions."""
NAME = PROJECT_STORE.parts[0]
"""The folder of a project's store, which git is told to ignore."""
SIDES = tuple(name + side for name in ("", ".queue.db") for side in ("", "-journal", "-wal", "-shm"))
"""Behind the name of a store, the files that belong to it."""
_SOURCED = lazy_regex(
    r"(?m)^[ \t]*(?:(?:source|\.|eval)\b[^\n]*\bbackstory completion [a-z]+"
    r"|backstory completion fish[ \t]*\|[ \t]*source)[^\n]*(?:\n|\Z)"
)
"""A line of a shell's profile that has it complete our commands."""


class OwnThing(Struct, frozen=True, kw_only=True):
    """A thing of ours. ``about``: its agent, or what starts a timer.

    ``why``: the reason that it cannot be taken out, '' for none.
    """

    kind: str
    path: Path
    bytes: int
    about: str = ""
    why: str = ""


class MachineToLeave(Struct, frozen=True, kw_only=True):
    """A person's machine. ``folder``: the project that is left from; ``program``: the server that agents start."""

    home: Path
    user_home: Path
    environ: Mapping[str, str]
    folder: Path
    known: KnownProjects
    program: ServerProgram
    importing: ServerProgram
    """The program that a timer starts."""
    timers: UserTimers
    scripts: Sequence[str]
    """The completion scripts of shells, as they are printed."""

    def things(self) -> list[OwnThing]:
        """Return all that is ours, in the order in which it is taken out."""
        entries = [each for each, _ in self._entries()]
        return [*self._timers(), *entries, *self._completions(), *self._excludes(), *self._stores(), *self._home()]

    def take_out(self, thing: OwnThing) -> list[str]:
        """Take a thing out; return what is left where it was, because it is not ours.

        Raises HomeInUse, StoreBusy, SettingsChanged, SettingsReadOnly, CannotWrite.
        """
        match thing.kind:
            case "home":
                check_idle(thing.path, "removed")
                return home_move.remove_home(thing.path)
            case "store":
                check_idle(self.home, "removed", thing.path)
                return _remove_store(thing.path)
            case "timer":
                self.timers.perform(self.timers.plan_unschedule(self.importing))
            case "exclude":
                found = found_file(thing.path)
                _write(found, git.without_excluded(found.data or b"", NAME))
            case "completion":
                found = found_file(thing.path)
                _write(found, without_completion((found.data or b"").decode(), self.scripts).encode())
            case _:
                change = next(change for each, change in self._entries() if (each.kind, each.path) == _key(thing))
                if change is not None:
                    AgentServers(self.home, self.environ, self.user_home, self.folder).perform(change)
        return []

    def _entries(self) -> Iterator[tuple[OwnThing, SettingsChange | None]]:
        """Yield what agents' clients have of ours, each with the change that takes it out."""
        notes, seen = InstallNotes(self.home), set[tuple[str, Path]]()
        for kind, what, part in (("mcp", SERVER, "servers"), ("skill", SKILL, "skills")):
            paths = [(each.agent, Path(each.path)) for each in notes.all(what)]
            for agent in agents.with_part(part):
                above = {folder for name, path in paths if name == agent for folder in path.parents}
                places = [(USER, self.folder), *((PROJECT, each) for each in (self.folder, *sorted(above)))]
                for scope, project in places:
                    found = self._entry(kind, agent, scope, project, [path for _, path in paths])
                    if found is not None and _key(found[0]) not in seen:
                        seen.add(_key(found[0]))
                        yield found

    def _entry(
        self, kind: str, agent: str, scope: str, project: Path, known: Sequence[Path]
    ) -> tuple[OwnThing, SettingsChange | None] | None:
        servers = AgentServers(self.home, self.environ, self.user_home, project)
        skills = AgentSkills(self.home, self.environ, self.user_home, project)
        try:
            change = (
                servers.plan_uninstall(agent, scope, self.program)
                if kind == "mcp"
                else skills.plan_uninstall(agent, scope)
            )
        except NotInstalled:
            return None
        except BackstoryError as refused:
            # Without a note about it, it is somebody else's.
            path = next((each for each in known if str(each) in str(refused)), None)
            return None if path is None else (_thing(kind, path, 0, agent, str(refused)), None)
        size = len(change.found.data or b"") - len(change.data or b"")
        return _thing(kind, change.path, size, agent), change

    def _timers(self) -> Iterator[OwnThing]:
        """The timer, called by the file that switches it on. One that was removed by hand is none."""
        with suppress(NotInstalled):
            try:
                plan = self.timers.plan_unschedule(self.importing)
            except BackstoryError as refused:
                for state in self.timers.states():
                    yield _thing("timer", state.path, 0, state.kind, str(refused))
                return
            if not plan.changes:
                return
            size = sum(len(each.found.data or b"") - len(each.data or b"") for each in plan.changes)
            yield _thing("timer", plan.changes[-1].path, size, plan.kind)

    def _completions(self) -> Iterator[OwnThing]:
        for name in PROFILES:
            path = self.user_home / name
            with suppress(BackstoryError, UnicodeDecodeError):
                text = (found_file(path).data or b"").decode()
                if size := len(text.encode()) - len(without_completion(text, self.scripts).encode()):
                    yield _thing("completion", path, size)

    def _excludes(self) -> Iterator[OwnThing]:
        found = (git.exclude_file(folder) for folder in (*(each.parent.parent for each in self._noted()), self.folder))
        for path in dict.fromkeys(each for each in found if each is not None):
            with suppress(BackstoryError):
                data = found_file(path).data or b""
                if size := len(data) - len(git.without_excluded(data, NAME)):
                    yield _thing("exclude", path, size)

    def _stores(self) -> Iterator[OwnThing]:
        for path in self._noted():
            size = sum(each.stat().st_size for each in _files(path))
            yield _thing("store", path, size)

    def _noted(self) -> list[Path]:
        """The project stores of ours that are where they were last seen."""
        places = {Path(each.path): each.store_id for _, each in noted(self.home / POINTERS)}
        return [
            path for path, store_id in sorted(places.items()) if path.is_file() and self.known.is_ours(path, store_id)
        ]

    def _home(self) -> Iterator[OwnThing]:
        if units := files_of(self.home).units:
            entries = (self.home / entry.path for unit in units for entry in entries_of(self.home, unit))
            yield _thing("home", self.home, sum(each.lstat().st_size for each in entries if not each.is_dir()))


def without_completion(text: str, scripts: Sequence[str]) -> str:
    """A shell's profile without what has it complete our commands: a printed script, or the line that runs it.

    >>> without_completion("a\\nsource <(backstory completion bash)\\nb\\n", [])
    'a\\nb\\n'
    """
    for script in scripts:
        text = text.replace(f"{script}\n", "")
    return _SOURCED.sub("", text)


def _thing(kind: str, path: Path, size: int, about: str = "", why: str = "") -> OwnThing:
    return OwnThing(kind=kind, path=path, bytes=size, about=about, why=why)


def _key(thing: OwnThing) -> tuple[str, Path]:
    return thing.kind, thing.path


def _write(found: FoundFile, data: bytes) -> None:
    """Give a file its bytes from before; one that had none goes."""
    if data:
        rewrite(found, data, is_private=False)
    else:
        remove(found, [])


def _files(store: Path) -> list[Path]:
    beside = (store.with_name(store.name + side) for side in SIDES)
    return [each for each in beside if each.is_file()]


def _remove_store(path: Path) -> list[str]:
    """Remove a store and its files; return what else is in its folder. Raises HomeInUse."""
    try:
        backup.settle(path)
    except StoreBusy as refused:
        raise HomeInUse(path, "Another process has it open", done="removed") from refused
    except BackstoryError:
        pass  # One that cannot be read can be removed all the same.
    try:
        for each in _files(path):
            each.unlink()
    except OSError as refused:
        raise as_ours(path, refused) from refused
    with suppress(OSError):
        path.parent.rmdir()
    return sorted(each.name for each in path.parent.iterdir()) if path.parent.is_dir() else []
