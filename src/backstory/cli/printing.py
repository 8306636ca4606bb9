"""What a run prints while it goes on: for people, or as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from backstory import model
from backstory.cli import output
from backstory.cli.marks import OUTCOMES
from backstory.conversation.compact import without_wrapping
from backstory.derive.essence import without_terminal_codes
from backstory.derive.notices import why

if TYPE_CHECKING:
    from backstory.derive.pricing import Cost
    from backstory.runs.runner import Finished, Request
    from backstory.runs.stream import Shown
    from backstory.store import Session
    from backstory.store.queue import Text

METER = ((90, "red"), (60, "yellow"), (0, "green"))
INTERRUPTED = "interrupted"
"""The code of an error that only says that somebody stopped the agent."""
METER_LEAST = 10
"""A smaller share of the context is not worth a word."""
NAME_COLUMNS = 30
TITLE_COLUMNS = 50
TOLD_COLUMNS_LEAST = 12
CALLS_KNOWN_MAX = 1_000
"""So many calls are remembered until their results come."""
DEEPER = " " * 5
"""``show`` has a column for records' numbers, which a run does not know yet."""


class Printer(Protocol):
    """Shows one run after the other."""

    def begin(self, session: Session, turn: int, agent: str) -> None:
        """Name the session that the prompt continues, and the number of its next turn."""

    def prompt(self, text: Text) -> None:
        """Say that what waited is run now."""

    def show(self, shown: Shown) -> None:
        """Show what comes."""

    def end(self, session: Session, number: int | None, finished: Finished, request: Request, cost: Cost) -> None:
        """Print the result of a run. ``number``: its turn's, if it is stored."""

    def end_elsewhere(self, session: Session, turn: model.Turn, tools: int, error: str | None, cost: Cost) -> None:
        """Say what a run came to that another process has done."""


def printer_for(*, as_json: bool, was_chosen: bool = True) -> Printer:
    """What prints runs. ``was_chosen``: a person named the session, and need not be told how to begin another."""
    return _JsonPrinter() if as_json else _TextPrinter(was_chosen=was_chosen)


class _JsonPrinter:
    """Unified events as JSON lines, each whole; deltas are for people."""

    def begin(self, session: Session, turn: int, agent: str) -> None:
        return

    def prompt(self, text: Text) -> None:
        self._line({"kind": model.UserMessage.kind, "content": text.content, "turn": text.uid})

    def show(self, shown: Shown) -> None:
        for event in shown.events:
            if not isinstance(event, model.Complete):
                self._line({"kind": event.kind, **_fields(event)})

    def end(self, session: Session, number: int | None, finished: Finished, request: Request, cost: Cost) -> None:
        told = _came_to(session, finished.turn, finished.tools, finished.error, cost)
        refused = [{"tool": call.tool_name, "input": call.input} for call in finished.refused]
        used = {"context_chars": finished.context_chars, "context_max": request.context_chars}
        self._line({**told, "refused": refused, **used})

    def end_elsewhere(self, session: Session, turn: model.Turn, tools: int, error: str | None, cost: Cost) -> None:
        self._line(_came_to(session, turn, tools, error, cost))

    def _line(self, value: dict[str, Any]) -> None:
        output.json_line(value)


class _TextPrinter:
    """Text as it comes, tools folded to a line with their result, errors as messages of the system."""

    def __init__(self, *, was_chosen: bool) -> None:
        self._was_chosen = was_chosen
        self._is_shown = False
        """Whether the run has printed anything."""
        self._is_stopping = False
        self._runs = 0
        """Those that are over."""
        self._streamed = ""
        """The answer as far as it was shown before it was told whole."""
        self._is_line_open = False
        self._call: model.ToolCall | None = None
        """The call whose line is still open, for its result."""
        self._calls: dict[str, model.ToolCall] = {}
        """Those that wait for their results, by their ids."""
        self._used = 0
        self._error = ""

    def begin(self, session: Session, turn: int, agent: str) -> None:
        if not output.is_watched():
            return
        title = output.one_line(session.shown_title, TITLE_COLUMNS)
        named = output.session_name(session) + (f' "{title}"' if title else "")
        facts = [named, f"turn {turn}", agent, *([] if self._was_chosen else ["a new session: -n"])]
        output.talk(output.style(f"↳ {output.one_line(' · '.join(facts), max(output.width() - 2, 20))}", dim=True))

    def prompt(self, text: Text) -> None:
        # Told beside the data, as the end of each run is.
        above = "\n" if self._runs else ""
        output.talk(
            f"{above}{output.style('❯', fg='cyan')} {output.one_line(text.content, max(output.width() - 2, 20))}"
        )

    def show(self, shown: Shown) -> None:
        if shown.is_of_stop:
            self._stopping()
        if shown.delta:
            if self._call is not None:
                self._end_line()
            self._streamed += shown.delta
            self._print(shown.delta)
        for event in shown.events:
            if not (shown.is_of_stop and _says_it_was_stopped(event)):
                self._event(event)

    def _stopping(self) -> None:
        """Say once that the agent was asked to stop; what it says of that itself is not repeated."""
        if not self._is_stopping:
            self._end_line()
            output.talk(output.style("Stopping the agent; another Ctrl-C kills it.", dim=True))
        self._is_stopping = True

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
                from backstory.cli.event_view import event_lines

                self._error = event.message if isinstance(event, model.Error) else self._error
                self._end_line()
                for line in event_lines(None, event, full=False):
                    output.data(line.removeprefix(DEEPER))
                    self._is_shown = True

    def _answer(self, text: str) -> None:
        """An answer told whole: print what of it was not streamed."""
        told, self._streamed = self._streamed.strip(), ""
        text = text.strip()
        if text not in told:
            is_begun = bool(told) and text.startswith(told)
            if not is_begun:
                self._end_line()
            self._print((text.removeprefix(told) if is_begun else text) + "\n")
        self._end_line()

    def _call_line(self, mark: str, call: model.ToolCall) -> str:
        """A call, so that its result has room behind it."""
        from backstory.cli.event_view import call_words  # a run without calls needs none of it

        name = output.one_line(call.tool_name, NAME_COLUMNS)
        room = max(output.width() * 6 // 10 - output.columns(name) - 5, TOLD_COLUMNS_LEAST)
        told = call_words(call, room)
        self._used = output.columns(f"  {mark} {name} {told}".rstrip())
        return f"  {output.style(mark, fg='blue')} {output.style(name, bold=True)} {told}".rstrip()

    def _result(self, result: model.ToolResult) -> None:
        """The line of the words that matter: a command's last, anything else's first."""
        call = self._calls.pop(result.tool_use_id, None)
        if self._call is None or self._call.tool_use_id != result.tool_use_id:
            self._end_line()
            # Several may run side by side: its call says which one it is the result of.
            self._print(self._call_line("↳", call or model.ToolCall(tool_name=result.tool_name)))
        content = without_terminal_codes(without_wrapping(result.content))
        lines = [line for line in content.split("\n") if line.strip()] or ["(nothing)"]
        told = lines[-1] if result.tool == model.Tool.SHELL and not result.is_error else lines[0]
        more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
        room = max(output.width() - self._used - 3, TOLD_COLUMNS_LEAST)
        how: dict[str, Any] = {"fg": "red"} if result.is_error else {"dim": True}
        self._print(output.style(f" {'✗' if result.is_error else '→'} {output.one_line(told + more, room)}", **how))
        self._end_line()

    def _print(self, text: str) -> None:
        output.raw(text)
        self._is_shown = True
        self._is_line_open = not text.endswith("\n") if text else self._is_line_open

    def _end_line(self) -> None:
        if self._is_line_open:
            output.data()
        self._is_line_open, self._call = False, None

    def end(self, session: Session, number: int | None, finished: Finished, request: Request, cost: Cost) -> None:
        self._end_line()
        turn, error = finished.turn, finished.error or ""
        if error and error != self._error:
            self._event(model.Error(message=error))
        calls = [f"{finished.tools} tool{'s' * (finished.tools != 1)}"] if finished.tools else []
        calls += [f"{len(finished.refused)} refused"] if finished.refused else []
        facts = [
            output.duration(turn.duration_ms),
            "" if cost.low_usd is None else output.money(cost),
            ", ".join(calls),
            _meter(finished.context_chars, request.context_chars),
            turn.outcome if turn.outcome != model.Outcome.COMPLETED else "",
            output.one_line(why(error), max(output.width() // 2, TOLD_COLUMNS_LEAST)),
        ]
        self._conclude(session, number, turn, " · ".join(fact for fact in facts if fact))
        if finished.refused:
            from backstory.cli.refusing import refusal_lines

            for line in refusal_lines(finished.refused, request.permissions):
                output.talk(line)

    def end_elsewhere(self, session: Session, turn: model.Turn, tools: int, error: str | None, cost: Cost) -> None:
        self._end_line()
        name = output.session_name(session)
        self._conclude(
            session,
            None,
            turn,
            f"{turn.outcome or model.Outcome.CRASHED}: another process ran it. See: "
            f"backstory show {name} @{turn.first_seq}",
        )

    def _conclude(self, session: Session, number: int | None, turn: model.Turn, told: str) -> None:
        mark = OUTCOMES.get(turn.outcome or "", OUTCOMES["crashed"])
        name = output.session_name(session) + (f" turn {number}" if number else "")
        if self._is_shown:
            output.talk_apart()
        output.talk(" · ".join(each for each in (f"{output.style(mark[0], fg=mark[1])} {name}", told) if each))
        self._is_shown = self._is_stopping = False
        self._error, self._runs = "", self._runs + 1


def _says_it_was_stopped(event: model.Event) -> bool:
    """Whether an event may only repeat that the run was stopped: an interruption, or a call that it broke off."""
    match event:
        case model.Error(code=code):
            return code == INTERRUPTED
        case model.ToolResult(is_error=is_error):
            return is_error
    return False


def _meter(used: int, most: int) -> str:
    """How much of the context is used, from a share on that matters."""
    percent = min(100, round(100 * used / most)) if most else 0
    if percent < METER_LEAST:
        return ""
    colour = next(colour for least, colour in METER if percent >= least)
    return "context " + output.style(f"{percent} %", fg=colour)


def _came_to(session: Session, turn: model.Turn, tools: int, error: str | None, cost: Cost) -> dict[str, Any]:
    return {
        "kind": model.Complete.kind,
        "session": session.shown_number or session.uid,
        "uid": session.uid,
        "turn": turn.uid,
        "outcome": turn.outcome,
        "success": turn.outcome == model.Outcome.COMPLETED,
        "error": error,
        "agent": turn.agent,
        "model": turn.model,
        "duration_ms": turn.duration_ms,
        **output.cost_as_json(cost),
        "tokens": turn.tokens,
        "tools": tools,
    }


def _fields(event: model.Event) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return {name: value for name, value in fields.items() if name != "kind"}
