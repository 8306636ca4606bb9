"""The history that people sent: each machine of theirs has a shelf of sessions in frames.

They only grow, are replaced or are removed. A machine writes on its own shelf alone, so what another one sent of a
session is never replaced by it.

A frame is stored if it follows those that are there, by its chain. A session is seen up to where it was whole; what a
later epoch brings replaces it in one transaction, when that is whole. Each transaction that stores something gets the
next generation of its person, so who reads by generations misses nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.bounds import moment
from backstory.exchange import frames
from backstory.exchange.frames import Frame, FrameDamaged, FrameHead, FramePoint, FrameVerdict
from backstory.exchange.json_lines import SessionLine, TurnLine, ms_of
from backstory.lazy import lazy_regex
from backstory.server import jobs
from backstory.server.audit import note
from backstory.server.database import one
from backstory.server.erasing import erase_history, erase_live, erase_machine, erase_session
from backstory.server.jobs import ShelfPlace
from backstory.server.refusals import Refused
from backstory.sync.sent_history import of_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from psycopg import Cursor

    from backstory.server.database import TeamDatabase
    from backstory.server.people import Caller

FRAMES_MAX = 64
"""The most frames of one request."""
BYTES_MAX = frames.HEAD_BYTES_MAX + frames.PACKED_BYTES_MAX
"""The most bytes of one request: one frame of one long line."""
ASKED_MAX = 1_000
HASHED_MAX = 20
"""The most sessions of which all that was sent is read for one answer."""
CHANGES_BYTES = 8 * 1024 * 1024
"""An answer ends with the frame that reaches this."""
TITLE_CHARS = 500
EPOCH_MAX = 2**31 - 1
"""The tables have room for no more; a session is sent anew a few times."""


class SyncWord(StrEnum):
    """The answer for one frame."""

    OK = "ok"
    HAD = "had"
    """It was there already."""
    EXPECTED = "expected"
    """Frames before it are missing; ``state`` says from where to go on."""
    DAMAGED = "damaged"
    FORGOTTEN = "forgotten"
    """The person removed the session."""
    OTHER = "other"
    """It is of another history of the session than the one that is there."""
    EPOCH = "epoch"
    """It is of an epoch that was replaced."""


class ShelfState(Struct, frozen=True, kw_only=True):
    """The last frame of a session that is there; epoch 0 and no chain where none is."""

    uid: str
    epoch: int = 0
    upto: FramePoint = frames.START
    chain: str = ""
    events: int = 0
    is_forgotten: bool = False
    history: str = ""
    """Hashes of what was sent, if they were asked for: who lost the notes knows by them where to go on."""


class Confirmed(Struct, frozen=True, kw_only=True):
    """The end of one frame."""

    uid: str
    word: SyncWord
    state: ShelfState
    reason: str = ""


class SyncAnswer(Struct, frozen=True, kw_only=True):
    """The end of each frame of a request, in their order, and the generation in which they were stored."""

    generation: int
    confirmed: list[Confirmed]


class Changes(Struct, frozen=True, kw_only=True):
    """Frames of a shelf. ``upto``: the place behind them; ``removals``: how many sessions were ever removed."""

    upto: str
    data: bytes
    removals: int
    has_more: bool


class ShelfMachine(Struct, frozen=True, kw_only=True):
    """A machine of a person. ``name``: as it logged in; ``generation``: of what it sent last; ``seen``: the day."""

    id: str
    name: str
    session_count: int
    event_count: int
    generation: int
    seen: str
    has_boards: bool


class _Shelf(Struct):
    """A session of a shelf in a transaction: its last frame, and how many its epoch has."""

    last: FrameHead | None = None
    repository: str | None = None
    """None where nothing of it is seen yet."""
    number: int = 0
    events: int = 0
    seen_epoch: int = 0
    seen_frames: int = 0
    has_unseen: bool = False
    """There may be frames of earlier transactions that nobody sees yet."""
    has_older: bool = False
    """There may be frames of earlier epochs."""


class Shelves:
    """The shelves of all people. ``now`` gives the time."""

    def __init__(self, database: TeamDatabase, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database, self._now = database, now

    def store(self, caller: Caller, machine: str, body: bytes) -> SyncAnswer:
        """Store frames of a machine, in one transaction. Raises Refused for a body without any that may be sent."""
        parts = _cut(body)
        with self._database.of(caller.tenant) as rows:
            generation = next_generation(rows, caller)
            note_machine(rows, caller, machine, self._now())
            storing = _Storing(rows, caller, machine, generation)
            storing.look_at([frames.head_of(data).session for data, damage in parts if damage is None])
            # One is unpacked at a time: a short request may unpack to much.
            confirmed = [storing.take(data, damage or _read(data)) for data, damage in parts]
            storing.end()
            erase_live(rows, (caller.tenant, caller.person, machine), storing.turns)
            for uid, before in storing.shown.items():
                jobs.queue(rows, ShelfPlace(caller.tenant, caller.person, uid, machine), self._now(), before)
        return SyncAnswer(generation=generation, confirmed=confirmed)

    def state(self, caller: Caller, machine: str, uids: Sequence[str], *, is_hashed: bool = False) -> list[ShelfState]:
        """Return the last frame of each of these sessions of a machine. Raises Refused for too many."""
        most = HASHED_MAX if is_hashed else ASKED_MAX
        if len(uids) > most:
            raise Refused(400, "too_many", f"At most {most:,} sessions at once.")
        with self._database.of(caller.tenant) as rows:
            storing = _Storing(rows, caller, machine, 0)
            storing.look_at(uids)
            return [storing.state(each, is_hashed=is_hashed) for each in uids]

    def machines(self, caller: Caller) -> tuple[list[ShelfMachine], int]:
        """Return the machines that sent something for the caller, and how many sessions were ever removed."""
        with self._database.of(caller.tenant) as rows:
            of = (caller.tenant, caller.person)
            found = rows.execute(_MACHINES, (caller.among, caller.among, *of)).fetchall()
            (removals,) = one(rows.execute("select count(*) from removal where tenant = %s and person = %s", of))
        machines = [
            ShelfMachine(
                id=id_, name=name, session_count=count, event_count=int(events), generation=generation,
                seen=seen.isoformat(), has_boards=has_boards,
            )
            for id_, name, count, events, generation, seen, has_boards in found
        ]  # fmt: skip
        return machines, removals

    def changes(self, caller: Caller, machine: str, after: str) -> Changes:
        """Return what came of a machine behind a place, '' for all. Raises Refused for no place of ours."""
        place = _place(after)
        with self._database.of(caller.tenant) as rows:
            of = (caller.tenant, caller.person)
            newest, removals = one(rows.execute(
                "select generation, (select count(*) from removal r where r.tenant = p.tenant and r.person = p.id)"
                " from person p where tenant = %s and id = %s", of,
            ))  # fmt: skip
            data, has_more = bytearray(), False
            for *at, head, payload in _new_frames(rows, caller, machine, place):
                if len(data) >= CHANGES_BYTES:
                    has_more = True
                    break
                data += head.encode() + b"\n" + bytes(payload)
                place = tuple(at)
        if not has_more:
            place = max(place, (newest, "", 0))
        return Changes(upto=".".join(map(str, place)), data=bytes(data), removals=removals, has_more=has_more)

    def remove(self, caller: Caller, uid: str) -> str:
        """Erase a session of the caller on all shelves, for good; return its mark. Raises Refused if there is none."""
        with self._database.of(caller.tenant) as rows:
            mark = _mark(rows, caller.tenant, uid)
            generation = next_generation(rows, caller)
            there = erase_session(rows, caller.tenant, caller.person, uid)
            known = rows.execute(
                "insert into removal values (%s, %s, %s, %s, %s) on conflict do nothing",
                (caller.tenant, caller.person, mark, self._now(), generation),
            ).rowcount
            if not there and known:
                raise Refused(404, "session_unknown", "You have no such session here.")
            note(rows, caller.tenant, caller.person, "forget", mark.hex(), self._now())
        return mark.hex()

    def remove_all(self, caller: Caller) -> list[str]:
        """Erase all that the caller sent, for good; return the uids of the sessions that there were."""
        with self._database.of(caller.tenant) as rows:
            generation = next_generation(rows, caller)
            of = (caller.tenant, caller.person)
            found = rows.execute(_SENT_OR_TOLD, (*of, *of))
            uids = [uid for (uid,) in found.fetchall()]
            marks = marks_of(rows, caller.tenant, uids)
            rows.executemany(
                "insert into removal values (%s, %s, %s, %s, %s) on conflict do nothing",
                [(*of, mark, self._now(), generation) for mark in marks],
            )
            erase_history(rows, *of)
            note(rows, caller.tenant, caller.person, "forget", "all", self._now())
        return uids

    def remove_machine(self, caller: Caller, machine: str) -> int:
        """Erase the shelf of a machine; return how many sessions it had. Raises Refused if there is none."""
        of = (caller.tenant, caller.person, machine)
        with self._database.of(caller.tenant) as rows:
            next_generation(rows, caller)
            if not rows.execute("delete from machine where tenant = %s and person = %s and id = %s", of).rowcount:
                raise Refused(404, "machine_unknown", "You have no such machine here.")
            gone = erase_machine(rows, *of)
            note(rows, caller.tenant, caller.person, "forget", "machine", self._now())
        return gone


class _Storing:
    """One transaction that stores frames of one machine."""

    def __init__(self, rows: Cursor[Any], caller: Caller, machine: str, generation: int) -> None:
        self._rows, self._caller, self._generation = rows, caller, generation
        self._of = caller.tenant, caller.person, machine
        self._shelves: dict[str, _Shelf] = {}
        self._removed = set[str]()
        self.shown: dict[str, int] = {}
        """The sessions of which more is seen than before; with their events, if anything was seen."""
        self._waiting: list[tuple[Any, ...]] = []
        self.turns: dict[str, list[bytes]] = {}

    def look_at(self, uids: Iterable[str]) -> None:
        """Ask what is there of sessions, all at once: it is known of them from then on."""
        wanted = [*dict.fromkeys(uids)]
        marked = dict(zip(wanted, marks_of(self._rows, self._caller.tenant, wanted), strict=True))
        gone = self._rows.execute(_GONE, (*self._of[:2], [*marked.values()])).fetchall()
        removed = {bytes(mark) for (mark,) in gone}
        self._removed = {uid for uid in wanted if marked[uid] in removed}
        self._shelves = {uid: _Shelf() for uid in wanted}
        for uid, head, number, events, epoch, seen, repository in self._rows.execute(
            _LAST, (wanted, *self._of)
        ).fetchall():
            last = msgspec.json.decode(head, type=FrameHead)
            self._shelves[uid] = _Shelf(
                last=last, number=number, events=int(events), seen_epoch=epoch, seen_frames=seen,
                has_unseen=(last.epoch, number) > (epoch, seen), has_older=True, repository=repository,
            )  # fmt: skip

    def take(self, data: bytes, frame: Frame | FrameDamaged) -> Confirmed:
        """Store a frame if it follows, and say what became of it."""
        if isinstance(frame, FrameDamaged):
            return Confirmed(uid="", word=SyncWord.DAMAGED, state=ShelfState(uid=""), reason=str(frame)[:200])
        uid = frame.head.session
        if frame.head.epoch > EPOCH_MAX:
            why = f"its epoch is above {EPOCH_MAX:,}"
            return Confirmed(uid=uid, word=SyncWord.DAMAGED, state=self.state(uid), reason=why)
        if uid in self._removed:
            return Confirmed(uid=uid, word=SyncWord.FORGOTTEN, state=ShelfState(uid=uid, is_forgotten=True))
        shelf = self._shelves[uid]
        if self._is_of_others(uid, shelf):
            raise Refused(403, "not_allowed", "Your token is not for the repository of a session.")
        word = self._verdict(frame.head, shelf)
        if word == SyncWord.OK:
            self._add(data, frame, shelf)
        return Confirmed(uid=uid, word=word, state=self.state(uid))

    def state(self, uid: str, *, is_hashed: bool = False) -> ShelfState:
        """The last frame of a session; ``is_hashed``: with hashes of what was sent."""
        if uid in self._removed:
            return ShelfState(uid=uid, is_forgotten=True)
        shelf = self._shelves[uid]
        if shelf.last is None or self._is_of_others(uid, shelf):
            return ShelfState(uid=uid)
        last = shelf.last
        history = str(of_frames(self._lines(uid, last.epoch))) if is_hashed else ""
        return ShelfState(
            uid=uid, epoch=last.epoch, upto=last.upto, chain=last.chain, events=shelf.events, history=history
        )

    def _lines(self, uid: str, epoch: int) -> Iterator[bytes]:
        number = 0
        while found := self._rows.execute(_FRAMES, (*self._of, uid, epoch, number, FRAMES_MAX)).fetchall():
            for _, head, data in found:
                yield from frames.read_again(head.encode() + b"\n" + bytes(data)).lines
            number = found[-1][0]

    def end(self) -> None:
        """Write what waits."""
        if self._waiting:
            # Behind row-level security there is no COPY.
            self._rows.executemany(_STORED, self._waiting)
            self._waiting.clear()

    def _verdict(self, head: FrameHead, shelf: _Shelf) -> SyncWord:
        held = [] if shelf.last is None else [shelf.last]
        if (found := frames.verdict(head, held)) != FrameVerdict.NEXT and shelf.last is not None:
            # Of those before the last one only those that it names tell what it is.
            found = frames.verdict(head, [*self._named_by(head), *held])
        return _WORDS[found]

    def _named_by(self, head: FrameHead) -> list[FrameHead]:
        """Those of a frame itself and of the one before it that are there."""
        asked = [bytes.fromhex(each) for each in (head.chain, head.prev) if each]
        found = [
            row[10] for row in self._waiting if (row[3], row[4]) == (head.session, head.epoch) and row[6] in asked
        ] + [text for (text,) in self._rows.execute(_NAMED, (*self._of, head.session, head.epoch, asked)).fetchall()]
        return [msgspec.json.decode(text, type=FrameHead) for text in found]

    def _add(self, data: bytes, frame: Frame, shelf: _Shelf) -> None:
        head = frame.head
        if shelf.last is None or head.epoch > shelf.last.epoch:
            shelf.number = shelf.events = 0
            shelf.has_older = shelf.last is not None
        shelf.last = head
        shelf.number, shelf.events = shelf.number + 1, shelf.events + head.events
        lines = [(kind, text) for text in frame.lines if (kind := line_kind(text)) in _FACTS]
        self._check_scope(head, shelf, lines)
        self.turns.setdefault(head.session, []).extend(text for kind, text in lines if kind == _TURN)
        is_end = any(kind == _END for kind, _ in lines)
        text, _, payload = data.partition(b"\n")
        self._waiting.append(
            (*self._of, head.session, head.epoch, shelf.number, bytes.fromhex(head.chain), head.events, is_end,
             self._generation, text.decode(), payload)
        )  # fmt: skip
        if is_end:
            self.end()
            self._show(head, shelf, lines)

    def _is_of_others(self, uid: str, shelf: _Shelf) -> bool:
        """Return True if a session is there of a repository that the token is not good for."""
        if (allowed := self._caller.repositories) is None or shelf.last is None:
            return False
        if shelf.repository is None:
            # It is not seen yet: its first frame names it.
            self.end()
            said = _of_kind(_SESSION, self._lines(uid, shelf.last.epoch))
            shelf.repository = "" if said is None else _repository(msgspec.json.decode(said, type=SessionLine))
        return shelf.repository not in allowed

    def _check_scope(self, head: FrameHead, shelf: _Shelf, lines: Sequence[tuple[bytes, bytes]]) -> None:
        """Refuse sessions of repositories that the token is not good for, and what names none."""
        if (allowed := self._caller.repositories) is None:
            return
        named = [_repository(msgspec.json.decode(text, type=SessionLine)) for kind, text in lines if kind == _SESSION]
        if any(each not in allowed for each in named) or not (named or head.prev):
            raise Refused(403, "not_allowed", "Your token is not for the repository of a session.")
        shelf.repository = named[-1] if named else shelf.repository

    def _show(self, head: FrameHead, shelf: _Shelf, lines: Iterable[tuple[bytes, bytes]]) -> None:
        """Have a session seen up to this frame, and no epoch before its."""
        of = (*self._of, head.session)
        self.shown.setdefault(head.session, shelf.events if shelf.seen_frames else 0)
        is_replaced = 0 < shelf.seen_epoch < head.epoch
        if shelf.seen_epoch < head.epoch:
            if shelf.has_older:
                self._rows.execute(_REPLACED, (*of, head.epoch))
            shelf.seen_epoch, shelf.seen_frames = head.epoch, 0
        # What is seen from now on is of this generation, whenever it came: who reads by generations shall not miss it.
        if shelf.has_unseen:
            self._rows.execute(_SEEN_NOW, (self._generation, *of, shelf.seen_frames, self._generation))
        shelf.seen_frames, shelf.has_unseen = shelf.number, False
        session = next((msgspec.json.decode(text, type=SessionLine) for kind, text in lines if kind == _SESSION), None)
        turns = [msgspec.json.decode(text, type=TurnLine) for kind, text in lines if kind == _TURN]
        agent = turns[-1].agent if turns else None
        facts = (None, None, None, None, None) if session is None else (
            _kept(_repository(session))[:TITLE_CHARS], _kept(session.title or session.name or "")[:TITLE_CHARS],
            session.branch and _kept(session.branch)[:TITLE_CHARS], _time(session.created),
            _time(session.last_active))  # fmt: skip
        repository, title, branch, created, active = facts
        self._rows.execute(_SHOWN, (
            *of, repository or "", head.epoch, shelf.number, shelf.events, bytes.fromhex(head.chain), title, agent,
            branch, created, active, self._generation,
        ))  # fmt: skip
        if is_replaced:
            # It may have been sent anew because of what it said.
            tenant, person, machine = self._of
            jobs.forget_derived(self._rows, ShelfPlace(tenant, person, head.session, machine))


_WORDS = {
    FrameVerdict.NEXT: SyncWord.OK, FrameVerdict.HAD: SyncWord.HAD, FrameVerdict.GAP: SyncWord.EXPECTED,
    FrameVerdict.OTHER: SyncWord.OTHER, FrameVerdict.OLD: SyncWord.EPOCH,
}  # fmt: skip
NOT_A_BEGINNING = """
not exists (select from frame f join session o on o.tenant = f.tenant and o.person = f.person and o.uid = f.session
  and o.machine = f.machine and o.epoch = f.epoch and f.number <= o.frames
where f.tenant = s.tenant and f.person = s.person and f.session = s.uid and f.epoch = s.epoch and f.chain = s.chain
  and f.machine <> s.machine and (f.number < o.frames or f.machine < s.machine))
"""
"""A condition on ``session s``: no other machine of the person has all of it, and more. Of two alike one counts.

Who lists sessions asks with it, so of variants that differ each is shown, and a beginning of another one is not.
"""
_MACHINE = """
insert into machine as m (tenant, person, id, seen, name) select %s, %s, %s, %s, name from token
where tenant = %s and id = %s
on conflict (tenant, person, id) do update set name = excluded.name, seen = excluded.seen
where (m.name, m.seen) <> (excluded.name, excluded.seen)
"""
_MACHINES = """
select m.id, m.name, count(s.uid), coalesce(sum(s.events), 0), coalesce(max(s.generation), 0), m.seen,
  exists (select from board b where b.tenant = m.tenant and b.person = m.person and b.machine = m.id)
from machine m left join session s on s.tenant = m.tenant and s.person = m.person and s.machine = m.id
  and (%s::text[] is null or s.repository = any(%s))
where m.tenant = %s and m.person = %s group by m.tenant, m.person, m.id, m.name, m.seen order by 3 desc, m.id
"""
_PLACE = lazy_regex(r"([0-9]{1,18})\.([0-9A-Z]{26}|)\.([0-9]{1,9})")
_NAMED = """
select head from frame
where tenant = %s and person = %s and machine = %s and session = %s and epoch = %s and chain = any(%s)
"""
_SESSION, _TURN, _END = b"session", b"turn", b"session_end"
_FACTS = {_SESSION, _TURN, _END}
_STORED = """
insert into frame (tenant, person, machine, session, epoch, number, chain, events, is_end, generation, head, data)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_GONE = "select mark from removal where tenant = %s and person = %s and mark = any(%s)"
_LAST = """
select l.session, l.head, l.number, (select sum(e.events) from frame e where e.tenant = l.tenant
  and e.person = l.person and e.machine = l.machine and e.session = l.session and e.epoch = l.epoch),
  coalesce(s.epoch, 0), coalesce(s.frames, 0), s.repository
from unnest(%s::text[]) w(uid) cross join lateral (
  select f.tenant, f.person, f.machine, f.session, f.epoch, f.number, f.head from frame f
  where f.tenant = %s and f.person = %s and f.machine = %s and f.session = w.uid
  order by f.epoch desc, f.number desc limit 1) l
left join session s on s.tenant = l.tenant and s.person = l.person and s.machine = l.machine and s.uid = l.session
"""
_FRAMES = """
select number, head, data from frame
where tenant = %s and person = %s and machine = %s and session = %s and epoch = %s and number > %s
order by number limit %s
"""
_REPLACED = """
delete from frame where tenant = %s and person = %s and machine = %s and session = %s and epoch < %s
"""
_SEEN_NOW = """
update frame set generation = %s
where tenant = %s and person = %s and machine = %s and session = %s and number > %s and generation <> %s
"""
_SHOWN = """
insert into session (tenant, person, machine, uid, repository, epoch, frames, events, chain, title, agent, branch,
  created, last_active, generation)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
on conflict (tenant, person, uid, machine) do update set
  repository = coalesce(nullif(excluded.repository, ''), session.repository), epoch = excluded.epoch,
  frames = excluded.frames, events = excluded.events, chain = excluded.chain,
  title = coalesce(excluded.title, session.title), agent = coalesce(excluded.agent, session.agent),
  branch = coalesce(excluded.branch, session.branch), created = coalesce(excluded.created, session.created),
  last_active = coalesce(excluded.last_active, session.last_active), generation = excluded.generation
"""
_SENT_OR_TOLD = """
select session from frame where tenant = %s and person = %s
union select session from live_run where tenant = %s and person = %s order by 1
"""
_NEW = """
select f.generation, f.session, f.number, f.head, f.data from frame f
join session s on s.tenant = f.tenant and s.person = f.person and s.machine = f.machine and s.uid = f.session
  and s.epoch = f.epoch and f.number <= s.frames
where f.tenant = %s and f.person = %s and f.machine = %s and (f.generation, f.session, f.number) > (%s, %s, %s)
order by f.generation, f.session, f.number
"""


def next_generation(rows: Cursor[Any], caller: Caller) -> int:
    """Count a change of what a person has; who changes more of it waits until this transaction ends. Raises Refused."""
    row = rows.execute(
        "update person set generation = generation + 1 where tenant = %s and id = %s returning generation",
        (caller.tenant, caller.person),
    ).fetchone()
    if row is None:
        # Put out meanwhile.
        raise Refused(401, "not_logged_in", "This needs a login.")
    return int(row[0])


def note_machine(rows: Cursor[Any], caller: Caller, machine: str, now: datetime) -> None:
    """Note that a machine sent something. Raises Refused where its login ended meanwhile."""
    of = (caller.tenant, caller.token)
    if rows.execute("select from token where tenant = %s and id = %s", of).fetchone() is None:
        raise Refused(401, "not_logged_in", "This needs a login.")
    rows.execute(_MACHINE, (caller.tenant, caller.person, machine, now.date(), *of))


def _new_frames(rows: Cursor[Any], caller: Caller, machine: str, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    # They are read as they are sent, and no more of them.
    with rows.connection.cursor(name="changes") as found:
        found.itersize = FRAMES_MAX
        yield from found.execute(_NEW, (caller.tenant, caller.person, machine, *place))


def _place(text: str) -> tuple[int, str, int]:
    """The place that ``changes`` gave: a generation, a session and the number of a frame. Raises Refused."""
    if not text:
        return 0, "", 0
    found = _PLACE.fullmatch(text)
    if found is None:
        raise Refused(400, "request_wrong", "This is no place that the server gave.")
    return int(found[1]), found[2], int(found[3])


def _cut(body: bytes) -> list[tuple[bytes, FrameDamaged | None]]:
    """The frames of a request, by their heads, and what is wrong with a head. Raises Refused."""
    parts = list[tuple[bytes, FrameDamaged | None]]()
    at = 0
    while at < len(body):
        if len(parts) == FRAMES_MAX:
            raise Refused(413, "too_many", f"A request has at most {FRAMES_MAX} frames.")
        try:
            head = frames.head_of(body[at : at + frames.HEAD_BYTES_MAX])
        except FrameDamaged as refused:
            # Where it ends is not known, so neither is what follows.
            parts.append((b"", refused))
            break
        end = body.index(b"\n", at) + 1 + head.size
        data = body[at:end]
        at = end
        if head.bytes or not head.redacted:
            raise Refused(400, "not_masked", "Only frames whose secrets are masked are kept here, without logs' bytes.")
        parts.append((data, None))
    if not parts:
        raise Refused(400, "request_wrong", "The request has no frame.")
    return parts


def _read(data: bytes) -> Frame | FrameDamaged:
    try:
        return frames.read(data)
    except FrameDamaged as refused:
        return refused


def _repository(session: SessionLine) -> str:
    """The key of its remote, else what its agent says; '' for a folder without a remote, which stays unnamed."""
    project = session.project or ""
    return project if "/" in project and project[0] not in "./~" else session.repository or ""


def _of_kind(kind: bytes, lines: Iterable[bytes]) -> bytes | None:
    return next((each for each in lines if line_kind(each) == kind), None)


def _time(text: str | None) -> datetime | None:
    """A time as a column has it; None for one that no calendar has, or that is none."""
    try:
        return moment(ms_of(text))
    except ValueError:
        return None


def _kept(text: str) -> str:
    """A text as a column has it, which cannot have all characters that a frame can."""
    return text.replace("\0", "\ufffd")


def line_kind(line: bytes) -> bytes:
    """The type of a line, which is its first key as we write it; '' for any other writer's, which is decoded."""
    if line.startswith(b'{"type":"'):
        return line[9 : line.index(b'"', 9)]
    return str(msgspec.json.decode(line).get("type", "")).encode()


def _mark(rows: Cursor[Any], tenant: int, uid: str) -> bytes:
    return marks_of(rows, tenant, [uid])[0]


def marks_of(rows: Cursor[Any], tenant: int, uids: Iterable[str]) -> list[bytes]:
    (key,) = one(rows.execute("select key from organisation where tenant = %s", (tenant,)))
    return [hmac.new(bytes(key), uid.encode(), hashlib.sha256).digest() for uid in uids]
