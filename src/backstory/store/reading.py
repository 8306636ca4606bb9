"""What is asked of a store: sessions, turns, events, search, SQL. Nothing here changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from backstory.lazy_module import lazy_module
from backstory.store import branches, coverage, events, moves, session_filter, sessions, turns
from backstory.store.coverage import Coverage
from backstory.store.database import Database, T, checked, id_of
from backstory.store.events import OutlinedEvent, StoredEvent
from backstory.store.session_filter import ListFilter, SessionFilter
from backstory.store.sessions import Cursor, Session, Sort, SortKey

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import apsw

    from backstory.conversation.context import History
    from backstory.conversation.tree import Point, Span
    from backstory.derive.pricing import Cost
    from backstory.derive.tally import Tally
    from backstory.model import Turn, TurnWithEvents
    from backstory.store import calls_made, claims, compactions, copies, costs, file_history, run_facts, runs, scoped
    from backstory.store.attempts import Attempt
    from backstory.store.authorship import FileTouch
    from backstory.store.calls_made import CallMade
    from backstory.store.compactions import Compaction
    from backstory.store.costs import Costs
    from backstory.store.derived_tables import StoredCheckpoint, StoredRef
    from backstory.store.file_history import Touch
    from backstory.store.habits import HabitRows
    from backstory.store.moves import Moves
    from backstory.store.readonly import Answer
    from backstory.store.search import SearchResult
    from backstory.store.session_filter import Filter
    from backstory.store.sidecars import Sidecar
    from backstory.store.sql_functions import FullForm
    from backstory.store.sql_scope import SqlScope
    from backstory.store.stats import Asked
    from backstory.store.tool_stats import ToolCalls
    from backstory.store.work import DoneDeed, WorkTurn
else:
    calls_made = lazy_module("backstory.store.calls_made")
    claims = lazy_module("backstory.store.claims")
    compactions = lazy_module("backstory.store.compactions")
    copies = lazy_module("backstory.store.copies")
    costs = lazy_module("backstory.store.costs")
    file_history = lazy_module("backstory.store.file_history")
    run_facts = lazy_module("backstory.store.run_facts")
    runs = lazy_module("backstory.store.runs")
    scoped = lazy_module("backstory.store.scoped")

F = TypeVar("F", bound=SessionFilter)
ROWS_MAX = 10_000
"""So many rows of an answer to SQL are given, unless it is said otherwise."""
TIMEOUT_S = 5.0
_HAS = "select count(*) from sessions where uid = ?"


class Reading(Database):
    """The reading methods of a store."""

    @property
    def moves(self) -> Moves:
        """The folders that were moved since their paths were recorded here; read once while the store is open."""
        if self._moves is None:
            self._moves = self._read_if_begun(lambda db: moves.load(db, self.path), moves.Moves())
        return self._moves

    def owned_by(self, store_id: str) -> list[str]:
        """The uids of sessions that the store with this id owns, in the order of their numbers."""
        return self._read_if_begun(lambda db: sessions.owned_by(db, store_id), [])

    def uids(self) -> list[str]:
        """The uid of every session."""
        return self._read_if_begun(sessions.uids, [])

    def has(self, uid: str) -> bool:
        """Whether a session is here."""
        return self._read_if_begun(lambda db: bool(db.execute(_HAS, (uid,)).get), False)

    def owner_of(self, uid: str) -> str | None:
        """The id of the store that owns a session; None where its log does, or it is not here."""
        return self._read_if_begun(lambda db: sessions.owner(db, uid), None)

    def is_forgotten(self, uid: str) -> bool:
        """Whether a person removed this session here."""
        return self._read_if_begun(lambda db: sessions.is_forgotten(db, uid), False)

    def has_run(self, session_uid: str, turn_uid: str) -> bool:
        """Whether a run is over and here, whole or as far as it was not lost."""
        return self._read_if_begun(lambda db: runs.has_ended(db, session_uid, turn_uid), False)

    def sessions(
        self,
        *,
        project: str | None = None,
        folder: str | None = None,
        agent: str | None = None,
        subagents: bool = False,
        unread: bool = False,
        after: Cursor | None = None,
        limit: int = -1,
        offset: int = 0,
    ) -> list[Session]:
        """Sessions, the last active first; subagents' own sessions only when asked for. -1 = no limit.

        ``unread``: also the files that are kept and that nobody understands, each a session of its own.
        ``after``: only those behind this (last_active, uid).
        """
        wanted = ListFilter(project=project, folder=folder, agent=agent, subagents=subagents, unread=unread)
        return self.list_sessions(wanted, after=after, limit=limit, offset=offset)

    def list_sessions(
        self, wanted: ListFilter, *, after: Cursor | None = None, limit: int = -1, offset: int = 0
    ) -> list[Session]:
        """The sessions that fit, the last active first; as ``sessions``."""
        asked = self._as_recorded(wanted)
        found = self._read(lambda db: sessions.listed(db, asked, after=after, limit=limit, offset=offset))
        return [self._as_shown(each) for each in found]

    def sort_keys(self, wanted: ListFilter, sort: Sort) -> list[SortKey]:
        """All sessions that fit, the last active first, with what they are sorted by. Raises ConfigBroken.

        Of costs that is what each is at most; ``session_costs`` says what it is.
        """
        wanted = self._as_recorded(wanted)
        if sort != "cost":
            return self._read(lambda db: sessions.sort_keys(db, wanted, sort))
        from backstory.store import cost_bounds  # few lists are by cost

        table = costs.price_table(self.prices_file)
        return self._read(lambda db: cost_bounds.sort_keys(db, wanted, table))

    def several_sessions(self, session_ids: Sequence[int]) -> list[Session]:
        """The sessions with these ids, in no order."""
        return [self._as_shown(each) for each in self._read(lambda db: sessions.several(db, session_ids))]

    def session_counts(self, wanted: ListFilter) -> dict[str | None, int]:
        """How many sessions ``list_sessions`` returns, by the id of the store that owns them; None: their logs do."""
        return self._read_if_begun(lambda db: sessions.counts(db, self._as_recorded(wanted)), {})

    def listed_among(self, session_ids: Sequence[int]) -> set[int]:
        """Those of these sessions that ``sessions`` returns."""
        return self._read_if_begun(lambda db: sessions.listed_among(db, session_ids), set())

    def ids_of(self, wanted: SessionFilter, among: Sequence[int] | None = None) -> frozenset[int]:
        """The ids of the sessions that a filter lets through, with their subagents; ``among``: only of these."""
        return self._read_if_begun(lambda db: scoped.ids(db, self._as_recorded(wanted), among), frozenset())

    def with_subagents(self, session_ids: Sequence[int]) -> frozenset[int]:
        """The ids of these sessions, and of their subagents."""
        return self._read_if_begun(lambda db: scoped.with_subagents(db, session_ids), frozenset())

    def touches(self, path: str, session_ids: Collection[int]) -> list[Touch]:
        """The calls that touched a file or folder in these sessions, the newest first; a copy of a call is none."""
        return self._read_if_begun(lambda db: file_history.touches(db, path, session_ids, self.moves), [])

    def calls_behind(self, session: Session | int, after: int, limit: int) -> list[CallMade]:
        """The calls of a session behind a record, in order, each with what came of it."""
        return self._read(lambda db: calls_made.of_session(db, id_of(session), after, limit))

    def call_of(self, event_id: int) -> CallMade | None:
        """The call that an event is, or whose result it is."""
        return self._read(lambda db: calls_made.of_event(db, event_id))

    def grown_in(self, folder: str, since_ms: int) -> str | None:
        """The uid of the session of a folder whose log was written last, if that was since then (ms since 1970)."""
        return self._read_if_begun(lambda db: scoped.grown_in(db, folder, since_ms), None)

    def present(self, uids: Sequence[str]) -> set[str]:
        """Those of these uids whose sessions are here."""
        return self._read_if_begun(lambda db: sessions.present(db, uids), set())

    def not_alone(self, uids: Sequence[str], letters: int) -> set[str]:
        """Those of these uids whose first letters another session's uid begins with, too."""
        return self._read_if_begun(lambda db: sessions.not_alone(db, uids, letters), set())

    def session(self, wanted: str | int) -> Session:
        """The session meant by a number (S3), a name, an agent's own id or the start of a uid, or by its id here."""

        def get(db: apsw.Connection) -> Session:
            by_name = not self.is_elsewhere
            return sessions.get(db, sessions.find(db, wanted, by_name=by_name) if isinstance(wanted, str) else wanted)

        return self._as_shown(self._read(get))

    def _as_shown(self, session: Session) -> Session:
        """A session as this store may show it: what people elsewhere called it counts for nothing."""
        if self.is_elsewhere:
            session = msgspec.structs.replace(session, name="", elsewhere=str(self.path))
        return session.moved(self.moves)

    def _as_recorded(self, wanted: F) -> F:
        """A filter that knows how the paths here are to be read."""
        return msgspec.structs.replace(wanted, moves=self.moves) if self.moves else wanted

    def context_turns(self, session: Session | int, budget_chars: int, to: Point | None = None) -> list[TurnWithEvents]:
        """The turns that lead to a record with their events, oldest first; so many as fill a context of that size.

        None: to where the session goes on, which is its newest turn or what was checked out.
        """
        return self._read(lambda db: events.context_turns(db, id_of(session), budget_chars, to))

    def context_history(self, session: Session | int, budget_chars: int, to: Point | None = None) -> History:
        """What a context of that size is built of: the summary in force, if any, and the turns behind what it covers.

        >>> build_context(store.context_history(session, 400_000), budget_chars=400_000)  # doctest: +SKIP
        """
        return self._read(lambda db: compactions.history(db, id_of(session), budget_chars, to))

    def chars_at_most(self, session: Session | int, around_each: int) -> int:
        """A bound on a session's characters in a context: what its events say, and so many around each."""
        return self._read(lambda db: events.chars_at_most(db, id_of(session), around_each))

    def portable(self, question: Callable[[apsw.Connection], T]) -> T:
        """An answer of a function of ``portable``, which reads rows as lines of a JSON export."""
        return self._read(question)

    def is_covered(self, session: Session | int) -> bool:
        """Whether rows are derived from a session: index.repositories may leave it out."""
        return self._read(lambda db: coverage.is_covered(db, id_of(session)))

    def index_coverage(self) -> Coverage:
        """What the search index covers, and whether it is as the settings say now."""

        def read(db: apsw.Connection) -> Coverage:
            followed = coverage.rule_of(db)
            wanted = followed if self.index_rule is None else self.index_rule()
            return Coverage(
                is_on=wanted.enabled,
                uncovered=coverage.uncovered(db, wanted),
                is_outdated=coverage.is_outdated(db) or (followed != wanted and bool(sessions.count(db))),
            )

        return self._read(read)

    def event_count(self, session: Session | int) -> int:
        """How many events a session has."""
        query = "select count(*) from events where session_id = ?"
        return self._read(lambda db: int(db.execute(query, (id_of(session),)).get))

    def has_compactions(self, session: Session | int) -> bool:
        """Whether a session has a stored summary that was not taken out of force."""
        query = "select exists (select 1 from compactions where session_id = ? and undone = 0)"
        return self._read(lambda db: bool(db.execute(query, (id_of(session),)).get))

    def compactions(self, session: Session | int) -> list[Compaction]:
        """Every summary of a session that was not taken out of force, by the last record that each covers."""
        return self._read(lambda db: compactions.of_session(db, id_of(session)))

    def compaction_in_force(self, session: Session | int, to: Point | None = None) -> Compaction | None:
        """The summary that stands for the beginning of the way to a record; None: to where the session goes on."""
        return self._read(lambda db: compactions.in_force(db, id_of(session), to))

    def told_turns(self, session: Session | int, budget_chars: int, to: Point | None = None) -> list[TurnWithEvents]:
        """The earlier name of ``context_turns``. It warns, and goes away with version 1."""
        import warnings

        warnings.warn("Store.told_turns is now Store.context_turns", DeprecationWarning, stacklevel=2)
        return self.context_turns(session, budget_chars, to)

    def shown_elsewhere(self, session: Session | int) -> dict[str, str]:
        """The turns of a log's session that are shown elsewhere, each with the uid of the session that shows it."""
        return self._read(lambda db: claims.shown_elsewhere(db, id_of(session)))

    def turn_count(self, session: Session | int) -> int:
        """How many turns a session has."""
        return self._read(lambda db: turns.count(db, id_of(session)))

    def children(self, session: Session | int) -> list[Session]:
        """The sessions that come from this one."""
        return [self._as_shown(each) for each in self._read(lambda db: sessions.children(db, id_of(session)))]

    def repositories(self) -> list[str]:
        """The repositories of sessions, the last active first; none of a store that is not there."""
        return self._read_if_begun(sessions.repositories, [])

    def git_branches(self) -> list[str]:
        """The git branches that sessions were on, the last active first; none of a store that is not there."""
        return self._read_if_begun(sessions.git_branches, [])

    def folders(self) -> list[str]:
        """The folders that sessions began in, and the roots of their worktrees, as they were recorded and where they
        lie now; none of a store that is not there."""
        found: list[str] = self._read_if_begun(sessions.folders, [])
        return list(dict.fromkeys([*found, *(self.moves.here(each) for each in found)]))

    def session_count(self) -> int:
        """How many sessions there are, subagents' included."""
        return self._read(sessions.count)

    def turn_uids(self, sessions_: Sequence[str]) -> set[str]:
        """The uids of the turns of these sessions, as far as they are here."""
        return self._read_if_begun(
            lambda db: copies.turn_uids(
                db, [sessions.find(db, uid) for uid in sessions_ if db.execute(_HAS, (uid,)).get]
            ),
            set[str](),
        )

    def files_touched(self, session: Session | int, spans: Sequence[Span]) -> dict[str, str]:
        """The files that records of a session touched, each with what was done to it."""
        return self._read(lambda db: branches.touched(db, id_of(session), spans))

    def refs(self, session: Session | int) -> list[StoredRef]:
        """The pull requests, issues and commits that a session names, in the order of their first records."""
        from backstory.store import derived_tables  # and what it reads checkpoints with

        return self._read(lambda db: derived_tables.refs_of(db, id_of(session)))

    def checkpoints(self, session: Session | int) -> list[StoredCheckpoint]:
        """The summaries that agents put in the place of their own history, in their order."""
        from backstory.store import derived_tables  # as for refs

        return self._read(lambda db: derived_tables.checkpoints_of(db, id_of(session)))

    def turns(self, session: Session | int) -> list[Turn]:
        """A session's turns, in the order of their prompts."""
        return self._read(lambda db: turns.of_session(db, id_of(session)))

    def uncounted(self) -> list[str]:
        """The uids of the sessions of which it was known how full their contexts are, and is not any more."""
        query = "select uid from sessions where context_limit is not null and context_chars is null order by id"
        return self._read_if_begun(lambda db: [str(uid) for (uid,) in db.execute(query).fetchall()], list[str]())

    def context_window(self, session: Session | int, agent: str, model: str | None) -> tuple[str | None, int | None]:
        """The model that an agent goes on with in a session, and what that can take, in tokens; None: not known.

        ``model``: None: that of the agent's last turn.
        """
        return self._read(lambda db: turns.context_window(db, id_of(session), agent, model))

    def last_turns(self, sessions: Iterable[Session | int]) -> dict[int, Turn]:
        """The last turn of each of these sessions that has one, by the session's id."""
        wanted = [id_of(each) for each in sessions]
        return self._read(lambda db: turns.newest_of(db, wanted)) if wanted else {}

    def turn_costs(self, session: Session | int) -> dict[str, Cost]:
        """What each turn of a session cost, by its uid. Raises ConfigBroken for a person's own prices."""
        table = costs.price_table(self.prices_file)
        return self._read(lambda db: {each.uid: each.cost for each in costs.Costs(db, table).turns(id_of(session))})

    def session_costs(self, sessions: Iterable[Session | int]) -> dict[int, Cost]:
        """What sessions cost with their subagents, by their ids; a copied turn counts where it was first."""
        table, wanted = costs.price_table(self.prices_file), [id_of(each) for each in sessions]
        return self._read(lambda db: costs.Costs(db, table, estimates=False).sessions(wanted))

    def add_turns(self, asked: Asked, tallies: Sequence[Tally], number: int) -> None:
        """Add the turns that count here to each tally, one time; see stats.add_turns. Raises ConfigBroken."""
        from backstory.store import stats  # few commands count

        wanted = self._asked(asked)
        self._counted(lambda db, known: stats.add_turns(db, known, wanted, tallies, number), None)

    def add_tool_calls(self, asked: Asked, tools: dict[str, ToolCalls], number: int) -> None:
        """Add the calls that count here, by tool; see tool_stats.add_calls. Raises ConfigBroken, StoreDamaged."""
        from backstory.store import tool_stats

        wanted = self._asked(asked)
        with checked(self.path):
            self._counted(lambda db, known: tool_stats.add_calls(db, known, wanted, tools, number), None)

    def condition_of(self, wanted: SessionFilter) -> str:
        """What a filter says of a session beside its time, in SQL; see session_filter.condition_of."""
        return session_filter.condition_of(self._as_recorded(wanted))

    def work(self, session: Session | int) -> tuple[list[WorkTurn], list[DoneDeed]]:
        """A session's turns, and what was done in it and by its subagents; see work.of_session."""
        from backstory.store import work  # few commands report

        return self._read(lambda db: work.of_session(db, id_of(session)))

    def file_touches(self, roots: Sequence[str], names: Sequence[str]) -> list[FileTouch]:
        """The calls that changed a file, by its names below these folders, in order of their times."""
        from backstory.store import authorship  # one report asks

        def read(db: apsw.Connection) -> list[FileTouch]:
            paths = [f"{root.rstrip('/')}/{name}" for root in roots for name in names]
            return authorship.touches_of(db, [*paths, *authorship.earlier_names(db, paths)])

        return self._read_if_begun(read, [])

    def authorship(self, question: Callable[[apsw.Connection], T], otherwise: T) -> T:
        """An answer of a function of ``authorship``; ``otherwise`` of a store that is not there."""
        return self._read_if_begun(question, otherwise)

    def habits(self, asked: Asked) -> HabitRows:
        """What was done in the turns that count here, for reports that look for what recurs. Raises StoreDamaged."""
        from backstory.store import habits

        wanted = self._asked(asked)
        with checked(self.path):
            return self._counted(lambda db, known: habits.rows(db, known, wanted), habits.HabitRows())

    def attempts(self, session: Session | int) -> tuple[list[WorkTurn], list[Attempt]]:
        """A session's turns, and what was tried in it and by its subagents; see attempts.of_session."""
        from backstory.store import attempts  # few commands report

        return self._read(lambda db: attempts.of_session(db, id_of(session)))

    def counted_turns(self, asked: Asked) -> frozenset[str]:
        """The uids of the turns that ``add_turns`` looks at; of a project's store, which holds few."""
        from backstory.store import stats

        wanted = self._asked(asked)
        return self._counted(lambda db, known: stats.uids(db, known, wanted), frozenset())

    def _asked(self, asked: Asked) -> Asked:
        return msgspec.structs.replace(asked, wanted=self._as_recorded(asked.wanted))

    def _counted(self, count: Callable[[apsw.Connection, Costs], T], otherwise: T) -> T:
        table = costs.price_table(self.prices_file)
        return self._read_if_begun(lambda db: count(db, costs.Costs(db, table, estimates=False)), otherwise)

    def turn_numbers(self, session: Session | int) -> dict[int, int]:
        """The number (1, 2, …) of each of a session's turns, by the id that events name."""
        return self._read(lambda db: turns.numbers(db, id_of(session)))

    def events(self, session: Session | int, *, after: tuple[int, int] = (0, -1), limit: int = -1) -> list[StoredEvent]:
        """A session's events in order, from the one behind ``after`` = (seq, part) on."""
        return self._read(lambda db: events.of_session(db, id_of(session), after=after, limit=limit))

    def seqs_around(self, session: Session | int, seq: int, before: int, after: int) -> list[int]:
        """The numbers of records with events around one: so many before it, itself, and so many behind it."""
        return self._read(lambda db: events.seqs_around(db, id_of(session), seq, before, after))

    def seqs_after(self, session: Session | int, first: int, limit: int) -> list[int]:
        """The numbers of records with events, from one on."""
        return self._read(lambda db: events.seqs_after(db, id_of(session), first, limit))

    def outline(self, session: Session | int) -> list[OutlinedEvent]:
        """Every event of a session without what it says, in order."""
        return self._read(lambda db: events.outline(db, id_of(session)))

    def events_of(self, session: Session | int, seqs: Sequence[int]) -> list[StoredEvent]:
        """The events of these records of a session, in order."""
        return self._read(lambda db: events.of_records(db, id_of(session), seqs))

    def change_token(self) -> tuple[int, ...]:
        """Another value after each change by anybody, as long as this store is open; nothing is read but counters."""
        return self._read_if_begun(
            lambda db: (
                int(db.pragma("data_version")),
                *db.execute(
                    "select coalesce((select max(id) from sessions), 0), coalesce((select max(id) from turns), 0), "
                    "coalesce((select max(id) from events), 0)"
                ).get,
            ),
            (),
        )

    def turn_uid(self, turn_id: int) -> str | None:
        """The uid of the turn that events name by this id."""
        return self._read(lambda db: turns.uid(db, turn_id))

    def run_facts_of(self, turn_uid: str) -> Sidecar | None:
        """What the agent's own log says of the events of a run, as it is kept beside the run's stream."""
        return self._read(lambda db: run_facts.sidecar_of(db, turn_uid))

    def event(self, event_id: int) -> StoredEvent | None:
        """The event with this id; below 0, the summary that a search found under it."""
        if event_id < 0:
            return self._read(lambda db: compactions.as_event(db, -event_id))
        return self._read(lambda db: events.get(db, event_id))

    def search(
        self,
        query: str | None,
        wanted: Filter | None = None,
        *,
        limit: int = 20,
        hits_per_session: int | None = 1,
        ranked: bool = True,
        near: bool = True,
        sort: str = "score",
    ) -> SearchResult:
        """The best hits of ``query``, so many of each session (None: all), ``limit`` at most.

        ``near``: after what fits also what fits in other forms of the words, and the like. ``sort="time"``: the
        sessions that were last active first. Not ``ranked``: every event that has the words (None: every event with a
        text), of the newest sessions first.
        """
        from backstory.store import search  # most commands search for nothing

        asked = self._as_recorded(wanted or session_filter.Filter())
        if not ranked or query is None:
            return self._read(lambda db: search.every(db, query, asked, limit=limit))
        return self._read(
            lambda db: search.search(
                db, query, asked, now=self._now(), limit=limit, hits_per_session=hits_per_session, near=near, sort=sort
            )
        )

    def sessions_named(self, wanted: Filter, *, limit: int = 20) -> SearchResult:
        """The sessions that a filter lets through, the last active first, each by where it names the ref asked for."""
        from backstory.store import search

        return self._read(lambda db: search.listed(db, self._as_recorded(wanted), limit=limit))

    def about(self, words: str, wanted: Filter) -> list[str]:
        """The uids of the sessions that are about something, in words; as ``topics.about`` says."""
        from backstory.store import topics

        return self._read_if_begun(lambda db: topics.about(db, words, self._as_recorded(wanted)), [])

    def execute_read_only(
        self,
        sql: str,
        limit: int = ROWS_MAX,
        *,
        parameters: Sequence[Any] = (),
        timeout_s: float = TIMEOUT_S,
        full_form: FullForm | None = None,
        scope: SqlScope | None = None,
    ) -> Answer:
        """The answer to one reading SQL statement, over the views that docs/sql.md describes; see readonly.execute."""
        from backstory.store import readonly  # what parses SQL and shell commands is needed by few

        return readonly.execute(
            self.path, sql, limit=limit, timeout_s=timeout_s, parameters=parameters, full_form=full_form,
            prices=self.prices_file, scope=scope,
        )  # fmt: skip
