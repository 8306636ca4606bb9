"""History as an agent may ask for it: within a scope, without the session that asks, after new logs were taken in."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.errors import RecordNotFound
from backstory.workspace.entries import entries_of
from backstory.workspace.scope import located_in, scope_of
from backstory.workspace.searching import SearchQuery

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backstory.workspace.entries import Entry, Form
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.scope import Scope
    from backstory.workspace.searching import SearchResult
    from backstory.workspace.sessions import ListedSession
    from backstory.workspace.transcript import ListedTurn
    from backstory.workspace.workspace import Workspace


class ReadSession(Struct, frozen=True, kw_only=True):
    """Records of a session. ``earlier`` and ``later``: the nearest records that are not among them; None: none is."""

    located: LocatedSession
    session: ListedSession
    turns: tuple[ListedTurn, ...]
    entries: tuple[Entry, ...]
    earlier: int | None
    later: int | None


class AgentHistory:
    """What the agent asks that was started in a workspace's folder. ``user_home``: where agents keep their logs."""

    def __init__(self, workspace: Workspace, user_home: Path) -> None:
        self._workspace, self._user_home = workspace, user_home

    @cached_property
    def scope(self) -> Scope:
        """Whose history is answered from."""
        return scope_of(self._workspace)

    def bring_up_to_date(self) -> str | None:
        """Take in what agents wrote since; returns what should be known of it."""
        return self._workspace.bring_up_to_date(self._user_home)

    def search(
        self, text: str, *, repository: str | None, agent: str | None, since: int | None, limit: int
    ) -> SearchResult:
        """The best hit of each session that has these words."""
        query = SearchQuery(
            text=text, repository=repository, agent=agent, since=since, limit=limit, here=self.scope.is_here
        )
        return self._workspace.reader.search(query)

    def find(self, words: str) -> LocatedSession:
        """The session that is meant. Raises SessionNotFound, SessionAmbiguous, OutOfScope."""
        return located_in(self._workspace, self.scope, words.strip())

    def around(self, located: LocatedSession, seq: int, before: int, after: int) -> ReadSession:
        """A session with the records around one, each with its events. Raises RecordNotFound where it has none."""
        store, session = located.store, located.session
        found = store.seqs_around(session, seq, before + 1, after + 1)
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

    def entries(self, located: LocatedSession, seqs: Sequence[int], form: Form) -> tuple[Entry, ...]:
        """The events of these records."""
        return entries_of(located, seqs, form)

    def label(self, located: LocatedSession) -> str:
        """What every tool takes for a session."""
        uid = located.session.uid
        return self._workspace.reader.labels([uid])[uid]
