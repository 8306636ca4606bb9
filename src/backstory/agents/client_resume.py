"""Handing a session over to a client that finds it by its id, and writes down nothing about its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path, PurePath

    from backstory.agents.contract import IndexChange, InUse


class ClientResume:
    """See ``contract.ResumePart``. Without ``log_names`` of its own, no file is put back for its client."""

    executable: str
    _word: str
    """The one before a session's id on the client's command line."""

    def command(self, executable: str, native_id: str) -> list[str]:
        return [executable, self._word, native_id]

    def log_names(self, relpath: PurePath, folder: str) -> list[PurePath]:
        return []

    def in_use(self, root: Path, native_id: str) -> list[InUse]:
        return []

    def enter(
        self, environ: Mapping[str, str], log: Path, root: Path, native_id: str, aside: Callable[[Path], None]
    ) -> IndexChange | None:
        return None

    def leave(self, change: IndexChange) -> None:
        return


def resumed_with(executable: str, word: str) -> ClientResume:
    """The part of an agent that has nothing of its own in it."""
    made = ClientResume()
    made.executable, made._word = executable, word
    return made
