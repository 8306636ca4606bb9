"""``backstory sync``: history for a team's server; with ``--dry-run`` what would leave, and nothing is sent.

JSON of what was sent: ``address``, ``created_uids``, ``sent_uids``, ``event_count``, ``unchanged_count``,
``staying_count``, ``pruned_sessions``, ``forgotten_uids``, ``erased_uids``, ``board_items``, ``failed``. Of ``status``:
``confirmed_count``, ``event_count``, ``waiting_count``, ``staying_count``, ``pruned_sessions``,
``machines`` (yours that sent something: ``id``, ``name``, ``session_count``, ``event_count``, ``seen``, ``is_this``).
Of ``forget``: ``forgotten_uids``, or ``machine`` and ``session_count``.
Of ``--dry-run``:
``enabled`` and ``has_board`` (the settings), ``leaving`` (by repository: ``session_count``, ``turn_count``,
``event_count``, ``bytes``, ``masked`` by kind, ``branches``, ``emails``), ``staying`` (``repository``,
``session_count``, ``reason``), ``board_items``, ``erasing_uids``, ``unusable`` (entries of sync.repositories that name
no repository).
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from backstory.cli import output, syncing
from backstory.cli.app import now_ms
from backstory.cli.options import json_option, sessions_argument, store_option
from backstory.cli.stop_signals import stop_on_signals
from backstory.cli.trusting import is_agreed
from backstory.config import SyncSettings
from backstory.errors import ImportRunning, NotLoggedIn
from backstory.sync import account as accounts
from backstory.sync import removed, uploading
from backstory.sync.dry_run import dry_run as counted
from backstory.sync.following import SIDES, SteadySync
from backstory.sync.leaving import removed_uids
from backstory.sync.notes import SyncNotes
from backstory.sync.outward import machine_of
from backstory.sync.server_source import machines as machines_there
from backstory.workspace.stores.importing import Machine, no_progress, watch_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.cli.app import App
    from backstory.sync.account import Account
    from backstory.sync.dry_run import DryRun, RepositoryLeaving, Staying
    from backstory.sync.uploading import NotSent, Sent

STAYING_SHOWN = 20
EMAILS_SHOWN = 5
OPT_IN = SyncSettings.repositories.key


@click.group("sync", invoke_without_command=True, subcommand_metavar="| COMMAND ...")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--watch", "-w", is_flag=True, help="Keep sending what is new, until Ctrl-C.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, dry_run: bool, watch: bool, as_json: bool) -> None:
    """Send history to your team's server: only of the repositories that you named, masked, and only what is new.

    Nothing leaves unless you named its repository (`backstory config set sync.repositories me/app`), switched it on
    (`backstory config set sync.enabled true`) and logged in. With --dry-run it prints what would leave, by repository,
    and what stays. Paths are relative to the repository; other paths, and the names of this machine and of your
    account, are masked.

    With --watch it follows the logs as `backstory ingest --watch` does and sends what is new within two seconds; with
    --json each sending that sent something is one line. A server that cannot be reached is waited for.
    """
    if ctx.invoked_subcommand is not None:
        return
    app: App = ctx.obj
    app.check_store()
    if dry_run and watch:
        raise click.UsageError("--dry-run sends nothing, so there is nothing to --watch.")
    if dry_run:
        _dry_run(app, as_json=as_json)
        return
    if watch:
        _follow(app, as_json=as_json)
        return
    with syncing.sender(app) as (own, _, uploader), output.progress("Sending") as report:
        done = uploader.run(syncing.stores(app), syncing.opted(app), report)
    if as_json:
        output.json({"address": own.address} | uploading.as_json(done))
    else:
        _print_sent(own.address, done)
    if done.failed:
        raise click.exceptions.Exit(1)


@command.command("status")
@json_option
@click.pass_obj
def status(app: App, as_json: bool) -> None:
    """Print what the team's server confirmed of your history, and how many sessions may have changed since."""
    own, opted, stores = accounts.account(app.home), syncing.opted(app), syncing.stores(app)
    notes = SyncNotes.read(accounts.notes_of(app.home, own))
    with syncing.remote(app, own) as remote:
        found = uploading.status(remote, notes, stores, opted)
        machines = machines_there(remote).machines
    if as_json:
        shown = ("id", "name", "session_count", "event_count", "seen", "is_this")
        said = [{key: getattr(each, key) for key in shown} for each in machines]
        output.json({"address": own.address} | msgspec.to_builtins(found) | {"machines": said})
        return
    there = f"{output.counted(found.confirmed_count, 'session')}, {output.counted(found.event_count, 'event')}"
    output.data(f"confirmed  {there}")
    output.data(f"waiting    {output.counted(found.waiting_count, 'session')}")
    output.data(f"staying    {output.counted(found.staying_count, 'session')}")
    if found.pruned_sessions:
        output.data(f"           {_pruned(found.pruned_sessions)}")
    for each in machines:
        what = f"{output.counted(each.session_count, 'session')}, {output.counted(each.event_count, 'event')}"
        words = f"{each.name or each.id}: {what}, last on {each.seen}{' (this one)' if each.is_this else ''}"
        output.data(f"machine    {output.one_line(words, output.width() - 11)}")


@command.command("forget")
@sessions_argument
@click.option("--all", "everything", is_flag=True, help="All that you sent.")
@click.option("--machine", metavar="NAME", help="All that a lost machine of yours sent: its name, or its id.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def forget(
    app: App, sessions: tuple[str, ...], everything: bool, machine: str | None, yes: bool, as_json: bool
) -> None:
    """Take sessions out of the team's server, for good: they are erased there, and stay out. Here they stay.

    A session is erased whichever machine of yours sent it. With --machine all that one machine sent is erased, which
    may be sent again by others that have it; `backstory sync status` lists your machines.
    """
    if bool(sessions) + everything + (machine is not None) != 1:
        raise click.UsageError("Name the sessions, or give --all, or --machine.")
    own = accounts.account(app.home)
    if machine is not None:
        _forget_machine(app, own, machine, yes=yes, as_json=as_json)
        return
    uids = [app.workspace.resolve(each).session.uid for each in sessions]
    which = "all that you sent" if everything else output.counted(len(uids), "session")
    what = f"Erasing {which} at {own.address} for good"
    if not is_agreed(what, f"{what}?", yes=yes):
        return
    with syncing.alone(app), syncing.remote(app, own) as remote:
        notes = SyncNotes.read(accounts.notes_of(app.home, own))
        gone = uploading.forget_all(remote, notes) if everything else uploading.forget(remote, notes, uids)
    if as_json:
        output.json({"address": own.address, "forgotten_uids": gone})
    else:
        output.talk(f"Erased {output.counted(len(gone), 'session')} at {own.address}. They will not be sent again.")


def _forget_machine(app: App, own: Account, typed: str, *, yes: bool, as_json: bool) -> None:
    """Erase what a machine sent, if a person agrees."""
    with syncing.remote(app, own) as remote:
        machines = machines_there(remote).machines
        found = [each for each in machines if each.id == typed] or [each for each in machines if each.name == typed]
        if len(found) != 1:
            many = "Several machines of yours have this name: give the id (backstory sync status --json)."
            raise click.UsageError(many if found else "You have no such machine there: backstory sync status")
        (machine,) = found
        if machine.is_this:
            raise click.UsageError("That is this machine. All that you sent goes with: backstory sync forget --all")
        what = f"Erasing {output.counted(machine.session_count, 'session')} of {machine.name or machine.id}"
        if not is_agreed(what, f"{what} at {own.address} for good?", yes=yes):
            return
        remote.ask("DELETE", f"/v1/machines/{machine.id}", repeats=False)
    if as_json:
        output.json(
            {"address": own.address, "machine": machine.name or machine.id, "session_count": machine.session_count}
        )
    else:
        output.talk(f"Erased {output.counted(machine.session_count, 'session')} at {own.address}.")
        output.talk("Its login is good until you end it: backstory team logins")


def _follow(app: App, *, as_json: bool) -> None:
    """Import what is new and send it, until a signal ends it."""
    own, machine = syncing.allowed(app), Machine(user_home=app.user_home)
    watch = watch_all(
        app.workspace, machine, output.talk, lambda: app.workspace.ingest(machine, output.talk, no_progress)
    )
    with syncing.remote(app, own, is_patient=False) as remote:

        def send() -> Sent | None:
            try:
                # Who switched it off, or named other repositories, meanwhile is obeyed.
                app.workspace.config = app.new_workspace().config
                syncing.allowed(app)
                with syncing.alone(app):
                    uploader = syncing.uploader(app, remote, SyncNotes.read(accounts.notes_of(app.home, own)))
                    return uploader.run(syncing.stores(app), syncing.opted(app), asks_first=not remote.has_answered)
            except ImportRunning:
                # With the next tick.
                return None

        steady, teller = SteadySync(lambda: _files(app), send, output.talk), syncing.teller(app, own, remote)

        def tick() -> None:
            teller.tick()
            if (done := steady.tick()) is not None and (done.sent or done.failed):
                _tell_sent(own.address, done, as_json=as_json)

        stop_on_signals()
        try:
            with closing(teller), closing(watch.batches(tick)) as batches:
                for number, report in enumerate(batches):
                    steady.came(report.total("bytes_read"))
                    if not number:
                        tick()
                        output.talk(f"Following {', '.join(watch.folders) or 'nothing yet'}. Ctrl-C ends it.")
        except KeyboardInterrupt:
            # It is how this command ends.
            return


def _files(app: App) -> list[Path]:
    """The files that change with what the stores have."""
    return [Path(f"{each.path}{side}") for each in app.stores for side in SIDES]


def _tell_sent(address: str, done: Sent, *, as_json: bool) -> None:
    """A line about what was sent."""
    if as_json:
        output.json_line({"at": output.iso(now_ms()), "address": address} | uploading.as_json(done))
        return
    output.talk(f"{datetime.now():%H:%M:%S} {_confirmed(address, done)}")
    for each in done.failed:
        output.talk(_not_taken(each))


def _print_sent(address: str, done: Sent) -> None:
    output.data(_confirmed(address, done))
    if done.created:
        output.talk(f"{output.counted(len(done.created), 'session')} of them are new there.")
    if done.staying:
        output.talk(f"{output.counted(done.staying, 'session')} stay here: backstory sync --dry-run")
    if done.pruned:
        output.talk(f"Of these {_pruned(done.pruned)}.")
    if done.erased:
        output.talk(f"{output.counted(len(done.erased), 'session')} removed here and erased there, too.")
    for each in done.failed:
        output.talk(_not_taken(each))


def _pruned(count: int) -> str:
    was = "was" if count == 1 else "were"
    return f"{output.counted(count, 'session')} {was} pruned in part: what was sent before stays as it is there"


def _confirmed(address: str, done: Sent) -> str:
    sessions = output.counted(len(done.sent), "session")
    return f"{output.counted(done.events, 'event')} of {sessions} confirmed by {address}."


def _not_taken(failed: NotSent) -> str:
    return f"Session {failed.session} was not taken: {failed.reason}."


def _dry_run(app: App, *, as_json: bool) -> None:
    settings, opted, stores = app.config.settings.sync, syncing.opted(app), syncing.stores(app)
    with output.progress("Reading what would leave") as report:
        found = counted(
            stores, opted, machine_of(stores, str(app.user_home)), lambda: app.workspace.redactor(people=False),
            app.workspace.now(), report, has_boards=settings.has_board,
        )  # fmt: skip
    erasing = _erasing(app)
    if as_json:
        settled = {"enabled": settings.is_enabled, "has_board": settings.has_board}
        output.json(settled | msgspec.to_builtins(found) | {"erasing_uids": erasing, "unusable": opted.unusable})
    else:
        _print(found, settings)
        if erasing:
            output.talk(
                f"On the server {output.counted(len(erasing), 'session')} would be erased, since you removed them here."
            )
    for each in opted.unusable:
        output.talk(f"{each!r} in {OPT_IN} names no repository: me/app (at github.com), HOST/OWNER/NAME, or a folder.")


def _erasing(app: App) -> list[str]:
    """The sessions that were removed here, and that the server is to erase."""
    try:
        notes = SyncNotes.read(accounts.notes_of(app.home, accounts.account(app.home)))
    except NotLoggedIn:
        return []
    return removed.erasing(notes, removed_uids(syncing.stores(app)))


def _print(found: DryRun, settings: SyncSettings) -> None:
    for each in found.leaving:
        _print_repository(each)
    by_reason: dict[str, list[Staying]] = {}
    for one in found.staying:
        by_reason.setdefault(one.reason, []).append(one)
    for reason, staying in by_reason.items():
        sessions = sum(one.session_count for one in staying)
        output.data(output.style(f"{output.counted(sessions, 'session')} stay: {reason}", bold=True))
        for one in staying[:STAYING_SHOWN]:
            output.data(
                f"  {one.session_count:>7,}  {output.one_line(one.repository or '(no project)', output.width() - 11)}"
            )
        if len(staying) > STAYING_SHOWN:
            output.data(f"           and {len(staying) - STAYING_SHOWN} more projects")
    if not found.leaving:
        output.talk("Nothing would leave. Name a repository to allow it: backstory config set sync.repositories me/app")
    elif not settings.is_enabled:
        output.talk(f"Nothing leaves while {SyncSettings.is_enabled.key} is false, which it is.")
    items = output.counted(found.board_items, "item")
    board = f"leave, too ({items})" if settings.has_board else f"stay here ({SyncSettings.has_board.key})"
    output.talk(f"Context boards {board}. Sessions that you removed never leave.")


def _print_repository(each: RepositoryLeaving) -> None:
    parts = (
        output.counted(each.session_count, "session"), output.counted(each.turn_count, "turn"),
        output.counted(each.event_count, "event"), output.size(each.bytes),
    )  # fmt: skip
    rows = {
        "leaves": ", ".join(parts),
        "masked": _kinds(each.masked) or "nothing had to be",
        "remote": "none; its folder is left out" if each.repository.startswith("/") else each.repository,
        "branches": ", ".join(each.branches) or "none",
        "e-mail": _emails(each.emails),
        "paths": "relative to the repository, ~ for your home; any other is masked",
        "names": "neither this machine's nor your account's",
    }
    output.data(output.style(each.repository, bold=True))
    for name, words in rows.items():
        output.data(f"  {name:<9}{output.one_line(words, output.width() - 11)}")


def _kinds(masked: Mapping[str, int]) -> str:
    counts = sorted(masked.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count:,} {name}" for name, count in counts)


def _emails(emails: list[str]) -> str:
    if not emails:
        return "no address"
    more = f" and {len(emails) - EMAILS_SHOWN} more" if len(emails) > EMAILS_SHOWN else ""
    return f"{output.counted(len(emails), 'address', 'addresses')} as written: {', '.join(emails[:EMAILS_SHOWN])}{more}"
