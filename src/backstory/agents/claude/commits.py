"""The trailers of a commit's message: who helped, and the session.

Web and remote sessions name the address of a page, whose id no log has.
"""

from __future__ import annotations

from backstory.agents.trailers import Trailers

TRAILERS = Trailers(r"noreply@anthropic\.com", session_keys=("claude-session", "x-claude-session"))
