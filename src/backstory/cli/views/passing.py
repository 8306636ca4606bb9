"""The passphrase of a folder: from the environment, a file, or the person at the terminal; never an argument."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.errors import FileUnreadable, LockNotInstalled, in_words

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.sync.folder import Passphrase

VARIABLE = "BACKSTORY_PASSPHRASE"
CHARS_GOOD = 12
"""A shorter one is used, and it is said that it can be guessed."""
BYTES_MAX = 10_000

passphrase_file_option = click.option(
    "--passphrase-file", type=click.Path(path_type=Path), metavar="FILE",
    help="The passphrase is the first line of FILE. Else it is BACKSTORY_PASSPHRASE, or asked for.",
)  # fmt: skip


def passphrase_of(app: App, file: Path | None, *, is_new: bool = False, plain: bool = False) -> Passphrase:
    """A passphrase that is looked for when it is needed. ``is_new``: it is asked for twice. Raises LockNotInstalled.

    ``plain``: files that are not sealed are read, too.
    """
    from importlib.util import find_spec

    from backstory.sync.folder import Passphrase

    def ask() -> str | None:
        if file is not None:
            try:
                with (app.cwd / file.expanduser()).open("rb") as opened:
                    said = opened.readline(BYTES_MAX).rstrip(b"\r\n").decode("utf-8", "replace")
            except OSError as refused:
                raise FileUnreadable(file, in_words(refused)) from refused
        else:
            said = app.environ.get(VARIABLE, "")
        if not said and output.can_ask():
            said = output.asked("Passphrase of the folder", hide_input=True, confirmation_prompt=is_new)
        if is_new and said and len(said) < CHARS_GOOD:
            output.talk("That is a short passphrase: whoever sees the folder can try as many as they like.")
        return said or None

    if find_spec("cryptography") is None and not plain:
        raise LockNotInstalled("A sealed folder")
    return Passphrase(ask, reads_plain=plain)
