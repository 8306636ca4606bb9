"""Codex CLI: its logs and its runs."""

from __future__ import annotations

from backstory.agents.codex.log import Logs
from backstory.agents.codex.places import NAME
from backstory.agents.codex.run import Runs
from backstory.agents.contract import Agent

AGENT = Agent(name=NAME, title="Codex CLI", log=Logs(), run=Runs())
