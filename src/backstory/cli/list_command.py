"""``backstory list``: the sessions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

from backstory.cli import output
from backstory.cli.filters import filter_options
from backstory.cli.list_remarks import report_elsewhere, report_runs, why_no_sessions
from backstory.cli.options import json_option, pick_option, readable, store_option
from backstory.cli.session_table import Shown, print_page
from backstory.store.sessions import Sort
from backstory.workspace import sessions
from backstory.workspace.sessions import Page, SessionFilter

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store.session_filter import SessionFilter as Chosen


FIRST_PAGE = 50
"""The most sessions that can be picked at once, while the others are read."""


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Every session on this machine, not only this project's.")
@filter_options
@click.option("--grep", "title", metavar="TITLE", help="Only sessions with this text in their name.")
@click.option("--sort", type=click.Choice(get_args(Sort)), help="The greatest first, not the last active.")
@click.option("--subagents", "--helpers", "subagents", is_flag=True, help="Also the sessions of subagents.")
@click.option("--unread", is_flag=True, help="Also stored files of an unknown format.")
@click.option("--limit", "-n", type=int, help="How many; 0 for all.  [default: 50]")
@pick_option
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, everything: bool, chosen: Chosen, title: str | None, sort: Sort | None, subagents: bool,
    unread: bool, limit: int | None, picks: bool, prints: bool, as_json: bool,
) -> None:  # fmt: skip
    """List this project's sessions, newest first (--all: every project).

    The mark is the outcome of the last turn: ✓ completed, ✗ failed, ■ cancelled, ! crashed; ● running. The cost
    includes subagents: $1.20 reported, ~$1.20 computed from tokens and prices, ≥ $1.20 at least that, – unknown.
    --since and --until: sessions that were active in that time. --sort time: how long their turns took.

    Into a pipe each session is one line, nothing cut, its fields separated by tabs: uid, number, title, agents,
    project, last active (UTC), outcome, turns, seconds, cost. Unknown ones are empty.

    With -i you pick one, in fzf if that is installed. Nothing picked is exit code 130.
    """
    app: App = ctx.obj
    limit = app.config.settings.list.limit if limit is None and not as_json else max(limit or 0, 0)
    wanted = SessionFilter(
        **chosen.shared,
        everywhere=everything,
        title=None if title is None else readable(title),
        subagents=subagents,
        unread=unread,
    )
    app.bring_up_to_date()
    if picks or prints:
        ctx.exit(_pick(app, wanted, prints=prints, as_json=as_json))
    page = app.reader.sessions(wanted, Page(limit=limit, sort=sort))
    report_runs(app.reader)
    if as_json:
        output.json([sessions.as_json(each) for each in page.sessions])
    else:
        report_elsewhere(app)
        if not page.sessions:
            output.talk(why_no_sessions(app, wanted))
            return
        shown = Shown(now=app.workspace.now(), everywhere=everything, sort=sort, limit=limit)
        print_page(page, shown)


def _pick(app: App, wanted: SessionFilter, *, prints: bool, as_json: bool) -> int:
    from backstory.cli.choices import session_choice
    from backstory.cli.picking import pick

    if as_json:
        raise click.UsageError("-i and --json exclude each other.")
    pages = app.reader.session_pages(wanted, app.config.settings.list.limit or FIRST_PAGE)
    return pick(app, ([session_choice(each) for each in page.sessions] for page in pages), prints=prints)


SESSIONS_SHOWN = 5
NEXT_STEPS = ("all: backstory list", "find: backstory search WORDS", "help: backstory help")


def print_overview(app: App) -> None:
    """Print the newest sessions of this project; where it has none why, and what to do."""
    app.bring_up_to_date()
    wanted = SessionFilter()
    page = app.reader.sessions(wanted, Page(limit=SESSIONS_SHOWN))
    report_runs(app.reader)
    report_elsewhere(app)
    if not page.sessions:
        output.talk(why_no_sessions(app, wanted))
        output.talk("Help: backstory help")
        return
    shown = Shown(now=app.workspace.now(), everywhere=False, sort=None, limit=SESSIONS_SHOWN)
    print_page(page, shown, NEXT_STEPS)
