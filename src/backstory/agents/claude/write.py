"""Writing a log that ``claude --resume`` continues: ``chain`` does, and is imported when one is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.lazy import lazy_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path, PurePath

    from backstory.agents.claude import chain
    from backstory.conversation.carried import Action, CarriedSession, CarriedTurn, Image
    from backstory.model import ToolCall
else:
    chain = lazy_module("backstory.agents.claude.chain")
    chain = lazy_module("backstory.agents.claude.chain")
    chain = lazy_module("backstory.agents.claude.chain")


class Writing:
    """See ``contract.WritePart``."""

    version_min = "2.1.330"
    window_chars = 600_000

    def images(self, line: bytes) -> list[Image]:
        return chain.images_in(line)

    def action_of(self, call: ToolCall) -> Action | None:
        return chain.action_of(call)

    def own_call(self, call: ToolCall) -> tuple[str, Any] | None:
        return chain.own_call(call)

    def call_for(self, action: Action, folder: str) -> tuple[str, Any] | None:
        return chain.call_for(action, folder)

    def settings(self, environ: Mapping[str, str], root: Path) -> dict[str, str]:
        return {}

    def obstacle(self, environ: Mapping[str, str], root: Path) -> str | None:
        return None

    def log_name(self, session: CarriedSession) -> PurePath:
        return chain.log_name(session)

    def lines(self, session: CarriedSession, turns: Iterable[CarriedTurn], summary: str | None) -> Iterator[bytes]:
        return chain.lines(session, turns, summary, self.version_min)
