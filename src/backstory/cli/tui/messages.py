"""Messages of screens to the application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Collection


class Resumed(Message):
    """A session to go on with in its own agent's client."""

    def __init__(self, uid: str) -> None:
        super().__init__()
        self.uid = uid


class ReportsWanted(Message):
    """The reports are wanted, of the project here or of every one. ``here``: the name of that project."""

    def __init__(self, here: str, *, everywhere: bool) -> None:
        super().__init__()
        self.here, self.everywhere = here, everywhere


class Begun(Message):
    """A new session is wanted."""


class HistoryChanged(Message):
    """Some store, run or queue is not as it was."""


class EndSeen(Message):
    """Turns of a session that had ended were on the screen. ``turns``: their uids."""

    def __init__(self, uid: str, turns: Collection[str]) -> None:
        super().__init__()
        self.uid, self.turns = uid, frozenset(turns)
