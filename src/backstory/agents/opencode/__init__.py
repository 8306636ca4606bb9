"""opencode: its sessions, which stand as rows in a database that it has open while it works."""

from __future__ import annotations

from backstory.agents.contract import Agent
from backstory.agents.opencode.resume import RESUMING
from backstory.agents.part_log import PartLogs
from backstory.agents.part_tables import PartDatabases

AGENT = Agent(
    name="opencode", title="opencode", log=PartLogs("opencode"), live=PartDatabases("opencode", "OPENCODE_DB"),
    resume=RESUMING, instruction_files=("AGENTS.md",),
)  # fmt: skip
