"""The reading interface of every face. It prints nothing, and returns values; each part is imported when it is asked.

Threads may share one reader: each asks on a connection of its own. A ``snapshot`` is of the thread that made it.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from backstory.errors import RecordNotFound
from backstory.projects import git
from backstory.store.intake import coverage, derived_tables
from backstory.store.tables import events as stored_events
from backstory.store.tables import sessions as stored_sessions
from backstory.store.tables import turns as stored_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterator, Sequence
    from pathlib import Path as FilePath

    from backstory.ask.stats import By
    from backstory.conversation.board import Offer
    from backstory.derive.pricing import Cost
    from backstory.derive.secrets import Redactor
    from backstory.export.shared import OutlinePoint, SharedSession
    from backstory.model import Event
    from backstory.store import Session, Store
    from backstory.store.intake.derived_tables import StoredCheckpoint
    from backstory.store.tables.session_filter import Selection
    from backstory.workspace.history.authorship import Authorship
    from backstory.workspace.history.entries import Form, OutlineColumns, OutlineEntry, SessionEntry
    from backstory.workspace.history.habits import Habits
    from backstory.workspace.history.listing import Listing
    from backstory.workspace.history.records import Path
    from backstory.workspace.history.searching import Cancellation, SearchAnswer, SearchQuery
    from backstory.workspace.history.sessions import ListedSession, Page, SessionFilter, SessionPage
    from backstory.workspace.history.sharing import Shared
    from backstory.workspace.history.stats import Stats, StatsQuery, ToolStats
    from backstory.workspace.history.targets import Branch, Target
    from backstory.workspace.history.transcript import ListedTurn, Transcript
    from backstory.workspace.history.trees import Comparison, SessionTree
    from backstory.workspace.history.work import HandCommits, SessionAttempts, SessionWork
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.place import Place
    from backstory.workspace.runs.contexts import SessionContext
    from backstory.workspace.runs.running import ListedRun
    from backstory.workspace.stores.moving import LeftBehind


def _ignore(_remark: str) -> None:
    """For who wants no remarks."""


def _no_progress(_done: int, _total: int | None) -> None:
    """For who shows none."""


class Reader:
    """Answers from the stores of a place."""

    def __init__(self, place: Place) -> None:
        self._place = place

    @cached_property
    def _listing(self) -> Listing:
        from backstory.workspace.history.listing import Listing

        return Listing(self._place)

    def sessions(self, wanted: SessionFilter | None = None, page: Page | None = None) -> SessionPage:
        """A page of the sessions that are listed here, each once, the last active first."""
        return self._listing.sessions(wanted, page)

    def session_pages(self, wanted: SessionFilter, first: int) -> Iterator[SessionPage]:
        """The whole list, read as it is asked for: a page of ``first`` sessions, then larger and larger ones."""
        return self._listing.pages(wanted, first)

    def with_subagents(self, wanted: SessionFilter) -> list[tuple[Store, Session]]:
        """Return every session of a list with its subagents, whatever the filter says of them, each with its store."""
        from backstory.ask import scoped

        stores, found = self._listing.stores(everywhere=wanted.everywhere), list[tuple["Store", "Session"]]()
        places = self._listing.places(stores, wanted)
        for store in stores:
            ids = store.ask(scoped.with_subagents, [session.id for where, session in places if where is store])
            found += ((store, each) for each in store.several_sessions(sorted(ids)))
        return found

    def left_behind(self) -> list[LeftBehind]:
        """The folders of sessions that are gone and whose git repository is here now.

        Git is started only where the repository here is not known, and one of a folder that is gone is.
        """
        home, root = self._place.home_store, git.repository_root(self._place.folder)
        if root is None or home is not self._place.machine_store:
            return []
        is_known, noted = home.ask_or((True, list[str]()), stored_sessions.same_repositories, str(root))
        if not noted:
            return []
        from backstory.workspace.history.sessions import SessionFilter
        from backstory.workspace.stores import moving  # mostly it was never elsewhere

        here = self._listing.filter_of(home, SessionFilter())
        return moving.left_behind(self._place, root, noted, here, is_known=is_known)

    def nobody_has(self, wanted: Selection) -> str:
        """Say which value of a filter no session here has, and what is near it; '' where each is there."""
        from backstory.workspace.history.unknown_values import nobody_has

        return nobody_has(self._listing.stores(everywhere=True), self._listing.count, wanted)

    @property
    def masks(self) -> Callable[..., Redactor]:
        """Makes a redactor for what is read here; see ``Place.redactor``."""
        return self._place.redactor

    def count(self, wanted: SessionFilter | None = None) -> int:
        """Return the number of sessions in the whole list."""
        return self._listing.count(wanted)

    def stats(
        self, query: StatsQuery, report: Callable[[int, int], None] = _no_progress, *, of_home: bool = False
    ) -> Stats:
        """Return sums over the turns of listed sessions, each turn once; ``report`` receives (done, total) turns.

        ``of_home``: as the home store has them, without what a project's own store may have beyond it.
        """
        from backstory.workspace.history.stats import count_turns

        return count_turns(self._listing, query, report, [self._place.home_store] if of_home else None)

    def stats_by(
        self, query: StatsQuery, groupings: Sequence[By | None], report: Callable[[int, int], None] = _no_progress
    ) -> tuple[Stats, ...]:
        """The same in several groupings, for which turns are read once; None: all of them as one."""
        from backstory.workspace.history.stats import count_turns_by

        return count_turns_by(self._listing, query, groupings, report)

    def session_costs(
        self, wanted: SessionFilter, report: Callable[[int, int], None] = _no_progress
    ) -> tuple[dict[str | None, Cost], int]:
        """Return the cost of each session's turns that are wanted, by its uid, and how many turns have no time."""
        from backstory.workspace.history.stats import session_costs

        return session_costs(self._listing, wanted, report)

    def condition_of(self, wanted: SessionFilter) -> str:
        """Return a filter's condition on ``s`` of ``main.sessions`` besides its time, for ``backstory sql``."""
        return self._listing.condition_of(wanted)

    def work(
        self, wanted: SessionFilter, report: Callable[[int, int | None], None] = _no_progress
    ) -> Iterator[SessionWork]:
        """Yield the work in sessions that were active in some time, each turn once, read as it is asked for.

        Sessions of one branch of a repository come together, the last active first.
        ``report`` receives (done, total) sessions; None while these are counted.
        """
        from backstory.workspace.history.work import done_in

        return done_in(self._listing, wanted, report)

    def work_of(self, located: LocatedSession) -> SessionWork:
        """Return the work in one session, in all of its turns."""
        from backstory.workspace.history.work import work_of

        return work_of(located.store, located.session, self.session(located.store, located.session))

    def commits_by_hand(self, until: int | None = None) -> HandCommits:
        """The commits, authored before a time, of what sessions edited and did not commit themselves."""
        from backstory.workspace.history.work import HandCommits

        def makers(commit: str) -> Iterator[str]:
            return (each.act.uid for each in self.authorship().of_commit(commit) if each.is_maker)

        return HandCommits(self._place.environ, makers, until)

    def checkpoints(self, located: LocatedSession) -> list[StoredCheckpoint]:
        """The summaries that agents put in the place of their own history in a session, in their order."""
        return located.store.ask(derived_tables.checkpoints_of, located.session.id)

    def habits(self, wanted: SessionFilter, report: Callable[[int, int], None] = _no_progress) -> Habits:
        """Return the work with agents in some time, each turn once; ``report`` receives (done, total) steps."""
        from backstory.workspace.history.habits import habits_of

        return habits_of(self._listing, wanted, report)

    def attempts(
        self, wanted: SessionFilter, report: Callable[[int, int], None] = _no_progress
    ) -> tuple[SessionAttempts, ...]:
        """Return the attempts in sessions that were active in some time, each turn once, the first begun first.

        ``report``: (done, total) sessions.
        """
        from backstory.workspace.history.work import tried_in

        return tried_in(self._listing, wanted, report)

    def authorship(self) -> Authorship:
        """The authors of the files, commits and pull requests of the project here."""
        from backstory.projects import git
        from backstory.workspace.history.authorship import Authorship

        sources = self._place
        roots = [sources.project_folder, *git.worktrees(sources.project_folder)]
        return Authorship(self._listing, sources.project_key, list(map(str, roots)))

    def tool_stats(
        self, query: StatsQuery, report: Callable[[int, int], None] = _no_progress, *, of_home: bool = False
    ) -> ToolStats:
        """Return the calls of tools in listed sessions, each call once; ``report``: (done, total) sessions."""
        from backstory.workspace.history.stats import count_calls

        return count_calls(self._listing, query, report, [self._place.home_store] if of_home else None)

    def tool_sessions(self, query: StatsQuery, tool: str) -> ToolStats:
        """Return the calls of one tool, with the uid of each listed session in the place of a tool's name."""
        from backstory.workspace.history.stats import count_calls

        return count_calls(self._listing, query, _no_progress, only=tool)

    def about(self, words: str, wanted: SessionFilter) -> SessionFilter:
        """The same filter for sessions that are about something, in words: see ``Store.about``."""
        from backstory.workspace.history import searching

        return searching.about(self._listing, words, wanted)

    def session(self, store: Store, session: Session) -> ListedSession:
        """One session that was found in a store, as it is listed."""
        return self._listing.session(store, session)

    def sessions_of(self, uids: Sequence[str]) -> tuple[ListedSession, ...]:
        """These sessions as the list of every project has them, in this order; without those that are not here."""
        return self._listing.sessions_of(uids)

    def labels(self, uids: Sequence[str]) -> dict[str, str]:
        """Return each session's label that commands take in any folder: the shortest part of its uid of its own."""
        return self._listing.labels(uids)

    def change_token(self) -> tuple[Hashable, ...]:
        """A value that differs from an earlier one if a store, a run or a queue changed since, in whichever thread.

        Asking for it costs next to nothing.
        """
        from backstory.store.tables import queue  # a screen asks for it, and no command

        stores = self._listing.stores(everywhere=False)
        changes = ((str(store.path), store.change_token(), queue.stamp(store.path)) for store in stores)
        return (*changes, *self._listing.run_stamps())

    def change_stamp(self) -> tuple[Hashable, ...]:
        """A value that differs from an earlier one, also of another reader, if a store, a run or a queue changed since.

        Two changes within a moment of the file system may have the same one.
        """
        from backstory.store.tables import queue  # pages ask for it, and no command
        from backstory.workspace.place import written

        stores = [each.path for each in self._listing.stores(everywhere=False)]
        files = [path.with_name(f"{path.name}{end}") for path in stores for end in ("", "-wal")]
        return (*map(written, files), *map(queue.stamp, stores), *self._listing.run_stamps())

    def change_folders(self) -> set[FilePath] | None:
        """The folders in which something happens when the token changes; None while a run may end with no trace."""
        from backstory.runs.spool import SPOOLS

        if next(self._listing.run_stamps(), None) is not None:
            return None
        home = self._place.home
        of_stores = (path.parent for each in self._place.stores for path in (each.path, each.path.resolve()))
        # Where there is none yet it is made in the next one above.
        return {
            next(each for each in (path, *path.parents) if each.is_dir()) for path in (home, home / SPOOLS, *of_stores)
        }

    @contextmanager
    def snapshot(self, *, everywhere: bool = False) -> Iterator[None]:
        """Everything that is asked while this lasts is of one moment of each store; keep it short.

        Who writes a project's store meanwhile waits. ``everywhere``: also the stores that only such a list asks.
        """
        with ExitStack() as held:
            for store in self._listing.stores(everywhere=everywhere):
                held.enter_context(store.snapshot())
            yield

    def transcript(self, located: LocatedSession, report: Callable[[str], None] = _ignore) -> Transcript:
        """The turns of a session with those of its live runs; ``report`` receives why a run is not shown."""
        from backstory.runs.spool import SPOOLS
        from backstory.workspace.history.transcript import transcript_of

        return transcript_of(self._listing, self._place.home / SPOOLS, self._place.now(), located, report)

    def shared(self, located: LocatedSession, redactor: Redactor | None = None, *, full: bool = False) -> Shared:
        """A session for other people: without removed branches; with a ``redactor``, without its secrets.

        ``full``: with all that tools were given and returned.
        """
        from backstory.workspace.history import sharing

        return sharing.shared(self.transcript(located), redactor, full=full)

    def points(
        self, located: LocatedSession, redactor: Redactor | None = None
    ) -> tuple[SharedSession, Iterator[OutlinePoint]]:
        """The outline of a session for other people: what was asked, decided and committed, in order."""
        from backstory.workspace.history import sharing

        return sharing.outlined(self.transcript(located), redactor)

    def turns(self, located: LocatedSession) -> tuple[ListedTurn, ...]:
        """The turns of a session, in order, those of its live runs last."""
        return self.transcript(located).turns

    def outline(self, located: LocatedSession) -> tuple[OutlineEntry, ...]:
        """Every entry of a session, in order, by what is known without unpacking it."""
        from backstory.workspace.history.entries import outlined

        turns = located.store.ask(stored_turns.numbers, located.session.id)
        return tuple(outlined(each, turns) for each in located.store.ask(stored_events.outline, located.session.id))

    def columns(self, located: LocatedSession) -> OutlineColumns:
        """The same as columns, for a face that scrolls in very long sessions."""
        from backstory.workspace.history.entries import columns_of

        return columns_of(located)

    def part(
        self, located: LocatedSession, most: int, goal: int | None
    ) -> tuple[OutlineColumns, tuple[ListedTurn, ...]] | None:
        """Entries around a record of a session, or the last, and their turns; None if it takes all of it."""
        from backstory.runs.spool import SPOOLS
        from backstory.workspace.history.transcript import part_of

        return part_of(self._place.home / SPOOLS, located, most, goal)

    def entries(self, located: LocatedSession, seqs: Sequence[int], form: Form = "compact") -> tuple[SessionEntry, ...]:
        """The entries of these records of a session, in order, each with its event."""
        from backstory.workspace.history.entries import entries_of

        return entries_of(located, seqs, form)

    def events(
        self,
        located: LocatedSession,
        after: tuple[int, int] = (0, -1),
        *,
        form: Form = "compact",
        turns: Container[int | None] | None = None,
        limit: int | None = None,
    ) -> Iterator[SessionEntry]:
        """The stored events of a session behind ``after`` (seq, part), in order; read in pages as they are asked for.

        ``turns``: only those of turns with these numbers (None: before the first). What belongs to a turn that was
        stored after this was called is left for the next call.
        """
        from backstory.workspace.history.entries import events_behind

        return events_behind(located, after, form, turns, limit)

    def record(self, located: LocatedSession, seq: int) -> tuple[SessionEntry, ...]:
        """The events of one record, each in full. Raises RecordNotFound."""
        found = self.entries(located, [seq], "full")
        if not found:
            raise RecordNotFound(seq)
        return found

    def kept_record(self, located: LocatedSession, seq: int) -> bytes:
        """The bytes of a record, as its agent wrote it, which may have no event. Raises RecordNotFound."""
        from backstory.ingest.log_reader import kept_lines
        from backstory.store.tables import logs

        store = located.store
        for log in store.logs(located.session):
            if any(
                each.first_seq <= seq < each.first_seq + each.records for each in store.ask(logs.seq_ranges, log.id)
            ):
                for line in kept_lines(store, log):
                    if line.seq == seq:
                        return line.content or b""
        raise RecordNotFound(seq)

    def full(self, located: LocatedSession, entry: OutlineEntry) -> Event:
        """The event of an entry with all that its record says. Raises RecordNotFound."""
        for each in self.record(located, entry.seq):
            if each.outline.part == entry.part:
                return each.event
        raise RecordNotFound(entry.seq)

    def tree(self, located: LocatedSession, *, removed: bool = False, costs: bool = True) -> SessionTree:
        """The turns of a session by who follows whom; ``removed``: also those of branches that were removed."""
        from backstory.workspace.history.trees import session_tree

        return session_tree(located, removed=removed, costs=costs)

    def branches(self, located: LocatedSession) -> list[Branch]:
        """The branches of a session, the one that last grew first."""
        from backstory.workspace.history.targets import branches

        return branches(located)

    def path(self, located: LocatedSession) -> Path:
        """The records of the branch that the next prompt continues."""
        from backstory.conversation.tree import Tree
        from backstory.workspace.history.records import Path, path_records

        point, tree = located.store.leaf(located.session), Tree(located.store.tree(located.session))
        records = iter(()) if point is None else path_records(located, tree.path(point), tree)
        return Path(point=point, records=records)

    def diff(self, left: Target, right: Target) -> Comparison:
        """Two branches, of one session or of two: where they part, and what came of each."""
        from backstory.workspace.history.trees import compared

        return compared(left, right)

    def context(
        self, located: LocatedSession, budget: int, *, explain: bool = False, offer: Offer | None = None
    ) -> SessionContext:
        """Return the text that the next run of a session receives before its prompt, in at most ``budget`` characters.

        ``offer``: with these notes of the board.
        """
        from backstory.workspace.runs.contexts import session_context

        return session_context(located, budget, explain=explain, offer=offer)

    def search(self, query: SearchQuery, cancellation: Cancellation | None = None) -> SearchAnswer:
        """Search the home store. Raises Cancelled if another thread asked for the ``cancellation``."""
        from backstory.store.intake.coverage import Coverage
        from backstory.workspace.history.searching import SearchAnswer, search

        findings = search(self._place, query, cancellation)
        # Their numbers would mean other sessions in another project.
        uids = {session.uid for each in findings.excerpts for session in (each.session, each.shown)}
        home = self._place.home_store
        return SearchAnswer(
            query=query,
            findings=findings,
            labels=self.labels(sorted(uids)),
            coverage=home.ask(coverage.state, home.index_rule and home.index_rule()) if home.exists else Coverage(),
            missing_store=None if home.exists else home.path,
        )

    def runs(self) -> tuple[ListedRun, ...]:
        """The runs of the machine that are not stored yet, the oldest first."""
        from backstory.workspace.runs.running import pending_runs

        return pending_runs(self._place.home)
