"""The findings of a check-up: each kind has a name that stays and a meaning, and may have a command that mends it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from pathlib import Path

US = "backstory"


class Kind(Struct, frozen=True):
    """A kind of findings. ``is_ill``: it needs mending; others are notes. ``means``: a sentence."""

    group: str
    is_ill: bool
    means: str


KINDS = {
    "sqlite-lacks": Kind("machine", True, "This SQLite lacks what a store needs: install the package apsw anew."),
    "clock-wrong": Kind("machine", True, "The clock is behind the time at which our own files were written: set it."),
    "times-ahead": Kind("machine", False, "A session is dated in the future, so it stays first in every list."),
    "settings-broken": Kind("home", True, "The settings cannot be read, or one of them is wrong: mend it."),
    "home-gone": Kind(
        "home", True, "The home folder that is set is not there. An ingest begins a new one from the logs that exist."
    ),
    "home-moved": Kind("home", True, "The home was moved, and this shell still has the old folder."),
    "home-half-moved": Kind("home", True, "A move of the home into this folder was not finished."),
    "home-copied": Kind(
        "home", False,
        "Another home has a copy of this store. Each goes on by itself: what is stored in one is not in the other.",
    ),
    "home-not-a-folder": Kind("home", True, "A file has the place of the home folder: move it, or set BACKSTORY_HOME."),
    "home-closed": Kind("home", True, "This account may not enter the home, or a folder that it lies in."),
    "home-read-only": Kind("home", True, "The home cannot be written, so nothing new is stored."),
    "home-of-other": Kind("home", True, "The home, or a file in it, belongs to another account of this machine."),
    "home-open": Kind("home", True, "Other accounts of this machine may enter the home, or read a file in it."),
    "home-on-network": Kind(
        "home", False,
        "The home is on a network file system. Locks may not hold there: use it from one machine at a time.",
    ),
    "disk-full": Kind("disk", True, "The disk of the home is full, or nearly: new logs may find no room."),
    "disk-low": Kind("disk", False, "The disk has less room than `backstory optimize` may take meanwhile."),
    "nothing-imported": Kind("stores", False, "There is no store yet: nothing was imported."),
    "store-damaged": Kind(
        "stores", True,
        "The store is damaged. Copy it aside; `backstory verify` lists the damage, and "
        "`backstory restore --all --to FOLDER` saves what is whole.",
    ),
    "store-foreign": Kind(
        "stores", True,
        "The file is no store of ours: move it aside, or set BACKSTORY_HOME. An import begins a new one.",
    ),
    "store-unreadable": Kind("stores", True, "The store cannot be read by this account."),
    "store-read-only": Kind("stores", True, "The store cannot be written, so nothing new is stored."),
    "store-newer": Kind("stores", True, "A newer backstory wrote the store: upgrade this one."),
    "store-older": Kind("stores", True, "The store has the tables of an earlier version."),
    "store-draft": Kind(
        "stores", True,
        "The store has a draft of the schema, which is no longer read: move it aside and import the logs again.",
    ),
    "derived-stale": Kind(
        "stores", True, "An earlier version derived what the store holds, so sums may be other ones."
    ),
    "index-outdated": Kind(
        "stores", True, "The settings of the index changed since: rows may be missing in it, or too many."
    ),
    "not-erased": Kind("stores", True, "The file may still hold bytes of sessions that were removed."),
    "prune-due": Kind("stores", True, "A log that was read again says what was pruned: an ingest takes it out again."),
    "write-cut-off": Kind(
        "stores", True, "A process was killed while it wrote. Nothing is lost: whoever opens the store next tidies up."
    ),
    "ingest-cut-off": Kind("stores", True, "An ingest was stopped before its end, so new logs are not looked for."),
    "store-gone": Kind(
        "stores", False,
        "A project's store is not where it was. The home store has its sessions; "
        "`backstory project move OLD NEW` tells where its folder is now.",
    ),
    "store-copied": Kind("stores", False, "Two stores of yours have one id: one is a copy of the other."),
    "store-elsewhere": Kind(
        "stores", False, "This project's store came from elsewhere: it is read and never written. "
        "To trust it, give a command that acts there --trust, once.",
    ),
    "store-held": Kind("locks", True, "A process that is stopped has the store open: others may wait for it."),
    "owner-dead": Kind(
        "locks", False, "A killed process is still noted as running a session; the next run replaces it."
    ),
    "run-not-stored": Kind("runs", True, "A run ended, or was killed, and is not stored yet."),
    "run-unreadable": Kind(
        "runs", True,
        "A run's description cannot be read. The agent's output is in the file stdout there: "
        "look at it, then move the folder elsewhere.",
    ),
    "prompts-waiting": Kind("runs", True, "Prompts are queued for a session that nobody runs."),
    "prompts-held": Kind("runs", False, "Prompts came with a store from elsewhere, and wait until you release them."),
    "logs-deleted-soon": Kind(
        "agents", True, "The agent deletes its logs, and the last import is more than half of that time ago."
    ),
    "format-newer": Kind(
        "agents", False,
        "The agent's newest log has records that no adapter knows, or is of a newer version. Its bytes are kept.",
    ),
    "server-gone": Kind("agents", True, "The agent's settings start our MCP server with a program that is not there."),
    "server-elsewhere": Kind("agents", True, "The agent's settings start our MCP server with another home than this."),
    "skill-outdated": Kind("agents", True, "The agent has an earlier version of our skill."),
    "timer-dead": Kind("agents", True, "The timer that has new logs imported does nothing."),
    "sync-not-logged-in": Kind("sync", True, "The settings send history to a team's server, and there is no login."),
    "sync-waits": Kind("sync", False, "The server has confirmed nothing for days, and there are newer sessions."),
}  # fmt: skip
"""Every kind of finding, by its name. Names stay: scripts may ask for them."""


class Finding(Struct, frozen=True, kw_only=True):
    """Something that was found. ``about``: the path or name that it is about; ``detail``: what else is known.

    ``command``: the words of what mends it; ``folder``: where that is to be run. ``is_safe``: it loses nothing, starts
    no agent, sends nothing, and can be repeated.
    """

    name: str
    about: str = ""
    detail: str = ""
    command: tuple[str, ...] = ()
    folder: Path | None = None
    is_safe: bool = False

    @property
    def kind(self) -> Kind:
        """The kind that it is of."""
        return KINDS[self.name]

    @property
    def typed(self) -> str:
        """The command, as a person types it; '' for none."""
        if not self.command:
            return ""
        words = shlex.join(self.command)
        return words if self.folder is None else f"cd {shlex.quote(str(self.folder))} && {words}"


def as_json(finding: Finding) -> dict[str, Any]:
    """A finding as ``doctor --json`` prints it."""
    return {
        "finding": finding.name, "group": finding.kind.group, "needs_mending": finding.kind.is_ill,
        "means": finding.kind.means, "about": _text(finding.about), "detail": _text(finding.detail),
        "command": list(finding.command) or None, "folder": None if finding.folder is None else str(finding.folder),
        "as_typed": finding.typed or None, "safe": finding.is_safe,
    }  # fmt: skip


def _text(said: str) -> str | None:
    """A path that is not UTF-8 has the byte's number instead; None for nothing."""
    return said.encode("utf-8", "backslashreplace").decode() or None
