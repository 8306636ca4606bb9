"""A timer of this machine that has new logs read: systemd's, launchd's or a line of the crontab, of its person alone.

It is shown before it is written, and what was there before is there again, byte for byte, once it is taken out. It
starts ``backstory ingest`` every hour, which ends by itself. Where the program is gone, nothing is started or said.
"""

from __future__ import annotations

import plistlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.errors import FileNotOurs, LineNotOurs, NoTimers, NotInstalled
from backstory.export.installed import TIMER, InstallNote, InstallNotes
from backstory.export.machine_program import answer_of, can_start, has_program, user_number
from backstory.export.rewriting import check_writable, found_file, missing_folders
from backstory.store.private import as_ours
from backstory.workspace.clients.crontab import CRONTAB, CronTimer
from backstory.workspace.clients.settings_change import (
    ADD,
    NONE,
    REMOVE,
    UPDATE,
    USER,
    SettingsChange,
    ShownEdit,
    perform,
    sha256_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backstory.export.rewriting import FoundFile
    from backstory.workspace.clients.agent_servers import ServerProgram

SYSTEMD, LAUNCHD = "systemd", "launchd"
NAME = "backstory-ingest"
"""The name of the timer, and of what it starts, for systemd."""
LABEL = "backstory.ingest"
"""The same for launchd."""
EVERY_S = 3600
BY_HAND = "it was switched off or removed by hand"
CONTROL = ("systemctl", "--user")
SERVICE = """\
[Unit]
Description=Keep what coding agents have logged
ConditionFileIsExecutable={program}

[Service]
Type=oneshot
{environ}ExecStart=-/usr/bin/env {words}
StandardOutput=null
StandardError=null
UMask=0077
Nice=10
"""
UNIT = """\
[Unit]
Description=Keep what coding agents have logged, every hour

[Timer]
OnCalendar=hourly
RandomizedDelaySec=10min
Persistent=true

[Install]
WantedBy=timers.target
"""


class TimerPlan(Struct, frozen=True, kw_only=True):
    """The change of a timer. ``action``: what is done of all, ``add``, ``update``, ``remove`` or ``none``.

    ``link``: what switches it on, and leads to the last file; ``before`` and ``after``: the commands by which the
    machine hears of it.
    """

    kind: str
    action: str
    changes: tuple[SettingsChange, ...]
    link: Path | None = None
    before: tuple[tuple[str, ...], ...] = ()
    after: tuple[tuple[str, ...], ...] = ()


class TimerState(Struct, frozen=True, kw_only=True):
    """A timer that was written from here. ``why``: the reason that it does nothing, '' where it works."""

    kind: str
    path: Path
    why: str = ""


class UserTimers:
    """The timers of one person. ``home``: ours; ``platform``: as ``sys.platform`` has it."""

    def __init__(self, home: Path, environ: Mapping[str, str], user_home: Path, platform: str) -> None:
        self._runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user_number()}"
        # Without it systemctl finds no manager, as after `su`.
        self._environ = {**environ, "XDG_RUNTIME_DIR": self._runtime}
        self._user_home, self._platform = user_home, platform
        self._home, self._notes = home, InstallNotes(home)
        self._cron = CronTimer(home, self._notes, environ)

    def plan_schedule(self, program: ServerProgram) -> TimerPlan:
        """Return the change that has this program started every hour; it does nothing if that is so already.

        Raises NoTimers, FileNotOurs, SettingsUnusable, SettingsReadOnly, InstallNoteUnreadable.
        """
        said = (*program.command, *program.environ.values())
        # systemd takes no program with quotes in its path, and what starts it then reads = as a variable.
        if "=" in program.command[0] or not all(each.isprintable() for each in said):
            raise NoTimers("A path of this program has characters that no timer can have")
        kind = next((note.agent for note in self._notes.all(TIMER)), None) or self._kind()
        if kind == CRONTAB:
            return _line_plan(self._cron.plan_schedule(program, self._entry(program)))
        files = self._files(kind, program)
        return self._plan(kind, tuple(self._written(kind, path, text, program) for path, text in files.items()))

    def plan_unschedule(self, program: ServerProgram) -> TimerPlan:
        """Return the change that takes the timer out. Raises NotInstalled, and what ``plan_schedule`` raises."""
        for kind in (SYSTEMD, LAUNCHD):
            files = {path: text for path, text in self._files(kind, program).items() if path.is_file()}
            if files:
                return self._plan(kind, tuple(self._removed(kind, path, text) for path, text in files.items()))
        noted = [note.agent for note in self._notes.all(TIMER)]
        if CRONTAB in noted or (not noted and self._cron_is_here() and self._cron.has_line()):
            return _line_plan(self._cron.plan_unschedule())
        if noted:
            # All of it was removed by hand.
            return TimerPlan(kind=noted[0], action=REMOVE, changes=())
        raise NotInstalled("timer", self._user_home)

    def perform(self, plan: TimerPlan) -> list[str]:
        """Make a change. Return what the machine did not take at once, in its words: it does at the next login.

        Raises NoTimers, SettingsChanged, SettingsReadOnly, CannotWrite, DiskFull.
        """
        if plan.kind == CRONTAB:
            self._cron.perform(plan.changes[0])
            return []
        refused = self._told(plan.before)
        is_going = plan.action == REMOVE
        try:
            if plan.link is not None and is_going:
                plan.link.unlink(missing_ok=True)
            for change in plan.changes:
                perform(change, self._notes)
            if plan.link is not None and not is_going and not plan.link.is_symlink():
                plan.link.parent.mkdir(parents=True, exist_ok=True)
                plan.link.symlink_to(plan.changes[-1].path)
        except OSError as failed:
            raise as_ours(plan.link or plan.changes[-1].path, failed) from failed
        if is_going:
            for note in self._notes.all(TIMER):
                self._notes.drop(TIMER, Path(note.path))
        return [*refused, *self._told(plan.after)]

    def states(self) -> Iterator[TimerState]:
        """Yield the timers that were written from here, each with what keeps it from working."""
        for note in self._notes.all(TIMER):
            path = Path(note.path)
            if note.agent == CRONTAB:
                with suppress(NoTimers):
                    yield TimerState(kind=CRONTAB, path=path, why=self._why_no_line() or self._why_dead(note))
            elif path.suffix != ".service":
                is_on = path.is_file() and (note.agent != SYSTEMD or _link(path).is_symlink())
                yield TimerState(kind=note.agent, path=path, why=self._why_dead(note) if is_on else BY_HAND)

    def _why_no_line(self) -> str:
        try:
            return "" if self._cron.has_line() else BY_HAND
        except LineNotOurs:
            # Whoever changed it knows of it.
            return ""

    def _why_dead(self, note: InstallNote) -> str:
        """Return the reason that a timer that is there does nothing, '' where it works."""
        program, home = str(note.entry.get("program", "")), str(note.entry.get("home", ""))
        if not can_start(program):
            return f"its program {program} is gone"
        return "" if home == str(self._home) else f"it imports into {home}, which is not this home"

    def _entry(self, program: ServerProgram) -> dict[str, object]:
        return {"program": program.command[0], "home": str(self._home)}

    def _cron_is_here(self) -> bool:
        return self._platform != "darwin" and has_program(CRONTAB, self._environ)

    def _told(self, commands: tuple[tuple[str, ...], ...]) -> list[str]:
        refused = []
        for words in commands:
            try:
                answer_of(words, self._environ)
            except NoTimers as said:
                refused.append(said.why)
        return refused

    def _kind(self) -> str:
        """Return what starts programs by the clock here. Raises NoTimers."""
        if self._platform == "darwin":
            return LAUNCHD
        if has_program(CONTROL[0], self._environ) and Path(self._runtime, "systemd").is_dir():
            return SYSTEMD
        if has_program(CRONTAB, self._environ):
            return CRONTAB
        raise NoTimers("This machine has neither systemd for its users nor crontab")

    def _files(self, kind: str, program: ServerProgram) -> dict[Path, str]:
        """The files of a timer with their text, the one that switches it on at last."""
        config = Path(self._environ.get("XDG_CONFIG_HOME") or self._user_home / ".config")
        units = config / "systemd" / "user"
        files = {units / f"{NAME}.service": _service(program), units / f"{NAME}.timer": UNIT}
        if kind == LAUNCHD:
            files = {self._user_home / "Library" / "LaunchAgents" / f"{LABEL}.plist": _plist(program)}
        # They stay where they were written, also when the folder of settings is another by now.
        noted = {Path(note.path).name: Path(note.path) for note in self._notes.all(TIMER)}
        return {noted.get(path.name, path): text for path, text in files.items()}

    def _plan(self, kind: str, changes: tuple[SettingsChange, ...]) -> TimerPlan:
        is_going, last = changes[0].action == REMOVE, changes[-1].path
        action = next((each.action for each in changes if each.action != NONE), NONE)
        if kind == LAUNCHD:
            domain = f"gui/{user_number()}"
            out, again = ("launchctl", "bootout", f"{domain}/{LABEL}"), ("launchctl", "bootstrap", domain, str(last))
            is_known = changes[0].action != ADD
            return TimerPlan(
                kind=kind,
                action=action,
                changes=changes,
                before=(out,) if is_known else (),
                after=() if is_going else (again,),
            )
        reload, name = (*CONTROL, "daemon-reload"), f"{NAME}.timer"
        if action == NONE and not _link(last).is_symlink():
            action = UPDATE
        return TimerPlan(
            kind=kind, action=action, changes=changes, link=_link(last),
            before=((*CONTROL, "stop", name),) if is_going else (),
            after=(reload,) if is_going else (reload, (*CONTROL, "start", name)),
        )  # fmt: skip

    def _written(self, kind: str, path: Path, text: str, program: ServerProgram) -> SettingsChange:
        found, note, data = self._found(path, text)
        action = NONE if found.data == data else ADD if found.data is None else UPDATE
        noted = InstallNote(
            what=TIMER, agent=kind, path=str(found.path), existed=False, sha256=sha256_of(data),
            entry=self._entry(program),
            folders=note.folders if note is not None and action != ADD else missing_folders(_link(path)),
        )  # fmt: skip
        edit = ShownEdit(line=1, removed=_lines(found), added=tuple(text.splitlines()))
        return SettingsChange(
            what=TIMER, agent=kind, scope=USER, path=path, action=action, found=found, data=data,
            edits=() if action == NONE else (edit,), note=noted, earlier=note,
        )  # fmt: skip

    def _removed(self, kind: str, path: Path, text: str) -> SettingsChange:
        found, note, _ = self._found(path, text)
        return SettingsChange(
            what=TIMER, agent=kind, scope=USER, path=path, action=REMOVE, found=found, data=None,
            edits=(ShownEdit(line=1, removed=_lines(found)),), earlier=note,
        )  # fmt: skip

    def _found(self, path: Path, text: str) -> tuple[FoundFile, InstallNote | None, bytes]:
        """A file as it is, the note about it, and what it shall be. Raises FileNotOurs."""
        found, data = found_file(path), text.encode()
        check_writable(found)
        note = self._notes.of(TIMER, found.path)
        if found.data not in (None, data) and not (note and note.sha256 == sha256_of(found.data or b"")):
            raise FileNotOurs(path)
        return found, note, data


def _line_plan(change: SettingsChange) -> TimerPlan:
    return TimerPlan(kind=CRONTAB, action=change.action, changes=(change,))


def _link(path: Path) -> Path:
    return path.parent / "timers.target.wants" / f"{NAME}.timer"


def _lines(found: FoundFile) -> tuple[str, ...]:
    return tuple((found.data or b"").decode("utf-8", "replace").splitlines())


def _service(program: ServerProgram) -> str:
    environ = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in program.environ.items())
    words = " ".join(_quoted(each).replace("$", "$$") for each in program.command)
    return SERVICE.format(program=program.command[0].replace("%", "%%"), environ=environ, words=words)


def _quoted(word: str) -> str:
    """A word as a unit has it, where % begins a name that systemd fills in."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _plist(program: ServerProgram) -> str:
    job = {
        "Label": LABEL, "ProgramArguments": list(program.command), "EnvironmentVariables": program.environ,
        "StartInterval": EVERY_S, "ProcessType": "Background", "LowPriorityIO": True, "Umask": 0o077,
    }  # fmt: skip
    return plistlib.dumps(job, sort_keys=False).decode()
