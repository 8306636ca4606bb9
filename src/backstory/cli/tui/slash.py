"""Commands that are typed as a prompt: ``/reindex``, ``/tree``, ``/search words`` and their like.

Each is a command of ours, run in a process of its own; its lines are shown in the session. Any other text that begins
with a slash is a prompt, for agents have such commands, too.
"""

from __future__ import annotations

import shlex
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.runs.sent import ourselves
from backstory.sync import account

if TYPE_CHECKING:
    from backstory.cli.app import App

OF_SESSION = {"/compact": ["compact", "-S"], "/tree": ["tree"]}
"""The commands that are about the session that is open, whose uid follows the words."""
OF_HISTORY = {"/reindex": ["reindex"], "/search": ["search"]}
CHRONICLE = ("standup", "tips", "improve", "cost", "search", "reindex")
OUTPUT_CHARS_MAX = 200_000
"""The most characters of what a command prints that are shown."""


def words_of(text: str, uid: str | None) -> list[str] | None:
    """The words of the command that a text names; None if it is a prompt.

    >>> words_of("/chronicle standup --since 3d", None), words_of("/search 'rate limit'", None)
    (['chronicle', 'standup', '--since', '3d'], ['search', 'rate limit'])
    >>> words_of("/tree", "0abc"), words_of("/tree", None), words_of("/review it", "0abc")
    (['tree', '0abc'], None, None)
    """
    name, *given = _split(text)
    if name == "/chronicle" and given and given[0] in CHRONICLE:
        return ["chronicle", *given]
    if name in OF_HISTORY:
        return [*OF_HISTORY[name], *given]
    if name in OF_SESSION and uid is not None:
        return [*OF_SESSION[name], uid, *given]
    return None


def _split(text: str) -> list[str]:
    with suppress(ValueError):
        return shlex.split(text) or [""]
    # A quote is open: it is a text of words.
    return text.split() or [""]


def offer(app: App, words: list[str]) -> str | None:
    """Return the question before a command runs: a reindex offers once to send history, too."""
    name, *given = words[1:] if words[0] == "chronicle" else words
    if name != "reindex" or {"--sync", "--confirmed"} & {*given} or not account.is_kept(app.home):
        return None
    from backstory.cli import syncing

    return syncing.offer(app)


def answered(app: App, words: list[str], *, goes_on: bool) -> list[str]:
    """The words of a command whose offer a person answered."""
    from backstory.cli import syncing

    if goes_on:
        return [*words, "--confirmed"]
    syncing.note_asked(app)
    return words


def lines_of(app: App, words: list[str], columns: int) -> list[str]:
    """Run a command, and return the lines of what it prints, its talk behind them."""
    named = [f"--store={app.store_path}"] if app.store_path else []
    environ = {**app.environ, "COLUMNS": str(columns), "NO_COLOR": "1"}
    try:
        ran = subprocess.run(
            [*ourselves(), *words, *named], cwd=app.cwd, env=environ, stdin=subprocess.DEVNULL, capture_output=True,
            check=False, start_new_session=True,
        )  # fmt: skip
    except OSError as refused:
        return [output.one_liner(str(refused))]
    said = f"{ran.stdout.decode('utf-8', 'replace')}{ran.stderr.decode('utf-8', 'replace')}"
    cut = said[:OUTPUT_CHARS_MAX]
    lines = cut.rstrip("\n").split("\n")
    if len(cut) < len(said):
        lines.append(f"… {output.counted(len(said) - len(cut), 'character')} more: backstory {shlex.join(words)}")
    return [output.one_line(line, columns, keep_blanks=True) for line in lines]
