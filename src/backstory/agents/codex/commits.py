"""The trailers of a commit's message: who helped. It names no session."""

from __future__ import annotations

from backstory.agents.trailers import Trailers

TRAILERS = Trailers(r"noreply@openai\.com")
