"""Finds the edit that put a line where it is: lines as git blames them, beside the lines that edits put there. Pure.

A line is an edit's if its text is one that the edit put into the file before the commit of the line was authored, and
nothing took that text away in between: no later edit, no later file written whole, no commit. A line that says little
(``}``, ``else:``, a blank one), and one that stands in the file more often than it was written, counts only in a run of
lines that the edit put there together.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.derive.git_values import UNCOMMITTED
from backstory.derive.written_lines import Gone, completed
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from backstory.derive.git_values import BlamedLine, FileChange
    from backstory.derive.written_lines import WrittenLines

SECOND_MS = 1000
"""Git's times have no smaller parts."""
ANCHORS_MAX = 50
"""In so many places of an edit a line is looked for, to find the run of lines that it stands in."""
NEAR_LINES = 30
"""A line that several edits wrote is that one's who wrote a line so near."""
TELLING_SIGNS = 4
"""A line with fewer letters and digits says little."""
_COMMON = frozenset(
    {
        "return", "return nil", "return null", "return none", "return true", "return false", "return err",
        "return result", "return nil, err", "break", "continue", "pass", "else", "else if", "finally", "try", "do",
        "then", "done", "begin", "endif", "default", "public", "private", "static", "const", "false", "true", "null",
        "none", "import", "export", "use client", "use strict", "if err nil", "if err != nil", "end if", "esac",
        "self", "args", "kwargs",
    }
)  # fmt: skip
_NO_WORDS = lazy_regex(r"[^\w, !=]+")
_NO_SIGN = lazy_regex(r"[\W_]+")


class TimedEdit(Struct, frozen=True, kw_only=True):
    """An edit of a file at a time, in ms since 1970."""

    at: int
    written: WrittenLines


def is_telling(text: str) -> bool:
    """Return True if a line says enough that two people would hardly write it by chance.

    >>> is_telling("    } else {"), is_telling("total = price * count")
    (False, True)
    """
    if len(_NO_SIGN.sub("", text)) < TELLING_SIGNS:
        return False
    return _NO_WORDS.sub(" ", text.lower()).strip() not in _COMMON


def written_by_edits(
    lines: Sequence[BlamedLine],
    edits: Sequence[TimedEdit],
    authored: Mapping[str, int],
    history: Iterable[FileChange],
    amended: Mapping[str, Collection[int]] | None = None,
) -> list[int | None]:
    """Return for each line the number of the edit that put it there; None for none.

    ``edits``: in the order of their times. ``authored``: when each commit was written first. ``history``: what commits
    did to the file, for the lines that they took away. ``amended``: the edits that a commit was amended with later.
    """
    return _Matching(lines, edits, authored, history, amended or {}).found()


class _Event(Struct, frozen=True):
    """A text was put there (``edit``: by which) or taken away, so many times; None: everywhere."""

    at: int
    order: int
    """The order of events at one time: the number of the edit."""
    edit: int | None = None
    count: int | None = None
    commit: str | None = None
    is_whole: bool = False


class _Matching:
    """One file's lines and edits."""

    def __init__(
        self, lines: Sequence[BlamedLine], edits: Sequence[TimedEdit], authored: Mapping[str, int],
        history: Iterable[FileChange], amended: Mapping[str, Collection[int]],
    ) -> None:  # fmt: skip
        self._lines, self._edits, self._amended = lines, edits, amended
        last = max([0, *(edit.at for edit in edits), *authored.values()]) + SECOND_MS
        self._until = {commit: at + SECOND_MS for commit, at in authored.items()} | {UNCOMMITTED: last}
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, line in enumerate(lines):
            self._places[_plain(line.text)].append(place)
        # Without an edit no line is one's, whatever commits took away.
        self._events = self._what_happened(list(history)) if edits else {}
        self._owners: list[int | None] = [None] * len(lines)
        self._kept_by: dict[int, int] = {}
        """Lines that an edit left as they were: an earlier one put them there."""

    def found(self) -> list[int | None]:
        """The edit of each line."""
        left: dict[str, list[int]] = {}
        for text, places in self._places.items():
            if not is_telling(text):
                continue
            alive = {place: self._alive(text, self._lines[place].commit) for place in places}
            places = [place for place in places if alive[place]]
            owners = max(alive.values(), key=len, default=[])
            # As many as were written, or fewer: none of them needs another explanation.
            if places and len(places) <= len(owners):
                if len(places) == 1 or len(set(owners)) == 1:
                    self._owners_are(places, alive)
                else:
                    left[text] = places
        self._extend()
        for text, places in left.items():
            for place in places:
                if self._owners[place] is None:
                    self._owners[place] = self._one_of(self._alive(text, self._lines[place].commit), place)
        self._extend()
        return self._owners

    def _one_of(self, edits: Sequence[int], place: int) -> int:
        """Return the edit that wrote a text here, of several that wrote it: the nearest line's, else the last one."""
        bound = self._kept_by.get(place, len(self._edits))
        edits = [each for each in edits if each < bound] or edits
        near = self._nearest(place)
        return near if near is not None and near in edits else edits[-1]

    def _nearest(self, place: int) -> int | None:
        """The edit of the nearest line that has one."""
        for distance in range(1, NEAR_LINES):
            for other in (place - distance, place + distance):
                if 0 <= other < len(self._lines) and self._owners[other] is not None:
                    return self._owners[other]
        return None

    def _owners_are(self, places: Iterable[int], alive: Mapping[int, Sequence[int]]) -> None:
        for place in places:
            self._owners[place] = alive[place][-1]

    def _what_happened(self, history: Sequence[FileChange]) -> dict[str, list[_Event]]:
        """Return the events of each text of the file, in order."""
        events: dict[str, list[_Event]] = defaultdict(list)
        for number, (edit, more) in enumerate(zip(self._edits, self._completed(history), strict=True)):
            counts: dict[tuple[str, str], int] = defaultdict(int)
            for sign, line in (*edit.written.lines, *more):
                if (text := _plain(line)) in self._places and sign != " ":
                    counts[text, sign] += 1
            for (text, sign), count in counts.items():
                is_whole = edit.written.is_whole
                owner = number if sign == "+" else None
                events[text].append(_Event(edit.at, number, owner, count, is_whole=is_whole))
            if edit.written.is_whole:
                for text in self._places.keys() - {text for text, _ in counts}:
                    events[text].append(_Event(edit.at, number))
        for change in history:
            kept = {text for _, line in change.added() if (text := _plain(line)) in self._places}
            for text in {text for line in change.removed() if (text := _plain(line)) in self._places} - kept:
                events[text].append(_Event(change.authored, -1, commit=change.commit))
        for each in events.values():
            # A line that an edit moves is taken away first.
            each.sort(key=lambda event: (event.at, event.order, event.edit is not None))
        return events

    def _completed(self, history: Sequence[FileChange]) -> list[list[tuple[str, str]]]:
        """The whole lines of edits that have parts of lines."""
        blamed = {line.commit for line in self._lines}
        gone = (
            Gone(self._until.get(each.commit, 0), frozenset(each.removed()))
            for each in history
            if each.commit in blamed
        )
        times = {text: len(places) for text, places in self._places.items()}
        return completed([(edit.at, edit.written) for edit in self._edits], gone, times)

    def _alive(self, text: str, commit: str) -> list[int]:
        """The edits that put a text there and whose text was still there at a commit, once for each time."""
        alive: list[int] = []
        until, amended = self._until.get(commit, 0), self._amended.get(commit, ())
        for event in self._events.get(text, ()):
            if event.commit == commit or (event.at >= until and event.edit not in amended):
                continue
            if event.edit is None:
                alive = [] if event.count is None else alive[: max(0, len(alive) - event.count)]
            elif event.is_whole:
                # What was there before is still whose it was.
                alive = [*alive[: event.count], *[event.edit] * ((event.count or 0) - len(alive))]
            else:
                alive += [event.edit] * (event.count or 0)
        return alive

    def _extend(self) -> None:
        """Give the lines around an owned one to the same edit, as far as they stand there as the edit put them."""
        blocks: dict[int, list[tuple[str, str]]] = {}
        where: dict[int, dict[str, list[int]]] = {}
        for place in range(len(self._lines)):
            owner = self._owners[place]
            if owner is None:
                continue
            if owner not in blocks:
                signed = self._edits[owner].written.lines
                blocks[owner] = [(sign, _plain(line)) for sign, line in signed if sign != "-"]
                where[owner] = defaultdict(list)
                for number, (_, text) in enumerate(blocks[owner]):
                    where[owner][text].append(number)
            anchors = where[owner].get(_plain(self._lines[place].text), [])[:ANCHORS_MAX]
            for step in (-1, 1):
                runs = (self._run(blocks[owner], owner, place, anchor, step) for anchor in anchors)
                for each in max(runs, key=len, default=[]):
                    self._owners[each] = owner

    def _run(self, block: Sequence[tuple[str, str]], owner: int, place: int, anchor: int, step: int) -> list[int]:
        """The lines on one side of an owned one that nobody owns yet and that this edit put there."""
        found = []
        place, anchor = place + step, anchor + step
        while 0 <= place < len(self._lines) and 0 <= anchor < len(block):
            sign, text = block[anchor]
            if abs(self._lines[place].number - self._lines[place - step].number) != 1:
                break
            if _plain(self._lines[place].text) != text or self._owners[place] not in (None, owner):
                break
            if sign == "+" and self._owners[place] is None and self._is_in_time(place, owner):
                found.append(place)
            elif self._owners[place] == owner:
                break
            elif sign == " ":
                self._kept_by[place] = min(owner, self._kept_by.get(place, owner))
            place, anchor = place + step, anchor + step
        return found

    def _is_in_time(self, place: int, owner: int) -> bool:
        line = self._lines[place]
        if self._edits[owner].at >= self._until.get(line.commit, 0):
            return False
        # A telling line whose text was taken away since was written again by somebody else.
        text = _plain(line.text)
        return not is_telling(text) or owner in self._alive(text, line.commit)


def _plain(text: str) -> str:
    """A line as it is compared: blanks at its end say nothing."""
    return text.rstrip()
