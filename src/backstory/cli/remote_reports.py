"""Reports over what a team's server has, with what this machine has beside it: their options, and whom they ask."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstory.bounds import iso
from backstory.cli import output
from backstory.cli.report_options import print_where_there_is
from backstory.cli.views.counting import counting
from backstory.errors import ServerUnreachable, SessionAmbiguous
from backstory.lazy import lazy_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.chronicle.report import Report
    from backstory.cli import syncing
    from backstory.cli.app import App
    from backstory.cli.report_options import Form, ReportQuestion
    from backstory.sync import account as accounts
    from backstory.sync.account import Account
    from backstory.sync.remote import Remote
    from backstory.workspace.history.sessions import SessionFilter
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.reader import Reader
    from backstory.workspace.stores.report_store import PartPage, SessionPart
    from backstory.workspace.team_reader import SessionSources, Whose
else:
    accounts, syncing = lazy_module("backstory.sync.account"), lazy_module("backstory.cli.syncing")

T = TypeVar("T")

PATH = "/v1/session-parts"
PULL = "bring your sessions here with `backstory pull`, then ask without --remote"
NOT_THERE = {"path": "the files", "ref": "the refs", "tool": "the calls", "in_project": "the folders"}
"""The filters that ask for what the server does not give."""


class TeamQuestion(Struct, frozen=True, kw_only=True):
    """A question to a team's server. ``person``: of this one alone."""

    organisation: str | None
    person: str | None


_OPTIONS = (
    ("--remote", {"is_flag": True, "help": "Ask the team's server, too."}),
    ("--org", {"metavar": "NAME", "help": "With --remote: the organisation that you are logged in to."}),
    ("--person", {"metavar": "NAME", "help": "With --remote: only this person."}),
)


def team_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a report that a team's server may be asked for: the command receives them as ``team``."""

    @wraps(function)
    def with_team(*args: Any, remote: bool, org: str | None, person: str | None, **how: Any) -> Any:
        for name, value in (("--org", org), ("--person", person)):
            if value is not None and not remote:
                raise click.UsageError(f"{name} is about the team's server: add --remote.")
        team = TeamQuestion(organisation=org, person=person) if remote else None
        if team is not None and how["form"].explain:
            raise click.UsageError("--explain returns queries of the stores here, which the server is not asked by.")
        if team is not None and "asked" in how:
            _check(how["asked"])
        return function(*args, team=team, **how)

    return _with_options(with_team, is_hidden=False)


def without_team(why: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have a report refuse the same options. ``why``: a sentence without its end."""

    def with_refusal(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def refusing(*args: Any, remote: bool, org: str | None, person: str | None, **how: Any) -> Any:
            if remote or org is not None or person is not None:
                raise click.UsageError(f"{why}: {PULL}.")
            return function(*args, **how)

        return _with_options(refusing, is_hidden=True)

    return with_refusal


def _with_options(function: Callable[..., Any], *, is_hidden: bool) -> Callable[..., Any]:
    for name, how in reversed(_OPTIONS):
        function = click.option(name, **how, hidden=is_hidden)(function)
    return function


class ReportSource(Struct, frozen=True, kw_only=True):
    """The history that a report is made of: this machine's, or with a ``login`` also the server's.

    ``is_alone``: of the server's alone.
    """

    app: App
    reader: Reader
    whose: Callable[[str], Whose] | None = None
    login: Account | None = None
    sources: SessionSources | None = None
    is_alone: bool = False

    def print_where_there_is(self, wanted: SessionFilter) -> None:
        """Print where else there is history, when a report's time holds none."""
        if self.sources is None:
            print_where_there_is(self.app, wanted)
        else:
            output.talk("No sessions in this time: neither on the server nor here.")

    def wanted_here(self, wanted: SessionFilter) -> SessionFilter | None:
        """The sessions of a report that is of this machine alone."""
        return wanted if self.sources is None else None

    def drawn(self, draw: Callable[[T], Report]) -> Callable[[T], Report]:
        """Return a function that draws a report, with whom it is of below its title."""
        lead = self._lead()
        return (lambda found: replace(draw(found), lead=lead)) if lead else draw

    def _lead(self) -> str:
        found, login = self.sources, self.login
        if found is None or login is None:
            return ""
        people = output.counted(len(found.people), "person", "people")
        own = "" if self.is_alone else f", {output.counted(found.here, 'session')} only here"
        return f"{login.organisation}: {output.counted(found.there, 'session')} of {people} on the server{own}"

    def as_json(self, as_json: Callable[[T], dict[str, Any]]) -> Callable[[T], dict[str, Any]]:
        """Return a function that makes JSON of a report, with the same in front."""
        found, login = self.sources, self.login
        if found is None or login is None:
            return as_json
        said = {
            "organisation": login.organisation, "people_count": len(found.people), "there_count": found.there,
            "here_count": None if self.is_alone else found.here, "underived_count": found.waiting,
        }  # fmt: skip
        return lambda each: said | as_json(each)

    def say_what_is_missing(self, form: Form) -> None:
        """Print what the server cannot count yet."""
        if self.sources is not None and self.sources.waiting and not form.json:
            waiting, them = self.sources.waiting, "it" if self.sources.waiting == 1 else "them"
            output.talk(f"{output.counted(waiting, 'session')} not counted yet: the server derives {them} now.")


@contextmanager
def reading(app: App, team: TeamQuestion | None, wanted: SessionFilter, *, has_work: bool) -> Iterator[ReportSource]:
    """Give what a report is made of; with ``team`` the server is asked, with ``has_work`` also what was done.

    Raises UsageError, NotLoggedIn, ServerUnreachable, ServerRefused.
    """
    if team is None:
        yield ReportSource(app=app, reader=app.reader)
        return
    from backstory.workspace.team_reader import made_of

    own = _login(app, team)
    is_alone = team.person is not None and team.person != own.name
    question = {
        "person": team.person, "repository": wanted.repository, "since": iso(wanted.since),
        "until": iso(wanted.until), "work": has_work,
    }  # fmt: skip
    with syncing.remote(app, own) as remote:
        parts = _parts(remote, question)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "team.db"
        with made_of(parts, app.workspace, path, is_alone=is_alone, own_name=own.name) as reader:
            yield ReportSource(
                app=app, reader=reader, whose=reader.whose, login=own, sources=reader.sources(wanted),
                is_alone=is_alone,
            )  # fmt: skip


@contextmanager
def reading_one(app: App, team: TeamQuestion, words: str) -> Iterator[tuple[ReportSource, LocatedSession]]:
    """Give a session that the server has, and what a report on it is made of.

    Raises UsageError, NotLoggedIn, SessionAmbiguous, ServerUnreachable, ServerRefused.
    """
    from backstory.workspace.team_reader import made_of

    own = _login(app, team)
    with syncing.remote(app, own) as remote:
        found = remote.ask("GET", f"/v1/resolve?{urlencode({'words': words})}")
        if found["uid"] is None:
            raise SessionAmbiguous(words, [str(each["label"]) for each in found["candidates"]])
        page = _page(remote, f"/v1/sessions/{found['uid']}/parts", {"person": team.person})
    if any(each.figures is None for each in page.parts if each.uid == found["uid"]):
        raise click.ClickException("The server has yet to derive this session: ask again in a moment.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "team.db"
        with made_of(page.parts, app.workspace, path, is_alone=True, own_name=own.name) as reader:
            yield ReportSource(app=app, reader=reader, whose=reader.whose, login=own), reader.located(found["uid"])


def _login(app: App, team: TeamQuestion) -> Account:
    """The login, which is to the organisation that was named. Raises UsageError, NotLoggedIn."""
    own = accounts.account(app.home)
    if team.organisation is not None and team.organisation.casefold() != own.organisation.casefold():
        here = f"You are logged in to {own.organisation!r} at {own.address}, not to {team.organisation!r}"
        raise click.UsageError(f"{here}: leave --org out, or log in there.")
    return own


def _check(asked: ReportQuestion) -> None:
    if asked.words:
        raise click.UsageError(f"The server is asked for no words here: {PULL}.")
    for name, what in NOT_THERE.items():
        if asked.chosen.get(name) is not None:
            raise click.UsageError(f"The server does not give {what} of sessions that this filter asks for: {PULL}.")


def _parts(remote: Remote, question: dict[str, Any]) -> list[SessionPart]:
    from backstory.workspace.stores.report_store import all_parts

    with counting("Asking the team's server") as report:
        parts = list["SessionPart"]()
        for each in all_parts(lambda end: _page(remote, PATH, question | {"after": end})):
            parts.append(each)
            report(len(parts), None)
        return parts


def _page(remote: Remote, path: str, question: dict[str, Any]) -> PartPage:
    from backstory.sync.remote import NOT_OURS
    from backstory.workspace.stores.report_store import PartPage

    data = remote.receive(path, question)
    try:
        return msgspec.msgpack.decode(data, type=PartPage)
    except msgspec.MsgspecError as refused:
        raise ServerUnreachable(remote.address, NOT_OURS) from refused
