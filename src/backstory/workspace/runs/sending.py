"""Prompts on their way to a session, for faces that start a run of its own for each: to which agent, and how."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backstory import agents
from backstory.errors import BackstoryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.workspace.workspace import Workspace


class Way(StrEnum):
    """The use of a prompt whose session runs."""

    STAGE = "stage"
    """The run is stopped, then the prompt is run."""
    QUEUE = "queue"
    """It runs when the run ends."""
    STEER = "steer"
    """The agent reads it between its steps."""


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

    def options(self) -> list[str]:
        """The options of `backstory run` for it."""
        given = {"--agent": self.agent, "--model": self.model, "--permissions": self.permissions}
        return [word for name, value in given.items() if value for word in (name, value)]


def _next(known: Sequence[str], now: str | None) -> str | None:
    """The next of several values; behind the last one none."""
    at = known.index(now) + 1 if now in known else 0
    return known[at] if at < len(known) else None


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


def session_run_by(workspace: Workspace, pid: int) -> str | None:
    """The uid of the session that a process runs; None while it runs none."""
    with suppress(BackstoryError):
        for each in workspace.scheduler.runs():
            if each.owner is not None and each.owner.pid == pid and each.state != "queued":
                return each.session
    return None
