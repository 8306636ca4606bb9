"""Names of sessions, projects, models and git remotes where a person reads a list of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable


NO_PROMPT = "(no prompt)"
"""The title of a session in which nobody asked for anything: one that its agent continues by itself."""
SHORT_CHARS = 16
"""A line that is shorter says too little: what follows it is read with it."""
_HANDED_OVER = lazy_regex(r"implement (?:the following|this) plan:?", re.IGNORECASE)
_HEADING = lazy_regex(r"#{1,6}\s+(.*\S)")
_PLAN = lazy_regex(r"(?:implementation )?plan:\s+(?=\S)", re.IGNORECASE)
_MADE_ON = lazy_regex(r"-20\d{6}$")
_FENCE = ("```", "~~~")
_WORKTREES = lazy_regex(r"[/\\]\.(?:[\w-]+[/\\])?worktrees[/\\]")


def headline(prompt: str) -> str:
    """A line that says what a prompt is about; empty only where the prompt is.

    >>> headline("Implement the following plan:\\n\\n# Plan: Fail early"), headline("\\n```\\n- hi\\nthere")
    ('Fail early', '- hi there')
    """
    lines = [" ".join(line.split()) for line in prompt.splitlines()]
    worded = [line for line in lines if not line.startswith(_FENCE) and any(map(str.isalnum, line))]
    if worded and _HANDED_OVER.fullmatch(worded[0]) and len(worded) > 1:
        heading = next((line for line in worded[1:] if _HEADING.fullmatch(line)), worded[1])
        return _PLAN.sub("", _without_mark(heading), count=1)
    said = ""
    for line in worded:
        said = f"{said} {_without_mark(line)}".strip()
        if len(said) >= SHORT_CHARS:
            break
    return said or " ".join(prompt.split())


def short_model(model: str, agents: Iterable[str]) -> str:
    """A model's name without its agent's, its maker's and the day it was made.

    >>> short_model("agent-large-4-5-20251101", ["agent"]), short_model("maker/small-5.2", ["agent"])
    ('large-4-5', 'small-5.2')
    """
    name = _MADE_ON.sub("", model.rpartition("/")[2]) or model
    return next((name.removeprefix(f"{each}-") for each in agents if name.startswith(f"{each}-")), name)


def _without_mark(line: str) -> str:
    found = _HEADING.fullmatch(line)
    return found.group(1) if found else line


def title_of(name: str | None, title: str | None, first_prompt: str | None) -> str:
    """Return the title of a session in a line: its name, its agent's title for it, or the start of its first prompt."""
    return name or " ".join((title or "").split()) or headline(first_prompt or "")


def project_name(project: str | None, repository: str | None, root: str | None, cwd: str | None) -> str:
    """A project as ``owner/name``, else as its repository's folder, else as the last two parts of its path.

    >>> project_name("/w/tool", None, "/w/tool", "/w/tool"), project_name("/w/tool", None, None, "/w/tool")
    ('tool', 'w/tool')
    """
    if repository:
        return repository
    if project is not None and not _is_path(project):
        return "/".join(project.strip("/").split("/")[-2:])
    path = main_folder(project or cwd or "")
    parts = [part for part in re.split(r"[/\\]", path) if part]
    # A project that is not the folder itself is the root of its repository.
    is_root = root is not None or (project is not None and cwd is not None and project != cwd)
    return "/".join(parts[-1:] if is_root else parts[-2:])


def main_folder(path: str) -> str:
    """The folder of a project in which a worktree of it lies, by where agents put worktrees; else the path itself.

    >>> main_folder("/w/tool/.agent/worktrees/fix"), main_folder("/w/tool")
    ('/w/tool', '/w/tool')
    """
    return _WORKTREES.split(path, maxsplit=1)[0]


def _is_path(project: str) -> bool:
    return project.startswith(("/", "~", ".", "\\")) or project[1:3] in (":\\", ":/")


# git remotes ----------------------------------------------------------------------------------------------------------


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
