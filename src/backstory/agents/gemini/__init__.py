"""Gemini CLI: its logs, and its client."""

from __future__ import annotations

from backstory.agents.contract import Agent
from backstory.agents.gemini.log import Logs
from backstory.agents.gemini.places import NAME
from backstory.agents.gemini.resume import Resuming
from backstory.agents.gemini.sidecars import Sidecars

AGENT = Agent(
    name=NAME, title="Gemini CLI", log=Logs(), sidecars=Sidecars(), resume=Resuming(), instruction_files=("GEMINI.md",)
)
