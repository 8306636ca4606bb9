"""``backstory chronicle search``: what a search finds, by repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.report_options import print_report, report_options

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.cli.report_options import Asked, Form

MARKER = "BACKSTORY_RUN"
"""Names the run that asks, whose own session is no answer."""


@click.command("search")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=20, help="How many sessions.", show_default=True)
@report_options
@click.pass_context
def command(ctx: click.Context, limit: int, asked: Asked, form: Form) -> None:
    """Find sessions by WORDS, grouped by repository, each with the command that continues it.

    Of all time, in every project. `backstory search` has more ways to search, and shows every hit.
    """
    if not asked.words:
        raise click.UsageError("Missing argument 'WORDS...': what to look for.")
    from backstory.chronicle import search
    from backstory.workspace.searching import SearchQuery, left_out

    app: App = ctx.obj
    query = SearchQuery(
        **asked.chosen.shared, text=asked.words, here=asked.here, limit=limit, asking_run=app.environ.get(MARKER)
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
    if not found.places:
        output.talk(
            f"Nothing found for {asked.words!r}. Try fewer or other words, `backstory chronicle standup` for what was "
            "worked on, or `backstory chronicle reindex` if sessions are missing."
        )
    if found.places or form.json:
        from backstory.cli.search_report_view import markdown_lines, text_lines

        print_report(
            app, form, found, as_json=search.as_json, text_lines=text_lines, markdown_lines=markdown_lines,
            kind="an answer to what was searched for, by repository",
        )  # fmt: skip
    if not found.places:
        ctx.exit(1)
