"""Sessions that are followed for pages: each is read once, by a thread, for all who look at it, and only so long.

Where what comes is read from, a source says: ``web/local_source.py`` of stores, and a team's server of its tables.

A viewer is told what is on the page first (``base``: the last stored record), then every entry since, in order. What a
base has is read again from the store, so a page that was left for a while lacks nothing and has nothing twice.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backstory.errors import BackstoryError
from backstory.web.markup import plain
from backstory.web.reading import CHARS_SHOWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.web.growing import Growing
    from backstory.web.reading import PageEntry
    from backstory.workspace.history.blocks import Content
    from backstory.workspace.history.following import Grown

    Wake = Callable[[], object]
    Draw = Callable[[list[PageEntry], str], str]
    Follow = Callable[["Channel"], None]

KEPT_MOST, KEPT_BYTES_MOST = 2_000, 8_000_000
"""The most messages that are kept for who comes later; of more the first are dropped, and that is said."""
SETTLED_AFTER = 500
"""After so many messages that are stored by now, pages read them from the store."""
IDLE_SHARE, IDLE_WAIT_S = 10, 1.0
"""A session in which nothing happens is looked at after a tenth of that time again, at the latest after so long."""
RETRY_S = 2.0
"""The pause after a store could not be read."""
FOLLOWED_MOST, ALL_FOLLOWED_MOST = 50, 1_000
"""The most sessions that are followed at once: for one organisation, and for all of a server."""
DROPPED = "The beginning of this turn is not shown here. It comes when the turn is stored."


class StreamPlace(Struct, frozen=True, kw_only=True):
    """The part that a viewer has seen. ``following``: its name, '' before the first; ``number``: of messages.

    ``answer`` and ``chars``: the answer that is being written, and how much of it; ``trouble``: the sentence shown.
    """

    following: str = ""
    number: int = 0
    answer: int = 0
    chars: int = 0
    trouble: str = ""

    @classmethod
    def read(cls, text: str) -> StreamPlace:
        """The place that an event's id names; the beginning for any other text."""
        following, _, number = text.partition(".")
        is_place = number.isascii() and number.isdigit() and len(number) < 12
        return cls(following=following, number=int(number)) if is_place else cls()


class Unwanted(Exception):
    """Nobody looks any more."""


class Settled(Exception):
    """Everything that was shown is in the store now."""


def message(kind: str, value: dict[str, Any], place: str = "") -> bytes:
    """A Server-Sent Event. ``place``: what a browser that connects again says it has."""
    lines = [f"id: {place}"] if place else []
    return "\n".join([*lines, f"event: {kind}", f"data: {json.dumps(value)}", "", ""]).encode()


def stored_place(content: Content) -> tuple[int, int]:
    """The last record and the last turn that the store has of a session: what comes is behind both."""
    turns = (number for number, each in content.turns.items() if each.live is None)
    return max(content.order.seqs, default=0), max(turns, default=0)


class Channel:
    """A session that is followed. ``follow`` takes this and gives it what comes; ``draw`` makes HTML of entries.

    ``follow`` returns, or raises Settled, when all that was shown is stored, and is called again; Unwanted ends it.
    """

    def __init__(self, uid: str, follow: Follow, draw: Draw) -> None:
        self.uid, self._follow, self._draw = uid, follow, draw
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._wakes: set[Wake] = set()
        self._name, self._base = "", (0, 0)
        self._messages, self._dropped, self._bytes = deque[bytes](), 0, 0
        self._writing, self._answer = "", 0
        self._trouble, self._is_over = "", False
        self._grown_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"follows {uid[:12]}", daemon=True)

    # viewers --------------------------------------------------------------------------------------------------------

    def join(self, wake: Wake) -> None:
        """Have a viewer woken whenever there is more for it."""
        with self._lock:
            self._wakes.add(wake)
            if self._thread.ident is None:
                self._thread.start()

    def leave(self, wake: Wake) -> bool:
        """Wake a viewer no more; returns True if that was the last one: then the session is followed no more."""
        with self._lock:
            self._wakes.discard(wake)
            if not self._wakes:
                self._stop.set()
            return not self._wakes

    def end(self) -> None:
        """Tell every viewer that the pages end."""
        self._stop.set()
        self._change(is_over=True)

    def since(self, at: StreamPlace) -> tuple[bytes, StreamPlace, bool]:
        """Return what a viewer has not seen yet, its place then, and True if nothing will follow."""
        with self._lock:
            parts = list[bytes]()
            if self._trouble != at.trouble:
                parts.append(message("trouble", {"text": self._trouble}))
            if self._name and at.following != self._name:
                parts.append(message("base", {"seq": self._base[0], "turn": self._base[1]}, f"{self._name}.0"))
                at = StreamPlace(following=self._name, answer=self._answer)
            if self._name:
                if at.number < self._dropped:
                    parts.append(message("note", {"text": DROPPED}))
                parts += [*self._messages][max(at.number - self._dropped, 0) :]
                shown = self._writing[:CHARS_SHOWN]
                if at.answer != self._answer or (not at.chars and shown):
                    parts.append(message("writing", {"text": plain(shown)}))
                elif len(shown) > at.chars:
                    parts.append(message("more", {"text": plain(shown[at.chars :])}))
                at = replace(
                    at, number=self._dropped + len(self._messages), answer=self._answer, chars=len(shown)
                )  # fmt: skip
            if self._is_over:
                parts.append(message("ended", {}))
            return b"".join(parts), replace(at, trouble=self._trouble), self._is_over

    def _change(
        self,
        *,
        trouble: str | None = None,
        is_over: bool = False,
        new: tuple[bytes, ...] = (),
        writing: str | None = None,
    ) -> None:
        with self._lock:
            self._trouble = self._trouble if trouble is None else trouble
            self._is_over = self._is_over or is_over
            self._messages.extend(new)
            self._bytes += sum(map(len, new))
            while len(self._messages) > KEPT_MOST or self._bytes > KEPT_BYTES_MOST:
                self._bytes -= len(self._messages.popleft())
                self._dropped += 1
            if writing is not None and writing != self._writing:
                self._answer += not writing.startswith(self._writing)
                self._writing = writing
            wakes = [*self._wakes]
        for each in wakes:
            each()

    # the thread -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow(self)
            except Unwanted:
                return
            except Settled:
                continue
            except (BackstoryError, OSError) as refused:
                self._change(trouble=plain(str(refused)))
                self._stop.wait(RETRY_S)

    def wait(self, seconds: float) -> None:
        """Wait a while, longer where nothing came for long. Raises Unwanted when nobody looks any more."""
        idle_s = (time.monotonic() - self._grown_s) / IDLE_SHARE
        if self._stop.wait(min(max(seconds, idle_s), IDLE_WAIT_S)):
            raise Unwanted

    @property
    def has_much(self) -> bool:
        """True if so much was shown that pages read it from the store, once it is there."""
        return self._dropped + len(self._messages) > SETTLED_AFTER

    def begin(self, stored: tuple[int, int]) -> None:
        """Tell viewers what they find in the store: its last record, and its last turn."""
        with self._lock:
            self._name, self._base = secrets.token_hex(6), stored
            self._messages.clear()
            self._dropped = self._bytes = 0
            self._writing, self._answer = "", self._answer + 1
        self._change(trouble="")

    def take(self, drawing: Growing, grown: Grown, now: int) -> None:
        """Show what came."""
        self._grown_s = time.monotonic()
        new = list[bytes]()
        number = self._dropped + len(self._messages)

        def add(kind: str, value: dict[str, Any]) -> None:
            new.append(message(kind, value, f"{self._name}.{number + len(new) + 1}"))

        if grown.remark:
            add("note", {"text": plain(grown.remark)})
        for each in drawing.drawn(grown, now):
            html = self._draw(each.entries, self.uid)
            add("entry", {"number": each.number, "turn": each.turn, "seq": each.seq, "html": html})
        if any(each.live is not None for each in grown.turns):
            # The session runs now: what is beside it on the page is another.
            add("begun", {})
        self._change(new=tuple(new), writing=grown.writing)

    def note(self, text: str) -> None:
        """Show a remark."""
        self.say("note", {"text": plain(text)})

    def say(self, kind: str, value: dict[str, Any]) -> None:
        """Send a message of another kind, behind those before."""
        number = self._dropped + len(self._messages) + 1
        self._change(new=(message(kind, value, f"{self._name}.{number}"),))


class Hub:
    """The sessions that are followed now, by their keys. ``make`` gives the channel of a key.

    ``whose``: for whom it is followed, so that nobody takes the places of others.
    """

    def __init__(self, make: Callable[[str], Channel], whose: Callable[[str], str] = lambda _: "") -> None:
        self._make, self._whose = make, whose
        self._lock = threading.Lock()
        self._is_over = False
        self.channels: dict[str, Channel] = {}

    def join(self, key: str, wake: Wake) -> Channel | None:
        """Follow a session for a viewer; None if too many are followed already, or the pages end."""
        with self._lock:
            channel = self.channels.get(key)
            if channel is None:
                if self._is_over or self._is_full(key):
                    return None
                channel = self.channels[key] = self._make(key)
            channel.join(wake)
            return channel

    def _is_full(self, key: str) -> bool:
        own = sum(self._whose(each) == self._whose(key) for each in self.channels)
        return own >= FOLLOWED_MOST or len(self.channels) >= ALL_FOLLOWED_MOST

    def leave(self, key: str, wake: Wake) -> None:
        """Follow a session no more if this was its last viewer."""
        with self._lock:
            if (channel := self.channels.get(key)) is not None and channel.leave(wake):
                del self.channels[key]

    def end(self) -> None:
        """Tell every viewer that the pages end."""
        with self._lock:
            self._is_over = True
            for each in self.channels.values():
                each.end()
