"""One session: its entries, and a line that says how it is."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.screen import Screen

from backstory.cli import output
from backstory.cli.output import MARGIN
from backstory.cli.tui import actions, slash
from backstory.cli.tui.actions import LINE, PROMPT, SESSION
from backstory.cli.tui.asking import ask_to_go_on
from backstory.cli.tui.bars import Bar, TaskList, cost_of_today, status_line
from backstory.cli.tui.branching import fork_at, in_thread
from backstory.cli.tui.messages import EndSeen, Resumed
from backstory.cli.tui.painting import hold, let_go
from backstory.cli.tui.prompt_box import SENDING, PromptBox
from backstory.cli.tui.session_feed import SessionFeed
from backstory.cli.tui.session_pane import SessionPane
from backstory.cli.tui.slots import SlotBar
from backstory.cli.tui.strips import note_lines
from backstory.workspace.history.searching import SearchQuery, nothing_found

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.widgets import Input

    from backstory.cli.app import App as CommandApp
    from backstory.cli.tui.blocks import SessionView, ShownLine
    from backstory.cli.tui.branching import Fork
    from backstory.cli.tui.prompt_field import WordsField
    from backstory.cli.tui.tree_screen import TreePlace
    from backstory.workspace.history.blocks import Content, Key

COMMAND_COLUMNS_LEAST = 40
"""The fewest columns that a command of ours is told to have."""
HITS_MOST = 1_000
"""The most hits in a session that keys go to."""


class SessionScreen(Screen[None]):
    """A session as it is, and as it grows. ``uid``: None for a new one that has no session yet.

    ``goal``: the record that has to be seen first; None for the end.
    """

    BINDINGS: ClassVar = actions.bindings(SESSION)

    @property
    def place(self) -> str:
        """The place whose keys count now."""
        return PROMPT if self._prompt.is_open else SESSION

    def __init__(self, app: CommandApp, uid: str | None, goal: int | None = None) -> None:
        super().__init__()
        self._of, self.uid, self._goal = app, uid, goal
        self._words: WordsField | None = None
        self._sought: WordsField | None = None
        """The field whose words are being looked for."""
        self._hits: list[Key] = []
        self._at_hit: Key | None = None
        self.pane = SessionPane(app.reader, str(app.user_home), app.workspace.now)
        self._feed = SessionFeed(app, self, self._call)
        self._prompt = PromptBox(app, uid, lambda: self.is_busy)
        self.tasks, self._status, self._foot = TaskList(), Bar(), Bar()
        self._today = ""
        """The cost of today."""
        self.waiting: list[events.Key] | None = None
        """Keys that are meant for a field which is about to open."""
        self._note = ""

    def compose(self) -> ComposeResult:
        yield SlotBar()
        yield self.pane
        yield self.tasks
        yield self._prompt
        yield self._status
        yield self._foot

    def on_mount(self) -> None:
        """Read the session."""
        self.set_focus(self.pane)
        self.say("")
        if self.uid is None:
            self._status.show(output.style("A new session", bold=True))
            self.action_write()
            return
        self._status.show(output.style("reading …", dim=True))
        self.reload(None if self._goal is None else (self._goal, 0))

    def on_resize(self) -> None:
        """Fit the lines to the width."""
        self.say(self._note)
        self._show_status()

    # what the feed shows --------------------------------------------------------------------------------------------

    @property
    def columns(self) -> int:
        """The width of the screen."""
        return self.app.size.width

    def say(self, note: str) -> None:
        """Show a sentence at the foot; '' for the keys."""
        self._note = note
        self._foot.show("\n".join(note_lines(note, self.columns)) if note else actions.foot(self.place, self.columns))

    def on_bar_clicked(self) -> None:
        """Show the keys again in place of a sentence."""
        if self._note and self._words is None:
            self.say("")

    def refuse(self, why: str) -> None:
        """Say why the session cannot be read."""
        if self.pane.content is None:
            self._status.show("")
        self.say(why)

    def look_at(self) -> tuple[SessionView, int]:
        """The way the session is looked at, and how many lines are seen of it: 0 before the screen is laid out."""
        return self.pane.view_of(self.columns), self.pane.size.height

    def look(self, lines: Sequence[ShownLine]) -> None:
        """Show the end of the session until it is read."""
        self.pane.look(lines)
        self._status.show(output.style("reading what is before …", dim=True))

    def take(self, content: Content, goal: Key | None) -> None:
        """Show the session as it is stored, at an entry or at its end."""
        self.pane.show(content, goal)
        self._show_status()
        if not content.transcript.session.is_running:
            self.tasks.show_tasks(())
        turns = [each.turn for each in content.transcript.turns]
        self.see_end([each.uid for each in turns[-1:] if each.outcome])
        self._prompt.look_again({each.prompt for each in turns if each.prompt})
        in_thread(self, "today", partial(cost_of_today, self._of), self._take_today, self.say)

    def see_end(self, turns: Collection[str]) -> None:
        """Note that the ends of turns are on the screen: they are no news when it is closed."""
        if self.uid is not None:
            self.post_message(EndSeen(self.uid, turns))

    def _take_today(self, cost: str) -> None:
        self._today = cost
        self._show_status()

    def _show_status(self) -> None:
        if self.pane.content is not None:
            self._status.show(status_line(self.pane.content.transcript, self._today, self.columns))

    def reload(self, goal: Key | None = None) -> None:
        """Read the session anew, and follow it."""
        if self.uid is not None:
            work = partial(self._feed.run, self.uid, goal)
            self.run_worker(work, thread=True, group="session", exclusive=True)

    def _call(self, what: Callable[..., object], *given: object) -> None:
        self.app.call_from_thread(what, *given)

    # actions --------------------------------------------------------------------------------------------------------

    def action_close(self) -> None:
        """Go back to the sessions."""
        self.app.pop_screen()

    def action_unfold(self) -> None:
        """Open an entry, or fold it."""
        if self.pane.current is None:
            self.say("Choose an entry with ↑ ↓ first.")
        else:
            self.pane.toggle()

    def action_thinking(self) -> None:
        """Show or hide what the model thought."""
        self.say("Thinking is shown." if self.pane.toggle_thinking() else "Thinking is hidden.")

    def action_copy(self) -> None:
        """Copy the current entry."""
        if self.pane.current is None:
            self.say("Choose an entry with ↑ ↓ first.")
        else:
            in_thread(self, "copy", self.pane.text_of_current, self._copy, self.say)

    def _copy(self, text: str) -> None:
        self.app.copy_to_clipboard(text)
        self.say(f"{output.counted(len(text), 'character')} sent to the terminal's clipboard (OSC 52).")

    def action_resume(self) -> None:
        """Resume the session in its own agent."""
        if self.uid is not None:
            self.post_message(Resumed(self.uid))

    def action_branches(self) -> None:
        """Show the session's branches."""
        from backstory.cli.tui.tree_screen import TreeScreen  # most sessions are only read

        if self.uid is not None:
            hold(self)
            self.app.push_screen(TreeScreen(self._of, self.uid), self._come_back)

    def _come_back(self, to: TreePlace | None) -> None:
        """Go where the person went from the branches; the session may be another one since."""
        if to is not None and to.uid != self.uid:
            self.app.switch_screen(SessionScreen(self._of, to.uid, to.seq))
        elif to is not None:
            if to.seq is not None:
                self.pane.go((to.seq, 0))
            self.reload(None if to.seq is None else (to.seq, 0))
            if to.fork is not None:
                self._fork(to.uid, to.fork)

    def action_fork(self) -> None:
        """Write a prompt that follows the current entry, as a branch of its own."""
        if self.pane.current is None or self.uid is None:
            self.say("Choose an entry with ↑ ↓ first.")
        else:
            self._fork(self.uid, self.pane.current[0])

    def _fork(self, uid: str, seq: int) -> None:
        def found(fork: Fork) -> None:
            waited, self.waiting = self.waiting or [], None
            self.action_write(fork)
            for key in waited:
                self.app.post_message(key)

        def refused(why: str) -> None:
            self.waiting = None
            self.say(why)

        self.waiting = []
        in_thread(self, "fork", partial(fork_at, self._of, uid, seq), found, refused)

    def action_export(self) -> None:
        """Write the session to a file."""
        from backstory.cli.tui import session_files  # most sessions are only read

        if self.uid is not None and self.pane.content is not None:
            session_files.export(self, self._of, self.uid, self.pane.content.transcript.session.heading, self.say)

    def action_compact(self) -> None:
        """Have the beginning of the session summarised."""
        from backstory.cli.tui import session_files  # most sessions are only read

        if self.uid is not None:
            session_files.compact(self, self._of, self.uid, self.say, self.reload)

    # searching ------------------------------------------------------------------------------------------------------

    def action_find(self) -> None:
        """Open a field for the words to look for."""
        from backstory.cli.tui.prompt_field import WordsField  # most sessions are only read

        if self._words is None:
            self._end_search()
            self._words = WordsField()
            self.mount(self._words, before=self._prompt)
            # At once: letters may follow in the same burst.
            self.set_focus(self._words)
            self._foot.show(actions.foot(LINE, self.columns))

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """Search the session."""
        words, field = submitted.value.strip(), self._words
        if field is None or not words or self.uid is None:
            self._leave_words()
            return
        # It stays until there is a place to show: the session would be painted without it, and again at that place.
        field.can_focus = False
        self._sought, self._words = field, None
        self.set_focus(self.pane)
        self.pane.is_sought = True
        hold(self)
        self.say("searching …")
        query = SearchQuery(text=words, session=self.uid, all_hits=True, limit=HITS_MOST)
        in_thread(self, "search", partial(self._hits_of, query), partial(self._take_hits, words), self._find_none)

    def _end_search(self) -> None:
        self.pane.is_sought = False
        if self._sought is not None:
            self._sought.remove()
            self._sought = None

    def _leave_words(self) -> None:
        if self._words is not None:
            self._words.remove()
            self._words = None
            self.set_focus(self.pane)
            self.say("")

    def on_key(self, event: events.Key) -> None:
        """Leave the field for words."""
        if event.key == "escape" and self._words is not None:
            event.stop()
            self._leave_words()

    def _hits_of(self, query: SearchQuery) -> list[Key]:
        found = self._of.reader.search(query).findings
        return sorted({(each.stored.seq, each.stored.part) for each in found.excerpts})

    def _take_hits(self, words: str, hits: list[Key]) -> None:
        self._hits, self._at_hit = hits, None
        self._end_search()
        if not hits:
            self._find_none(nothing_found(words))
        else:
            self.action_hit(1)

    def _find_none(self, why: str) -> None:
        self._end_search()
        self.say(why)
        let_go(self)

    def action_hit(self, by: int) -> None:
        """Go to the next hit behind the current entry, or to the one before; behind the last is the first."""
        if not self._hits:
            self.say("Nothing was searched for: / searches.")
            return
        if self._at_hit not in self._hits:
            here = self.pane.current or (0, 0)
            behind = next((each for each in self._hits if each >= here), self._hits[0])
            at = self._hits.index(behind) - (by < 0)
        else:
            at = self._hits.index(self._at_hit) + by
        self._at_hit = self._hits[at % len(self._hits)]
        self.pane.go(self._at_hit)
        self.say(f"hit {at % len(self._hits) + 1} of {len(self._hits)} · n next · N before")

    # prompts --------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is written, keys have no other meaning."""
        return (not self._prompt.is_open and self._words is None) or action not in actions.names(SESSION)

    @property
    def is_busy(self) -> bool:
        """True if an agent is at work on the session."""
        return self.pane.content is not None and self.pane.content.transcript.session.is_running

    def action_write(self, fork: Fork | None = None) -> None:
        """Open the field for a prompt, with what was typed before. ``fork``: for one that follows another record."""
        if self._words is not None:
            return
        turns = () if self.pane.content is None else self.pane.content.transcript.turns
        self._prompt.open(list(dict.fromkeys(each.turn.prompt for each in turns if each.turn.prompt)), fork)

    def on_prompt_box_opened(self) -> None:
        """Have the keys of the field count, or those of the entries."""
        if not self._prompt.is_open:
            self.set_focus(self.pane)
        self.say(SENDING if self._prompt.is_sending else "")

    def on_prompt_box_said(self, said: PromptBox.Said) -> None:
        """Show a sentence about the prompt."""
        self.say(said.note)

    def on_prompt_box_ordered(self, ordered: PromptBox.Ordered) -> None:
        """Run a command of ours, after what it asks."""
        words = ordered.words
        if (question := slash.offer(self._of, words)) is None:
            self._order(words)
            return
        ask_to_go_on(self.app, question, lambda goes_on: self._order(slash.answered(self._of, words, goes_on=goes_on)))

    def _order(self, words: list[str]) -> None:
        """Run a command of ours; its lines become an entry."""
        said = f"backstory {shlex.join(words)}"
        self.say(f"{said} …")

        def done(lines: list[str]) -> None:
            self.pane.add(
                [
                    "",
                    output.style(f"{MARGIN}$ {output.one_liner(said)}", bold=True),
                    *(f"{MARGIN}{line}" for line in lines),
                    "",
                ]
            )
            self.say("")

        columns = max(self.pane.size.width - len(MARGIN) - 2, COMMAND_COLUMNS_LEAST)
        in_thread(self, "command", partial(slash.lines_of, self._of, words, columns), done, self.say)

    def on_prompt_box_left(self) -> None:
        """Leave a new session for which nothing was sent."""
        if self.uid is None:
            self.app.pop_screen()

    def on_prompt_box_sent(self, sent: PromptBox.Sent) -> None:
        """Follow the session that a prompt was sent to."""
        if sent.uid is None:
            # The new session was over before it was seen: it is in the list.
            self.app.pop_screen()
            return
        self.uid = sent.uid
        self.pane.action_ends("end")
        self.say(sent.note)
        self.reload()

    def action_back(self) -> None:
        """Take the last prompt that waits back into the field."""
        self._prompt.take_back()

    def action_cancel(self) -> None:
        """Stop the agent that runs."""
        if not self.is_busy:
            self.say("Nothing runs here.")
        elif self.uid is not None:
            self.say("stopping …")
            in_thread(self, "cancel", partial(self._cancelled, self.uid), self.say, self.say)

    def _cancelled(self, uid: str) -> str:
        with self._of.new_workspace() as workspace:
            cancelled = workspace.scheduler.cancel(workspace.resolve(uid))
        return "Stopped; its output is kept." if cancelled.was_running else "Nothing runs here."
