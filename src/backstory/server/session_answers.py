"""Answers about one session of an organisation: read from its frames by the reader of every face, as ``show`` does."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from backstory.errors import BackstoryError, SessionNotFound
from backstory.exchange.frames import FrameDamaged
from backstory.server.jobs import ShelfPlace
from backstory.server.one_session import WholeSession
from backstory.server.reading import listed_sessions, unknown_session
from backstory.server.refusals import Refused
from backstory.workspace.history import entries, sessions
from backstory.workspace.history import transcript as transcripts

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.server.database import TeamDatabase
    from backstory.server.kept_sessions import KeptSessions
    from backstory.server.people import Caller
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

ENTRIES_MAX = 500
A = TypeVar("A")


class OneSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a session as a person's machine has it; without these the caller's own, else the longest."""

    person: str | None = None
    machine: str | None = None


class WantedEntries(OneSession, frozen=True, kw_only=True):
    """Asks for entries: the last so many, or those before a place. ``full``: with all that they say."""

    before: str | None = None
    limit: int = 100
    full: bool = False


class SessionAnswers:
    """Answers what a caller may see."""

    def __init__(self, database: TeamDatabase, kept: KeptSessions) -> None:
        self._database, self._kept = database, kept

    def head(self, caller: Caller, uid: str, wanted: OneSession) -> dict[str, Any]:
        """Return a session without its entries, as ``show --json`` has it, and the copies that there are of it.

        Raises Refused, the same for a session that is not there and one that the caller may not see.
        """
        copies, found = self._found(caller, uid, wanted)

        def said(workspace: Workspace, located: LocatedSession) -> dict[str, Any]:
            transcript = workspace.reader.transcript(located)
            turns = [transcripts.as_json(each) for each in transcript.turns]
            session = sessions.as_json(transcript.session)
            return {"session": session, "turns": turns, "compactions": transcript.summaries}

        answer, is_whole = self.asked(found, said, 0)
        of_list, children = self.family(caller, found.place)
        for each in children:
            del each["native_id"], each["title"]
        answer["session"] |= of_list | {"children": children}
        return answer | {"copies": copies, "is_whole": is_whole}

    def entries(self, caller: Caller, uid: str, wanted: WantedEntries) -> dict[str, Any]:
        """Return entries of a session, as ``show --json`` has them: the last ones, or those before a place.

        ``start``: the place before which it goes on. Raises Refused as ``head`` does, and for a place that is none.
        """
        limit = min(max(wanted.limit, 1), ENTRIES_MAX)
        before = None if wanted.before is None else _place(wanted.before)
        _, found = self._found(caller, uid, wanted)

        def said(workspace: Workspace, located: LocatedSession) -> dict[str, Any]:
            columns = workspace.reader.columns(located)
            places = list(zip(columns.seqs, columns.parts, strict=True))
            end = len(places) if before is None else bisect_left(places, before)
            shown = places[max(end - limit, 0) : end]
            form: entries.Form = "full" if wanted.full else "compact"
            read = workspace.reader.entries(located, sorted({seq for seq, _ in shown}), form)
            on_page = set(shown)
            events = [
                entries.event_as_json(each) for each in read if (each.outline.seq, each.outline.part) in on_page
            ]  # fmt: skip
            start = f"{shown[0][0]}.{shown[0][1]}" if shown else None
            return {"events": events, "start": start, "has_earlier": end > limit}

        # Of those before a place the last ones may be too few.
        answer, is_whole = self.asked(found, said, limit if before is None else None)
        return answer | {"has_earlier": answer["has_earlier"] or (not is_whole and limit < found.events)}

    def copies(self, caller: Caller, uid: str) -> list[tuple[WholeSession, dict[str, Any]]]:
        """Return the copies of a session that a caller may see, the caller's own first, then the longest."""
        with self._database.of(caller.tenant) as rows:
            found = rows.execute(_COPIES, (caller.tenant, uid, caller.among, caller.among, caller.person)).fetchall()
        return [
            (WholeSession(ShelfPlace(caller.tenant, person, uid, machine), epoch, frames, events, bytes(chain)),
             {"person": name, "machine": machine, "event_count": events})
            for person, name, machine, epoch, frames, events, chain in found
        ]  # fmt: skip

    def family(self, caller: Caller, place: ShelfPlace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return a session as lists have it, and the sessions that come from it."""
        with self._database.of(caller.tenant) as rows:
            (listed,) = listed_sessions(rows, caller, [(place.person, place.uid, place.machine)]) or [{}]
            children = rows.execute(
                _CHILDREN, (caller.among, caller.among, *place[:2], place.uid[10:], place.machine)
            ).fetchall()
        return listed, [each for (each,) in children]

    def _found(self, caller: Caller, uid: str, wanted: OneSession) -> tuple[list[dict[str, Any]], WholeSession]:
        copies = self.copies(caller, uid)
        meant = [
            session for session, said in copies
            if wanted.person in (None, said["person"]) and wanted.machine in (None, said["machine"])
        ]  # fmt: skip
        if not meant:
            raise unknown_session()
        return [said for _, said in copies], meant[0]

    def asked(
        self, session: WholeSession, question: Callable[[Workspace, LocatedSession], A], last: int | None
    ) -> tuple[A, bool]:
        """Ask a session's store, as ``KeptSessions.ask`` does. Raises Refused where it cannot be read."""
        try:
            return self._kept.ask(session, question, last)
        except SessionNotFound:
            raise unknown_session() from None
        except (BackstoryError, FrameDamaged) as refused:
            # Such as a full disk; its words may be of the history.
            raise Refused(503, "session_unreadable", "The server cannot read this session now.") from refused


def _place(text: str) -> tuple[int, int]:
    seq, _, part = text.partition(".")
    try:
        return int(seq), int(part)
    except ValueError as refused:
        raise Refused(400, "request_wrong", "This is no place in a session that the server gave.") from refused


_COPIES = """
select s.person, p.name, s.machine, s.epoch, s.frames, s.events, s.chain from session s
join person p on p.tenant = s.tenant and p.id = s.person
where s.tenant = %s and s.uid collate "C" = %s and (%s::text[] is null or s.repository = any(%s))
order by s.person <> %s, s.events desc, s.person, s.machine
"""
_CHILDREN = """
select json_build_object('uid', d.session, 'label', left(d.session, 12), 'relation', d.relation,
  'turn_count', d.listed -> 'turn_count', 'native_id', d.native_id, 'title', d.listed -> 'title')
from derivation d join session s on s.tenant = d.tenant and s.person = d.person and s.uid = d.session
  and s.machine = d.machine and (%s::text[] is null or s.repository = any(%s))
where d.tenant = %s and d.person = %s and d.parent = %s and d.machine = %s order by d.session
"""
