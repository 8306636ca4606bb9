"""One person, one folder, one machine: which session is meant, decided once for every command and every face.

>>> workspace = Workspace(lambda: config, home, folder)    # doctest: +SKIP
>>> workspace.resolve("S3"), workspace.default()           # doctest: +SKIP
>>> workspace.target("S3@12")                              # doctest: +SKIP
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backstory.bounds import counted
from backstory.derive.phrasing import phrases_report
from backstory.errors import (
    BackstoryError,
    BranchNotFound,
    NoSessionHere,
    SessionAmbiguous,
    SessionNotFound,
    SeveralRunHere,
)  # fmt: skip
from backstory.lazy import lazy_module, lazy_regex
from backstory.workspace.located import LocatedSession
from backstory.workspace.place import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from backstory.derive.secrets import Redactor
    from backstory.exchange import merging
    from backstory.ingest.report import IngestReport
    from backstory.projects.git_history import GitHistory
    from backstory.store import Session, Store
    from backstory.workspace.decisions import Late
    from backstory.workspace.history.sessions import SessionFilter
    from backstory.workspace.history.targets import Target
    from backstory.workspace.reader import Reader
    from backstory.workspace.runs.scheduler import Scheduler
    from backstory.workspace.shared_reader import SharedReader
    from backstory.workspace.stores.importing import Machine, Progress
    from backstory.workspace.stores.up_to_date import Update
else:
    merging = lazy_module("backstory.exchange.merging")

NUMBERED = lazy_regex(r"[Ss][0-9]+")
CHANGE = "change the filter, or import what is missing with `backstory ingest`"
"""The remedy where a filter lets no session through."""
PAGE = 20
"""The number of sessions in the first page that is read to find one."""
TITLE_CHARS = 40
"""The most characters of a session's title in an error."""


class Workspace(Place):
    """Resolves the words that a person uses in a place, reads its stores, runs agents there."""

    @cached_property
    def reader(self) -> Reader:
        """The reader of the stores here."""
        from backstory.workspace.reader import Reader

        return Reader(self)

    def reader_for_others(self, redactor: Redactor | None) -> SharedReader:
        """A reader of what goes to other people, without secrets if there is a ``redactor``."""
        from backstory.workspace.shared_reader import SharedReader

        return SharedReader(self, redactor)

    @cached_property
    def history(self) -> GitHistory:
        """The git history of the repository that the folder is in."""
        from backstory.projects.git_history import GitHistory

        return GitHistory(self.folder, self.environ)

    @cached_property
    def scheduler(self) -> Scheduler:
        """The scheduler, which runs agents and queues prompts for them."""
        from backstory.workspace.runs.scheduler import Scheduler

        return Scheduler(self)

    def rename(self, located: LocatedSession, name: str) -> Sequence[Late]:
        """Name a session in every store that holds it; returns the stores that will catch up at the next ingest."""
        uid = located.session.uid
        return self.decisions.decide(located.store, uid, lambda store, session: store.rename(session, name)).late

    def set_context(self, located: LocatedSession, key: str, value: str | None) -> Sequence[Late]:
        """Set a key in a session's context, wherever that is held; None removes it. Returns the stores that are late.

        Raises ContextUnusable, ContextFull, ContextKeyNotFound.
        """

        from backstory.store.tables import decisions

        def change(store: Store, session: Session) -> None:
            store.decide(decisions.set_context, session.uid, key, value, store.now())

        return self.decisions.decide(located.store, located.session.uid, change).late

    def ingest(self, machine: Machine, report: Callable[[str], None], progress: Progress | None = None) -> IngestReport:
        """Store what is new: runs that are over, logs, and what known projects have; then derive what is missing."""
        from backstory.workspace.stores.importing import ingest_all, no_progress

        return ingest_all(self, machine, report, progress or no_progress)

    def derive_outdated(self, report: Callable[[str], None], progress: Progress) -> None:
        """Derive again, as far as some seconds allow, what an earlier version derived here and in this project."""
        stores = [each for each in {self.home_store, self.project_store} if each.exists and not each.is_elsewhere]
        if self.keeps_home and not all(each.is_of_today() for each in stores):
            from backstory.workspace.stores.importing import derive_for_a_while

            derive_for_a_while(self, report, progress)

    def bring_up_to_date(self, user_home: Path) -> Update:
        """Take new logs into the home store first, as far as a moment allows."""
        from backstory.workspace.stores.up_to_date import bring_up_to_date

        return bring_up_to_date(self, user_home)

    def resolve(self, words: str) -> LocatedSession:
        """The session that is meant, in the nearest store that has it.

        Raises SessionNotFound, SessionAmbiguous: also where the start of a uid fits another session of another store.
        """
        found: LocatedSession | None = None
        # A number means a session of this project, also where its store comes from elsewhere.
        is_number = bool(NUMBERED.fullmatch(words))
        for store in sorted(self.stores, key=lambda each: is_number and not each.is_elsewhere):
            if not store.exists:
                continue
            try:
                other = self._nearest(store, store.session(words.encode("utf-8", "replace").decode()))
            except SessionNotFound:
                continue
            if found is None:
                found = other
                if not _is_start(words, found.session):
                    break
            elif other.session.uid != found.session.uid:
                raise SessionAmbiguous(words, [_candidate(each.session) for each in (found, other)])
        found = found or (None if is_number or self.named else self._found_ahead(words))
        if found is None:
            raise SessionNotFound(words)
        return found

    def _found_ahead(self, words: str) -> LocatedSession | None:
        """The session that is meant, where the home store does not have it yet: it runs in another project."""
        for store in self.known_projects.ahead():
            with suppress(SessionNotFound):
                return LocatedSession(store, store.session(words.encode("utf-8", "replace").decode()))
        return None

    def _nearest(self, store: Store, session: Session) -> LocatedSession:
        """A session where it was found; one that was taken from this project's store from elsewhere as it is there."""
        project = self.project_store
        is_taken = project.is_elsewhere and session.elsewhere == str(project.path) and store.path != project.path
        if is_taken and project.has(session.uid):
            store, session = project, project.session(session.uid)
        return LocatedSession(store, session, store.is_elsewhere and session.uid in self.conflicts)

    def default(self, *, running_first: bool = False, is_work: bool = False) -> LocatedSession:
        """The session that is meant where none is named: the last one active in this worktree, else in this project.

        ``running_first``: the one that runs here, if one does; ``is_work``: none that phrased a report, if there is
        another. Raises NoSessionHere, SeveralRunHere.
        """
        running = self.running_here() if running_first else []
        if len(running) > 1:
            raise SeveralRunHere({each.label: _called(each) for each in running})
        found = running[0] if running else self.last_active() or self._newest()
        if found is None:
            raise NoSessionHere(self.why_none())
        is_passed = is_work and not running and phrases_report(found.session.first_prompt or "")
        return (self._newest_work() or found) if is_passed else found

    def running_here(self) -> list[LocatedSession]:
        """The sessions that run in this worktree; where none does, those that run in this project."""
        from backstory.workspace.runs.running import sessions_running, with_title

        store = self.project_store
        runs = sessions_running(self.home, store.path, self.worktree) if store.exists else {}
        return [
            LocatedSession(store, with_title(store.session(uid), each)) for uid, each in runs.items() if store.has(uid)
        ]

    def _newest(self) -> LocatedSession | None:
        """The session last active here of those that only logs hold."""
        from backstory.workspace.history.sessions import Page

        newest = self.reader.sessions(page=Page(limit=1)).sessions
        return self.resolve(newest[0].uid) if newest else None

    def _newest_work(self) -> LocatedSession | None:
        """The session last active here that did not begin with phrasing a report."""
        from backstory.workspace.history.sessions import SessionFilter

        listed = (each for page in self.reader.session_pages(SessionFilter(), PAGE) for each in page.sessions)
        newest = next((each for each in listed if not phrases_report(each.first_prompt or "")), None)
        return self.resolve(newest.uid) if newest else None

    def why_none(self, wanted: SessionFilter | None = None, elsewhere: str = "") -> str:
        """Return which sessions were looked at where none fits, and what to do next; '' if there are none at all.

        ``wanted``: None for those of this project; ``elsewhere``: the option for other projects.
        """
        from backstory.workspace.history.sessions import SessionFilter

        wanted, count = wanted or SessionFilter(), self.reader.count
        total = count(SessionFilter(everywhere=True))
        if not total or wanted.everywhere:
            return f"None of {counted(total, 'session')} fits: {CHANGE}." if total else ""
        here, of_project = self.project_key or self.project_folder, count(SessionFilter())
        none = f"None of {counted(of_project, 'session')} of {here} fits" if of_project else f"No sessions of {here}"
        if fitting := count(replace(wanted, everywhere=True)):
            return f"{none}. {fitting:,} in other projects{f': {elsewhere}' if elsewhere else ''}"
        others = f", and none of {total - of_project:,} in other projects" if total > of_project else ""
        return f"{none}{others}{'' if of_project else ' fits'}: {CHANGE}."

    def target(self, words: str, session: LocatedSession | None = None) -> Target:
        """The record that is meant: @N, a branch's name or number, a session (where it stands), or SESSION@N.

        Words that name nothing in ``session`` (None: the default one) may name another session. Raises RecordNotFound,
        BranchNotFound, BranchRemoved, NoBranches, and what ``resolve`` and ``default`` raise.
        """
        from backstory.workspace.history.targets import NUMBER, RECORD, current_target, resolve_target

        try:
            if session is not None:
                return resolve_target(session, words)
            return replace(resolve_target(self.default(), words), is_default=True)
        except (BranchNotFound, NoSessionHere) as refused:
            named, sign, seq = words.rpartition("@")
            try:
                if named and RECORD.fullmatch(sign + seq):
                    return resolve_target(self.resolve(named), sign + seq)
                if not RECORD.fullmatch(words) and not NUMBER.fullmatch(words):
                    return current_target(self.resolve(words))
            except SessionNotFound as unknown:
                raise _nearer(unknown, refused, words) from None
            raise

    def check_values(self) -> None:
        """Raise StoreDamaged where a store holds a value that its column cannot: for who failed, and asks over what."""
        for store in {each.path: each for each in (self.project_store, self.home_store)}.values():
            if store.exists:
                merging.check_rows(store)


def _nearer(unknown: SessionNotFound, refused: BackstoryError, words: str) -> BackstoryError:
    """The error that says more: words such as S9 and S9@4 are a session's, other ones may be a branch's."""
    is_session = NUMBERED.fullmatch(words.partition("@")[0]) or "@" in words
    return unknown if is_session or isinstance(refused, NoSessionHere) else refused


def _is_start(wanted: str, session: Session) -> bool:
    """Return True if a session is meant by no more than the start of its uid."""
    start = wanted.upper()
    return session.uid.startswith(start) and session.uid != start and wanted != session.name


def _candidate(session: Session) -> str:
    return f"{session.uid[:16]} ({session.shown_title[:TITLE_CHARS]})"


def _called(located: LocatedSession) -> str:
    title = located.session.shown_title[:TITLE_CHARS]
    return f"{located.label} ({title})" if title else located.label
