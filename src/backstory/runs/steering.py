"""Words for an agent while it runs: handed over as far as it listens, and its stdin ended when it has answered."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from backstory.errors import BackstoryError, QueueBusy
from backstory.model import UserMessage, event_to_json, own_line
from backstory.store.queue import Kind, Queue, QueuedPrompt

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.agents.contract import SteerPart, SteerState
    from backstory.runs.lease import SessionLease
    from backstory.runs.spool import Spool
    from backstory.runs.stdin_pipe import StdinPipe

LOOK_S = 0.1
"""So often a run looks whether there are words for its agent."""
QUIET_S = 1.0
"""So long an agent that has read its prompt may do nothing at all before it says that it listens. Then its stdin ends:
some answer only when they have read all of it."""
QUIET_KNOWN_S = 10.0
"""The same for a program that has said in an earlier run that it listens."""
LISTENS_S = 30.0
"""So long it may take at most, whatever it does."""


class Steering:
    """Tells a running agent what people leave for it, and ends its stdin when it has answered and nothing waits."""

    def __init__(
        self,
        hold: SessionLease,
        spool: Spool,
        feed: StdinPipe,
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
        self._waiting: deque[QueuedPrompt] = deque()
        self._given: dict[str, QueuedPrompt] = {}
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
        if not self._feed.is_read:
            return False
        if self._prompted is None:
            # What it does is looked at a moment later: most have said something by then.
            self._prompted = self._probed = now
        if now - self._probed < LOOK_S:
            return False
        self._probed = now
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
            texts = self._queue.prompts(self._hold.session_uid, Kind.STEER)
            self._is_stale = False
            self._waiting = deque(
                text for text in texts if text.uid not in known and len(self._line(text)) <= self._feed.line_bytes_max
            )

    def _line(self, text: QueuedPrompt) -> bytes:
        return self._agent.encode_message(text.content, self._agent.message_id(text.uid))


def word_line(text: QueuedPrompt, turn_uid: str, now: int) -> bytes:
    """What is kept of words that a running agent is told: a line as those of our own sessions, with its uid."""
    line = own_line(now, turn_uid, "event", event_to_json(UserMessage(content=text.content)))
    return line[:-1] + b',"uid":' + msgspec.json.encode(text.uid) + b"}"
