"""``backstory report recap``: one session in short."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import find, session_argument
from backstory.cli.report_options import form_options, print_queries, print_report

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.cli.report_options import Form
    from backstory.workspace.located import LocatedSession


@click.command("recap", short_help="Sum up one session: what was asked, and what came of it.")
@session_argument
@form_options
@click.pass_obj
def command(app: App, session: str | None, form: Form) -> None:
    """Sum up SESSION: what was asked and what came of it, its summaries, how it ended, what is open.

    SESSION is S3, a name, or the start of a uid; default: the one running here, else the one last active
    that did not phrase a report.
    """
    app.bring_up_to_date()
    found = find(app, session, running_first=True, is_work=True, has_heading=not (form.explain or form.json))
    if form.explain:
        _explain(app, found)
        return
    from backstory.chronicle import recap

    print_report(
        app, form, recap.recap(app.reader, found), as_json=recap.as_json, drawn=recap.report,
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
