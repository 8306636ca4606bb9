"""Lines that nobody wrote: of generated files and of lists of versions, and the lines of a new version. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD_LINES = 10
"""In so many lines at its beginning a file says that it is generated."""
LONG_CHARS = 1_000
"""A longer line was written by a program."""
_NAMES = frozenset(
    {"package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "go.sum", "go.work.sum", "packages.lock.json",
     "gradle.lockfile", "bun.lockb", "module.bazel.lock", "package.resolved", "paket.lock", "project.assets.json"}
)  # fmt: skip
_ENDINGS = (
    ".lock", ".min.js", ".min.css", ".min.mjs", ".map", ".pb.go", "_pb2.py", "_pb2_grpc.py", ".pb.cc", ".pb.h",
    ".g.dart", ".freezed.dart", ".designer.cs", ".snap", ".gen.go", ".generated.ts", ".generated.go",
)  # fmt: skip
_FOLDERS = frozenset({"node_modules", "vendor", "dist", "__snapshots__", "__generated__"})
_SAYS_SO = lazy_regex(r"@generated\b|\bDO NOT EDIT\b|\b(?:[Aa]uto-?generated|[Gg]enerated) (?:by|from|file|code)\b")
_NUMBER = r"v?\d+(?:\.\d+){1,3}(?:[-+.]?[0-9A-Za-z]+(?:[.-][0-9A-Za-z]+)*)?"
_VERSION = lazy_regex(
    rf"""(?ix)
    ^[\w.\s<>"'/*@{{(-]*version(?:_?(?:name|code|string|number|prefix))?_{{0,2}}\b["'>]*\s*
    (?::\s*\w+\s*=|[:=]{{1,3}}|,)?\s*["'`>(]*\s*{_NUMBER}["'`<)\]]*(?:</[\w.]+>)?\s*[,;)]*\s*$
    | ^\#{{1,3}}\s+\[?{_NUMBER}\]?(?:\([^)]*\))?(?:\s*[-–—(]?\s*\d{{4}}-\d\d-\d\d\)?)?\s*$
    | ^\s*{_NUMBER}\s*$"""
)


def is_generated(path: str, head: Iterable[str] = ()) -> bool:
    """Return True if a file is a program's work, by its name or by what its first lines say.

    >>> is_generated("web/package-lock.json"), is_generated("src/locks.py")
    (True, False)
    """
    folders, _, name = path.lower().rpartition("/")
    if name in _NAMES or name.endswith(_ENDINGS) or not _FOLDERS.isdisjoint(folders.split("/")):
        return True
    first = [line for line, _ in zip(head, range(HEAD_LINES), strict=False)]
    return any(len(line) > LONG_CHARS or _SAYS_SO.search(line) for line in first)


def is_version(text: str) -> bool:
    """Return True if a line gives no more than a version.

    >>> is_version('version = "1.4.0"'), is_version('  "version": "2.0.0-rc.1",'), is_version("version = parse(text)")
    (True, True, False)
    """
    return len(text) <= LONG_CHARS and _VERSION.match(text) is not None
