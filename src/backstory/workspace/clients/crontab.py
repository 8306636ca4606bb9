"""A line of ours in a person's crontab, which only the program ``crontab`` reads and writes."""

from __future__ import annotations

import re
import shlex
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.agents.text_edit import TextEdit, applied
from backstory.errors import LineNotOurs, SettingsChanged
from backstory.export.installed import TIMER, InstallNote
from backstory.export.machine_program import answer_of
from backstory.export.rewriting import FoundFile
from backstory.workspace.clients.settings_change import ADD, NONE, REMOVE, UPDATE, USER, SettingsChange, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backstory.export.installed import InstallNotes
    from backstory.workspace.clients.agent_servers import ServerProgram
    from backstory.workspace.clients.settings_change import ShownEdit

CRONTAB = "crontab"
TABLE = Path(CRONTAB)
"""The name of the table in changes and notes: its real place is no business of ours."""
MINUTE = 17
"""The minute of each hour: not the one that everybody takes."""
NO_TABLE = ("no crontab", "No such file")
"""Words of ``crontab -l`` where a person has none."""
HEAD, TAIL = f"{MINUTE} * * * * test -x ", " >/dev/null 2>&1 "


class CronTimer:
    """The crontab of one person, for one home of ours."""

    def __init__(self, home: Path, notes: InstallNotes, environ: Mapping[str, str]) -> None:
        self._notes, self._environ, self._mark = notes, environ, mark_of(home)

    def plan_schedule(self, program: ServerProgram, entry: dict[str, object]) -> SettingsChange:
        """Return the change that adds our line, or brings it up to date; ``entry`` is noted.

        Raises NoTimers, LineNotOurs, InstallNoteUnreadable.
        """
        found, note = self._found(), self._note()
        text, line = _text(found), line_of(program, self._mark)
        cuts = self._cuts(text)
        rest = applied(text, cuts)
        end = "" if not rest or rest.endswith("\n") else "\n"
        inserted = f"{end}{line}\n"
        is_there = [text[each.start : each.end] for each in cuts] == [f"{line}\n"]
        existed = note.existed if note is not None and cuts else found.data is not None
        if is_there and note is not None:
            inserted = note.inserted
        noted = InstallNote(what=TIMER, agent=CRONTAB, path=str(TABLE), existed=existed, inserted=inserted, entry=entry)
        if is_there:
            return _change(found, NONE if note == noted else UPDATE, text, note=noted, earlier=note)
        add = TextEdit(len(rest), len(rest), inserted)
        return _change(
            found, UPDATE if cuts else ADD, applied(rest, [add]), note=noted, earlier=note,
            edits=(*shown(text, cuts), *shown(rest, [add])),
        )  # fmt: skip

    def plan_unschedule(self) -> SettingsChange:
        """Return the change that takes our line out, and what is noted of it. Raises as ``plan_schedule``."""
        found, note = self._found(), self._note()
        text = _text(found)
        cuts = list(self._cuts(text))
        if cuts and cuts[-1].end == len(text) and note is not None and note.inserted.startswith("\n"):
            # The table had no end of its last line.
            cuts[-1] = TextEdit(cuts[-1].start - 1, cuts[-1].end)
        return _change(found, REMOVE, applied(text, cuts), earlier=note, edits=shown(text, cuts))

    def perform(self, change: SettingsChange) -> None:
        """Have the table be what was planned. Raises NoTimers, SettingsChanged where it is not as it was found."""
        if change.action == NONE:
            return
        if self._found() != change.found:
            raise SettingsChanged(TABLE)
        if change.note is None:
            self._write(change)
            self._notes.drop(TIMER, TABLE)
            return
        with self._notes.kept(change.note, change.earlier):
            self._write(change)

    def has_line(self) -> bool:
        """True if a line of ours is in the table, as it was written. Raises NoTimers, LineNotOurs."""
        return len(self._cuts(_text(self._found()))) > 0

    def _write(self, change: SettingsChange) -> None:
        if change.data != change.found.data:
            words = (CRONTAB, "-r") if change.data is None else (CRONTAB, "-")
            answer_of(words, self._environ, given=change.data or b"")

    def _cuts(self, text: str) -> tuple[TextEdit, ...]:
        """Return the edits that take out every line of ours. Raises LineNotOurs for one that somebody changed."""
        note = self._note()
        # A home that moved has the line of the folder where it was.
        marks = {self._mark, *([] if note is None else [mark_of(Path(str(note.entry.get("home"))))])}
        cuts, at = list[TextEdit](), 0
        for line in re.findall(r"[^\n]*\n|[^\n]+", text):
            bare = line.rstrip("\n")
            if bare.startswith(HEAD) and bare.endswith(tuple(TAIL + each for each in marks)):
                cuts.append(TextEdit(at, at + len(line)))
            elif any(each in bare for each in marks):
                raise LineNotOurs(bare)
            at += len(line)
        return tuple(cuts)

    def _note(self) -> InstallNote | None:
        return self._notes.of(TIMER, TABLE)

    def _found(self) -> FoundFile:
        return FoundFile(TABLE, answer_of((CRONTAB, "-l"), self._environ, none=NO_TABLE))


def mark_of(home: Path) -> str:
    """The end of the line of a home of ours, by which it is known again."""
    return f"# backstory {sha256(bytes(home)).hexdigest()[:8]}"


def line_of(program: ServerProgram, mark: str) -> str:
    """Our line: it says nothing, and does nothing where the program is gone.

    >>> from backstory.workspace.clients.agent_servers import ServerProgram
    >>> line_of(ServerProgram(command=("/a b/bs", "ingest"), environ={"BACKSTORY_HOME": "/c"}), "# backstory 12")
    "17 * * * * test -x '/a b/bs' && BACKSTORY_HOME=/c '/a b/bs' ingest >/dev/null 2>&1 # backstory 12"
    """
    environ = "".join(f"{name}={shlex.quote(value)} " for name, value in program.environ.items())
    command = f"{shlex.quote(program.command[0])} && {environ}{shlex.join(program.command)}"
    # For cron an unescaped % is the end of a line.
    return HEAD + command.replace("%", "\\%") + TAIL + mark


def _text(found: FoundFile) -> str:
    return (found.data or b"").decode("utf-8", "surrogateescape")


def _change(
    found: FoundFile, action: str, text: str, *, note: InstallNote | None = None, earlier: InstallNote | None = None,
    edits: Sequence[ShownEdit] = (),
) -> SettingsChange:  # fmt: skip
    data = text.encode("utf-8", "surrogateescape")
    existed = earlier.existed if earlier is not None else bool(data)
    return SettingsChange(
        what=TIMER, agent=CRONTAB, scope=USER, path=TABLE, action=action, found=found,
        data=data if data or (action == REMOVE and existed) else None, edits=tuple(edits), note=note, earlier=earlier,
    )  # fmt: skip
