"""Further places of an agent's logs, beside those that it uses here: a second account, another system's home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.agents.contract import LogRoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.agents.contract import Agent, DatabasePart, LiveDatabasePart

NOWHERE = Path("/nowhere")
"""A home that tells how an agent's folders lie in one."""


class FurtherPlace(Struct, frozen=True):
    """A folder: an agent's own, as those below a home are, or without an agent a home that has such folders of any."""

    folder: str
    agent: str | None = None

    def roots(self, agent: Agent, home: Path) -> list[LogRoot]:
        """Return the folders of an agent's logs there. ``home``: for a folder that is named from ``~`` on."""
        if self.agent is None:
            return agent.log.roots({}, self._path(home))
        if self.agent != agent.name:
            return []
        return [
            LogRoot(folder=self._path(home) / each.folder.relative_to(each.root), root=self._path(home))
            for each in agent.log.roots({}, NOWHERE)
        ]

    def databases(self, agent: Agent, part: DatabasePart | LiveDatabasePart, home: Path) -> list[Path]:
        """Return the places there of the databases of one of an agent's parts."""
        if self.agent is None:
            return part.databases({}, self._path(home))
        if self.agent != agent.name:
            return []
        # Where the agent has a folder of its own, the database lies in that, else its folder is the database's.
        own = [each.root for each in agent.log.roots({}, NOWHERE)]
        return [
            self._path(home) / each.relative_to(next((root for root in own if root in each.parents), each.parent))
            for each in part.databases({}, NOWHERE)
        ]

    def _path(self, home: Path) -> Path:
        return home / self.folder[2:] if self.folder[:2] in ("~", "~/") else Path(self.folder)


def further_place(text: str, known: Sequence[str]) -> FurtherPlace:
    """Return the place that a text names: ``FOLDER`` or ``AGENT=FOLDER``, the folder from / or ~ on.

    Raises ValueError with a reason. ``known``: the agents that there are.

    >>> further_place("mine=~/.mine-at-work", ["mine"])
    FurtherPlace(folder='~/.mine-at-work', agent='mine')
    """
    agent, folder = (None, text) if _is_folder(text) else text.split("=", 1) if "=" in text else (None, text)
    if agent is not None and agent not in known:
        raise ValueError(f"no agent is called {agent!r:.60}")
    if not _is_folder(folder):
        raise ValueError(f"{folder!r:.60} is no folder from / or ~ on: give FOLDER, a home, or AGENT=FOLDER")
    return FurtherPlace(folder, agent)


def _is_folder(text: str) -> bool:
    return text == "~" or text.startswith("~/") or Path(text).is_absolute()
