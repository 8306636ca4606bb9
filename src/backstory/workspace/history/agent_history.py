"""History as an agent may ask for it: within a scope, without the session that asks, after new logs were taken in."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backstory.ask import calls_made, scoped
from backstory.conversation.board import AGENT
from backstory.errors import OutOfScope, RecordNotFound, SessionAmbiguous, SessionNotFound, UnknownTool
from backstory.search.query import whole_texts
from backstory.search.snippet import snippet
from backstory.store.tables import events
from backstory.store.tables import sessions as stored_sessions
from backstory.store.tables.session_filter import ListFilter, Selection
from backstory.workspace.board import key_of
from backstory.workspace.history.asking import asking_session
from backstory.workspace.history.entries import entries_of
from backstory.workspace.history.fixes import find_fixes
from backstory.workspace.history.listing import project_id
from backstory.workspace.history.searching import SearchQuery, filter_of, left_out
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import StatsQuery
from backstory.workspace.located import LocatedSession
from backstory.workspace.queries import full_form_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from backstory.ask.calls_made import TouchingCall
    from backstory.ask.readonly import Answer
    from backstory.ask.stats import By
    from backstory.derive.secrets import Redactor
    from backstory.search.query import Excerpt
    from backstory.store import Session, Store, StoredEvent
    from backstory.workspace.board import Board
    from backstory.workspace.history.asking import Surroundings
    from backstory.workspace.history.entries import Form, SessionEntry
    from backstory.workspace.history.fixes import Fix
    from backstory.workspace.history.searching import SearchAnswer
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.history.stats import Stats, ToolStats
    from backstory.workspace.history.transcript import ListedTurn
    from backstory.workspace.reader import Reader
    from backstory.workspace.workspace import Workspace


SQL_TIMEOUT_S = 10.0
EXCERPT_CHARS_MAX = 500_000
"""The part of a longer text, in characters, that is searched for the words around a hit."""


class ReadSession(Struct, frozen=True, kw_only=True):
    """Records of a session. ``earlier`` and ``later``: the nearest records that are not among them; None: none is."""

    located: LocatedSession
    session: ListedSession
    turns: tuple[ListedTurn, ...]
    entries: tuple[SessionEntry, ...]
    earlier: int | None
    later: int | None


class AgentHistory:
    """Answers the questions of an agent that was started in a workspace's folder. ``user_home``: the home of its logs.

    ``around``: who started the server, ``said``: what came with the question; both may say which session asks.
    ``is_cancelled``: true once nobody waits for the answer any more, from any thread; it ends a statement.
    """

    def __init__(
        self, workspace: Workspace, user_home: Path, around: Surroundings, said: Mapping[str, Any] | None = None,
        *, is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._workspace, self._user_home = workspace, user_home
        self._around, self._said, self._is_cancelled = around, said or {}, is_cancelled

    @property
    def masks(self) -> Callable[..., Redactor]:
        """Makes a redactor for an answer; see ``Place.redactor``."""
        return self._workspace.redactor

    @cached_property
    def scope(self) -> AgentScope:
        """The sessions that answers are made from."""
        return scope_of(self._workspace)

    @cached_property
    def asking(self) -> Session | None:
        """The session that asks, if it is known and stored."""
        uid = asking_session(self._workspace, self._around, self._said, self._user_home)
        store = self._workspace.home_store
        return store.session(uid) if uid is not None and store.has(uid) else None

    @cached_property
    def _own(self) -> frozenset[int]:
        """The ids of the session that asks and of its subagents."""
        return (
            frozenset()
            if self.asking is None
            else self._workspace.home_store.ask_or(frozenset(), scoped.with_subagents, [self.asking.id])
        )

    @cached_property
    def visible(self) -> frozenset[int]:
        """The ids of the sessions that may be asked for, without the one that asks."""
        return (
            self._workspace.home_store.ask_or(
                frozenset(), scoped.ids, self._workspace.home_store.as_recorded(self.scope.wanted)
            )
            - self._own
        )

    def bring_up_to_date(self) -> list[str]:
        """Take in what agents wrote since; returns what should be known of it."""
        return [*self._workspace.bring_up_to_date(self._user_home).remarks]

    def search(self, text: str, only: Mapping[str, Any], limit: int) -> SearchAnswer:
        """The best hit of each session that has these words. ``only``: the filter, as keywords of a query."""
        query = self._limited(SearchQuery(text=text, limit=limit, **only))
        try:
            return self.reader.search(query)
        except UnknownTool:
            if not self.scope.is_here:
                raise
            # Which tools other repositories' sessions called is not for this one to know.
            return self.reader.search(replace(query, tool=None, uids=()))

    def stats(self, only: Mapping[str, Any], by: By | None) -> Stats:
        """Return sums over the turns of the sessions that may be asked for, all of which the home store has."""
        query = StatsQuery(wanted=self._listed(only), among=self.visible, by=by)
        return self.reader.stats(query, of_home=True)

    def tool_stats(self, only: Mapping[str, Any]) -> ToolStats:
        """Return the calls of tools in them. ``only``: the filter, as keywords of a selection."""
        query = StatsQuery(wanted=self._listed(only), among=self.visible)
        return self.reader.tool_stats(query, of_home=True)

    def _listed(self, only: Mapping[str, Any]) -> SessionFilter:
        if self.scope.is_here and (tool := only.get("tool")):
            # Whether sessions of other repositories called it is not for this one to know: no refusal says so.
            called = self._workspace.home_store.ask_or([], scoped.of_tool, tool)
            only = {**only, "tool": None, "uids": tuple(called)}
        scope, asking = self.scope.wanted, () if self.asking is None else (self.asking.uid,)
        place = {"project": scope.project, "folder": scope.folder, "owner": scope.owner, "but_uids": asking}
        return SessionFilter(**{**only, **place}, everywhere=True)

    @property
    def reader(self) -> Reader:
        """The reader of all sessions, for one that was found in the scope."""
        return self._workspace.reader

    def counted(self) -> tuple[int, int]:
        """Return the number of sessions that may be asked for, and of the others; subagents are not counted."""
        here, everywhere = (self._count(wanted) for wanted in (self.scope.wanted, Selection()))
        return here, everywhere - here

    def _count(self, wanted: Selection) -> int:
        home = self._workspace.home_store
        return sum(home.ask_or({}, stored_sessions.counts, home.as_recorded(ListFilter(**wanted.shared))).values())

    def left_out(self, result: SearchAnswer) -> Iterator[str]:
        """Name the gaps of the index; sessions elsewhere are not counted for one who may not read them."""
        coverage = result.coverage
        if self.scope.is_here and coverage.uncovered:
            coverage = replace(coverage, uncovered=0)
            yield "Not every repository is covered by index.repositories; this one may be left out."
        yield from left_out(coverage)

    def excerpt(self, hit: Excerpt, query: str, mask: Callable[[str], str]) -> str:
        """The words around a hit, of the text as it may be shown: of half a secret nobody could tell what it is."""
        text = self._whole_text(hit.stored)[:EXCERPT_CHARS_MAX]
        shown = mask(text)
        # Where nothing was masked the excerpt is what it would be again.
        return hit.snippet if shown == text else snippet(shown, query)[0]

    @cached_property
    def _whole_text(self) -> Callable[[StoredEvent], str]:
        return whole_texts(self._workspace.home_store)

    def _limited(self, query: SearchQuery) -> SearchQuery:
        own = () if self.asking is None else (self.asking.uid,)
        return replace(query, here=self.scope.is_here, without=own)

    def fixes(self, error: str, limit: int) -> list[Fix]:
        """Find earlier places of an error or a failing command, and the steps that worked."""
        store = self._workspace.home_store
        wanted = filter_of(self._workspace, self._limited(SearchQuery(scopes=("tool_input", "tool_output"))))
        return find_fixes(store, wanted, error, limit) if store.exists else []

    def touches(self, path: str) -> list[TouchingCall]:
        """The calls that read or changed a file, the newest first; a path of the project may be relative to it."""
        path = path.strip()
        for root in (self._workspace.worktree, self._workspace.project_folder):
            # The same file may have been touched in another worktree, or in another clone.
            if self.scope.is_here and path.startswith(f"{root}/"):
                path = path.removeprefix(f"{root}/")
        return self._workspace.home_store.ask_or(
            [], calls_made.touches, path, self.visible, self._workspace.home_store.moves
        )

    def sessions(self, ids: Sequence[int]) -> dict[int, Session]:
        """These sessions by their ids."""
        found = self._workspace.home_store.several_sessions(ids) if ids else []
        return {each.id: each for each in found}

    def sql(self, statement: str, mask: Callable[[str], str], limit: int) -> Answer:
        """The answer to one reading statement over the views of the sessions that may be asked for."""
        from backstory.ask.sql_scope import SqlScope

        store = self._workspace.home_store
        repository = key_of(self._workspace.folder).repository if self.scope.is_here else None
        scope = SqlScope(session_ids=self.visible, mask=mask, repository=repository)
        full_form = full_form_of(store)
        return store.execute_read_only(
            statement, limit, timeout_s=SQL_TIMEOUT_S, full_form=full_form, scope=scope, is_cancelled=self._is_cancelled
        )

    def sees(self, uid: str) -> bool:
        """Return True unless a session is out of the scope."""
        home = self._workspace.home_store
        return not home.has(uid) or home.session(uid).id in self.visible | self._own

    def find(self, words: str) -> LocatedSession:
        """The session that is meant. Raises SessionNotFound, SessionAmbiguous, OutOfScope."""
        return located_in(self._workspace, self.scope, words.strip())

    def around(self, located: LocatedSession, seq: int, before: int, after: int) -> ReadSession:
        """A session with the records around one, each with its events. Raises RecordNotFound where it has none."""
        found = located.store.ask(events.seqs_around, located.session.id, seq, before + 1, after + 1)
        earlier = [each for each in found if each < seq]
        later = [each for each in found if each >= seq]
        shown = [*earlier[-before:], *later[: after + 1]] if before else later[: after + 1]
        if not shown:
            raise RecordNotFound(seq)
        transcript = self._workspace.reader.transcript(located)
        return ReadSession(
            located=located,
            session=transcript.session,
            turns=transcript.turns,
            entries=self.entries(located, shown, "full"),
            earlier=earlier[-before - 1] if len(earlier) > before else None,
            later=later[after + 1] if len(later) > after + 1 else None,
        )

    def seqs(self, located: LocatedSession, first: int, last: int, limit: int) -> list[int]:
        """The numbers of the records of a session from one to another, so many at most."""
        after = located.store.ask(events.seqs_after, located.session.id, first, limit)
        return [each for each in after if each <= last]

    def entries(self, located: LocatedSession, seqs: Sequence[int], form: Form) -> tuple[SessionEntry, ...]:
        """The events of these records."""
        return entries_of(located, seqs, form)

    @property
    def agent(self) -> str:
        """The agent that asks, as notes name their writer."""
        return self.asking.agents[-1] if self.asking is not None and self.asking.agents else AGENT

    def board(self, branch: str | None, report: Callable[[str], None]) -> Board:
        """The context board of the repository; ``report`` receives what should be known and is no error."""
        return self._workspace.board(branch=branch, report=report)

    def labels(self, uids: Sequence[str]) -> dict[str, str]:
        """Return the labels of these sessions that every tool takes, by their uids."""
        return self._workspace.reader.labels(uids)

    def label(self, located: LocatedSession) -> str:
        """Return the label of a session that every tool takes."""
        return self.labels([located.session.uid])[located.session.uid]


# whose history an agent may ask for -----------------------------------------------------------------------------------


ALL = "all"
TITLE_CHARS = 40
CANDIDATES_MAX = 10


class AgentScope(Struct, frozen=True, kw_only=True):
    """The sessions that may be read. ``wanted``: as a filter; ``name``: of the repository or folder, None for all."""

    wanted: Selection
    name: str | None

    @property
    def is_here(self) -> bool:
        """True if only this repository's sessions are meant."""
        return self.name is not None


def scope_of(workspace: Workspace) -> AgentScope:
    """The scope that the person's own settings give the folder of a workspace."""
    if workspace.config.settings.mcp.scope == ALL:
        return AgentScope(wanted=Selection(), name=None)
    key, folder = workspace.project_key, str(workspace.project_folder)
    wanted = Selection(project=key, folder=folder, owner=project_id(workspace))
    return AgentScope(wanted=wanted, name=key or folder)


def located_in(workspace: Workspace, scope: AgentScope, words: str) -> LocatedSession:
    """The session that is meant, if it is in the scope. Raises SessionNotFound, SessionAmbiguous, OutOfScope.

    A store that came with a clone, and that nobody trusted, is no history.
    """
    home = workspace.home_store
    project = workspace.project_store
    number = words[:1] in "Ss" and words[1:].isdecimal()
    if number and project is not home and project.exists and not project.is_elsewhere:
        return LocatedSession(project, project.session(words))
    try:
        session = home.session(words)
    except SessionAmbiguous:
        # Those of other repositories are none of the candidates, and are not named.
        session = _the_one_in(home, scope, words)
    if scope.is_here and session.id not in home.ask_or(
        frozenset(), scoped.ids, home.as_recorded(scope.wanted), [session.id]
    ):
        raise OutOfScope(words, scope.name or "")
    return LocatedSession(home, session)


def _the_one_in(home: Store, scope: AgentScope, words: str) -> Session:
    """The only session of the scope that several are meant by."""
    seen = home.several_sessions(sorted(home.ask_or(frozenset(), scoped.ids, home.as_recorded(scope.wanted))))
    found = [each for each in seen if each.uid.startswith(words.upper()) or words in (each.name, each.native_id)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise SessionNotFound(words)
    raise SessionAmbiguous(words, [f"{each.uid} ({each.shown_title[:TITLE_CHARS]})" for each in found[:CANDIDATES_MAX]])
