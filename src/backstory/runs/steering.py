"""Messages for a running agent: sent while it accepts them; its stdin is closed when it has answered.

Programs that accepted one are remembered, so that the next run need not find out.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from backstory.errors import BackstoryError, QueueBusy
from backstory.model import UserMessage, event_to_json, own_line
from backstory.store.private import write_private
from backstory.store.tables.queue import Queue, QueuedKind, QueuedPrompt

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.agents.contract import SteerPart, SteerState
    from backstory.runs.lock import SessionLease
    from backstory.runs.spool import Spool


LOOK_S = 0.1
"""The time between two checks of a run for messages to its agent."""
QUIET_S = 1.0
"""The longest wait, from the end of a prompt's reading, for an idle agent to confirm that it accepts messages. Then its
stdin is closed: some agents answer only at the end of their input."""
QUIET_KNOWN_S = 10.0
"""The same for a program that accepted messages in an earlier run."""
LISTENS_S = 30.0
"""The limit for all agents, also while they work."""


class Steering:
    """Sends queued messages to a running agent, and closes its stdin when it has answered and no message is queued."""

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
        # The agent's output must be read also while another process has locked the queue.
        self._queue = Queue(hold.queue.store, patience_s=0.0)
        self._is_stale = False
        """True if the queue changed and could not be read."""
        self._looked = 0.0
        self._prompted: float | None = None
        """The time when the agent was first seen to have read its prompt."""
        self._signs: object = None
        self._quiet_since = self._probed = 0.0
        self._waiting: deque[QueuedPrompt] = deque()
        self._sent: dict[str, QueuedPrompt] = {}
        self._seen = 0

    @property
    def was_heard(self) -> bool:
        """True if the agent has confirmed that it accepts messages."""
        return self._state.acknowledges

    def look(self) -> list[UserMessage]:
        """Send new messages if the agent accepts them; returns those it has acknowledged since the last call."""
        if self._feed.is_open:
            self._hand_over()
            if self._is_deaf():
                self._feed.close()
            if self._state.is_idle and not self._is_owed():
                # Check once more: a message queued before the end of the answer must not wait for the next run.
                self._looked = 0.0
                self._hand_over()
                if not self._is_owed():
                    self._feed.close()
        new = self._state.acknowledged[self._seen :]
        self._seen += len(new)
        return [UserMessage(content=self._sent[word].content) for word in new if word in self._sent]

    def end(self) -> None:
        """Close the agent's stdin and the queue."""
        self._feed.close()
        self._queue.close()

    def _is_deaf(self) -> bool:
        """Return True if the agent accepts no messages, or waits for the end of its stdin before it answers."""
        if self._state.acknowledges or self._state.is_deaf:
            return self._state.is_deaf
        now = time.monotonic()
        if not self._feed.is_read:
            return False
        if self._prompted is None:
            # Its work is checked a moment later: most agents have written something by then.
            self._prompted = self._probed = now
        if now - self._probed < LOOK_S:
            return False
        self._probed = now
        # An agent that is starting works, also if a busy machine makes it slow.
        if (signs := self._spool.signs_of_work()) != self._signs:
            self._signs, self._quiet_since = signs, now
        return now - self._quiet_since >= self._quiet_max or now - self._prompted >= LISTENS_S

    def _is_owed(self) -> bool:
        """Return True if the agent has not acknowledged every message yet."""
        return any(word not in self._state.acknowledged for word in self._sent)

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
                self._sent[self._agent.message_id(text.uid)] = self._waiting.popleft()
        except QueueBusy:
            self._is_stale = True
        except BackstoryError as refused:
            # A message that cannot be sent now stays queued for the next run.
            self._hold.trouble = refused
            self._feed.close()

    def _find(self) -> None:
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        if self._queue.has_changed() or self._is_stale:
            known = {text.uid for text in self._sent.values()}
            texts = self._queue.prompts(self._hold.session_uid, QueuedKind.STEER)
            self._is_stale = False
            self._waiting = deque(
                text for text in texts if text.uid not in known and len(self._line(text)) <= self._feed.line_bytes_max
            )

    def _line(self, text: QueuedPrompt) -> bytes:
        return self._agent.encode_message(text.content, self._agent.message_id(text.uid))


def word_line(text: QueuedPrompt, turn_uid: str, now: int) -> bytes:
    """Encode a message for the spool: a line like those of our own sessions, with the uid of the queue."""
    line = own_line(now, turn_uid, "event", event_to_json(UserMessage(content=text.content)))
    return line[:-1] + b',"uid":' + msgspec.json.encode(text.uid) + b"}"


# the agent's stdin ----------------------------------------------------------------------------------------------------


PIPE_BYTES_MAX = 1024 * 1024
"""The largest size of a pipe in the system's default configuration."""


class StdinPipe:
    """An agent's stdin that stays open: a pipe whose other end only we have, so that it is closed when we die.

    The prompt is written before the agent starts, and a message only if there is room for all of it: whenever we die,
    the agent reads whole lines and then the end.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self._is_ours = True
        self._writing: int | None = writing

    @classmethod
    def holding(cls, prompt: bytes) -> StdinPipe | None:
        """Create a pipe with a prompt in it; None if a pipe cannot hold it."""
        if len(prompt) > PIPE_BYTES_MAX:
            return None
        reading, writing = os.pipe()
        feed = cls(reading, writing)
        if len(prompt) > feed.line_bytes_max:
            with suppress(AttributeError, OSError):
                # A pipe holds 64 KB unless more is asked for, and nobody reads it before the agent starts.
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, len(prompt))
        os.set_blocking(writing, False)
        if not feed._is_written(prompt):
            feed.close()
            return None
        return feed

    @property
    def is_open(self) -> bool:
        """True if messages may still be sent."""
        return self._writing is not None

    def has_room(self, line: bytes) -> bool:
        """Return True if a whole line can be sent now."""
        return self._writing is not None and self.is_read and len(line) <= self.line_bytes_max

    @property
    def is_read(self) -> bool:
        """True if the agent has read everything."""
        if self._writing is None:
            return False
        return int.from_bytes(fcntl.ioctl(self._writing, termios.FIONREAD, b"\0" * 4), sys.byteorder) == 0

    @property
    def line_bytes_max(self) -> int:
        """The longest line that is ever sent."""
        if self._writing is None:
            return 0
        try:
            return fcntl.fcntl(self._writing, fcntl.F_GETPIPE_SZ)
        except (AttributeError, OSError):
            return select.PIPE_BUF

    def give(self, line: bytes) -> bool:
        """Send a line; False if the agent no longer reads."""
        return self._writing is not None and self._is_written(line)

    def _is_written(self, data: bytes) -> bool:
        assert self._writing is not None
        try:
            return os.write(self._writing, data) == len(data)
        except OSError:
            return False

    def close_reading(self) -> None:
        """Close our copy of the agent's end."""
        if self._is_ours:
            os.close(self.reading)
        self._is_ours = False

    def close(self) -> None:
        """Close the pipe: no more messages follow."""
        self.close_reading()
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None


# programs that accept messages ---------------------------------------------------------------------------------------


LISTENERS = "listeners.json"

_Stamp = tuple[int, int, int]


def accepts_messages(home: Path, program: str) -> bool:
    """Return True if this program accepted messages before."""
    stamp = _stamp(program)
    return stamp is not None and _known(home).get(program) == stamp


def note_accepting(home: Path, program: str) -> None:
    """Remember a program that accepts messages; a failure to write is ignored."""
    stamp, known = _stamp(program), _known(home)
    if stamp is None or known.get(program) == stamp:
        return
    beside = home / f"{LISTENERS}.{os.getpid()}"
    with suppress(BackstoryError, OSError):
        write_private(beside, msgspec.json.encode({**known, program: stamp}))
        beside.replace(home / LISTENERS)


def _known(home: Path) -> dict[str, _Stamp]:
    try:
        return msgspec.json.decode((home / LISTENERS).read_bytes(), type=dict[str, _Stamp])
    except (OSError, msgspec.DecodeError):
        return {}


def _stamp(program: str) -> _Stamp | None:
    try:
        status = Path(program).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
