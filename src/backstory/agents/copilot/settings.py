"""Settings of Copilot CLI: its MCP servers and skills, the calls that it asks about, the trailers of its commits.

Of a project it reads ``.mcp.json``, too; that one is another client's own, so ours is the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.agents.contract import NotRun, ServerFile
from backstory.agents.copilot.tools import TOOLS
from backstory.agents.trailers import Trailers
from backstory.model import Tool

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


# commits --------------------------------------------------------------------------------------------------------------
# The trailers of a commit's message: who helped, and the session.


TRAILERS = Trailers(r".*\+copilot@users\.noreply\.github\.com", session_keys=("copilot-session",))


# guide ----------------------------------------------------------------------------------------------------------------
# The calls that Copilot CLI asks a person about, and the options by which it asks no more.


_REFUSED = "Permission denied and could not request permission from user"


class Guide:
    """See ``contract.GuidePart``."""

    settings = "the command line of copilot"

    def allow_rule(self, tool_name: str, words: Sequence[str]) -> str | None:
        """An option: of commands for those that are exactly these words or begin with them.

        >>> Guide().allow_rule("bash", ["git", "diff"])
        "--allow-tool 'shell(git diff:*)'"
        """
        kind = TOOLS.get(tool_name)
        if kind in (Tool.EDIT, Tool.WRITE):
            return "--allow-tool 'write'"
        return f"--allow-tool 'shell({' '.join(words)}:*)'" if kind == Tool.SHELL and words else None

    def why_not_run(self, output: str) -> NotRun | None:
        """Return REFUSED for the sentence by which the client refuses a call that nobody can be asked about."""
        return NotRun.REFUSED if _REFUSED in output else None
