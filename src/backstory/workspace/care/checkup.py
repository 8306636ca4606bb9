"""The check-up: every question, one after the other, about a machine that is left as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from backstory.derive import harmless
from backstory.errors import BackstoryError
from backstory.workspace.care import clients, machine, stores
from backstory.workspace.care.case import is_text
from backstory.workspace.care.findings import US, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.workspace.care.case import Case

DAYS_MS = 3 * machine.DAY_MS
"""After so long without a word of the server what is newer is said to wait."""


def check_up(case: Case) -> list[Finding]:
    """Return all that is found, what needs mending first. Nothing is changed."""
    if found := [_checked(case, each) for each in machine.of_marks(case)]:
        return found
    found = [_checked(case, each) for question in QUESTIONS for each in question(case)]
    return sorted(found, key=lambda each: not each.kind.is_ill)


def _checked(case: Case, each: Finding) -> Finding:
    """A finding without a command that does not run as it is printed; and an ingest that may prune is not safe."""
    is_ingest = each.command[:2] == (US, "ingest") and not {"--store", "--schedule"} & {*each.command}
    is_ours_nowhere = each.command[:1] == (US,) and not is_text(case.home)
    is_printed = all(map(_is_as_printed, (*each.command, str(each.folder or ""))))
    if not is_printed or is_ours_nowhere or (is_ingest and case.is_home_off):
        return replace(each, command=(), folder=None, is_safe=False)
    return replace(each, is_safe=False) if is_ingest and each.is_safe and case.may_prune else each


def _is_as_printed(word: str) -> bool:
    return "\n" not in word and "\t" not in word and harmless.clean(word) == word


def of_sync(case: Case) -> Iterator[Finding]:
    """History that the settings send to a team's server, and that does not get there."""
    settings = case.settings
    if isinstance(settings, BackstoryError) or not (settings.sync.is_enabled and settings.sync.repositories):
        return
    from backstory.sync import account  # few send anything

    try:
        own = account.account(case.home)
    except BackstoryError:
        yield Finding(name="sync-not-logged-in", command=(US, "login", "--help"))
        return
    notes = account.notes_of(case.home, own)
    confirmed = notes.stat().st_mtime_ns // 1_000_000 if notes.is_file() else 0
    if confirmed + DAYS_MS < case.now and case.look(case.store).newest_ms > confirmed:
        yield Finding(name="sync-waits", about=own.address, command=(US, "sync"))


QUESTIONS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    machine.of_machine, machine.of_settings, machine.of_home, machine.of_disk, stores.of_stores, stores.of_places,
    stores.of_locks, stores.of_runs, stores.of_queues, clients.of_agents, clients.of_entries,
    clients.of_timers, of_sync,
)  # fmt: skip
