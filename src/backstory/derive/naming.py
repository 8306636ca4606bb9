"""Names of sessions, projects, models and git remotes where a person reads a list of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable


PRUNED = "pruned in part"
NO_PROMPT = "(no prompt)"
"""The title of a session in which nobody asked for anything: one that its agent continues by itself."""
LETTERS_LEAST = 12
"""A first prompt with fewer letters does not tell sessions apart: "ls", "1", "Do the work."."""
WORDS_CHARS_MAX = 60
"""The most characters of a command behind such a prompt."""
SHORT_CHARS = 16
"""A line that is shorter says too little: what follows it is read with it."""
_HANDED_OVER = lazy_regex(r"implement (?:the following|this) plan:?", re.IGNORECASE)
_HEADING = lazy_regex(r"#{1,6}\s+(.*\S)")
_PLAN = lazy_regex(r"(?:implementation )?plan:\s+(?=\S)", re.IGNORECASE)
_MADE_ON = lazy_regex(r"-20\d{6}$")
_FENCE = ("```", "~~~")
_WORKTREES = lazy_regex(r"[/\\]\.(?:[\w-]+[/\\])?worktrees[/\\]")
_HIDDEN = lazy_regex(r"[/\\]\.[^/\\.]")


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


def says_enough(prompt: str) -> bool:
    """Return True if a prompt has the letters that a title needs.

    >>> says_enough("Do the work."), says_enough("Mend the parser")
    (False, True)
    """
    # Nearly every prompt has them at its beginning.
    return sum(map(str.isalpha, prompt[: 2 * LETTERS_LEAST])) >= LETTERS_LEAST or (
        sum(map(str.isalpha, prompt)) >= LETTERS_LEAST
    )


def with_subject(prompt: str, subject: str, folder: str) -> str:
    """A first prompt that says too little, with the first file or command of its session, as seen from its folder.

    >>> with_subject("ls", "/w/tool/src/app.py", "/w/tool"), with_subject("1", "", "/w/tool")
    ('ls · src/app.py', '1')
    """
    below = f"{folder.rstrip('/')}/" if folder else ""
    words = " ".join(subject.removeprefix(below).split())
    words = words if len(words) <= WORDS_CHARS_MAX else f"{words[: WORDS_CHARS_MAX - 1]}…"
    return f"{headline(prompt)} · {words}" if words else prompt


def title_of(name: str | None, title: str | None, first_prompt: str | None) -> str:
    """Return the title of a session in a line: its name, its agent's title for it, or the start of its first prompt."""
    return name or " ".join((title or "").split()) or headline(first_prompt or "")


def folded(title: object) -> str:
    """Return a title as titles are compared: one space between its words, upper and lower case as one.

    >>> folded("Ärger  mit\\nSCHLÜSSELN")
    'ärger mit schlüsseln'
    """
    text = title.decode("utf-8", "replace") if isinstance(title, bytes) else str(title or "")
    return " ".join(text.split()).casefold()


def project_name(project: str | None, repository: str | None, root: str | None, cwd: str | None) -> str:
    """A project as ``owner/name``, else as its repository's folder, else as the last two parts of its path.

    >>> project_name("/w/tool", None, "/w/tool", "/w/tool"), project_name("/w/tool", None, None, "/w/tool")
    ('tool', 'w/tool')
    """
    if repository:
        return repository
    if project is not None and not is_path(project):
        return "/".join(project.strip("/").split("/")[-2:])
    parts = parts_of(main_folder(project or cwd or ""))
    # A project that is not the folder itself is the root of its repository.
    is_root = root is not None or (project is not None and cwd is not None and project != cwd)
    return "/".join(parts[-1:] if is_root else parts[-2:])


def main_folder(path: str) -> str:
    """The folder of a project in which a worktree of it lies, by where agents put worktrees; else the path itself.

    >>> main_folder("/w/tool/.agent/worktrees/fix"), main_folder("/w/tool")
    ('/w/tool', '/w/tool')
    """
    return _WORKTREES.split(path, maxsplit=1)[0]


def is_path(project: str) -> bool:
    """Return True for a project that is known by its folder."""
    return project.startswith(("/", "~", ".", "\\")) or project[1:3] in (":\\", ":/")


def is_of_remote(project: str | None) -> bool:
    """Return True for a project that is known by its remote."""
    return bool(project) and not is_path(project or "")


def parts_of(path: str) -> list[str]:
    """The names of the folders that a path goes through."""
    return [part for part in re.split(r"[/\\]", path) if part]


# projects on screens --------------------------------------------------------------------------------------------------


class ShownProject(NamedTuple):
    """The project of a session on screens: sessions with one key are in one row, and no two keys have one name.

    For showing only: no right, scope or setting may follow from it.
    """

    key: str
    name: str


class ProjectNames(Struct, frozen=True, kw_only=True):
    """The projects that are shown otherwise than their own facts say, as an ingest noted them.

    ``known``: by remote as it was recorded, by repository, by folder, or by folder and repository (see ``place_key``).
    ``upto``: the last session's id then.
    """

    known: dict[str, ShownProject] = {}
    upto: int = 0

    def of(self, project: str | None, repository: str | None, root: str | None, cwd: str | None) -> ShownProject:
        """Return the project of a session with these facts, its folders as they lie now."""
        found, folder = self.known.get(place_key(project, repository, cwd)), main_folder(project or cwd or "")
        is_remote = is_of_remote(project)
        if found is None and not is_remote:
            found = self.known.get(repository) if repository else self._above(folder)
        if found is not None:
            return found
        key = repository if repository and not is_remote else folder
        return ShownProject(key, project_name(project, repository, root, cwd))

    def _above(self, folder: str) -> ShownProject | None:
        above = folder_above_hidden(folder)
        found = self.known.get(above) if above else None
        return None if found is None or is_path(found.key) else found


def place_key(project: str | None, repository: str | None, cwd: str | None) -> str:
    """Return the key under which ``ProjectNames`` knows sessions with these facts."""
    folder = main_folder(project or cwd or "")
    return f"{folder}\n{repository}" if repository and not is_of_remote(project) else folder


def folder_above_hidden(folder: str) -> str | None:
    """The folder above the first hidden one on a path, unless it is a person's home or above that.

    >>> folder_above_hidden("/home/me/tool/.build/x"), folder_above_hidden("/home/me/.cache/x")
    ('/home/me/tool', None)
    """
    above, *below = _HIDDEN.split(folder, maxsplit=1)
    return above if below and len(parts_of(above)) > 2 else None


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


def pruned_words(words: Iterable[str]) -> str:
    """Return what was pruned of a session in part, as heads of it say.

    >>> pruned_words(("prompts", "images"))
    'pruned in part: all but prompts; images'
    """
    said = [f"all but {word}" if word in ("prompts", "summaries") else word for word in words]
    said = [each.replace("all but summaries", "all but prompts and summaries") for each in said]
    return f"{PRUNED}: {'; '.join(said)}" if said else ""
