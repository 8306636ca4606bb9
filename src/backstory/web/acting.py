"""Acts for a person from the pages: prompts that are run, queued or said to an agent that works, and its end.

A prompt is a command of ours in a process of its own, as a terminal would start it, so it goes on when the pages end.
What the pages do not do, they answer with the command for it.
"""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backstory.errors import BackstoryError
from backstory.model import Permissions
from backstory.runs.runner import check_text
from backstory.runs.sent import SentPrompt
from backstory.web.markup import plain
from backstory.workspace.runs.sending import RunChoice, Way, agents_that_run, session_run_by, words_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.workspace import Workspace

TOKEN_FIELD = "csrf"
POLL_S, SENT_S = 0.1, 20.0
"""A prompt that is being sent is looked for so often, and at most so long."""
FOLDERS_MOST = 200
PROMPT_SHOWN_CHARS = 2_000
"""A longer prompt is not repeated in the command to type."""
RANKS = (Permissions.ASK, Permissions.EDIT, Permissions.ALL)
"""Permissions, each of which has those before it."""
WAYS = {
    Way.QUEUE: "when the run has ended",
    Way.STEER: "to the agent, between its steps",
    Way.STAGE: "at once: stop the run first",
}
_PERMISSIONS = tuple(each.value for each in Permissions)
NOT_TRUSTED = "not_trusted"


class Order(Struct, frozen=True, kw_only=True):
    """A prompt as it was typed, with what was chosen for it. ``after``: the record that it follows."""

    prompt: str = ""
    way: str = Way.QUEUE.value
    agent: str = ""
    model: str = ""
    permissions: str = ""
    folder: str = ""
    after: str = ""

    @classmethod
    def read(cls, typed: Mapping[str, str]) -> Order:
        """Read the fields of a form."""
        found = {name: typed[name] for name in cls.__struct_fields__ if name in typed}
        # A browser sends the end of a line as two characters.
        return cls(**found | {"prompt": found.get("prompt", "").replace("\r\n", "\n")})


class Reply(Struct, frozen=True, kw_only=True):
    """The result for a person. ``uid``: the session; None for a new one that was over before it was seen.

    ``commands``: for a terminal, where the pages do not do it.
    """

    said: str = ""
    is_done: bool = False
    uid: str | None = None
    commands: tuple[str, ...] = ()


NO_ORDER, NO_REPLY = Order(), Reply()


class Waiting(Struct, frozen=True):
    """A prompt that waits for its turn. ``command``: runs one that is held; '' for any other."""

    text: str
    command: str


class PromptForm(Struct, frozen=True, kw_only=True):
    """The field for a prompt: of a session, or of a new one (``uid`` is '')."""

    uid: str
    csrf: str
    order: Order
    answer: Reply
    folders: tuple[str, ...]
    agents: tuple[str, ...]
    permissions: tuple[str, ...]
    configured: str
    ways: tuple[tuple[str, str], ...]
    """The choices while an agent works on the session, with their words."""
    waiting: tuple[Waiting, ...] = ()


class Acting:
    """Does what a form asks. ``open_in`` opens the workspace of a folder.

    ``environ``: of what is started; ``store``: one that takes the place of the others.
    """

    def __init__(self, open_in: Callable[[Path], Workspace], environ: Mapping[str, str], store: Path | None) -> None:
        self._open_in, self._environ, self._store = open_in, environ, store
        self._over = threading.Event()
        self.csrf = secrets.token_urlsafe(32)

    def end(self) -> None:
        """Wait for no prompt any more; what was begun goes on."""
        self._over.set()

    # forms ----------------------------------------------------------------------------------------------------------

    def form(
        self, workspace: Workspace, session: ListedSession | None, order: Order = NO_ORDER, answer: Reply = NO_REPLY
    ) -> PromptForm:
        """The field for a prompt, with what was typed before if that was refused."""
        folders = tuple(self._folders(workspace, session))
        is_running = session is not None and session.is_running
        order = replace(order, folder=order.folder if order.folder in folders else folders[0])
        return PromptForm(
            uid="" if session is None else session.uid, csrf=self.csrf, order=order, answer=answer,
            folders=folders, agents=_agents(), permissions=_PERMISSIONS,
            configured=workspace.config.settings.run.permissions.value,
            ways=tuple((way.value, words) for way, words in WAYS.items()) if is_running else (),
            waiting=() if session is None else tuple(self._waiting(workspace, session.uid)),
        )  # fmt: skip

    def _folders(self, workspace: Workspace, session: ListedSession | None) -> Iterator[str]:
        """The folders in which a prompt may run: the session's first, then that of the pages and those of projects."""
        found = [str(workspace.folder), *map(str, workspace.known_projects.folders())]
        own = "" if session is None else session.said_folder
        # A session from elsewhere says what its makers want: that is no reason to run anything there.
        if (session is not None and own and session.elsewhere is None and Path(own).is_dir()) or own in found:
            found.insert(0, own)
        yield from list(dict.fromkeys(found))[:FOLDERS_MOST]

    def _waiting(self, workspace: Workspace, uid: str) -> Iterator[Waiting]:
        for each in workspace.scheduler.queue.listed(workspace.resolve(uid)):
            yield Waiting(plain(each.prompt.content), f"backstory queue run {each.prompt.uid}" if each.is_held else "")

    # acting ---------------------------------------------------------------------------------------------------------

    def send(self, workspace: Workspace, located: LocatedSession | None, order: Order) -> Reply:
        """Send a prompt; returns as soon as it runs, waits for its turn, or is refused."""
        session = None if located is None else workspace.reader.session(located.store, located.session)
        if order.folder not in set(self._folders(workspace, session)):
            return Reply(said="Choose one of the folders: nothing is run anywhere else.")
        after = order.after.strip().removeprefix("@")
        if after and not (after.isascii() and after.isdigit() and len(after) < 16):
            return Reply(said=f"{order.after!r:.40} is no record's number.")
        if order.way not in WAYS or order.agent not in ("", *_agents()) or "\0" in order.model:
            return Reply(said="That is none of the choices.")
        if order.permissions and order.permissions not in _PERMISSIONS:
            return Reply(said="That is none of the choices.")
        try:
            check_text(order.prompt)
        except BackstoryError as refused:
            return Reply(said=plain(str(refused)))
        choice = RunChoice(
            agent=order.agent or None, model=order.model.strip() or None, permissions=order.permissions or None
        )
        words = words_for(
            None if session is None else session.uid, Way(order.way), choice,
            is_running=session is not None and session.is_running, after=int(after) if after else None,
        )  # fmt: skip
        with self._open_in(Path(order.folder)) as there:
            allowed = there.config.settings.run.permissions
        if order.permissions and not _is_within(order.permissions, allowed):
            said = f"The settings let a run do unasked: {allowed.value}. The pages do not go beyond that."
            return Reply(said=said, commands=(_typed(order, words),))
        return self._sent(workspace, order, words, None if session is None else session.uid)

    def _sent(self, workspace: Workspace, order: Order, words: list[str], uid: str | None) -> Reply:
        end = time.monotonic() + SENT_S
        with closing(SentPrompt(words, order.prompt, order.folder, self._environ, self._store)) as sent:
            while sent.code is None:
                if (found := session_run_by(workspace, sent.process.pid)) is not None:
                    return Reply(is_done=True, uid=found)
                if time.monotonic() > end or self._over.wait(POLL_S):
                    return Reply(is_done=True, uid=uid, said="It is being sent.")
            if sent.was_taken:
                return Reply(is_done=True, uid=uid, said=sent.said())
            refusal = sent.refusal
            if refusal is not None and refusal.kind == NOT_TRUSTED:
                return Reply(said=sent.said(), commands=(_typed(order, [words[0], "--trust", *words[1:]]),))
            return Reply(said=sent.said(), commands=() if refusal is None else tuple(map(plain, refusal.next)))

    def cancel(self, workspace: Workspace, located: LocatedSession) -> Reply:
        """Stop the run of a session; its output is kept. Raises NothingRuns."""
        found = workspace.scheduler.cancel(located)
        said = "Stopped; its output is kept." if found.was_running else "Nothing runs here."
        return Reply(is_done=True, uid=located.session.uid, said=said)


def _is_within(wanted: str, allowed: Permissions) -> bool:
    """True if what a run may do with these permissions it may do as well by the settings."""
    if wanted == allowed:
        return True
    return wanted in RANKS and allowed in RANKS and RANKS.index(Permissions(wanted)) < RANKS.index(allowed)


def _typed(order: Order, words: list[str]) -> str:
    """The command that does the same from a terminal."""
    is_short = len(order.prompt) <= PROMPT_SHOWN_CHARS and plain(order.prompt) == order.prompt
    prompt = order.prompt if is_short else "PROMPT"
    command = shlex.join(["backstory", words[0], *words[1:], "--", prompt])
    return f"cd {shlex.quote(order.folder)} && {command}"


@cache
def _agents() -> tuple[str, ...]:
    return tuple(agents_that_run())
