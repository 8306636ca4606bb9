"""Facts that git reports on lines of a file, a commit and its files; no program of a repository is run.

Where git prints more than is read, or takes longer than it may, the answer is a part, and that is noted.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.derive.git_values import UNCOMMITTED, BlamedLine, Commit, FileChange
from backstory.errors import FileIsBinary, FileNotHere, GitFailed
from backstory.lazy import lazy_regex
from backstory.projects import git
from backstory.projects.git_program import NO_FILTER, SECONDS, GitProgram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

COMMITS_MAX = 2_000
"""Most commits of a file's history that are looked at, the newest."""
COPIES_MAX = 20
"""The most other files that lines of one came from that are looked at."""
ROOTS_MAX = 100
"""A history that begins with more commits says nothing of what it is."""
FILE_BYTES_MAX = 50_000_000
"""A file that git does not have is read up to this size."""
_DIFF = (
    "-p", "-U0", "--inter-hunk-context=0", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative",
    "--ignore-submodules=all",
    "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--encoding=UTF-8",
)  # fmt: skip
_MARK = "\x01"
_FORMAT = f"--format={_MARK}%H%x00%P%x00%an%x00%ae%x00%at%x00%ct"
_LINE = lazy_regex(r"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")
_ESCAPE = lazy_regex(r"\\([0-7]{3}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class GitHistory:
    """The history of the repository that contains a folder, for one command: all its calls share ``seconds``.

    ``environ``: what git may need of the environment. ``left_out``: the parts that are not in an answer, and why.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str], *, seconds: float = SECONDS) -> None:
        self._folder = folder
        self._git = GitProgram(self.root or folder, environ, seconds=seconds)
        self.left_out: dict[str, str] = {}

    @cached_property
    def root(self) -> Path | None:
        """The root of the worktree; None outside of a repository."""
        return git.repository_root(self._folder.resolve())

    def first_commits(self) -> tuple[str, ...]:
        """The commits that the history of HEAD begins with, the oldest first; raises NoGit and GitFailed.

        Empty where that is not known: before the first commit, and in a shallow clone.
        """
        if not (git.has_whole_history(self._folder) and self._has_commits):
            return ()
        found = self._git.ask("rev-list", "--max-parents=0", f"-n{ROOTS_MAX + 1}", "HEAD", "--").split()
        return tuple(reversed(found)) if len(found) <= ROOTS_MAX else ()

    def has_commits(self, hashes: Sequence[str]) -> bool:
        """Return True if any of these commits is here; raises NoGit and GitFailed."""
        output = self._git.ask("cat-file", "--batch-check=%(objecttype)", given="\n".join(hashes) + "\n")
        return "commit" in output.splitlines()

    def path_of(self, typed: str) -> str | None:
        """A path as git names it, below the root, with ``/``; None for one outside. Links of folders are followed."""
        if self.root is None:
            return None
        path = Path(os.path.normpath(self._folder / typed))
        try:
            below = (path.parent.resolve() / path.name).relative_to(self.root)
        except ValueError:
            return None
        return below.as_posix()

    def kind_of(self, path: str) -> str | None:
        """``file`` or ``folder``: what is at a path below the root; None for nothing."""
        place = (self.root or self._folder) / path
        if place.is_symlink() or place.is_file():
            return "file"
        return "folder" if place.is_dir() else None

    def lines(self, path: str, *, moved: bool) -> tuple[BlamedLine, ...]:
        """The lines of a file as it is now, each with the commit that it came with.

        ``moved``: lines that were moved or copied with where they came from. Where that is left out, the last lines are
        not there. Raises FileNotHere, FileIsBinary, NoGit, GitFailed.
        """
        content = self._content(path)
        if b"\0" in content[:8_000]:
            raise FileIsBinary(path)
        if not self._is_committed(path):
            if len(content) == FILE_BYTES_MAX:
                self._note(f"the end of {path}", f"of a file that is not committed {FILE_BYTES_MAX:,} bytes are read")
            texts = _text(content).removesuffix("\n").split("\n") if content else []
            return tuple(
                BlamedLine(number=n, text=text.removesuffix("\r"), commit=UNCOMMITTED, path=path)
                for n, text in enumerate(texts, 1)
            )
        if not content:
            return ()
        how = ["-M", "-C"] if moved else []
        # Git sorts the files of its setting, so that only an option takes back what they name.
        words = ("blame", "--porcelain", *how, "--ignore-revs-file=", "--no-textconv", "--encoding=UTF-8", "--", path)
        output = self._git.begin(*words, share=0.5 if moved else 0.8)
        if output.cut is not None and not (moved or output.text):
            raise GitFailed(output.cut)
        self._note(f"where the last lines of {path} {'moved from' if moved else 'are from'}", output.cut)
        return tuple(_blamed(output.text if output.cut is None else output.text[: output.text.rfind("\n") + 1]))

    def history(self, path: str) -> tuple[FileChange, ...]:
        """Return the changes that commits made to a file, the newest first, also under its earlier names.

        Before them what is not committed yet, with UNCOMMITTED for its commit and no time.
        """
        if not self._has_commits:
            return ()
        now = self._diff(f"what is not committed of {path}", "diff", *_DIFF, "HEAD", "--", path)
        output = self._log(f"older changes of {path}", "--follow", "--", path)
        return (*_changes(now, [UNCOMMITTED, "", "", "", "", ""]), *_changes(output))

    def history_before(self, commit: str, paths: Sequence[str]) -> tuple[FileChange, ...]:
        """Return the changes that a commit and those before it made to files of these names."""
        if not (paths and self._has_commits):
            return ()
        what = f"older changes of {paths[0] if len(paths) == 1 else 'these files'}"
        return tuple(_changes(self._log(what, "--end-of-options", commit, "--", *paths)))

    def resolve(self, typed: str) -> str | None:
        """The hash of the commit that is meant: by a hash, the start of one, a tag, a branch, HEAD~2; None for none."""
        if typed.startswith("-") or "\0" in typed:
            return None
        output = self._git.ask(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{typed}^{{commit}}", allowed=(0, 1, 128)
        )
        if not output:
            # The same exit code is that of a repository which git refuses.
            self._git.ask("rev-parse", "--git-dir")
        return output.strip() or None

    def commits(self, hashes: Iterable[str]) -> dict[str, Commit]:
        """These commits, by their hashes."""
        wanted = [each for each in dict.fromkeys(hashes) if each != UNCOMMITTED]
        if not wanted:
            return {}
        # The message is last: it may contain anything but NUL.
        output = self._git.ask(
            "log", "--no-walk=unsorted", "--stdin", "-z", "--encoding=UTF-8",
            "--format=%H%x02%P%x02%an%x02%ae%x02%at%x02%ct%x02%B", given="\n".join(wanted) + "\n",
        )  # fmt: skip
        found = (each.lstrip("\n").split("\x02", 6) for each in output.split("\0") if each.strip("\n"))
        return {fields[0]: _commit(fields) for fields in found if len(fields) == 7}

    def changes_of(self, commit: str) -> tuple[FileChange, ...]:
        """Return the changes that a commit made to its files, against its parent; nothing for a merge."""
        words = ("show", *_DIFF, _FORMAT, "--diff-merges=off", "--end-of-options", commit)
        return tuple(_changes(self._diff("the last files of the commit", *words)))

    def committed_since(self, since: int, until: int | None = None) -> dict[str, Commit]:
        """The newest commit of each file that commits changed that were authored in a time; without their messages.

        On any branch, tag or remote branch. Who rebases a commit later changes nothing here. Raises NoGit, GitFailed.
        """
        output = self._git.begin(
            "log", f"-n{COMMITS_MAX}", f"--since=@{since // 1000}", "--branches", "--tags", "--remotes", "--name-only",
            "--no-renames", "--no-ext-diff", "--no-relative", "--ignore-submodules=all", f"{_FORMAT}%x00",
        )  # fmt: skip
        found: dict[str, Commit] = {}
        pieces = output.text.split(_MARK)[1:]
        # The last one may end within a name where git said more than is read.
        for piece in pieces if output.cut is None else pieces[:-1]:
            *fields, names = piece.split("\0", 6)
            commit = _commit([*fields, ""]) if len(fields) == 6 else None
            if commit is None or commit.authored < since or (until is not None and commit.authored >= until):
                continue
            for path in map(_unquoted, filter(None, names.split("\n"))):
                if path not in found or found[path].authored < commit.authored:
                    found[path] = commit
        return found

    def is_clean(self, paths: Sequence[str]) -> bool:
        """Return True if these files are as in the last commit; False where only a filter's program could tell."""
        filters = self._git.ask("check-attr", "-z", "--stdin", "filter", given="\0".join(paths)).split("\0")[2::3]
        return not any(each not in NO_FILTER for each in filters) and not self._git.ask(
            "status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=all", "--no-renames", "--",
            *paths,
        )  # fmt: skip

    def generated(self, paths: Sequence[str]) -> frozenset[str]:
        """Those of these files that the repository's attributes call generated."""
        if not paths:
            return frozenset()
        output = self._git.ask("check-attr", "-z", "--stdin", "linguist-generated", given="\0".join(paths))
        fields = output.split("\0")
        triples = zip(fields[::3], fields[1::3], fields[2::3], strict=False)
        return frozenset(path for path, _, value in triples if value in ("set", "true"))

    def _content(self, path: str) -> bytes:
        place = (self.root or self._folder) / path
        try:
            if place.is_symlink():
                return os.fsencode(place.readlink())
            with place.open("rb") as file:
                return file.read(FILE_BYTES_MAX)
        except OSError as refused:
            raise FileNotHere(path) from refused

    def _is_committed(self, path: str) -> bool:
        """Return True if the file is in the last commit."""
        return self._has_commits and bool(self._git.ask("ls-tree", "--name-only", "HEAD", "--", path))

    @cached_property
    def _has_commits(self) -> bool:
        return bool(self._git.ask("rev-parse", "--verify", "--quiet", "HEAD", allowed=(0, 1)))

    def _log(self, what: str, *words: str) -> str:
        """The newest commits with their differences; ``what`` is left out if there are more."""
        output = self._diff(what, "log", f"-n{COMMITS_MAX}", *_DIFF, _FORMAT, *words)
        if output.count(f"\n{_MARK}") == COMMITS_MAX - 1:
            self._note(what, f"only the newest {COMMITS_MAX:,} commits are looked at")
        return output

    def _diff(self, what: str, *words: str) -> str:
        """Differences, each of them whole; ``what`` is left out if git says more than is read, or takes too long."""
        output = self._git.begin(*words)
        self._note(what, output.cut)
        return output.text if output.cut is None else output.text[: max(0, output.text.rfind("\ndiff --git "))]

    def _note(self, what: str, why: str | None) -> None:
        if why is not None:
            self.left_out[what] = why


def _text(given: bytes) -> str:
    return given.decode("utf-8", "replace")


def _commit(fields: Sequence[str]) -> Commit:
    return Commit(
        hash=fields[0], parents=tuple(fields[1].split()), author=fields[2], email=fields[3], authored=_ms(fields[4]),
        committed=_ms(fields[5]), message=fields[6],
    )  # fmt: skip


def _ms(seconds: str) -> int:
    return int(seconds) * 1000 if seconds.lstrip("-").isdigit() else 0


def _blamed(output: str) -> Iterator[BlamedLine]:
    paths: dict[str, str] = {}
    commit, number = UNCOMMITTED, 0
    # Only line feeds end a line here: a text may hold any other sign.
    for line in output.split("\n"):
        if line.startswith("\t"):
            yield BlamedLine(number=number, text=line[1:].removesuffix("\r"), commit=commit, path=paths.get(commit, ""))
        elif (found := _LINE.fullmatch(line)) is not None:
            commit, number = found.group(1), int(found.group(2))
        elif line.startswith("filename "):
            paths[commit] = _unquoted(line[9:])


def _changes(output: str, fields: Sequence[str] = ()) -> Iterator[FileChange]:
    """The files of commits, from differences without context. ``fields``: the first commit's, where it is not named."""
    for piece in re.split(rf"^(?={_MARK}|diff --git )", output, flags=re.MULTILINE):
        if piece.startswith(_MARK):
            fields = piece[1:].partition("\n")[0].split("\0")
        elif piece.startswith("diff --git ") and len(fields) == 6:
            change = _change(piece, fields)
            if change is not None:
                yield change


def _change(piece: str, fields: Sequence[str]) -> FileChange | None:
    head, is_split, body = piece.partition("\n@@ ")
    old = new = None
    is_binary = False
    for line in head.split("\n")[1:]:
        if line.startswith(("--- ", "rename from ")):
            old = _path(line.removeprefix("--- ").removeprefix("rename from "), "a/", line.startswith("--- ")) or old
        elif line.startswith(("+++ ", "rename to ")):
            new = _path(line.removeprefix("+++ ").removeprefix("rename to "), "b/", line.startswith("+++ ")) or new
        elif line.startswith(("Binary files ", "GIT binary patch")):
            is_binary = True
    path = new or old
    if path is None and is_binary:
        # Both names are the same there, behind a/ and b/.
        names = head.partition("\n")[0].removeprefix("diff --git ")
        path = _path(names[len(names) // 2 + 1 :], "b/", is_header=True)
    if path is None:
        return None
    return FileChange(
        commit=fields[0], authored=_ms(fields[4]), committed=_ms(fields[5]), path=path,
        old_path=old if old != path else None, hunks=f"@@ {body}" if is_split else "", is_binary=is_binary,
    )  # fmt: skip


def _path(written: str, prefix: str, is_header: bool) -> str | None:
    """A path as a difference names it; None for that of a file that is not there."""
    # Behind a name with a blank git puts a tab.
    path = _unquoted(written.removesuffix("\t") if is_header else written)
    if is_header:
        return None if path == "/dev/null" else path.removeprefix(prefix)
    return path


def _unquoted(written: str) -> str:
    """A path as git writes one with unusual signs: in quotes, with escapes."""
    if not (written.startswith('"') and written.endswith('"')):
        return written
    parts = bytearray()
    at, inner = 0, written[1:-1]
    for found in _ESCAPE.finditer(inner):
        parts += inner[at : found.start()].encode()
        sign = found.group(1)
        parts += bytes([int(sign, 8) & 255]) if sign.isdigit() else _ESCAPED.get(sign, sign).encode()
        at = found.end()
    return _text(bytes(parts + inner[at:].encode()))
