"""Prompts of the screen: what is typed and not sent yet, and what keys turn through for the next one."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.errors import BackstoryError
from backstory.model import Permissions
from backstory.projects import git
from backstory.runs.sent import SentPrompt
from backstory.store.private import make_private_folder, write_private
from backstory.workspace.runs.sending import agents_that_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.cli.app import App
    from backstory.workspace.runs.prompt_queue import ListedPrompt
    from backstory.workspace.runs.sending import RunChoice

DRAFTS = ("drafts", "screen")
"""The folder below BACKSTORY_HOME for what was typed and not sent, a file a session."""
NEW = "new"
"""The name of the draft for a session that is not begun."""
SCREENS_MAX = 9
"""The most texts that are kept for a session."""


def started(app: App, words: list[str], prompt: str | None, folder: str | None = None) -> SentPrompt:
    """Start the process of a prompt. ``folder``: None for the one that the screen was started in."""
    store = app.cwd / app.store_path if app.store_path else None
    return SentPrompt(words, prompt, folder or app.cwd, app.environ, store)


def title_of(choice: RunChoice, *, is_new: bool) -> str:
    """The choice in a line."""
    agent = choice.agent or ("the agent of the settings" if is_new else "the agent of the last turn")
    model = f" ({output.one_liner(choice.model)})" if choice.model else ""
    place = f" in {output.one_liner(PurePath(choice.worktree).name)}/" if choice.worktree else ""
    return f"to {agent}{model}{place} · may do unasked: {choice.permissions or 'as in the settings'}"


def known_for(what: str, folder: Path) -> list[str]:
    """Return what keys turn through: the permissions, the worktrees of a folder's repository, or the agents."""
    if what == "permissions":
        return [each.value for each in Permissions]
    return worktrees_of(folder) if what == "worktree" else agents_that_run()


def worktrees_of(folder: Path) -> list[str]:
    """Return the worktrees of a folder's repository that are there, the main one first."""
    first = git.shared_root(folder)
    found = [] if first is None else [first, *git.worktrees(folder)]
    # A bare repository has no files to work on, and a worktree may be gone.
    return [str(each) for each in dict.fromkeys(found) if (each / ".git").exists()]


class TypedText:
    """Text that was typed for a session and not sent yet; it survives the screen.

    Two screens on one session have a file each, as soon as both have a text. The other text is read when one is sent.
    """

    def __init__(self, home: Path, uid: str | None) -> None:
        numbers = ("", *(f"-{n}" for n in range(2, SCREENS_MAX + 1)))
        self._files = [home.joinpath(*DRAFTS, f"{uid or NEW}{number}.md") for number in numbers]
        self._file, self._known = self._files[0], b""
        """The file, and its content as it was read or written here last."""

    def read(self) -> str:
        """Return the text; '' if there is none."""
        self._file = next(filter(_content, self._files), self._files[0])
        self._known = _content(self._file)
        return self._known.decode("utf-8", "replace")

    def is_gone(self, text: str) -> bool:
        """True if this text was kept, and another screen has sent or emptied it since."""
        return bool(self._known) and self._known == text.encode("utf-8", "replace") and not _content(self._file)

    def keep(self, text: str) -> None:
        """Keep a text; an empty one removes the file. Raises DiskFull, CannotWrite."""
        found, wanted = _content(self._file), text.encode("utf-8", "replace") if text.strip() else b""
        is_ours = found in (b"", self._known)
        if (found and wanted == self._known) or not (is_ours or wanted):
            # What is there may be another screen's.
            return
        if not is_ours:
            self._file = next((each for each in self._files if not _content(each)), self._file)
        if wanted:
            make_private_folder(self._file.parent)
            write_private(self._file, wanted)
        else:
            self._file.unlink(missing_ok=True)
        self._known = wanted


def _content(file: Path) -> bytes:
    with suppress(OSError):
        return file.read_bytes()
    return b""


class Unsent:
    """Text that is typed for a session, kept by threads of their own, which the end of a screen does not stop.

    ``refused`` receives a sentence if a text cannot be kept.
    """

    def __init__(self, typed: TypedText, refused: Callable[[str], None]) -> None:
        self._typed, self._refused = typed, refused
        self._writing = threading.Lock()
        self.text = ""
        """The last text."""

    def load(self, read: Callable[[str], None]) -> None:
        """Pass what was typed before; nothing is kept until it is read."""
        self._writing.acquire()
        threading.Thread(target=self._load, args=(read,)).start()

    def _load(self, read: Callable[[str], None]) -> None:
        try:
            found = self._typed.read()
        finally:
            self._writing.release()
        read(found)

    def look_again(self, text: str, gone: Callable[[str], None]) -> None:
        """Pass a text that nobody keeps any more, although it was kept."""

        def look() -> None:
            with self._writing:
                is_gone = self._typed.is_gone(text)
            if is_gone:
                gone(text)

        threading.Thread(target=look).start()

    def keep(self, text: str) -> None:
        """Keep a text instead of the last one; '' if there is nothing to keep any more."""
        self.text = text
        threading.Thread(target=self._keep).start()

    def _keep(self) -> None:
        try:
            with self._writing:
                # The last text counts, whichever thread comes last.
                self._typed.keep(self.text)
        except BackstoryError as refused:
            self._refused(output.one_liner(str(refused)))


def last_waiting(app: App, uid: str) -> ListedPrompt | None:
    """The prompt that was queued last for a session; None if none waits. Raises SessionNotFound."""
    with app.new_workspace() as workspace:
        listed = workspace.scheduler.queue.listed(workspace.resolve(uid))
    return next((each for each in reversed(listed) if not each.is_held), None)


def drop(app: App, prompt_uid: str) -> None:
    """Take a prompt out of the queue of this project. Raises NotQueued, also where it runs by now."""
    with app.new_workspace() as workspace:
        workspace.scheduler.queue.drop([prompt_uid])
