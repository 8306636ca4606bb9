"""``backstory report blame``: the sessions and turns behind a file, a commit or a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.chronicle.blame import Because, Strength, label_of, show_command
from backstory.cli import output
from backstory.cli.options import readable
from backstory.cli.output import flowing
from backstory.cli.report_options import form_options, print_report
from backstory.cli.stop_signals import stop_on_signals
from backstory.errors import FileNotHere, LinesNotThere, NothingToBlame, NotInRepository
from backstory.export.safe_markdown import plain
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.chronicle.blame import Blame, BlamedFile, Credit, LineRun
    from backstory.cli.app import App
    from backstory.cli.report_options import Form
    from backstory.derive.git_values import Commit
    from backstory.workspace.history.authorship import Act, Trailer, Witness


_LINES = lazy_regex(r"(.+):(\d{1,9})(?:[-,](\d{1,9}))?")
_PULL_REQUEST = lazy_regex(r"(?:[\w.-]+(?:/[\w.-]+)+)?[#!]\d{1,9}|https?://\S+", 0)


@click.command("blame", short_help="Find the sessions behind lines, commits and pull requests.")
@click.argument("target", metavar="FILE[:LINE]|COMMIT|PR", required=False)
@form_options
@click.pass_obj
def command(app: App, target: str | None, form: Form) -> None:
    """Report the sessions and turns behind a file, some of its lines, a commit, or a pull request.

    FILE is a file of the repository here: src/a.py, src/a.py:12 or src/a.py:10-20. COMMIT is a hash, the start of one,
    or what git takes for one: HEAD~2. PR is #12, owner/repo#12 or a URL.
    """
    from backstory.chronicle import blame

    if form.explain:
        output.data(blame.RULE)
        return
    if target is None:
        raise click.UsageError("Name a file, a commit or a pull request.")
    app.bring_up_to_date()
    # Git is in a session of its own, so that what stops this program has to stop git.
    stop_on_signals()
    report = _report(app, readable(target))
    if left_out := app.workspace.history.left_out:
        parts = "; ".join(f"{what} ({why})" for what, why in left_out.items())
        output.talk(f"Left out: {parts}. So a line of a session may be without one.")
    print_report(
        app, form, report, as_json=blame.as_json, text_lines=text_lines, markdown_lines=markdown_lines,
        kind="a report on who wrote what: the sessions and turns behind a file, a commit or a pull request",
    )  # fmt: skip


def _report(app: App, target: str) -> Blame:
    """The report on what was named: a file that is there, else a pull request, else a commit."""
    from backstory.chronicle import blame

    history, reader = app.workspace.history, app.reader
    found = None if history.root is None else _file(app, target)
    if found is not None:
        path, span = found
        report = blame.blame_file(reader, history, path, span)
        if span is not None and not report.files[0].runs:
            raise LinesNotThere(path, f"{span[0]}", len(history.lines(path, moved=False)))
        return report
    if _PULL_REQUEST.fullmatch(target) and "/commit/" not in target:
        return blame.blame_pull_request(reader, target, None if "/" in target else _repository(app))
    if history.root is None:
        raise NotInRepository(app.cwd)
    commit = history.resolve(target.rstrip("/").rpartition("/")[2] if "://" in target else target)
    if commit is None:
        raise _nothing(app, target)
    return blame.blame_commit(reader, history, history.commits([commit])[commit])


def _file(app: App, target: str) -> tuple[str, tuple[int, int] | None] | None:
    """The file that is meant, below the root, and its lines; None if no file of this repository is called so."""
    history = app.workspace.history
    lines = _LINES.fullmatch(target)
    for typed, first, last in ((target, "", ""), *([] if lines is None else [lines.groups("")])):
        path = history.path_of(typed)
        kind = None if path is None else history.kind_of(path)
        if path is None or kind is None:
            continue
        if kind == "folder":
            raise FileNotHere(typed, is_folder=True)
        if not first:
            return path, None
        span = int(first), int(last or first)
        if span[0] == 0 or span[1] < span[0]:
            raise LinesNotThere(path, f"{first}-{last}" if last else first, len(history.lines(path, moved=False)))
        return path, span
    return None


def _nothing(app: App, target: str) -> Exception:
    """Return the error if nothing fits: a path tells more than a word that could be a hash."""
    lines = _LINES.fullmatch(target)
    typed = lines.group(1) if lines else target
    is_path = "/" in typed or "." in typed.strip(".") or app.workspace.history.path_of(typed) is None
    return FileNotHere(typed) if is_path else NothingToBlame(target)


def _repository(app: App) -> str | None:
    """owner/name of the repository here."""
    from backstory.derive.naming import repository_name

    return repository_name(app.project_key)


# who wrote what, as text and as markdown: pure iterators of lines -----------------------------------------------------


TITLE_CHARS = 60
HASH_CHARS = 10
GONE_SHOWN = 3
"""The most folders that are gone of which the path is shown."""
LINES_SHOWN = 20
"""The most lines that are shown with what stands in them."""
COLOURS = {Strength.WROTE: "green", Strength.LIKELY: "yellow", Strength.NONE: None}
MINUTE_MS = 60_000


def text_lines(report: Blame) -> Iterator[str]:
    """The report for a terminal or a pipe."""
    yield from (output.style(each, bold=True) if n == 0 else each for n, each in enumerate(_head(report)))
    for file in report.files:
        if report.kind == "commit":
            yield ""
        yield output.style(_file_head(file), bold=True)
        shows_texts = sum(len(run.texts) for run in file.runs) <= LINES_SHOWN and report.kind == "file"
        room = max((len(_span(run)) for run in file.runs), default=0)
        for run in file.runs:
            evidence = run.credit.evidence
            mark = output.style(f"{evidence:<10}", fg=COLOURS[evidence])
            yield f"  {_span(run):>{room}}  {mark}  {_credit(run, report)}"
            if shows_texts:
                yield from (f"  {'':>{room}}    {output.one_line(text, 160, keep_blanks=True)}" for text in run.texts)
    if report.gone:
        yield from ("", *flowing(_gone(report), 0))
    if commands := list(_commands(report)):
        yield ""
        yield from commands


def markdown_lines(report: Blame) -> Iterator[str]:
    """The same as Markdown."""
    head = list(_head(report))
    yield from (f"# {plain(each)}" for each in head[:1])
    if head[1:]:
        yield from ("", *(f"- {plain(each.strip())}" for each in head[1:]))
    for file in report.files:
        yield from ("", f"## {plain(_file_head(file))}", "") if head else (f"# {plain(_file_head(file))}", "")
        for run in file.runs:
            yield f"- {_span(run)}: **{run.credit.evidence}** {plain(_credit(run, report))}".rstrip()
    if report.gone:
        yield from ("", plain(_gone(report)))
    if commands := list(_commands(report)):
        yield from ("", *(f"- `{each}`" for each in commands))


def _head(report: Blame) -> Iterator[str]:
    if report.commit is not None:
        yield f"Commit {_commit(report.commit, report.commit.hash)}"
        if report.commit.is_merge:
            yield "  It is a merge: its lines are of the commits that it joins."
    elif report.kind != "file":
        yield f"{report.kind.capitalize()} {report.name}"
    yield from (f"  {_trailer(each, report)}" for each in report.trailers)
    yield from (f"  {_witness(each, report)}" for each in report.witnesses)
    if report.kind == "pull request" and not report.witnesses:
        yield "  No session here opened or names it."


def _gone(report: Blame) -> str:
    """Folders that nobody can look into any more, and how a person says what they were."""
    shown = ", ".join(report.gone[:GONE_SHOWN])
    more = f" and {len(report.gone) - GONE_SHOWN:,} more" if len(report.gone) > GONE_SHOWN else ""
    them = "It" if len(report.gone) == 1 else "They"
    return (
        f"{output.counted(len(report.gone), 'folder')} of sessions that wrote such lines "
        f"{'is' if len(report.gone) == 1 else 'are'} gone: {shown}{more}. {them} may have been this repository: "
        "backstory project move OLD NEW"
    )


def _trailer(each: Trailer, report: Blame) -> str:
    line = f"{each.key}: {output.one_line(each.value, 100)}"
    if each.act is not None:
        return f"{line} (session {_act(each.act, report)})"
    return f"{line} ({'that session is not here' if each.names_session else f'names {each.agent} and no session'})"


def _witness(each: Witness, report: Blame) -> str:
    did = {"commit": "made by", "pull request": "opened by"}[report.kind] if each.is_maker else "named by"
    return f"{did} {_act(each.act, report)}"


def _file_head(file: BlamedFile) -> str:
    if file.is_binary:
        return f"{file.path}: binary, without lines"
    counts = [(file.count(evidence), evidence) for evidence in Strength]
    said = ", ".join(f"{count:,} {evidence}" for count, evidence in counts if count)
    return f"{file.path}: {said or 'no line'}{' (generated)' if file.is_generated else ''}"


def _span(run: LineRun) -> str:
    return f"{run.first}" if run.first == run.last else f"{run.first}-{run.last}"


def _credit(run: LineRun, report: Blame) -> str:
    credit, commit = run.credit, report.commits.get(run.commit or "")
    where = "" if report.kind == "commit" else "not committed" if commit is None else _commit(commit)
    if credit.act is None:
        return where
    why = _why(credit, credit.act, commit)
    return " · ".join(each for each in (_act(credit.act, report), why, where and f"commit {where}") if each)


def _why(credit: Credit, act: Act, commit: Commit | None) -> str:
    if credit.because == Because.TRAILER:
        return "named below the commit's message"
    if credit.because == Because.SHELL:
        return "by its shell"
    if credit.because == Because.HOUR and commit is not None and act.at is not None:
        return f"changed the file {max(0, commit.authored - act.at) // MINUTE_MS} min before"
    return ""


def _act(act: Act, report: Blame) -> str:
    """A turn: the session's handle, the turn's record, the record itself, when, and what the session is about."""
    session = report.sessions.get(act.uid)
    seq = act.seq if act.turn_seq is None else act.turn_seq
    own = f"its @{act.seq}" if act.subagent else f"at @{act.seq}" if act.seq != seq else ""
    below = f"subagent {label_of(act.subagent, report.sessions)} {own}" if act.subagent else own
    title = output.one_line(session.heading, TITLE_CHARS) if session and session.heading else ""
    facts = [f"{label_of(act.uid, report.sessions)} @{seq}", below, act.agent or "", output.local(act.at), title]
    return " · ".join(each for each in facts if each)


def _commit(commit: Commit, name: str = "") -> str:
    subject = output.one_line(commit.subject, TITLE_CHARS)
    return f"{name or commit.hash[:HASH_CHARS]} {commit.author}, {output.local(commit.authored)}: {subject}"


def _commands(report: Blame) -> Iterator[str]:
    """The commands that show what is named, each once."""
    acts = [run.credit.act for file in report.files for run in file.runs]
    acts += [each.act for each in report.trailers] + [each.act for each in report.witnesses]
    yield from dict.fromkeys(show_command(act, report.sessions) for act in acts if act is not None)
