"""Recognises commands that check work: tests, builds, linters; and the first words of such a command. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.derive import deeds, shell_parse
from backstory.derive.check_programs import ASKING, DeedKind
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class CheckKind(StrEnum):
    """The kinds of checks. The value stands in sentences."""

    TEST = "tests"
    BUILD = "builds"
    LINT = "the linter"


class Check(Struct, frozen=True, kw_only=True):
    """A command that checks work. ``head``: how it begins: programs and verbs; ``text``: all of its words."""

    kind: CheckKind
    head: str
    text: str


_LINTERS = frozenset(
    {"golangci-lint", "eslint", "ruff", "flake8", "mypy", "pyright", "pylint", "shellcheck", "rubocop", "biome",
     "stylelint", "ktlint", "swiftlint", "hadolint", "yamllint", "markdownlint", "clippy-driver", "pre-commit"}
)  # fmt: skip
_RUNNERS = frozenset({"make", "just", "mise", "npm", "yarn", "pnpm", "bun", "task", "rake", "tox", "nox", "hatch"})
"""Programs that run what a file of the repository names."""
_GOALS_OF = {
    **dict.fromkeys(("lint", "linter", "typecheck", "type-check", "check-types", "vet", "clippy"), CheckKind.LINT),
    "test": CheckKind.TEST, "tests": CheckKind.TEST, "build": CheckKind.BUILD,
}  # fmt: skip
"""The purpose of a task by its name before a colon: ``test:ci`` runs tests."""
_VERBS = {"cargo": {"clippy"}, "go": {"vet"}, "deno": {"lint"}, "dotnet": {"format"}}
_KINDS = {DeedKind.TEST: CheckKind.TEST, DeedKind.BUILD: CheckKind.BUILD}
_VERB = lazy_regex(r"[A-Za-z][\w:.-]*")
_FILE = lazy_regex(r"\.\w{1,4}$")
HEAD_WORDS_MAX = 4
GIT_WORDS = 2
"""The verbs kept of a git command; the word behind them is mostly a commit or a branch."""
_GOALS = 2
"""The number of words behind a program that may tell its action."""


def checks_in(script: str) -> list[Check]:
    """The checks that a script surely runs, in order.

    >>> [(each.kind.name, each.head) for each in checks_in("cd x && mise run lint 2>&1 | tail; uv run pytest -q a.py")]
    [('LINT', 'mise run lint'), ('TEST', 'uv run pytest')]
    """
    return [found for each in shell_parse.simple_commands(script) if (found := check_of(each.words)) is not None]


def check_of(words: Sequence[str | None]) -> Check | None:
    """Return the check that a simple command makes; None if it makes none, or asks only for help."""
    kind = _kind(words)
    if kind is None:
        return None
    return Check(kind=kind, head=head_of(words), text=" ".join(word or "…" for word in words))


def head_of(words: Sequence[str | None]) -> str:
    """Return the first words of a command: its program and the verbs behind it, no options, files or names of tests.

    >>> head_of(["go", "test", "-v", "./cmd/...", "-run", "TestX"]), head_of(["npm", "run", "test:unit", "--", "a.ts"])
    ('go test', 'npm run test:unit')
    """
    kept: list[str] = []
    for word in words:
        is_first = not kept
        if word is None or len(kept) == (GIT_WORDS if kept[:1] == ["git"] else HEAD_WORDS_MAX):
            break
        if not is_first and (not _VERB.fullmatch(word) or _FILE.search(word)):
            if word == "-m" and kept[-1].startswith("python"):
                kept.append(word)
                continue
            break
        kept.append(word)
    return " ".join(kept)


def _kind(words: Sequence[str | None]) -> CheckKind | None:
    deed = deeds.kind_of(words)
    if deed is not None:
        return _KINDS.get(deed)
    run = deeds.run_by(words)
    if not run or run[0] is None or not ASKING.isdisjoint(run):
        return None
    name, plain = run[0].rpartition("/")[2], list(_plain(run[1:]))
    if name in _LINTERS:
        return None if plain[:1] == ["format"] else CheckKind.LINT
    if plain and plain[0] in _VERBS.get(name, ()):
        return CheckKind.LINT
    goals = [word.partition(":")[0] for word in plain[:_GOALS]] if name in _RUNNERS else []
    return next((_GOALS_OF[goal] for goal in goals if goal in _GOALS_OF), None)


def _plain(words: Sequence[str | None]) -> Iterator[str]:
    return (word for word in words if word is not None and not word.startswith("-"))
