"""``backstory stats``: what agents did in numbers."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.options import (
    OneOf,
    filter_options,
    json_option,
    moment,
    print_elsewhere,
    report_elsewhere,
    report_runs,
    scope_options,
    store_option,
    why_no_sessions,
)
from backstory.cli.views.counting import counting
from backstory.errors import StoreNotFound
from backstory.workspace.history import stats
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import StatsQuery

if TYPE_CHECKING:
    from backstory.cli.app import App

TOOL = "tool"
GROUPS = ("day", "hour", "weekday", "project", "model", "agent", TOOL, "branch")


@click.command("stats")
@click.option("--by", type=OneOf(GROUPS), help="A line for each, and on a terminal a bar.")
@scope_options(everywhere=False)
@filter_options
@click.option("--room", is_flag=True, help="What takes the room in the store, each with the command that frees it.")
@click.option("--line", is_flag=True, help="One line about today, of every project, for a prompt or a status bar.")
@json_option
@store_option
@click.pass_obj
def command(
    app: App, by: str | None, everywhere: bool, chosen: dict[str, Any], line: bool, as_json: bool, room: bool
) -> None:
    """Sum up sessions: turns, tokens, cost, time worked.

    The filters choose sessions, as in list; --since and --until choose turns by when they began. A turn that several
    sessions hold counts once. Tokens and costs are with those of subagents. Time worked is how long turns took, without
    waiting for you. Costs: $1.20 reported, ~$1.20 computed, $1.20–$1.50 between, ≥ $1.20 at least, – unknown.
    --by tool counts calls. --line reads no logs. --room is of every session, with its subagents, by kind, project,
    agent and age.
    """
    if room:
        if by or line or chosen or everywhere:
            raise click.UsageError("--room is about every session: alone, or with --json.")
        _print_room(app, as_json=as_json)
        return
    wanted = SessionFilter(**chosen, everywhere=everywhere or line)
    if line:
        if by or as_json or not chosen.keys().isdisjoint(("since", "until")):
            raise click.UsageError("--line is about today, in one line: without --by, --json, --since and --until.")
        _print_line(app, wanted)
        return
    app.bring_up_to_date()
    if by == TOOL:
        _print_tools(app, wanted, as_json=as_json)
    else:
        _print_turns(app, StatsQuery(wanted=wanted, by=by), as_json=as_json)  # type: ignore[arg-type]


def _print_room(app: App, *, as_json: bool) -> None:
    from backstory.workspace.stores import rooms

    app.bring_up_to_date()
    if not any(each.exists for each in app.stores):
        raise StoreNotFound(app.home_store.path)
    with output.progress("Measuring") as note:
        found = rooms.measure(app.workspace, note)
    if as_json:
        output.json(rooms.as_json(found))
        return
    from backstory.cli.views.room_view import room_lines

    output.pages(room_lines(found))


def _print_line(app: App, wanted: SessionFilter) -> None:
    from msgspec.structs import replace

    today = replace(wanted, since=moment("today", datetime.now()))
    total = app.reader.stats(StatsQuery(wanted=today, is_estimated=False)).total
    facts = [f"today {output.counted(total.sessions, 'session')}", output.counted(total.turns, "turn")]
    facts += filter(None, [total.cost.known])
    if running := sum(run.is_running for run in app.reader.runs()):
        facts.append(f"{output.style('●', fg='green')} {running:,} running")
    output.data(" · ".join(facts))


def _print_turns(app: App, query: StatsQuery, *, as_json: bool) -> None:
    with counting("Counting turns") as report:
        found = app.reader.stats(query, report)
    _print_remarks(app, query, is_empty=not found.total.sessions, as_json=as_json)
    if as_json:
        output.json(stats.as_json(found))
    elif found.total.sessions:
        print_turns(found)
        print_elsewhere(app, query.wanted)


def print_turns(found: stats.Stats) -> None:
    """Print the sums, and what is not known of them."""
    from backstory.chronicle.cost import not_counted, stats_report
    from backstory.cli.views.report_view import section_lines

    output.pages(section_lines(stats_report(found)))
    if unknown := not_counted(found.total, found.summaries, found.undated):
        output.talk(unknown)


def _print_tools(app: App, wanted: SessionFilter, *, as_json: bool) -> None:
    query = StatsQuery(wanted=wanted)
    with counting("Counting calls") as report:
        found = app.reader.tool_stats(query, report)
    _print_remarks(app, query, is_empty=False, as_json=as_json)
    if as_json:
        output.json(stats.tools_as_json(found))
    elif found.tools:
        from backstory.chronicle.cost import tools_report
        from backstory.cli.views.report_view import section_lines

        output.pages(section_lines(tools_report(found)))
        print_elsewhere(app, query.wanted)
    else:
        is_empty = not app.reader.count(wanted)
        output.talk(why_no_sessions(app, wanted) if is_empty else "No tool was called in these sessions.")


def _print_remarks(app: App, query: StatsQuery, *, is_empty: bool, as_json: bool) -> None:
    report_runs(app.reader)
    if not as_json:
        report_elsewhere(app)
        if is_empty:
            output.talk(why_no_sessions(app, query.wanted))
