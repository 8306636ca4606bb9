"""``backstory reindex``: import what is new, then rebuild everything that is derived; then send it, if a person wants.

JSON: ``complete``, ``counts``, ``sessions_derived``, ``sessions_gone``, ``logs_read``, ``errors``; ``sync``: null, or
what the team's server confirmed: ``created_count``, ``event_count``, ``failed_count``, ``backfill_queued_count`` and
``backfill_failed_count``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Struct

from backstory.cli import output
from backstory.cli.options import json_option, store_option
from backstory.cli.trusting import goes_on, says_off
from backstory.errors import BackstoryError, SqlTooSlow, StoreNotFound
from backstory.ids import session_keys
from backstory.workspace.stores.importing import Machine, derive_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.cli.app import App
    from backstory.ingest.reindex import Reindexed
    from backstory.ingest.report import IngestReport
    from backstory.sync.remote import Remote
    from backstory.sync.uploading import Sent, Uploader

REASONS_SHOWN_MAX = 20
_LISTED = "sessions where relation is not 'subagent'"
COUNTED = {
    "sessions": _LISTED, "turns": f"turns where not is_copy and session_id in (select id from {_LISTED})",
    "files": "session_files", "refs": "session_refs", "checkpoints": "checkpoints", "events": "events",
}  # fmt: skip
"""The rows of the views of ``backstory sql`` that are counted."""
COUNT_S = 60.0
INCOMPLETE = 1
LINE_EVERY = 20
"""The most sessions between two lines that say how far the sending is."""


class ReindexSync(Struct, kw_only=True):
    """The numbers of what a team's server confirmed. ``backfill_queued_count``: sessions that it derives anew."""

    created_count: int = 0
    event_count: int = 0
    failed_count: int = 0
    backfill_queued_count: int = 0
    backfill_failed_count: int = 0


@click.command("reindex", short_help="Import new logs, then rebuild the index and what is derived.")
@click.option("--derived", "only_derived", is_flag=True, help="Import no logs; only rebuild derived tables.")
@click.option("--force", "events_too", is_flag=True, help="Parse all stored bytes again, with the current adapters.")
@click.option("--sync", "sends", is_flag=True, help="Then send it to your team's server, as sync does.")
@click.option("--confirmed", is_flag=True, help="Continue where reindex would ask whether to send, too.")
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, only_derived: bool, events_too: bool, sends: bool, confirmed: bool, as_json: bool
) -> None:
    """Import new and changed logs, then rebuild the index and all derived tables (files, refs, checkpoints).

    Sessions whose logs are gone are kept, and counted. It can be stopped at any time. Where you are logged in to a
    team's server, and named repositories that may leave, it asks once whether to send them, too.
    """
    app: App = ctx.obj
    if says_off(app, as_json=as_json):
        return
    sends = _shall_send(app, sends=sends, confirmed=confirmed)
    output.talk("Reindexing sessions into the store…")
    machine = Machine(user_home=app.user_home)
    report = None if only_derived else app.workspace.ingest(machine, output.talk, output.progress)
    if not app.home_store.exists:
        raise StoreNotFound(app.home_store.path)
    done = derive_all(app.workspace, output.progress, events_too=events_too)
    sync, unsent, broke = _synced(app) if sends else (None, [], None)
    problems, counts = _problems(done, report), _counts(app)
    if as_json:
        output.json(_as_json(done, counts, report, sync, is_whole=broke is None))
    elif sync is None or broke is not None:
        output.data(_in_a_line(done, counts, problems))
    else:
        output.data(_line_of_sync(counts, sync, problems))
    for problem in (problems := problems + unsent)[:REASONS_SHOWN_MAX]:
        output.talk(f"  {problem}")
    if len(problems) > REASONS_SHOWN_MAX:
        output.talk(f"  … and {len(problems) - REASONS_SHOWN_MAX} more; --json lists all.")
    if broke is not None and sync is not None:
        output.talk(f"⚠ Cloud sync failed. Before that: {_created(sync)}, {_uploaded(sync)}.")
        raise broke
    ctx.exit(INCOMPLETE if problems else 0)


def _shall_send(app: App, *, sends: bool, confirmed: bool) -> bool:
    """Say whether to send: it was asked for, or a person agrees now. Raises as ``syncing.allowed`` does."""
    from backstory.sync import account as accounts

    if not (sends or accounts.is_kept(app.home)):
        return False
    from backstory.cli import syncing

    if sends:
        syncing.allowed(app)
        return True
    if (question := syncing.offer(app)) is None or not (confirmed or output.can_ask()):
        return False
    agreed = confirmed or goes_on(question)
    syncing.note_asked(app)
    return agreed


def _synced(app: App) -> tuple[ReindexSync, list[str], BackstoryError | None]:
    """Send what is new, and have the server derive it; the reasons of what was not taken, and what ended it early."""
    from backstory.cli import syncing

    found = ReindexSync()
    try:
        with syncing.sender(app) as (_, remote, uploader):
            try:
                with output.progress("Sending") as bar:
                    uploader.run(syncing.stores(app), syncing.opted(app), _noted(uploader, bar))
            finally:
                found = _counted(uploader.done)
            unqueued = _backfill(remote, found)
    except BackstoryError as refused:
        return found, [], refused
    unsent = [f"session {each.session} was not taken: {each.reason}" for each in uploader.done.failed]
    return found, unsent + unqueued, None


def _noted(uploader: Uploader, bar: Callable[[int, int | None], None]) -> Callable[[int, int], None]:
    """Note how far the sending is: a bar on a terminal, else a line for each few sessions."""
    said = 0

    def note(done: int, total: int) -> None:
        nonlocal said
        bar(done, total)
        if done // LINE_EVERY > said and not output.is_watched():
            said = done // LINE_EVERY
            now = _counted(uploader.done)
            output.talk(f"Syncing sessions: {done:,} of {total:,}; {_created(now)}, {_uploaded(now)}")

    return note


def _counted(done: Sent) -> ReindexSync:
    return ReindexSync(created_count=len(done.created), event_count=done.events, failed_count=len(done.failed))


def _backfill(remote: Remote, found: ReindexSync) -> list[str]:
    """Have the server derive what it has not yet; note how many sessions that are, or return that it refused."""
    try:
        found.backfill_queued_count = int(remote.ask("POST", "/v1/analytics/backfill", {})["sessions_queued"])
    except BackstoryError as refused:
        found.backfill_failed_count = 1
        return [f"backfill: {refused}"]
    return []


def _created(sync: ReindexSync) -> str:
    return f"{output.counted(sync.created_count, 'cloud session')} created"


def _uploaded(sync: ReindexSync) -> str:
    return f"{output.counted(sync.event_count, 'event')} uploaded"


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


def _line_of_sync(counts: dict[str, int | None], sync: ReindexSync, problems: list[str]) -> str:
    indexed = output.counted(counts["sessions"] or 0, "session")
    parts = [f"{indexed} indexed locally", _created(sync), _uploaded(sync),
             f"{sync.backfill_queued_count:,} queued for backfill"]  # fmt: skip
    errors = [f"{len(problems):,} on this machine"] if problems else []
    if sync.failed_count:
        errors.append(f"{output.counted(sync.failed_count, 'session')} failed")
    if sync.backfill_failed_count:
        errors.append("backfill request failed")
    if errors:
        return f"⚠ Reindex completed with errors: {', '.join(parts)}. Errors: {', '.join(errors)}"
    return f"✓ Reindex complete: {', '.join(parts)}"


def _as_json(
    done: Reindexed, counts: dict[str, int | None], report: IngestReport | None, sync: ReindexSync | None, *,
    is_whole: bool,
) -> dict[str, Any]:  # fmt: skip
    is_sent = is_whole and (sync is None or not (sync.failed_count or sync.backfill_failed_count))
    return {
        "complete": is_sent and not done.failed and not (report and report.errors),
        "sync": None if sync is None else msgspec.to_builtins(sync),
        "counts": counts,
        "sessions_derived": done.sessions,
        "sessions_gone": done.gone,
        "logs_read": report.total("logs_read") if report else 0,
        "errors": [
            *({"path": each.path, "reason": each.reason} for each in (report.errors if report else ())),
            *(session_keys(each.session) | {"reason": each.reason} for each in done.failed),
        ],
    }
