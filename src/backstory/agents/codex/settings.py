"""The places of Codex CLI's MCP servers and skills.

The client gives a server few variables of its own environment, so what a server needs stands in its entry.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.agents.contract import ServerFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


WAIT = ("mcp_optional_startup_grace_ms", 10_000)
"""After a second, by itself, the client asks its model without the tools of a server that has not answered."""


class Servers:
    """See ``contract.ServerPart``."""

    def file(self, environ: Mapping[str, str], home: Path, project: Path | None) -> ServerFile:
        remark = "" if project is None else "Codex reads this file only in a project that you trust there."
        path = _folder(environ, home, project) / "config.toml"
        return ServerFile(path=path, format="toml", table="mcp_servers", remark=remark, wait=WAIT)

    def entry(self, command: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any]:
        env = {"env": dict(environ)} if environ else {}
        return {"command": command[0], "args": list(command[1:]), **env}


class Skills:
    """See ``contract.SkillPart``."""

    def folder(self, environ: Mapping[str, str], home: Path, project: Path | None) -> Path:
        return _folder(environ, home, project) / "skills"


def _folder(environ: Mapping[str, str], home: Path, project: Path | None) -> Path:
    return Path(environ.get("CODEX_HOME") or home / ".codex") if project is None else project / ".codex"
