"""Cline: its logs, and its client."""

from __future__ import annotations

from backstory.agents.cline.log import Documents, Logs
from backstory.agents.cline.places import NAME
from backstory.agents.cline.resume import Resuming
from backstory.agents.cline.sidecars import Sidecars
from backstory.agents.contract import Agent

AGENT = Agent(
    name=NAME, title="Cline", log=Logs(), documents=Documents(), sidecars=Sidecars(), resume=Resuming(),
    instruction_files=("AGENTS.md",),
)  # fmt: skip
