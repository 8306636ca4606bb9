"""opencode: its sessions, which stand as rows in a database that it has open while it works."""

from __future__ import annotations

from backstory.agents.client_resume import ClientResume
from backstory.agents.contract import Agent
from backstory.agents.part_log import PartLogs
from backstory.agents.part_tables import PartDatabases


class _Resuming(ClientResume):
    executable, _word = "opencode", "-s"


AGENT = Agent(
    name="opencode", title="opencode", log=PartLogs("opencode"), live=PartDatabases("opencode", "OPENCODE_DB"),
    resume=_Resuming(), instruction_files=("AGENTS.md",),
)  # fmt: skip
