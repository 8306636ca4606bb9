"""A prompt written in the person's own editor. Its file is kept until the prompt is stored elsewhere."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.cli import output
from backstory.errors import EditorFailed, EditorMissing, PromptLeftEmpty, PromptNotText
from backstory.store.private import make_private_folder, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DRAFTS = "drafts"
"""The folder below BACKSTORY_HOME for prompts, each in a folder of its own, where editors may add files."""
HELP_BEGINS = "# backstory:"
HELP = (
    f"{HELP_BEGINS} write the prompt, save, and close the editor to run it.",
    f"{HELP_BEGINS} an empty prompt is not run. Only these lines are removed.",
)
ABOUT_TEXT = (
    "{begins} write the {what}, save, and close the editor to keep it.",
    "{begins} an empty text changes nothing. Only these lines are removed.",
)
"""The help above a text that is no prompt."""
FROM_STDIN = f"{HELP_BEGINS} the text from stdin is added after the prompt."


class Draft:
    """A prompt while it is written, or another text: ``what``. ``home``: BACKSTORY_HOME."""

    def __init__(self, home: Path, environ: Mapping[str, str], what: str | None = None) -> None:
        self._home, self._environ = home, environ
        about = tuple(line.format(begins=HELP_BEGINS, what=what) for line in ABOUT_TEXT)
        self._help = HELP if what is None else about
        self._file: Path | None = None

    def write(self, text: str, *, with_stdin: bool) -> str:
        """Let the person edit a text, and return the result; if this raises, nothing is run.

        Raises EditorMissing, EditorFailed, PromptLeftEmpty, PromptNotText, and for its file DiskFull, CannotWrite.
        """
        command = _editor(self._environ)
        help_lines = (*self._help, FROM_STDIN) if with_stdin else self._help
        self._file = _made(self._home / DRAFTS, "\n".join([text, "", *help_lines, ""]))
        _edit(command, self._file)
        written = self._written().decode("utf-8", "surrogateescape")
        if not written:
            raise PromptLeftEmpty
        try:
            written.encode()
        except UnicodeEncodeError as refused:
            raise PromptNotText from refused
        return written

    def remove(self) -> None:
        """Remove the file, whose text is stored elsewhere or empty."""
        if self._file is not None:
            import shutil  # and the compressions that it knows

            shutil.rmtree(self._file.parent, ignore_errors=True)
            self._file = None

    def keep_unstored(self) -> None:
        """Keep the file and print its path if the text is stored nowhere else."""
        written = self._written()
        if self._file is None or not written:
            self.remove()
            return
        write_private(self._file, written)
        output.talk(f"Your text is kept. To use it, add to the command: < {shlex.quote(str(self._file))}")

    def _written(self) -> bytes:
        """The prompt, without our own lines and without blank lines around it."""
        if self._file is None:
            return b""
        with suppress(OSError):
            lines = self._file.read_bytes().splitlines(keepends=True)
            return b"".join(line for line in lines if not line.startswith(HELP_BEGINS.encode())).strip()
        return b""


def _editor(environ: Mapping[str, str]) -> list[str]:
    """The person's editor with its arguments. Raises EditorMissing."""
    configured = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        words = shlex.split(configured)
    except ValueError as refused:
        raise EditorMissing(configured) from refused
    if not words:
        raise EditorMissing(None)
    import shutil

    program = shutil.which(words[0], path=environ.get("PATH"))
    if program is None:
        raise EditorMissing(words[0])
    return [program, *words[1:]]


def _made(folder: Path, text: str) -> Path:
    """Create a private file with a text. Raises DiskFull, CannotWrite, PromptNotText."""
    try:
        data = text.encode()
    except UnicodeEncodeError as refused:
        raise PromptNotText from refused
    make_private_folder(folder)
    file = Path(tempfile.mkdtemp(dir=folder)) / "prompt.md"
    write_private(file, data)
    return file


def _edit(command: list[str], file: Path) -> None:
    """Wait until the editor is closed. Raises EditorFailed."""
    try:
        with _terminal() as streams:
            # While the editor is open, Ctrl-C is for it alone. A handler, unlike SIG_IGN, is not inherited by it, so
            # this can be set before it begins.
            before = signal.signal(signal.SIGINT, lambda *_: None)
            try:
                code = subprocess.Popen([*command, str(file)], **streams).wait()
            finally:
                signal.signal(signal.SIGINT, before)
    except OSError as refused:
        raise EditorFailed(command[0], refused.strerror or str(refused)) from refused
    if code:
        raise EditorFailed(command[0], f"exit code {code}" if code > 0 else f"signal {-code}")


@contextmanager
def _terminal() -> Iterator[dict[str, Any]]:
    """The terminal for the editor, even if our own stdin or stdout is a pipe."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        yield {}
        return
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        # Nobody types, but a program may edit by itself. Its output is not our data.
        yield {"stdin": subprocess.DEVNULL, "stdout": sys.stderr}
        return
    try:
        yield {"stdin": terminal, "stdout": terminal}
    finally:
        os.close(terminal)
