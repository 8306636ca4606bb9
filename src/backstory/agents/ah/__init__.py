"""ah: its databases are read like logs, and sessions are written as such databases."""

from __future__ import annotations

from backstory.agents.ah.log import NAME, Databases, Logs, SessionExport
from backstory.agents.contract import Agent

AGENT = Agent(
    name=NAME, title="ah", log=Logs(), database=Databases(), session_export=SessionExport(),
    instruction_files=("AGENTS.md",), keeps_trees=True,
)  # fmt: skip
