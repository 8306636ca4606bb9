"""What a search found, by repository, as text and as Markdown."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.layout import flowing, room_beside
from backstory.export.safe_markdown import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.chronicle.search import FoundPlace, FoundSession, SearchReport


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
    near = f", {report.near:,} more nearly" if report.near else ""
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
