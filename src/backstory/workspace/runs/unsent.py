"""Writes how to queue a prompt again: the command line, with its text in it or in a file beside the store.

Such a file belongs to its session, by name, and is removed with it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from backstory.store.private import make_private_folder, write_private
from backstory.store.tables.queue import QueuedKind

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

    from backstory.store.tables.queue import QueuedPrompt

UNSENT = "unsent"
"""The folder below BACKSTORY_HOME for texts that are too long for a command line that people copy."""
OF = "-"
"""Stands between the uid of a session and that of a text, in the name of its file."""
SHOWN_CHARS_MAX = 500


def command_for(text: QueuedPrompt, session: str, home: Path, store_path: str | None) -> str:
    """The command that queues a text for a session again. Raises DiskFull, CannotWrite for one that needs a file."""
    words = ["backstory", *_what(text), "-S", session, *_options(text)]
    words += ["--store", store_path] if store_path else []
    if text.content.isprintable() and len(text.content) <= SHOWN_CHARS_MAX:
        return shlex.join([*words, "--", text.content])
    make_private_folder(home / UNSENT)
    file = home / UNSENT / f"{text.session_uid}{OF}{text.uid}.txt"
    write_private(file, text.content.encode(), sync=True)
    return f"{shlex.join(words)} < {shlex.quote(str(file))}"


def drop_unsent(home: Path, removed: Container[str]) -> list[Path]:
    """Remove what could not be queued for these sessions; returns the files that stay and may be theirs."""
    stay = []
    for file in sorted((home / UNSENT).glob("*.txt")):
        session_uid, named, _ = file.name.partition(OF)
        try:
            if named and session_uid in removed:
                file.unlink()
            elif not named:
                # Earlier versions did not write down whose it is.
                stay.append(file)
        except OSError:
            stay.append(file)
    return stay


def _what(text: QueuedPrompt) -> list[str]:
    if text.kind == QueuedKind.STEER:
        return ["steer"]
    return ["run", "--at", f"@{text.options.after[1]}"] if text.options.after else ["followup"]


def _options(text: QueuedPrompt) -> list[str]:
    if text.kind == QueuedKind.STEER:
        # It asks for the same as the run that it is for.
        return []
    asked = text.options
    named = {"--agent": asked.agent, "--model": asked.model, "--permissions": asked.permissions, "--cwd": asked.cwd}
    words = [word for name, value in named.items() if value for word in (name, value)]
    return [*words, "--no-board"] if asked.no_board else words
