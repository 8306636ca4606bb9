"""The trailers of a commit's message: who helped, and the session.

Of a session that is also in the cloud that may be its id there, which no log has.
"""

from __future__ import annotations

from backstory.agents.trailers import Trailers

TRAILERS = Trailers(r".*\+copilot@users\.noreply\.github\.com", session_keys=("copilot-session",))
