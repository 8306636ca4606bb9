"""Whether git could bring a file back as it is: asked of git, because only git knows its filters and line ends."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TIMEOUT_S = 20
_ASKED = ("--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false")
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE")
"""What would let git speak of another repository."""


def uncommitted(root: Path, path: Path, environ: Mapping[str, str]) -> str | None:
    """Why git has not all of a file, as a clause; None if it has, or the file is not there."""
    if not path.exists():
        return None
    command = ["git", *_ASKED, "-C", str(root), "status", "--porcelain=v1", "-z", "--ignored", "--untracked-files=all",
               "--", str(path)]  # fmt: skip
    kept = {name: value for name, value in environ.items() if name not in _FOREIGN}
    try:
        done = subprocess.run(
            command, env=kept | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return "git cannot be asked whether it has uncommitted changes"
    if done.returncode:
        return "git does not say whether it has uncommitted changes"
    return _clause(done.stdout.decode("utf-8", "replace"))


def _clause(status: str) -> str | None:
    if not status:
        return None
    return "it is not committed at all" if status[:2] in ("??", "!!", "A ", "AM") else "it has uncommitted changes"
