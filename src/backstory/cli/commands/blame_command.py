"""``backstory report blame``: the sessions and turns behind a file, a commit or a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import readable
from backstory.cli.remote_reports import without_team
from backstory.cli.report_options import form_options, print_report
from backstory.cli.stop_signals import stop_on_signals
from backstory.errors import FileNotHere, LinesNotThere, NothingToBlame, NotInRepository
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from backstory.chronicle.blame import Blame
    from backstory.cli.app import App
    from backstory.cli.report_options import Form


_LINES = lazy_regex(r"(.+):(\d{1,9})(?:[-,](\d{1,9}))?")
_PULL_REQUEST = lazy_regex(r"(?:[\w.-]+(?:/[\w.-]+)+)?[#!]\d{1,9}|https?://\S+", 0)


@click.command("blame", short_help="Find the sessions behind lines, commits and pull requests.")
@click.argument("target", metavar="FILE[:LINE]|COMMIT|PR", required=False)
@form_options
@without_team("The team's server does not know which line is whose")
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
        app, form, report, as_json=blame.as_json, drawn=blame.report,
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
