"""The runs at work, as a line of tabs above every screen: agent, session, process; the newest run is the active one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec import Struct
from textual.widget import Widget

from backstory.cli import output
from backstory.cli.tui.strips import strip_of
from backstory.derive.moments import OUTCOMES, RUNNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.strip import Strip

    from backstory.workspace.reader import Reader
    from backstory.workspace.runs.running import ListedRun

NAME_COLUMNS = 24
PLAIN_STATES = {"running": "", "waiting": "not stored", "unreadable": "not readable"}
"""Words for the states of runs that are shown by another word, or by the sign alone."""


class Slot(Struct, frozen=True, kw_only=True):
    """A session that runs, or has queued prompts. ``turn``: the uid of the turn, by which a run is known."""

    uid: str
    turn: str | None
    label: str
    """Its number, or the beginning of its uid."""
    agent: str
    state: str
    pid: int | None
    cwd: str
    started: int = 0
    queued: int = 0

    @property
    def is_running(self) -> bool:
        """True if its agent is at work."""
        return self.state == "running"


class Slots(Struct, frozen=True, kw_only=True):
    """All slots, the oldest run first. ``active``: the uid of the session whose run is the active one."""

    all: tuple[Slot, ...] = ()
    active: str | None = None

    def with_runs(self, now: Sequence[Slot]) -> Slots:
        """The same when these run: the newest new run is the active slot.

        When the active slot's run ends, the last remaining one of its worktree is active, else the last of all.
        """
        ordered = tuple(sorted(now, key=lambda each: each.started))
        running = [each for each in ordered if each.is_running]
        before = {each.turn for each in self.all if each.is_running}
        if new := [each for each in running if each.turn not in before]:
            return Slots(all=ordered, active=new[-1].uid)
        if any(each.uid == self.active for each in running):
            return Slots(all=ordered, active=self.active)
        folder = next((each.cwd for each in self.all if each.uid == self.active), None)
        left = [each for each in running if each.cwd == folder] or running
        return Slots(all=ordered, active=left[-1].uid if left else None)

    def ended_since(self, before: Slots) -> list[Slot]:
        """The runs that ran before and run no more."""
        running = {each.turn for each in self.all if each.is_running}
        return [each for each in before.all if each.is_running and each.turn not in running]

    def of(self, number: int) -> Slot | None:
        """The slot by its number on the screen, from 1; 0 for the active one."""
        if number == 0:
            return next((each for each in self.all if each.uid == self.active), None)
        return self.all[number - 1] if number <= len(self.all) else None


def slots_of(runs: Sequence[ListedRun], reader: Reader) -> list[Slot]:
    """The sessions of runs and of queued prompts as slots."""
    of_sessions = [each for each in runs if each.session is not None]
    labels = reader.labels([each.session for each in of_sessions if each.session])
    return [
        Slot(
            uid=each.session,
            turn=each.turn,
            label=each.number or labels.get(each.session) or each.session[:8],
            agent=each.agent or "",
            state=each.state,
            pid=each.pid,
            cwd=each.cwd or "",
            # What is only queued begins last of all.
            started=sys.maxsize if each.started is None else each.started,
            queued=each.queued,
        )
        for each in of_sessions
        if each.session is not None
    ]


def words_of(slot: Slot, place: int, *, is_active: bool) -> str:
    """A slot as a tab: its key, its sign and state, the session, the agent and its process. The active one: ``[…]``."""
    mark = OUTCOMES[RUNNING][0] if slot.is_running else "…"
    facts = [f"{mark} {slot.label}", slot.agent, str(slot.pid or ""), PLAIN_STATES.get(slot.state, slot.state)]
    facts.append(f"+{slot.queued}" if slot.queued else "")
    words = f"{place} {output.one_line(' '.join(filter(None, facts)), 2 * NAME_COLUMNS)}"
    return f"[{words}]" if is_active else f" {words} "


class SlotBar(Widget):
    """The line of tabs; it takes no room while nothing runs."""

    DEFAULT_CSS = "SlotBar { height: 1; background: $surface; } SlotBar.-empty { display: none; }"

    def __init__(self) -> None:
        super().__init__(classes="-empty")
        self._slots = Slots()

    def on_mount(self) -> None:
        """Show what runs already."""
        self.show(getattr(self.app, "slots", Slots()))

    def show(self, slots: Slots) -> None:
        """Show slots, or nothing."""
        if slots != self._slots:
            self._slots = slots
            self.set_class(not slots.all, "-empty")
            self.refresh()

    def _tabs(self) -> list[str]:
        many = enumerate(self._slots.all, 1)
        return [words_of(each, n, is_active=each.uid == self._slots.active) for n, each in many]

    def render_line(self, y: int) -> Strip:
        """Return the line."""
        line = output.cut("".join(self._tabs()), self.size.width)
        return strip_of(line, self.size.width).apply_style(self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """Open the session of the tab."""
        end = 0
        for n, tab in enumerate(self._tabs(), 1):
            end += output.columns(tab)
            if event.x < end:
                self.app.call_later(self.app.run_action, f"app.slot({n})")
                return
