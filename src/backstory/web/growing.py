"""Entries of a page of a session that is followed: each as it comes, a call again when its result is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from backstory import model
from backstory.conversation.compact import compact_event
from backstory.conversation.pairing import Interruptions, without_repeats
from backstory.web import reading
from backstory.web.colour import Palette
from backstory.workspace.history.blocks import ShownEntry
from backstory.workspace.history.entries import OutlineEntry, SessionEntry, ShownResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Event
    from backstory.web.reading import PageEntry
    from backstory.workspace.history.following import FollowedEvent, Grown
    from backstory.workspace.history.transcript import ListedTurn

CALLS_MOST = 1_000
"""The most calls whose results are waited for."""


class GrownEntries(NamedTuple):
    """Entries that came together. ``number``: of a call that is drawn again the one that it had.

    ``turn`` and ``seq``: where it belongs, by which a page that was read later knows what it has; ``seq`` is None for
    what has no number yet.
    """

    number: int
    turn: int
    seq: int | None
    entries: list[PageEntry]


class Growing:
    """Draws what comes. ``turns``: the stored ones, by their numbers; ``current``: the turn of the last entry."""

    def __init__(self, turns: dict[int, ListedTurn], current: int | None, folder: str) -> None:
        self._turns, self._current, self._folder = dict(turns), current, folder
        self._interruptions = Interruptions(_event_of, _with_event)
        self._calls: dict[str, tuple[int, FollowedEvent]] = {}
        self._number = 0

    def drawn(self, grown: Grown, now: int) -> Iterator[GrownEntries]:
        """Yield what came."""
        self._turns |= {each.number: each for each in grown.turns}
        pairs = ((each, None) for each in self._explained(grown))
        for each, _ in without_repeats(pairs, _event_of, _with_event):
            if each.turn is not None and each.turn != self._current and each.turn in self._turns:
                begun = reading.turn_begun(self._turns.get(self._current or 0), self._turns[each.turn], now)
                yield self._next(each, [begun])
            self._current = each.turn
            if not isinstance(each.event, model.Unknown):
                yield self._entry(each)
        for turn in grown.ended:
            self._number += 1
            yield GrownEntries(self._number, turn.number, None, [reading.turn_ended(turn)])

    def _explained(self, grown: Grown) -> Iterator[FollowedEvent]:
        """A refusal waits for the next event, which may say that the agent was stopped."""
        for each in grown.events:
            yield from self._interruptions.take(each)
        if grown.ended:
            yield from self._interruptions.release()

    def _next(self, each: FollowedEvent, entries: list[PageEntry]) -> GrownEntries:
        self._number += 1
        return GrownEntries(self._number, each.turn or 0, each.seq, entries)

    def _entry(self, each: FollowedEvent) -> GrownEntries:
        event = each.event
        if isinstance(event, model.ToolCall):
            drawn = self._next(each, self._shown(each, event))
            if event.tool_use_id:
                self._calls[event.tool_use_id] = drawn.number, each
                if len(self._calls) > CALLS_MOST:
                    self._calls.pop(next(iter(self._calls)))
            return drawn
        shown = compact_event(event)
        if isinstance(shown, model.ToolResult) and (found := self._calls.pop(shown.tool_use_id, None)) is not None:
            number, call = found
            result = ShownResult(each.seq, shown)
            return GrownEntries(number, each.turn or 0, each.seq, self._shown(call, call.event, result=result))
        return self._next(each, self._shown(each, shown))

    def _shown(self, each: FollowedEvent, event: Event, *, result: ShownResult | None = None) -> list[PageEntry]:
        outline = OutlineEntry(
            seq=each.seq or 0, part=each.part, kind=event.kind, turn=each.turn, at=each.at, chars=0
        )  # fmt: skip
        shown = ShownEntry(SessionEntry(outline=outline, event=event), None, result)
        found = reading.entries_of(self._folder, shown, Palette())
        # Without a number there is no address yet.
        return [*found] if each.seq is not None else [replace(each, place="", is_cut=False) for each in found]


def _event_of(each: FollowedEvent) -> Event:
    return each.event


def _with_event(each: FollowedEvent, event: Event) -> FollowedEvent:
    return replace(each, event=event)
