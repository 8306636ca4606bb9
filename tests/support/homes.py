"""A home with something of every kind in it, what it holds in comparable form, and a process that dies at a step."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.model import UserMessage
from backstory.runs.compactor import TROUBLES
from backstory.runs.spool import SPOOLS, Run, Spool
from backstory.store import open_store
from backstory.store.moves import MOVED_FROM, MOVED_TO
from backstory.store.private import make_private_folder, write_private
from backstory.store.tables import events
from backstory.store.tables.queue import Options, Queue, QueuedKind, QueuedPrompt
from tests.support.clock import NOW

if TYPE_CHECKING:
    from collections.abc import Callable

TURN, QUEUED = "01KAQ0000000000000000000TN", "01KAQ0000000000000000000QD"
STRANGER = "notes.txt"
READ_NS = 1_700_000_000_123_456_789
"""When the project's store of the pointer was last read."""
STEPS = (
    "open", "replace", "rename", "link", "unlink", "rmdir", "mkdir", "fsync", "symlink", "chmod", "utime", "write",
)  # fmt: skip
"""The calls by which a move changes the disk."""


def make_home(home: Path) -> str:
    """Fill a home; returns the uid of its session."""
    with open_store(home / "store.db", shared=True, now=lambda: NOW) as store:
        session = store.create_session("kept")
        store.append_events(session, [UserMessage(content="first words")])
        with Queue(store.path) as queue:
            queued = QueuedPrompt(
                uid=QUEUED,
                session_uid=session.uid,
                kind=QueuedKind.FOLLOWUP,
                content="later",
                options=Options(),
                queued=NOW,
            )
            queue.add([queued])
    write(home, "config.toml", b"[list]\nlimit = 7\n")
    write(home, "prices.toml", b"")
    write(home, "folders.seen", b"seen")
    write(home, "mask.key", b"ab" * 32)
    write(home, "listeners.json.77", b"half")
    write(home, "projects/01STORE", b"/home/dev/project/.backstory/sessions.bks\x001 2")
    os.utime(home / "projects/01STORE", ns=(READ_NS, READ_NS))
    write(home, f"locks/{session.uid}", b"process 1 on here")
    write(home, "resumed/01A.json", b"{}")
    write(home, "installed/0a.json", b"{}")
    write(home, "unsent/01A-01B.txt", b"unsent words")
    write(home, "drafts/tmp1/prompt.md", b"a draft")
    write(home, f"{TROUBLES}/{session.uid}.continue", msgspec.json.encode({"store": str(home / "store.db"), "pid": 3}))
    spool = Spool.begin(home / SPOOLS, _run(home, session.uid), "go on")
    write_private(spool.stdout, b"what the agent said\n")
    write(home, STRANGER, b"not ours")
    return session.uid


def _run(home: Path, uid: str) -> Run:
    status = (home / "store.db").stat()
    return Run(
        turn_uid=TURN, session_uid=uid, store=str(home / "store.db"), agent="claude", prompt="go on", cwd="/work",
        started=NOW, store_file=(status.st_dev, status.st_ino),
    )  # fmt: skip


def write(home: Path, path: str, data: bytes) -> None:
    make_private_folder((home / path).parent)
    write_private(home / path, data)


def held(home: Path) -> dict[str, Any]:
    """What a home holds: by path the content, or the target of a link, with mode and time; of the store its rows.

    Marks of a move are left out.
    """
    found: dict[str, Any] = {}
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        status = path.lstat()
        if name.lstrip(".").startswith((MOVED_TO, MOVED_FROM)):
            continue
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_dir():
            found[name] = oct(status.st_mode)
        elif not name.startswith("store.db"):
            data = path.read_bytes().replace(str(home).encode(), b"HOME")
            found[name] = (data, oct(status.st_mode), status.st_mtime_ns if name.startswith("projects/") else 0)
    with open_store(home / "store.db", shared=True, now=lambda: NOW) as store:
        found["sessions"] = [
            (store.session(uid).name, store.ask(events.count, store.session(uid).id)) for uid in store.uids()
        ]
        found["verified"] = store.verify().problems
        with Queue(store.path) as queue:
            found["queued"] = [(each.uid, each.content) for each in queue.prompts()]
    # A run that names a store of the home finds it by its path.
    found.pop(f"spool/{TURN}/run.json", None)
    return found


def killed_at(step: int, work: Callable[[], object], *, one_disk: bool = True) -> bool:
    """Do some work in a process that kills itself at its ``step``-th change of the disk; whether it came so far."""
    pid = os.fork()
    if pid == 0:
        try:
            _arm(step, one_disk=one_disk)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def _arm(step: int, *, one_disk: bool) -> None:
    count = 0

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*given, **named)

        return counted

    if not one_disk:
        os.link = _another_disk
    for name in STEPS:
        setattr(os, name, counting(getattr(os, name)))


def _another_disk(*_: Any, **__: Any) -> None:
    raise OSError(errno.EXDEV, "Invalid cross-device link")
