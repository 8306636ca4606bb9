"""How to queue again what could not be queued: the command line, with the text in it or in a file beside the store."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from backstory.store.private import make_private_folder, write_private
from backstory.store.queue import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.store.queue import Text

UNSENT = "unsent"
"""The folder below BACKSTORY_HOME for texts that are too long for a command line that people copy."""
SHOWN_CHARS_MAX = 500


def command_for(text: Text, session: str, home: Path, store_path: str | None) -> str:
    """The command that queues a text for a session again. Raises DiskFull, CannotWrite for one that needs a file."""
    words = ["backstory", *_what(text), "-S", session, *_options(text)]
    words += ["--store", store_path] if store_path else []
    if text.content.isprintable() and len(text.content) <= SHOWN_CHARS_MAX:
        return shlex.join([*words, "--", text.content])
    make_private_folder(home / UNSENT)
    file = home / UNSENT / f"{text.uid}.txt"
    write_private(file, text.content.encode(), sync=True)
    return f"{shlex.join(words)} < {shlex.quote(str(file))}"


def _what(text: Text) -> list[str]:
    if text.kind == Kind.STEER:
        return ["steer"]
    return ["run", "--at", f"@{text.options.after[1]}"] if text.options.after else ["followup"]


def _options(text: Text) -> list[str]:
    if text.kind == Kind.STEER:
        # It asks for the same as the run that it is for.
        return []
    asked = text.options
    named = {"--agent": asked.agent, "--model": asked.model, "--permissions": asked.permissions, "--cwd": asked.cwd}
    return [word for name, value in named.items() if value for word in (name, value)]
