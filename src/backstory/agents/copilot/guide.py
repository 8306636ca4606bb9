"""The calls that Copilot CLI asks a person about, and the options by which it asks no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.agents.contract import NotRun
from backstory.agents.copilot.tools import TOOLS
from backstory.model import Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

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
