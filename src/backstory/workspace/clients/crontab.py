"""A line of ours in a person's crontab, which only the program ``crontab`` reads and writes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.agents.text_edit import TextEdit, applied
from backstory.errors import NotInstalled, SettingsChanged
from backstory.export.installed import TIMER, InstallNote
from backstory.export.machine_program import answer_of
from backstory.export.rewriting import FoundFile
from backstory.workspace.clients.settings_change import ADD, NONE, REMOVE, UPDATE, USER, SettingsChange, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.export.installed import InstallNotes
    from backstory.workspace.clients.agent_servers import ServerProgram
    from backstory.workspace.clients.settings_change import ShownEdit

CRONTAB = "crontab"
TABLE = Path(CRONTAB)
"""The name of the table in changes and notes: its real place is no business of ours."""
MARK = "# backstory"
MINUTE = 17
"""The minute of each hour: not the one that everybody takes."""
NO_TABLE = 1
"""The exit code of ``crontab -l`` where a person has none."""


class CronTimer:
    """The crontab of one person."""

    def __init__(self, notes: InstallNotes, environ: Mapping[str, str]) -> None:
        self._notes, self._environ = notes, environ

    def plan_schedule(self, program: ServerProgram) -> SettingsChange:
        """Return the change that adds our line, or brings it up to date. Raises NoTimers, InstallNoteUnreadable."""
        found, note = self._found(), self._note()
        text = _text(found)
        cut = _cut(text, note)
        rest = applied(text, cut)
        end = "" if not rest or rest.endswith("\n") else "\n"
        inserted = f"{end}{line_of(program)}\n"
        if cut and note is not None and note.inserted == inserted:
            return _change(found, NONE, text, note=note, earlier=note)
        noted = InstallNote(
            what=TIMER, agent=CRONTAB, path=str(TABLE), existed=bool(rest), inserted=inserted,
            entry={"command": program.command},
        )  # fmt: skip
        add = TextEdit(len(rest), len(rest), inserted)
        return _change(
            found, UPDATE if cut else ADD, applied(rest, [add]), note=noted, earlier=note,
            edits=(*shown(text, cut), *shown(rest, [add])),
        )  # fmt: skip

    def plan_unschedule(self) -> SettingsChange:
        """Return the change that takes our line out. Raises NoTimers, NotInstalled, InstallNoteUnreadable."""
        found, note = self._found(), self._note()
        text = _text(found)
        if not (cut := _cut(text, note)):
            raise NotInstalled("line of backstory", TABLE)
        return _change(found, REMOVE, applied(text, cut), earlier=note, edits=shown(text, cut))

    def perform(self, change: SettingsChange) -> None:
        """Have the table be what was planned. Raises NoTimers, SettingsChanged where it is not as it was found."""
        if change.action == NONE:
            return
        if self._found() != change.found:
            raise SettingsChanged(TABLE)
        words = (CRONTAB, "-r") if change.data is None else (CRONTAB, "-")
        if change.note is None:
            answer_of(words, self._environ, given=change.data or b"")
            self._notes.drop(TIMER, TABLE)
            return
        with self._notes.kept(change.note, change.earlier):
            answer_of(words, self._environ, given=change.data or b"")

    def problem(self) -> str:
        """Return the reason that the line that was noted does nothing, '' where it is there. Raises NoTimers."""
        is_there = bool(_cut(_text(self._found()), self._note()))
        return "" if is_there else "its line is not in the crontab any more"

    def _note(self) -> InstallNote | None:
        return self._notes.of(TIMER, TABLE)

    def _found(self) -> FoundFile:
        return FoundFile(TABLE, answer_of((CRONTAB, "-l"), self._environ, none=NO_TABLE))


def line_of(program: ServerProgram) -> str:
    """Our line: it says nothing, and does nothing where the program is gone.

    >>> from backstory.workspace.clients.agent_servers import ServerProgram
    >>> line_of(ServerProgram(command=("/a b/bs", "ingest"), environ={"BACKSTORY_HOME": "/c"}))
    "17 * * * * test -x '/a b/bs' && BACKSTORY_HOME=/c '/a b/bs' ingest >/dev/null 2>&1 # backstory"
    """
    environ = "".join(f"{name}={shlex.quote(value)} " for name, value in program.environ.items())
    command = f"test -x {shlex.quote(program.command[0])} && {environ}{shlex.join(program.command)} >/dev/null 2>&1"
    # For cron an unescaped % is the end of a line.
    escaped = command.replace("%", "\\%")
    return f"{MINUTE} * * * * {escaped} {MARK}"


def _text(found: FoundFile) -> str:
    return (found.data or b"").decode("utf-8", "surrogateescape")


def _cut(text: str, note: InstallNote | None) -> tuple[TextEdit, ...]:
    """The edit that takes out what was inserted; none where it is not there as it was written."""
    start = text.find(note.inserted) if note is not None else -1
    return () if note is None or start < 0 else (TextEdit(start, start + len(note.inserted)),)


def _change(
    found: FoundFile, action: str, text: str, *, note: InstallNote | None = None, earlier: InstallNote | None = None,
    edits: tuple[ShownEdit, ...] = (),
) -> SettingsChange:  # fmt: skip
    return SettingsChange(
        what=TIMER, agent=CRONTAB, scope=USER, path=TABLE, action=action, found=found,
        data=text.encode("utf-8", "surrogateescape") or None, edits=edits, note=note, earlier=earlier,
    )  # fmt: skip
