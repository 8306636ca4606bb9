"""Everything that keys do: one table, which fills the bindings of the screens, the palette and the help."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from textual import events
from textual.binding import Binding

from backstory.cli import output

ANYWHERE, SESSIONS, FIELD, SESSION, PANE, PROMPT = "anywhere", "sessions", "field", "session", "pane", "prompt"
QUESTION, LINE, REPORTS, TREE, COMPARED = "question", "line", "reports", "tree", "compared"
"""The places of keys; those of ANYWHERE count in each of them but in fields, which take letters.

PANE: the entries of a session, whose keys are of SESSION too."""
CALLED_WITH_KEY = "(key)"
MENU = "command_palette"
"""The action that shows all others of a place: the way to each of them for who has only a mouse."""
TAKE_LETTERS = (FIELD, PROMPT, QUESTION, LINE)


class KeyAction(NamedTuple):
    """The meaning of keys. ``name``: the screen does it by its method ``action_NAME``; ``keys``: by Textual's names.

    ``name`` with ``(key)`` is called with the key.
    """

    place: str
    name: str
    keys: str
    shown: str
    """The keys as a person reads them."""
    help: str
    label: str = ""
    """A word for the foot of the screen; '' leaves it to the help."""

    @property
    def is_called_with_key(self) -> bool:
        """True if each key does it in its own way."""
        return self.name.endswith(CALLED_WITH_KEY)


ACTIONS = (
    KeyAction(SESSIONS, "open", "enter", "Enter", "Open the session, at the place that was found", "open"),
    KeyAction(SESSIONS, "move('down')", "down,j", "↓ j", "Next session"),
    KeyAction(SESSIONS, "move('up')", "up,k", "↑ k", "Session before"),
    KeyAction(SESSIONS, "move('pagedown')", "pagedown,J", "PgDn J", "A page down"),
    KeyAction(SESSIONS, "move('pageup')", "pageup,K", "PgUp K", "A page up"),
    KeyAction(SESSIONS, "move('home')", "home,alt+up", "Home Alt+↑", "First session"),
    KeyAction(SESSIONS, "move('end')", "end,alt+down", "End Alt+↓", "Last session"),
    KeyAction(SESSIONS, "filter", "f", "f", "Filter by title: type, Esc leaves the field", "filter"),
    KeyAction(SESSIONS, "search", "slash", "/", "Search everything that was said", "search"),
    KeyAction(SESSIONS, "move('tab')", "tab,a", "Tab a", "This project, or every project", "scope"),
    KeyAction(SESSIONS, "begin", "n", "n", "Write a prompt for a new session", "new"),
    KeyAction(SESSIONS, "clear", "escape", "Esc", "Clear the filter"),
    KeyAction(SESSIONS, "resume", "r", "r", "Resume it in its own agent, then come back", "resume"),
    KeyAction(SESSIONS, "reports", "R", "R", "Reports: stand-up, costs, activity, tips", "reports"),
    KeyAction(
        FIELD, "leave_field", "escape,enter", "Esc Enter", "Leave the field, keep what was found", "leave the field"
    ),
    KeyAction(FIELD, "move('down')", "down", "↓ ↑", "Another row; also PgDn, PgUp", "choose"),
    KeyAction(FIELD, "move('tab')", "tab", "Tab", "This project, or every project", "scope"),
    KeyAction(SESSION, "close", "s,escape,backspace", "s Esc", "Back to the sessions", "sessions"),
    KeyAction(PANE, "scroll('down', 1)", "j", "j", "A line down"),
    KeyAction(PANE, "scroll('up', 1)", "k", "k", "A line up"),
    KeyAction(PANE, "page('down')", "pagedown,J,space", "PgDn J", "A page down"),
    KeyAction(PANE, "page('up')", "pageup,K", "PgUp K", "A page up"),
    KeyAction(PANE, "step(1)", "down", "↓", "Next entry"),
    KeyAction(PANE, "step(-1)", "up", "↑", "Entry before"),
    KeyAction(PANE, "prompt(1)", "shift+down,right_square_bracket", "Shift+↓ ]", "Next prompt"),
    KeyAction(PANE, "prompt(-1)", "shift+up,left_square_bracket", "Shift+↑ [", "Prompt before", "prompts"),
    KeyAction(PANE, "ends('start')", "home,alt+up,g", "Home g", "The beginning"),
    KeyAction(PANE, "ends('end')", "end,alt+down,G", "End G", "The end"),
    KeyAction(SESSION, "unfold", "enter,o", "Enter o", "Open the entry, or fold it again", "open"),
    KeyAction(SESSION, "find", "slash", "/", "Search in this session", "search"),
    KeyAction(SESSION, "hit(1)", "n", "n", "Next hit"),
    KeyAction(SESSION, "hit(-1)", "N", "N", "Hit before"),
    KeyAction(SESSION, "write", "p,i", "p", "Write a prompt for this session", "prompt"),
    KeyAction(SESSION, "branches", "b", "b", "Its branches: continue, name, compare them", "branches"),
    KeyAction(SESSION, "fork", "f", "f", "Write a prompt that follows the entry, as a branch of its own"),
    KeyAction(SESSION, "export", "e", "e", "Write the session to a file, as Markdown"),
    KeyAction(SESSION, "compact", "C", "C", "Have its beginning summarised for later prompts; asks first"),
    KeyAction(SESSION, "back", "u", "u", "Take the last prompt that waits back into the field"),
    KeyAction(SESSION, "cancel", "x,alt+c", "x Alt+C", "Stop the agent that runs; its output is kept"),
    KeyAction(SESSION, "thinking", "t", "t", "Show or hide what the model thought", "thinking"),
    KeyAction(SESSION, "copy", "y", "y", "Copy the entry", "copy"),
    KeyAction(SESSION, "resume", "r", "r", "Resume it in its own agent, then come back", "resume"),
    KeyAction(TREE, "move(1)", "down,j", "↓ j", "Next turn"),
    KeyAction(TREE, "move(-1)", "up,k", "↑ k", "Turn before"),
    KeyAction(TREE, "page(1)", "pagedown,J", "PgDn J", "A page down"),
    KeyAction(TREE, "page(-1)", "pageup,K", "PgUp K", "A page up"),
    KeyAction(TREE, "ends('start')", "home,g", "Home g", "The first turn"),
    KeyAction(TREE, "ends('end')", "end,G", "End G", "The last turn"),
    KeyAction(TREE, "tip(1)", "right_square_bracket,shift+down", "] Shift+↓", "The end of the next branch"),
    KeyAction(TREE, "tip(-1)", "left_square_bracket,shift+up", "[ Shift+↑", "The end of the branch before"),
    KeyAction(TREE, "open", "enter", "Enter", "Go to the turn in the session", "go there"),
    KeyAction(TREE, "checkout", "c", "c", "Have the next prompt follow this turn", "continue here"),
    KeyAction(TREE, "fork", "f", "f", "Write a prompt that follows this turn, as a branch of its own", "fork"),
    KeyAction(TREE, "compare", "v", "v", "Mark this turn; on another one: compare what leads to the two", "compare"),
    KeyAction(TREE, "name", "n", "n", "Name the branch", "name"),
    KeyAction(TREE, "close", "b,escape,backspace", "b Esc", "Take the mark away; back to the session"),
    KeyAction(COMPARED, "scroll(1)", "down,j", "↓ j", "A line down"),
    KeyAction(COMPARED, "scroll(-1)", "up,k", "↑ k", "A line up"),
    KeyAction(COMPARED, "page(1)", "pagedown,J,space", "PgDn J", "A page down", "page"),
    KeyAction(COMPARED, "page(-1)", "pageup,K", "PgUp K", "A page up"),
    KeyAction(COMPARED, "ends(-1)", "home,g", "Home g", "The beginning"),
    KeyAction(COMPARED, "ends(1)", "end,G", "End G", "The end"),
    KeyAction(COMPARED, "close", "escape,v,b,backspace", "Esc v", "Back to the branches", "branches"),
    KeyAction(PROMPT, "stage", "enter", "Enter", "Send; a running agent is stopped first, then this runs", "send"),
    KeyAction(PROMPT, "leave", "escape", "Esc", "Back to the entries; the text stays", "leave it"),
    KeyAction(PROMPT, "newline", "ctrl+j,shift+enter", "Ctrl+J", "A new line", "line"),
    KeyAction(PROMPT, "queue", "ctrl+t", "Ctrl+T", "Send it when the run ends", "queue"),
    KeyAction(PROMPT, "steer", "ctrl+g", "Ctrl+G", "Send it to the agent while it works", "steer"),
    KeyAction(PROMPT, MENU, "ctrl+p", "Ctrl+P", "All that can be done here, to choose from", "menu"),
    KeyAction(PROMPT, "agent", "f2", "F2", "Another agent", "agent"),
    KeyAction(PROMPT, "back", "ctrl+r", "Ctrl+R", "Take back what is being sent, or the last prompt that waits"),
    KeyAction(PROMPT, "model", "f4", "F4", "Another model", "model"),
    KeyAction(PROMPT, "permissions", "f3", "F3", "What the agent may do unasked", "permissions"),
    KeyAction(PROMPT, "worktree", "f5", "F5", "Another worktree of the repository to run it in", "worktree"),
    KeyAction(PROMPT, "earlier", "ctrl+up", "Ctrl+↑", "The prompt before"),
    KeyAction(PROMPT, "later", "ctrl+down", "Ctrl+↓", "The next prompt"),
    KeyAction(QUESTION, "yes", "y", "y", "Yes", "yes"),
    KeyAction(QUESTION, "no", "n,escape", "n Esc", "No: nothing is done", "no"),
    KeyAction(QUESTION, "take", "enter", "Enter", "Take the answer that is marked, at first the no"),
    KeyAction(QUESTION, "other", "left,right,tab", "← → Tab", "Mark the other answer"),
    KeyAction(LINE, "take", "enter", "Enter", "Take the line", "take it"),
    KeyAction(LINE, "leave_line", "escape", "Esc", "Leave the field; nothing is done", "leave it"),
    KeyAction(REPORTS, "open", "enter", "Enter", "Open the sessions behind the line, or the place", "open"),
    KeyAction(REPORTS, "step(1)", "down,j", "↓ j", "Next line that opens something"),
    KeyAction(REPORTS, "step(-1)", "up,k", "↑ k", "Line before"),
    KeyAction(REPORTS, "page(1)", "pagedown,J,space", "PgDn J", "A page down"),
    KeyAction(REPORTS, "page(-1)", "pageup,K", "PgUp K", "A page up"),
    KeyAction(REPORTS, "ends(-1)", "home,g", "Home g", "The beginning"),
    KeyAction(REPORTS, "ends(1)", "end,G", "End G", "The end"),
    KeyAction(REPORTS, "next_tab(1)", "tab,right", "Tab →", "Next report", "next"),
    KeyAction(REPORTS, "next_tab(-1)", "shift+tab,left", "Shift+Tab ←", "Report before"),
    KeyAction(REPORTS, "tab(0)", "1", "1", "Stand-up: what was worked on"),
    KeyAction(REPORTS, "tab(1)", "2", "2", "Costs: by day, agent, model, repository and session"),
    KeyAction(REPORTS, "tab(2)", "3", "3", "Activity: by hour of the day and by weekday"),
    KeyAction(REPORTS, "tab(3)", "4", "4", "Tips: what recurs, and what to do about it"),
    KeyAction(REPORTS, "longer(1)", "plus,equals_sign", "+", "A longer period", "longer"),
    KeyAction(REPORTS, "longer(-1)", "minus", "-", "A shorter period", "shorter"),
    KeyAction(REPORTS, "period(0)", "d", "d", "The last 24 hours"),
    KeyAction(REPORTS, "period(1)", "w", "w", "The last 7 days"),
    KeyAction(REPORTS, "period(2)", "m", "m", "The last 30 days"),
    KeyAction(REPORTS, "scope", "a", "a", "This project, or every project", "scope"),
    KeyAction(REPORTS, "close", "s,escape,backspace", "s Esc", "Back to the sessions", "sessions"),
    KeyAction(
        ANYWHERE, "slot(key)", "1,2,3,4,5,6,7,8,9", "1–9", "The session of a run, by its place in the line on top"
    ),
    KeyAction(ANYWHERE, "slot(key)", "0", "0", "The session of the run that is marked [ ], the newest one"),
    KeyAction(ANYWHERE, MENU, "colon", ": Ctrl+P", "All that can be done here, to choose from", "menu"),
    KeyAction(ANYWHERE, "help", "question_mark,f1", "?", "These keys", "keys"),
    KeyAction(ANYWHERE, "theme", "T", "T", "Other colours: dark, light, those of the terminal; the choice is kept"),
    KeyAction(ANYWHERE, "leave", "q,ctrl+q", "q", "Leave; runs go on", "leave"),
)


PROMPT_KEYS = {key: each.name for each in ACTIONS if each.place == PROMPT for key in each.keys.split(",")}
"""The actions of the prompt's field, by key."""


def of_place(place: str) -> tuple[KeyAction, ...]:
    """The actions of a place, its own first."""
    more = () if place in TAKE_LETTERS else (PANE, ANYWHERE) if place == SESSION else (ANYWHERE,)
    return tuple(each for wanted in (place, *more) for each in ACTIONS if each.place == wanted)


@cache
def names(place: str) -> frozenset[str]:
    """The names of a place's actions, without what they are called with."""
    return frozenset(each.name.partition("(")[0] for each in ACTIONS if each.place == place)


def bindings(place: str) -> list[Binding | tuple[str, str] | tuple[str, str, str]]:
    """The keys of a place, for its screen."""
    return [
        Binding(keys, each.name.replace(CALLED_WITH_KEY, f"({keys})"), each.help, show=False)
        for each in ACTIONS
        if each.place == place
        for keys in (each.keys.split(",") if each.is_called_with_key else [each.keys])
    ]


def foot(place: str, columns: int) -> str:
    """The most important keys of a place, as many as fit a line; the menu and what counts anywhere are there always."""
    labelled = [each for each in of_place(place) if each.label]
    always = [each for each in labelled if each.place == ANYWHERE or each.name == MENU]
    behind = " · ".join(map(_short, always))
    room = columns - output.columns(f" · {behind}")
    own = next(output.fact_lines([_short(each) for each in labelled if each not in always], room), "")
    return output.style(" · ".join(filter(None, [own, behind])), dim=True)


def clicked(line: str, column: int) -> list[events.Key]:
    """The key of the word at a column of a line that ``foot`` made; none for another line, or between words."""
    keys = {_short(each): each.keys.split(",")[0] for each in ACTIONS if each.label}
    words = "".join(text for text, _ in output.pieces(line)).split(" · ")
    start = 0
    for word in words if keys.keys() >= {*words} else ():
        if start <= column < start + output.columns(word):
            return [events.Key(keys[word], None)]
        start += output.columns(f"{word} · ")
    return []


def _short(action: KeyAction) -> str:
    return f"{action.shown.split()[0]} {action.label}"


def help_lines(place: str, columns: int) -> list[str]:
    """Every key of a place and what it does, in so many columns."""
    wide = max(output.columns(each.shown) for each in ACTIONS)
    return [
        f"{output.ident(output.padded('' if n else each.shown, wide))}  {line}"
        for each in of_place(place)
        for n, line in enumerate(output.wrapped(each.help, columns - wide - 2))
    ]
