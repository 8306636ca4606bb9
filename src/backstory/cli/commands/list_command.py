"""``backstory list``: the sessions there are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, get_args

import click
from msgspec import Struct

from backstory.cli import output
from backstory.cli.options import (
    OneOf,
    filter_options,
    json_option,
    limit_option,
    more_elsewhere,
    pick_option,
    report_elsewhere,
    report_left_behind,
    report_runs,
    scope_options,
    store_option,
    why_no_sessions,
)
from backstory.cli.output import fact_lines
from backstory.derive import moments
from backstory.derive.moments import OUTCOMES, RUNNING
from backstory.derive.naming import NO_PROMPT, PRUNED
from backstory.store.tables.sessions import Sort
from backstory.workspace.history import sessions
from backstory.workspace.history.sessions import Page, SessionFilter
from backstory.workspace.runs.running import meter_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.workspace.history.sessions import ListedSession, SessionPage


@click.command("list")
@scope_options(everywhere=False)
@filter_options
@click.option("--sort", type=OneOf(get_args(Sort)), help="The greatest first, not the last active.")
@click.option("--subagents", "--helpers", "subagents", is_flag=True, help="Also the sessions of subagents.")
@click.option("--unread", is_flag=True, help="Also stored files of an unknown format.")
@limit_option("The most sessions listed; 0 for all.  [default: 50]", kind=int)
@pick_option
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, everywhere: bool, chosen: dict[str, Any], sort: Sort | None, subagents: bool,
    unread: bool, limit: int | None, picks: bool, prints: bool, as_json: bool,
) -> None:  # fmt: skip
    """List this project's sessions, newest first (--all: every project).

    The mark is the outcome of the last turn: ✓ completed, ✗ failed, ■ cancelled, ! crashed; ● running. The cost
    includes subagents: $1.20 reported, ~$1.20 computed from tokens and prices, ≥ $1.20 at least that, – unknown.
    --since and --until: sessions that were active in that time. --sort time: how long their turns took.

    Into a pipe each session is one line, nothing cut, its fields separated by tabs: uid, number, title, agents,
    project, last active (UTC), outcome, turns, seconds, cost. Unknown ones are empty.

    With -i you pick one, with a preview; what you type narrows the list. Nothing picked is exit code 130.
    """
    app: App = ctx.obj
    limit = app.config.settings.list.limit if limit is None and not as_json else max(limit or 0, 0)
    wanted = SessionFilter(
        **chosen,
        everywhere=everywhere,
        subagents=subagents,
        unread=unread,
    )
    if picks or prints:
        if as_json:
            raise click.UsageError("-i and --json exclude each other.")
        from backstory.cli.picker.picking import can_pick, pick

        if can_pick(prints=prints):
            ctx.exit(pick(app, wanted, sort=sort, prints=prints))
    app.bring_up_to_date()
    page = app.reader.sessions(wanted, Page(limit=limit, sort=sort))
    report_runs(app.reader)
    if as_json:
        output.json(sessions.page_as_json(page))
    else:
        report_elsewhere(app)
        if not everywhere:
            report_left_behind(app)
        if not page.sessions:
            output.talk(why_no_sessions(app, wanted))
            return
        elsewhere = more_elsewhere(app, wanted, page.total) if output.is_screen() else ""
        shown = ListOptions(now=app.workspace.now(), everywhere=everywhere, sort=sort, limit=limit, elsewhere=elsewhere)
        print_page(page, shown)


SESSIONS_SHOWN = 5
NEXT_STEPS = ("all: backstory list", "find: backstory search WORDS", "help: backstory help")


def open_overview(app: App) -> int:
    """Open the picker, or the screen, on a terminal, else print the newest sessions; returns the exit code.

    Raises ScreenNotInstalled, NoScreen where the setting asks for the screen.
    """
    if not (sys.stdout.isatty() and output.can_paint()):
        print_overview(app)
        return 0
    if app.config.settings.list.face == "tui":
        from backstory.cli.tui.opening import open_screen  # few people want it

        open_screen(app)
        return 0
    from backstory.cli.picker.picking import pick

    report_runs(app.reader)
    report_elsewhere(app)
    report_left_behind(app)
    return pick(app, SessionFilter(), if_none=0)


def print_overview(app: App) -> None:
    """Print the newest sessions of this project; where it has none why, and what to do."""
    app.bring_up_to_date()
    wanted = SessionFilter()
    page = app.reader.sessions(wanted, Page(limit=SESSIONS_SHOWN))
    report_runs(app.reader)
    report_elsewhere(app)
    report_left_behind(app)
    if not page.sessions:
        output.talk(why_no_sessions(app, wanted, "backstory list --all"))
        output.talk("Help: backstory help")
        return
    shown = ListOptions(now=app.workspace.now(), everywhere=False, sort=None, limit=SESSIONS_SHOWN)
    print_page(page, shown, NEXT_STEPS)


# the table ------------------------------------------------------------------------------------------------------------


ONE_LINE_COLUMNS = 100
"""A terminal that is narrower shows what stands beside the title in a second line."""
TITLE_COLUMNS_MAX = 120
TITLE_COLUMNS_LEAST = 30
"""If the title would have fewer columns, the last of the columns next to it is left out."""
PROJECT_COLUMNS, WIDE_PROJECT_COLUMNS, WIDE_COLUMNS = 16, 24, 140
"""A project's name has more room on a terminal of ``WIDE_COLUMNS``."""
GAP = "  "
CONTEXT = "context "
METER_LEAST = 10
"""A context's fill is shown from this percentage on."""


class ListOptions(Struct, frozen=True, kw_only=True):
    """The options of a list. ``now``: the time, in ms since 1970."""

    now: int
    everywhere: bool
    sort: Sort | None
    """The order of the list; None: by the time that sessions were last active."""
    limit: int
    elsewhere: str = ""
    """The number of those in other projects, in words."""


class _Row(Struct, frozen=True, kw_only=True):
    """A session as words. ``facts``: what stands beside the title; '' for what is unknown."""

    mark: str
    colour: str
    label: str
    title: str
    facts: tuple[str, ...]
    heading: str
    degree: str
    """The colour of how full its context is."""


def print_page(page: SessionPage, shown: ListOptions, next_steps: Sequence[str] = ()) -> None:
    """Print the sessions of a page, and how many more there are; on a terminal also what to do next."""
    if not sys.stdout.isatty():
        # Written at once: a write for each line takes longer than to make it.
        output.raw("".join("\t".join(fields(session)) + "\n" for session in page.sessions))
        if page.has_more:
            output.talk(f"{len(page.sessions):,} of {page.total:,} sessions; all: --limit 0")
        return
    output.pages(_screen(page, shown, next_steps))


def fields(session: ListedSession) -> tuple[str, ...]:
    """The fields of a line for programs, in an order that stays; '' for what is unknown.

    uid, number, title, agents, project, when it was last active (ISO 8601, UTC), outcome, turns, seconds, cost.
    """
    seconds = "" if not session.duration_ms else f"{session.duration_ms / 1000:.1f}"
    texts = (
        session.uid, session.number or "", _title(session), ",".join(session.agents), session.project_name,
        output.iso(session.last_active) or "", RUNNING if session.is_running else session.outcome or "",
        str(session.turns), seconds, session.cost.known,
    )  # fmt: skip
    return tuple(output.clean(" ".join(text.split())) for text in texts)


def _screen(page: SessionPage, shown: ListOptions, next_steps: Sequence[str]) -> Iterator[str]:
    rows = [_row(each, shown) for each in page.sessions]
    lines = _one_line_each(rows) if output.width() >= ONE_LINE_COLUMNS else _two_lines_each(rows)
    heading = ""
    for row, line in zip(rows, lines, strict=True):
        if row.heading != heading:
            heading = row.heading
            yield output.style(heading, bold=True)
        yield line
    yield from _foot(page, next_steps or _next_steps(page, shown))


def _row(session: ListedSession, shown: ListOptions) -> _Row:
    mark, colour = OUTCOMES.get(RUNNING if session.is_running else session.outcome or "", (" ", ""))
    when = moments.when if shown.sort else moments.when_below_heading
    full, degree = meter_words(session.meter, METER_LEAST)
    about = {
        "origin": ", ".join(filter(None, (session.origin, PRUNED if session.pruned else ""))),
        "agent": _cleaned(", ".join(session.agents)),
        "active": "running" if session.is_running else when(session.last_active, shown.now),
        "project": _project(session.project_name) if shown.everywhere else "",
        "turns": output.counted(session.turns, "turn") if session.turns else "",
        "cost": session.cost.known,
        "time": output.duration(session.duration_ms),
        "tokens": _tokens(session) if shown.sort == "tokens" else "",
        "context": f"{CONTEXT}{full}" if full else "",
    }
    # What does not fit is left out from the end.
    order = sorted(about, key=lambda name: name not in ("origin", "agent", "active", shown.sort))
    facts = tuple(about[name] for name in order)
    return _Row(
        mark=mark, colour=colour, label=session.label, title=session.heading or NO_PROMPT, facts=facts,
        heading="" if shown.sort else moments.heading_of(session.last_active, shown.now), degree=degree,
    )  # fmt: skip


def _tokens(session: ListedSession) -> str:
    if session.tokens is None:
        return f"{output.UNKNOWN} tokens"
    least = "≥ " if session.partial_tokens else ""
    return f"{least}{output.counted(session.tokens, 'token')}"


def _one_line_each(rows: Sequence[_Row]) -> Iterator[str]:
    labels = max((output.columns(row.label) for row in rows), default=0)
    wanted = max((output.columns(row.title[: 2 * TITLE_COLUMNS_MAX]) for row in rows), default=0)
    widths = [max(map(output.columns, column)) for column in zip(*(row.facts for row in rows), strict=True)]
    kept = [n for n, wide in enumerate(widths) if wide]
    room = _title_room(labels, [widths[n] for n in kept])
    while room < min(wanted, TITLE_COLUMNS_LEAST) and kept:
        kept.pop()
        room = _title_room(labels, [widths[n] for n in kept])
    room = min(room, wanted, TITLE_COLUMNS_MAX)
    for row in rows:
        title = output.padded(output.one_line(row.title, room), room)
        last = max((n for n in kept if row.facts[n]), default=-1)
        facts = [
            _fact(row, row.facts[n] + " " * (widths[n] - output.columns(row.facts[n]) if n < last else 0))
            for n in kept
            if n <= last
        ]
        yield f"{_head(row, labels)}{GAP}{title}{GAP}{GAP.join(facts)}".rstrip()


def _fact(row: _Row, text: str) -> str:
    return output.style(text, fg=row.degree) if text.startswith(CONTEXT) else output.style(text, dim=True)


def _title_room(labels: int, widths: Sequence[int]) -> int:
    return output.width() - 3 - labels - len(GAP) - sum(wide + len(GAP) for wide in widths)


def _two_lines_each(rows: Sequence[_Row]) -> Iterator[str]:
    """The title in the first line, the rest below it as far as it fits."""
    labels = max((output.columns(row.label) for row in rows), default=0)
    room = output.width() - 3 - labels - len(GAP)
    # A long id leaves a narrow terminal too little: what stands below the title begins below the id.
    margin = 3 + (labels + len(GAP) if room >= TITLE_COLUMNS_LEAST else 0)
    for row in rows:
        below = next(iter(fact_lines(row.facts, output.width() - margin)), "")
        second = f"\n{' ' * margin}{output.style(below, dim=True)}" if below else ""
        yield f"{_head(row, labels)}{GAP}{output.one_line(row.title, max(room, 8))}{second}"


def _head(row: _Row, labels: int) -> str:
    mark = output.style(row.mark, fg=row.colour) if row.colour else row.mark
    return f" {mark} {output.padded(output.ident(row.label), labels)}"


def _foot(page: SessionPage, next_steps: Sequence[str]) -> Iterator[str]:
    """Yield the number of sessions, and next steps."""
    count = f"{len(page.sessions):,} of {page.total:,}" if page.has_more else output.counted(page.total, "session")
    yield ""
    for line in fact_lines((count, *next_steps), output.width() - 1):
        yield f" {output.style(line, dim=True)}"


def _next_steps(page: SessionPage, shown: ListOptions) -> Sequence[str]:
    more = f"more: --limit {4 * shown.limit}" if page.total > 4 * shown.limit else "all: --limit 0"
    return (
        more if page.has_more else "",
        shown.elsewhere,
        f"open: backstory show {page.sessions[0].label}",
    )


def _title(session: ListedSession) -> str:
    return f"{session.origin_mark}{session.pruned_mark}{session.heading or NO_PROMPT}"


def _project(name: str) -> str:
    """A project's name; without its owner where that leaves no room for the name itself."""
    room = PROJECT_COLUMNS if output.width() < WIDE_COLUMNS else WIDE_PROJECT_COLUMNS
    named = name if output.columns(name) <= room else name.rpartition("/")[2]
    return output.one_line(named, room)


def _cleaned(text: str) -> str:
    return output.clean(" ".join(text.split()))
