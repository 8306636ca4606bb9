"""One session: its entries, and a line that says how it is."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import get_current_worker

from backstory import agents
from backstory.cli import output
from backstory.cli.tui import actions, blocks
from backstory.cli.tui.actions import PROMPT, SESSION
from backstory.cli.tui.blocks import ShownLine
from backstory.cli.tui.messages import Resumed
from backstory.cli.tui.sent import SentPrompt, TypedText, Unsent, session_run_by, words_for
from backstory.cli.tui.session_pane import SessionPane
from backstory.cli.tui.strips import strip_of
from backstory.cli.views.following import Drawing, answer_lines, storing_machine
from backstory.cli.views.moments import OUTCOMES, RUNNING, meter_words
from backstory.derive.naming import NO_PROMPT
from backstory.errors import BackstoryError
from backstory.model import Permissions
from backstory.workspace.history.following import Following
from backstory.workspace.history.searching import SearchQuery, nothing_found

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.strip import Strip
    from textual.widgets import Input
    from textual.worker import Worker

    from backstory.cli.app import App as CommandApp
    from backstory.cli.tui.blocks import Content, Key
    from backstory.cli.tui.prompt_field import PromptField, WordsField
    from backstory.workspace.history.sessions import ListedSession

TITLE_COLUMNS = 40
HITS_MOST = 1_000
"""The most hits in a session that keys go to."""
POLL_S = 0.1
LEFT_S = 5.0
"""A prompt that is being sent when the screen is closed is waited for so long."""
SENDING = "sending …"


class _Unwanted(Exception):
    """Nobody looks at the session any more."""


class _Stored(Exception):
    """Turns that ended are in the store."""


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

    class _Refused(Message):
        """A text that could not be kept."""

        def __init__(self, why: str) -> None:
            super().__init__()
            self.why = why

    class _Drafted(Message):
        """A text that was typed before."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, app: CommandApp, uid: str | None, goal: int | None = None) -> None:
        super().__init__()
        self._of, self._uid, self._goal = app, uid, goal
        self._field: PromptField | None = None
        self._words: WordsField | None = None
        self._hits: list[Key] = []
        self._at_hit: Key | None = None
        self._choice = RunChoice()
        self._unsent = self._kept(uid)
        self._is_sending = False
        self._seen_live = set[str]()
        """Turns that were found to run, each of which is read anew once."""
        self.pane = SessionPane(app.reader, str(app.user_home), app.workspace.now)
        self._status, self._foot = Bar(), Bar()
        self._note = ""

    def compose(self) -> ComposeResult:
        yield self.pane
        yield self._status
        yield self._foot

    def on_mount(self) -> None:
        """Read the session, and what was typed for it."""
        self._unsent.load(lambda text: self._post(self._Drafted(text)))
        self.pane.focus()
        self._say("")
        if self._uid is None:
            self._status.show(output.style("A new session", bold=True))
            self.action_write()
            return
        self._status.show(output.style("reading …", dim=True))
        self._reload(None if self._goal is None else (self._goal, 0))

    def on_unmount(self) -> None:
        """Keep what is typed."""
        if self._field is not None:
            self._keep(self._field.unsent)

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
                located, ended = workspace.resolve(uid), set[str]()

                def wait(seconds: float) -> None:
                    _pause(worker, seconds)
                    if ended and not following.is_due:
                        stored = {each.uid for each in located.store.turns(located.session) if each.outcome}
                        if ended <= stored:
                            raise _Stored
                        # It is not stored from here: what is shown of it stays.
                        ended.clear()

                following = Following(workspace, located, machine=storing_machine(self._of), wait=wait)
                content = blocks.content_of(self._of.reader, self._of.workspace.resolve(uid))
                self.app.call_from_thread(self._take, content, goal)
                self._follow(worker, following, content, ended)
        except BackstoryError as refused:
            if not worker.is_cancelled:
                self.app.call_from_thread(self._say, output.one_liner(str(refused)))
        except _Stored:
            self.app.call_from_thread(self._reload)
        except _Unwanted:
            return

    def _take(self, content: Content, goal: Key | None) -> None:
        self.pane.show(content, goal)
        self._status.show(status_line(content.transcript.session))

    def _follow(self, worker: Worker[None], following: Following, content: Content, ended: set[str]) -> None:
        """Draw what comes. Turns that end are added to ``ended``, and read anew as soon as they are stored."""
        turns = {each.number: each for each in content.transcript.turns if each.live is None}
        last = content.order[-1] if content.order else None
        drawing = Drawing(
            self._of.workspace.now(), turns, full=False, thinking=False, current=last.turn if last else None,
            folder=content.folder,
        )  # fmt: skip
        settled = 0
        seq = max((each.seq for each in content.order), default=0)
        with closing(following.grown(seq, {each.turn.uid for each in turns.values()})) as grown:
            for each in grown:
                with output.window_of(self.app.size.width):
                    new = _shown(drawing.lines(each))
                    writing = _shown(answer_lines(each.writing, full=False)) if each.writing else []
                if worker.is_cancelled:
                    return
                self.app.call_from_thread(self.pane.grow, content, settled, [*new, *writing])
                settled += len(new)
                ended.update(turn.turn.uid for turn in each.ended)
                begun = {turn.turn.uid for turn in each.turns if turn.live is not None} - self._seen_live
                if begun and not content.transcript.session.is_running:
                    # Another process runs it: keys have to know.
                    self._seen_live |= begun
                    self.app.call_from_thread(self._reload)
                    return

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

    # searching ------------------------------------------------------------------------------------------------------

    def action_find(self) -> None:
        """Open a field for the words to look for."""
        from backstory.cli.tui.prompt_field import WordsField  # most sessions are only read

        if self._words is None:
            self._words = WordsField()
            self.mount(self._words, before=self._status)
            self._words.focus()
            self._say("Enter searches · Esc leaves the field")

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """Search the session."""
        words = submitted.value.strip()
        self._leave_words()
        if words and self._uid is not None:
            self._say("searching …")
            self.run_worker(partial(self._search, self._uid, words), thread=True, group="search", exclusive=True)

    def _leave_words(self) -> None:
        if self._words is not None:
            self._words.remove()
            self._words = None
            self.pane.focus()
            self._say("")

    def on_key(self, event: events.Key) -> None:
        """Leave the field for words."""
        if event.key == "escape" and self._words is not None:
            event.stop()
            self._leave_words()

    def _search(self, uid: str, words: str) -> None:
        worker, query = get_current_worker(), SearchQuery(text=words, session=uid, all_hits=True, limit=HITS_MOST)
        try:
            found = self._of.reader.search(query).findings
        except BackstoryError as refused:
            self.app.call_from_thread(self._say, output.one_liner(str(refused)))
            return
        if not worker.is_cancelled:
            hits = sorted({(each.stored.seq, each.stored.part) for each in found.excerpts})
            self.app.call_from_thread(self._take_hits, words, hits)

    def _take_hits(self, words: str, hits: list[Key]) -> None:
        self._hits, self._at_hit = hits, None
        if not hits:
            self._say(nothing_found(words))
        else:
            self.action_hit(1)

    def action_hit(self, by: int) -> None:
        """Go to the next hit behind the current entry, or to the one before; behind the last is the first."""
        if not self._hits:
            self._say("Nothing was searched for: / searches.")
            return
        if self._at_hit not in self._hits:
            here = self.pane.current or (0, 0)
            behind = next((each for each in self._hits if each >= here), self._hits[0])
            at = self._hits.index(behind) - (by < 0)
        else:
            at = self._hits.index(self._at_hit) + by
        self._at_hit = self._hits[at % len(self._hits)]
        self.pane.go(self._at_hit)
        self._say(f"hit {at % len(self._hits) + 1} of {len(self._hits)} · n next · N before")

    # prompts --------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is written, keys have no other meaning."""
        return (self._field is None and self._words is None) or action not in actions.names(SESSION)

    @property
    def is_busy(self) -> bool:
        """True if an agent is at work on the session."""
        return self.pane.content is not None and self.pane.content.transcript.session.is_running

    def action_write(self) -> None:
        """Open the field for a prompt, with what was typed before."""
        if self._field is not None:
            return
        if self._is_sending:
            self._say(SENDING)
            return
        from backstory.cli.tui.prompt_field import PromptField  # most sessions are only read

        turns = () if self.pane.content is None else self.pane.content.transcript.turns
        earlier = list(dict.fromkeys(each.turn.prompt for each in turns if each.turn.prompt))
        self._field = PromptField(self._unsent.text, earlier)
        self.mount(self._field, before=self._status)
        self._field.focus()
        self._title()
        self._say("")

    def on_prompt_field_left(self) -> None:
        """Close the field; its text is kept."""
        if self._field is not None:
            self._keep(self._field.unsent)
        self._close_field()
        if self._uid is None:
            self.app.pop_screen()

    def _close_field(self) -> None:
        if self._field is not None:
            self._field.remove()
            self._field = None
            self.pane.focus()
            self._say(SENDING if self._is_sending else "")

    # what is typed and not sent -------------------------------------------------------------------------------------

    def _kept(self, uid: str | None) -> Unsent:
        return Unsent(TypedText(self._of.home, uid), lambda why: self._post(self._Refused(why)))

    def _post(self, message: Message) -> None:
        """Post a message from a thread that may outlive the screen."""
        with suppress(RuntimeError):
            self.post_message(message)

    def on_session_screen__refused(self, refused: _Refused) -> None:
        """Show why a text was not kept."""
        self._say(refused.why)

    def on_session_screen__drafted(self, drafted: _Drafted) -> None:
        """Take what was typed before, in front of what was typed since."""
        if self._field is None:
            self._unsent.text = self._unsent.text or drafted.text
        elif drafted.text:
            self._field.put_before(drafted.text)

    def on_prompt_field_typed(self, typed: PromptField.Typed) -> None:
        """Keep what is typed."""
        if self._field is not None:
            self._keep(typed.text)

    def _keep(self, text: str) -> None:
        # A prompt that is being sent is kept until it runs, and then no more.
        if not self._is_sending:
            self._unsent.keep(text)

    def on_prompt_field_turned(self, turned: PromptField.Turned) -> None:
        """Take the next agent, or the next permission."""
        self._choice = self._choice.turned(turned.what)
        self._title()

    def _title(self) -> None:
        if self._field is not None:
            self._field.border_title = self._choice.title(is_new=self._uid is None)

    def on_prompt_field_submitted(self, submitted: PromptField.Submitted) -> None:
        """Send the prompt in a process of its own."""
        if self._is_sending:
            return
        words = words_for(
            self._uid, submitted.way, agent=self._choice.agent, permissions=self._choice.permissions,
            is_running=self.is_busy,
        )  # fmt: skip
        self._keep(submitted.text)
        self._is_sending = True
        self._say(SENDING)
        self.run_worker(partial(self._send, words, submitted.text), thread=True, group="send")

    def _send(self, words: list[str], text: str) -> None:
        """Send a prompt, and wait in this thread until it runs, is queued, or was refused.

        The wait goes on for a while when the screen is closed: a prompt that was sent must not be found as unsent.
        """
        worker, left_s = get_current_worker(), LEFT_S
        uid, said = self._uid, ""
        try:
            with (
                closing(SentPrompt(self._of, words, text)) as sent,
                self._of.new_workspace() as workspace,
            ):
                while (code := sent.code) is None:
                    if (found := session_run_by(workspace, sent.process.pid)) is not None:
                        uid, code = found, 0
                        break
                    time.sleep(POLL_S)
                    left_s -= POLL_S if worker.is_cancelled else 0
                    if left_s <= 0:
                        return
                else:
                    said = sent.said()
        except (BackstoryError, OSError) as refused:
            code, said = 1, output.one_liner(str(refused))
        if not code:
            self._unsent.keep("")
        if not worker.is_cancelled:
            self.app.call_from_thread(self._sent, uid, f"It was not sent: {said}" if code else said, is_sent=not code)

    def _sent(self, uid: str | None, note: str, *, is_sent: bool) -> None:
        """Follow the session that a prompt was sent to; one that was refused stays in its field."""
        self._is_sending = False
        if not is_sent:
            if self._field is not None:
                self._field.is_being_sent = False
            self._say(note)
            return
        self._close_field()
        if uid is None:
            # The new session was over before it was seen: it is in the list.
            self.app.pop_screen()
            return
        if uid != self._uid:
            self._uid, self._unsent = uid, self._kept(uid)
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
    if worker.cancelled_event.wait(seconds):
        raise _Unwanted


def _shown(lines: Iterable[str]) -> list[ShownLine]:
    """Each line for itself: a drawn one may hold several."""
    return [ShownLine(part) for line in lines for part in line.split("\n")]


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
