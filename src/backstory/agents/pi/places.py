"""The places of pi's logs below its own folder, and its name here."""

from __future__ import annotations

NAME = "pi"
SESSIONS = "sessions"
_HYPHENS = str.maketrans("/\\:", "---")


def project_folder(folder: str) -> str:
    """The name of the folder with the logs of what ran in a folder.

    >>> project_folder("/home/dev/shop")
    '--home-dev-shop--'
    """
    name = folder[1:] if folder[:1] in ("/", "\\") else folder
    return f"--{name.translate(_HYPHENS)}--"
