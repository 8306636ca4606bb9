"""``backstory report recap``: one session in short."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from backstory.cli import output
from backstory.cli.options import find, session_argument
from backstory.cli.remote_reports import reading_one, team_options
from backstory.cli.report_options import form_options, print_queries, print_report

if TYPE_CHECKING:
    from backstory.chronicle.recap import Recap
    from backstory.cli.app import App
    from backstory.cli.remote_reports import TeamQuestion
    from backstory.cli.report_options import Form
    from backstory.workspace.located import LocatedSession


@click.command("recap", short_help="Sum up one session: what was asked, and what came of it.")
@session_argument
@form_options
@team_options
@click.pass_obj
def command(app: App, session: str | None, form: Form, team: TeamQuestion | None) -> None:
    """Sum up SESSION: what was asked and what came of it, its summaries, how it ended, what is open.

    SESSION is S3, a name, or the start of a uid; default: the one running here, else the one last active
    that did not phrase a report.
    """
    if team is not None:
        _remote(app, session, form, team)
        return
    app.bring_up_to_date()
    found = find(app, session, running_first=True, is_work=True, has_heading=not (form.explain or form.json))
    if form.explain:
        _explain(app, found)
        return
    from backstory.chronicle import recap

    _print(app, form, recap.recap(app.reader, found))


def _remote(app: App, session: str | None, form: Form, team: TeamQuestion) -> None:
    """Sum up a session that the server has. What to go on with is not here."""
    from backstory.chronicle import recap

    if session is None:
        raise click.UsageError("--remote needs a SESSION: a name, or the start of a uid.")
    with reading_one(app, team, session) as (source, found):
        whose = source.whose and source.whose(found.session.uid)
        _print(app, form, replace(recap.recap(source.reader, found), goes_on=(), whose=whose))


def _print(app: App, form: Form, found: Recap) -> None:
    from backstory.chronicle import recap

    print_report(
        app, form, found, as_json=recap.as_json, drawn=recap.report,
        kind="a recap of one session: what was asked, what came of it, how it ended and what is open",
    )  # fmt: skip


def _explain(app: App, found: LocatedSession) -> None:
    """Print the rule, and the SQL of what SQL can return of this session."""
    from backstory.chronicle.explain import standup_queries
    from backstory.chronicle.progress import explained
    from backstory.workspace.history.sessions import SessionFilter

    for line in explained():
        output.data(line)
    wanted = SessionFilter(uids=(found.session.uid,), everywhere=True)
    print_queries(standup_queries(app.reader, wanted, only_work=False))
