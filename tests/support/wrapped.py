"""An agent's logs behind a class of the tests, which changes what it overrides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory import agents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from backstory.agents.contract import Agent, LogReader, LogRoot
    from backstory.model import LogIdentity


class WrappedLogs:
    """The logs of an agent of ours; see ``contract.LogPart``."""

    def __init__(self, name: str) -> None:
        self.agent = agents.load(name)
        self.within = self.agent.log

    def as_agent(self) -> Agent:
        """The agent, with these logs."""
        return msgspec.structs.replace(self.agent, log=self)

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        return self.within.roots(environ, home)

    def is_log(self, path: Path) -> bool:
        return self.within.is_log(path)

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        return self.within.identify(path, head)

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> LogReader:
        return self.within.reader(identity, state, earlier)

    def is_whole(self, line: bytes) -> bool:
        return self.within.is_whole(line)

    def native_id_of(self, line: bytes) -> str | None:
        return self.within.native_id_of(line)
