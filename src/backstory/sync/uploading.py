"""History sent to a team's server: of the repositories that a person named, masked, from where each was sent to.

What was sent is known by a hash of its masked lines. Where they are others now (a secret that was told late, a better
reading of a log), the session is sent anew as the next epoch; where they only went on, only what is new. What the
server confirmed is noted, and nothing else.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from backstory.ask import session_marks
from backstory.errors import ServerRefused
from backstory.exchange import frames
from backstory.exchange.frames import START, FramePoint, head_of
from backstory.store.file.migrate import DERIVED_VERSION
from backstory.sync import boards
from backstory.sync.frame_sending import history_of
from backstory.sync.leaving import choose
from backstory.sync.notes import SyncNote
from backstory.sync.outward_export import BESIDES, OutwardExport
from backstory.sync.pull_plan import SentPoint
from backstory.sync.remote import understood
from backstory.sync.removed import ABSENT, COPY, FORGOTTEN, OUT, erase, erase_again, forgotten, keep_forgotten
from backstory.sync.sent_history import SaidLines, SentHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
STATES_AT_ONCE, HASHED_AT_ONCE = 1_000, 20
TRIES = 3
"""The number of times that a session is sent whose server knows another state of it than was noted."""
MASKS = "masks "
"""Before the hash of all masks of a repository, and a hash of each, in a note: marks name the first one."""
STORED, DAMAGED = ("ok", "had"), "damaged"
"""Words of the server, besides that a session is forgotten."""


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
    pruned: int = 0
    """The number of those that were pruned in part: what was sent of them before stays as it is there."""
    board_items: int = 0
    """The number of items of the boards that were sent."""
    forgotten: list[str] = field(default_factory=list)
    """The uids of those that the person took out of the server: they stay out."""
    erased: list[str] = field(default_factory=list)
    """The uids of those that the server erased because they were removed here."""
    failed: list[NotSent] = field(default_factory=list)


class _State(Struct, frozen=True):
    """A session on the server, as it says."""

    uid: str
    epoch: int
    upto: FramePoint
    chain: str
    events: int
    is_forgotten: bool
    history: str = ""


class _Word(Struct, frozen=True):
    uid: str
    word: str
    state: _State
    reason: str = ""


class _Confirmed(Struct, frozen=True):
    generation: int
    confirmed: list[_Word]


class _Me(Struct, frozen=True):
    state: str = ""


class _Gone(Struct, frozen=True):
    uids: list[str]


class _States(Struct, frozen=True):
    sessions: list[_State]


class _Leaving(Struct, frozen=True, kw_only=True):
    """A session that is sent, of a repository that is exported; ``mark``: to be noted once it is there."""

    export: OutwardExport
    session: LeavingSession
    mark: str
    version: object
    """The version of its store before it was read."""

    @property
    def uid(self) -> str:
        return self.session.origin.uid


class Uploader:
    """One sync with one server. ``redactor`` makes a new one for each repository; ``has_boards``: boards go, too."""

    def __init__(
        self, remote: Remote, notes: SyncNotes, machine: MachineNames, redactor: Callable[[], Redactor], now: int,
        *, has_boards: bool = False,
    ) -> None:  # fmt: skip
        self._remote, self._notes, self._machine = remote, notes, machine
        self._redactor, self._now, self._words, self._has_boards = redactor, now, redactor(), has_boards
        self._waiting: list[tuple[bytes, SentPoint | None]] = []
        self._states: dict[str, _State] = {}
        self._leaving: dict[str, _Leaving] = {}
        """Those of which frames wait, or that are to be sent again."""
        self._again: dict[str, _State] = {}
        self._new = set[str]()
        self._noted: list[SyncNote] = []
        self.done = Sent()

    def run(
        self,
        stores: Iterable[Store],
        opted: OptedIn,
        note: Callable[[int, int], None] = lambda done, total: None,
        *,
        asks_first: bool = True,
    ) -> Sent:
        """Send what is new. ``note`` receives sessions done and sessions to do.

        ``asks_first``: whether the login is good is asked, too, when there is nothing to send.
        Raises ServerRefused, ServerUnreachable.
        """
        stores = list(stores)
        choice = choose(stores, opted)
        self.done.staying, self.done.pruned = sum(choice.staying.values()), choice.pruned
        own = own_marks(stores, choice.leaving)
        by_repository: dict[str, list[LeavingSession]] = {}
        for each in choice.leaving:
            by_repository.setdefault(each.repository.lower(), []).append(each)
        if asks_first:
            self._notice_other_state()
        self.done.erased = erase(self._remote, self._notes, choice.removed, self._fail)
        self._notice_again(choice.leaving)
        self._ask_states([each.origin.uid for each in choice.leaving if each.origin.uid not in self._notes.sent])
        done, total = 0, len(choice.leaving)
        try:
            for sessions in by_repository.values():
                if self._are_noted(sessions, own):
                    self.done.unchanged += len(sessions)
                else:
                    self._repository(sessions, own, partial(_note_behind, note, done, total))
                done += len(sessions)
                note(done, total)
            self._flush()
            self._send_again()
        finally:
            self._write_notes()
        self._forget_unused_masks()
        if self._has_boards:
            self.done.board_items = boards.send(
                self._remote, self._notes, stores, choice, self._outward,
                own=own, failed={each.session for each in self.done.failed},
            )  # fmt: skip
        return self.done

    def _notice_other_state(self) -> None:
        """Take notes for nothing of a server that is another one now, or went back to an earlier time."""
        state = understood(self._remote, self._remote.ask("GET", "/v1/me"), _Me).state
        if state and self._notes.state and state != self._notes.state:
            erase_again(self._remote, self._notes)
            keep_forgotten(self._notes)
        if state != self._notes.state:
            self._notes.add(SyncNote(state=state))

    def _are_noted(self, sessions: Iterable[LeavingSession], own: Mapping[str, str]) -> bool:
        # A sync that broke left sessions behind that were sent before a secret was told.
        masks = {_masks_of(sent) for each in sessions if (sent := self._notes.sent.get(each.origin.uid))}
        return len(masks) == 1 and all(self._is_noted(each.origin.uid, own) for each in sessions)

    def _notice_again(self, leaving: Iterable[LeavingSession]) -> None:
        """Forget of sessions that are here again that they were removed before they were sent."""
        for each in leaving:
            if (noted := self._notes.sent.get(each.origin.uid)) is not None and noted.history == ABSENT:
                del self._notes.sent[each.origin.uid]

    def _forget_unused_masks(self) -> None:
        used = {_masks_of(each) for each in self._notes.sent.values()}
        for unused in {each.split(" ")[1] for each in self._notes.files if each.startswith(MASKS)} - used:
            self._notes.forget_files(f"{MASKS}{unused} ")

    def _outward(self, sessions: Sequence[LeavingSession]) -> OutwardExport:
        return OutwardExport(sessions, self._machine, self._redactor(), self._now)

    def _is_noted(self, uid: str, own: Mapping[str, str]) -> bool:
        return (sent := self._notes.sent.get(uid)) is not None and sent.mark.startswith(f"{own[uid]} ")

    def _repository(
        self, sessions: Sequence[LeavingSession], own: Mapping[str, str], note: Callable[[int], None]
    ) -> None:
        """Send what changed of one repository; what secrets it has is learned from all of it."""
        redactor = self._redactor()
        redactor.share_words(self._words)
        export = OutwardExport(sessions, self._machine, redactor, self._now)
        changed, others, after = list["LeavingSession"](), list["LeavingSession"](), dict[str, FramePoint]()
        for each in sessions:
            uid = each.origin.uid
            sent, is_noted = self._notes.sent.get(uid), self._is_noted(uid, own)
            if sent is None or BESIDES in sent.telling or not (is_noted or _went_on(each, sent, own[uid])):
                changed.append(each)
                continue
            export.recall(each, sent.telling)
            if is_noted:
                others.append(each)
            else:
                changed.append(each)
                after[uid] = sent.upto
        versions = {id(each.store): each.store.ask(session_marks.version) for each in sessions}
        read = export.by_session(changed, after)
        # All are read before the first of them is given, and then all secrets are known.
        first, masks, each_mask = next(read, None), export.masks, export.masks_each
        if (line := f"{MASKS}{masks} {','.join(each_mask)}") not in self._notes.files:
            self._noted.append(SyncNote(file=line))
        read_before = [*others, *(each for each in changed if each.origin.uid in after)]
        anew = {each.origin.uid for each in read_before if self._has_masks_to_add(each.origin.uid, masks, each_mask)}
        for uid in (each.origin.uid for each in others if each.origin.uid not in anew):
            # What was masked stays so, though nobody here tells any more that it is a secret.
            if _masks_of(sent := self._notes.sent[uid]) != masks:
                self._noted.append(SyncNote(uid=uid, sent=replace(sent, mark=f"{own[uid]} {masks}")))
        done = sum(each.origin.uid not in anew for each in others)
        self.done.unchanged += done
        parts = (part for part in chain([] if first is None else [first], read) if part[0].origin.uid not in anew)
        again = export.by_session([each for each in read_before if each.origin.uid in anew])
        for session, lines in chain(parts, again):
            uid = session.origin.uid
            leaving = _Leaving(
                export=export, session=session, mark=f"{own[uid]} {masks}", version=versions[id(session.store)]
            )
            self._session(leaving, lines, is_behind=uid in after and uid not in anew)
            done += 1
            note(done)

    def _has_masks_to_add(self, uid: str, masks: str, each_mask: Iterable[str]) -> bool:
        """Return True if a session was sent before a secret was told that is masked now, or may have been."""
        before = _masks_of(self._notes.sent[uid])
        begin = f"{MASKS}{before} "
        known = next((each[len(begin) :].split(",") for each in self._notes.files if each.startswith(begin)), None)
        return before != masks and (known is None or not set(each_mask) <= {*known})

    def _send_again(self) -> None:
        """Send the sessions anew of which the server had another state than was noted."""
        for _ in range(TRIES):
            again, self._again = self._again, {}
            leaving = {uid: self._leaving[uid] for uid in again}
            for uid, state in again.items():
                self._states[uid] = state
                self._notes.sent.pop(uid, None)
                each = leaving[uid]
                for _, lines in each.export.by_session([each.session]):
                    self._session(each, lines, is_behind=False)
            self._flush()
        for uid in self._again:
            self._fail(uid, "the server has another history of it")

    def _ask_states(self, uids: Sequence[str]) -> None:
        """Ask what the server has of sessions of which nothing is noted."""
        there = list[str]()
        for at in range(0, len(uids), STATES_AT_ONCE):
            there += self._ask_some({"uids": uids[at : at + STATES_AT_ONCE]})
        for at in range(0, len(there), HASHED_AT_ONCE):
            self._ask_some({"uids": there[at : at + HASHED_AT_ONCE], "is_hashed": True})

    def _ask_some(self, wanted: dict[str, Any]) -> list[str]:
        """Note the answer; return the sessions that are there."""
        found = understood(self._remote, self._remote.ask("POST", "/v1/state", wanted), _States).sessions
        self._states |= {each.uid: each for each in found}
        return [each.uid for each in found if each.chain]

    def _session(self, leaving: _Leaving, lines: Iterator[bytes], *, is_behind: bool) -> None:
        """Send a session from where it was sent to, if what was sent is as it was; else anew.

        ``is_behind``: the lines are those from there on, and what was sent is as it was.
        """
        uid = leaving.uid
        sent, state = self._notes.sent.get(uid), self._states.get(uid)
        if (state is not None and state.is_forgotten) or (sent is not None and sent.history == FORGOTTEN):
            # Its secrets are to be known nevertheless.
            for _ in lines:
                pass
            self._stay_out(uid, leaving.mark, leaving.export.telling(uid))
        elif sent is not None and is_behind:
            self._go_on(leaving, lines, sent)
        elif sent is not None:
            self._send_changed(leaving, lines, sent)
        elif state is not None and state.chain:
            self._send_changed(leaving, lines, self._as_noted(state))
        else:
            self._new.add(uid)
            said = SaidLines()
            self._put(leaving, said, _cut(said.read(lines), uid, 1))

    def _go_on(self, leaving: _Leaving, lines: Iterable[bytes], sent: SentPoint) -> None:
        """Send what came behind the point that was sent."""
        before = SentHistory.of(sent.history)
        said = SaidLines(before=before, upto=sent.upto)
        made = _cut(said.read(lines), leaving.uid, sent.epoch, sent.upto, sent.chain)
        first = next(made, b"")
        if before is not None and head_of(first).upto == sent.upto and said.is_as(before):
            self._unchanged(leaving, said, sent)
        else:
            self._put(leaving, said, chain([first], made))

    def _send_changed(self, leaving: _Leaving, lines: Iterable[bytes], sent: SentPoint) -> None:
        """Send a session of which something else than its end may have changed."""
        before, said = SentHistory.of(sent.history), SaidLines(until=sent.upto)
        made = list(_cut(said.read(lines), leaving.uid, sent.epoch + 1))
        if before is not None and said.is_as(before):
            self._unchanged(leaving, said, sent)
        elif before is not None and said.begins_as(before):
            after = {leaving.uid: sent.upto}
            for _, behind in leaving.export.by_session([leaving.session], after):
                self._go_on(leaving, behind, sent)
        else:
            self._put(leaving, said, made)

    def _as_noted(self, state: _State) -> SentPoint:
        """The note that a session which the server has would get."""
        if not state.history:
            self._ask_some({"uids": [state.uid], "is_hashed": True})
            state = self._states[state.uid]
        return SentPoint(epoch=state.epoch, upto=state.upto, chain=state.chain, mark="", history=state.history)

    def _unchanged(self, leaving: _Leaving, said: SaidLines, sent: SentPoint) -> None:
        point = self._point(leaving, said, sent.epoch, sent.chain)
        self._noted.append(SyncNote(uid=leaving.uid, sent=point))
        self.done.unchanged += 1

    def _point(self, leaving: _Leaving, said: SaidLines, epoch: int, last: str) -> SentPoint:
        """The point behind lines that were read."""
        session, export = leaving.session, leaving.export
        point = SentPoint(
            epoch=epoch, upto=said.upto, chain=last, mark=leaving.mark, logs=tuple(said.logs),
            telling=export.telling(leaving.uid), sidecars=COPY if session.origin.imported else "",
        )  # fmt: skip
        local = _local(session, point)
        # What another process wrote meanwhile may not be what was read.
        is_same = session.store.ask(session_marks.version) == leaving.version
        return replace(point, history=str(said.history(local if is_same else "")))

    def _put(self, leaving: _Leaving, said: SaidLines, made: Iterable[bytes]) -> None:
        """Have the frames of a session sent."""
        last = b""
        for each in made:
            if last:
                self._add(leaving, last, None)
            last = each
        if last:
            head = head_of(last)
            self._add(leaving, last, self._point(leaving, said, head.epoch, head.chain))

    def _add(self, leaving: _Leaving, frame: bytes, point: SentPoint | None) -> None:
        size = sum(len(each) for each, _ in self._waiting) + len(frame)
        if len(self._waiting) == FRAMES_AT_ONCE or (self._waiting and size > BYTES_AT_ONCE):
            self._flush()
        self._waiting.append((frame, point))
        self._leaving[leaving.uid] = leaving

    def _flush(self) -> None:
        """Send what waits, and note what the server confirmed."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        said = self._remote.send("/v1/sync", b"".join(frame for frame, _ in waiting))
        words = understood(self._remote, said, _Confirmed).confirmed
        # Behind a frame whose head is damaged nothing is confirmed.
        for frame, _ in waiting[len(words) :]:
            self._fail(head_of(frame).session, "the server did not confirm it")
        for (frame, point), word in zip(waiting, words, strict=False):
            head = head_of(frame)
            uid = head.session
            if word.word in STORED:
                self.done.events += head.events if word.word == "ok" else 0
                if point is not None and uid not in self._again:
                    self._confirm(uid, point)
            elif word.word == FORGOTTEN:
                self._stay_out(uid, "" if point is None else point.mark, () if point is None else point.telling)
            elif word.word == DAMAGED:
                self._fail(uid, f"the server cannot read it: {word.reason}")
            else:
                self._again[uid] = word.state
        self._leaving = {uid: each for uid, each in self._leaving.items() if uid in self._again}
        self._write_notes()

    def _write_notes(self) -> None:
        noted, self._noted = self._noted, []
        if noted:
            self._notes.add(*noted)

    def _stay_out(self, uid: str, mark: str, telling: tuple[int, ...]) -> None:
        if uid not in self.done.forgotten:
            self.done.forgotten.append(uid)
        self._noted.append(SyncNote(uid=uid, sent=forgotten(mark, telling)))

    def _confirm(self, uid: str, point: SentPoint) -> None:
        self._noted.append(SyncNote(uid=uid, sent=point))
        if uid not in self.done.sent:
            self.done.sent.append(uid)
            if uid in self._new:
                self.done.created.append(uid)

    def _fail(self, uid: str, reason: str) -> None:
        if all(each.session != uid for each in self.done.failed):
            self.done.failed.append(NotSent(session=uid, reason=reason))


def _note_behind(note: Callable[[int, int], None], before: int, total: int, at: int) -> None:
    note(before + at, total)


def _cut(lines: Iterable[bytes], uid: str, epoch: int, after: FramePoint = START, prev: str = "") -> Iterator[bytes]:
    return frames.frames(lines, session=uid, epoch=epoch, after=after, prev=prev, is_redacted=True)


def _local(session: LeavingSession, point: SentPoint) -> str:
    """A hash of the rows of a session up to a point, and of the files beside its logs; '' where there are fewer."""
    beside = session.store.ask(session_marks.sidecars_mark, session.origin.id)
    found = history_of(session.store, session.origin.id, point)
    return f"{found}{beside}" if found else ""


def _went_on(session: LeavingSession, sent: SentPoint, own: str) -> bool:
    """Return True if a session is up to the point that was sent as it was, by its rows and our rules."""
    before = SentHistory.of(sent.history)
    is_of_rules = sent.mark.partition(" ")[0] == own.partition(" ")[0]
    return is_of_rules and before is not None and before.local != "" and before.local == _local(session, sent)


def _masks_of(sent: SentPoint) -> str:
    """The hash of the masks with which a session was sent."""
    return sent.mark.rpartition(" ")[2]


class NotSentYet(Struct, frozen=True, kw_only=True):
    """Numbers of sessions that may have changed since they were sent, and of their events that were not."""

    session_count: int = 0
    event_count: int = 0


def waiting(notes: SyncNotes, stores: Sequence[Store], opted: OptedIn) -> NotSentYet:
    """Count what the server did not confirm."""
    leaving = choose(stores, opted).leaving
    own, sessions, events = own_marks(stores, leaving), 0, 0
    repositories, newest = {each.origin.uid: each.repository.lower() for each in leaving}, dict[str, str]()
    for uid, noted in notes.sent.items():
        if uid in repositories and noted.history not in OUT:
            newest[repositories[uid]] = _masks_of(noted)
    for each in leaving:
        sent = notes.sent.get(each.origin.uid)
        if sent is None or sent.history == ABSENT:
            sessions, events = sessions + 1, events + each.origin.events
        elif sent.history != FORGOTTEN and sent.mark != f"{own[each.origin.uid]} {newest[each.repository.lower()]}":
            sessions += 1
            events += each.store.ask(session_marks.events_behind, each.origin.id, sent.upto)
    return NotSentYet(session_count=sessions, event_count=events)


class SyncStatus(Struct, frozen=True, kw_only=True):
    """Numbers of sessions: confirmed by the server, with their events; that may have changed since; that stay."""

    confirmed_count: int
    event_count: int
    waiting_count: int
    staying_count: int
    pruned_sessions: int


def status(remote: Remote, notes: SyncNotes, stores: Sequence[Store], opted: OptedIn) -> SyncStatus:
    """Ask the server what it has. Raises ServerRefused, ServerUnreachable."""
    choice = choose(stores, opted)
    uids, there = [*notes.sent], list[_State]()
    for at in range(0, len(uids), STATES_AT_ONCE):
        said = remote.ask("POST", "/v1/state", {"uids": uids[at : at + STATES_AT_ONCE]})
        there += [each for each in understood(remote, said, _States).sessions if each.chain]
    return SyncStatus(
        confirmed_count=len(there), event_count=sum(each.events for each in there),
        waiting_count=waiting(notes, stores, opted).session_count, staying_count=sum(choice.staying.values()),
        pruned_sessions=choice.pruned,
    )  # fmt: skip


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
        # One that was not sent yet is to stay here, too.
        sent = notes.sent.get(uid)
        notes.add(SyncNote(uid=uid, sent=forgotten() if sent is None else forgotten(sent.mark, sent.telling)))
    return gone


def forget_all(remote: Remote, notes: SyncNotes) -> list[str]:
    """Have the server erase all that the person sent, from whichever machine; return the sessions that are gone.

    Raises ServerRefused, ServerUnreachable.
    """
    gone = understood(remote, remote.ask("DELETE", "/v1/sessions"), _Gone).uids
    # When the answer was lost, the one that was asked for again tells less than was there.
    noted = [uid for uid, sent in notes.sent.items() if sent.history not in OUT]
    uids = sorted({*gone, *noted})
    for uid in uids:
        sent = notes.sent.get(uid)
        notes.add(SyncNote(uid=uid, sent=forgotten() if sent is None else forgotten(sent.mark, sent.telling)))
    return uids


def own_marks(stores: Iterable[Store], leaving: Iterable[LeavingSession]) -> dict[str, str]:
    """The marks of sessions by uid, behind the version of the rules by which they are read and masked."""
    marks = {(id(store), each.id): each.mark for store in stores for each in store.ask_or([], session_marks.marks)}
    rules = f"{RULES}.{DERIVED_VERSION}"
    return {each.origin.uid: f"{rules} {marks[id(each.store), each.origin.id]}" for each in leaving}


def as_json(done: Sent) -> dict[str, Any]:
    """Return the result of a sync as ``sync --json`` prints it."""
    return {
        "created_uids": done.created, "sent_uids": done.sent, "event_count": done.events,
        "unchanged_count": done.unchanged, "staying_count": done.staying,
        "pruned_sessions": done.pruned, "forgotten_uids": done.forgotten,
        "erased_uids": done.erased, "board_items": done.board_items,
        "failed": [{"uid": each.session, "reason": each.reason} for each in done.failed],
    }  # fmt: skip
