"""Compares two errors, or two commands, without the parts that differ each time. Pure.

Paths are their last part, and numbers, hashes, times and places in files are all alike. So the same error is known
again in another folder, on another day.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

LINES_LOOKED_AT = 400
"""The lines of a long output that are compared, at its beginning and again at its end."""
LINE_CHARS_MAX = 500
TEXT_CHARS_MAX = 4_000_000
KEY_LINES_MAX = 6
SAME_SHARE = 0.6
"""Two commands are the same if they share so many of their words."""
COMMON_WEIGHT = 0.25
"""The weight of a word that is in most errors; any other weighs 1."""

_TELLS = lazy_regex(
    r"\b(?:errors?|fail(?:ed|ure|s|ing)?|exceptions?|panic|traceback|cannot|can't|could ?n.t|unable|undefined|"
    r"not found|no such|denied|refused|invalid|unexpected|unknown|missing|timed? ?out|conflict|fatal|abort(?:ed|ing)?|"
    r"unresolved|undeclared|mismatch|violat\w+|rejected|not (?:a|an|allowed|permitted|defined|installed|supported))\b|"
    r"\b\w{1,80}(?:Error|Exception)\b|--- FAIL|^E\s{2,}",
    re.IGNORECASE,
)
_TOLD_BY_LINE = lazy_regex(
    r"^[ \t]*(?:--- FAIL|FAIL\b|FAILED\b|error(?:\[\w+\])?:|Error:|ERROR\b|fatal:|panic:|Traceback \(|E\s{3}|npm ERR!|"
    r"✗|✖|×|\w*(?:Error|Exception):)|\bcommand not found\b|^make: \*\*\*|"
    r"\b[1-9]\d* (?:failed|errors?|issues?|problems?)\b",
    re.MULTILINE,
)
_PATH = lazy_regex(r"(?<![\w.-])(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@+-]+)+/?|(?<![\w.@+-])(?:[\w.@+-]+/)+[\w.@+-]+")
_PLACE = lazy_regex(r"(?<=[\w)\]]):\d+(?::\d+)?|\(\d+,\s*\d+\)|\bline \d+")
_HASH = lazy_regex(
    r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
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
_NAMED_TASK = lazy_regex(r"[a-z][a-z:_-]*")
_RUNNING = frozenset({"run", "exec", "x", "pr", "issue", "compose"})
_LOOKING = frozenset({
    "file", "find", "git branch", "git diff", "git fetch", "git log", "git rev-parse", "git show", "git status", "grep",
    "head", "jq", "rg", "sed", "stat", "tail", "tree", "wc", "which",
})  # fmt: skip
_PASSING = frozenset({"cd", "echo", "export", "source", "set", "sleep", "pwd", "ls", "cat", "true", ":"})
"""Commands that only stand beside the one that matters."""
_FILTERS = frozenset(
    {"tail", "head", "grep", "egrep", "rg", "sed", "awk", "tee", "less", "sort", "uniq", "wc", "cut", "cat"}
)
"""Programs that only shorten the output of the command before them."""


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
    """The lines of a text that say what went wrong, the first of them; of a short text all, where none does the first.

    >>> key_lines("x.go:1: unused\\n[lint] ERROR task failed")
    ['[lint] ERROR task failed', 'x.go:1: unused']
    """
    lines = [line.strip() for line in _some(text) if any(map(str.isalnum, line))]
    if len(lines) <= KEY_LINES_MAX:
        return sorted(dict.fromkeys(lines), key=lambda line: not _TELLS.search(line))
    telling = [line for line in lines if _TELLS.search(line)]
    return list(dict.fromkeys(telling or lines[:2]))[:KEY_LINES_MAX]


def says_why(line: str) -> bool:
    """Return True if a line of a check's output says what is wrong: no tally, and no package that failed or passed.

    >>> [says_why(each) for each in ("x.go:1: unused", "--- FAIL: TestX", "* typecheck: 2", "FAIL\\tx/y", "ok x")]
    [True, True, False, False, False]
    """
    return not line.startswith(("ok ", "ok\t", "FAIL\t")) and bool(_TELLS.search(line) or _PLACE.search(line))


class Alike(Struct, frozen=True):
    """The share of each of some lines that a text holds, from 0 to 1, and its line most like one of them."""

    shares: tuple[float, ...]
    line: str

    def score(self, weights: Sequence[float] = ()) -> float:
        """Return the share of all lines, from 0 to 1; one line may be enough. ``weights``: the weight of each."""
        weights = weights or [1.0] * len(self.shares)
        if not sum(weights):
            return 0.0
        said = [share * weight for share, weight in zip(self.shares, weights, strict=True)]
        return (max(said) / max(weights) + sum(said) / sum(weights)) / 2


def alike(asked: Sequence[frozenset[str]], text: str) -> Alike:
    """Return the share of some lines, each given by its words, that a text holds."""
    best = [0.0] * len(asked)
    at, most = "", 0.0
    for line in _some(text):
        found = words(line)
        for n, each in enumerate(asked):
            if found and (share := _share(each, found)) > best[n]:
                best[n] = share
                if share > most:
                    at, most = line.strip(), share
    return Alike(tuple(best), at)


def says_failure(text: str) -> bool:
    """Return True if an output says that something failed, whatever the exit code is: a pipe hides that."""
    return bool(_TOLD_BY_LINE.search("\n".join(_some(text))))


class CommandWords(Struct, frozen=True):
    """The subject of a command. ``parts``: its programs, each with its words; ``words``: all its words."""

    parts: frozenset[str]
    words: frozenset[str]


def command_words(command: str) -> CommandWords:
    """Return the subject of a command: without the folder it goes to, and without filters of its output.

    >>> found = command_words("cd /w/x && GOFLAGS=-v go test ./cmd/... 2>&1 | tail -20")
    >>> sorted(found.parts), sorted(found.words)
    (['go test'], ['cmd', 'go', 'test'])
    """
    kept = _kept_parts(command)
    found = frozenset(word for each in kept for word in _COMMAND_WORD.findall(each.lower()))
    return CommandWords(parts=frozenset(map(_told, kept)), words=found)


def same_command(one: CommandWords, other: CommandWords) -> bool:
    """Return True if another command does what one does, and perhaps more: of their words a few may differ."""
    shared = len(one.words & other.words)
    if not one.parts or not one.parts <= other.parts:
        return False
    alike = shared >= SAME_SHARE * len(one.words | other.words)
    return alike or shared == min(len(one.words), len(other.words))


def only_looks(command: str) -> bool:
    """Return True if a command only shows something, as far as its words tell."""
    return all(part in _LOOKING or part.partition(" ")[0] in _LOOKING for part in map(_told, _kept_parts(command)))


def _kept_parts(command: str) -> list[str]:
    kept = list[str]()
    for segment in _SEGMENT.split(command[: LINE_CHARS_MAX * 4]):
        first, *piped = _REDIRECTION.sub("", segment).split("|")
        parts = [first, *(each for each in piped if _program(each) not in _FILTERS)]
        kept += [_ASSIGNED.sub("", each.strip()) for each in parts if _program(each) not in _PASSING]
    return [each for each in kept if each]


def _told(part: str) -> str:
    """A program with what it is told to do: ``git merge``, ``npm run build``."""
    words = [word for word in part.split() if not word.startswith("-")][:3]
    if not words:
        return ""
    program = words[0].rpartition("/")[2]
    count = 1 if len(words) > 1 and _NAMED_TASK.fullmatch(words[1]) else 0
    if len(words) > 1 and words[1] in _RUNNING:
        count = 2
    return " ".join([program, *words[1 : 1 + count]])


def rare_words(line: str, most: int, but: Collection[str] = ()) -> list[str]:
    """The words of a line that say most, to look for it by; ``but``: none of these."""
    found = dict.fromkeys(_WORD.findall(normal(line)))
    return sorted((each for each in found if each not in _COMMON and each not in but), key=len, reverse=True)[:most]


def _program(segment: str) -> str:
    found = _ASSIGNED.sub("", segment.strip()).split(maxsplit=1)
    return found[0].rpartition("/")[2] if found else ""


def _share(asked: frozenset[str], found: frozenset[str]) -> float:
    whole = _weight(asked)
    return _weight(asked & found) / max(whole, _weight(found) / 3) if whole else 0.0


def _weight(some: Iterable[str]) -> float:
    return sum(COMMON_WEIGHT if len(each) == 1 or each in _COMMON else 1.0 for each in some)


def _some(text: str) -> list[str]:
    lines = text.splitlines() if len(text) < TEXT_CHARS_MAX else text[:TEXT_CHARS_MAX].splitlines()
    some = lines if len(lines) <= 2 * LINES_LOOKED_AT else lines[:LINES_LOOKED_AT] + lines[-LINES_LOOKED_AT:]
    return [line[:LINE_CHARS_MAX] for line in some]
