"""The picker as a value: what was typed, what is listed, which row is chosen. Nothing here asks, draws or waits.

``pressed`` and ``answered`` make the next state of a key and of an answer; ``questions`` yields what to ask for it.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from backstory.cli.output import columns
from backstory.workspace.history.sessions import END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = 50
"""The number of sessions that are asked for at once."""
PAGES_KEPT = 6
NEAR_END = 15
"""The number of rows from the end of what is listed at which the next page is asked for."""
NEWEST = 5
"""The number of sessions of every project that are listed where this one has none."""
LETTERS_LEAST = 3
"""The fewest columns of letters that are looked for in texts: a word of Japanese has two letters."""
TEXT_MAX = 1_000
"""The most characters of the field: more can only be pasted by mistake."""
PREFIX_MS = 120
"""After so long without a key the last word may be the beginning of one."""
CHROME = 2
"""Lines that are neither list nor preview: the field and the foot."""
PREVIEW_FROM = 10
"""A screen of fewer lines has no preview."""


class Choice(StrEnum):
    """The command for the session that was chosen."""

    SHOW = "show"
    RESUME = "resume"
    CONTINUE = "run"


class Key(NamedTuple):
    """A key by its name; ``text`` is what "text" types, also at once by a paste."""

    name: str
    text: str = ""


class PickRow(Struct, frozen=True, kw_only=True):
    """A session, or one record of it with the words around a match (``marks``: start and end of each)."""

    uid: str
    seq: int | None = None
    mark: str = ""
    colour: str = ""
    when: str = ""
    agent: str = ""
    project: str = ""
    number: str = ""
    branch: str = ""
    turns: int = 0
    cost: str = ""
    title: str = ""
    snippet: str = ""
    marks: tuple[tuple[int, int], ...] = ()


class ListQuestion(Struct, frozen=True, kw_only=True):
    """A part of the list, behind a cursor or before one. ``version`` rises whenever a store changed."""

    title: str = ""
    everywhere: bool = False
    after: str | None = None
    before: str | None = None
    limit: int = PAGE
    version: int = 0


class CountQuestion(Struct, frozen=True, kw_only=True):
    """The number of sessions in the whole list, which takes longer than a part of it."""

    title: str
    everywhere: bool
    version: int = 0


class TextQuestion(Struct, frozen=True, kw_only=True):
    """The hits of words in everything that was said."""

    words: str
    everywhere: bool
    version: int = 0


class PreviewQuestion(Struct, frozen=True, kw_only=True):
    """The lines of a session for the preview; with a record those around it, with ``words`` marked."""

    uid: str
    seq: int | None
    words: str
    columns: int
    version: int = 0


Question = ListQuestion | CountQuestion | TextQuestion | PreviewQuestion


class Listed(Struct, frozen=True, kw_only=True):
    """A part of the list; ``start`` and ``end`` are its cursors."""

    question: ListQuestion
    rows: tuple[PickRow, ...] = ()
    has_more: bool = False
    has_earlier: bool = False
    start: str | None = None
    end: str | None = None


class Counted(Struct, frozen=True, kw_only=True):
    """The number of sessions in the whole list."""

    question: CountQuestion
    total: int


class Found(Struct, frozen=True, kw_only=True):
    """Hits, the best first. ``note``: what is to be known about them, as a sentence."""

    question: TextQuestion
    rows: tuple[PickRow, ...] = ()
    has_more: bool = False
    note: str = ""


class Previewed(Struct, frozen=True, kw_only=True):
    """The lines of a preview. ``at``: the line that has to be seen."""

    question: PreviewQuestion
    lines: tuple[str, ...] = ()
    at: int = 0


class Failed(Struct, frozen=True, kw_only=True):
    """A question that could not be answered, and why."""

    question: Question
    message: str


class Noted(Struct, frozen=True, kw_only=True):
    """A sentence that nobody asked for."""

    message: str


class StoreChanged(Struct, frozen=True):
    """Some store, run or queue is not as it was."""


Answer = Listed | Counted | Found | Previewed | Failed | Noted | StoreChanged


class State(Struct, frozen=True, kw_only=True):
    """Everything that the screen shows. ``place``: the name of the project here."""

    columns: int = 80
    lines: int = 24
    place: str = "this project"
    is_narrow: bool = False
    """True if the list was asked for with a filter: that it is empty says nothing about the project."""
    fixed: str = ""
    """The sessions that the list is of, in words, where those of a place are not all; keys do not change it."""
    text: str = ""
    cursor: int = 0
    given: str = ""
    """Words from the command line, which are looked for however short they are."""
    hits_only: bool = False
    """True if words are looked for in texts alone."""
    titles_only: bool = False
    """True if words are looked for in titles alone."""
    takes_prefix: bool = True
    """True if the last word may be the beginning of one."""
    everywhere: bool = False
    newest: bool = False
    """True if there is nothing here, so the newest of every project are listed."""
    pages: tuple[Listed, ...] = ()
    wanted: ListQuestion = ListQuestion()
    """The part of the list that was asked for last; once it is answered, one of ``pages`` has it."""
    counted: Counted | None = None
    found: Found | None = None
    preview: Previewed | None = None
    chosen: int = 0
    top: int = 0
    """The first row on the screen."""
    note: str = ""
    refused: Question | None = None
    """The question that could not be answered, of which the note says why."""
    shows_keys: bool = False
    version: int = 0
    is_over: bool = False
    action: Choice | None = None
    """The command that ended it; None while it goes on, and where nothing was chosen."""

    @property
    def rows(self) -> tuple[PickRow, ...]:
        """The rows of the list: sessions by their titles, behind the last of them those by their texts."""
        hits = self.found.rows if self.found is not None and self.words else ()
        if self.hits_only and self.words:
            return hits
        listed = tuple(chain.from_iterable(page.rows for page in self.pages))
        if not hits or self.has_more:
            return listed
        known = {row.uid for row in listed}
        return (*listed, *(row for row in hits if row.uid not in known))

    @property
    def words(self) -> str:
        """Return what was typed, without blanks around it."""
        return self.text.strip()

    @property
    def marked(self) -> str:
        """The words by which the hits were found, to be marked in a record."""
        return self.words if self.found is None else self.found.question.words

    @property
    def is_everywhere(self) -> bool:
        """True if every project's sessions are listed."""
        return self.everywhere or self.newest

    @property
    def has_more(self) -> bool:
        """True if sessions follow those that are known."""
        return bool(self.pages) and self.pages[-1].has_more

    @property
    def row(self) -> PickRow | None:
        """The chosen row."""
        rows = self.rows
        return rows[self.chosen] if self.chosen < len(rows) else None

    @property
    def total(self) -> int | None:
        """The number of sessions in the whole list; None while that is not known, or another list is still shown."""
        if not self.is_listed:
            return None
        if not (self.newest or self.has_more or self.pages[0].has_earlier):
            return sum(len(page.rows) for page in self.pages)
        counted = self.counted
        return counted.total if counted is not None and counted.question == count_question(self) else None

    @property
    def is_listed(self) -> bool:
        """True if the list is what was asked for last."""
        return any(page.question == self.wanted for page in self.pages)

    @property
    def looks_in_texts(self) -> bool:
        """True if what was typed is looked for in texts."""
        is_enough = columns(self.words) >= LETTERS_LEAST or self.words == self.given
        return bool(self.words) and is_enough and not self.titles_only

    @property
    def is_found(self) -> bool:
        """True if the hits are those of what is typed now."""
        return not self.looks_in_texts or (self.found is not None and _is_of(self, self.found.question))

    @property
    def is_settled(self) -> bool:
        """True if the hits are the last of what was typed: those of whole words may be of one that is not whole yet."""
        last = prefixed(self.words) if self.takes_prefix and self.words != self.given else self.words
        return bool(self.words) and self.found is not None and self.found.question.words == last

    @property
    def list_lines(self) -> int:
        """The lines of the screen that rows are listed in."""
        left = max(self.lines - CHROME, 1)
        return left if self.lines < PREVIEW_FROM else max(left * 2 // 5, 3)


# questions ----------------------------------------------------------------------------------------------------------


def questions(state: State, idle_ms: float = 0) -> Iterator[Question]:
    """Yield what is to be asked for a state. ``idle_ms``: the time since the last key."""
    if not (state.hits_only and state.words):
        yield state.wanted
        if state.total is None:
            yield count_question(state)
    if state.looks_in_texts:
        whole = TextQuestion(words=state.words, everywhere=state.is_everywhere, version=state.version)
        yield beginning(whole) if state.takes_prefix and idle_ms >= PREFIX_MS else whole
    if (asked := preview_question(state)) is not None:
        yield asked


def count_question(state: State) -> CountQuestion:
    """Return the question for the number of sessions in the list."""
    return CountQuestion(title=state.words, everywhere=state.is_everywhere, version=state.version)


def preview_question(state: State) -> PreviewQuestion | None:
    """Return the question for the preview of the chosen row, at the place of its hit."""
    row = state.row
    if row is None or state.lines < PREVIEW_FROM:
        return None
    seq = row.seq
    if seq is None and state.words and state.found is not None:
        seq = next((hit.seq for hit in state.found.rows if hit.uid == row.uid), None)
    words = "" if seq is None else state.marked
    return PreviewQuestion(uid=row.uid, seq=seq, words=words, columns=state.columns, version=state.version)


def prefixed(words: str) -> str:
    """Return words whose last one may be the beginning of another.

    >>> prefixed("rate lim"), prefixed("rate to"), prefixed('"rate lim')
    ('rate lim*', 'rate to', '"rate lim')
    """
    last = words.split()[-1] if words.split() else ""
    is_word = last.isalnum() and columns(last) >= LETTERS_LEAST and '"' not in words
    return f"{words}*" if is_word else words


def beginning(whole: TextQuestion) -> TextQuestion:
    """Return the question for the same words, of which the last may be the beginning of another."""
    return replace(whole, words=prefixed(whole.words))


def _is_of(state: State, question: TextQuestion) -> bool:
    """Return True if hits are those of what is typed now."""
    asked = (state.words, prefixed(state.words))
    return question.words in asked and question.everywhere == state.is_everywhere


# answers --------------------------------------------------------------------------------------------------------------


def answered(state: State, answer: Answer) -> State:
    """Take in an answer; one to a question that nobody asks any more changes nothing."""
    if state.refused is not None and _is_again(answer, state.refused):
        state = replace(state, note="", refused=None)
    match answer:
        case Listed() if answer.question == state.wanted:
            return _settled(_with_page(state, answer))
        case Counted() if answer.question == count_question(state):
            return replace(state, counted=answer)
        case Found() if state.looks_in_texts and _is_of(state, answer.question):
            return _settled(_keeping(state, replace(state, found=_behind_whole_words(state.found, answer))))
        case Previewed() if answer.question == preview_question(state):
            return replace(state, preview=answer)
        case Failed(question=TextQuestion() as asked) if state.looks_in_texts and _is_of(state, asked):
            return _settled(replace(state, note=answer.message, refused=asked, found=Found(question=asked)))
        case Failed():
            return replace(state, note=answer.message, refused=answer.question)
        case Noted():
            return replace(state, note=answer.message, refused=None)
        case StoreChanged():
            return _again(state)
    return state


def _is_again(answer: Answer, refused: Question) -> bool:
    """Return True if what was refused is answered now, or anything else of a store that has changed since."""
    if not isinstance(answer, Listed | Counted | Found | Previewed):
        return False
    return type(answer.question) is type(refused) or answer.question.version > refused.version


def _behind_whole_words(before: Found | None, found: Found) -> Found:
    """Put the hits of a beginning behind those of the whole words, which were shown first; their places stay.

    Hits with a note are near ones: what begins so is better.
    """
    if before is None or before.note or found.question == before.question:
        return found
    if found.question != beginning(before.question):
        return found
    known = {row.uid for row in before.rows}
    return replace(found, rows=(*before.rows, *(row for row in found.rows if row.uid not in known)))


def _with_page(state: State, page: Listed) -> State:
    asked, pages = page.question, state.pages
    if pages and asked.after is not None and asked.after == pages[-1].end:
        dropped = sum(len(each.rows) for each in (*pages, page)[:-PAGES_KEPT])
        kept = (*pages, page)[-PAGES_KEPT:]
        return replace(state, pages=kept, chosen=max(state.chosen - dropped, 0), top=max(state.top - dropped, 0))
    if pages and asked.before is not None and asked.before == pages[0].start:
        more = len(page.rows)
        return replace(state, pages=(page, *pages)[:PAGES_KEPT], chosen=state.chosen + more, top=state.top + more)
    if not (page.rows or state.is_everywhere or state.words or state.is_narrow or state.hits_only):
        newest = ListQuestion(everywhere=True, limit=NEWEST, version=state.version)
        return replace(state, newest=True, wanted=newest)
    if state.newest and not state.words:
        page = replace(page, has_more=False)
    then = replace(state, pages=(page,))
    return replace(then, chosen=len(then.rows) - 1) if asked.before == END else _keeping(state, then)


def _keeping(before: State, after: State) -> State:
    """The state after, with the row chosen that was chosen before, if it is still there."""
    row = before.row
    if row is None or before.chosen == 0:
        return after
    same = next((n for n, each in enumerate(after.rows) if (each.uid, each.seq) == (row.uid, row.seq)), before.chosen)
    return replace(after, chosen=same, top=max(before.top + same - before.chosen, 0))


def _again(state: State) -> State:
    """Ask again for what is shown: something changed."""
    version, asked = state.version + 1, state.wanted
    begins_anew = not state.is_listed and asked.after is None and asked.before in (None, END)
    if not state.pages or begins_anew or state.newest:
        fresh = replace(asked, everywhere=state.everywhere, limit=PAGE, version=version)
        return replace(state, version=version, newest=False, wanted=fresh)
    limit, first = max(sum(len(page.rows) for page in state.pages), PAGE), state.pages[0]
    # A page that was read backwards is read again behind its first row, which is then the last of those before it.
    after = (first.question.after or first.start) if first.has_earlier else None
    wanted = replace(asked, after=after, before=None, limit=limit, version=version)
    return replace(state, version=version, wanted=wanted)


def _settled(state: State) -> State:
    """The state with a chosen row that exists and is on the screen, and with the next page asked for near an end."""
    rows, shown = len(state.rows), state.list_lines
    chosen = max(min(state.chosen, rows - 1), 0)
    top = max(min(state.top, chosen, max(rows - shown, 0)), chosen - shown + 1, 0)
    state = replace(state, chosen=chosen, top=top)
    if not state.pages or not state.is_listed or (state.hits_only and state.words):
        return state
    same = replace(state.wanted, limit=PAGE, version=state.version)
    listed, last, first = sum(len(page.rows) for page in state.pages), state.pages[-1], state.pages[0]
    if last.has_more and chosen >= listed - NEAR_END:
        return replace(state, wanted=replace(same, after=last.end, before=None))
    if first.has_earlier and chosen < NEAR_END and first.start is not None:
        return replace(state, wanted=replace(same, after=None, before=first.start))
    return state


# keys -----------------------------------------------------------------------------------------------------------------


def pressed(state: State, key: Key) -> State:
    """Take a key. One that means nothing changes nothing."""
    if state.shows_keys and key.name != "ctrl-c":
        return replace(state, shows_keys=False)
    if key == Key("text", "?") and not state.text:
        return replace(state, shows_keys=True)
    action = KEYS.get(key.name)
    return state if action is None else _settled(action(replace(state, note=""), key))


def typed(state: State, text: str) -> State:
    """Take letters into the field, whatever they are."""
    return _settled(KEYS["text"](replace(state, note=""), Key("text", text)))


def resized(state: State, width: int, height: int) -> State:
    """Take another size of the screen."""
    return _settled(replace(state, columns=width, lines=height))


def _typing(edit: Callable[[str, str, str], tuple[str, str]]) -> Callable[[State, Key], State]:
    """A key that edits the field: of what is before the cursor, behind it, and typed it makes the first two."""

    def typed(state: State, key: Key) -> State:
        before, after = edit(state.text[: state.cursor], state.text[state.cursor :], key.text)
        before = before[:TEXT_MAX]
        edited = replace(state, text=(before + after)[:TEXT_MAX], cursor=len(before))
        return edited if edited.words == state.words else _listing(edited)

    return typed


def _listing(state: State, *, before: str | None = None) -> State:
    """Begin the list anew, from its top or its end."""
    wanted = ListQuestion(
        title=state.words, everywhere=state.is_everywhere, before=before, version=state.version,
        limit=NEWEST if state.newest and not state.words else PAGE,
    )  # fmt: skip
    found = state.found if state.looks_in_texts else None
    return replace(state, wanted=wanted, found=found, chosen=0, top=0)


def moved(state: State, rows: int) -> State:
    """Choose the row so many below, or above."""
    return _settled(replace(state, note="", chosen=max(state.chosen + rows, 0)))


def _moving(by: Callable[[State], int]) -> Callable[[State, Key], State]:
    return lambda state, _: replace(state, chosen=max(state.chosen + by(state), 0))


def _first(state: State, _: Key) -> State:
    has_earlier = bool(state.pages) and state.pages[0].has_earlier
    return _listing(state) if has_earlier else replace(state, chosen=0)


def _last(state: State, _: Key) -> State:
    if state.has_more and not (state.hits_only and state.words):
        return _listing(state, before=END)
    return replace(state, chosen=len(state.rows) - 1)


def _other_scope(state: State, _: Key) -> State:
    if state.fixed:
        return state
    return _listing(replace(state, everywhere=state.newest or not state.everywhere, newest=False, found=None))


def _choosing(action: Choice) -> Callable[[State, Key], State]:
    return lambda state, _: state if state.row is None else replace(state, is_over=True, action=action)


def _left(text: str) -> int:
    """Return the place before the last letter, with the accents on it."""
    at = len(text) - 1
    while at > 0 and not columns(text[at]):
        at -= 1
    return max(at, 0)


def _one_left(before: str, after: str, _: str) -> tuple[str, str]:
    return before[: _left(before)], before[_left(before) :] + after


def _one_right(before: str, after: str, _: str) -> tuple[str, str]:
    at = next((n for n in range(1, len(after)) if columns(after[n])), len(after))
    return before + after[:at], after[at:]


def _without_word(before: str, after: str, _: str) -> tuple[str, str]:
    begun = before.rstrip()
    return begun[: max(begun.rfind(" "), begun.rfind("\u3000")) + 1], after


KEYS: dict[str, Callable[[State, Key], State]] = {
    "text": _typing(lambda before, after, text: (before + text, after)),
    "backspace": _typing(lambda before, after, _: (before[: _left(before)], after)),
    "delete": _typing(lambda before, after, _: (before, _one_right("", after, "")[1])),
    "left": _typing(_one_left),
    "right": _typing(_one_right),
    "ctrl-a": _typing(lambda before, after, _: ("", before + after)),
    "ctrl-e": _typing(lambda before, after, _: (before + after, "")),
    "ctrl-u": _typing(lambda before, after, _: ("", after)),
    "ctrl-w": _typing(_without_word),
    "down": _moving(lambda _: 1),
    "up": _moving(lambda _: -1),
    "pagedown": _moving(lambda state: state.list_lines),
    "pageup": _moving(lambda state: -state.list_lines),
    "home": _first,
    "end": _last,
    "tab": _other_scope,
    "enter": _choosing(Choice.SHOW),
    "ctrl-r": _choosing(Choice.RESUME),
    "ctrl-o": _choosing(Choice.CONTINUE),
    "f1": lambda state, _: replace(state, shows_keys=True),
    "escape": lambda state, _: replace(state, is_over=True),
    "ctrl-c": lambda state, _: replace(state, is_over=True),
}
KEYS |= {
    "ctrl-n": KEYS["down"], "ctrl-p": KEYS["up"], "ctrl-b": KEYS["left"], "ctrl-f": KEYS["right"],
    "ctrl-d": lambda state, key: KEYS["delete" if state.text else "escape"](state, key),
}  # fmt: skip
