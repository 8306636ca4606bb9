"""Turns that another program ran and wrote down, and that the agent's own log has, too: counted once. Never commits.

A session that was read from such a program's file holds what its terminal showed. Where the agent's log of a turn is
here as well, the turn gets that one's uid, whichever of them came first, so that it is a copy of it: of two that hold a
turn, the log has it. Which log that is follows from what both say: the same folder, the same prompts in the same order,
one behind the other, from the log's first on. What a person types twice is no proof: either the session was begun while
the log was written, and there are several prompts or a long one, or both have the same answer or the same call.
"""

from __future__ import annotations

from itertools import groupby, takewhile
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory import ids
from backstory.model import AssistantText, Relation, event_from_json
from backstory.store import codec, schema
from backstory.store.intake import coverage, written
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

PROMPT_CHARS_LEAST = 60
"""A shorter prompt is no proof by itself."""
ANSWER_CHARS_LEAST = 40
"""Nor is a shorter answer."""
BEFORE_MS = 15 * 60_000
"""The longest time between a session's beginning and its agent's first record: it is made, then named, then run."""
TURNS_MAX = 50_000
"""The most turns of a session that are compared."""
LINKED = "linked"
"""The key in ``meta`` of the newest turn, by its id, when links were looked for."""


class Link(Struct, frozen=True):
    """A turn that was retold, by its uid, and the uid of the same turn in the agent's own log."""

    retold: str
    logged: str


class _Turn(Struct, frozen=True):
    """A turn. Its fields are columns."""

    id: int
    uid: str
    prompt: str
    session_id: int
    first_seq: int
    last_seq: int

    @property
    def words(self) -> str:
        return self.prompt.strip()


class _Session(Struct, frozen=True):
    """A session. Its fields are columns."""

    id: int
    cwd: str
    created: str
    last_active: int | None

    @property
    def began(self) -> int:
        return ids.parse_time_ms(self.created) or 0


class _Folder(Struct, kw_only=True):
    """The logs of a folder whose turns nobody has retold yet, by their first prompts."""

    logs: dict[str, list[_Session]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)


class Links(Struct, frozen=True):
    """Turns that are here twice and are not linked yet, among all up to this one, by its id."""

    newest: int
    turns: list[Link]


def links(db: apsw.Connection) -> Links | None:
    """The turns to be linked; None where no turn has come since they were looked for, or nothing is retold."""
    newest = db.execute("select max(id) from turns").get
    # Every ingest comes here, and mostly nothing has come that could be linked.
    if newest is None or db.execute("select value from meta where key = ?", (LINKED,)).get == str(newest):
        return None
    retold = fetch(
        db,
        _Session,
        "select id, cwd, created, last_active from sessions where relation = ? and cwd is not null "
        "order by created, id",
        (Relation.RETOLD,),
    )
    if not retold:
        return None
    folders: dict[str, _Folder] = {}
    found: list[Link] = []
    for session in retold:
        # One folder's logs are shared by its sessions, so that no log is given to two of them.
        if session.cwd not in folders:
            folders[session.cwd] = _folder(db, session.cwd)
        found += _Linking(db, session, folders[session.cwd]).links()
    return Links(newest, found)


def link(db: apsw.Connection, found: Links) -> None:
    """Link turns that were retold to those of the logs."""
    for each in found.turns:
        # The log's uid stays: other machines have the turn under it.
        written.rename(db, each.retold, each.logged)
    db.execute("insert or replace into meta(key, value) values (?, ?)", (LINKED, str(found.newest)))


def _folder(db: apsw.Connection, cwd: str) -> _Folder:
    rows = fetch(
        db,
        tuple[int, str, str, int | None, str],
        # A log is linked from its first turn on, or not at all.
        "select s.id, s.cwd, s.created, s.last_active, t.prompt from sessions s join turns t on t.id = "
        "(select id from turns where session_id = s.id order by first_seq, id limit 1) "
        f"where s.cwd = ? and s.owner is null and (s.relation is null or s.relation = '{Relation.FORK}') "
        "and not exists (select 1 from turns r join sessions o on o.id = r.session_id "
        "where r.uid = t.uid and o.relation is ?) order by s.created, s.id",
        (cwd, Relation.RETOLD),
    )
    found = _Folder()
    for session_id, folder, created, last_active, prompt in rows:
        found.logs.setdefault(prompt.strip(), []).append(_Session(session_id, folder, created, last_active))
    return found


class _Linking:
    """Finds the logs of one session that was retold."""

    def __init__(self, db: apsw.Connection, session: _Session, folder: _Folder) -> None:
        self._db, self._session, self._folder = db, session, folder
        self._codecs: dict[int, codec.EventCodec] = {}

    def links(self) -> Iterator[Link]:
        linked = self._linked()
        if not (self._folder.logs or linked):
            return
        before: _Turn | None = None
        for is_linked, some in groupby(_turns_of(self._db, self._session.id), key=lambda each: each.id in linked):
            mine = list(some)
            if is_linked:
                before = mine[-1]
                continue
            # A log that was linked has grown; what came behind needs no proof of its own.
            behind = self._behind(linked[before.id], before, mine) if before is not None else []
            yield from _paired(mine, behind)
            # The program may have begun its agent anew, so that a second log goes on.
            yield from self._among(mine[len(behind) :])

    def _among(self, mine: list[_Turn]) -> Iterator[Link]:
        """Yield, of turns of which none is linked, those that begin a log, with those that follow in it."""
        place = 0
        while place < len(mine):
            theirs = self._log_from(mine[place:]) if mine[place].words in self._folder.logs else []
            yield from _paired(mine[place:] if theirs else [], theirs)
            place += len(theirs) or 1

    def _linked(self) -> dict[int, int]:
        """The turns that are linked already, each with the session whose turn it is."""
        rows = fetch(
            self._db,
            tuple[int, int],
            "select t.id, min(l.id) from turns t join turns o on o.uid = t.uid and o.session_id <> t.session_id "
            "join sessions l on l.id = o.session_id where t.session_id = ? and l.relation is not ? and l.owner is null "
            "group by t.id",
            (self._session.id, Relation.RETOLD),
        )
        return dict(rows)

    def _behind(self, log_id: int, before: _Turn, mine: list[_Turn]) -> list[_Turn]:
        """The turns of a log that follow one which is linked, as far as they are the same as these."""
        theirs = _turns_of(self._db, log_id)
        at = next((place for place, each in enumerate(theirs, start=1) if each.uid == before.uid), len(theirs))
        return theirs[at : at + _same(mine, theirs[at:])]

    def _log_from(self, mine: list[_Turn]) -> list[_Turn]:
        """The turns of a log that begins with the first of these, as far as they are the same."""
        for session in self._folder.logs.get(mine[0].words, ()):
            # A log that ended before the session began cannot be what it shows.
            if session.id in self._folder.taken or self._session.began > (session.last_active or session.began):
                continue
            theirs = _turns_of(self._db, session.id)
            same = _same(mine, theirs)
            if same and self._is_proven(session, mine[:same], theirs[:same]):
                self._folder.taken.add(session.id)
                return theirs[:same]
        return []

    def _is_proven(self, log: _Session, mine: list[_Turn], theirs: list[_Turn]) -> bool:
        if log.began - BEFORE_MS <= self._session.began:
            # It was begun while the log was written, or right before.
            prompts = [each.words for each in mine if each.words]
            if len(prompts) > 1 or any(len(each) >= PROMPT_CHARS_LEAST for each in prompts):
                return True
        return any(self._say_the_same(*both) for both in zip(mine, theirs, strict=True))

    def _say_the_same(self, mine: _Turn, theirs: _Turn) -> bool:
        answer, other = self._answer(mine), self._answer(theirs)
        if answer == other and len(answer) >= ANSWER_CHARS_LEAST:
            return True
        # Ids of calls are the agent's own and random, so one in common is proof enough.
        return bool(self._calls(mine) & self._calls(theirs))

    def _answer(self, turn: _Turn) -> str:
        """Return the model's last words in a turn; of a session that is not indexed only its events have them."""
        known: str | None = self._db.execute("select answer from turn_texts where turn_id = ?", (turn.id,)).get
        if known is not None or coverage.is_covered(self._db, turn.session_id):
            return (known or "").strip()
        said = self._db.execute(
            "select data from events where session_id = ? and turn_id = ? and kind = ? "
            "order by seq desc, part desc limit 1",
            (turn.session_id, turn.id, AssistantText.kind),
        ).get
        if said is None:
            return ""
        event = event_from_json(codec.unpack_event(self._db, self._codecs, said))
        return event.text.strip() if isinstance(event, AssistantText) else ""

    def _calls(self, turn: _Turn) -> set[str]:
        """The agent's own ids of a turn's calls."""
        sql = f"session_id = ? and seq between ? and ? and turn_id = ? and kind in {schema.CALLS}"
        where = (turn.session_id, turn.first_seq, turn.last_seq, turn.id)
        found = self._db.execute(f"select data from events where {sql}", where)
        called = (codec.unpack_event(self._db, self._codecs, data) for (data,) in found)
        return {each.call.tool_use_id for each in map(_decoder.decode, called) if each.call.tool_use_id}


class _Call(Struct):
    tool_use_id: str = ""


class _Event(Struct):
    call: _Call = field(default_factory=_Call, name="ToolCall")


_decoder = msgspec.json.Decoder(_Event)


def _paired(mine: list[_Turn], theirs: list[_Turn]) -> Iterator[Link]:
    return (Link(retold=ours.uid, logged=each.uid) for ours, each in zip(mine, theirs, strict=False))


def _same(mine: list[_Turn], theirs: list[_Turn]) -> int:
    """With how many of the same prompts both begin."""
    pairs = zip(mine, theirs, strict=False)
    return sum(1 for _ in takewhile(lambda both: both[0].words == both[1].words != "", pairs))


def _turns_of(db: apsw.Connection, session_id: int) -> list[_Turn]:
    columns = ", ".join(_Turn.__struct_fields__)
    sql = f"select {columns} from turns where session_id = ? order by first_seq, id limit ?"
    return fetch(db, _Turn, sql, (session_id, TURNS_MAX))
