"""The picker's screen as lines of text: the field, the list, the preview of the chosen row, and the foot. Pure.

Lines have the marks of ``output.style`` in them. What is shown is in the terminal's own colours, and the chosen row has
a sign besides, so that nothing is told by colour alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.cli.picker.state import CHROME, PREVIEW_FROM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.cli.picker.state import PickRow, State

PROMPT = "> "
CHOSEN, OTHER = "> ", "  "
GAP = "  "
WHEN_COLUMNS, AGENT_COLUMNS, PROJECT_COLUMNS, WIDE_PROJECT_COLUMNS = 11, 8, 14, 24
WHEN_FROM, AGENT_FROM, PROJECT_FROM, WIDE_FROM = 40, 60, 80, 140
"""The columns of a screen from which these have a place."""
TITLE_SHARE = 0.4
"""The part of what is left that a title has beside the words around a match."""
TITLE_COLUMNS_LEAST = 12
FIELD_COLUMNS_LEAST = 20
"""The field keeps so much beside the number of sessions."""
KEYS_SHOWN = (
    ("Enter", "show the session, or the record that was found"),
    ("Ctrl-R", "resume it in its own agent"),
    ("Ctrl-O", "continue it here, with a prompt"),
    ("Tab", "this project, or every project"),
    ("↑ ↓", "choose; also Ctrl-P, Ctrl-N, Page Up, Page Down, Home, End"),
    ("← →", "move in the field; Ctrl-A: its beginning, Ctrl-E: its end"),
    ("Ctrl-W", "delete a word; Ctrl-U: all before the cursor"),
    ("F1", "these keys; also ? in an empty field"),
    ("Esc", "leave; also Ctrl-C"),
    ("", ""),
    ("", "Each letter narrows the list by title. From three letters on"),
    ("", "sessions that have the words anywhere follow behind it:"),
    ("", 'all words must match; "a phrase"; log* for a beginning.'),
)


def lines(state: State) -> list[str]:
    """Return the lines of the screen, at most as many as it has, none wider than it."""
    shown = [field_line(state)]
    if state.shows_keys:
        body = [f"  {output.padded(output.ident(key), 8)}{what}" for key, what in KEYS_SHOWN]
        shown += body[: state.lines - CHROME]
    else:
        shown += _list(state)
        if state.lines >= PREVIEW_FROM:
            shown += preview_lines(state)
    foot = [_foot(state)] if state.lines > CHROME else []
    whole = [*shown, *[""] * state.lines][: state.lines - len(foot)]
    return [output.cut(line, state.columns) for line in (*whole, *foot)]


def cursor(state: State) -> int:
    """Return the column of the cursor, which is in the field."""
    before, _ = _visible(state)
    return min(output.columns(PROMPT + before), max(state.columns - 1, 0))


# the field ------------------------------------------------------------------------------------------------------------


def field_line(state: State) -> str:
    before, after = _visible(state)
    typed = f"{output.style(PROMPT.strip(), bold=True)} {before}{after}"
    status = output.one_line(_status(state), max(state.columns - FIELD_COLUMNS_LEAST, 0))
    left = state.columns - output.columns_shown(typed) - output.columns(status) - 1
    return typed if left < 1 else f"{typed}{' ' * left}{output.style(status, dim=True)}"


def field_columns(state: State) -> int:
    """Return the columns before the words about the list."""
    status = output.one_line(_status(state), max(state.columns - FIELD_COLUMNS_LEAST, 0))
    return state.columns - output.columns(status) - 1


def _visible(state: State) -> tuple[str, str]:
    """Return what is before the cursor and behind it, as far as the field has room: its end is seen if it has not."""
    before, after = output.one_liner(state.text[: state.cursor]), output.one_liner(state.text[state.cursor :])
    room = max(state.columns - len(PROMPT) - 1, 1)
    while output.columns(before) > room:
        before = before[1:]
    while output.columns(before + after) > room:
        after = after[:-1]
    return before, after


def _status(state: State) -> str:
    """The place that is looked in, and how many sessions fit."""
    place = "every project" if state.is_everywhere else state.place
    waiting = "" if state.is_found and (state.is_listed or state.hits_only) else "…"
    if not state.words:
        return f"{place} · {waiting if state.total is None else output.counted(state.total, 'session')}"
    hits = "" if state.found is None else f"{len(state.found.rows):,}{'+' * state.found.has_more} in texts"
    titles = "" if state.hits_only or state.total is None else output.counted(state.total, "title")
    return " · ".join(filter(None, (place, titles, hits, waiting)))


# the list -------------------------------------------------------------------------------------------------------------


def _list(state: State) -> list[str]:
    above = heading(state)
    shown = [output.style(output.one_line(f"{OTHER}{above}", state.columns, keep_blanks=True), dim=True)]
    room = state.list_lines - bool(above)
    # A heading takes a line of the list, so the chosen row may be one below it.
    top = max(state.top, state.chosen - room + 1)
    rows = [
        _row(row, state, is_chosen=n == state.chosen)
        for n, row in enumerate(state.rows[top : top + max(room, 1)], start=top)
    ]
    drawn = [*shown, *rows] if above else rows
    return [*drawn, *[""] * (state.list_lines - len(drawn))]


def heading(state: State, begins: str = "") -> str:
    """A sentence above the list: why it is not what one might expect. ``begins``: the key that begins a session."""
    begun = f"{begins} begins one" if begins else ""
    if state.newest and state.rows and not state.words:
        return f"No sessions of {state.place} yet{begun and f': {begun}'}; the newest of every project:"
    if state.rows:
        note = state.found.note if state.found is not None and state.is_settled else ""
        return note or state.fixed
    if not state.is_found or not (state.is_listed or (state.hits_only and state.words)):
        return ""
    is_nothing = not (state.words or state.is_narrow)
    if is_nothing and state.is_everywhere and not state.fixed:
        return f"No sessions yet: {begun and f'{begun}, '}`backstory ingest` imports agents' logs."
    where = "" if state.is_everywhere or state.fixed else " Tab looks in every project."
    return f"{'No sessions.' if is_nothing else 'Nothing found.'}{where}"


def _row(row: PickRow, state: State, *, is_chosen: bool) -> str:
    mark = output.style(row.mark, fg=row.colour) if row.colour and not is_chosen else row.mark
    cells = [output.padded(mark, 1), *(in_column(text, wide) for text, wide in _columns(row, state))]
    head = f"{CHOSEN if is_chosen else OTHER}{GAP.join(cells)}{GAP}" if state.columns >= WHEN_FROM else OTHER
    if is_chosen and state.columns < WHEN_FROM:
        head = CHOSEN
    room = max(state.columns - output.columns_shown(head), 1)
    told = about(row, room, is_plain=is_chosen)
    if not is_chosen:
        return f"{head}{told}"
    return output.style(f"{head}{told}{' ' * (room - output.columns_shown(told))}", reverse=True)


def _columns(row: PickRow, state: State) -> Iterator[tuple[str, int]]:
    """The cells before the title, each with its width."""
    yield row.when, WHEN_COLUMNS
    if state.columns >= AGENT_FROM:
        yield row.agent, AGENT_COLUMNS
    if state.columns >= PROJECT_FROM and state.is_everywhere:
        yield row.project, PROJECT_COLUMNS if state.columns < WIDE_FROM else WIDE_PROJECT_COLUMNS


def in_column(text: str, wide: int) -> str:
    return output.padded(output.one_line(text, wide), wide)


def about(row: PickRow, room: int, *, is_plain: bool) -> str:
    """The title, and the words around a match."""
    if not row.snippet:
        return output.one_line(row.title, room)
    title = output.one_line(row.title, max(int(room * TITLE_SHARE), TITLE_COLUMNS_LEAST))
    left = room - output.columns(title) - 4
    if left < TITLE_COLUMNS_LEAST:
        return output.one_line(row.title, room)
    return f"{title}  » {_match(row, left, is_plain)}"


def _match(row: PickRow, room: int, is_plain: bool) -> str:
    """The words around a match, so that the first match is seen, each marked."""
    first = row.marks[0][0] if row.marks else 0
    start = 0 if first < room // 2 else row.snippet.rfind(" ", 0, max(first - room // 4, 1)) + 1
    pieces, at = ["…" if start else ""], start
    for begin, end in row.marks:
        if begin >= at:
            found = output.one_liner(row.snippet[begin:end])
            pieces += [output.one_liner(row.snippet[at:begin]), found if is_plain else output.style(found, bold=True)]
            at = end
    return output.cut("".join([*pieces, output.one_liner(row.snippet[at:])]), room)


# the preview and the foot ---------------------------------------------------------------------------------------------


def preview_lines(state: State) -> Iterator[str]:
    """A rule, and the lines of the chosen row around the one that has to be seen."""
    room = state.lines - CHROME - state.list_lines - 1
    yield output.style("─" * state.columns, dim=True)
    row = state.row
    if state.preview is None or row is None or state.preview.question.uid != row.uid:
        return
    shown, at = state.preview.lines, state.preview.at
    start = 0 if at < room else min(max(at - room // 2, 0), len(shown) - room)
    yield from shown[start : start + room]


def _foot(state: State) -> str:
    if state.note:
        return output.style(output.one_line(state.note, state.columns), bold=True)
    other = "here" if state.is_everywhere else "all"
    keys = ("Enter show", "^R resume", "^O continue", f"Tab {other}", "F1 keys", "Esc leave")
    return output.style(next(output.fact_lines(keys, state.columns), ""), dim=True)
