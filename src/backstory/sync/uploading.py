"""History sent to a team's server: of the repositories that a person named, masked, from where each was sent to.

What was sent is known by a hash of its masked lines. Where they are others now (a secret that was told late, a better
reading of a log), the session is sent anew as the next epoch; where they only went on, only what is new. What the
server confirmed is noted, and nothing else.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.ask import session_marks
from backstory.errors import ServerRefused
from backstory.exchange import frames
from backstory.exchange.frames import START, FramePoint, head_of
from backstory.sync.dry_run import OutwardExport
from backstory.sync.leaving import choose
from backstory.sync.notes import SyncNote
from backstory.sync.pull_plan import SentPoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from backstory.derive.secrets import Redactor
    from backstory.store import Store
    from backstory.sync.leaving import LeavingSession
    from backstory.sync.notes import SyncNotes
    from backstory.sync.opted import OptedIn
    from backstory.sync.outward import MachineNames
    from backstory.sync.remote import Remote

RULES = "1"
"""Raised when what is taken out of history changes: all that was sent is then compared anew."""
FRAMES_AT_ONCE, BYTES_AT_ONCE = 64, 4 * 1024 * 1024
STATES_AT_ONCE = 1_000
TRIES = 3
"""The number of times that a session is sent whose server knows another state of it than was noted."""
STORED, FORGOTTEN, DAMAGED = ("ok", "had"), "forgotten", "damaged"
"""Words of the server; the second is a note's history, too."""


class NotSent(Struct, frozen=True, kw_only=True):
    """A session that the server did not take, and why."""

    session: str
    reason: str


class Sent(Struct, kw_only=True):
    """The result of a sync: what the server confirmed."""

    created: list[str] = field(default_factory=list)
    """The uids of sessions that were not there before."""
    sent: list[str] = field(default_factory=list)
    """The uids of all of which something was sent."""
    events: int = 0
    unchanged: int = 0
    staying: int = 0
    forgotten: list[str] = field(default_factory=list)
    """The uids of those that the person took out of the server: they stay out."""
    failed: list[NotSent] = field(default_factory=list)


class _State(Struct, frozen=True):
    """A session on the server, as it says."""

    uid: str
    epoch: int
    upto: FramePoint
    chain: str
    events: int
    is_forgotten: bool


class _Word(Struct, frozen=True):
    uid: str
    word: str
    state: _State
    reason: str = ""


class _Confirmed(Struct, frozen=True):
    generation: int
    confirmed: list[_Word]


class _States(Struct, frozen=True):
    sessions: list[_State]


class Uploader:
    """One sync with one server. ``redactor`` makes a new one for each repository."""

    def __init__(
        self, remote: Remote, notes: SyncNotes, machine: MachineNames, redactor: Callable[[], Redactor], now: int
    ) -> None:
        self._remote, self._notes, self._machine = remote, notes, machine
        self._redactor, self._now = redactor, now
        self._waiting: list[tuple[bytes, SentPoint | None]] = []
        self._states: dict[str, _State] = {}
        self._again: dict[str, _State] = {}
        self.done = Sent()

    def run(
        self, stores: Iterable[Store], opted: OptedIn, note: Callable[[int, int], None] = lambda done, total: None
    ) -> Sent:
        """Send what is new. ``note`` receives sessions done and sessions to do.

        Raises ServerRefused, ServerUnreachable.
        """
        stores = list(stores)
        choice = choose(stores, opted)
        self.done.staying = sum(choice.staying.values())
        marks = _marks(stores)
        by_repository: dict[str, list[LeavingSession]] = {}
        for each in choice.leaving:
            by_repository.setdefault(each.repository.lower(), []).append(each)
        self._remote.ask("GET", "/v1/me")
        done, total = 0, len(choice.leaving)
        for sessions in by_repository.values():
            own = {each.origin.uid: f"{RULES} {marks[id(each.store), each.origin.id]}" for each in sessions}
            if all(self._mark_of(uid).startswith(f"{mark} ") for uid, mark in own.items()):
                self.done.unchanged += len(sessions)
            else:
                self._repository(sessions, own, partial(_note_behind, note, done, total))
            done += len(sessions)
            note(done, total)
        return self.done

    def _mark_of(self, uid: str) -> str:
        return noted.mark if (noted := self._notes.sent.get(uid)) is not None else ""

    def _repository(self, sessions: Sequence[LeavingSession], own: dict[str, str], note: Callable[[int], None]) -> None:
        """Send what changed of one repository; what secrets it has is learned from all of it."""
        export = OutwardExport(sessions, self._machine, self._redactor(), self._now)
        export.learn()
        masks = hashlib.sha256("\n".join(sorted(export.redactor.masks)).encode()).hexdigest()[:16]
        marked = [(each, f"{own[each.origin.uid]} {masks}") for each in sessions]
        changed = [(each, mark) for each, mark in marked if self._mark_of(each.origin.uid) != mark]
        self.done.unchanged += len(marked) - len(changed)
        self._ask_states([each.origin.uid for each, _ in changed if each.origin.uid not in self._notes.sent])
        for number, (each, mark) in enumerate(changed, 1):
            self._session(export, each, mark)
            note(number)
        self._flush()
        by_uid = {each.origin.uid: (each, mark) for each, mark in changed}
        for _ in range(TRIES):
            again, self._again = self._again, {}
            for uid, state in again.items():
                self._states[uid] = state
                self._notes.sent.pop(uid, None)
                self._session(export, *by_uid[uid])
            self._flush()
        for uid in self._again:
            self._fail(uid, "the server has another history of it")

    def _ask_states(self, uids: Sequence[str]) -> None:
        """Ask what the server has of sessions of which nothing is noted."""
        for at in range(0, len(uids), STATES_AT_ONCE):
            said = self._remote.ask("POST", "/v1/state", {"uids": uids[at : at + STATES_AT_ONCE]})
            for each in msgspec.convert(said, _States).sessions:
                self._states[each.uid] = each

    def _session(self, export: OutwardExport, session: LeavingSession, mark: str) -> None:
        """Send a session from where it was sent to, if what was sent is as it was; else anew."""
        uid = session.origin.uid
        sent, state = self._notes.sent.get(uid), self._states.get(uid)
        if (state is not None and state.is_forgotten) or (sent is not None and sent.history == FORGOTTEN):
            self._stay_out(uid, mark)
            return
        if sent is not None:
            said = _Said(sent.upto)
            for _ in said.read(_of_session(export.lines([session]))):
                pass
            if said.history(sent.upto) == sent.history:
                self._notes.add(SyncNote(uid=uid, sent=msgspec.structs.replace(sent, mark=mark)))
                self.done.unchanged += 1
                return
            if said.digest(sent.upto) == sent.history.partition(" ")[0]:
                lines = _of_session(export.lines([session], {uid: sent.upto}))
                self._put(uid, lines, sent.epoch, sent.upto, sent.chain, mark, said)
                return
        epoch = sent.epoch if sent is not None else state.epoch if state is not None else 0
        if state is not None and state.chain and self._is_there(export, session, state):
            said = _Said()
            lines = said.read(_of_session(export.lines([session])))
            self._put(uid, lines, state.epoch, START, "", mark, said, behind=state.chain)
            return
        if not epoch:
            self.done.created.append(uid)
        said = _Said()
        lines = said.read(_of_session(export.lines([session])))
        self._put(uid, lines, epoch + 1, START, "", mark, said)

    def _is_there(self, export: OutwardExport, session: LeavingSession, state: _State) -> bool:
        """Return True if the server has the beginning of what would be sent now, cut in the same way."""
        made = frames.frames(
            _of_session(export.lines([session])), session=session.origin.uid, epoch=state.epoch, is_redacted=True
        )
        return any(head_of(each).chain == state.chain for each in made)

    def _put(
        self, uid: str, lines: Iterable[bytes], epoch: int, after: FramePoint, prev: str, mark: str, said: _Said,
        behind: str = "",
    ) -> None:  # fmt: skip
        """Have the frames of a session sent; ``behind``: without those up to the one with this chain."""
        made = frames.frames(lines, session=uid, epoch=epoch, after=after, prev=prev, is_redacted=True)
        is_behind, last, events, head = not behind, b"", 0, None
        for each in made:
            head = head_of(each)
            if is_behind:
                if last:
                    self._add(last, None)
                last = each
                events += head.events
            is_behind = is_behind or head.chain == behind
        if head is None:
            return
        point = SentPoint(epoch=epoch, upto=head.upto, chain=head.chain, mark=mark, history=said.history(head.upto))
        if last:
            self._add(last, point)
        else:
            self._confirm(uid, point)

    def _add(self, frame: bytes, point: SentPoint | None) -> None:
        if len(self._waiting) == FRAMES_AT_ONCE or (
            sum(len(each) for each, _ in self._waiting) + len(frame) > BYTES_AT_ONCE and self._waiting
        ):
            self._flush()
        self._waiting.append((frame, point))

    def _flush(self) -> None:
        """Send what waits, and note what the server confirmed."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        said = self._remote.send("/v1/sync", b"".join(frame for frame, _ in waiting))
        for (frame, point), word in zip(waiting, msgspec.convert(said, _Confirmed).confirmed, strict=False):
            head = head_of(frame)
            uid = head.session
            if word.word in STORED:
                self.done.events += head.events if word.word == "ok" else 0
                if point is not None and uid not in self._again:
                    self._confirm(uid, point)
            elif word.word == FORGOTTEN:
                self._stay_out(uid, "" if point is None else point.mark)
            elif word.word == DAMAGED:
                self._fail(uid, f"the server cannot read it: {word.reason}")
            else:
                self._again[uid] = word.state

    def _stay_out(self, uid: str, mark: str) -> None:
        if uid not in self.done.forgotten:
            self.done.forgotten.append(uid)
        self._notes.add(SyncNote(uid=uid, sent=forgotten(mark)))

    def _confirm(self, uid: str, point: SentPoint) -> None:
        self._notes.add(SyncNote(uid=uid, sent=point))
        if uid not in self.done.sent:
            self.done.sent.append(uid)

    def _fail(self, uid: str, reason: str) -> None:
        if all(each.session != uid for each in self.done.failed):
            self.done.failed.append(NotSent(session=uid, reason=reason))


def _note_behind(note: Callable[[int, int], None], before: int, total: int, at: int) -> None:
    note(before + at, total)


class _Place(Struct, frozen=True):
    type: str
    seq: int = 0
    part: int = 0
    last_seq: int = 0


class _Said:
    """Hashes of what the lines of a session say up to points. ``until``: one that is asked for besides the end.

    A turn that goes on behind a point is no part of what was said up to it. ``head`` is a hash of the lines that are
    sent each time: of the session, its branches and its summaries.
    """

    def __init__(self, until: FramePoint | None = None) -> None:
        self._until, self.upto = until, START
        self._turns: list[tuple[int, bytes]] = []
        self._events, self._before = hashlib.sha256(), b""
        self._head = hashlib.sha256()
        self._decode = msgspec.json.Decoder(_Place).decode

    def read(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines, read."""
        for line in lines:
            at = self._decode(line)
            if at.type == "turn":
                self._turns.append((at.last_seq, hashlib.sha256(line).digest()))
            elif at.type == "event":
                if self._until is not None and (at.seq, at.part) > self._until and not self._before:
                    self._before = self._events.digest()
                self._events.update(line)
                self.upto = FramePoint(at.seq, at.part)
            elif at.type != "session_end":
                self._head.update(line)
            yield line

    @property
    def head(self) -> str:
        """The hash of what is sent each time."""
        turns = b"".join(each for _, each in self._turns)
        return hashlib.sha256(self._head.digest() + turns).hexdigest()

    def history(self, upto: FramePoint) -> str:
        """The hash up to a point that is the end, with that of what is sent each time."""
        return f"{self.digest(upto)} {self.head}" if upto == self.upto else ""

    def digest(self, upto: FramePoint) -> str:
        """The hash up to the end, or to the point that was asked for."""
        is_end = upto == self.upto or not self._before
        turns = b"".join(each for last_seq, each in self._turns if last_seq < upto.seq)
        return hashlib.sha256((self._events.digest() if is_end else self._before) + turns).hexdigest()


def _of_session(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a session alone, without those of a file."""
    return (line for line in lines if not line.startswith((b'{"type":"backstory"', b'{"type":"end"')))


class SyncStatus(Struct, frozen=True, kw_only=True):
    """Numbers of sessions: confirmed by the server, with their events; that may have changed since; that stay."""

    confirmed_count: int
    event_count: int
    waiting_count: int
    staying_count: int


def status(remote: Remote, notes: SyncNotes, stores: Sequence[Store], opted: OptedIn) -> SyncStatus:
    """Ask the server what it has. Raises ServerRefused, ServerUnreachable."""
    choice = choose(stores, opted)
    marks = _marks(stores)
    waiting = [
        each for each in choice.leaving
        if (sent := notes.sent.get(each.origin.uid)) is None
        or not sent.mark.startswith(f"{RULES} {marks[id(each.store), each.origin.id]} ")
    ]  # fmt: skip
    uids, there = [*notes.sent], list[_State]()
    for at in range(0, len(uids), STATES_AT_ONCE):
        said = remote.ask("POST", "/v1/state", {"uids": uids[at : at + STATES_AT_ONCE]})
        there += [each for each in msgspec.convert(said, _States).sessions if each.chain]
    return SyncStatus(
        confirmed_count=len(there), event_count=sum(each.events for each in there), waiting_count=len(waiting),
        staying_count=sum(choice.staying.values()),
    )  # fmt: skip


class SentMachine(Struct, frozen=True, kw_only=True):
    """A machine of the person that sent something. ``name``: as its login said it; ``seen``: the day of the last."""

    id: str
    name: str
    session_count: int
    event_count: int
    seen: str
    is_this: bool = False


class _Machines(Struct, frozen=True):
    machines: list[SentMachine]


def machines(remote: Remote) -> list[SentMachine]:
    """Ask which machines of the person sent something. Raises ServerRefused, ServerUnreachable."""
    found = msgspec.convert(remote.ask("GET", "/v1/machines"), _Machines).machines
    return [msgspec.structs.replace(each, is_this=each.id == remote.machine) for each in found]


def forget(remote: Remote, notes: SyncNotes, uids: Iterable[str]) -> list[str]:
    """Have the server erase sessions; return those that it had. Raises ServerRefused, ServerUnreachable."""
    gone = list[str]()
    for uid in uids:
        try:
            remote.ask("DELETE", f"/v1/sessions/{uid}")
        except ServerRefused as refused:
            if refused.status != 404:
                raise
        else:
            gone.append(uid)
            mark = notes.sent[uid].mark if uid in notes.sent else ""
            notes.add(SyncNote(uid=uid, sent=forgotten(mark)))
    return gone


def _marks(stores: Iterable[Store]) -> dict[tuple[int, int], str]:
    return {(id(store), each.id): each.mark for store in stores for each in store.ask_or([], session_marks.marks)}


def forgotten(mark: str = "") -> SentPoint:
    """The note about a session that a person took out of the server."""
    return SentPoint(epoch=1, upto=START, chain=frames.NO_CHAIN, mark=mark, history=FORGOTTEN)


def as_json(done: Sent) -> dict[str, Any]:
    """Return the result of a sync as ``sync --json`` prints it."""
    return {
        "created_uids": done.created, "sent_uids": done.sent, "event_count": done.events,
        "unchanged_count": done.unchanged, "staying_count": done.staying, "forgotten_uids": done.forgotten,
        "failed": [{"uid": each.session, "reason": each.reason} for each in done.failed],
    }  # fmt: skip
