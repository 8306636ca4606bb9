"""A stand-up as text and as Markdown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from backstory.chronicle.progress import Status
from backstory.cli import output
from backstory.cli.layout import flowing, room_beside
from backstory.cli.report_options import window
from backstory.cli.stats_table import money
from backstory.export.safe_markdown import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.chronicle.progress import Check, Results
    from backstory.chronicle.standup import Item, Place, Standup
    from backstory.store.derived_tables import StoredRef

FILES_SHOWN = 5
REFS_SHOWN = 6
MARKS = {Status.DONE: ("✓", "green"), Status.IN_PROGRESS: ("…", "yellow"), Status.STUCK: ("✗", "red")}
_REFS = {"pr": "PR", "issue": "issue", "commit": "commit"}


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


def _ordered(place: Place) -> Iterator[tuple[Status, Item]]:
    yield from ((status, item) for status in Status for item in place.items if item.progress.status == status)


def _place(place: Place) -> str:
    where = place.name or "no repository"
    return f"{where} · {place.branch}" if place.branch else where


def _facts(item: Item) -> Iterator[str]:
    cost = item.cost
    facts = [output.local(item.asked_at), output.counted(item.turns, "turn")]
    if cost is not None and cost.low_usd is not None:
        facts.append(money(cost))
    yield " · ".join(each for each in facts if each)
    yield f"Asked: {output.one_line(item.asked, 200)}"
    if came := list(came_lines(item.results)):
        yield " · ".join(came)
    if item.refs:
        yield "Named: " + ", ".join(map(_ref, item.refs[:REFS_SHOWN])) + _more(len(item.refs) - REFS_SHOWN)
    yield f"{item.progress.status.capitalize()}: {item.progress.reason}"
    if item.progress.open:
        yield f"Open: {item.progress.open}"


def came_lines(results: Results) -> Iterator[str]:
    """What came of work, a few words each: files, commits, checks."""
    if results.files:
        yield "Files: " + ", ".join(results.files[:FILES_SHOWN]) + _more(len(results.files) - FILES_SHOWN)
    if results.elsewhere:
        yield output.counted(len(results.elsewhere), "file") + " elsewhere"
    if results.commits:
        yield output.counted(results.commits, "commit")
    yield from map(_check, results.checks)


def _check(check: Check) -> str:
    how = {True: "passed", False: "failed", None: "ended unknown"}[check.ok]
    return f"{check.kind} {how} (@{check.seq})"


def _ref(each: StoredRef) -> str:
    name = f"#{each.value}" if each.value.isdecimal() else each.value[:40]
    as_of = f" (as of {output.local(each.created_at)[:10]})" if each.created_at and each.type != "commit" else ""
    return f"{_REFS.get(each.type, each.type)} {name}{as_of}"


def _more(count: int) -> str:
    return f" and {count:,} more" if count > 0 else ""


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
