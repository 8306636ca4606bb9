"""Aider: the chat history that it keeps in each repository."""

from __future__ import annotations

from backstory.agents.aider.log import Documents, Histories, Logs
from backstory.agents.aider.runs import NAME
from backstory.agents.contract import Agent

AGENT = Agent(name=NAME, title="Aider", log=Logs(), documents=Documents(), database=Histories())
