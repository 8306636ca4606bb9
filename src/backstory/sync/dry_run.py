"""A sync without a server: of each repository that was opted in the lines that would leave, counted and not kept."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.export.exporting import Chosen
from backstory.export.portable import JsonExport
from backstory.export.redacted import learn
from backstory.lazy import lazy_regex
from backstory.model import encoded
from backstory.sync.leaving import choose
from backstory.sync.outward import Outward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backstory.derive.secrets import Redactor
    from backstory.store import Store
    from backstory.sync.leaving import LeavingSession
    from backstory.sync.opted import OptedIn
    from backstory.sync.outward import MachineNames

REMOTE = ("project", "repository")
"""The columns of a session that name its remote, by which a person opted in."""
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
    """Repositories of which something would leave, and sessions that would stay."""

    leaving: list[RepositoryLeaving] = field(default_factory=list)
    staying: list[Staying] = field(default_factory=list)


class OutwardExport:
    """Writes the lines of one repository's sessions as they may leave: secrets masked, then names of this machine."""

    def __init__(self, sessions: Sequence[LeavingSession], machine: MachineNames, redactor: Redactor, now: int) -> None:
        self.sessions, self.redactor = sessions, redactor
        roots = {each for one in sessions for each in (one.origin.root, one.origin.project or "") if each}
        self._outward = Outward(machine, {each for each in roots if each.startswith("/")}, redactor.mask)
        self._export = JsonExport(has_bytes=False, now=now, redactor=redactor)

    @property
    def counts(self) -> Counter[str]:
        """The number of sessions, turns and events."""
        return self._export.counts

    @property
    def masked(self) -> dict[str, int]:
        """The number of masks, by kind."""
        return dict(Counter(self.redactor.counts) + self._outward.counts)

    def learn(self) -> None:
        """Remember the secrets of all sessions, so that each is masked in any of them, and in every part of one."""
        for each in self.sessions:
            learn(self.redactor, each.store, [each.origin.id])

    def lines(
        self, sessions: Iterable[LeavingSession] | None = None, after: Mapping[str, tuple[int, int]] | None = None
    ) -> Iterable[bytes]:
        """Yield the lines of all sessions, or of some; ``after``: see ``JsonExport.lines``."""
        by_store: dict[int, Chosen] = {}
        for each in self.sessions if sessions is None else sessions:
            by_store.setdefault(id(each.store), Chosen(store=each.store, is_exact=True)).ids.append(each.origin.id)
        for line in self._export.lines([*by_store.values()], removed=False, after=after):
            yield self._rewritten(line)

    def _rewritten(self, line: bytes) -> bytes:
        said: dict[str, Any] = msgspec.json.decode(line)
        remote = {name: said[name] for name in REMOTE if said.get("type") == "session" and _is_remote(said.get(name))}
        rewritten = self._value(said) | remote
        return line if rewritten == said else encoded(rewritten) + b"\n"

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self._outward.text(value)
            case list():
                return [self._value(each) for each in value]
            case dict():
                return {self._outward.text(key): self._value(each) for key, each in value.items()}
        return value


def dry_run(
    stores: Iterable[Store], opted: OptedIn, machine: MachineNames, redactor: Callable[[], Redactor], now: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> DryRun:  # fmt: skip
    """Count what would leave. ``progress`` receives events done and events to do."""
    choice = choose(stores, opted)
    by_repository: dict[str, list[LeavingSession]] = {}
    for each in choice.leaving:
        by_repository.setdefault(each.repository.lower(), []).append(each)
    done, total = 0, sum(each.origin.events for each in choice.leaving)
    leaving = []
    for sessions in by_repository.values():
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
    return DryRun(leaving=leaving, staying=staying)


def _is_remote(value: object) -> bool:
    return isinstance(value, str) and not value.startswith("/")
