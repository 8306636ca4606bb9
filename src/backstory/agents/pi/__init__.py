"""pi: its logs and its client."""

from __future__ import annotations

from backstory.agents.contract import Agent
from backstory.agents.pi.log import Logs
from backstory.agents.pi.places import NAME
from backstory.agents.pi.resume import Resuming

AGENT = Agent(
    name=NAME, title="pi", log=Logs(), resume=Resuming(), instruction_files=("AGENTS.md",),
    keeps_trees=True,
)  # fmt: skip
