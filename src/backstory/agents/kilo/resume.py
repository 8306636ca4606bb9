"""Handing a session over to ``kilo -s``."""

from __future__ import annotations

from backstory.agents.part_resume import PartResuming

RESUMING = PartResuming("kilo")
