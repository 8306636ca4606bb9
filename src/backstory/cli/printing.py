"""What a run prints while it goes on: for people, or as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from backstory import model
from backstory.cli import output
from backstory.cli.list_command import MARKS
from backstory.conversation.compact import without_wrapping
from backstory.derive.essence import without_terminal_codes

if TYPE_CHECKING:
    from backstory.derive.pricing import Cost
    from backstory.runs.runner import Finished
    from backstory.runs.stream import Shown
    from backstory.store import Session
    from backstory.store.queue import Text

METER = ((90, "red"), (60, "yellow"), (0, "green"))
NAME_COLUMNS = 30
TOLD_COLUMNS_LEAST = 12
CALLS_KNOWN_MAX = 1_000
"""So many calls are remembered until their results come."""
DEEPER = " " * 5
"""``show`` has a column for records' numbers, which a run does not know yet."""


class Printer(Protocol):
    """Shows one run after the other."""

    def prompt(self, text: Text) -> None:
        """Say that what waited is run now."""

    def show(self, shown: Shown) -> None:
        """Show what comes."""

    def end(self, session: Session, finished: Finished, context_max: int, cost: Cost) -> None:
        """Say what a run came to."""

    def end_elsewhere(self, session: Session, turn: model.Turn, tools: int, error: str | None, cost: Cost) -> None:
        """Say what a run came to that another process has done."""


def printer_for(*, as_json: bool) -> Printer:
    """What prints runs."""
    return _JsonPrinter() if as_json else _TextPrinter()


class _JsonPrinter:
    """Unified events as JSON lines, each whole; deltas are for people."""

    def prompt(self, text: Text) -> None:
        self._line({"kind": model.UserMessage.kind, "content": text.content, "turn": text.uid})

    def show(self, shown: Shown) -> None:
        for event in shown.events:
            if not isinstance(event, model.Complete):
                self._line({"kind": event.kind, **_fields(event)})

    def end(self, session: Session, finished: Finished, context_max: int, cost: Cost) -> None:
        told = _came_to(session, finished.turn, finished.tools, finished.error, cost)
        self._line({**told, "context_chars": finished.context_chars, "context_max": context_max})

    def end_elsewhere(self, session: Session, turn: model.Turn, tools: int, error: str | None, cost: Cost) -> None:
        self._line(_came_to(session, turn, tools, error, cost))

    def _line(self, value: dict[str, Any]) -> None:
        output.json_line(value)


class _TextPrinter:
    """Text as it comes, tools folded to a line with their result, errors as messages of the system."""

    def __init__(self) -> None:
        self._streamed = ""
        """The answer as far as it was shown before it was told whole."""
        self._is_line_open = False
        self._call: model.ToolCall | None = None
        """The call whose line is still open, for its result."""
        self._calls: dict[str, model.ToolCall] = {}
        """Those that wait for their results, by their ids."""
        self._used = 0
        self._error = ""
        self._unknown = 0
        """Records that nobody understood so far: told at the end, and shown by ``show --full``."""

    def prompt(self, text: Text) -> None:
        # Told beside the data, as the end of each run is.
        output.talk(f"{output.style('❯', fg='cyan')} {output.one_line(text.content, max(output.width() - 2, 20))}")

    def show(self, shown: Shown) -> None:
        if shown.delta:
            if self._call is not None:
                self._end_line()
            self._streamed += shown.delta
            self._print(shown.delta)
        for event in shown.events:
            self._event(event)

    def _event(self, event: model.Event) -> None:
        match event:
            case model.Thinking() | model.Init() | model.Complete():
                return
            case model.Unknown():
                self._unknown += 1
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
                from backstory.cli.show_command import event_lines

                self._error = event.message if isinstance(event, model.Error) else self._error
                self._end_line()
                for line in event_lines(None, event, full=False):
                    output.data(line.removeprefix(DEEPER))

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
        from backstory.cli.show_command import call_words  # a run without calls needs none of it

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
        self._is_line_open = not text.endswith("\n") if text else self._is_line_open

    def _end_line(self) -> None:
        if self._is_line_open:
            output.data()
        self._is_line_open, self._call = False, None

    def end(self, session: Session, finished: Finished, context_max: int, cost: Cost) -> None:
        self._end_line()
        turn, error = finished.turn, finished.error or ""
        if error and error != self._error:
            self._event(model.Error(message=error))
        percent = min(100, round(100 * finished.context_chars / context_max)) if context_max else 0
        colour = next(colour for least, colour in METER if percent >= least)
        facts = [
            output.duration(turn.duration_ms),
            "" if cost.low_usd is None else output.money(cost),
            f"{finished.tools} tool{'s' * (finished.tools != 1)}",
            "context " + output.style(f"{percent} %", fg=colour),
            f"{self._unknown} not understood" if self._unknown else "",
            turn.outcome if turn.outcome != model.Outcome.COMPLETED else "",
            output.one_line(error, max(output.width() // 2, TOLD_COLUMNS_LEAST)),
        ]
        self._unknown = 0
        self._conclude(session, turn, " · ".join(fact for fact in facts if fact))

    def end_elsewhere(self, session: Session, turn: model.Turn, tools: int, error: str | None, cost: Cost) -> None:
        self._end_line()
        name = session.shown_number or session.uid[:12]
        self._conclude(
            session,
            turn,
            f"{turn.outcome or model.Outcome.CRASHED}: another process ran it. See: "
            f"backstory show {name} @{turn.first_seq}",
        )

    def _conclude(self, session: Session, turn: model.Turn, told: str) -> None:
        mark = MARKS.get(turn.outcome or "", MARKS["crashed"])
        output.talk(f"{session.shown_number or session.uid[:12]} {output.style(mark[0], fg=mark[1])} {told}")


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
