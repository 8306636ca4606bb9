"""``backstory reindex``: import what is new, then rebuild everything that is derived."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.options import json_option, store_option
from backstory.cli.trusting import says_off
from backstory.errors import SqlTooSlow, StoreNotFound
from backstory.ids import session_keys
from backstory.workspace.stores.importing import Machine, derive_all

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.ingest.reindex import Reindexed
    from backstory.ingest.report import IngestReport

REASONS_SHOWN_MAX = 20
_LISTED = "sessions where relation is not 'subagent'"
COUNTED = {
    "sessions": _LISTED, "turns": f"turns where not is_copy and session_id in (select id from {_LISTED})",
    "files": "session_files", "refs": "session_refs", "checkpoints": "checkpoints", "events": "events",
}  # fmt: skip
"""The rows of the views of ``backstory sql`` that are counted."""
COUNT_S = 60.0
INCOMPLETE = 1


@click.command("reindex", short_help="Import new logs, then rebuild the index and what is derived.")
@click.option("--derived", "only_derived", is_flag=True, help="Import no logs; only rebuild derived tables.")
@click.option("--force", "events_too", is_flag=True, help="Parse all stored bytes again, with the current adapters.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, only_derived: bool, events_too: bool, as_json: bool) -> None:
    """Import new and changed logs, then rebuild the index and all derived tables (files, refs, checkpoints).

    Sessions whose logs are gone are kept, and counted. It can be stopped at any time.
    """
    app: App = ctx.obj
    if says_off(app, as_json=as_json):
        return
    output.talk("Reindexing sessions into the store…")
    machine = Machine(user_home=app.user_home)
    report = None if only_derived else app.workspace.ingest(machine, output.talk, output.progress)
    if not app.home_store.exists:
        raise StoreNotFound(app.home_store.path)
    done = derive_all(app.workspace, output.progress, events_too=events_too)
    problems, counts = _problems(done, report), _counts(app)
    if as_json:
        output.json(_as_json(done, counts, report))
    else:
        output.data(_in_a_line(done, counts, problems))
    for problem in problems[:REASONS_SHOWN_MAX]:
        output.talk(f"  {problem}")
    if len(problems) > REASONS_SHOWN_MAX:
        output.talk(f"  … and {len(problems) - REASONS_SHOWN_MAX} more; --json lists all.")
    ctx.exit(INCOMPLETE if problems else 0)


def _problems(done: Reindexed, report: IngestReport | None) -> list[str]:
    unread = [f"{each.path}: {each.reason}" for each in (report.errors if report else ())]
    return unread + [f"session {each.session}: {each.reason}" for each in done.failed]


def _counts(app: App) -> dict[str, int | None]:
    """Return how many there are of each kind, null where counting takes too long."""
    named = ", ".join(f"(select count(*) from {rows}) as {name}" for name, rows in COUNTED.items())
    with app.home_store as store, suppress(SqlTooSlow):
        answer = store.execute_read_only(f"select {named}", 1, timeout_s=COUNT_S)
        return dict(zip(answer.columns, answer.rows[0], strict=True))
    return dict.fromkeys(COUNTED)


def _in_a_line(done: Reindexed, found: dict[str, int | None], problems: list[str]) -> str:
    said = [(name, count) for name, count in found.items() if count is not None and name != "events"]
    counts = ", ".join(output.counted(count, name.removesuffix("s"), name) for name, count in said)
    gone = f"; {output.counted(done.gone, 'session')} kept whose logs are gone" if done.gone else ""
    if problems:
        return f"⚠ Reindex completed with errors: {counts}{gone}. Errors: {len(problems)}"
    return f"✓ Reindex complete: {counts}{gone}"


def _as_json(done: Reindexed, counts: dict[str, int | None], report: IngestReport | None) -> dict[str, Any]:
    return {
        "complete": not done.failed and not (report and report.errors),
        "counts": counts,
        "sessions_derived": done.sessions,
        "sessions_gone": done.gone,
        "logs_read": report.total("logs_read") if report else 0,
        "errors": [
            *({"path": each.path, "reason": each.reason} for each in (report.errors if report else ())),
            *(session_keys(each.session) | {"reason": each.reason} for each in done.failed),
        ],
    }
