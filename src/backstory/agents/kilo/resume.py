"""Handing a session over to ``kilo -s``."""

from __future__ import annotations

from backstory.agents.client_resume import resumed_with

RESUMING = resumed_with("kilo", "-s")
