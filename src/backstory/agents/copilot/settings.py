"""The places of Copilot's MCP servers and skills.

Of a project it reads ``.mcp.json``, too; that one is another client's own, so ours is the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.agents.contract import ServerFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Servers:
    """See ``contract.ServerPart``."""

    def file(self, environ: Mapping[str, str], home: Path, project: Path | None) -> ServerFile:
        remark = "" if project is None else "Copilot reads this file only in a folder that you trust there."
        path = _folder(environ, home) / "mcp-config.json" if project is None else project / ".github" / "mcp.json"
        return ServerFile(path=path, format="json", table="mcpServers", remark=remark)

    def entry(self, command: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any]:
        env = {"env": dict(environ)} if environ else {}
        return {"type": "local", "command": command[0], "args": list(command[1:]), "tools": ["*"], **env}


class Skills:
    """See ``contract.SkillPart``."""

    def folder(self, environ: Mapping[str, str], home: Path, project: Path | None) -> Path:
        return (project / ".github" if project is not None else _folder(environ, home)) / "skills"


def _folder(environ: Mapping[str, str], home: Path) -> Path:
    return Path(environ.get("COPILOT_HOME") or home / ".copilot")
