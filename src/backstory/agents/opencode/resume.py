"""Handing a session over to ``opencode -s``."""

from __future__ import annotations

from backstory.agents.client_resume import resumed_with

RESUMING = resumed_with("opencode", "-s")
