"""Lines that a call put into a file, and lines that it took away: edits, patches and whole files. Pure.

Only what stands in the call's input counts. What a program did that a shell ran is not known, but for patches.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct

from backstory.derive import essence
from backstory.lazy import lazy_regex
from backstory.model import Tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from backstory.model import ToolCall

COMPARED_MAX = 4_000_000
"""The most pairs of lines that are compared to find those that an edit keeps."""
_EVERYWHERE = ("replace_all", "replaceAll", "allow_multiple")
_WRITTEN = ("content", "file_text", "contents", "text")


class LinePart(Struct, frozen=True, kw_only=True):
    """A text inside of one line that another one replaced. ``reaches_end``: the line ends with it, ``from_start``: it
    begins with it; with neither it may stand anywhere. ``keeps``: which side of the line stays beside the new text.
    ``everywhere``: wherever it stands, in every line.
    """

    old: str
    new: str
    reaches_end: bool = False
    from_start: bool = False
    keeps: Literal["both", "before", "behind"] = "both"
    everywhere: bool = False

    def applied(self, line: str) -> str | None:
        """The line with the new text; None where the old one is not in it, or nothing changes."""
        found: str | None
        if self.everywhere:
            found = line.replace(self.old, self.new)
        elif self.reaches_end:
            found = line[: len(line) - len(self.old)] + self.new if line.endswith(self.old) else None
        elif self.from_start:
            found = self.new + line[len(self.old) :] if line.startswith(self.old) else None
        else:
            before, is_there, behind = line.partition(self.old)
            if not is_there:
                return None
            found = {"both": before + self.new + behind, "before": before + self.new, "behind": self.new + behind}[
                self.keeps
            ]
        return found if found != line else None


class WrittenLines(Struct, frozen=True, kw_only=True):
    """The change of a file by a call. ``path``: as the call has it; '' for its only one.

    ``lines``: a sign and a text each, in order: ``+`` put there, ``-`` taken away, a blank for one that stays.
    ``is_whole``: nothing else is in the file then. ``parts``: what it changed inside of lines that it has not whole.
    """

    path: str
    lines: tuple[tuple[str, str], ...]
    is_whole: bool = False
    parts: tuple[LinePart, ...] = ()


def written_by(call: ToolCall) -> list[WrittenLines]:
    """Return the changes of files by a call, as far as its input holds the text.

    >>> from backstory.model import ToolCall
    >>> given = {"file_path": "a.py", "old_string": "x = 1\\ny = 2", "new_string": "x = 1\\ny = 3"}
    >>> written_by(ToolCall(tool_name="Edit", tool="EDIT", input=given))[0].lines
    ((' ', 'x = 1'), ('-', 'y = 2'), ('+', 'y = 3'))
    """
    given: dict[str, Any] = call.input if isinstance(call.input, dict) else {}
    found = list(_patched(given))
    if found:
        return found
    if call.tool == Tool.SHELL:
        return []
    path = call.file_path or ""
    pairs = [pair for each in _edits(given) if (pair := _edited(each)) is not None]
    if pairs:
        lines = tuple(line for old, new, _ in pairs for line in compared(lines_of(old), lines_of(new)))
        parts = tuple(part for old, new, everywhere in pairs for part in parts_of(old, new, everywhere=everywhere))
        return [WrittenLines(path=path, lines=lines, parts=parts)]
    content = next((given[key] for key in _WRITTEN if isinstance(given.get(key), str)), None)
    if call.tool != Tool.WRITE or content is None:
        return []
    return [WrittenLines(path=path, lines=tuple(("+", line) for line in lines_of(content)), is_whole=True)]


def of_path(found: Sequence[WrittenLines], path: str) -> WrittenLines | None:
    """Return the part about the file at an absolute path, by the end of that."""
    if len(found) == 1 and not found[0].path:
        return found[0]
    about = [each for each in found if path == each.path or path.endswith(f"/{posixpath.normpath(each.path)}")]
    about.sort(key=lambda each: -len(each.path))
    if not about and len(found) == 1:
        # The only file of a call that is known to have touched this one, by a path that leads there in another way.
        return found[0] if posixpath.basename(found[0].path) == posixpath.basename(path) else None
    return about[0] if about else None


def lines_of(text: str) -> list[str]:
    """The lines of a text, without their ends."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _patched(given: dict[str, Any]) -> Iterator[WrittenLines]:
    for patch in essence.patches_in(given):
        yield from (
            WrittenLines(path=path, lines=tuple(lines), is_whole=is_new) for path, lines, is_new in _files_of(patch)
        )
    yield from (WrittenLines(path=path, lines=tuple(lines)) for path, lines in essence.files_changed(given))


def _files_of(patch: str) -> Iterator[tuple[str, list[tuple[str, str]], bool]]:
    """The files of a patch under their new names, each with its lines; the last value: whether it is a new one."""
    path, lines, is_new = "", list[tuple[str, str]](), False
    for line in patch[patch.find(essence.PATCH) :].split("\n"):
        if line.startswith("*** Move to: "):
            path = line.removeprefix("*** Move to: ").strip()
        elif line.startswith("*** "):
            if path:
                yield path, lines, is_new
            verb, is_file, name = line.removeprefix("*** ").partition(" File: ")
            path, lines, is_new = name.strip() if is_file else "", [], verb == "Add"
        elif path and line[:1] in ("+", "-", " "):
            lines.append((line[0], line[1:].removesuffix("\r")))
    if path:
        yield path, lines, is_new


def _edits(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    edits = given.get("edits")
    yield from (each for each in (given, *(edits if isinstance(edits, list) else ())) if isinstance(each, dict))


def _edited(edit: dict[str, Any]) -> tuple[str, str, bool] | None:
    """The text that an edit takes away, the one it puts there, and whether it does so wherever the text stands."""
    old, new = (essence.first_text(edit, keys) for keys in (essence.OLD_KEYS, essence.NEW_KEYS))
    everywhere = any(edit.get(key) is True for key in _EVERYWHERE)
    return (old, new, everywhere) if old or new else None


def parts_of(old: str, new: str, *, everywhere: bool = False) -> Iterator[LinePart]:
    """Yield the changes that a replacement of texts may make inside lines: their start and end.

    >>> [part.applied("x = one + 1") for part in parts_of("one", "two")]
    ['x = two + 1']
    """
    if not old:
        return
    is_to_end = old.endswith("\n") and new.endswith("\n")
    olds, news = lines_of(old), lines_of(new) or [""]
    is_one, becomes_one = len(olds) == 1, len(news) == 1
    if is_one and olds[0]:
        keeps: Literal["both", "before"] = "both" if becomes_one else "before"
        is_all = everywhere and becomes_one and not is_to_end
        yield LinePart(old=olds[0], new=news[0], reaches_end=is_to_end, keeps=keeps, everywhere=is_all)
        if not becomes_one and not is_to_end:
            yield LinePart(old=olds[0], new=news[-1], keeps="behind")
    elif not is_one:
        if olds[0] and olds[0] != news[0]:
            yield LinePart(old=olds[0], new=news[0], reaches_end=True)
        if olds[-1] and olds[-1] != news[-1] and not is_to_end:
            yield LinePart(old=olds[-1], new=news[-1], from_start=True)


def compared(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """Two texts as one, line by line, each with its sign."""
    if len(old) * len(new) > COMPARED_MAX:
        yield from (("-", line) for line in old)
        yield from (("+", line) for line in new)
        return
    from difflib import SequenceMatcher

    for how, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if how == "equal":
            yield from ((" ", line) for line in new[c:d])
        else:
            yield from (("-", line) for line in old[a:b])
            yield from (("+", line) for line in new[c:d])


# whole lines ----------------------------------------------------------------------------------------------------------
# Whole lines of edits that have only a part of a line: which lines the part can have been in. Pure.


RESULTS_MAX = 200
"""A part that fits more lines than this says nothing of any of them."""


class Gone(NamedTuple):
    """Lines that a commit took away, and until when an edit may have changed them, in ms since 1970."""

    until: int
    texts: frozenset[str]


def completed(
    edits: Sequence[tuple[int, WrittenLines]], gone: Iterable[Gone], times: Mapping[str, int]
) -> list[list[tuple[str, str]]]:
    """Return, for each edit (its time, its texts), the whole lines that its parts changed: a sign and a text each.

    ``edits`` are in the order of their times. ``times``: how often a line stands in the file: what an edit changed
    wherever it stood, it put there as often.
    """
    gone = list(gone)
    known: set[str] = set()
    found = []
    for at, written in edits:
        lines: list[tuple[str, str]] = []
        for part in written.parts:
            texts = known.union(*(each.texts for each in gone if each.until > at))
            for old, new in _changed(part, texts):
                count = times.get(new.rstrip(), 1) if part.everywhere else 1
                lines += [("-", old), ("+", new)] * count
        if written.is_whole:
            known.clear()
        known.difference_update(text for sign, text in (*written.lines, *lines) if sign == "-")
        known.update(text for sign, text in (*written.lines, *lines) if sign == "+")
        found.append(lines)
    return found


def _changed(part: LinePart, texts: Iterable[str]) -> list[tuple[str, str]]:
    """The lines that a part may have been in, each with what became of it."""
    results = ((text, part.applied(text)) for text in texts)
    pairs = [(text, result) for text, result in results if result is not None and result != part.new]
    return sorted(pairs) if len(pairs) <= RESULTS_MAX else []


# made by tools --------------------------------------------------------------------------------------------------------
# Lines that nobody wrote: of generated files and of lists of versions, and the lines of a new version. Pure.


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
