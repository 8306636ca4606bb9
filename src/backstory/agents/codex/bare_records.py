"""Records of an agent's first builds, which stand bare in their lines. What they say of the session as a whole."""

from __future__ import annotations

from backstory.lazy import lazy_regex

BARE = lazy_regex(rb'\s*\{"(?:id|record_type|type)"\s*:')
META = lazy_regex(rb'\s*\{"id"\s*:\s*"([^"\\]+)"\s*,\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"(?:instructions|git)"')
"""The first line of such a log."""
_CWD = lazy_regex(rb"<environment_context>\s*(?:\\n\s*)*(?:<cwd>|Current working directory: )([^<\\\"]+)")


def cwd_in(line: bytes) -> str:
    """The working folder of a session: only the environment text sent to the model contains it."""
    found = _CWD.search(line)
    return found.group(1).decode("utf-8", "replace").strip() if found else ""
