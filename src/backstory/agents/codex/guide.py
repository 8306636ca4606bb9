"""The commands that Codex asks a person about, and the rules by which it asks no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents.contract import NotRun

if TYPE_CHECKING:
    from collections.abc import Sequence

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
