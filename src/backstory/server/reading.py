"""Answers about the history of an organisation: over all that its people sent, or a part, by the database.

They have the words and the shapes of what a store answers here: see ``workspace.history.sessions``.
"""

from __future__ import annotations

import base64
import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from backstory.bounds import iso, moment
from backstory.derive.naming import folded
from backstory.ids import ALPHABET, UID_LENGTH, session_keys
from backstory.server.people import person_called
from backstory.server.refusals import Refused
from backstory.store.tables.sessions import CANDIDATES_SHOWN_MAX, NATIVE_LETTERS_LEAST
from backstory.workspace.history.sessions import UID_SHOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg import Cursor

    from backstory.server.database import TeamDatabase
    from backstory.server.people import Caller

SessionKey = tuple[int, str, str]
Moment = Annotated[datetime, Meta(tz=True)]
PAGE_MAX = 500
PATTERN_CHARS_MAX = 1_000
NOWHERE = (None,) * 4
"""The place before every session."""
_FOUND = "sessions_found(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"


class TeamRepository(Struct, frozen=True):
    """A repository of an organisation: what is there, and of how many people."""

    repository: str
    sessions: int
    events: int
    people: int
    last_active: datetime | None


class TeamFilter(Struct, frozen=True, kw_only=True):
    """The sessions that are meant, as ``Selection`` has it, but for times; ``person``: a name. None asks for all."""

    person: str | None = None
    agent: str | None = None
    repository: str | None = None
    branch: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    title: str | None = None


class TeamList(TeamFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of these sessions. ``after``: the ``end`` of the one before. Without ``counts`` nothing is counted."""

    limit: int = 50
    after: str | None = None
    counts: bool = True


class TeamPlace(Struct, frozen=True, array_like=True):
    """A place in the list: behind this session."""

    active: float | None
    uid: str
    person: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    machine: str

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def of(cls, row: Sequence[Any]) -> TeamPlace:
        """The place behind a session, of which a row has the person, the uid, the machine and the time first."""
        person, uid, machine, active, *_ = row
        return cls(_seconds(active), uid, person, machine)

    @property
    def behind(self) -> tuple[Any, ...]:
        """The same as the questions about lists take it."""
        return _time(self.active), self.uid, self.person, self.machine

    @classmethod
    def read(cls, text: str) -> TeamPlace:
        """Return the place that a text is of. Raises Refused."""
        try:
            plain = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
            return msgspec.json.decode(plain, type=cls)
        except (ValueError, msgspec.MsgspecError) as refused:
            raise Refused(400, "request_wrong", "This is no place of a list that the server gave.") from refused


class TeamReading:
    """Answers what a caller may see: all of the organisation, or of the repositories that the token is good for."""

    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def repositories(self, caller: Caller) -> list[TeamRepository]:
        """Return the repositories with sessions, the last active first."""
        with self._database.of(caller.tenant) as rows:
            found = rows.execute("select * from repositories_of(%s, %s)", (caller.tenant, caller.among)).fetchall()
        return [TeamRepository(*each) for each in found]

    def sessions(self, caller: Caller, wanted: TeamList) -> dict[str, Any]:
        """Return a page of sessions, the last active first, as ``list --json`` has it, each with its person.

        Raises Refused.
        """
        limit = min(max(wanted.limit, 1), PAGE_MAX)
        place = None if wanted.after is None else TeamPlace.read(wanted.after)
        with self._database.of(caller.tenant) as rows:
            asked = self.conditions(rows, caller, wanted)
            behind = NOWHERE if place is None else place.behind
            found = rows.execute(f"select * from {_FOUND}".encode(), (*asked, *behind, limit + 1)).fetchall()
            shown = [(person, uid, machine) for person, uid, machine, _ in found[:limit]]
            listed = listed_sessions(rows, caller, shown)
            is_whole = len(found) <= limit and place is None
            total = len(found) if is_whole or not wanted.counts else _counted(rows, asked)
        *_, last = [None, *found[:limit]]
        end = None if last is None else TeamPlace.of(last)
        return {
            "sessions": listed, "total": total, "has_more": len(found) > limit,
            "end": None if end is None else str(end),
        }  # fmt: skip

    def count(self, caller: Caller, wanted: TeamFilter) -> int:
        """Return the number of sessions in the whole list. Raises Refused."""
        with self._database.of(caller.tenant) as rows:
            return _counted(rows, self.conditions(rows, caller, wanted))

    def resolve(self, caller: Caller, words: str) -> list[dict[str, Any]]:
        """Return the session that a person means by a name, an agent's own id, or the start of a uid; several if any.

        Each with its uid, label and title. Raises Refused where there is none.
        """
        with self._database.of(caller.tenant) as rows:
            for way, value in _ways(words):
                asked = (caller.tenant, caller.among, way, value, CANDIDATES_SHOWN_MAX)
                found = rows.execute("select uid from sessions_called(%s, %s, %s, %s, %s)", asked).fetchall()
                if found:
                    return _candidates(rows, caller, [uid for (uid,) in found])
        raise unknown_session()

    def change_token(self, caller: Caller) -> str:
        """Return a value that differs from an earlier one if anything changed in the organisation since."""
        with self._database.of(caller.tenant) as rows:
            ((token,),) = rows.execute("select change_token(%s)", (caller.tenant,)).fetchall()
        return str(token)

    def conditions(self, rows: Cursor[Any], caller: Caller, wanted: TeamFilter) -> tuple[Any, ...]:
        """The conditions, as ``sessions_found`` takes them. Raises Refused."""
        person = None if wanted.person is None else person_called(rows, caller.tenant, wanted.person)
        repository = wanted.repository and wanted.repository.strip("/").removesuffix(".git").lower()
        title = None if wanted.title is None else folded(wanted.title)
        return (
            caller.tenant, caller.among, person, wanted.agent, repository, _pattern(wanted.branch),
            wanted.since, wanted.until, title,
        )  # fmt: skip


def unknown_session() -> Refused:
    """The answer for a session that is not there, and for one that is not the caller's to see."""
    return Refused(404, "session_unknown", "There is no such session here.")


def _counted(rows: Cursor[Any], asked: tuple[Any, ...]) -> int:
    ((count,),) = rows.execute(
        f"select count(*) from {_FOUND}".encode(), (*asked, None, None, None, None, None)
    ).fetchall()
    return int(count)


def listed_sessions(rows: Cursor[Any], caller: Caller, keys: Sequence[SessionKey]) -> list[dict[str, Any]]:
    """Return sessions as lists have them, in this order."""
    found = sessions_of(rows, caller, keys)
    return [found[key] for key in keys if key in found]


def sessions_of(rows: Cursor[Any], caller: Caller, keys: Sequence[SessionKey]) -> dict[SessionKey, dict[str, Any]]:
    """Return sessions as lists have them, by person, uid and machine, but for those that are gone or not to be seen.

    One that is not derived yet has what its first line said.
    """
    columns = [list(each) for each in zip(*keys, strict=True)] or [[], [], []]
    found = {
        (person, uid, machine): {
            **(listed or _bare(uid, title, agent, repository, branch, created, active)),
            **session_keys(uid, uid[:UID_SHOWN]), "event_count": events, "parent_uid": parent,
            "from_elsewhere": False, "pruned": None, "person": name, "machine": machine,
        }
        for person, uid, machine, name, listed, parent, events, title, agent, repository, branch, created, active
        in rows.execute(_DETAILS, dict(zip(_ASKED, (*columns, caller.tenant, caller.among), strict=True))).fetchall()
    }  # fmt: skip
    for (uid,) in rows.execute(_NOT_ALONE, (caller.tenant, caller.among, columns[1], UID_SHOWN)).fetchall():
        for key, each in found.items():
            if key[1] == uid:
                each.update(session_keys(uid, uid))
    return found


def _bare(
    uid: str, title: str | None, agent: str | None, repository: str, branch: str | None, created: datetime,
    active: datetime | None,
) -> dict[str, Any]:  # fmt: skip
    """A session of which nothing is derived yet."""
    return {
        **session_keys(uid, uid), "title": title or None, "agents": [agent] if agent else [],
        "repository": repository or None, "branch": branch, "created": _iso(created), "last_active": _iso(active),
    }  # fmt: skip


def _candidates(rows: Cursor[Any], caller: Caller, uids: list[str]) -> list[dict[str, Any]]:
    titles = dict(rows.execute(_TITLES, (caller.tenant, uids, caller.among, caller.among)).fetchall())
    found = rows.execute(_NOT_ALONE, (caller.tenant, caller.among, uids, UID_SHOWN)).fetchall()
    whole = {uid for (uid,) in found}
    return [
        session_keys(uid, uid if uid in whole else uid[:UID_SHOWN]) | {"title": titles.get(uid) or None}
        for uid in uids
    ]  # fmt: skip


def _ways(words: str) -> Iterator[tuple[str, str]]:
    """The ways in which words may name a session, in the order of ``store.tables.sessions.find``."""
    upper = words.upper()
    is_uid = bool(upper) and all(letter in ALPHABET for letter in upper)
    if is_uid and len(upper) == UID_LENGTH:
        yield "uid", upper
    if words and "\0" not in words:
        yield "name", words
        if is_uid:
            yield "uid prefix", upper
        yield "native", words
        if len(words) >= NATIVE_LETTERS_LEAST:
            yield "native beginning", words
            yield "native prefix", words


def _pattern(branch: str | None) -> str | None:
    """A branch's name, or a pattern with ``*``, as a regular expression. Raises Refused for one that is too long."""
    if branch is None:
        return None
    if len(branch) > PATTERN_CHARS_MAX:
        raise Refused(400, "request_wrong", f"A pattern has at most {PATTERN_CHARS_MAX:,} characters.")
    if "*" not in branch:
        return f"^{_quoted(branch)}$"
    # As GLOB of SQLite has it.
    pieces = re.split(r"(\*+|\?|\[\^?\]?[^\]]*\])", branch)
    return f"^{''.join(_GLOBS.get(each[:1], _quoted)(each) for each in pieces if each)}$"


def _quoted(text: str) -> str:
    return "".join(each if each.isalnum() or each == "_" else f"\\{each}" for each in text)


def _class(text: str) -> str:
    if len(text) < 3 or not text.endswith("]"):
        return _quoted(text)
    is_not = text[1] == "^"
    inner = text[2 if is_not else 1 : -1].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    return f"[{'^' if is_not else ''}{inner}]"


_GLOBS = {"*": lambda _: ".*", "?": lambda _: ".", "[": _class}


def _time(seconds: float | None) -> Any:
    return "-infinity" if seconds is None else moment(round(seconds * 1_000))


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _iso(at: datetime | None) -> str | None:
    return None if at is None else iso(round(at.timestamp() * 1_000))


def _is_written(turn: str) -> str:
    return f"coalesce((length({turn}.native_id) = 36 and substr({turn}.native_id, 15, 1) = '5')::int, 0)"


def _is_seen(session: str) -> str:
    return f"(%(among)s::text[] is null or {session}.repository = any(%(among)s))"


_WRITTEN_MORE = f"sum({_is_written('t')} - {_is_written('c')})"
_ASKED = ("people", "uids", "machines", "tenant", "among")
_DETAILS = f"""
select s.person, s.uid, s.machine, p.name, d.listed, coalesce(parent.uid, origin.uid), s.events, s.title, s.agent,
  s.repository, s.branch, s.created, s.last_active
from unnest(%(people)s::bigint[], %(uids)s::text[], %(machines)s::text[]) asked(person, uid, machine)
join session s on s.tenant = %(tenant)s and s.person = asked.person and s.uid = asked.uid and s.machine = asked.machine
  and {_is_seen("s")}
join person p on p.tenant = s.tenant and p.id = s.person
left join derivation d on d.tenant = s.tenant and d.person = s.person and d.session = s.uid and d.machine = s.machine
left join lateral (select o.uid from session o where o.tenant = s.tenant and o.person = s.person
  and substr(o.uid, 11) = d.parent and {_is_seen("o")} order by o.machine <> s.machine, o.uid limit 1) parent on true
left join lateral (select c.session as uid from turn t
  join turn c on c.tenant = t.tenant and c.uid = t.uid and c.person = t.person and c.session <> t.session
  join derivation o on o.tenant = c.tenant and o.person = c.person and o.session = c.session and o.machine = c.machine
  join session b on b.tenant = c.tenant and b.person = c.person and b.uid = c.session and b.machine = c.machine
    and {_is_seen("b")}
  where d.relation in ('fork', 'continuation') and d.parent is null and t.tenant = s.tenant and t.person = s.person
    and t.session = s.uid and t.machine = s.machine and coalesce(o.relation, '') not in ('subagent', 'retold')
  group by c.session, c.machine
  having (-{_WRITTEN_MORE}, c.session collate "C") < (0, s.uid collate "C")
  order by count(*) desc, {_WRITTEN_MORE} desc, c.session limit 1) origin on true
"""
"""As ``store.tables.lineage`` links forks: to the one before that shares most turns, or that it was written of."""
_NOT_ALONE = "select uid from uids_not_alone(%s, %s, %s, %s)"
_TITLES = """
select s.uid, max(coalesce(d.listed ->> 'title', s.title)) from session s
left join derivation d on d.tenant = s.tenant and d.person = s.person and d.session = s.uid and d.machine = s.machine
where s.tenant = %s and s.uid = any(%s) and (%s::text[] is null or s.repository = any(%s)) group by s.uid
"""
