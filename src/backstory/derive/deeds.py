"""What a tool call does that a person would report: an edit, a commit, a pull request, a run of tests. Pure.

Only what a command's words surely say counts. Where a script of several commands fails, nobody says which of them did:
a commit is then known by what git prints for it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.derive import shell_parse
from backstory.lazy_regex import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.model import ToolCall


class DeedKind(StrEnum):
    """What was done."""

    EDIT = "edit"
    COMMIT = "commit"
    PULL_REQUEST = "pull request"
    TEST = "test"
    BUILD = "build"


CHECKS = (DeedKind.TEST, DeedKind.BUILD)
"""What succeeds or fails."""


class Deed(Struct, frozen=True, kw_only=True):
    """One thing done. ``text``: the command's words, or the path of a file."""

    kind: DeedKind
    text: str


_TESTERS = frozenset(
    {"pytest", "unittest", "py.test", "tox", "nox", "jest", "vitest", "mocha", "rspec", "phpunit", "ctest", "ava"}
)
_COMPILERS = frozenset({"tsc", "xcodebuild", "webpack", "msbuild"})
_RUNNERS = frozenset({"npx", "bunx", "uvx", "poetry", "uv", "pdm", "hatch", "pipenv", "bundle", "rye"})
"""Programs that run another one, behind the word ``run`` or ``exec`` or without it."""
_VERBS: dict[str, dict[str, DeedKind]] = {
    "go": {"test": DeedKind.TEST, "build": DeedKind.BUILD},
    "cargo": {"test": DeedKind.TEST, "nextest": DeedKind.TEST, "build": DeedKind.BUILD, "check": DeedKind.BUILD},
    "swift": {"test": DeedKind.TEST, "build": DeedKind.BUILD},
    "dotnet": {"test": DeedKind.TEST, "build": DeedKind.BUILD},
    "mix": {"test": DeedKind.TEST, "compile": DeedKind.BUILD},
    "deno": {"test": DeedKind.TEST, "check": DeedKind.BUILD},
    "mvn": {"test": DeedKind.TEST, "verify": DeedKind.TEST, "package": DeedKind.BUILD, "compile": DeedKind.BUILD},
    "gradle": {"test": DeedKind.TEST, "check": DeedKind.TEST, "build": DeedKind.BUILD, "assemble": DeedKind.BUILD},
    "docker": {"build": DeedKind.BUILD},
    "make": {"test": DeedKind.TEST, "tests": DeedKind.TEST, "check": DeedKind.TEST,
             "build": DeedKind.BUILD, "all": DeedKind.BUILD},
}  # fmt: skip
_FIRST_WORD = frozenset({"go", "cargo", "swift", "dotnet", "mix", "deno", "docker"})
"""Of these only the first word is what is done; what follows may be any name. The others take several goals."""
ASKING = frozenset({"--help", "-h", "--version", "--dry-run", "--collect-only", "-list"})
"""With one of these a program only says something."""
_COMMITTING = frozenset({"commit", "cherry-pick", "revert", "merge"})
_VERBS |= {"gradlew": _VERBS["gradle"], "mvnw": _VERBS["mvn"], "just": _VERBS["make"], "mise": _VERBS["make"]}
_SCRIPT_RUNNERS = frozenset({"npm", "yarn", "pnpm", "bun"})
_SCRIPTS = {
    "test": DeedKind.TEST, "t": DeedKind.TEST, "build": DeedKind.BUILD, "compile": DeedKind.BUILD,
}  # fmt: skip


def commands_of(call: ToolCall) -> list[Deed]:
    """What the shell command of a call does, in order; nothing of another tool.

    >>> from backstory.model import ToolCall
    >>> commands_of(ToolCall(tool_name="Bash", tool="SHELL", input={"command": "cd x && uv run pytest -q"}))
    [Deed(kind=<DeedKind.TEST: 'test'>, text='uv run pytest -q')]
    """
    given: dict[str, Any] = call.input if isinstance(call.input, dict) else {}
    script = shell_parse.script_of(given)
    if script is None or not shell_parse.is_shell(call.tool_name, call.tool):
        return []
    found = []
    for simple in shell_parse.simple_commands(script):
        kind = kind_of(simple.words)
        if kind is not None:
            found.append(Deed(kind=kind, text=" ".join(word or "…" for word in simple.words)))
    return found


_FAILURES = lazy_regex(
    r"(?<![\d.,])[1-9][\d,]* (?:tests? |specs? |checks? )?(?:failed|failing|failures?|errors?)\b"
    r"|\b(?:failures|errors)=[1-9]|^(?:--- )?FAIL\b|^FAILED\b|^BUILD FAILED|\*\* BUILD FAILED|^panic:|^make: \*\*\*"
    r"|^npm ERR!|\berror(?: TS\d+|\[E\d+\]):|^\S+:\d+:\d+: error:|^error: (?:could not compile|aborting)",
    re.MULTILINE,
)
_COMMITTED = lazy_regex(r"^\[\S+(?: \([^)]*\))? [0-9a-f]{7,40}\] ", re.MULTILINE)
"""What git prints for a commit."""
TAIL_CHARS = 4_000
"""So much of the end of an output is looked at for its verdict."""


def succeeded(kind: DeedKind, is_error: bool | None, output: str | None) -> bool | None:
    """Whether something that a script did went well; None where nobody knows.

    A pipe such as ``pytest | tail`` hides how the program ended, so that its last words count, too. A script fails by
    any of its commands: a commit was made if git says so.

    >>> [succeeded(DeedKind.TEST, False, each) for each in ("2 failed, 30 passed", "30 passed, 0 failed")]
    [False, True]
    >>> succeeded(DeedKind.COMMIT, True, "[main 1a2b3c4] Fix it\\nfatal: no remote")
    True
    """
    if kind == DeedKind.COMMIT and is_error and output is not None and _COMMITTED.search(output):
        return True
    if is_error:
        return False
    if kind in CHECKS and output is not None and _FAILURES.search(output, max(0, len(output) - TAIL_CHARS)):
        return False
    return None if is_error is None else True


def kind_of(words: Sequence[str | None]) -> DeedKind | None:
    """What a simple command does; None if nothing that a person would report."""
    program, *rest = run_by(words) or [None]
    if program is None:
        return None
    name = program.rpartition("/")[2]
    plain = list(_plain(rest))
    if not ASKING.isdisjoint(rest):
        return None
    match name:
        case "git":
            return DeedKind.COMMIT if _commits(rest) else None
        case "gh":
            return DeedKind.PULL_REQUEST if plain[:2] == ["pr", "create"] else None
        case "glab":
            return DeedKind.PULL_REQUEST if plain[:2] == ["mr", "create"] else None
        case "cmake":
            return DeedKind.BUILD if "--build" in rest else None
    if name in _TESTERS:
        return DeedKind.TEST
    if name in _COMPILERS:
        return DeedKind.TEST if "test" in plain else DeedKind.BUILD
    if name in _SCRIPT_RUNNERS:
        return _script(plain)
    verbs = _VERBS.get(name)
    if verbs is None:
        return None
    if name == "make" and not plain:
        return DeedKind.BUILD
    goals = plain[:1] if name in _FIRST_WORD else plain
    return next((verbs[word] for word in goals if word in verbs), None)


def _commits(words: list[str | None]) -> bool:
    _, verb, rest = shell_parse.git_words(words)
    return verb in _COMMITTING and {"--abort", "--quit", "-n", "--no-commit"}.isdisjoint(
        rest if verb != "commit" else ()
    )


def run_by(words: Sequence[str | None]) -> list[str | None]:
    """The words of the program that really runs: behind ``uv run``, ``python -m`` or ``npx``."""
    left = list(words)
    while left and left[0] is not None:
        name = left[0].rpartition("/")[2]
        if name.startswith("python") and left[1:2] == ["-m"]:
            left = left[2:]
        elif name in _RUNNERS:
            left = _behind(left[1:])
        elif name == "timeout":
            left = _behind(left[1:])[1:]
        else:
            break
    return left


def _behind(words: list[str | None]) -> list[str | None]:
    """The words behind options and the word ``run`` or ``exec``."""
    while words and (words[0] in ("run", "exec") or (words[0] or "").startswith("-")):
        words = words[1:]
    return words


def _plain(words: Sequence[str | None]) -> Iterator[str]:
    return (word for word in words if word is not None and not word.startswith("-"))


def _script(plain: list[str]) -> DeedKind | None:
    """What a script of a package does, by its name: ``test``, ``test:unit``, ``run build``."""
    names = plain[1:] if plain[:1] == ["run"] else plain
    first = names[0] if names else ""
    name = re.split("[:-]", first, maxsplit=1)[0]
    return _SCRIPTS.get(name)
