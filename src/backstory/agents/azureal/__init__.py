"""AZUREAL: a program that runs other agents, and keeps a file of their sessions in each worktree."""

from __future__ import annotations

from backstory.agents.azureal.export import Export
from backstory.agents.azureal.log import Databases, Logs
from backstory.agents.azureal.places import NAME
from backstory.agents.contract import Agent

AGENT = Agent(name=NAME, title="AZUREAL", log=Logs(), database=Databases(), export=Export())
