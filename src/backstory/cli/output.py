"""The only writer of stdout and stderr. Data goes to stdout, messages to stderr; colour only if wanted.

All output is made harmless here, so callers need not: text comes from logs, other people's stores and file names.
Colour is requested with ``style``, whose marks no other text can contain.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from backstory.bounds import NO_TIME as NO_TIME
from backstory.bounds import UNKNOWN as UNKNOWN
from backstory.bounds import counted as counted
from backstory.bounds import duration as duration
from backstory.bounds import iso as iso
from backstory.bounds import local as local
from backstory.bounds import size as size
from backstory.derive import harmless
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


_MARK = f"<{os.urandom(12).hex()}"
"""Replaces the beginning of a colour code until output. It is random in each process, so stored text cannot contain
it."""
_CODE = lazy_regex(f"{_MARK}([0-9;]*)m")


def data(text: str = "") -> None:
    """Print a line of data."""
    _write(text + "\n")


def lines_of_json(lines: Iterable[bytes], bytes_max: int) -> None:
    """Print lines of JSON as they come, with the same values; one that escapes would make too long stays as it is."""
    sys.stdout.flush()
    for line in lines:
        shown = harmless.clean_json(line.decode()).encode()
        sys.stdout.buffer.write(shown if len(shown) <= bytes_max else line)
    sys.stdout.buffer.flush()


def raw(text: str) -> None:
    """Print data without a newline, at once."""
    _write(text)


def exact(text: str) -> None:
    """Print data for programs, byte for byte: newlines are kept. It is made harmless only on a terminal."""
    if sys.stdout.isatty():
        text = "\r\n".join(map(clean, text.split("\r\n")))
    click.echo(text.encode(), nl=False)


def json_line(value: Any) -> None:
    """Print data for programs: one JSON value on one line, at once."""
    raw(encoded(value) + "\n")


def encoded(value: Any) -> str:
    """Encode JSON on one line. Characters that act on a terminal are escaped; the value stays the same."""
    from backstory import model

    try:
        text = model.encoded(value).decode()
    except UnicodeEncodeError:
        # File names need not be text: invalid bytes are kept as surrogates.
        import json as standard

        import msgspec

        text = standard.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
    return harmless.clean_json(text)


def json(value: Any) -> None:
    """Print data for programs: one JSON value, indented. An iterator in it is a list, read while it is printed."""
    sys.stdout.writelines(_json_parts(value, "\n"))
    sys.stdout.write("\n")


def _json_parts(value: Any, end: str) -> Iterator[str]:
    """Yield the text of ``as_json``. ``end``: the end of a line with the indentation of the next one."""
    if isinstance(value, Iterator):
        parts: Iterable[tuple[str, Iterable[str]]] = (("", (_indented(each, end + "  "),)) for each in value)
    elif not _has_iterator(value):
        yield _indented(value, end)
        return
    elif isinstance(value, dict):
        parts = ((f"{encoded(key)}: ", _json_parts(each, end + "  ")) for key, each in value.items())
    else:
        parts = (("", _json_parts(each, end + "  ")) for each in value)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    before = opening
    for head, text in parts:
        yield f"{before}{end}  {head}"
        yield from text
        before = ","
    yield f"{opening}{closing}" if before == opening else f"{end}{closing}"


def _has_iterator(value: Any) -> bool:
    """Return True if an iterator is in a value; items of a list are alike."""
    if isinstance(value, dict):
        return any(map(_has_iterator, value.values()))
    return isinstance(value, Iterator) or (isinstance(value, list) and bool(value) and _has_iterator(value[0]))


def _indented(value: Any, end: str) -> str:
    # A text has no newline in JSON.
    return as_json(value).replace("\n", end)


def as_json(value: Any) -> str:
    """Encode JSON as it is printed: indented, with non-ASCII characters."""
    import msgspec

    return msgspec.json.format(encoded(value), indent=2)


def json_lines(
    head: dict[str, Any], name: str, items: Iterable[Any], after: Callable[[], dict[str, Any]] = dict
) -> None:
    """Print one JSON object with a long list, item by item. ``after``: the members behind it, asked for at the end."""
    sys.stdout.write(as_json(head)[:-2].rstrip() + f',\n  "{name}": [')
    separator = "\n"
    for item in items:
        sys.stdout.write(f"{separator}    {encoded(item)}")
        separator = ",\n"
    more = "".join(f',\n  "{key}": {encoded(value)}' for key, value in after().items())
    sys.stdout.write(f"\n  ]{more}\n}}\n")


def pages(lines: Iterable[str]) -> None:
    """Print data that may be long: through a pager if it does not fit the terminal, else line by line."""
    lines = iter(lines)
    if sys.stdout.isatty() and sys.stdin.isatty():
        first, is_all = _screenful(lines)
        if not is_all:
            _page(chain(first, lines))
            return
        lines = iter(first)
    for line in lines:
        data(line)


def _screenful(lines: Iterator[str]) -> tuple[list[str], bool]:
    """Return as many lines as fit the terminal above a prompt, and one more; and whether these are all."""
    columns_wide, rows = screen_size()
    found, used = [], 0
    for line in lines:
        found.append(line)
        shown = _CODE.sub("", clean(line)).split("\n")
        used += sum(max(-(-columns(each) // columns_wide), 1) for each in shown)
        if used >= rows:
            return found, False
    return found, True


def _page(lines: Iterable[str]) -> None:
    """Show lines in the pager of the environment; ``less`` gets git's options unless LESS is set."""
    os.environ.setdefault("LESS", "FRX")
    shown = (_for_stream(f"{line}\n", sys.stdout) for line in lines)
    click.echo_via_pager(shown, color=None if _wants_colour(sys.stdout) else False)


def talk(text: str) -> None:
    """Print a message to the person, on stderr."""
    _write(text + "\n", err=True)


def is_watched() -> bool:
    """Return True if a person sees messages as they are printed."""
    return sys.stderr.isatty()


def is_screen() -> bool:
    """Return True if a person sees data and messages on one screen."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def passing_line(text: str) -> None:
    """Print a line on a screen that ``take_back_line`` takes away again."""
    sys.stdout.flush()
    _write(text, err=True)


def take_back_line() -> None:
    """Take away what ``passing_line`` printed."""
    sys.stderr.write("\r\x1b[2K")
    sys.stderr.flush()


def passing_line_below(text: str) -> None:
    """Print a line below a line on a screen that is not at its end yet, until ``take_back_below``; the cursor stays."""
    sys.stdout.flush()
    # Down and up again makes room at the end of the screen, where a saved place would scroll away.
    sys.stderr.write(f"\x1bD\x1b[A\x1b7\x1b[B\r{_for_stream(text, sys.stderr)}\x1b8")
    sys.stderr.flush()


def take_back_below() -> None:
    """Take away what ``passing_line_below`` printed."""
    sys.stderr.write("\x1b[J")
    sys.stderr.flush()


def talk_apart() -> None:
    """Print an empty line between data and the next message if a person sees both."""
    if is_watched():
        talk("")


def can_ask() -> bool:
    """Return True if a person at a terminal can be asked."""
    return sys.stdin.isatty()


def can_paint() -> bool:
    """Return True if the terminal of a person who can be asked has a screen that can be painted."""
    return can_ask() and os.environ.get("TERM", "") not in ("", "dumb")


def ask(question: str) -> None:
    """Print a question to a person, who answers on the same line."""
    _write(question, err=True)


def confirm(question: str) -> bool:
    """Ask a person at the terminal; without one the answer is no."""
    return can_ask() and click.confirm(_for_stream(question, sys.stderr), err=True)


def asked(question: str, **how: Any) -> str:
    """Ask a person at the terminal for a text. ``how``: as click's prompt takes it."""
    return str(click.prompt(_for_stream(question, sys.stderr), err=True, **how))


def style(text: str, **how: Any) -> str:
    """Return text with colour, which is removed on output if it is not wanted."""
    codes = click.style("", reset=False, **how).replace("\x1b[", _MARK)
    return f"{codes}{text}{_MARK}0m"


def ident(text: str) -> str:
    """Return a session's or a record's id, such as ``S1`` or ``@12``, as every screen shows it: bold."""
    return style(text, bold=True)


def padded(text: str, room: int) -> str:
    """Return text padded with blanks to ``room`` columns."""
    return text + " " * (room - columns_shown(text))


def columns_shown(text: str) -> int:
    """Return how many columns a text with colours of ``style`` needs."""
    return columns(_CODE.sub("", text))


def cut(text: str, width: int) -> str:
    """Cut a line with colours of ``style`` to ``width`` columns, the last of which says that something was cut."""
    if columns_shown(text) <= width:
        return text
    kept, room, at = list[str](), max(width, 1) - 1, 0
    for code in (*_CODE.finditer(text), None):
        plain = text[at : len(text) if code is None else code.start()]
        if columns(plain) <= room:
            kept.append(plain)
            room -= columns(plain)
        elif room >= 0:
            kept.append(one_line(f"{plain}…", room + 1, keep_blanks=True))
            room = -1
        if code is not None:
            kept.append(code.group())
            at = code.end()
    return "".join(kept)


def for_screen(line: str, *, is_coloured: bool) -> str:
    """Return a line for a screen that is painted: harmless, in one line, with the colours of ``style`` or without."""
    text = _in_one_line(line)
    return text.replace(_MARK, "\x1b[") if is_coloured else _CODE.sub("", text)


def pieces(line: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the parts of a line for a screen that is painted, each harmless and with the codes of its colours (SGR)."""
    codes = tuple[int, ...]()
    for number, part in enumerate(_CODE.split(_in_one_line(line))):
        if number % 2:
            new = tuple(int(each) for each in part.split(";") if each)
            codes = () if 0 in new else (*codes, *new)
        elif part:
            yield part, codes


def _in_one_line(line: str) -> str:
    return clean(line.replace("\n", " ").replace("\t", " "))


def clean(text: str) -> str:
    """Make text safe for a terminal. Output is cleaned anyway; this is for measuring before."""
    return harmless.clean(text)


def one_liner(text: str) -> str:
    """Return a name or a sentence as one line: newlines, tabs and control characters are escaped."""
    return clean(text).replace("\n", "\\n").replace("\t", "\\t")


def _write(text: str, *, err: bool = False) -> None:
    # click must not remove colours: this was decided already.
    click.echo(_for_stream(text, sys.stderr if err else sys.stdout), nl=False, err=err, color=True)


def _for_stream(text: str, stream: Any) -> str:
    """Return harmless text, with the colours of ``style`` if the stream shows them."""
    if _MARK in (text := clean(text)):
        text = text.replace(_MARK, "\x1b[") if _wants_colour(stream) else _CODE.sub("", text)
    return text


def one_line(text: str, width: int, *, keep_blanks: bool = False) -> str:
    """Fold text to one line of at most ``width`` columns; ``keep_blanks`` keeps its indentation."""
    folded = clean(text.expandtabs(4).rstrip()) if keep_blanks else _folded(text)
    if 2 * len(folded) <= width or columns(folded) <= width:
        return folded
    if folded.isascii():
        return folded[: max(width - 1, 0)] + "…"
    kept, used = [], 1
    for letter in folded:
        used += columns(letter)
        if used > width:
            break
        kept.append(letter)
    # What would have joined the next letter has none.
    return "".join(kept).rstrip("\u200d") + "…"


def _folded(text: str) -> str:
    return clean(" ".join(text.split()))


def end_of_line(text: str, width: int) -> str:
    """Fold text to one line of at most ``width`` columns and keep its end, such as a path's name."""
    folded = _folded(text)
    if columns(folded) <= width:
        return folded
    return "…" + one_line(folded[::-1], width)[:-1][::-1]


def columns(text: str) -> int:
    """Return how many columns a text needs on a terminal, at most two for each letter."""
    if text.isascii():
        return len(text)
    return sum(map(_letter_columns, text))


@lru_cache(maxsize=4096)
def _letter_columns(letter: str) -> int:
    """Accents, joiners and variation selectors take no column; East Asian letters and most emoji take two."""
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def width() -> int:
    """Return the columns of the terminal; 100 without one."""
    return screen_size()[0]


def screen_size() -> tuple[int, int]:
    """Return columns and rows as ``shutil`` does, which would import all compressions that it knows."""
    try:
        real = os.get_terminal_size(sys.__stdout__.fileno()) if sys.__stdout__ else os.terminal_size((0, 0))
    except (AttributeError, ValueError, OSError):
        real = os.terminal_size((0, 0))
    return _from_environment("COLUMNS") or real.columns or 100, _from_environment("LINES") or real.lines or 24


def _from_environment(name: str) -> int:
    number = os.environ.get(name, "")
    return int(number) if number.isdecimal() else 0


def table(rows: Sequence[Sequence[str]], *, flexible: int, heads: Sequence[str]) -> list[str]:
    """Align rows in columns. A terminal's width cuts the column ``flexible``; a pipe gets everything."""
    # A text may be a prompt of 40 MB: it is made harmless and measured once.
    everything = [[(folded, columns(folded)) for folded in map(_folded, row)] for row in (heads, *rows)]
    widths = [max(row[n][1] for row in everything) for n in range(len(heads))]
    if sys.stdout.isatty():
        widths[flexible] = min(widths[flexible], max(8, room_for(widths, flexible)))
    lines = []
    for number, row in enumerate(everything):
        line = "  ".join(_padded(*cell, room) for cell, room in zip(row, widths, strict=True)).rstrip()
        lines.append(style(line, dim=True) if number == 0 else line)
    return lines


def _padded(text: str, taken: int, room: int) -> str:
    if taken > room:
        text = one_line(text, room)
        taken = columns(text)
    return text + " " * (room - taken)


def room_for(widths: Sequence[int], flexible: int) -> int:
    """Return the width left on a terminal for one column of a table."""
    return width() - sum(widths) + widths[flexible] - 2 * (len(widths) - 1)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar on stderr if that is a terminal; yields a function of (done, total); None: not known."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns_shown = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
    )
    with Progress(*columns_shown, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(one_liner(what), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _wants_colour(stream: Any) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


# lines of a width -----------------------------------------------------------------------------------------------------


PAGE_COLUMNS_MAX = 120
TEXT_COLUMNS_LEAST = 12
"""The fewest columns for text beside its label, however narrow the terminal is."""
GUTTER = " " * 7
"""As wide as a record's number and the blank behind it."""
MARGIN = GUTTER + "  "
"""The beginning of each line of a text below its first."""
UNLIMITED = sys.maxsize
_START = lazy_regex(r"\s*(?:(?:[-*•]|\d{1,3}[.)])\s+)?", re.ASCII)
"""The indentation of a line, and the sign of a list's item."""
JOINER = "\u200d"
"""Joins the emoji beside it to one."""


_window_columns: ContextVar[int | None] = ContextVar("window_columns", default=None)
"""The columns of the window that a thread draws for, while it is not the terminal."""


@contextmanager
def window_of(columns_wide: int) -> Iterator[None]:
    """Draw lines for a window of so many columns while this lasts, whatever stdout is; in this thread alone."""
    before = _window_columns.set(columns_wide)
    try:
        yield
    finally:
        _window_columns.reset(before)


def whole_columns() -> int:
    """Return how wide the window or the terminal is, for what uses all of it."""
    return _window_columns.get() or width()


def page_columns() -> int:
    """Return how wide the page is; in a pipe a line is never too long."""
    window = _window_columns.get()
    if window is not None:
        return min(window, PAGE_COLUMNS_MAX)
    return min(width(), PAGE_COLUMNS_MAX) if sys.stdout.isatty() else UNLIMITED


def room_beside(taken: int) -> int:
    """Return the columns that are left on a line beside so many."""
    return max(page_columns() - taken, TEXT_COLUMNS_LEAST)


def parts(line: str, room: int) -> Iterator[tuple[int, int, int]]:
    """Yield (indentation, start, end) of each part of a line that was made harmless.

    The parts below the first are indented as far as the line's first word is.
    """
    if len(line) <= room and (line.isascii() or columns(line) <= room):
        yield 0, 0, len(line)
        return
    start, end = next(spans(line, room))
    yield 0, start, end
    found = _START.match(line)
    indent = found.end() if found else 0
    indent = indent if indent <= room // 2 else 0
    below = len(line) - len(line[end:].lstrip(" "))
    if below < len(line):
        rest = line[below:]
        yield from ((indent, below + start, below + end) for start, end in spans(rest, room - indent))


def flowing(text: str, taken: int = len(MARGIN)) -> list[str]:
    """Return a text's lines for the room that ``taken`` columns leave; in a pipe they are as they were."""
    room = room_beside(taken)
    if room >= UNLIMITED - taken:
        return text.split("\n")
    lines = clean(text.expandtabs(4)).split("\n")
    return [" " * indent + line[start:end] for line in lines for indent, start, end in parts(line, room)]


def flowing_facts(facts: Iterable[str], taken: int = 0) -> list[str]:
    """Return facts with `` · `` between them, on as many lines as needed in the room that ``taken`` columns leave."""
    return [part for line in fact_lines(facts, room_beside(taken)) for part in flowing(line, taken)]


def wrapped(text: str, width: int) -> list[str]:
    """Break a text's lines to at most ``width`` columns; the indentation of a line is kept for its first part.

    An empty line stays one. The text is made harmless first, since escapes take columns too.
    """
    lines = clean(text.expandtabs(4)).split("\n")
    return [line[start:end] for line in lines for start, end in spans(line, width)]


def spans(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each part of a line that was made harmless; blanks where it is broken are in no part."""
    start, width, is_plain = 0, max(width, 2), line.isascii()
    while True:
        most = start + width if is_plain else _fitting(line, start, width)
        if most >= len(line):
            yield start, len(line)
            return
        end = _last_break(line, start, most)
        yield start, start + len(line[start:end].rstrip(" "))
        start = end
        while line[start : start + 1] == " ":
            start += 1
        if start == len(line):
            return


def _fitting(line: str, start: int, width: int) -> int:
    """Return the place where a line from ``start`` is full: between whole letters, with accents and joined emoji."""
    used, end = 0, start + 1
    for n in range(start, len(line)):
        used += columns(line[n])
        if used > width:
            return end
        if n + 1 < len(line) and columns(line[n + 1]) and line[n] != JOINER:
            end = n + 1
    return len(line)


def _last_break(line: str, start: int, most: int) -> int:
    """Return a break at ``most`` or before: at the last blank, after the last wide letter, else inside the word."""
    if line[most] == " ":
        return most
    blank = line.rfind(" ", start, most)
    if blank >= 0 and not line[start:blank].strip(" "):
        # Nothing but the line's indentation is before it.
        blank = -1
    # Chinese and Japanese have no blanks: a line is not left half empty for them.
    wide = (
        0 if line.isascii() else next((n for n in range(most, max(blank, start), -1) if columns(line[n - 1]) == 2), 0)
    )
    return wide or (blank if blank >= 0 else most)


def fact_lines(facts: Iterable[str], width: int) -> Iterator[str]:
    """Yield short texts joined by dots, in lines of at most ``width`` columns that break between them; '' is left out.

    A text that is wider than a line is broken between words.
    """
    line = ""
    for fact in facts:
        if not fact:
            continue
        joined = f"{line} · {fact}" if line else fact
        if columns(joined) <= width:
            line = joined
            continue
        if line:
            yield line
        *whole, line = wrapped(fact, width)
        yield from whole
    if line:
        yield line
