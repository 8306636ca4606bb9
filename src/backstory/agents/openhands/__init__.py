"""OpenHands: its conversations, a folder each, and its client."""

from __future__ import annotations

from backstory.agents.contract import Agent
from backstory.agents.openhands.log import Conversations, Logs
from backstory.agents.openhands.places import NAME
from backstory.agents.openhands.resume import Resuming

AGENT = Agent(name=NAME, title="OpenHands", log=Logs(), folders=Conversations(), resume=Resuming())
