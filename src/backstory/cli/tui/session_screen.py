"""One session: its entries, and a line that says how it is."""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import get_current_worker

from backstory import agents
from backstory.cli import output
from backstory.cli.tui import actions, blocks
from backstory.cli.tui.actions import PROMPT, SESSION
from backstory.cli.tui.blocks import ShownLine
from backstory.cli.tui.messages import Resumed
from backstory.cli.tui.sent import SentPrompt, TypedText, session_run_by, words_for
from backstory.cli.tui.session_pane import SessionPane
from backstory.cli.tui.strips import strip_of
from backstory.cli.views.following import Drawing, answer_lines
from backstory.cli.views.moments import OUTCOMES, RUNNING, meter_words
from backstory.derive.naming import NO_PROMPT
from backstory.errors import BackstoryError
from backstory.model import Permissions
from backstory.workspace.history.following import Following

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.strip import Strip
    from textual.worker import Worker

    from backstory.cli.app import App as CommandApp
    from backstory.cli.tui.blocks import Content, Key
    from backstory.cli.tui.prompt_field import PromptField
    from backstory.workspace.history.sessions import ListedSession

TITLE_COLUMNS = 40
POLL_S = 0.1
PAUSE_S = 0.01
"""The longest that a thread sleeps before it looks whether it is wanted still."""


class _Unwanted(Exception):
    """Nobody looks at the session any more."""


class RunChoice(Struct, frozen=True, kw_only=True):
    """The agent that a prompt is for, and what that may do unasked; None: as the settings say."""

    agent: str | None = None
    permissions: str | None = None

    def turned(self, what: str) -> RunChoice:
        """The same with the next agent that can run, or the next permission."""
        if what == "agent":
            able = [name for name in agents.names() if _can_run(name)]
            return replace(self, agent=_next(able, self.agent))
        return replace(self, permissions=_next([each.value for each in Permissions], self.permissions))

    def title(self, *, is_new: bool) -> str:
        """The choice in a line."""
        agent = self.agent or ("the agent of the settings" if is_new else "the agent of the last turn")
        return f"to {agent} · may do unasked: {self.permissions or 'as in the settings'}"


def _next(known: Sequence[str], now: str | None) -> str | None:
    """The next of several values; behind the last one none."""
    at = known.index(now) + 1 if now in known else 0
    return known[at] if at < len(known) else None


def _can_run(name: str) -> bool:
    try:
        return agents.load(name).run is not None
    except BackstoryError:
        return False


class Bar(Widget):
    """A line of text."""

    DEFAULT_CSS = "Bar { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def show(self, text: str) -> None:
        """Show a text, with the marks of ``output.style``."""
        if text != self._text:
            self._text = text
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return the line."""
        return strip_of(output.cut(self._text, self.size.width), self.size.width).apply_style(self.rich_style)


class SessionScreen(Screen[None]):
    """A session as it is, and as it grows. ``goal``: the record that has to be seen first; None for the end."""

    BINDINGS: ClassVar = actions.bindings(SESSION)

    place = SESSION

    def __init__(self, app: CommandApp, uid: str | None, goal: int | None = None) -> None:
        super().__init__()
        self._of, self._uid, self._goal = app, uid, goal
        self._field: PromptField | None = None
        self._choice = RunChoice()
        self._unsent, self._keeping = "", threading.Lock()
        self.pane = SessionPane(app.reader, str(app.user_home), app.workspace.now)
        self._status, self._foot = Bar(), Bar()
        self._note = ""

    def compose(self) -> ComposeResult:
        yield self.pane
        yield self._status
        yield self._foot

    def on_mount(self) -> None:
        """Read the session."""
        self.pane.focus()
        self._say("")
        if self._uid is None:
            self._status.show(output.style("A new session", bold=True))
            self.action_write()
            return
        self._status.show(output.style("reading …", dim=True))
        self._reload(None if self._goal is None else (self._goal, 0))

    def on_resize(self) -> None:
        """Fit the foot to the width."""
        self._say(self._note)

    def _say(self, note: str) -> None:
        """Show a sentence at the foot; '' for the keys."""
        self._note = note
        columns, place = self.app.size.width, SESSION if self._field is None else PROMPT
        self._foot.show(
            output.style(output.one_line(note, columns), bold=True) if note else actions.foot(place, columns)
        )

    # reading and following ------------------------------------------------------------------------------------------

    def _reload(self, goal: Key | None = None) -> None:
        if self._uid is not None:
            self.run_worker(partial(self._read, self._uid, goal), thread=True, group="session", exclusive=True)

    def _read(self, uid: str, goal: Key | None) -> None:
        """Read the session in a thread of its own, then follow it."""
        worker = get_current_worker()
        try:
            # What follows lets go of its store between two looks, so it has one of its own.
            with self._of.new_workspace() as workspace:
                following = Following(workspace, workspace.resolve(uid), wait=partial(_pause, worker))
                content = blocks.content_of(self._of.reader, self._of.workspace.resolve(uid))
                self.app.call_from_thread(self._take, content, goal)
                self._follow(worker, following, content)
        except BackstoryError as refused:
            if not worker.is_cancelled:
                self.app.call_from_thread(self._say, output.one_liner(str(refused)))
        except _Unwanted:
            return

    def _take(self, content: Content, goal: Key | None) -> None:
        self.pane.show(content, goal)
        self._status.show(status_line(content.transcript.session))

    def _follow(self, worker: Worker[None], following: Following, content: Content) -> None:
        """Draw what comes; a turn that ends is read anew, with everything that is stored of it."""
        turns = {each.number: each for each in content.transcript.turns if each.live is None}
        last = content.order[-1] if content.order else None
        drawing = Drawing(
            self._of.workspace.now(), turns, full=False, thinking=False, current=last.turn if last else None,
            folder=content.folder,
        )  # fmt: skip
        shown = list[str]()
        seq = max((each.seq for each in content.order), default=0)
        with closing(following.grown(seq, {each.turn.uid for each in turns.values()})) as grown:
            for each in grown:
                with output.window_of(self.app.size.width):
                    shown += drawing.lines(each)
                    writing = answer_lines(each.writing, full=False) if each.writing else []
                if worker.is_cancelled:
                    return
                self.app.call_from_thread(self._grow, [*shown, *writing])
                if each.ended:
                    self.app.call_from_thread(self._reload)
                    return

    def _grow(self, lines: Sequence[str]) -> None:
        self.pane.grow([ShownLine(part) for line in lines for part in line.split("\n")])

    # actions --------------------------------------------------------------------------------------------------------

    def action_close(self) -> None:
        """Go back to the sessions."""
        self.app.pop_screen()

    def action_unfold(self) -> None:
        """Open an entry, or fold it."""
        if self.pane.current is None:
            self._say("Choose an entry with ↑ ↓ first.")
        else:
            self.pane.toggle()

    def action_thinking(self) -> None:
        """Show or hide what the model thought."""
        self._say("Thinking is shown." if self.pane.toggle_thinking() else "Thinking is hidden.")

    def action_copy(self) -> None:
        """Copy the current entry."""
        if self.pane.current is None:
            self._say("Choose an entry with ↑ ↓ first.")
        else:
            self.run_worker(self._copy, thread=True, group="copy", exclusive=True)

    def _copy(self) -> None:
        try:
            text = self.pane.text_of_current()
        except BackstoryError as refused:
            self.app.call_from_thread(self._say, output.one_liner(str(refused)))
            return
        self.app.call_from_thread(self.app.copy_to_clipboard, text)
        said = f"{output.counted(len(text), 'character')} sent to the terminal's clipboard (OSC 52)."
        self.app.call_from_thread(self._say, said)

    def action_resume(self) -> None:
        """Resume the session in its own agent."""
        if self._uid is not None:
            self.post_message(Resumed(self._uid))

    # prompts --------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a prompt is written, keys have no other meaning."""
        return self._field is None or action not in actions.names(SESSION)

    @property
    def is_busy(self) -> bool:
        """True if an agent is at work on the session."""
        return self.pane.content is not None and self.pane.content.transcript.session.is_running

    def action_write(self) -> None:
        """Open the field for a prompt, with what was typed before."""
        if self._field is not None:
            return
        from backstory.cli.tui.prompt_field import PromptField  # most sessions are only read

        turns = () if self.pane.content is None else self.pane.content.transcript.turns
        earlier = list(dict.fromkeys(each.turn.prompt for each in turns if each.turn.prompt))
        self._field = PromptField(TypedText(self._of.home, self._uid).read(), earlier)
        self.mount(self._field, before=self._status)
        self._field.focus()
        self._title()
        self._say("")

    def on_prompt_field_left(self) -> None:
        """Close the field; its text is kept."""
        self._close_field(None if self._field is None else self._field.text)
        if self._uid is None:
            self.app.pop_screen()

    def _close_field(self, text: str | None) -> None:
        """Take the field away, and keep a text for it."""
        if self._field is not None:
            self._keep(text or "")
            self._field.remove()
            self._field = None
            self.pane.focus()
            self._say("")

    def on_prompt_field_typed(self, typed: PromptField.Typed) -> None:
        """Keep what is typed."""
        if self._field is not None:
            self._keep(typed.text)

    def _keep(self, text: str) -> None:
        self._unsent = text

        def keep() -> None:
            try:
                with self._keeping:
                    # The last text counts, whichever thread comes last.
                    TypedText(self._of.home, self._uid).keep(self._unsent)
            except BackstoryError as refused:
                self.app.call_from_thread(self._say, output.one_liner(str(refused)))

        self.run_worker(keep, thread=True, group="draft", exclusive=True)

    def on_prompt_field_turned(self, turned: PromptField.Turned) -> None:
        """Take the next agent, or the next permission."""
        self._choice = self._choice.turned(turned.what)
        self._title()

    def _title(self) -> None:
        if self._field is not None:
            self._field.border_title = self._choice.title(is_new=self._uid is None)

    def on_prompt_field_submitted(self, submitted: PromptField.Submitted) -> None:
        """Send the prompt in a process of its own."""
        words = words_for(
            self._uid, submitted.way, agent=self._choice.agent, permissions=self._choice.permissions,
            is_running=self.is_busy,
        )  # fmt: skip
        self._say("sending …")
        self.run_worker(partial(self._send, words, submitted.text), thread=True, group="send", exclusive=True)

    def _send(self, words: list[str], text: str) -> None:
        """Send a prompt, and wait in this thread until it runs, is queued, or was refused."""
        worker = get_current_worker()
        try:
            with (
                closing(SentPrompt(self._of, words, text)) as sent,
                self._of.new_workspace() as workspace,
            ):
                while (code := sent.code) is None:
                    if (uid := session_run_by(workspace, sent.process.pid)) is not None:
                        self.app.call_from_thread(self._begun, uid)
                        return
                    _pause(worker, POLL_S)
                said = sent.said()
        except OSError as refused:
            self.app.call_from_thread(self._say, f"It was not sent: {refused.strerror or refused}")
            return
        except _Unwanted:
            return
        if code:
            self.app.call_from_thread(self._say, f"It was not sent: {said}")
        else:
            self.app.call_from_thread(self._begun, self._uid, said)

    def _begun(self, uid: str | None, note: str = "") -> None:
        """Take away the text that was sent, and follow the session."""
        self._close_field("")
        self._uid = uid
        self.pane.action_ends("end")
        self._say(note)
        self._reload()

    def action_cancel(self) -> None:
        """Stop the agent that runs."""
        if not self.is_busy:
            self._say("Nothing runs here.")
        elif self._uid is not None:
            self._say("stopping …")
            self.run_worker(partial(self._cancel, self._uid), thread=True, group="cancel", exclusive=True)

    def _cancel(self, uid: str) -> None:
        try:
            with self._of.new_workspace() as workspace:
                cancelled = workspace.scheduler.cancel(workspace.resolve(uid))
            said = "Stopped; its output is kept." if cancelled.was_running else "Nothing runs here."
        except BackstoryError as refused:
            said = output.one_liner(str(refused))
        self.app.call_from_thread(self._say, said)


def _pause(worker: Worker[None], seconds: float) -> None:
    """Sleep, and end the thread's work where nobody wants it any more."""
    import time

    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if worker.is_cancelled:
            raise _Unwanted
        time.sleep(min(left, PAUSE_S))
    if worker.is_cancelled:
        raise _Unwanted


def status_line(session: ListedSession) -> str:
    """A session in a line: its state, number and title, agent, model, context and cost."""
    mark, colour = OUTCOMES.get(RUNNING if session.is_running else session.outcome or "", ("", ""))
    state = "running" if session.is_running else session.outcome or ""
    named = f"{session.number or session.label} {session.heading or NO_PROMPT}"
    facts = [", ".join(session.agents), state, output.counted(session.turns, "turn"), session.cost.known]
    full, fill_colour = meter_words(session.meter)
    context = output.style(f" · context {full}", fg=fill_colour) if full else ""
    start = f"{output.style(mark, fg=colour)} " if mark else ""
    title = output.style(output.one_line(named, TITLE_COLUMNS), bold=True)
    return f"{start}{title} · {' · '.join(each for each in facts if each)}{context}"
