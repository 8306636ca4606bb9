"""``backstory reindex``: read what is new, and make everything that can be derived again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.ingest_command import read_logs
from backstory.cli.options import json_option, store_option
from backstory.errors import StoreNotFound
from backstory.ingest.reindex import Reindexed, reindex
from backstory.workspace.sessions import SessionFilter

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.ingest.report import Report

REASONS_SHOWN_MAX = 20
COUNTED = ("sessions", "turns", "files", "refs", "checkpoints")
INCOMPLETE = 1


@click.command("reindex")
@click.option("--derived", "only_derived", is_flag=True, help="Read no logs: only derive again what is derived.")
@click.option("--force", "events_too", is_flag=True, help="Understand all kept bytes anew, with today's adapters.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, only_derived: bool, events_too: bool, as_json: bool) -> None:
    """Read every log that is new or changed, then derive the index, files, refs and checkpoints again.

    Nothing is lost by it: sessions whose logs are gone are kept, and counted. It may be stopped at any time.
    """
    app: App = ctx.obj
    output.talk("Reindexing sessions into the store…")
    report = None if only_derived else read_logs(app)
    with app.home_store as store:
        if not store.exists:
            raise StoreNotFound(store.path)
        with output.progress("Deriving") as progress:
            done = reindex(store, now=now_ms(), events_too=events_too, progress=progress)
    problems = _problems(done, report)
    if as_json:
        output.json(_as_json(done, report))
    else:
        output.data(_told(done, app.reader.count(SessionFilter(everywhere=True)), problems))
    for problem in problems[:REASONS_SHOWN_MAX]:
        output.talk(f"  {problem}")
    if len(problems) > REASONS_SHOWN_MAX:
        output.talk(f"  … and {len(problems) - REASONS_SHOWN_MAX} more; --json lists all.")
    ctx.exit(INCOMPLETE if problems else 0)


def _problems(done: Reindexed, report: Report | None) -> list[str]:
    unread = [f"{each.path}: {each.reason}" for each in (report.errors if report else ())]
    return unread + [f"session {each.session}: {each.reason}" for each in done.failed]


def _told(done: Reindexed, listed: int, problems: list[str]) -> str:
    """``listed``: how many sessions ``list --all`` shows."""
    stored = done.stored | {"sessions": listed}
    counts = ", ".join(output.counted(stored[name], name.removesuffix("s"), name) for name in COUNTED)
    gone = f"; {output.counted(done.gone, 'session')} kept whose logs are gone" if done.gone else ""
    if problems:
        return f"⚠ Reindex completed with errors: {counts}{gone}. Errors: {len(problems)}"
    return f"✓ Reindex complete: {counts}{gone}"


def _as_json(done: Reindexed, report: Report | None) -> dict[str, Any]:
    return {
        "complete": not done.failed and not (report and report.errors),
        **{name: done.stored[name] for name in (*COUNTED, "events")},
        "sessions_derived": done.sessions,
        "sessions_gone": done.gone,
        "logs_read": report.total("logs_read") if report else 0,
        "errors": [
            *({"path": each.path, "reason": each.reason} for each in (report.errors if report else ())),
            *({"session": each.session, "reason": each.reason} for each in done.failed),
        ],
    }
