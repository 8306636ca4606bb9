"""Writing a log that ``codex resume`` continues: ``rollout`` does, and is imported when one is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.lazy import lazy_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import PurePath

    from backstory.agents.codex import rollout, threads
    from backstory.conversation.carried import Action, CarriedSession, CarriedTurn, Image
    from backstory.model import ToolCall
else:
    rollout = lazy_module("backstory.agents.codex.rollout")
    rollout = lazy_module("backstory.agents.codex.rollout")
    threads = lazy_module("backstory.agents.codex.threads")
    rollout = lazy_module("backstory.agents.codex.rollout")
    threads = lazy_module("backstory.agents.codex.threads")


class Writing:
    """See ``contract.WritePart``."""

    version_min = "0.169.0"
    window_chars = 750_000

    def images(self, line: bytes) -> list[Image]:
        return rollout.images_in(line)

    def action_of(self, call: ToolCall) -> Action | None:
        return rollout.action_of(call)

    def own_call(self, call: ToolCall) -> tuple[str, Any] | None:
        return rollout.own_call(call)

    def call_for(self, action: Action, folder: str) -> tuple[str, Any] | None:
        return rollout.call_for(action, folder)

    def settings(self, environ: Mapping[str, str], root: Path) -> dict[str, str]:
        return {"model_provider": threads.of_client(environ, root)}

    def obstacle(self, environ: Mapping[str, str], root: Path) -> str | None:
        return threads.obstacle(Path(environ.get("CODEX_SQLITE_HOME") or root))

    def log_name(self, session: CarriedSession) -> PurePath:
        return rollout.log_name(session)

    def lines(self, session: CarriedSession, turns: Iterable[CarriedTurn], summary: str | None) -> Iterator[bytes]:
        return rollout.lines(session, turns, summary, self.version_min)
