"""``backstory sync``: what would leave this machine. It prints, and sends nothing.

JSON: ``enabled`` and ``has_board`` (the settings), ``leaving`` (by repository: ``session_count``, ``turn_count``,
``event_count``, ``bytes``, ``masked`` by kind, ``branches``, ``emails``), ``staying`` (``repository``,
``session_count``, ``reason``), ``unusable`` (entries of sync.repositories that name no repository).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from backstory.cli import output
from backstory.cli.options import json_option, store_option
from backstory.config import SyncSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backstory.cli.app import App
    from backstory.sync.dry_run import DryRun, RepositoryLeaving, Staying

STAYING_SHOWN = 20
EMAILS_SHOWN = 5
OPT_IN = SyncSettings.repositories.key


@click.command("sync")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@json_option
@store_option
@click.pass_obj
def command(app: App, dry_run: bool, as_json: bool) -> None:
    """Print what would leave this machine, by repository, and what stays.

    Nothing leaves unless you name its repository: `backstory config set sync.repositories me/app`. What would leave
    has its secrets masked. Paths are relative to the repository; other paths, and the names of this machine and of
    your account, are masked. There is no server to send it to yet.
    """
    from backstory.sync.dry_run import dry_run as counted
    from backstory.sync.opted import opted_in
    from backstory.sync.outward import machine_of

    if not dry_run:
        raise click.UsageError("There is no server to send history to yet. Add --dry-run to see what would leave.")
    app.check_store()
    settings = app.config.settings.sync
    opted = opted_in(settings.repositories, str(app.user_home))
    stores = [each for each in app.stores if each.exists]
    with output.progress("Reading what would leave") as report:
        found = counted(
            stores, opted, machine_of(stores, str(app.user_home)), lambda: app.workspace.redactor(people=False),
            app.workspace.now(), report,
        )  # fmt: skip
    if as_json:
        settled = {"enabled": settings.is_enabled, "has_board": settings.has_board}
        output.json(settled | msgspec.to_builtins(found) | {"unusable": opted.unusable})
    else:
        _print(found, settings)
    for each in opted.unusable:
        output.talk(f"{each!r} in {OPT_IN} names no repository: me/app (at github.com), HOST/OWNER/NAME, or a folder.")


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
    board = "may leave, too" if settings.has_board else f"stay here ({SyncSettings.has_board.key})"
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
