"""Runs that go on, told to a team's server as far as their sessions may leave: masked, each event once, bounded.

It reads their spools, and changes nothing there. What the server confirmed is told no more; while it is away the newest
waits.
"""

from __future__ import annotations

import random
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Raw, Struct, field

from backstory.errors import BackstoryError, LoginRefused, ServerBusy, ServerRefused, ServerUnreachable
from backstory.runs.live import live_run
from backstory.runs.spool import SPOOLS, list_spools
from backstory.sync.following import AWAY_S_MAX
from backstory.sync.notes import FOLDER
from backstory.sync.remote import understood
from backstory.workspace.opening import open_workspace
from backstory.workspace.runs.running import store_of_run
from backstory.workspace.runs.steered import SteeredMessages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from backstory.runs.live import LiveRun
    from backstory.runs.spool import Run, Spool
    from backstory.sync.live_masks import LiveMasks
    from backstory.sync.remote import Remote
    from backstory.workspace.runs.steered import HandedMessage
    from backstory.workspace.workspace import Workspace

EVERY_S = 1.0
"""The time between two words about a run, at least, …"""
LEARN_EVERY_S = 5.0
"""The time between two looks at what other sessions of a repository tell of its secrets."""
HEARTBEAT_S, TAKING_S = 5.0, 2.0
"""… and at most, also where it takes messages, which come with the answers: a server takes who says less for silent."""
POSTED_BYTES, WAITING_BYTES_MAX = 192 * 1024, 256 * 1024
"""The most events that are told at once, and that wait; of more the first are left out."""
POSTS_MAX = 4
"""The most words about a run at once, whatever the server answers."""
UNSEEN_END_S = 3.0
"""An end that nobody noted for so long is a kill: of the run's runner, too."""
STEERED = "steered.json"
"""The file of the home that notes the messages which came, beside what was sent."""
RUNNING, OVER, KILLED = "running", "over", "killed"
UNAUTHORISED, UNKNOWN = 401, (404, 405)


def _workspace_of(run: Run, environ: Mapping[str, str], now: Callable[[], int]) -> Workspace:
    """Open the workspace in which a run's session is. Raises what opening one raises."""
    found = open_workspace(run.cwd, environ, now=now)
    if any(each.path == store_of_run(run, each.path) for each in found.stores):
        return found
    found.close()
    return open_workspace(run.cwd, environ, store=run.store, now=now)


class TellingRules(NamedTuple):
    """The person's rules at this moment: whether a session may leave, and whether its runs take messages."""

    may_leave: bool
    takes: bool = False


class _Message(Struct, frozen=True):
    id: str
    text: str


class _Answer(Struct, frozen=True):
    next: int | None = None
    steering: list[_Message] = field(default_factory=list)


class _Told:
    """A run that is told of."""

    def __init__(self, spool: Spool, run: Run, live: LiveRun, masks: LiveMasks) -> None:
        self.spool, self.run, self.live, self.masks = spool, run, live, masks
        self._waiting, self._bytes, self._last = deque[tuple[int, bytes]](), 0, 0
        self._before, self._told_at = dict[str, Any](), 0.0
        self._is_cut = False
        """True while the server is to forget what came before ``_last``."""
        self.learn_at = 0.0
        self.steered: dict[str, HandedMessage] = {}
        """The messages on which the server waits for a word."""
        self.over_at = 0.0

    def look(self, now: float) -> None:
        """Take what the run printed since."""
        # What is over was read to its end, and let go of.
        for event in [] if self.live.is_over else self.live.new():
            data, is_late = self.masks.event(event)
            if is_late:
                self._cut()
            self._last += 1
            self._waiting.append((self._last, data))
            self._bytes += len(data)
        while self._bytes > WAITING_BYTES_MAX:
            self._bytes -= len(self._waiting.popleft()[1])
        self.over_at = self.over_at or (now if self.live.is_over else 0.0)

    def _cut(self) -> None:
        """Have the server forget what came before: a number that is missing."""
        self._waiting.clear()
        self._bytes, self._last, self._is_cut = 0, self._last + 1, True

    def state(self, now: float) -> str:
        """The word for how it goes on."""
        if not self.over_at:
            return RUNNING
        if not self.spool.folder.exists() or self.spool.exit is not None:
            return OVER
        return KILLED if now - self.over_at >= UNSEEN_END_S else RUNNING

    def part(self, now: float, *, takes: bool) -> dict[str, Any] | None:
        """Return what there is to tell; None while there is nothing."""
        said: dict[str, Any] = {
            "state": self.state(now), "writing": self.masks.writing(self.live.writing), "takes": takes
        }  # fmt: skip
        if self.masks.is_late():
            # The answer that is being written may tell one, and so may another session.
            self._cut()
        rest_s = TAKING_S if takes else HEARTBEAT_S
        is_news = self._waiting or self.steered or self._is_cut or said != self._before
        if not is_news and now - self._told_at < rest_s:
            return None
        events, size = list[Raw](), 0
        for _, data in self._waiting:
            if events and size + len(data) > POSTED_BYTES:
                break
            events.append(Raw(data))
            size += len(data)
        run = self.run
        first = self._waiting[0][0] if self._waiting else self._last + 1
        return {
            "uid": run.session_uid, "run": run.turn_uid, "repository": self.masks.repository, "agent": run.agent,
            "started": run.started, "first": first, "events": events, **said,
            "steered": [{"id": id_, **each._asdict()} for id_, each in self.steered.items()],
        }  # fmt: skip

    def confirm(self, number: int, part: dict[str, Any], now: float) -> None:
        """Note what was told, and let go of the events before a number, which the server has."""
        self._before, self._told_at = {name: part[name] for name in ("state", "writing", "takes")}, now
        self._is_cut = False
        for each in part["steered"]:
            self.steered.pop(each["id"], None)
        while self._waiting and self._waiting[0][0] < number:
            self._bytes -= len(self._waiting.popleft()[1])

    def is_done(self, now: float) -> bool:
        """Return True if nothing is left to tell."""
        return self.state(now) != RUNNING and not (self._waiting or self.steered or self._is_cut)


class RunTeller:
    """Tells of the runs of a home. ``masks_of`` gives what masks a session of a workspace, None for one that stays;
    what does it already learns by that what is new.

    ``rules`` are asked each time, so that who changes them is obeyed; ``say`` receives troubles, each once.
    """

    def __init__(
        self, home: Path, environ: Mapping[str, str], remote: Remote,
        masks_of: Callable[[Workspace, str, LiveMasks | None], LiveMasks | None],
        rules: Callable[[LiveMasks], TellingRules], say: Callable[[str], None], now: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._home, self._environ, self._remote = home, environ, remote
        self._masks_of, self._rules, self._steered = masks_of, rules, SteeredMessages(home / FOLDER / STEERED)
        self._say, self._now, self._clock = say, now, clock
        self._told: dict[str, _Told] = {}
        self._passed_over = set[str]()
        """Runs that stay here, and those of which all was told."""
        self._next_at = self._wait = 0.0
        """The time before which nothing is told, and the last wait for a server that is away."""
        self._said = set[str]()
        self._is_off = False

    def tick(self) -> None:
        """Tell what is new, unless that was done a moment ago. Raises LoginRefused for a login that was ended."""
        now = self._clock()
        if self._is_off or now < self._next_at:
            return
        self._next_at = now + EVERY_S
        self._find()
        for uid, told in list(self._told.items()):
            try:
                self._learn(told, now)
                told.look(now)
                self._tell(uid, told, now)
            except (ServerUnreachable, ServerBusy) as refused:
                self._rest(refused)
                return
            except LoginRefused:
                raise
            except (BackstoryError, OSError) as refused:
                # One that cannot be read, or settings that cannot, keep nothing else from being sent.
                self._not_told(told.spool, refused)
                self._end(uid)
        self._wait = 0.0

    def close(self) -> None:
        """Let go of their files."""
        for each in self._told.values():
            each.live.close()

    def _find(self) -> None:
        there = dict[str, Any]()
        for spool in list_spools(self._home / SPOOLS):
            if (run := spool.run) is not None:
                there[run.turn_uid] = spool, run
        self._passed_over &= there.keys()
        for uid, (spool, run) in there.items():
            if uid in self._told or uid in self._passed_over:
                continue
            try:
                with _workspace_of(run, self._environ, self._now) as place:
                    masks = self._masks_of(place, run.session_uid, None)
            except (BackstoryError, OSError) as refused:
                self._not_told(spool, refused)
                masks = None
            live = None if masks is None else live_run(spool, run, self._now(), self._say_once)
            if masks is None or live is None:
                self._passed_over.add(uid)
            else:
                self._told[uid] = _Told(spool, run, live, masks)

    def _learn(self, told: _Told, now: float) -> None:
        """Have its masks know what other sessions of the repository tell meanwhile."""
        if now < told.learn_at or not told.masks.may_learn:
            return
        told.learn_at = now + LEARN_EVERY_S
        with _workspace_of(told.run, self._environ, self._now) as place:
            self._masks_of(place, told.run.session_uid, told.masks)

    def _tell(self, uid: str, told: _Told, now: float) -> None:
        try:
            rules = self._rules(told.masks)
        except (BackstoryError, OSError) as refused:
            # Nothing leaves while a person's rules cannot be read; it goes on when they can.
            self._say_once(f"Runs are not told to the team server now: {refused}")
            return
        if not rules.may_leave:
            self._end(uid)
            return
        for _ in range(POSTS_MAX):
            if (part := told.part(now, takes=rules.takes)) is None:
                return
            try:
                said = understood(self._remote, self._remote.ask("POST", "/v1/live", part), _Answer)
            except ServerRefused as refused:
                if isinstance(refused, ServerBusy):
                    raise
                if isinstance(refused, LoginRefused) and refused.status == UNAUTHORISED:
                    raise
                self._refuse(uid, refused)
                return
            if said.next is None:
                self._end(uid)
                return
            told.confirm(said.next, part, now)
            self._hand(told, said.steering, rules)
            if told.is_done(now):
                self._end(uid)
                return

    def _hand(self, told: _Told, messages: list[_Message], rules: TellingRules) -> None:
        """Hand messages to the run, as a person at this machine does."""
        if not messages:
            return
        try:
            with _workspace_of(told.run, self._environ, self._now) as place:
                for each in messages:
                    told.steered[each.id] = self._steered.hand(
                        place, told.run.session_uid, each.id, each.text, is_allowed=rules.takes
                    )
        except (BackstoryError, OSError) as refused:
            # The server gives it again, and the run is told of meanwhile.
            self._say_once(f"A message from the team server was not handed to its run yet: {refused}")

    def _refuse(self, uid: str, refused: ServerRefused) -> None:
        """Tell no more of a run; of none where the server does not know how."""
        self._say_once(f"Runs are not shown on the team server while they go on: {refused}")
        self._is_off = refused.status in UNKNOWN
        self._end(uid)

    def _end(self, uid: str) -> None:
        self._told.pop(uid).live.close()
        self._passed_over.add(uid)

    def _rest(self, refused: ServerUnreachable | ServerBusy) -> None:
        self._wait = min(max(self._wait * 2, 2 * EVERY_S), AWAY_S_MAX)
        asked = refused.retry_s if isinstance(refused, ServerBusy) else 0.0
        self._next_at = self._clock() + max(self._wait * random.uniform(0.5, 1.0), asked)

    def _not_told(self, spool: Spool, why: Exception) -> None:
        self._say_once(f"A run in {spool.folder} is not told to the team server: {why}")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)
