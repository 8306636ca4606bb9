"""A whole session from the screen: written to a file, as ``export`` does, or summarised by ``compact``."""

from __future__ import annotations

import re
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.worker import get_current_worker

from backstory.cli import output
from backstory.cli.tui.asking import ask, ask_line
from backstory.cli.tui.branching import in_thread
from backstory.cli.tui.painting import hold, let_go
from backstory.cli.tui.sent import started
from backstory.cli.views import text_export
from backstory.cli.views.summary_view import exchanges
from backstory.errors import FileInTheWay, NothingToCompact
from backstory.export import exporting
from backstory.workspace.runs.compacting import Compactor
from backstory.workspace.runs.writable import is_own

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.screen import Screen

    from backstory.cli.app import App

NAME_CHARS_MAX = 50
ENDING = ".md"
POLL_S = 0.2


def file_name(title: str) -> str:
    """Return the name of a file for a session.

    >>> file_name("Count requests: per person!"), file_name("../..")
    ('count-requests-per-person.md', 'session.md')
    """
    words = re.sub(r"[\W_]+", "-", title.lower())[:NAME_CHARS_MAX].strip("-")
    return f"{words or 'session'}{ENDING}"


def export(screen: Screen[Any], app: App, uid: str, title: str, say: Callable[[str], object]) -> None:
    """Ask for a file, and write a session to it as Markdown. ``say`` receives sentences about it."""

    def write(name: str, *, force: bool = False) -> None:
        def done(said: str | None) -> None:
            if said is None:
                question = f"{target_of(app, name)} is there already. Overwrite it? What is in it now is lost."
                ask(screen.app, question, partial(write, name, force=True))
            end(said or "")

        def end(said: str) -> None:
            say(said)
            let_go(screen)

        # The field that was over the session and a sentence below it: both at once.
        hold(screen)
        say("writing …")
        in_thread(screen, "export", partial(written, app, uid, name, force=force), done, end)

    note = (
        f"As Markdown, in {app.cwd}; the name ends in {ENDING}. Secrets are not masked: "
        "`backstory show --md --redact` masks them."
    )
    ask_line(screen.app, "Write the session to a file:", write, text=file_name(title), note=note)


def target_of(app: App, name: str) -> Path:
    """Return the file that is meant by what was typed."""
    target = app.cwd / (app.user_home / name[2:] if name.startswith("~/") else Path(name))
    return target if target.suffix or not target.name else target.with_name(target.name + ENDING)


def written(app: App, uid: str, name: str, *, force: bool) -> str | None:
    """Write a session as Markdown; returns a sentence, and None where a file is in the way.

    Raises DiskFull, CannotWrite, SessionNotFound.
    """
    target = target_of(app, name)
    if target.suffix != ENDING:
        return f"Not written: the screen writes Markdown, to a name that ends in {ENDING}. Else: backstory help export"
    located = app.workspace.resolve(uid)
    try:
        done, secrets = text_export.write_markdown(
            app, exporting.these([(located.store, located.session)]), target, force=force, redactor=None
        )
    except FileInTheWay:
        return None
    masks = "" if not secrets else f", {output.counted(len(secrets), 'secret')} in it not masked"
    return f"Written: {done.file}, {output.size(done.bytes)}{masks}."


def compact(screen: Screen[Any], app: App, uid: str, say: Callable[[str], object], made: Callable[[], object]) -> None:
    """Ask, then have the beginning of a session summarised; it goes on when the screen is closed.

    ``say`` receives sentences about it; ``made`` is called where the session has a summary.
    """

    def summarise() -> None:
        say("A summary is being made; it goes on if you leave …")
        in_thread(screen, "compact", partial(_summarise, app, uid), done, say)

    def done(said: str) -> None:
        say(said)
        made()

    def planned(question: str) -> None:
        say("")
        ask(screen.app, question, summarise)

    say("…")
    in_thread(screen, "compact", partial(summary_question, app, uid), planned, say)


def summary_question(app: App, uid: str) -> str:
    """Return the question before a summary, which says what it would cover. Raises NothingToCompact."""
    with app.new_workspace() as workspace:
        located = workspace.resolve(uid)
        plan = Compactor(workspace, located.store, located.session).plan()
        is_ours = is_own(workspace.project_store, uid)
    if plan.boundary is None:
        raise NothingToCompact(located.label)
    covered, kept = exchanges(plan.boundary.summarized), exchanges(plan.boundary.kept)
    new = "" if is_ours else "It is made in a session of this project that continues this one. "
    return (
        f"Summarise {covered}, up to @{plan.boundary.after_seq}? Later prompts send the summary in place of them, and "
        f"the last {kept} as now. An agent writes it, which costs tokens. {new}Nothing is removed: "
        "`backstory compact --undo` takes it back."
    )


def _summarise(app: App, uid: str) -> str:
    """Have a process make the summary, and wait for it as long as the screen is open; returns what it says."""
    worker = get_current_worker()
    with closing(started(app, ["compact", "--now", "-S", uid], None)) as sent:
        while (code := sent.code) is None:
            if worker.cancelled_event.wait(POLL_S):
                return ""
        return f"No summary was made: {sent.said()}" if code else sent.said()
