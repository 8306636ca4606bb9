"""Claude Code: its logs, what they report of subagents, what lies beside them, runs (also steered), its client."""

from __future__ import annotations

from backstory.agents.claude.log import Logs
from backstory.agents.claude.places import NAME, Asking
from backstory.agents.claude.reports import Reports
from backstory.agents.claude.resume import Resuming
from backstory.agents.claude.run import OwnLogs, Runs
from backstory.agents.claude.settings import TRAILERS, Guide, Retention, Servers, Skills
from backstory.agents.claude.sidecars import Sidecars
from backstory.agents.claude.steer import Steering
from backstory.agents.claude.write import Writing
from backstory.agents.contract import Agent

AGENT = Agent(
    name=NAME, title="Claude Code", log=Logs(), reports=Reports(), sidecars=Sidecars(), run=Runs(), steer=Steering(),
    own_log=OwnLogs(), resume=Resuming(), asking=Asking(), write=Writing(),
    instruction_files=("CLAUDE.md", ".claude/CLAUDE.md"), guide=Guide(), retention=Retention(),
    servers=Servers(), skills=Skills(), commits=TRAILERS,
)  # fmt: skip
