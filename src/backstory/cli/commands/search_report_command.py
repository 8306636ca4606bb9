"""``backstory report search``: what a search finds, by repository."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import limit_option, why_no_sessions
from backstory.cli.output import flowing, room_beside
from backstory.cli.report_options import print_report, report_options
from backstory.export.safe_markdown import plain
from backstory.workspace.history.sessions import SessionFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.chronicle.search import FoundPlace, FoundSession, SearchReport
    from backstory.cli.app import App
    from backstory.cli.report_options import Form, ReportQuestion


MARKER = "BACKSTORY_RUN"
"""Names the run that asks, whose own session is no answer."""


@click.command("search", short_help="Find sessions by words, grouped by repository.")
@limit_option("The most sessions listed.", default=20)
@report_options
@click.pass_context
def command(ctx: click.Context, limit: int, asked: ReportQuestion, form: Form) -> None:
    """Find sessions by WORDS, grouped by repository, each with the command that continues it.

    Of all time, in every project. `backstory search` has more ways to search, and shows every hit.
    """
    if not asked.words:
        raise click.UsageError("Missing argument 'WORDS...': what to look for.")
    from backstory.chronicle import search
    from backstory.workspace.history.searching import SearchQuery, left_out

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
    if not any(store.exists for store in app.stores):
        output.talk(why_no_sessions(app, SessionFilter()))
    elif not found.places:
        output.talk(
            f"Nothing found for {asked.words!r}. Try fewer or other words, `backstory report standup` for what was "
            "worked on, or `backstory reindex` if sessions are missing."
        )
    if found.places or form.json:
        print_report(
            app, form, found, as_json=search.as_json, text_lines=text_lines, markdown_lines=markdown_lines,
            kind="an answer to what was searched for, by repository",
        )  # fmt: skip
    if not found.places:
        ctx.exit(1)


# what a search found, by repository, as text and as markdown ----------------------------------------------------------


def text_lines(report: SearchReport) -> Iterator[str]:
    """Yield each repository with its sessions, below each its best hit and the command that continues it."""
    yield output.style(_heading(report), bold=True)
    for place in report.places:
        yield ""
        yield output.style(_name(place), bold=True)
        for found in place.found:
            label = found.session.label
            yield f"  {output.ident(label)} " + output.one_line(found.session.heading, room_beside(3 + len(label)))
            for line in (_facts(found), _hit(found)):
                yield from (f"      {each}" for each in flowing(output.clean(line), 6))
            yield output.style(f"      {_command(found)}", dim=True)


def markdown_lines(report: SearchReport) -> Iterator[str]:
    """Yield the same as Markdown."""
    yield f"# {plain(_heading(report))}"
    for place in report.places:
        yield from ("", f"## {plain(_name(place))}", "")
        for found in place.found:
            yield f"- **{plain(found.session.heading or found.session.label)}** (`{found.session.label}`)"
            yield f"  - {plain(_facts(found))}"
            yield f"  - {plain(_hit(found))}"
            yield f"  - `{_command(found)}`"


def _heading(report: SearchReport) -> str:
    counted = output.counted(report.total, "session")
    near = f", {report.near:,} similar" if report.near else ""
    relaxed = "; none has all of the words" if report.relaxed else ""
    return f'Sessions with "{output.one_liner(report.query.text)}": {counted}{near}{relaxed}'


def _name(place: FoundPlace) -> str:
    return place.name or "no repository"


def _facts(found: FoundSession) -> str:
    session = found.session
    hits = output.counted(found.hits, "hit") if found.hits and not found.near else "near" if found.near else ""
    facts = (output.local(session.last_active), ", ".join(session.agents), session.branch or "", hits)
    return " · ".join(filter(None, facts))


def _hit(found: FoundSession) -> str:
    holder = "" if found.holder == found.session.label else f"{found.holder} "
    where = f"{holder}@{found.seq}"
    return f"{where} {found.scope.replace('_', ' ')}: {found.snippet}"


def _command(found: FoundSession) -> str:
    return shlex.join(found.command)
