"""A prompt that was sent: a `backstory run` of its own, so it goes on when the screen is closed, and is recorded."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from contextlib import suppress
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstory import agents
from backstory.cli import output
from backstory.cli.picker.picking import ourselves
from backstory.errors import BackstoryError
from backstory.model import Permissions
from backstory.projects import git
from backstory.store.private import make_private_folder, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from backstory.cli.app import App
    from backstory.workspace.runs.prompt_queue import ListedPrompt
    from backstory.workspace.workspace import Workspace

DRAFTS = ("drafts", "screen")
"""The folder below BACKSTORY_HOME for what was typed and not sent, a file a session."""
NEW = "new"
"""The name of the draft for a session that is not begun."""
SCREENS_MAX = 9
"""The most texts that are kept for a session."""
REASON_CHARS_MAX = 4_000
ENDS_OF_RUNS = (1, 130)
"""The exit codes of `backstory run` for an agent that failed or was stopped; of a refusal they have a line of JSON."""


class Way(StrEnum):
    """The use of a prompt whose session runs."""

    STAGE = "stage"
    """The run is stopped, then the prompt is run."""
    QUEUE = "queue"
    """It runs when the run ends."""
    STEER = "steer"
    """The agent reads it between its steps."""


class SentPrompt:
    """A process that runs a prompt. ``words``: its command with options; ``prompt``: None for one without a prompt.

    ``folder``: where it is started; None: where the screen was.
    """

    def __init__(self, app: App, words: list[str], prompt: str | None, folder: str | None = None) -> None:
        named = [f"--store={app.cwd / app.store_path}"] if app.store_path else []
        taking = [] if prompt is None else ["--json", "--stdin"]
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes into it
        with tempfile.TemporaryFile() as given:
            given.write((prompt or "").encode("utf-8", "replace"))
            given.seek(0)
            self.process = subprocess.Popen(
                [*ourselves(), *words[:1], *named, *words[1:], *taking], stdin=given,
                stdout=subprocess.DEVNULL, stderr=self._said, cwd=folder or app.cwd, env=dict(app.environ),
                start_new_session=True,
            )  # fmt: skip
        # It is waited for, so that nothing is left of it in the table of processes, but nobody has to.
        threading.Thread(target=self.process.wait, daemon=True).start()

    def close(self) -> None:
        """Let go of what it says; the process goes on."""
        self._said.close()

    def stop(self) -> None:
        """End the process; if it runs no agent yet, the prompt is not sent."""
        with suppress(OSError):
            self.process.terminate()

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self.process.poll()

    @property
    def was_taken(self) -> bool:
        """True if a process that ended queued the prompt or had an agent work on it, whatever came of that."""
        return self.code == 0 or (self.code in ENDS_OF_RUNS and _refusal_in(self._last_line) is None)

    def said(self) -> str:
        """Return its last sentence for the person."""
        line = self._last_line
        refusal = _refusal_in(line)
        return output.one_liner(line.removeprefix("Error: ") if refusal is None else refusal)

    @property
    def _last_line(self) -> str:
        self._said.seek(0)
        lines = self._said.read(REASON_CHARS_MAX).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


class _Reason(Struct):
    message: str


class _Refused(Struct):
    """A line of ``--json`` that says why a command did nothing."""

    error: _Reason


def _refusal_in(line: str) -> str | None:
    """The sentence for the person in the last line of a command that did nothing; None for that of another one."""
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(line, type=_Refused).error.message
    return None


class RunChoice(Struct, frozen=True, kw_only=True):
    """The agent that a prompt is for, its model, and what it may do unasked; None: as the settings say.

    ``worktree``: the worktree of the repository that it runs in; None: where a run without it would be.
    """

    agent: str | None = None
    model: str | None = None
    permissions: str | None = None
    worktree: str | None = None

    def turned(self, what: str, known: Sequence[str]) -> RunChoice:
        """The same with the next of the known permissions, worktrees, or agents."""
        now = {"permissions": self.permissions, "worktree": self.worktree, "agent": self.agent}[what]
        changed: dict[str, str | None] = {what: _next(known, now)}
        # A model is of one agent only.
        return replace(self, **changed, **({"model": None} if what == "agent" else {}))

    def title(self, *, is_new: bool) -> str:
        """The choice in a line."""
        agent = self.agent or ("the agent of the settings" if is_new else "the agent of the last turn")
        model = f" ({output.one_liner(self.model)})" if self.model else ""
        place = f" in {output.one_liner(PurePath(self.worktree).name)}/" if self.worktree else ""
        return f"to {agent}{model}{place} · may do unasked: {self.permissions or 'as in the settings'}"

    def options(self) -> list[str]:
        """The options of `backstory run` for it."""
        given = {"--agent": self.agent, "--model": self.model, "--permissions": self.permissions}
        return [word for name, value in given.items() if value for word in (name, value)]


def _next(known: Sequence[str], now: str | None) -> str | None:
    """The next of several values; behind the last one none."""
    at = known.index(now) + 1 if now in known else 0
    return known[at] if at < len(known) else None


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


def agents_that_run() -> list[str]:
    """The agents that prompts can be sent to. Every agent's package is imported."""
    return [name for name in agents.names() if _can_run(name)]


def _can_run(name: str) -> bool:
    try:
        return agents.load(name).run is not None
    except BackstoryError:
        return False


def words_for(uid: str | None, way: Way, choice: RunChoice, *, is_running: bool, after: int | None = None) -> list[str]:
    """The command that sends a prompt to a session; None: to a new one. ``after``: the record that it follows.

    What an agent reads while it works follows no other record, so a prompt that does waits instead.
    """
    if uid is not None and way is Way.STEER and is_running and after is None:
        return ["steer", "-S", uid, "--no-run"]
    words = ["run", *(["-S", uid] if uid is not None else ["--new"])]
    words += ["--at", f"@{after}"] if after is not None else []
    words += ["--cancel-first"] if way is Way.STAGE and is_running else []
    return [*words, *choice.options()]


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


def session_run_by(workspace: Workspace, pid: int) -> str | None:
    """The uid of the session that a process runs; None while it runs none."""
    with suppress(BackstoryError):
        for each in workspace.scheduler.runs():
            if each.owner is not None and each.owner.pid == pid and each.state != "queued":
                return each.session
    return None


def last_waiting(app: App, uid: str) -> ListedPrompt | None:
    """The prompt that was queued last for a session; None if none waits. Raises SessionNotFound."""
    with app.new_workspace() as workspace:
        listed = workspace.scheduler.queue.listed(workspace.resolve(uid))
    return next((each for each in reversed(listed) if not each.is_held), None)


def drop(app: App, prompt_uid: str) -> None:
    """Take a prompt out of the queue of this project. Raises NotQueued, also where it runs by now."""
    with app.new_workspace() as workspace:
        workspace.scheduler.queue.drop([prompt_uid])
