"""What git remotes are called: whose repository, on which host."""

from __future__ import annotations

import re

from backstory.lazy import lazy_regex

_SCP = lazy_regex(r"^(?:[^@/]+@)?([^:/]+):(?!//)(.+)$")
_SCHEME = lazy_regex(r"^[a-z+]+://(?:[^@/]*@)?([^/:]+)(?::\d+)?/(.+)$", re.IGNORECASE)


def normalised(url: str) -> str:
    """A remote's URL as host/path, without scheme, user, port or ``.git``.

    >>> normalised("git@github.com:me/tool.git"), normalised("https://x@github.com/me/tool")
    ('github.com/me/tool', 'github.com/me/tool')
    """
    for pattern in (_SCHEME, _SCP):
        if found := pattern.match(url):
            return f"{found.group(1).lower()}/{found.group(2).strip('/').removesuffix('.git')}"
    return url.removesuffix(".git")


def repository_name(remote: str | None) -> str | None:
    """``owner/name`` out of a remote's URL or key; None for a folder.

    >>> repository_name("git@github.com:me/tool.git"), repository_name("me/tool"), repository_name("/home/me/tool")
    ('me/tool', 'me/tool', None)
    """
    if not remote or remote.startswith(("/", "~", ".")):
        return None
    host, _, path = normalised(remote).partition("/")
    return path if "." in host and "/" in path else remote if remote.count("/") == 1 and ":" not in remote else None
