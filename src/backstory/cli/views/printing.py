"""Progress of a run, printed while it goes on: for people, or as JSON lines."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from backstory import model
from backstory.cli import output
from backstory.cli.views.call_view import call_words
from backstory.cli.views.summary_view import compacted_line, compacting_line
from backstory.conversation.compact import without_wrapping
from backstory.derive.essence import why, without_terminal_codes
from backstory.derive.moments import OUTCOMES
from backstory.model import Permissions, Tool
from backstory.workspace.runs.run_events import (
    Compacting,
    Continued,
    Ended,
    Metered,
    Notice,
    Queued,
    Shown,
    Started,
    Steered,
    SummaryMade,
    as_json,
)
from backstory.workspace.runs.running import METER_LEAST, meter_words

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from types import FrameType

    from backstory.model import ToolCall
    from backstory.store import Session
    from backstory.workspace.runs.run_events import RunEvent
    from backstory.workspace.runs.running import Meter


EXIT_CODES = {model.Outcome.COMPLETED: 0, model.Outcome.CANCELLED: 130}
INTERRUPTED = "interrupted"
"""The code of an error that only says that somebody stopped the agent."""
NAME_COLUMNS = 30
TITLE_COLUMNS, TITLE_COLUMNS_LEAST = 50, 12
TOLD_COLUMNS_LEAST = 12
CALLS_KNOWN_MAX = 1_000
"""The most calls that are remembered until their results come."""
DEEPER = " " * 5
"""``show`` has a column for records' numbers, which a run does not know yet."""


class Printer(Protocol):
    """Draws what happens while prompts run."""

    def draw(self, event: RunEvent) -> None:
        """Draw one event."""


def printer_for(*, as_json: bool, was_chosen: bool = True) -> Printer:
    """Return a printer of runs. ``was_chosen``: a person named the session, and knows how to begin another."""
    return _JsonPrinter() if as_json else _TextPrinter(was_chosen=was_chosen)


def print_events(events: Generator[RunEvent, None, None], printer: Printer) -> int:
    """Draw what happens to its end; returns the exit code.

    That is how the prompt ended that was asked for, else whether one could not be run, else how the last one ended.
    """
    asked, other, is_failed = None, 0, False
    with closing(events), ExitStack() as keyboard:
        for event in events:
            if isinstance(event, Ended):
                code = EXIT_CODES.get(event.outcome, 1)
                asked, other = (code, other) if event.is_asked else (asked, code)
            is_failed = is_failed or (isinstance(event, Notice) and event.is_failure)
            try:
                _draw(event, printer, keyboard)
            except KeyboardInterrupt as interrupt:
                # A prompt that waits is taken back.
                events.throw(interrupt)
    return asked if asked is not None else int(is_failed) or other


def _draw(event: RunEvent, printer: Printer, keyboard: ExitStack) -> None:
    """Draw an event; while a turn runs the terminal does not echo."""
    if isinstance(event, Ended):
        keyboard.close()
    printer.draw(event)
    if isinstance(event, Started):
        keyboard.enter_context(quiet_keyboard())


class _JsonPrinter:
    """Unified events as JSON lines, each whole; deltas are for people, and sentences stand beside the data."""

    def draw(self, event: RunEvent) -> None:
        if isinstance(event, Notice):
            output.talk(event.text)
        for line in as_json(event):
            output.json_line(line)


class _TextPrinter:
    """Text as it comes, tools folded to a line with their result, errors as messages of the system."""

    def __init__(self, *, was_chosen: bool) -> None:
        self._was_chosen = was_chosen
        self._is_shown = False
        """True if the run has printed anything."""
        self._stopping_line = ""
        """The line that says that the agent was asked to stop, if it was."""
        self._runs = 0
        """Those that are over."""
        self._streamed = ""
        """The answer as far as it was streamed before it came whole."""
        self._is_line_open = False
        self._call: model.ToolCall | None = None
        """The call whose line is still open, for its result."""
        self._calls: dict[str, model.ToolCall] = {}
        """Those that wait for their results, by their ids."""
        self._folder = ""
        """The folder of the session, which paths in it need not repeat."""
        self._used = 0
        self._error = ""
        self._status, self._take_status_back = "", _nothing
        self._column: int | None = 0
        """The columns that the answer takes of its last line on the screen; None if that is not known."""

    def draw(self, event: RunEvent) -> None:
        if isinstance(event, Shown) and not (event.events or event.delta or event.is_of_stop):
            return
        self._take_status_back()
        self._take_status_back = _nothing
        self._draw(event)
        self._show_status()

    def _show_status(self) -> None:
        """Show the context's fill below what was printed so far; it is removed before anything else is printed."""
        if not self._status or not output.is_screen():
            return
        if not self._is_line_open:
            output.passing_line(self._status)
            self._take_status_back = output.take_back_line
        elif self._call is None and self._column is not None and self._column < output.width():
            # Behind a full line it is not sure on which one a terminal's cursor is.
            output.passing_line_below(self._status)
            self._take_status_back = output.take_back_below

    def _draw(self, event: RunEvent) -> None:
        match event:
            case Metered():
                self._status = _meter(event.meter)
            case Shown():
                self._show(event)
            case Steered():
                self._event(event.message)
            case Started():
                self._start(event)
            case Ended(was_elsewhere=True):
                self._end_elsewhere(event)
            case Ended():
                self._end(event)
            case Queued():
                output.talk(_queued(event))
            case Notice():
                output.talk(event.text)
            case Compacting():
                output.talk(compacting_line(event))
            case SummaryMade():
                output.talk(compacted_line(event))
            case Continued():
                output.talk("The agent continues its work.")

    def _start(self, started: Started) -> None:
        self._folder = started.session.said_folder
        self._head(started)
        if started.offered and output.is_watched():
            names = output.one_line(
                f"↳ offered from the board: {', '.join(started.offered)}", max(output.width() - 2, 20)
            )
            output.talk(output.style(names, dim=True))

    def _head(self, started: Started) -> None:
        room = max(output.width() - 2, 20)
        if started.prompt is not None:
            # Printed beside the data, as the end of each run is.
            above = "\n" if self._runs else ""
            output.talk(f"{above}{output.style('❯', bold=True)} {output.one_line(started.prompt.content, room)}")
            return
        if started.number == 1 or not output.is_watched():
            return
        name = _session_name(started.session)
        facts = [f"turn {started.number}", started.agent, *([] if self._was_chosen else ["a new session: -n"])]
        behind = "".join(f" · {fact}" for fact in facts)
        # Of all that stands here the title can be shortened; on a narrow terminal it has to go.
        left = min(room - output.columns(f'{name} ""{behind}'), TITLE_COLUMNS)
        title = output.one_line(started.session.shown_title, left) if left >= TITLE_COLUMNS_LEAST else ""
        named = f'{name} "{title}"' if title else name
        output.talk(output.style(f"↳ {output.one_line(named + behind, room)}", dim=True))
        output.talk_apart()

    def _show(self, shown: Shown) -> None:
        if shown.is_of_stop:
            self._stopping(f"Stopping the agent{'; another Ctrl-C kills it' if shown.is_interrupted else ''}.")
        if shown.delta:
            if self._call is not None:
                self._end_line()
            self._streamed += shown.delta
            self._print(shown.delta)
            self._note_column(shown.delta)
        for event in shown.events:
            if not (shown.is_of_stop and _says_it_was_stopped(event)):
                self._event(event)

    def _note_column(self, printed: str) -> None:
        *above, last = output.clean(printed).split("\n")
        start = 0 if above else self._column
        self._column = None if start is None or "\t" in last else _column_after(last, start, output.width())

    def _stopping(self, line: str) -> None:
        """Say once that the agent was asked to stop; what it says of that itself is not repeated."""
        if self._stopping_line != line:
            self._end_line()
            output.talk(output.style(line, dim=True))
        self._stopping_line = line

    def _event(self, event: model.Event) -> None:
        match event:
            case model.Thinking() | model.Init() | model.Complete() | model.Unknown():
                return
            case model.AssistantText():
                self._answer(event.text)
            case model.ToolCall():
                self._end_line()
                self._print(self._call_line("●", event))
                self._call = self._calls[event.tool_use_id] = event
                if len(self._calls) > CALLS_KNOWN_MAX:
                    self._calls.pop(next(iter(self._calls)))
            case model.ToolResult():
                self._result(event)
            case _:
                from backstory.cli.views.event_view import event_lines

                self._error = event.message if isinstance(event, model.Error) else self._error
                self._end_line()
                for line in event_lines(None, event, full=False):
                    output.data(line.removeprefix(DEEPER))
                    self._is_shown = True

    def _answer(self, text: str) -> None:
        """A whole answer: print what of it was not streamed."""
        streamed, self._streamed = self._streamed.strip(), ""
        text = text.strip()
        if text not in streamed:
            is_begun = bool(streamed) and text.startswith(streamed)
            if not is_begun:
                self._end_line()
            self._print((text.removeprefix(streamed) if is_begun else text) + "\n")
        self._end_line()

    def _call_line(self, mark: str, call: model.ToolCall) -> str:
        """A call, so that its result has room behind it."""
        name = output.one_line(call.tool_name, NAME_COLUMNS)
        room = max(output.width() * 6 // 10 - output.columns(name) - 5, TOLD_COLUMNS_LEAST)
        summary = call_words(call, room, self._folder)
        self._used = output.columns(f"  {mark} {name} {summary}".rstrip())
        return f"  {output.style(mark, dim=True)} {name} {summary}".rstrip()

    def _result(self, result: model.ToolResult) -> None:
        """The line of the words that matter: a command's last, anything else's first."""
        call = self._calls.pop(result.tool_use_id, None)
        if self._call is None or self._call.tool_use_id != result.tool_use_id:
            self._end_line()
            # Several may run side by side: its call says which one it is the result of.
            self._print(self._call_line("↳", call or model.ToolCall(tool_name=result.tool_name)))
        content = without_terminal_codes(without_wrapping(result.content))
        lines = [line for line in content.split("\n") if line.strip()] or ["(nothing)"]
        line = lines[-1] if result.tool == model.Tool.SHELL and not result.is_error else lines[0]
        more = f" (+{output.counted(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
        room = max(output.width() - self._used - 3, TOLD_COLUMNS_LEAST)
        how: dict[str, Any] = {"fg": "red"} if result.is_error else {"dim": True}
        self._print(output.style(f" {'✗' if result.is_error else '→'} {output.one_line(line + more, room)}", **how))
        self._end_line()

    def _print(self, text: str) -> None:
        output.raw(text)
        self._is_shown = True
        self._is_line_open = not text.endswith("\n") if text else self._is_line_open

    def _end_line(self) -> None:
        if self._is_line_open:
            output.data()
        self._is_line_open, self._call, self._column = False, None, 0

    def _end(self, ended: Ended) -> None:
        self._end_line()
        turn, error = ended.turn, ended.error or ""
        if error and error != self._error:
            self._event(model.Error(message=error))
        calls = [f"{ended.tools} tool{'s' * (ended.tools != 1)}"] if ended.tools else []
        calls += [f"{len(ended.refused)} refused"] if ended.refused else []
        facts = [
            output.duration(turn.duration_ms),
            ended.cost.known,
            ", ".join(calls),
            _meter(ended.meter),
            _whole(ended),
            turn.outcome if turn.outcome != model.Outcome.COMPLETED else "",
            output.one_line(why(error), max(output.width() // 2, TOLD_COLUMNS_LEAST)),
        ]
        self._conclude(ended, " · ".join(fact for fact in facts if fact))
        if ended.refused and ended.permissions is not None:
            for line in refusal_lines(ended.refused, ended.permissions, self._folder):
                output.talk(line)

    def _end_elsewhere(self, ended: Ended) -> None:
        self._end_line()
        name = _session_name(ended.session)
        self._conclude(
            ended, f"{ended.outcome}: another process ran it. See: backstory show {name} @{ended.turn.first_seq}"
        )

    def _conclude(self, ended: Ended, facts: str) -> None:
        self._status = ""
        mark = OUTCOMES.get(ended.turn.outcome or "", OUTCOMES["crashed"])
        name = _session_name(ended.session) + (f" turn {ended.number}" if ended.number else "")
        if self._is_shown:
            output.talk_apart()
        output.talk(" · ".join(each for each in (f"{output.style(mark[0], fg=mark[1])} {name}", facts) if each))
        self._is_shown = False
        self._error, self._stopping_line, self._runs = "", "", self._runs + 1


def _nothing() -> None:
    """Do nothing."""


def _says_it_was_stopped(event: model.Event) -> bool:
    """Return True if an event may only repeat that the run was stopped: an interruption, or a call it broke off."""
    match event:
        case model.Error(code=code):
            return code == INTERRUPTED
        case model.ToolResult(is_error=is_error):
            return is_error
    return False


def _meter(meter: Meter | None) -> str:
    """Return the context's fill in words; '' below ``METER_LEAST``."""
    words, colour = meter_words(meter, METER_LEAST)
    return f"context {output.style(words, fg=colour)}" if words else ""


def _whole(ended: Ended) -> str:
    """Return time and cost of the whole session, if it has more than its last turn."""
    whole = ended.whole
    if whole is None or whole.turns < 2:
        return ""
    facts = [output.duration(whole.duration_ms), whole.cost.known]
    return f"session {', '.join(fact for fact in facts if fact)}" if any(facts) else ""


def _queued(queued: Queued) -> str:
    """Return a line on a queued prompt, and when it runs."""
    what = "Message" if queued.is_message else "Follow-up"
    who = f"not running; `backstory queue run {queued.session}` runs it"
    if queued.is_running:
        who = f"running: {queued.holder}" if queued.holder else "running"
    place = f", number {queued.position} in the queue" if queued.position > 1 else ""
    return f"{what} queued for {queued.session} ({who}){place}."


# the keyboard of a terminal while a run is shown: keys typed meanwhile are neither echoed nor run by the shell --------


LEAVING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
"""Signals that end us or stop us."""
LOCAL_MODES = 3
"""The index of the modes with ECHO in what ``tcgetattr`` returns."""


@contextmanager
def quiet_keyboard() -> Iterator[None]:
    """Echo nothing within the block, if stdin is a terminal and we are in its foreground."""
    terminal = _terminal()
    if terminal is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    quiet = _Quiet(terminal)
    quiet.start()
    try:
        yield
    finally:
        quiet.end()


class _Quiet:
    """One terminal without echo."""

    def __init__(self, terminal: int) -> None:
        import termios

        self._terminal, self._termios = terminal, termios
        self._modes: list[Any] = termios.tcgetattr(terminal)
        """The modes to restore."""
        self._before: dict[int, Any] = {}

    def start(self) -> None:
        """Turn echo off, and handle the signals that would leave it off."""
        for number in LEAVING:
            # An ignored signal (nohup, a shell without jobs) stays ignored.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._leave)
        self._before[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._come_back)
        self._echo_off()

    def end(self) -> None:
        """Restore the terminal, and discard input typed meanwhile."""
        self._restore()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _leave(self, number: int, _frame: FrameType | None) -> None:
        """Restore the terminal, then let the signal act."""
        self._restore()
        signal.signal(number, self._before[number])
        os.kill(os.getpid(), number)
        # A stopped process continues here when another signal arrives.
        signal.signal(number, self._leave)
        self._echo_off()

    def _come_back(self, _number: int, _frame: FrameType | None) -> None:
        self._echo_off()

    def _echo_off(self) -> None:
        if _is_ours(self._terminal):
            modes = list(self._modes)
            modes[LOCAL_MODES] &= ~(self._termios.ECHO | self._termios.ECHONL)
            self._set(self._termios.TCSANOW, modes)

    def _restore(self) -> None:
        # A background process that changes the terminal is stopped by the system.
        if _is_ours(self._terminal):
            self._set(self._termios.TCSAFLUSH, self._modes)

    def _set(self, when: int, modes: list[Any]) -> None:
        # A terminal that is gone needs no change.
        with suppress(self._termios.error):
            self._termios.tcsetattr(self._terminal, when, modes)


def _terminal() -> int | None:
    """The file of stdin, where that is a terminal in whose foreground we are."""
    try:
        terminal = sys.stdin.fileno()
    except (ValueError, OSError):
        return None
    return terminal if os.isatty(terminal) and _is_ours(terminal) else None


def _is_ours(terminal: int) -> bool:
    """Return True if we are in the foreground of a terminal."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False


# calls that an agent's permissions refused, and the option that allows them -------------------------------------------


CALLS_NAMED_MAX = 4
CALL_COLUMNS = 40
_OF_EDITS = frozenset({Tool.EDIT, Tool.WRITE})
_ALLOWED = {Permissions.EDIT: "allow edits", Permissions.ALL: "allow everything"}


def refusal_lines(refused: Sequence[ToolCall], permissions: Permissions, folder: str = "") -> Iterator[str]:
    """Yield the refused calls, and how to allow them; nothing if there are none. ``folder``: where the session is."""
    if not refused:
        return
    named = [
        output.one_line(f"{each.tool_name} {call_words(each, CALL_COLUMNS, folder)}", CALL_COLUMNS) for each in refused
    ]
    left = [f"{len(named) - CALLS_NAMED_MAX} more"] if len(named) > CALLS_NAMED_MAX else []
    count = "1 call was" if len(refused) == 1 else f"{len(refused)} calls were"
    yield f"{count} refused: {', '.join([*named[:CALLS_NAMED_MAX], *left])}"
    if permissions == Permissions.ALL:
        return
    are_edits = [call.tool in _OF_EDITS for call in refused]
    wanted = Permissions.EDIT if any(are_edits) and permissions != Permissions.EDIT else Permissions.ALL
    more = "" if wanted == Permissions.ALL or all(are_edits) else "   (everything: all)"
    yield f'  {_ALLOWED[wanted]}: backstory run --permissions {wanted} "…"{more}'
    yield f"  always: backstory config set run.permissions {wanted}"


def _column_after(text: str, column: int, width: int) -> int:
    """Return how many columns of a terminal's line are taken after a text without newlines, from ``column`` on."""
    if text.isascii():
        return (column + len(text) - 1) % width + 1 if text else column
    for letter in text:
        taken = output.columns(letter)
        column = taken if column + taken > width else column + taken
    return column


def _session_name(session: Session) -> str:
    """Return the name of a session for a sentence."""
    return session.shown_number or session.uid[:12]
