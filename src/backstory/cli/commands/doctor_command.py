"""``backstory doctor``: a check-up of this machine; and what the stored logs have that backstory does not know."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backstory import agents
from backstory.cli import CommandGroup, output
from backstory.cli.options import AGENT, json_option, moment, readable, store_option
from backstory.errors import StoreNotFound, UnknownAgent
from backstory.ids import LABEL_LENGTH, session_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.cli.app import App
    from backstory.ingest.format_case import WrittenCase
    from backstory.ingest.formats import Drift, Sighting, Strange
    from backstory.store import Store

ROWS_MAX = 200
"""The most rows that are listed; --json has all."""
REASONS_SHOWN_MAX = KINDS_SHOWN_MAX = 20
NOTHING = 1
NO_KIND, NO_VERSION = "(no type)", "–"
SHOW = "backstory show"
HEADS = ("agent", "what", "name", "count", "versions", f"first: {SHOW}")


@click.group("doctor", cls=CommandGroup, invoke_without_command=True, subcommand_metavar="| COMMAND ...")
@click.option("--fix", is_flag=True, help="List the commands that are safe, then run them.")
@click.option("--bundle", metavar="FILE", help="Write a zip for a bug report, without content; it is printed first.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, fix: bool, bundle: str | None, yes: bool, as_json: bool) -> None:
    """Look over this machine, and say what needs mending, what that means, and the command that mends it.

    Looked at are home and stores, locks, runs and prompts that wait, room, permissions, the clock, agents and what was
    put into their settings. No agent is started, nothing leaves the machine, and without --fix nothing is changed. The
    exit code is 1 where something needs mending; notes alone are no reason for that.

    --fix runs the printed commands that lose nothing, start no agent and send nothing, one after the other, and looks
    again then. It lists them first, and asks.

    --bundle prints what a bug report needs, and writes it as it is printed: versions, settings, counts, names of
    findings, and known keys of records that no adapter knows. No text, path or name that anybody chose is in it.
    """
    if ctx.invoked_subcommand is not None:
        if as_json or fix or yes or bundle:
            raise click.UsageError("Options of `doctor` itself cannot be combined with a command of it.")
        return
    if yes and not (fix or bundle):
        raise click.UsageError("--yes is for --fix and --bundle.")
    if bundle and (fix or as_json):
        raise click.UsageError("--bundle prints JSON by itself, and mends nothing: leave --fix and --json out.")
    from backstory.cli import checking_up

    if bundle:
        ctx.exit(checking_up.write_bundle(ctx.obj, bundle, yes=yes))
    ctx.exit(checking_up.check_up(ctx.obj, fixes=fix, yes=yes, as_json=as_json))


@command.command("formats")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--agent", "-a", "only", multiple=True, type=AGENT, help="Look only at this agent's logs (repeatable).")
@click.option("--since", metavar="TIME", help="Look only at logs that changed since then: 2w, yesterday, 2026-01-31.")
@click.option("--case", metavar="FOLDER", help="Write a case of the first that is listed: scrubbed, for a test.")
@json_option
@store_option
@click.pass_context
def _formats(
    ctx: click.Context, name: str | None, only: tuple[str, ...], since: str | None, case: str | None, as_json: bool
) -> None:
    """List the types of records, and the keys in them, that the agents' adapters do not know.

    Each has its count, the versions of the agent that wrote it, and the first place, which `show` takes. They come from
    the bytes that are kept, which are all read for it: an agent's new version is seen here before anybody misses
    something. A key that is no plain word, such as a path, is called *. NAME lists only those with this in their names.

    With --case, the record and what tells whose it is are written into a new folder. Texts become filler of the same
    length, ids, times and paths others; words that no format has are named, so read the case before you share it.
    """
    app: App = ctx.obj
    changed = moment(since, datetime.now().astimezone())
    if unknown := [name for name in only if name not in agents.names()]:
        raise UnknownAgent(unknown[0], agents.names())
    if not app.home_store.exists:
        raise StoreNotFound(app.home_store.path)
    from backstory.ingest.formats import drift_of

    with app.home_store as store, output.progress("Reading logs") as progress:
        logs = [
            log
            for log in store.logs()
            if (not only or log.agent in only) and (changed is None or (log.modified or 0) >= changed)
        ]
        drift = drift_of(store, logs, progress)
        if name:
            drift.strange = [each for each in drift.strange if readable(name).casefold() in each.name.casefold()]
        uids = _uids(store, drift)
        written = _written(store, drift, Path(os.path.normpath(app.cwd / readable(case)))) if case is not None else None
    if as_json:
        output.json(_as_json(drift, uids) | ({} if case is None else {"case": _case_as_json(written)}))
    else:
        _tell(drift, uids)
        if case is not None:
            _tell_case(written)
    ctx.exit(NOTHING if case is not None and written is None else 0)


def _written(store: Store, drift: Drift, folder: Path) -> tuple[Strange, WrittenCase] | None:
    """Write a case of the first that is unknown, else of a known type that nobody recorded; None if there is none."""
    from backstory.ingest.format_case import write_case

    wanted = sorted(drift.strange, key=lambda each: each.is_read)
    return (wanted[0], write_case(store, wanted[0], folder)) if wanted else None


def _tell_case(written: tuple[Strange, WrittenCase] | None) -> None:
    if written is None:
        _talk("There is nothing to write a case of.")
        return
    strange, case = written
    output.data(output.one_liner(str(case.path)))
    records = output.counted(case.records, "record")
    _talk(f"A case of {strange.agent}, {_name(strange)}: {records}, scrubbed. Read it before you share it.")
    if case.kept:
        _talk(f"These words stayed, though no format has them: {', '.join(case.kept[:KINDS_SHOWN_MAX])}.")


def _case_as_json(written: tuple[Strange, WrittenCase] | None) -> dict[str, Any] | None:
    if written is None:
        return None
    strange, case = written
    return {
        "path": str(case.path), "agent": strange.agent, "kind": strange.kind, "key": strange.key,
        "records_written": case.records, "kept_words": case.kept,
    }  # fmt: skip


def _uids(store: Store, drift: Drift) -> dict[int, str]:
    """The uid of each session that something is in, by its id here."""
    wanted = sorted({came.log.session_id for strange in drift.strange for came in strange.came})
    return {session.id: session.uid for session in store.several_sessions(wanted)}


def _tell(drift: Drift, uids: dict[int, str]) -> None:
    rows = [_row(each, uids) for each in drift.strange if not each.is_read]
    for line in _lines(rows[:ROWS_MAX]) if rows else ():
        output.data(line)
    if len(rows) > ROWS_MAX:
        output.talk(f"… and {len(rows) - ROWS_MAX} more; --json lists all.")
    what = output.counted(len(rows), "type or key", "types and keys") if rows else "No type and no key"
    looked = f"{output.counted(drift.logs, 'log')}, {output.counted(drift.records, 'record')}"
    _talk(f"{what} that no adapter knows, in {looked} ({output.size(drift.bytes)}).")
    if read := [f"{each.agent} {each.kind or NO_KIND} ({each.count:,})" for each in drift.strange if each.is_read]:
        more = f" and {len(read) - KINDS_SHOWN_MAX:,} more" if len(read) > KINDS_SHOWN_MAX else ""
        words = f"{', '.join(read[:KINDS_SHOWN_MAX])}{more}"
        _talk(f"Known types of which no case was recorded, so that their keys are not known: {words}.")
    if drift.unchecked:
        _talk(f"Only the types, not the keys, of: {', '.join(drift.unchecked)}.")
    if drift.left_out:
        _talk(f"{drift.left_out:,} times another type or key came that is not listed: there are too many.")
    for path, reason in drift.errors[:REASONS_SHOWN_MAX]:
        output.talk(output.one_liner(f"Not read: {path}: {reason}"))
    if len(drift.errors) > REASONS_SHOWN_MAX:
        output.talk(f"… and {len(drift.errors) - REASONS_SHOWN_MAX} more; --json lists all.")


def _talk(text: str) -> None:
    for line in (
        output.wrapped(output.one_liner(text), output.width()) if sys.stderr.isatty() else (output.one_liner(text),)
    ):
        output.talk(line)


def _lines(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """A line for each; on a terminal that is too narrow for that, the name above the rest."""
    widest = [max(output.columns(row[n]) for row in (HEADS, *rows)) for n in range(len(HEADS))]
    if not sys.stdout.isatty() or sum(widest) + 2 * len(HEADS) <= output.width():
        yield from output.table(rows, flexible=2, heads=HEADS)
        return
    for agent, what, name, count, versions, place in rows:
        yield output.end_of_line(output.one_liner(f"{agent} {what} {name}"), output.width())
        rest = f"    {count} × · {versions} · {SHOW} {place}"
        yield output.style(output.one_line(rest, output.width(), keep_blanks=True), dim=True)


def _row(strange: Strange, uids: dict[int, str]) -> tuple[str, ...]:
    first, last = strange.came[0], strange.came[-1]
    versions = first.version or NO_VERSION
    if last is not first:
        versions += f" … {last.version or NO_VERSION}"
    what = "type" if strange.key is None else "key"
    return strange.agent, what, _name(strange), f"{strange.count:,}", versions, _place(first, uids)


def _name(strange: Strange) -> str:
    kind = strange.kind or NO_KIND
    return kind if strange.key is None else f"{kind}: {strange.key}"


def _place(came: Sighting, uids: dict[int, str]) -> str:
    return f"{uids.get(came.log.session_id, '')[:LABEL_LENGTH]} @{came.seq}"


def _as_json(drift: Drift, uids: dict[int, str]) -> dict[str, Any]:
    return {
        "logs_read": drift.logs,
        "records_read": drift.records,
        "bytes_read": drift.bytes,
        "types": [_strange(each, uids) for each in drift.strange if each.key is None and not each.is_read],
        "keys": [_strange(each, uids) | {"key": each.key} for each in drift.strange if each.key is not None],
        "without_case": [_strange(each, uids) for each in drift.strange if each.is_read],
        "types_only": drift.unchecked,
        "left_out": drift.left_out,
        "errors": [{"path": path, "reason": reason} for path, reason in drift.errors],
    }


def _strange(strange: Strange, uids: dict[int, str]) -> dict[str, Any]:
    versions = [
        {"version": each.version, "count": each.count, "seq": each.seq}
        | session_keys(uids.get(each.log.session_id, ""))
        for each in strange.came
    ]
    return {"agent": strange.agent, "kind": strange.kind, "count": strange.count, "versions": versions}
