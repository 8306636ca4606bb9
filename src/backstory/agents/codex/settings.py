"""Settings of Codex CLI: its MCP servers and skills, the commands that it asks about, the trailers of its commits.

The client gives a server few variables of its own environment, so what a server needs stands in its entry.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.agents.contract import NotRun, ServerFile
from backstory.agents.trailers import Trailers

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


# commits --------------------------------------------------------------------------------------------------------------
# The trailers of a commit's message: who helped. It names no session.


TRAILERS = Trailers(r"noreply@openai\.com")


# guide ----------------------------------------------------------------------------------------------------------------
# The commands that Codex asks a person about, and the rules by which it asks no more.


_REJECTED = ("exec command rejected by user", "patch rejected by user")


class Guide:
    """See ``contract.GuidePart``."""

    settings = "~/.codex/rules/default.rules"

    def allow_rule(self, tool_name: str, words: Sequence[str]) -> str | None:
        """A rule for commands that begin with the words; there is none for other tools.

        >>> Guide().allow_rule("exec_command", ["git", "diff"])
        'prefix_rule(pattern=["git", "diff"], decision="allow")'
        """
        pattern = ", ".join(f'"{word}"' for word in words)
        return f'prefix_rule(pattern=[{pattern}], decision="allow")' if words else None

    def why_not_run(self, output: str) -> NotRun | None:
        """A command or a patch that a person declined returns one of two sentences."""
        return NotRun.REFUSED if any(each in output for each in _REJECTED) else None
