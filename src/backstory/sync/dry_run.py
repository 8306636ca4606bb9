"""A sync without a server: of each repository that was opted in the lines that would leave, counted and not kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.lazy import lazy_regex
from backstory.sync.boards import leaving_boards
from backstory.sync.leaving import choose
from backstory.sync.outward_export import OutwardExport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from backstory.derive.secrets import Redactor
    from backstory.store import Store
    from backstory.sync.leaving import LeavingSession
    from backstory.sync.opted import OptedIn
    from backstory.sync.outward import MachineNames

EMAIL = lazy_regex(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})*\.[A-Za-z]{2,24}\b")
NAMES_MOST = 10_000


class RepositoryLeaving(Struct, frozen=True, kw_only=True):
    """A repository of which something would leave. ``bytes``: of its lines, before they are compressed.

    ``masked``: the number of masks by kind. ``branches`` and ``emails``: names that would leave as they are.
    """

    repository: str
    session_count: int
    turn_count: int
    event_count: int
    bytes: int
    masked: dict[str, int]
    branches: list[str]
    emails: list[str]


class Staying(Struct, frozen=True, kw_only=True):
    """The number of sessions of a project that stay for one reason."""

    repository: str
    session_count: int
    reason: str


class DryRun(Struct, frozen=True, kw_only=True):
    """Repositories of which something would leave, and sessions that would stay. ``board_items``: those that leave."""

    board_items: int = 0
    leaving: list[RepositoryLeaving] = field(default_factory=list)
    staying: list[Staying] = field(default_factory=list)


def dry_run(
    stores: Iterable[Store], opted: OptedIn, machine: MachineNames, redactor: Callable[[], Redactor], now: int,
    progress: Callable[[int, int], None] = lambda done, total: None, *, has_boards: bool = False,
) -> DryRun:  # fmt: skip
    """Count what would leave. ``progress`` receives events done and events to do; ``has_boards``: boards would, too."""
    stores = list(stores)
    choice = choose(stores, opted)
    boards = leaving_boards(stores, choice) if has_boards else {}
    by_repository: dict[str, list[LeavingSession]] = {}
    for each in choice.leaving:
        by_repository.setdefault(each.repository.lower(), []).append(each)
    items, done, total = 0, 0, sum(each.origin.events for each in choice.leaving)
    leaving = []
    for repository, sessions in by_repository.items():
        export = OutwardExport(sessions, machine, redactor(), now)
        size, emails, branches = 0, set[str](), set[str]()
        for line in export.lines():
            size += len(line)
            if b"@" in line and len(emails) < NAMES_MOST:
                emails.update(EMAIL.findall(line.decode()))
            if line.startswith(b'{"type":"session"'):
                said = msgspec.json.decode(line)
                branches.update(filter(None, [said.get("branch"), *said.get("branches", [])]))
            progress(min(done + export.counts["events"], total), total)
        lines = [said for each in boards.get(repository, []) if (said := export.board_line(each))]
        items, size = items + len(lines), size + sum(map(len, lines))
        done += export.counts["events"]
        leaving.append(
            RepositoryLeaving(
                repository=sessions[0].repository, session_count=export.counts["sessions"],
                turn_count=export.counts["turns"], event_count=export.counts["events"], bytes=size,
                masked=export.masked, branches=sorted(branches), emails=sorted(emails),
            )
        )  # fmt: skip
    staying = [
        Staying(repository=project, session_count=count, reason=reason)
        for (reason, project), count in sorted(choice.staying.items(), key=lambda each: (-each[1], each[0]))
    ]
    return DryRun(board_items=items, leaving=leaving, staying=staying)
