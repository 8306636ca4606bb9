"""The prompt of a session's screen: its field, the agent that it is for, its way to that agent, and what is kept."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.containers import Vertical
from textual.message import Message
from textual.worker import get_current_worker

from backstory.cli import output
from backstory.cli.tui import slash
from backstory.cli.tui.asking import ask_line
from backstory.cli.tui.branching import NO_FORK, in_thread
from backstory.cli.tui.sent import TypedText, Unsent, drop, known_for, last_waiting, started, title_of
from backstory.errors import BackstoryError
from backstory.workspace.runs.sending import RunChoice, Way, session_run_by, words_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from backstory.cli.app import App as CommandApp
    from backstory.cli.tui.branching import Fork
    from backstory.cli.tui.prompt_field import PromptField
    from backstory.workspace.runs.prompt_queue import ListedPrompt

POLL_S = 0.1
LEFT_S = 5.0
"""A prompt that is being sent when the screen is closed is waited for so long."""
SENDING = "sending …"


def _nothing() -> None:
    """End no process."""


class PromptBox(Vertical):
    """Writes and sends the prompts of a session, or of a new one. ``is_busy`` says if an agent works on it."""

    DEFAULT_CSS = "PromptBox { height: auto; }"

    class Opened(Message):
        """The field is open, or closed again: its keys count, or the entries' do."""

    class Left(Message):
        """The person left the field; its text is kept."""

    class Said(Message):
        """A sentence for the person."""

        def __init__(self, note: str) -> None:
            super().__init__()
            self.note = note

    class Sent(Message):
        """A prompt was sent. ``uid``: its session; None for a new one that was over before it was seen."""

        def __init__(self, uid: str | None, note: str) -> None:
            super().__init__()
            self.uid, self.note = uid, note

    class Ordered(Message):
        """A command of ours was typed. ``words``: of its command line."""

        def __init__(self, words: list[str]) -> None:
            super().__init__()
            self.words = words

    class _Drafted(Message):
        """A text that was typed before."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, app: CommandApp, uid: str | None, is_busy: Callable[[], bool]) -> None:
        super().__init__()
        self._of, self._uid, self._is_busy = app, uid, is_busy
        self._field: PromptField | None = None
        self._choice, self._fork = RunChoice(), NO_FORK
        self._unsent = self._kept(uid)
        self._presses = Counter[str]()
        self._known: dict[str, list[str]] = {}
        """The agents, permissions and worktrees that keys turn through, once they were asked for."""
        self._stop: Callable[[], object] = _nothing
        """Ends the process that sends the prompt."""
        self.is_sending = False
        """True from Enter until the prompt runs, is queued, or is refused."""

    @property
    def is_open(self) -> bool:
        """True while a prompt is written."""
        return self._field is not None

    def on_mount(self) -> None:
        """Read what was typed for the session."""
        self._unsent.load(lambda text: self._post(self._Drafted(text)))

    def on_unmount(self) -> None:
        """Keep what is typed."""
        if self._field is not None:
            self._keep(self._field.unsent)

    def open(self, earlier: Sequence[str], fork: Fork | None = None) -> None:
        """Open the field, with what was typed before. ``earlier``: the prompts that keys go back to.

        ``fork``: the record that the prompt follows; None: the last one that was asked for, and not sent or left.
        """
        if self._field is not None:
            return
        if self.is_sending:
            self.post_message(self.Said(SENDING))
            return
        from backstory.cli.tui.prompt_field import PromptField  # most sessions are only read

        self._fork = fork or self._fork
        self._field = PromptField(self._unsent.text, earlier)
        self.mount(self._field)
        # At once: letters may follow in the same burst.
        self.screen.set_focus(self._field)
        self._title()
        self.post_message(self.Opened())
        if self._fork.said:
            self.post_message(self.Said(self._fork.said))
        self.look_again(earlier)

    def on_prompt_field_left(self) -> None:
        """Close the field; its text is kept."""
        if self._field is not None:
            self._keep(self._field.unsent)
        if not self.is_sending:
            self._fork = NO_FORK
        self._close()
        self.post_message(self.Left())

    def _close(self) -> None:
        if self._field is not None:
            self._field.remove()
            self._field = None
            self.post_message(self.Opened())

    # what is typed and not sent -------------------------------------------------------------------------------------

    def _kept(self, uid: str | None) -> Unsent:
        return Unsent(TypedText(self._of.home, uid), lambda why: self._post(self.Said(why)))

    def _post(self, message: Message) -> None:
        """Post a message from a thread that may outlive the screen."""
        with suppress(RuntimeError):
            self.post_message(message)

    def on_prompt_box__drafted(self, drafted: _Drafted) -> None:
        """Take what was typed before, in front of what was typed since."""
        if self._field is None:
            self._unsent.text = self._unsent.text or drafted.text
        elif drafted.text:
            self._field.put_before(drafted.text)

    class _Gone(_Drafted):
        """A text that another screen has sent."""

    def look_again(self, prompts: Collection[str]) -> None:
        """Take a text away that is one of the session's prompts by now, if another screen has sent it."""
        if self.typed.strip() in {each.strip() for each in prompts} and not self.is_sending:
            self._unsent.look_again(self.typed, lambda text: self._post(self._Gone(text)))

    @property
    def typed(self) -> str:
        """The text that is typed and not sent."""
        return self._unsent.text if self._field is None else self._field.unsent

    def on_prompt_box__gone(self, gone: _Gone) -> None:
        """Empty the field, unless something was typed since."""
        if gone.text == self.typed and not self.is_sending:
            self._keep("")
            if self._field is not None:
                self._field.load_text("")
                self._say("Another screen has sent it.")

    def on_prompt_field_typed(self, typed: PromptField.Typed) -> None:
        """Keep what is typed."""
        if self._field is not None:
            self._keep(typed.text)

    def _keep(self, text: str) -> None:
        # A prompt that is being sent is kept until it runs, and then no more.
        if not self.is_sending:
            self._unsent.keep(text)

    # sending --------------------------------------------------------------------------------------------------------

    def on_prompt_field_turned(self, turned: PromptField.Turned) -> None:
        """Take the next agent, permissions or worktree, or a model that is asked for."""
        what = turned.what
        if what == "model":
            ask_line(self.app, "Model, as the agent names it:", self._take_model, text=self._choice.model or "")
            return
        self._presses[what] += 1
        if what in self._known:
            self._turn(what)
        elif self._presses[what] == 1:
            learn = partial(known_for, what, self._of.cwd)
            in_thread(self.screen, what, learn, partial(self._learnt, what), partial(self._refused, what))

    def _take_model(self, name: str) -> None:
        self._choose(replace(self._choice, model=name))

    def _learnt(self, what: str, known: list[str]) -> None:
        self._known[what] = known
        if not known:
            self._say(f"There is no other {what} here.")
        self._turn(what)

    def _refused(self, what: str, why: str) -> None:
        self._presses.pop(what)
        self._say(why)

    def _turn(self, what: str) -> None:
        """Turn a choice once for each press of its key, also for those before it was known what there is."""
        for _ in range(self._presses.pop(what)):
            self._choose(self._choice.turned(what, self._known[what]))

    def _choose(self, choice: RunChoice) -> None:
        self._choice = choice
        self._title()

    def _say(self, note: str) -> None:
        self.post_message(self.Said(note))

    def _title(self) -> None:
        if self._field is not None:
            self._field.border_title = f"{self._fork.title}{title_of(self._choice, is_new=self._uid is None)}"

    def on_prompt_field_submitted(self, submitted: PromptField.Submitted) -> None:
        """Send the prompt in a process of its own."""
        if self.is_sending:
            return
        if (ordered := slash.words_of(submitted.text, self._uid)) is not None:
            if self._uid is None:
                self._refuse(f"Type it in a session that is open, or run: backstory {shlex.join(ordered)}")
                return
            self._close()
            self._keep("")
            self.post_message(self.Ordered(ordered))
            return
        way = submitted.way
        if way is Way.STAGE:
            way = Way(self._of.config.settings.screen.enter)
        words = words_for(self._uid, way, self._choice, is_running=self._is_busy(), after=self._fork.seq)
        self._keep(submitted.text)
        self.is_sending = True
        self.post_message(self.Said(SENDING))
        self.run_worker(partial(self._send, words, submitted.text, self._choice.worktree), thread=True, group="send")

    def _send(self, words: list[str], text: str, folder: str | None) -> None:
        """Send a prompt, and wait in this thread until it runs, is queued, or was refused.

        The wait goes on for a while when the screen is closed: a prompt that was sent must not be found as unsent.
        """
        worker, left_s = get_current_worker(), LEFT_S
        uid, said, is_sent = self._uid, "", False
        try:
            with closing(started(self._of, words, text, folder)) as sent, self._of.new_workspace() as workspace:
                self._stop = sent.stop
                while sent.code is None:
                    if (found := session_run_by(workspace, sent.process.pid)) is not None:
                        uid, is_sent = found, True
                        break
                    time.sleep(POLL_S)
                    left_s -= POLL_S if worker.is_cancelled else 0
                    if left_s <= 0:
                        return
                else:
                    said, is_sent = sent.said(), sent.was_taken
        except (BackstoryError, OSError) as refused:
            said = output.one_liner(str(refused))
        if is_sent:
            self._unsent.keep("")
        if not worker.is_cancelled:
            note = said if is_sent else f"It was not sent: {said}"
            self.app.call_from_thread(self._sent, uid, note, is_sent=is_sent)

    def _refuse(self, why: str) -> None:
        if self._field is not None:
            self._field.is_being_sent = False
        self.post_message(self.Said(why))

    def on_prompt_field_taken_back(self) -> None:
        """Take back the prompt that is being sent, or the last one that waits."""
        if self.is_sending:
            self._stop()
        else:
            self.take_back()

    def take_back(self) -> None:
        """Take the last prompt that waits for the session back into the field."""
        if self._uid is not None:
            in_thread(self.screen, "back", partial(last_waiting, self._of, self._uid), self._take_back, self._say)

    def _take_back(self, found: ListedPrompt | None) -> None:
        if found is None:
            self._say("No prompt waits for this session.")
            return
        # It is in the field, and kept, before it waits no more.
        if self._field is not None:
            self._field.put_before(found.prompt.content)
        else:
            self._unsent.text = f"{found.prompt.content}{self._unsent.text}"
            self.open(())
        self._keep(self.typed)
        said = "It waits no more, and is in the field again."
        in_thread(self.screen, "back", partial(drop, self._of, found.prompt.uid), lambda _: self._say(said), self._say)

    def _sent(self, uid: str | None, note: str, *, is_sent: bool) -> None:
        """Close the field; one whose prompt was refused stays open with it."""
        self.is_sending = False
        if not is_sent:
            self._refuse(note)
            return
        note, self._fork = note or self._fork.sent, NO_FORK
        self._close()
        if uid is not None and uid != self._uid:
            self._uid, self._unsent = uid, self._kept(uid)
        self.post_message(self.Sent(uid, note))
