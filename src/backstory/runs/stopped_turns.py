"""Turns that were stopped for a summary and are to be continued: noted, so that another process can do it.

A note is written before its turn is stopped, and removed once the turn was continued, or a person wanted it otherwise.
What is left of notes whose runner was killed is for the next command.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory import ids
from backstory.errors import BackstoryError
from backstory.runs.compactor import TROUBLES
from backstory.store.private import make_private_folder, write_private
from backstory.store.queue import Options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.runs.spool import Run

SUFFIX = ".continue"


class StoppedTurn(Struct, frozen=True, kw_only=True):
    """A turn that was stopped for a summary, and what continues it."""

    store: str
    session_uid: str
    turn_uid: str
    next_uid: str
    """The turn that continues it gets this uid: where that is there, nothing is left to do."""
    options: Options
    pid: int = 0
    """The process that continues it, since its runner was killed; 0: none was begun."""


def stopped_turn(run: Run, now: int) -> StoppedTurn:
    """What is noted of a run that is about to be stopped."""
    options = Options(agent=run.agent, model=run.model, permissions=run.permissions, cwd=run.cwd)
    return StoppedTurn(
        store=run.store, session_uid=run.session_uid, turn_uid=run.turn_uid, options=options,
        next_uid=ids.new_uid(now, os.urandom(10)),
    )  # fmt: skip


def note(home: Path, stopped: StoppedTurn) -> None:
    """Note a turn that is about to be stopped. A full disk keeps it from nothing."""
    file = _file(home, stopped.session_uid)
    whole = file.with_suffix(".new")
    with suppress(OSError, BackstoryError):
        make_private_folder(file.parent)
        write_private(whole, msgspec.json.encode(stopped))
        whole.replace(file)


def noted(home: Path, session_uid: str) -> StoppedTurn | None:
    """What is noted of a session; None where nothing is to be continued."""
    try:
        return msgspec.json.decode(_file(home, session_uid).read_bytes(), type=StoppedTurn)
    except (OSError, msgspec.MsgspecError):
        return None


def all_noted(home: Path) -> Iterator[StoppedTurn]:
    """Every turn that is to be continued."""
    with suppress(OSError):
        for name in sorted(file.name for file in (home / TROUBLES).iterdir()):
            if name.endswith(SUFFIX) and (found := noted(home, name.removesuffix(SUFFIX))) is not None:
                yield found


def forget(home: Path, session_uid: str) -> None:
    """Nothing of a session is to be continued any more."""
    with suppress(OSError):
        _file(home, session_uid).unlink(missing_ok=True)


def _file(home: Path, session_uid: str) -> Path:
    return home / TROUBLES / f"{session_uid}{SUFFIX}"
