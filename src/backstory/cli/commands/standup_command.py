"""``backstory report standup``: what was worked on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from backstory.chronicle.progress import NOTHING_EDITED, Status
from backstory.chronicle.window import DAY_MS
from backstory.cli import output
from backstory.cli.output import flowing, room_beside
from backstory.cli.report_options import (
    print_queries,
    print_report,
    print_where_there_is,
    report_options,
    wanted_by,
    window,
)
from backstory.cli.views.counting import counting
from backstory.cli.views.stats_table import money
from backstory.cli.views.work_view import MARKS, REFS_SHOWN, came_lines, names, ref_words
from backstory.export.safe_markdown import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.chronicle.standup import Item, Standup, StandupPlace
    from backstory.cli.app import App
    from backstory.cli.report_options import Form, ReportQuestion
    from backstory.workspace.history.sessions import SessionFilter


@click.command("standup", short_help="Report what was worked on: what is done, in progress, stuck.")
@report_options
@click.pass_obj
def command(app: App, asked: ReportQuestion, form: Form) -> None:
    """Report what was worked on: by repository and branch, what is done, in progress and stuck.

    The last 24 hours, in every project; WORDS limit it to matching sessions. --since workday: from the beginning of
    the last working day.
    """
    from backstory.chronicle import standup

    app.bring_up_to_date()
    wanted = wanted_by(app, asked, DAY_MS)
    if form.explain:
        _explain(app, wanted)
        return
    with counting("Reading sessions") as report:
        found = standup.standup(app.reader, wanted, report)
    if found.undated:
        output.talk(f"{output.counted(found.undated, 'turn')} without a time left out.")
    if not found.places:
        print_where_there_is(app, wanted)
    if not (found.places or form.json):
        return
    print_report(
        app, form, found, as_json=standup.as_json, text_lines=text_lines, markdown_lines=markdown_lines,
        kind="a stand-up: by repository and branch, what is done, in progress and stuck",
    )  # fmt: skip


def _explain(app: App, wanted: SessionFilter) -> None:
    """Print the rule, and the SQL of what SQL can return: all of it can be given to ``backstory sql`` part by part."""
    from backstory.chronicle.explain import standup_queries
    from backstory.chronicle.progress import explained

    for line in explained():
        output.data(line)
    print_queries(standup_queries(app.reader, wanted))


# a stand-up as text and as markdown -----------------------------------------------------------------------------------


def text_lines(report: Standup) -> Iterator[str]:
    """Yield each place with its work: what is stuck last, where the eye rests."""
    yield output.style(f"Stand-up {window(report.wanted)}", bold=True)
    for place in report.places:
        yield ""
        yield output.style(_place(place), bold=True)
        for status, item in _ordered(place):
            mark, colour = MARKS[status]
            handle = f"  {output.style(mark, fg=colour)} {output.ident(item.session.label)} "
            room = room_beside(4 + len(item.session.label) + 1)
            yield handle + output.one_line(item.session.heading, room)
            for line in _facts(item):
                yield from (f"      {each}" for each in flowing(line, 6))


def _ordered(place: StandupPlace) -> Iterator[tuple[Status, Item]]:
    yield from ((status, item) for status in Status for item in place.items if item.progress.status == status)


def _place(place: StandupPlace) -> str:
    where = place.name or "no repository"
    return f"{where} · {place.branch}" if place.branch else where


def _facts(item: Item) -> Iterator[str]:
    cost = item.cost
    facts = [output.local(item.asked_at), output.counted(item.turns, "turn")]
    if cost is not None and cost.low_usd is not None:
        facts.append(money(cost))
    # The mark says that it is done: of a question that was answered there is no more to say.
    is_answer = item.progress.reason == NOTHING_EDITED
    if is_answer:
        facts.append("nothing edited")
    yield " · ".join(each for each in facts if each)
    if (asked := output.one_line(item.asked, 200)) != item.session.heading:
        yield f"Asked: {asked}"
    if came := list(came_lines(item.results)):
        yield " · ".join(came)
    if item.refs:
        yield f"Named: {names([ref_words(each) for each in item.refs], REFS_SHOWN)}"
    if not is_answer:
        yield f"{item.progress.status.capitalize()}: {item.progress.reason}"
    if item.progress.open:
        yield f"Open: {item.progress.open}"


def markdown_lines(report: Standup) -> Iterator[str]:
    """Yield the same as Markdown."""
    yield f"# Stand-up {plain(window(report.wanted))}"
    for place in report.places:
        yield from ("", f"## {plain(_place(place))}")
        counts = Counter(item.progress.status for item in place.items)
        for status in Status:
            if not counts[status]:
                continue
            yield from ("", f"### {status.capitalize()}", "")
            for item in place.items:
                if item.progress.status == status:
                    yield from _item_markdown(item)


def _item_markdown(item: Item) -> Iterator[str]:
    session = item.session
    yield f"- **{plain(session.heading or session.label)}** (`{session.label}`)"
    for line in _facts(item):
        yield f"  - {plain(output.one_line(line, 300))}"
