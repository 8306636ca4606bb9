"""The only writer of stdout and stderr. Data goes to the one, talk to the other; colour only where it is wanted.

Whatever is printed is made harmless here, so a caller need not think of it: text comes from logs, other people's
stores, file names. Colour is asked for with ``style``, whose marks nobody else can write.
"""

from __future__ import annotations

import math
import os
import sys
import unicodedata
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from backstory import bounds
from backstory.bounds import iso as iso
from backstory.cli import harmless
from backstory.lazy_regex import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from backstory.derive.pricing import Cost
    from backstory.store import Session

NO_TIME = "no time"
"""What is shown where a time is outside 1970 to 9999."""
_MARK = f"<{os.urandom(12).hex()}"
"""Stands for the beginning of a colour's code until it is written. It is another one in each process, so text that was
written before cannot hold it."""
_CODE = lazy_regex(f"{_MARK}[0-9;]*m")


def data(text: str = "") -> None:
    """A line of data."""
    _write(text + "\n")


def raw(text: str) -> None:
    """Data without a line's end, seen at once."""
    _write(text)


def exact(text: str) -> None:
    """Data for programs, byte for byte: no end of a line is changed. Only a terminal gets it made harmless."""
    if sys.stdout.isatty():
        text = "\r\n".join(map(clean, text.split("\r\n")))
    click.echo(text.encode(), nl=False)


def json_line(value: Any) -> None:
    """Data for programs: one JSON value on one line, seen at once."""
    raw(encoded(value) + "\n")


def encoded(value: Any) -> str:
    """JSON on one line. What a terminal may obey is escaped, so the value stays the same."""
    from backstory import model

    try:
        text = model.encoded(value).decode()
    except UnicodeEncodeError:
        # Names of files need not be text: what is none of it is kept as halves of characters.
        import json as standard

        import msgspec

        text = standard.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
    return harmless.clean_json(text)


def json(value: Any) -> None:
    """Data for programs: one JSON value, indented."""
    sys.stdout.write(as_json(value) + "\n")


def as_json(value: Any) -> str:
    """JSON as we print it: indented, non-ASCII as it is."""
    import msgspec

    return msgspec.json.format(encoded(value), indent=2)


def json_lines(head: dict[str, Any], name: str, items: Iterable[Any]) -> None:
    """One JSON object whose last member is a long list, written as it is read."""
    sys.stdout.write(as_json(head)[:-2].rstrip() + f',\n  "{name}": [')
    separator = "\n"
    for item in items:
        sys.stdout.write(f"{separator}    {encoded(item)}")
        separator = ",\n"
    sys.stdout.write("\n  ]\n}\n")


def pages(lines: Iterable[str]) -> None:
    """Data that may be long: on a terminal that it does not fit through a pager, else line by line."""
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
    """As many lines as fit the terminal with a line left for the prompt, and one more; whether these are all."""
    import shutil  # and the compressions that it knows

    columns_wide, rows = shutil.get_terminal_size((100, 24))
    found, used = [], 0
    for line in lines:
        found.append(line)
        shown = _CODE.sub("", clean(line)).split("\n")
        used += sum(max(-(-columns(each) // columns_wide), 1) for each in shown)
        if used >= rows:
            return found, False
    return found, True


def _page(lines: Iterable[str]) -> None:
    """Show lines in the pager that the environment names; ``less`` behaves as git has it, unless told otherwise."""
    os.environ.setdefault("LESS", "FRX")
    shown = (_for_stream(f"{line}\n", sys.stdout) for line in lines)
    click.echo_via_pager(shown, color=None if _wants_colour(sys.stdout) else False)


def talk(text: str) -> None:
    """A word to the person, beside the data."""
    _write(text + "\n", err=True)


def is_watched() -> bool:
    """Whether a person sees what is said beside the data as it comes."""
    return sys.stderr.isatty()


def talk_apart() -> None:
    """An empty line between what was printed and what is said next, where a person sees both."""
    if is_watched():
        talk("")


def refuse(refused: BaseException | str) -> None:
    """Why a command does not do what it was asked, in one line; below it what the error has to add, a line each."""
    talk(f"backstory: {one_liner(str(refused))}")
    for line in getattr(refused, "below", ()):
        talk(f"  {one_liner(line)}")


def refuse_usage(refused: click.ClickException) -> None:
    """What is wrong with the command line, as click says it."""
    import io

    told = io.StringIO()
    refused.show(told)
    talk(told.getvalue().rstrip("\n"))


def trace(failed: BaseException | None) -> None:
    """A fault of ours, for a report: where it happened."""
    import traceback

    if failed is not None:
        talk("".join(traceback.format_exception(failed)).rstrip("\n"))


def can_ask() -> bool:
    """Whether a person is at a terminal, who can be asked."""
    return sys.stdin.isatty()


def confirm(question: str) -> bool:
    """Whether a person at a terminal says yes; without one there is nobody to say so."""
    return can_ask() and click.confirm(_for_stream(question, sys.stderr), err=True)


def style(text: str, **how: Any) -> str:
    """Text with colour, which is taken off again where it is not wanted."""
    codes = click.style("", reset=False, **how).replace("\x1b[", _MARK)
    return f"{codes}{text}{_MARK}0m"


def clean(text: str) -> str:
    """Text of any origin, safe for a terminal. What is printed is cleaned anyway; this is for measuring it before."""
    return harmless.clean(text)


def one_liner(text: str) -> str:
    """A name or a sentence with everything in it that is not a plain line escaped: line ends and tabs, too."""
    return clean(text).replace("\n", "\\n").replace("\t", "\\t")


def _write(text: str, *, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    # It is asked to leave colours alone: what is left of them was decided on already.
    click.echo(_for_stream(text, stream), nl=False, err=err, color=True)


def _for_stream(text: str, stream: Any) -> str:
    """Harmless text, with the colours of ``style`` if the stream shows them."""
    text = clean(text)
    if _MARK not in text:
        return text
    return text.replace(_MARK, "\x1b[") if _wants_colour(stream) else _CODE.sub("", text)


def one_line(text: str, width: int, *, keep_blanks: bool = False) -> str:
    """Text folded to one line of at most ``width`` columns; with ``keep_blanks`` as far in as it stands."""
    folded = clean(text.expandtabs(4).rstrip() if keep_blanks else " ".join(text.split()))
    if columns(folded) <= width:
        return folded
    if folded.isascii():
        return folded[: max(width - 1, 0)] + "…"
    kept, used = [], 1
    for letter in folded:
        used += columns(letter)
        if used > width:
            break
        kept.append(letter)
    return "".join(kept) + "…"


def end_of_line(text: str, width: int) -> str:
    """Text folded to one line of at most ``width`` columns, of which the end is kept: a path's name."""
    folded = clean(" ".join(text.split()))
    if columns(folded) <= width:
        return folded
    return "…" + one_line(folded[::-1], width)[:-1][::-1]


def columns(text: str) -> int:
    """How many columns a terminal needs for a text."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


_ALL = sys.maxsize
"""More columns than any line has."""


def width() -> int:
    """Columns of the terminal; 100 when there is none."""
    import shutil  # and the compressions that it knows

    return shutil.get_terminal_size((100, 24)).columns


def table(rows: Sequence[Sequence[str]], *, flexible: int, heads: Sequence[str]) -> list[str]:
    """Rows as aligned columns. On a terminal the one numbered ``flexible`` is cut to what is left; a pipe gets all."""
    everything = [list(heads), *map(list, rows)]
    widths = [max(columns(one_line(row[n], _ALL)) for row in everything) for n in range(len(heads))]
    if sys.stdout.isatty():
        widths[flexible] = min(widths[flexible], max(8, room_for(widths, flexible)))
    lines = []
    for number, row in enumerate(everything):
        cells = [
            text + " " * (room - columns(text))
            for text, room in ((one_line(text, room), room) for text, room in zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        lines.append(style(line, dim=True) if number == 0 else line)
    return lines


def room_for(widths: Sequence[int], flexible: int) -> int:
    """The columns that a terminal has for one column of a table beside the others."""
    return width() - sum(widths) + widths[flexible] - 2 * (len(widths) - 1)


def local(ms: int | None) -> str:
    """A time as a person reads it, in their own zone."""
    moment = bounds.moment(ms)
    if moment is None:
        return "" if ms is None else NO_TIME
    try:
        return moment.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        # In their own zone it is another year already, of which there is none.
        return moment.strftime("%Y-%m-%d %H:%M")


UNKNOWN = "–"
"""What stands in a table where nothing is known, which is not 0."""
CENT_USD = 0.01
MONEY_MARKS: dict[str, str] = {"computed": "~", "lower bound": "≥ "}


def duration(ms: int | None) -> str:
    """A duration as a person reads it: ``12.3 s``, ``4 min``, ``2.5 h``.

    Of a prompt that nobody answered the first moment is the last, and that is no duration.
    """
    if not ms or not math.isfinite(ms):
        return ""
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms / 60_000:.0f} min" if ms < 5_400_000 else f"{ms / 3_600_000:.1f} h"


def session_name(session: Session) -> str:
    """What a session is called in a sentence."""
    return session.shown_number or session.uid[:12]


def cost_as_json(cost: Cost) -> dict[str, Any]:
    """A turn's cost as JSON says it."""
    return {"cost_usd": cost.usd, "cost_kind": cost.kind, "low_usd": cost.low_usd, "high_usd": cost.high_usd}


def money(cost: Cost) -> str:
    """A cost as a person reads it: ``$1.20`` as reported, ``~$1.20`` computed, ``≥ $1.20`` at least, ``–`` unknown."""
    if cost.low_usd is None:
        return UNKNOWN
    return f"{MONEY_MARKS.get(cost.kind, '')}{_dollars(cost.low_usd)}"


def _dollars(usd: float) -> str:
    """An amount to the cent; one under a cent, which is not nothing, to a tenth of it."""
    if usd >= CENT_USD or usd == 0:
        return f"${usd:,.2f}"
    return f"${usd:.3f}" if usd >= CENT_USD / 20 else "<$0.001"


def counted(count: int, one: str, many: str | None = None) -> str:
    """``1 session``, ``2 sessions``, ``12,345 sessions``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size(count: int) -> str:
    """A number of bytes as a person reads it."""
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} KB" if count >= 1000 else f"{count} B"


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, on a terminal only; yields a function of (done, total)."""
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
