"""A session on the screen while it grows: what is stored first, then every entry as it comes."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from backstory import model
from backstory.cli import output
from backstory.cli.stop_signals import stop_on_signals
from backstory.cli.views.event_view import end_line, event_lines, turn_line, unknown_line
from backstory.conversation.compact import compact_event
from backstory.conversation.pairing import Interruptions, Pairing, without_repeats
from backstory.workspace.history import transcript as transcripts
from backstory.workspace.history.following import Following, following_as_json
from backstory.workspace.stores.importing import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.cli.app import App
    from backstory.model import Event, ToolCall
    from backstory.workspace.history.entries import Form, SessionEntry
    from backstory.workspace.history.following import FollowedEvent, Grown
    from backstory.workspace.history.transcript import ListedTurn
    from backstory.workspace.located import LocatedSession

    Before = Callable[..., Iterator[str]]


def follow(app: App, located: LocatedSession, before: Before, *, full: bool, thinking: bool, as_json: bool) -> None:
    """Show a session and what comes, until a signal ends it. ``before``: draws a transcript and its stored events."""
    stop_on_signals()
    try:
        following = Following(app.workspace, located, machine=storing_machine(app), report=output.talk)
        transcript = app.reader.transcript(located, output.talk)
        stored = {each.number: each for each in transcript.turns if each.live is None}
        form: Form = "full" if full else "compact" if as_json else "words"
        wanted = {number for number, each in stored.items() if each.shown_in is None} | {None}
        seen = _Seen(app.reader.events(located, form=form, turns=wanted))
        for line in before(transcript, iter(seen), full=full, thinking=thinking, as_json=as_json):
            output.data(line)
        screen = Drawing(
            app.workspace.now(), stored, full=full, thinking=thinking, current=seen.turn,
            folder=located.session.said_folder,
        )  # fmt: skip
        _print_what_is_followed(following, located)
        with closing(following.grown(seen.seq, {each.turn.uid for each in stored.values()})) as grown, closing(screen):
            begun = set(stored)
            for each in grown:
                if as_json:
                    for line in _json_lines(each, begun, full=full):
                        output.data(line)
                else:
                    screen.show(each)
    except KeyboardInterrupt:
        # It is how this command ends.
        return


def storing_machine(app: App) -> Machine | None:
    """Return where logs are, if reading may store what agents have written since."""
    from backstory.workspace.stores.up_to_date import is_on

    return Machine(user_home=app.user_home) if not app.store_path and is_on(app.workspace) else None


def _print_what_is_followed(following: Following, located: LocatedSession) -> None:
    what = following.path or f"the runs of {located.label}"
    kept = "" if following.is_storing or following.path is None else " Nothing is stored."
    output.talk(output.one_liner(f"Following {what}.{kept} Ctrl-C ends it."))


class _Seen:
    """The stored entries as they are shown, and the last of them."""

    def __init__(self, entries: Iterator[SessionEntry]) -> None:
        self._entries = entries
        self.seq = 0
        self.turn: int | None = None

    def __iter__(self) -> Iterator[SessionEntry]:
        for each in self._entries:
            self.seq, self.turn = max(self.seq, each.outline.seq), each.outline.turn
            yield each


def _json_lines(grown: Grown, begun: set[int], *, full: bool) -> Iterator[str]:
    """Return new turns and events as JSON. ``begun``: the turns already printed; turns that begin now are added."""
    new = [each for each in grown.turns if each.number not in begun]
    begun |= {each.number for each in new}
    values: list[dict[str, Any]] = [{"remark": grown.remark}] if grown.remark else []
    values += ({"turns": [transcripts.as_json(each)]} for each in new)
    values += ({"events": [following_as_json(each, full=full)]} for each in grown.events)
    values += ({"turns": [transcripts.as_json(each)]} for each in grown.ended)
    return map(output.encoded, values)


class Drawing:
    """Draws what comes. A call is drawn at once; a result that comes later stands below it, or names it."""

    def __init__(
        self, now: int, turns: dict[int, ListedTurn], *, full: bool, thinking: bool, current: int | None, folder: str
    ) -> None:
        self._now, self._folder = now, folder
        self._full, self._thinking, self._current = full, thinking, current
        self._interruptions = Interruptions(_event_of, _with_event)
        self._pairing: Pairing[FollowedEvent] = Pairing(_event_of, lambda each: each.turn)
        self._turns = dict(turns)
        self._last: Event | None = None
        self._written: list[str] = []
        """The lines of an answer that were drawn before it was whole."""
        self._is_line_open = False

    def show(self, grown: Grown) -> None:
        """Draw what came. On a screen the last line of an answer that is being written is drawn anew as it grows."""
        if self._is_line_open:
            output.take_back_line()
        if grown.remark:
            output.talk(grown.remark)
        for line in self.lines(grown):
            output.data(line)
        *whole, last = answer_lines(grown.writing, full=self._full)
        self._is_line_open = bool(grown.writing) and output.is_screen()
        for line in whole[len(self._written) :]:
            output.data(line)
        self._written = self._written if len(whole) < len(self._written) else whole
        if self._is_line_open:
            output.passing_line(last)

    def close(self) -> None:
        """End the line that is being written."""
        if self._is_line_open:
            output.talk("")

    def lines(self, grown: Grown) -> Iterator[str]:
        """Yield the lines of what came."""
        self._turns |= {each.number: each for each in grown.turns}
        pairs = self._paired(grown)
        if not self._full:
            pairs = without_repeats(pairs, _event_of, _with_event)
        unknown = 0
        for each, answered in pairs:
            if each.turn != self._current and each.turn is not None and each.turn in self._turns:
                begun = self._turns[each.turn]
                yield from ("", turn_line(begun, self._now, beside=self._turns.get(each.turn - 1)))
            self._current = each.turn
            if isinstance(each.event, model.Unknown) and not self._full:
                unknown += 1
            elif self._thinking or not isinstance(each.event, model.Thinking):
                yield from self._event_lines(each, answered)
        yield from unknown_line(unknown)
        for turn in grown.ended:
            yield from end_line(turn, is_news=True)

    def _paired(self, grown: Grown) -> Iterator[tuple[FollowedEvent, ToolCall | None]]:
        for each in self._explained(grown):
            yield from self._pairing.take(each)
        yield from self._pairing.release()

    def _explained(self, grown: Grown) -> Iterator[FollowedEvent]:
        """Return the new events. A refusal waits for the next one, which may say that the agent was stopped."""
        if self._full:
            yield from grown.events
            return
        for each in grown.events:
            yield from self._interruptions.take(each)
        if grown.ended:
            yield from self._interruptions.release()

    def _event_lines(self, each: FollowedEvent, answered: ToolCall | None) -> Iterator[str]:
        event, last = each.event, self._last
        # Of a call the compact form may leave nothing to show.
        shown = event if self._full or isinstance(event, model.ToolCall) else compact_event(event)
        if answered is not None and isinstance(last, model.ToolCall) and last.tool_use_id == answered.tool_use_id:
            answered = None
        found = list(event_lines(each.seq, shown, full=self._full, answered=answered, folder=self._folder))
        self._last = event if found else last
        if isinstance(event, model.AssistantText):
            found, self._written = _without(found, self._written), []
        yield from found


def answer_lines(text: str, *, full: bool) -> list[str]:
    """Return the lines of an answer that is being written."""
    return list(event_lines(None, model.AssistantText(text=text), full=full))


def _without(lines: list[str], written: list[str]) -> list[str]:
    """Return the lines of an answer that were not drawn while it was written; all if it became another one."""
    return lines[len(written) :] if lines[: len(written)] == written else lines


def _event_of(each: FollowedEvent) -> Event:
    return each.event


def _with_event(each: FollowedEvent, event: Event) -> FollowedEvent:
    from msgspec.structs import replace

    return replace(each, event=event)
