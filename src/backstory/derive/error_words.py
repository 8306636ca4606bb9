"""What two errors, or two commands, have in common: without what differs each time. Pure.

Paths are their last part, and numbers, hashes, times and places in files are all alike. So the same error is known
again in another folder, on another day.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.lazy_regex import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LINES_LOOKED_AT = 400
"""Of a long output so many lines at its beginning, and so many at its end, are looked at."""
LINE_CHARS_MAX = 500
KEY_LINES_MAX = 6
SAME_SHARE = 0.6
"""Two commands are the same if they share so many of their words."""
COMMON_WEIGHT = 0.25
"""What a word counts that is in most errors; any other counts 1."""

_TELLS = lazy_regex(
    r"\b(?:errors?|fail(?:ed|ure|s|ing)?|exceptions?|panic|traceback|cannot|can't|could ?n.t|unable|undefined|"
    r"not found|no such|denied|refused|invalid|unexpected|unknown|missing|timed? ?out|conflict|fatal|abort(?:ed|ing)?|"
    r"unresolved|undeclared|mismatch|violat\w+|rejected|not (?:a|an|allowed|permitted|defined|installed|supported))\b|"
    r"\w+(?:Error|Exception)\b|--- FAIL|^E\s{2,}",
    re.IGNORECASE,
)
_TOLD_BY_LINE = lazy_regex(
    r"^\s*(?:--- FAIL|FAIL\b|FAILED\b|error(?:\[\w+\])?:|Error:|ERROR\b|fatal:|panic:|Traceback \(|E\s{3}|npm ERR!|"
    r"✗|✖|×|\w*(?:Error|Exception):)|\bcommand not found\b|^make: \*\*\*|"
    r"\b[1-9]\d* (?:failed|errors?|issues?|problems?)\b",
    re.MULTILINE,
)
_PATH = lazy_regex(r"(?<![\w.-])(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@+-]+)+/?|(?:[\w.@+-]+/)+[\w.@+-]+")
_PLACE = lazy_regex(r"(?<=[\w)\]]):\d+(?::\d+)?|\(\d+,\s*\d+\)|\bline \d+")
_HASH = lazy_regex(
    r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
)
_NUMBER = lazy_regex(r"\d+(?:[.,:]\d+)*(?:ns|us|µs|ms|s|m|h|kb|mb|gb|b|%)?\b")
_WORD = lazy_regex(r"[^\W\d_][\w.@+-]*[\w+]|[^\W\d_]|#")
_SEGMENT = lazy_regex(r"\s*(?:&&|\|\||;|\n)\s*")
_REDIRECTION = lazy_regex(r"\s*(?:\d?>>?(?:&\d|\s*\S+)|&>\s*\S+|<\s*\S+)")
_ASSIGNED = lazy_regex(r"^(?:\w+=\S*\s+)+")
_COMMAND_WORD = lazy_regex(r"[a-z_@-][\w.@+-]*\w|[a-z]")
_COMMON = frozenset({
    "#", "a", "an", "and", "as", "at", "be", "build", "by", "cannot", "code", "command", "could", "error", "errors",
    "exit", "fail", "failed", "failure", "file", "for", "found", "from", "go", "in", "is", "it", "line", "no", "not",
    "of", "on", "or", "run", "running", "status", "test", "tests", "that", "the", "this", "to", "was", "with",
})  # fmt: skip
_PASSING = frozenset({"cd", "echo", "export", "source", "set", "sleep", "pwd", "ls", "cat", "true", ":"})
"""Commands that only stand beside the one that matters."""
_FILTERS = frozenset(
    {"tail", "head", "grep", "egrep", "rg", "sed", "awk", "tee", "less", "sort", "uniq", "wc", "cut", "cat"}
)
"""What only shortens the output of the command before it."""


def normal(line: str) -> str:
    """A line without what differs each time.

    >>> normal("/home/a/x/main.go:12:5: undefined: Foo (0.31s)"), normal("at 3f2a91bc: no such file '/tmp/x1/y.txt'")
    ('main.go: undefined: foo (#)', "at #: no such file 'y.txt'")
    """
    text = line[:LINE_CHARS_MAX].lower()
    text = _PLACE.sub("", _PATH.sub(lambda found: re.split(r"[/\\]", found[0].rstrip("/\\"))[-1], text))
    return " ".join(_NUMBER.sub("#", _HASH.sub("#", text)).split())


def words(line: str) -> frozenset[str]:
    """The words of a line as ``normal`` has it."""
    return frozenset(_WORD.findall(normal(line)))


def key_lines(text: str) -> list[str]:
    """The lines of a text that say what went wrong, the first of them; where none does, its first lines."""
    lines = [line.strip() for line in _some(text) if any(map(str.isalnum, line))]
    telling = [line for line in lines if _TELLS.search(line)]
    return list(dict.fromkeys(telling or lines[:2]))[:KEY_LINES_MAX]


def likeness(asked: Sequence[frozenset[str]], text: str) -> tuple[float, str]:
    """How much of some lines is in a text, from 0 to 1, and the line of it that is most like one of them."""
    best = [0.0] * len(asked)
    at, most = "", 0.0
    for line in _some(text):
        found = words(line)
        for n, each in enumerate(asked):
            if found and (share := _share(each, found)) > best[n]:
                best[n] = share
                if share > most:
                    at, most = line.strip(), share
    # What says most about an error may be one line of several.
    return (max(best) + sum(best) / len(best)) / 2 if best else 0.0, at


def says_failure(text: str) -> bool:
    """Whether an output says that something failed, whatever the exit code is: a pipe hides that."""
    return bool(_TOLD_BY_LINE.search("\n".join(_some(text))))


def command_words(command: str) -> frozenset[str]:
    """The words of what a command is about: without the folder it goes to, and without filters of its output.

    >>> sorted(command_words("cd /w/x && GOFLAGS=-v go test ./cmd/... 2>&1 | tail -20"))
    ['cmd', 'go', 'test']
    """
    kept = list[str]()
    for segment in _SEGMENT.split(command[: LINE_CHARS_MAX * 4]):
        first, *piped = _REDIRECTION.sub("", segment).split("|")
        parts = [first, *(each for each in piped if _program(each) not in _FILTERS)]
        kept += [_ASSIGNED.sub("", each.strip()) for each in parts if _program(each) not in _PASSING]
    return frozenset(word for each in kept for word in _COMMAND_WORD.findall(each.lower()))


def same_command(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two commands do the same: by their words, of which a few may differ."""
    shared = len(one & other)
    if not shared:
        return False
    return shared >= SAME_SHARE * len(one | other) or (shared > 1 and shared == min(len(one), len(other)))


def rare_words(line: str, most: int) -> list[str]:
    """The words of a line that say most, to look for it by."""
    found = dict.fromkeys(_WORD.findall(normal(line)))
    return sorted((each for each in found if each not in _COMMON), key=len, reverse=True)[:most]


def _program(segment: str) -> str:
    found = _ASSIGNED.sub("", segment.strip()).split(maxsplit=1)
    return found[0].rpartition("/")[2] if found else ""


def _share(asked: frozenset[str], found: frozenset[str]) -> float:
    whole = _weight(asked)
    return _weight(asked & found) / max(whole, _weight(found) / 3) if whole else 0.0


def _weight(some: Iterable[str]) -> float:
    return sum(COMMON_WEIGHT if each in _COMMON else 1.0 for each in some)


def _some(text: str) -> list[str]:
    lines = text[: 1 << 20].splitlines()
    return lines if len(lines) <= 2 * LINES_LOOKED_AT else lines[:LINES_LOOKED_AT] + lines[-LINES_LOOKED_AT:]
