"""The sources of a prompt: the command line, stdin, an editor, or several of them."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.errors import PromptNotText, StdinTooLong, StdinUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backstory.cli.app import App
    from backstory.cli.editor import Draft


READS_STDIN, EDITS = "backstory.reads_stdin", "backstory.edits"


def input_options(function: Callable[..., Any], what: str = "prompt") -> Callable[..., Any]:
    """Options of every command with a prompt, or another text; ``PromptInput`` reads them."""
    for option in (
        click.option(
            "--stdin/--no-stdin",
            default=None,
            expose_value=False,
            callback=_noted(READS_STDIN),
            help="Read stdin, however long it takes / never read stdin (for `while read` loops).",
        ),
        click.option(
            "--edit", is_flag=True, expose_value=False, callback=_noted(EDITS), help=f"Write the {what} in $EDITOR."
        ),
    ):
        function = option(function)
    return function


def _noted(name: str) -> Callable[[click.Context, click.Parameter, bool | None], None]:
    def note(ctx: click.Context, _param: click.Parameter, value: bool | None) -> None:
        ctx.meta[name] = value

    return note


class PromptInput:
    """The prompt of one command. Without words it is read from stdin, or written in an editor.

    ``what``: what is written there, if that is no prompt to be run.
    """

    def __init__(self, ctx: click.Context, what: str | None = None) -> None:
        self._ctx, self._what = ctx, what
        self._draft: Draft | None = None
        self._reads_stdin: bool | None = ctx.meta[READS_STDIN]
        self._edits: bool = ctx.meta[EDITS]
        self._edits_without_words = self._edits or (self._reads_stdin is not True and is_terminal())

    def has_more(self) -> bool:
        """Return True if there is a prompt although no words were given."""
        return self._edits_without_words or bool(self._alone.strip())

    def edits_alone(self, words: Sequence[str]) -> bool:
        """Return True if the text will be written in an editor, and no words are given to begin with."""
        return not words and self._edits_without_words

    def text(self, words: Sequence[str]) -> str:
        """Return the prompt: the words, then stdin; empty if there is neither.

        Raises StdinTooLong, StdinUnreadable, PromptNotText, and as ``Draft.write`` does.
        """
        typed = " ".join(words)
        if self._edits or (self._edits_without_words and not words):
            piped = self._beside()
            return _joined(self._written(typed, with_stdin=bool(piped.strip())), piped)
        return _joined(typed, self._beside()) if words else self._alone

    def stored(self) -> None:
        """Note that the prompt is stored: its draft is removed."""
        if self._draft is not None:
            self._draft.remove()

    def _written(self, typed: str, *, with_stdin: bool) -> str:
        # Few prompts are written in an editor; the others need not wait for this import.
        from backstory.cli.editor import Draft

        app: App = self._ctx.obj
        self._draft = Draft(app.home, app.environ, self._what)
        self._ctx.call_on_close(self._draft.keep_unstored)
        return self._draft.write(typed, with_stdin=with_stdin)

    @cached_property
    def _alone(self) -> str:
        return "" if self._reads_stdin is False else read_all()

    def _beside(self) -> str:
        if self._reads_stdin is None:
            return read_beside()
        return self._alone


def _joined(typed: str, piped: str) -> str:
    """Join a prompt and the text of stdin with a blank line; either may be empty."""
    return "\n\n".join(each for each in (typed, piped) if each.strip()) or typed


# text from stdin: as the prompt, or in addition to one ----------------------------------------------------------------


BYTES_MAX = 10_000_000
WAIT_S = 3.0
"""Longest silence of a pipe that comes with a prompt."""
READ_BYTES = 1024 * 1024


def is_terminal() -> bool:
    """Return True if stdin is a terminal."""
    return sys.stdin.isatty()


def read_all() -> str:
    """Read stdin to its end, however long that takes. Raises StdinTooLong, StdinUnreadable, PromptNotText."""
    return _text(_read(sys.stdin.fileno()))


def read_beside(wait_s: float = WAIT_S) -> str:
    """Read stdin as an addition to a prompt; empty if it was not meant for it. Raises as ``read_all`` does."""
    file = sys.stdin.fileno()
    if not _is_meant(file):
        return ""
    if not select.select([file], [], [], wait_s)[0]:
        output.talk(f"stdin was silent for {wait_s:g} s, so it is not read. --stdin waits for it.")
        return ""
    return _text(_read(file))


def _is_meant(file: int) -> bool:
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return os.lseek(file, 0, os.SEEK_CUR) == 0
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _read(file: int) -> bytes:
    """Read the bytes up to the end; prints one message while it waits."""
    data, patience_s = bytearray(), WAIT_S if not os.isatty(file) else None
    while len(data) <= BYTES_MAX:
        if not select.select([file], [], [], patience_s)[0]:
            output.talk("Reading stdin until its end. Ctrl-C stops; --no-stdin does not read it.")
            patience_s = None
            continue
        try:
            block = os.read(file, READ_BYTES)
        except BlockingIOError:
            continue
        except OSError as refused:
            if refused.errno == errno.EBADF:
                # stdin is open for writing only, as with nohup.
                return b""
            raise StdinUnreadable(refused.strerror or str(refused)) from refused
        if not block:
            return bytes(data)
        data += block
    raise StdinTooLong(BYTES_MAX)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as refused:
        raise PromptNotText(refused.start + 1) from refused
