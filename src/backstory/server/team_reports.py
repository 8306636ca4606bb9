"""Reports over the sessions of an organisation: their parts, and the reader that the builders of ``chronicle`` take."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backstory.server.people import person_called
from backstory.server.reading import NOWHERE, Moment, TeamPlace, unknown_session
from backstory.store.private import make_private_folder
from backstory.workspace.opening import open_workspace
from backstory.workspace.stores.report_store import PartPage, SessionPart, all_parts
from backstory.workspace.team_reader import TeamReader, made_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg import Cursor

    from backstory.server.database import TeamDatabase
    from backstory.server.people import Caller

PARTS_AT_ONCE, PAGE_BYTES = 500, 8 * 1024 * 1024
"""The most parts of a page, and the bytes of them behind which it ends."""


class WantedParts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for the parts of sessions that were active since a time and created before another, the last active first.

    ``person``: a name. ``work``: with what was done in them. ``after``: the ``end`` of the page before.
    """

    person: str | None = None
    repository: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    work: bool = False
    after: str | None = None


class TeamReports:
    """Reports about what a caller may see. ``folder``: for files while a report is made."""

    def __init__(self, database: TeamDatabase, folder: Path) -> None:
        self._database, self._folder = database, folder

    def begin(self) -> None:
        """Remove what a kill left."""
        if self._folder.is_dir():
            shutil.rmtree(self._folder, ignore_errors=True)

    def one(self, caller: Caller, uid: str, person: str | None) -> PartPage:
        """Return the parts of a session and of its subagents, with what was done in them. Raises Refused."""
        with self._database.of(caller.tenant) as rows:
            number = None if person is None else person_called(rows, caller.tenant, person)
            found = rows.execute(
                _ONE, (caller.tenant, uid, *(caller.among,) * 2, number, number, *(caller.among,) * 2)
            ).fetchall()
            names = _names(rows, caller)
        if not found:
            raise unknown_session()
        return PartPage(_parts(found, names), None)

    @contextmanager
    def reader(self, caller: Caller, wanted: WantedParts) -> Iterator[TeamReader]:
        """Give a reader of these sessions, for the builders of ``chronicle`` and ``workspace.history.stats``.

        It answers ``stats_by``, ``session_costs``, ``sessions``, ``sessions_of`` and, with ``work``, ``work``:

            with reports.reader(caller, WantedParts(since=since, work=True)) as reader:
                report = standup.report(standup.standup(reader, SessionFilter(since=..., everywhere=True), nothing))

        What is asked of it must not begin earlier than ``wanted.since``. Questions about tools, files, refs and words
        of prompts find nothing. Raises Refused.
        """
        parts = list(all_parts(lambda end: self.page(caller, replace(wanted, after=end))))
        make_private_folder(self._folder)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            environ = {"BACKSTORY_HOME": folder, "HOME": folder}
            with (
                open_workspace(folder, environ) as workspace,
                made_of(parts, workspace, Path(folder) / "team.db", is_alone=True) as reader,
            ):
                yield reader

    def page(self, caller: Caller, wanted: WantedParts) -> PartPage:
        """Return a page of parts. Raises Refused."""
        behind = NOWHERE if wanted.after is None else TeamPlace.read(wanted.after).behind
        with self._database.of(caller.tenant) as rows:
            person = None if wanted.person is None else person_called(rows, caller.tenant, wanted.person)
            repository = wanted.repository and wanted.repository.strip("/").removesuffix(".git").lower()
            asked = (
                caller.tenant, caller.among, person, repository, wanted.since, wanted.until, wanted.work, *behind,
                PARTS_AT_ONCE + 1,
            )  # fmt: skip
            shown, has_more = _read(rows, asked)
            names = _names(rows, caller)
        end = str(TeamPlace.of(shown[-1])) if has_more else None
        return PartPage(_parts(shown, names), end)


def _read(rows: Cursor[Any], asked: tuple[Any, ...]) -> tuple[list[Any], bool]:
    """Return the rows of a page, and whether more follow. A part may be large, so not all are read before."""
    shown, size = list[Any](), 0
    rows.execute(_PARTS, asked)
    while some := rows.execute(_NEXT).fetchall():
        for row in some:
            if len(shown) == PARTS_AT_ONCE or size > PAGE_BYTES:
                return shown, True
            shown.append(row)
            size += sum(len(each or b"") for each in row[-2:])
    return shown, False


def _parts(found: Sequence[Any], names: Mapping[int, str]) -> list[SessionPart]:
    return [
        SessionPart(uid, names.get(person, ""), machine, events, figures, work)
        for person, uid, machine, _, events, figures, work in found
    ]


def _names(rows: Cursor[Any], caller: Caller) -> dict[int, str]:
    return dict(rows.execute("select id, name from person where tenant = %s", (caller.tenant,)).fetchall())


_PARTS = "declare part no scroll cursor for select * from session_parts(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_NEXT = "fetch 50 from part"
_ONE = """
with recursive family as (
  select s.tenant, s.person, s.uid, s.machine from session s
  where s.tenant = %s and s.uid collate "C" = %s and (%s::text[] is null or s.repository = any(%s))
    and (%s::bigint is null or s.person = %s)
  union select d.tenant, d.person, d.session, d.machine from family f
  join derivation d on d.tenant = f.tenant and d.person = f.person and d.parent = substr(f.uid, 11)
    and d.relation = 'subagent')
select s.person, s.uid, s.machine, s.last_active, s.events, d.figures, d.work
from family f join session s using (tenant, person, uid, machine)
left join derivation d on d.tenant = s.tenant and d.person = s.person and d.session = s.uid and d.machine = s.machine
where %s::text[] is null or s.repository = any(%s)
"""
