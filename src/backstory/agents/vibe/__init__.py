"""Mistral Vibe 3: its sessions, each a folder that reads as one log, and its client."""

from __future__ import annotations

from backstory.agents.contract import Agent
from backstory.agents.vibe.folders import Folders
from backstory.agents.vibe.log import Logs
from backstory.agents.vibe.places import NAME
from backstory.agents.vibe.resume import Resuming

AGENT = Agent(
    name=NAME, title="Mistral Vibe", log=Logs(), folders=Folders(), resume=Resuming(), instruction_files=("AGENTS.md",)
)
