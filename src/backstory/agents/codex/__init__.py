"""Codex CLI: its logs, its runs, its client, and what its logs say of them."""

from __future__ import annotations

from backstory.agents.codex.log import Logs
from backstory.agents.codex.own_log import OwnLogs
from backstory.agents.codex.places import NAME, Asking
from backstory.agents.codex.resume import Resuming
from backstory.agents.codex.run import Runs
from backstory.agents.codex.settings import TRAILERS, Guide, Servers, Skills
from backstory.agents.codex.write import Writing
from backstory.agents.contract import Agent

AGENT = Agent(
    name=NAME, title="Codex CLI", log=Logs(), run=Runs(), own_log=OwnLogs(), resume=Resuming(),
    asking=Asking(), write=Writing(), instruction_files=("AGENTS.md",), guide=Guide(), servers=Servers(),
    skills=Skills(), commits=TRAILERS,
)  # fmt: skip
