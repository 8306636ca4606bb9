"""Who runs a session, and what waits for it: the lock, the owner's row with its heartbeat, and the line of texts.

A lock of the operating system is the right to write a session: it is given back at once when its holder dies, and a
holder that is merely slow or stopped keeps it. The row beside it says to people and to other machines who that is.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from backstory import ids
from backstory.errors import BackstoryError, QueueBusy, QueueUnusable, SessionElsewhere
from backstory.model import UserMessage, event_to_json, own_line
from backstory.spool import LOCKS, SPOOLS, SessionLock, waiting
from backstory.store.queue import HEARTBEAT_S, Kind, Options, Owner, Queue, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from backstory.agents.contract import SteerPart, SteerState
    from backstory.spool import Feed, Spool
    from backstory.store import Store

LOOK_S = 0.1
"""So often a run looks whether there are words for its agent."""
QUIET_S = 1.0
"""So long an agent that has read its prompt may do nothing at all before it says that it listens. Then its stdin ends:
some answer only when they have read all of it."""
QUIET_KNOWN_S = 10.0
"""The same for a program that has said in an earlier run that it listens."""
LISTENS_S = 30.0
"""So long it may take at most, whatever it does."""


class Hold:
    """The right to run a session, while it is held. ``queue`` is the session's store's.

    A queue that cannot be used keeps nobody from running: ``trouble`` says what is wrong with it.
    """

    def __init__(
        self,
        home: Path,
        store: Store,
        session_uid: str,
        now: Callable[[], int],
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.queue = Queue(store.path, report)
        self.session_uid = session_uid
        self.trouble: BackstoryError | None = None
        self._lock = SessionLock(home / LOCKS, session_uid)
        self._path, self._now = store.path, now
        self._owner = Owner(session_uid=session_uid, pid=os.getpid(), host=host(), started=now(), heartbeat=now())
        self._beating: threading.Thread | None = None
        self._over = threading.Event()

    @property
    def holder(self) -> str:
        """Who has the lock, as they wrote it."""
        return self._lock.holder

    def take(self) -> bool:
        """Take the lock; False if another process of this machine has it. Raises SessionElsewhere, CannotWrite."""
        if not self._lock.take():
            return False
        try:
            known = self.queue.owner(self.session_uid)
        except BackstoryError as refused:
            self.trouble, known = refused, None
        if known is not None and known.host != self._owner.host and known.is_fresh(self._now()):
            self._lock.release()
            raise SessionElsewhere(self.session_uid, known.pid, known.host)
        return True

    def show_owner(self) -> None:
        """Write the owner's row, and go on doing so every five seconds. Raises SessionElsewhere."""
        if self._beating is not None or self.trouble is not None:
            return
        try:
            other = self.queue.own(self._owner)
        except BackstoryError as refused:
            self.trouble = refused
            return
        if other is not None:
            raise SessionElsewhere(self.session_uid, other.pid, other.host)
        self._beating = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._beating.start()

    def _beat(self) -> None:
        # A connection is used by one thread. What cannot be written now is written five seconds later.
        with Queue(self._path, patience_s=0.0) as queue:
            while not self._over.wait(HEARTBEAT_S):
                try:
                    queue.own(_heard_of(self._owner, self._now()))
                except BackstoryError:
                    # A disk that is full now may not be later; the lock is what counts.
                    continue

    def release(self) -> None:
        """Give the right back, the row first: who finds the lock free finds no owner."""
        self._over.set()
        if self._beating is not None:
            self._beating.join()
            self._beating = None
            try:
                self.queue.disown(self._owner)
            except BackstoryError as refused:
                self.trouble = refused
        self.queue.close()
        self._lock.release()
        self._over = threading.Event()


class Steering:
    """Tells a running agent what people leave for it, and ends its stdin when it has answered and nothing waits."""

    def __init__(
        self,
        hold: Hold,
        spool: Spool,
        feed: Feed,
        agent: SteerPart,
        state: SteerState,
        now: Callable[[], int],
        *,
        is_known: bool = False,
    ) -> None:
        self._hold, self._spool, self._feed, self._agent, self._state = hold, spool, feed, agent, state
        self._now = now
        self._quiet_max = QUIET_KNOWN_S if is_known else QUIET_S
        # The agent's words are not left unread for the sake of a queue that another process has locked.
        self._queue = Queue(hold.queue.store, patience_s=0.0)
        self._is_stale = False
        """Whether the queue has changed and could not be read."""
        self._looked = 0.0
        self._prompted: float | None = None
        """When the agent was seen to have read its prompt."""
        self._signs: object = None
        self._quiet_since = self._probed = 0.0
        self._waiting: deque[Text] = deque()
        self._given: dict[str, Text] = {}
        self._seen = 0

    @property
    def was_heard(self) -> bool:
        """Whether the agent has said that it listens."""
        return self._state.acknowledges

    def look(self) -> list[UserMessage]:
        """Hand over what has come, as far as the agent listens; gives the words that it has taken up since."""
        if self._feed.is_open:
            self._hand_over()
            if self._is_deaf():
                self._feed.close()
            if self._state.is_idle and not self._is_owed():
                # Once more: words that came before its answer ended are not put off to another run.
                self._looked = 0.0
                self._hand_over()
                if not self._is_owed():
                    self._feed.close()
        new = self._state.acknowledged[self._seen :]
        self._seen += len(new)
        return [UserMessage(content=self._given[word].content) for word in new if word in self._given]

    def end(self) -> None:
        """Tell the agent that nothing more is to come."""
        self._feed.close()
        self._queue.close()

    def _is_deaf(self) -> bool:
        """Whether the agent does not listen, as it said, or waits for the end of its stdin before it says anything."""
        if self._state.acknowledges or self._state.is_deaf:
            return self._state.is_deaf
        now = time.monotonic()
        if not self._feed.is_read or now - self._probed < LOOK_S:
            return False
        self._probed = now
        self._prompted = self._prompted or now
        # An agent that begins works, also where a busy machine makes it slow.
        if (signs := self._spool.signs_of_work()) != self._signs:
            self._signs, self._quiet_since = signs, now
        return now - self._quiet_since >= self._quiet_max or now - self._prompted >= LISTENS_S

    def _is_owed(self) -> bool:
        """Whether the agent has been told something that it has not taken up yet."""
        return any(word not in self._state.acknowledged for word in self._given)

    def _hand_over(self) -> None:
        if not self._state.acknowledges:
            return
        try:
            self._find()
            while self._waiting and self._feed.has_room(line := self._line(self._waiting[0])):
                text = self._waiting[0]
                self._spool.note_word(word_line(text, self._spool.folder.name, self._now()))
                if not self._feed.give(line):
                    self._feed.close()
                    return
                self._given[self._agent.message_id(text.uid)] = self._waiting.popleft()
        except QueueBusy:
            self._is_stale = True
        except BackstoryError as refused:
            # What cannot be handed over now waits for the next run.
            self._hold.trouble = refused
            self._feed.close()

    def _find(self) -> None:
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        if self._queue.has_changed() or self._is_stale:
            known = {text.uid for text in self._given.values()}
            texts = self._queue.texts(self._hold.session_uid, Kind.STEER)
            self._is_stale = False
            self._waiting = deque(
                text for text in texts if text.uid not in known and len(self._line(text)) <= self._feed.line_bytes_max
            )

    def _line(self, text: Text) -> bytes:
        return self._agent.encode_message(text.content, self._agent.message_id(text.uid))


def word_line(text: Text, turn_uid: str, now: int) -> bytes:
    """What is kept of words that a running agent is told: a line as those of our own sessions, with its uid."""
    line = own_line(now, turn_uid, "event", event_to_json(UserMessage(content=text.content)))
    return line[:-1] + b',"uid":' + msgspec.json.encode(text.uid) + b"}"


def settle(store: Store, session_uid: str, consumed: Iterable[str], report: Callable[[str], None]) -> None:
    """Take out of the queue what a run that is stored has consumed; steers that it did not take up become follow-ups.

    Raises what keeps the queue from being written now; one that cannot be read at all holds nothing back.
    """
    try:
        with Queue(store.path, report) as queue:
            waiting = queue.texts(session_uid)
            known = set(consumed)
            queue.remove([text.uid for text in waiting if text.uid in known])
            queue.make_followups([text.uid for text in waiting if text.uid not in known and text.kind == Kind.STEER])
    except QueueUnusable:
        return


def still_waits(store: Store, uid: str, report: Callable[[str], None]) -> bool:
    """Whether a text is still in the queue; not, where the queue cannot be read. Raises QueueBusy."""
    try:
        with Queue(store.path, report) as queue:
            return queue.has(uid)
    except QueueBusy:
        # Taken for gone, it would never be run.
        raise
    except BackstoryError:
        return False


def _heard_of(owner: Owner, now: int) -> Owner:
    return Owner(session_uid=owner.session_uid, pid=owner.pid, host=owner.host, started=owner.started, heartbeat=now)


def host() -> str:
    """What this machine is called."""
    return os.uname().nodename


def is_held(home: Path, session_uid: str) -> bool:
    """Whether a process of this machine runs a session just now."""
    return SessionLock(home / LOCKS, session_uid).is_held


def still_waiting(home: Path, queue: Queue, session_uid: str | None = None) -> list[Text]:
    """What waits, the first to be taken first, without the follow-ups that are run just now."""
    texts = queue.texts(session_uid)
    at_work = {spool.folder.name for spool in waiting(home / SPOOLS) if spool.was_started} if texts else set[str]()
    return [text for text in texts if text.uid not in at_work]


def texts_for(session_uid: str, said: Sequence[tuple[Kind, str, Options]], now: int) -> list[Text]:
    """Texts for a session, each with the uid of the turn it may become."""
    return [
        Text(
            uid=ids.new_uid(now, os.urandom(10)),
            session_uid=session_uid,
            kind=kind,
            content=content,
            options=options,
            queued=now,
        )
        for kind, content, options in said
    ]


def leave(store: Store, texts: Sequence[Text], report: Callable[[str], None] = lambda _: None) -> int:
    """Leave texts for a session; gives how many wait before them. Raises what the queue raises."""
    with Queue(store.path, report) as queue:
        return queue.add(texts)
