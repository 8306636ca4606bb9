"""Settings of Claude Code: its MCP servers and skills, how long it keeps logs, what it asks about, commits' trailers.

The person's servers are in ``.claude.json``: beside the folder of logs, but in it where CLAUDE_CONFIG_DIR names that.
A ``.config.json`` that an old build left in that folder is read instead. The client parses both as plain JSON.

When it starts, the client deletes logs that were not changed for ``cleanupPeriodDays`` of ``settings.json``, 30 where
that is not set (its documentation of settings). With 0 it keeps no log at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.agents.claude.tools import REFUSED_BY_USER, TOOLS
from backstory.agents.contract import NotRun, ServerFile
from backstory.agents.trailers import Trailers
from backstory.model import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DAYS_KEPT, DAYS_MAX = 30, 1_000_000_000


class Servers:
    """See ``contract.ServerPart``."""

    def file(self, environ: Mapping[str, str], home: Path, project: Path | None) -> ServerFile:
        if project is not None:
            remark = "Claude Code asks once, when it starts there, whether to use the servers of this file."
            return ServerFile(
                path=project / ".mcp.json", format="json", table="mcpServers", has_comments=False, remark=remark
            )
        old = _folder(environ, home) / ".config.json"
        path = old if _has_content(old) else Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
        return ServerFile(path=path, format="json", table="mcpServers", has_comments=False)

    def entry(self, command: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any]:
        return {"type": "stdio", "command": command[0], "args": list(command[1:]), "env": dict(environ)}


class Skills:
    """See ``contract.SkillPart``."""

    def folder(self, environ: Mapping[str, str], home: Path, project: Path | None) -> Path:
        return (project / ".claude" if project is not None else _folder(environ, home)) / "skills"


class Retention:
    """See ``contract.RetentionPart``."""

    setting = "cleanupPeriodDays in its settings.json"

    def days(self, environ: Mapping[str, str], home: Path) -> int | None:
        try:
            given = msgspec.json.decode((_folder(environ, home) / "settings.json").read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            given = {}
        days = given.get("cleanupPeriodDays", DAYS_KEPT) if isinstance(given, dict) else DAYS_KEPT
        if isinstance(days, bool) or not isinstance(days, int | float) or not 0 <= days < DAYS_MAX:
            return DAYS_KEPT
        return int(days) or None


def _folder(environ: Mapping[str, str], home: Path) -> Path:
    return Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")


def _has_content(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


# commits --------------------------------------------------------------------------------------------------------------
# The trailers of a commit's message: who helped, and the session.


TRAILERS = Trailers(r"noreply@anthropic\.com", session_keys=("claude-session", "x-claude-session"))


# guide ----------------------------------------------------------------------------------------------------------------
# The calls that Claude Code asks a person about, and the rules by which it asks no more.


_DENIED = "Permission for this tool use was denied"
_SIBLING_FAILED = "Sibling tool call errored"


class Guide:
    """See ``contract.GuidePart``."""

    settings = ".claude/settings.json, permissions.allow"

    def allow_rule(self, tool_name: str, words: Sequence[str]) -> str | None:
        """A tool by its name; of commands those that begin with the words.

        >>> Guide().allow_rule("Bash", ["git", "diff"])
        'Bash(git diff:*)'
        """
        if TOOLS.get(tool_name) != Tool.SHELL:
            return "Edit" if TOOLS.get(tool_name) in (Tool.EDIT, Tool.WRITE) else tool_name
        return f"{tool_name}({' '.join(words)}:*)" if words else None

    def why_not_run(self, output: str) -> NotRun | None:
        """Refusals begin with one of two sentences; a call beside one that failed is named its sibling."""
        if output.startswith((REFUSED_BY_USER, _DENIED)):
            return NotRun.REFUSED
        return NotRun.DROPPED if _SIBLING_FAILED in output else None
