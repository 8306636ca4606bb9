"""A session as a log for an agent's own client: planned, written and taken away again, and what that prints.

As JSON: ``session`` (its uid), ``agent``, ``native_id`` (the log's own id), ``written`` (whether the log is there now),
``log`` (its path), ``folder`` (where the client starts), ``command`` (its words), and ``report``: how many records are
``kept``, ``converted``, ``as_text`` and ``left_out``, and of each of ``records`` its ``seq``, ``kind``, ``fate`` and
``why``, with ``parts`` where it holds several events. With ``--redact`` also ``masked``.
"""

from __future__ import annotations

import shlex
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.cli import output
from backstory.cli.trusting import may_act
from backstory.cli.views import sharing
from backstory.errors import Next, SessionNotTrusted

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.conversation.tree import Point
    from backstory.derive.secrets import Redactor
    from backstory.workspace.clients.native_export import NativeExports, NativePlan
    from backstory.workspace.located import LocatedSession

REASONS_SHOWN_MAX = 12
FATES = {"kept": "kept", "converted": "converted", "as_text": "as text", "left_out": "left out"}


class LogRequest(Struct, frozen=True, kw_only=True):
    """A person's request. ``at``: the last record, as ``@N``."""

    form: str
    at: str | None = None
    cwd: Path | None = None
    is_written: bool = False
    redact: bool = False
    as_json: bool = False


@cache
def native_formats() -> tuple[str, ...]:
    """The agents whose clients continue logs that we write."""
    from backstory.workspace.clients.native_export import writable_agents

    return tuple(writable_agents())


def native_exports(app: App) -> NativeExports:
    """Return the object that writes logs for agents' clients."""
    from backstory.workspace.clients.native_export import NativeExports

    return NativeExports(app.workspace, app.user_home)


def point_of(located: LocatedSession, at: str | None) -> Point | None:
    """The record that was named; None where none was. Raises RecordNotFound, BranchNotFound."""
    from backstory.workspace.history.targets import resolve_target

    return None if at is None else resolve_target(located, at).point


def planned_log(app: App, session: LocatedSession, asked: LogRequest, redactor: Redactor | None = None) -> NativePlan:
    """Return the plan of a log. A session from elsewhere first needs trust in its store: by a person, or --trust."""
    exports, folder = native_exports(app), None if asked.cwd is None else app.cwd / asked.cwd
    try:
        return exports.plan(session, asked.form, cwd=folder, to=point_of(session, asked.at), redactor=redactor)
    except SessionNotTrusted:
        if not app.trusts and not output.can_ask():
            raise
    may_act(app)
    session = app.workspace.resolve(session.session.uid)
    return exports.plan(session, asked.form, cwd=folder, to=point_of(session, asked.at), redactor=redactor)


def show_native_log(app: App, session: str, asked: LogRequest) -> None:
    """Print what becomes of a session as a log, and write it if that was asked for."""
    redactor = sharing.redactor_of(app) if asked.redact else None
    plan = planned_log(app, app.workspace.resolve(session), asked, redactor)
    exports = native_exports(app)
    if asked.is_written:
        exports.write(plan)
    is_there = plan.is_there or asked.is_written
    words = exports.command(plan)
    if asked.as_json:
        masked = {} if redactor is None else {"masked": redactor.counts}
        output.json(plan_as_json(plan, words, is_there=is_there) | masked)
        return
    print_report(plan)
    sharing.tell_masked(redactor)
    output.data(output.one_liner(f"cd {shlex.quote(str(plan.folder))} && {shlex.join(words)}"))
    if plan.is_there:
        output.talk(output.one_liner(f"It was written before: {plan.path}"))
    elif is_there:
        at = {} if asked.at is None else {"at": asked.at}
        undo = Next("export", shlex.quote(session), format=asked.form, undo=True, **at)
        output.talk(output.one_liner(f"Written: {plan.path}. To remove it: {undo}"))
    else:
        output.talk(output.one_liner(f"Nothing was written. --write writes {plan.path}"))


def show_undone(app: App, session: str, asked: LogRequest) -> None:
    """Take logs away that were written from a session, and print which."""
    found = app.workspace.resolve(session)
    done = native_exports(app).undo(found, asked.form, point_of(found, asked.at))
    if asked.as_json:
        output.json(found.keys | {"removed_paths": [each.path for each in done.files]})
        return
    for each in done.files:
        output.data(output.one_liner(each.path))
    output.talk(f"{output.counted(len(done.files), 'log')} removed.")


def print_report(plan: NativePlan) -> None:
    """Print how many records are kept, and of the others which and why."""
    counts = plan.report.counts
    output.data(" · ".join(f"{counts[fate]} {words}" for fate, words in FATES.items()))
    reasons = Counter((each.fate, each.kind, each.why) for each in plan.report.events if each.why)
    for (fate, kind, why), count in reasons.most_common(REASONS_SHOWN_MAX):
        output.data(output.one_liner(f"  {count:>6} {FATES[fate]:<9}  {f'{kind}: ' if kind else ''}{why}"))
    if len(reasons) > REASONS_SHOWN_MAX:
        output.talk(f"{len(reasons) - REASONS_SHOWN_MAX} more reasons: --json lists every record.")


def plan_as_json(plan: NativePlan, words: list[str], *, is_there: bool) -> dict[str, Any]:
    """A plan as ``--json`` prints it."""
    from backstory.workspace.clients.native_export import report_as_json

    return {
        **plan.located.keys,
        "agent": plan.agent,
        "native_id": plan.native_id,
        "written": is_there,
        "log": str(plan.path),
        "folder": str(plan.folder),
        "command": words,
        "report": report_as_json(plan.report),
    }
