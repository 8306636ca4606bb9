"""Messages that came from a team's server for runs of this machine: each is handed over once, whatever breaks.

An id is noted before its message is queued, and again behind that. One that was only begun is never handed over again:
whether it arrived, a person sees in the session.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from backstory.errors import BackstoryError
from backstory.store.private import make_private_folder, write_private
from backstory.workspace.runs.scheduler import IfIdle

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.workspace.workspace import Workspace

IDS_KEPT = 500
BEGUN, TAKEN, REFUSED = "begun", "taken", "refused"
UNSURE = "The machine was stopped while it took the message. Look whether it arrived."
NOT_ALLOWED = "The machine takes none: backstory config set sync.steer true"
NOT_HANDED = "It could not be handed to the run."


class HandedMessage(NamedTuple):
    """The word on a message: TAKEN or REFUSED, and why."""

    state: str
    reason: str = ""


class SteeredMessages:
    """The messages that a server sent, by their ids. ``path``: the file in which is noted what became of them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def hand(self, place: Workspace, session_uid: str, id: str, text: str, *, is_allowed: bool) -> HandedMessage:
        """Queue a message for a run, unless that was done before. Raises what noting it raises."""
        known = self._known()
        if (before := known.get(id)) is not None:
            return HandedMessage(REFUSED, UNSURE) if before == BEGUN else HandedMessage(before)
        if not is_allowed:
            return HandedMessage(REFUSED, NOT_ALLOWED)
        self._note(known, id, BEGUN)
        decided = _queued(place, session_uid, text)
        self._note(known, id, decided.state)
        return decided

    def _known(self) -> dict[str, str]:
        with suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        return {}

    def _note(self, known: dict[str, str], id: str, state: str) -> None:
        known[id] = state
        for old in list(known)[:-IDS_KEPT]:
            del known[old]
        make_private_folder(self._path.parent)
        beside = self._path.with_name(f"{self._path.name}.new")
        write_private(beside, msgspec.json.encode(known), sync=True)
        beside.replace(self._path)


def _queued(place: Workspace, session_uid: str, text: str) -> HandedMessage:
    try:
        located = place.resolve(session_uid)
        for _ in place.scheduler.steer(located, text, IfIdle.NOTHING):
            # The remarks are for a person at a terminal.
            pass
    except BackstoryError:
        # Its words may name folders of this machine.
        return HandedMessage(REFUSED, NOT_HANDED)
    return HandedMessage(TAKEN)
