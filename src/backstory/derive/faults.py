"""Finds why a command could not work, whatever the code is like: no such program, option, task or module. Pure.

What a tool returned only decides which of these it was: every word of a fault stands in the command itself.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.derive import shell_parse
from backstory.derive.checks import head_of
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.derive.shell_parse import Simple

READ_CHARS = 4_000
"""The most of the beginning and of the end of an output that is read."""


class FaultKind(StrEnum):
    """The kinds of missing things."""

    PROGRAM = "no such program"
    OPTION = "no such option"
    TASK = "no such task"
    MODULE = "a module is missing"


class Fault(Struct, frozen=True, kw_only=True):
    """A command that cannot work so. ``head``: how it begins; ``word``: the word of it that is wrong, '' for none."""

    kind: FaultKind
    head: str
    word: str = ""


_SHAPES = {
    FaultKind.OPTION: lazy_regex(
        r"(?:unknown|unrecogni[sz]ed|invalid|illegal|no such|unexpected) (?:shorthand )?"
        r"(?:flag|option|argument|switch)s?\b[^\n-]{0,20}(-{1,2}[A-Za-z][\w-]*)",
        re.IGNORECASE,
    ),
    FaultKind.TASK: lazy_regex(
        r"\b(?:no tasks? (?:named |matching )?|missing script: |no rule to make target |unknown (?:sub)?command )"
        r"[\"'`]?([\w][\w:./-]*)",
        re.IGNORECASE,
    ),
    FaultKind.PROGRAM: lazy_regex(r"command not found: ([\w./+-]+)|(\w[\w./+-]*): (?:command )?not found\b(?!:)"),
    FaultKind.MODULE: lazy_regex(r"\bNo module named [\"']?([\w.]+)"),
}
NO_PATH = lazy_regex(r"does not exist|no such file or directory|ENOENT|cannot find the (?:file|path)", re.IGNORECASE)


def fault_in(script: str, output: str) -> Fault | None:
    """Return the reason why a failed script could not work; None if it is unknown, or was something else.

    >>> fault_in("gh pr diff 88 --stat", "unknown flag: --stat")
    Fault(kind=<FaultKind.OPTION: 'no such option'>, head='gh pr diff', word='--stat')
    >>> fault_in("gh pr diff 88", "unknown flag: --stat") is None
    True
    """
    head, tail = output[:READ_CHARS], output[READ_CHARS:][-READ_CHARS:]
    commands = [each for each in shell_parse.simple_commands(script) if each.words and each.words[0]]
    for kind, shape in _SHAPES.items():
        for found in (*shape.finditer(head), *shape.finditer(tail)):
            named = next((group for group in found.groups() if group), "")
            for fault in _named(kind, named, commands):
                return fault
    return None


def _named(kind: FaultKind, named: str, commands: list[Simple]) -> Iterator[Fault]:
    """The fault, if a command of the script has the word that the output names."""
    for each in commands:
        head = head_of(each.words)
        if kind == FaultKind.PROGRAM and each.words[0] == named:
            yield Fault(kind=kind, head=named, word=named)
        elif kind == FaultKind.MODULE and _runs_python(each):
            # Which module it is, only the output says; a module that the command names is the program that it runs.
            yield Fault(kind=kind, head=head, word=named if named in each.words else "")
        elif (kind == FaultKind.OPTION and named in (_option(word) for word in each.words)) or (
            kind == FaultKind.TASK and named in each.words[1:]
        ):
            yield Fault(kind=kind, head=head, word=named)


def _option(word: str | None) -> str:
    return (word or "").partition("=")[0]


def _runs_python(command: Simple) -> bool:
    """Return True if a command is a program of Python, run without what a project's environment is run by."""
    name = (command.words[0] or "").rpartition("/")[2]
    return name.startswith("python") or name in ("pytest", "mypy", "pylint", "tox", "nox")
