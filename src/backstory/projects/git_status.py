"""True if git could bring a file back as it is: asked of git, because only git knows its line ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.errors import GitFailed, NoGit
from backstory.projects.git_program import NO_FILTER, GitProgram

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SECONDS = 20.0
NAME_CHARS_MAX = 60


def uncommitted(root: Path, path: Path, environ: Mapping[str, str]) -> str | None:
    """Return the reason that git lacks part of a file, as a clause; None if it has all, or there is no file.

    A file with a filter is never said to be committed: only the filter's program could tell, and it is not run.
    """
    if not path.exists():
        return None
    git = GitProgram(root, environ, seconds=SECONDS)
    try:
        name = git.ask("check-attr", "-z", "filter", "--", str(path)).rstrip("\0").rpartition("\0")[2]
        if name not in NO_FILTER:
            return (
                f"git changes it with the filter “{name[:NAME_CHARS_MAX]}” (see .gitattributes), whose program is "
                "not run here, so it may have uncommitted changes"
            )
        return _clause(
            git.ask(
                "status", "--porcelain=v1", "-z", "--ignored", "--untracked-files=all", "--ignore-submodules=all",
                "--no-renames", "--", str(path),
            )
        )  # fmt: skip
    except NoGit:
        return "git cannot be asked whether it has uncommitted changes"
    except GitFailed as refused:
        return f"git does not say whether it has uncommitted changes: {refused.detail}"


def _clause(status: str) -> str | None:
    if not status:
        return None
    return "it is not committed at all" if status[:2] in ("??", "!!", "A ", "AM") else "it has uncommitted changes"
