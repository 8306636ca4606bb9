"""``backstory report recap``: one session in short."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from backstory.chronicle.progress import Status
from backstory.cli import output
from backstory.cli.options import find, session_argument
from backstory.cli.output import flowing, room_beside
from backstory.cli.report_options import form_options, print_queries, print_report
from backstory.cli.views.stats_table import money
from backstory.cli.views.work_view import FILES_SHOWN, MARKS, REFS_SHOWN, check_line, names, ref_words
from backstory.derive.naming import NO_PROMPT
from backstory.export.safe_markdown import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.chronicle.recap import Prompt, Recap, SummaryNote
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
        app, form, recap.recap(app.reader, found), as_json=recap.as_json, text_lines=text_lines,
        markdown_lines=markdown_lines,
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


# a recap of a session as text and as markdown -------------------------------------------------------------------------


NOTHING_TYPED = "(nothing was typed)"


def text_lines(report: Recap) -> Iterator[str]:
    """Yield the recap: a heading for each part that has something."""
    session = report.session
    yield output.style(output.one_line(session.heading or NO_PROMPT, room_beside(0)), bold=True)
    yield from (output.style(each, dim=True) for each in flowing(_head(report), 0))
    for name, lines in _parts(report):
        yield ""
        yield output.style(name, bold=True)
        for line in lines:
            yield from (f"  {each}" for each in flowing(line, 2))


def markdown_lines(report: Recap) -> Iterator[str]:
    """Yield the same as Markdown."""
    yield f"# {plain(report.session.heading or NO_PROMPT)}"
    yield ""
    yield plain(_head(report))
    for name, lines in _parts(report):
        yield from ("", f"## {name}", "")
        for line in lines:
            yield f"- {plain(line)}"


def _head(report: Recap) -> str:
    session = report.session
    where = session.project_name
    facts = [
        session.label, ", ".join(session.agents), f"{where} ({session.branch})" if session.branch else where,
        output.local(_first(report)), output.counted(len(report.prompts), "turn"),
        money(session.cost) if session.cost.low_usd is not None else "",
    ]  # fmt: skip
    return " · ".join(each for each in facts if each)


def _first(report: Recap) -> int | None:
    return next((each.at for each in report.prompts if each.at is not None), None)


def _parts(report: Recap) -> Iterator[tuple[str, list[str]]]:
    if not report.prompts:
        yield "Nothing was asked in this session.", []
        return
    named: Iterable[tuple[str, Iterator[str]]] = (
        ("Asked", _asked(report)),
        ("What came of it", _came(report)),
        ("How it ended", _ended(report)),
        ("Subagents", _subagents(report)),
        ("Go on with it", iter([shlex.join(report.goes_on)])),
    )
    yield from ((name, shown) for name, lines in named if (shown := list(lines)))


def _asked(report: Recap) -> Iterator[str]:
    """Each prompt in a line, with the summaries where they stand."""
    notes = list(report.summaries)
    for prompt in report.prompts:
        while notes and notes[0].seq is not None and prompt.seq is not None and notes[0].seq < prompt.seq:
            yield _note(notes.pop(0))
        yield _prompt(prompt)
    yield from map(_note, notes)


def _prompt(prompt: Prompt) -> str:
    place = f"@{prompt.seq}" if prompt.seq is not None else f"turn {prompt.number}"
    said = [
        prompt.outcome if prompt.outcome not in (None, "completed") else "",
        prompt.state or "",
        "rewound" if prompt.is_rewound else "",
        f"shown in {prompt.shown_in[:12]}" if prompt.shown_in else "",
    ]
    how = ", ".join(each for each in said if each)
    at = output.local(prompt.at)
    text = output.one_line(prompt.text, 200) or NOTHING_TYPED
    return " ".join(each for each in (place, at, text, f"({how})" if how else "") if each)


def _note(note: SummaryNote) -> str:
    place = f"@{note.seq}" if note.seq is not None else (note.at or "")[:10]
    what = "Summary" if note.is_ours else "Checkpoint"
    text = note.texts.get("overview") or next(iter(note.texts.values()), "")
    words = ": ".join(each for each in (note.title or "", output.one_line(text, 200)) if each)
    by = f" by {note.by}" if note.by else ""
    return f"≡ {place} {what}{by}: {words}"


def _came(report: Recap) -> Iterator[str]:
    results = report.results
    if results.files:
        yield f"{output.counted(len(results.files), 'file')}: {names(results.files, FILES_SHOWN)}"
    if results.elsewhere:
        yield f"Elsewhere: {names(results.elsewhere, FILES_SHOWN)}"
    for each in report.kept:
        yield f"@{each.seq} {each.kind}: {output.one_line(each.name or each.command, 120)}"
    yield from (f"{check_line(each)}: {output.one_line(each.command, 120)}" for each in results.checks)
    said = " ".join(each.name for each in report.kept)
    if named := [ref_words(each) for each in report.refs if each.type != "commit" or each.value not in said]:
        yield f"Named: {names(named, REFS_SHOWN)}"


def _ended(report: Recap) -> Iterator[str]:
    progress = report.progress
    if progress is None:
        return
    mark, _ = MARKS[Status(progress.status)]
    yield f"{mark} {progress.status.capitalize()}: {progress.reason}"
    if report.answer and progress.open != f"asked: {report.answer}":
        yield f"Last answer: {report.answer}"
    if progress.open:
        yield f"Open: {progress.open}"


def _subagents(report: Recap) -> Iterator[str]:
    for each in report.subagents:
        ended = f", {each.outcome}" if each.outcome not in (None, "completed") else ""
        yield f"{each.uid[:12]} {output.one_line(each.title, 120)} ({output.counted(each.turns, 'turn')}{ended})"
