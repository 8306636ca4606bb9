"""GitHub Copilot CLI: its logs, what lies beside them, its database, and its own form of a store."""

from __future__ import annotations

from backstory.agents.contract import Agent
from backstory.agents.copilot.database import Databases
from backstory.agents.copilot.export import Export
from backstory.agents.copilot.log import Documents, Logs
from backstory.agents.copilot.places import NAME
from backstory.agents.copilot.resume import Resuming
from backstory.agents.copilot.settings import TRAILERS, Guide, Servers, Skills
from backstory.agents.copilot.sidecars import Sidecars

AGENT = Agent(
    name=NAME,
    title="GitHub Copilot CLI",
    log=Logs(),
    documents=Documents(),
    sidecars=Sidecars(),
    database=Databases(),
    resume=Resuming(),
    export=Export(),
    instruction_files=(".github/copilot-instructions.md", "AGENTS.md"),
    guide=Guide(),
    servers=Servers(),
    skills=Skills(),
    commits=TRAILERS,
)
