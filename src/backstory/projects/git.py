"""The project that a folder belongs to, read from .git without running git.

The key of a project is its remote's URL, normalised (``github.com/owner/repo``), so that clones and
worktrees share it; without a remote it is the path of the repository's root; outside git, the folder.
A bare repository is its own root, shared by the worktrees that are linked to it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from backstory.derive.naming import normalised
from backstory.lazy import lazy_regex
from backstory.store import PROJECT_STORE

BARE_STORE = Path("backstory") / PROJECT_STORE.name
"""The path of a store in a bare repository. Git ignores it there, so nothing needs to be hidden."""
WORKTREES_MAX = 1_000
"""Most worktrees of a repository whose places are read."""

_REMOTE = lazy_regex(r'^\s*\[remote "([^"]+)"\]\s*$')
_URL = lazy_regex(r"^\s*url\s*=\s*(\S+)\s*$")
_SECTION = lazy_regex(r"^\s*\[([^]\s\"]+)")
_BARE = lazy_regex(r"^\s*bare\s*(?:=\s*(?:true|yes|on|1)\s*)?(?:[#;].*)?$", re.IGNORECASE)


@lru_cache(maxsize=4096)
def project_key(folder: str | None) -> str | None:
    """Return the key of the project that contains ``folder``; the folder itself if it is gone or outside git."""
    if not folder:
        return None
    root = _bare_root(Path(folder)) or repository_root(Path(folder))
    if root is None:
        return folder
    url = remote_url(root)
    return normalised(url) if url else str(root)


@lru_cache(maxsize=4096)
def worktree_root(folder: str | None) -> str | None:
    """Return the root of the worktree that contains ``folder``; None if it is gone or outside git."""
    root = repository_root(Path(folder)) if folder else None
    return str(root) if root is not None else None


def repository_root(folder: Path) -> Path | None:
    """Return the nearest folder at or above with a ``.git``."""
    for each in (folder, *folder.parents):
        try:
            if (each / ".git").exists():
                return each
        except (OSError, ValueError):
            return None
    return None


def shared_root(folder: Path) -> Path | None:
    """Return the root shared by all worktrees of a repository: the main one's, or the bare repository."""
    if (bare := _bare_root(folder)) is not None:
        return bare
    root = repository_root(folder)
    if root is None:
        return None
    try:
        common = _common_dir(root / ".git")
    except (OSError, UnicodeDecodeError):
        return root
    return common.parent if common.name == ".git" else common


def worktrees(folder: Path) -> list[Path]:
    """Return the roots of the worktrees that are linked to a folder's repository; they may be gone by now."""
    root = shared_root(folder)
    if root is None:
        return []
    found: list[Path] = []
    # One without worktrees has no such folder; of a worktree that is being made not all is there.
    with suppress(OSError, ValueError):
        common = root if _is_bare(root) else _common_dir(root / ".git")
        for each in sorted(islice((common / "worktrees").iterdir(), WORKTREES_MAX)):
            with suppress(OSError, ValueError):
                found.append((each / (each / "gitdir").read_text("utf-8").strip()).parent)
    return found


def store_path(root: Path) -> Path:
    """Return the path of the store of the project with this root; its settings are beside it."""
    return root / (BARE_STORE if _is_bare(root) else PROJECT_STORE)


def keep_out_of_git(folder: Path, name: str) -> None:
    """Make git ignore ``name`` at a repository's root, by its exclude file: no file of the project changes.

    A last line without its end stays one, so that ``without_excluded`` leaves the file as it was.
    """
    try:
        exclude = exclude_file(folder)
        known = exclude.read_text("utf-8") if exclude is not None and exclude.exists() else ""
        if exclude is not None and f"/{name}/" not in known.splitlines():
            exclude.parent.mkdir(exist_ok=True)
            with exclude.open("a", encoding="utf-8") as file:
                file.write(f"/{name}/\n" if known.endswith("\n") or not known else f"\n/{name}/")
    except (OSError, UnicodeDecodeError):
        return


def exclude_file(folder: Path) -> Path | None:
    """Return the exclude file of a folder's repository; None without one.

    That of a bare repository would hide folders in its worktrees.
    """
    root = repository_root(folder)
    return None if root is None or _is_bare(folder) else _common_dir(root / ".git") / "info" / "exclude"


def without_excluded(data: bytes, name: str) -> bytes:
    """The bytes of an exclude file without the line of ``keep_out_of_git``, as they were before it.

    >>> without_excluded(b"*.o\\n/.tool/\\n", ".tool"), without_excluded(b"*.o\\n/.tool/", ".tool")
    (b'*.o\\n', b'*.o')
    """
    line, lines = f"/{name}/".encode(), data.splitlines(keepends=True)
    at = next((n for n in reversed(range(len(lines))) if lines[n].rstrip(b"\r\n") == line), None)
    if at is None:
        return data
    before = b"".join(lines[:at])
    return (before if lines[at].endswith(b"\n") else before.removesuffix(b"\n")) + b"".join(lines[at + 1 :])


def current_branch(folder: Path) -> str | None:
    """Return the current branch of a folder's repository."""
    root = repository_root(folder)
    if root is None:
        return None
    try:
        dot_git = root / ".git"
        head_folder = dot_git if dot_git.is_dir() else root / dot_git.read_text("utf-8").removeprefix("gitdir:").strip()
        return (head_folder / "HEAD").read_text("utf-8").strip().removeprefix("ref: refs/heads/") or None
    except (OSError, UnicodeDecodeError):
        return None


def remote_url(root: Path) -> str | None:
    """Return the URL of ``origin``, else of the first remote, from the repository's config."""
    try:
        common = root if _is_bare(root) else _common_dir(root / ".git")
        text = (common / "config").read_text("utf-8", "replace")
    except (OSError, ValueError):
        # ValueError: the path has a NUL, or bytes that are not text.
        return None
    urls: dict[str, str] = {}
    section = None
    for line in text.splitlines():
        if line.lstrip().startswith("["):
            found = _REMOTE.match(line)
            section = found.group(1) if found else None
        elif section and (found := _URL.match(line)):
            urls.setdefault(section, found.group(1))
    return urls.get("origin") or next(iter(urls.values()), None)


def has_whole_history(folder: Path) -> bool:
    """Return True if the repository of a folder has commits, and those that they begin with: it is no shallow clone."""
    root = repository_root(folder)
    try:
        common = None if root is None else _common_dir(root / ".git")
        if common is None or (common / "shallow").exists():
            return False
        return any((common / each).exists() for each in ("packed-refs", "reftable")) or any(
            each.is_file() for each in islice((common / "refs" / "heads").rglob("*"), WORKTREES_MAX)
        )
    except (OSError, UnicodeDecodeError):
        return False


def _bare_root(folder: Path) -> Path | None:
    """Return the bare repository that contains a folder or its worktree."""
    for each in (folder, *folder.parents):
        try:
            if (each / ".git").exists():
                common = _common_dir(each / ".git")
                return common if _is_bare(common) else None
            if _is_bare(each):
                return each
        except (OSError, ValueError):
            return None
    return None


def _is_bare(folder: Path) -> bool:
    """Return True if a folder is a repository without a worktree of its own."""
    try:
        if not ((folder / "HEAD").is_file() and (folder / "objects").is_dir()):
            return False
        # If worktrees have settings of their own, git stores them in a second file.
        files = [folder / "config", folder / "config.worktree"]
        return any(_says_bare(file.read_text("utf-8", "replace")) for file in files if file.exists())
    except (OSError, ValueError):
        return False


def _says_bare(config: str) -> bool:
    section = ""
    for line in config.splitlines():
        if found := _SECTION.match(line):
            section = found.group(1).lower()
        elif section == "core" and _BARE.match(line):
            return True
    return False


def _common_dir(dot_git: Path) -> Path:
    """Return the folder of a repository's config: ``.git``, or for a linked worktree the main repository's."""
    if dot_git.is_dir():
        return dot_git
    target = dot_git.read_text("utf-8").removeprefix("gitdir:").strip()
    folder = (dot_git.parent / target).resolve()
    common = folder / "commondir"
    return (folder / common.read_text("utf-8").strip()).resolve() if common.exists() else folder
