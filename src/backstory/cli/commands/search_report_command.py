"""``backstory report search``: what a search finds, by repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import limit_option, not_searched, why_no_sessions
from backstory.cli.remote_reports import without_team
from backstory.cli.report_options import print_report, report_options
from backstory.workspace.history.sessions import SessionFilter

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.cli.report_options import Form, ReportQuestion


MARKER = "BACKSTORY_RUN"
"""Names the run that asks, whose own session is no answer."""


@click.command("search", short_help="Find sessions by words, grouped by repository.")
@limit_option("The most sessions listed.", default=20)
@report_options
@without_team("The team's server is searched by `backstory search WORDS --remote`. For this report")
@click.pass_context
def command(ctx: click.Context, limit: int, asked: ReportQuestion, form: Form) -> None:
    """Find sessions by WORDS, grouped by repository, each with the command that continues it.

    Of all time, in every project. `backstory search` has more ways to search, and shows every hit.
    """
    if not asked.words:
        raise click.UsageError("Missing argument 'WORDS...': what to look for.")
    from backstory.chronicle import search
    from backstory.workspace.history.searching import SearchQuery, left_out, nothing_found

    app: App = ctx.obj
    query = SearchQuery(
        **asked.chosen, text=asked.words, here=asked.here, limit=limit, asking_run=app.environ.get(MARKER)
    )
    app.bring_up_to_date()
    found = search.search_report(app.reader, query)
    if form.explain:
        output.data(search.RULE)
        for name, sql in search.queries(found).items():
            output.data(f"\n-- {name}\n{sql};")
        return
    for remark in left_out(found.coverage):
        output.talk(remark)
    for typed, searched in found.instead:
        output.talk(f"Nothing has {typed!r}; searched for {searched!r}.")
    if not any(store.exists for store in app.stores):
        output.talk(why_no_sessions(app, SessionFilter()))
    elif not found.places:
        following = not_searched(app, query) or "What was worked on: backstory report standup"
        output.talk(f"{nothing_found(asked.words)} {following}. If sessions are missing: backstory reindex")
    if found.places or form.json:
        print_report(
            app, form, found, as_json=search.as_json, drawn=search.report,
            kind="an answer to what was searched for, by repository",
        )  # fmt: skip
        if output.is_screen() and not (form.json or form.markdown or query.tool) and (more := not_searched(app, query)):
            output.talk(more)
    if not found.places:
        ctx.exit(1)
