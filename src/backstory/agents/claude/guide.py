"""The calls that Claude Code asks a person about, and the rules by which it asks no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents.claude.tools import REFUSED_BY_USER, TOOLS
from backstory.agents.contract import NotRun
from backstory.model import Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

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
