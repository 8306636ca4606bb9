"""Errors as data: what to do next is a command that exists, and no message spells one by hand."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click

from backstory import errors
from backstory.cli import cli
from backstory.errors import BackstoryError, Next

SOURCE = ast.parse(Path(errors.__file__).read_text())
BY_HAND = re.compile(r"(?:`|: |^)backstory ([a-z-]+)")
NAMED_ONLY = {"mcp"}
"""Commands that a message speaks of, and that nobody is to run next."""
WITH_HOME = "HomeHasStore"
"""The one error whose command is for another home, which the shell sets before it."""


def test_no_message_spells_a_command_by_hand() -> None:
    by_hand = {
        (outer.name, found)
        for outer in SOURCE.body
        if isinstance(outer, ast.ClassDef) and outer.name not in {"Next", WITH_HOME}
        for node in ast.walk(outer)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for found in BY_HAND.findall(node.value)
        if found in cli.list_commands(click.Context(cli)) and found not in NAMED_ONLY
    }
    assert by_hand == set()


def test_a_command_is_typed_as_a_shell_reads_it() -> None:
    copy = Next("restore", "SESSION", to=Path("/a folder"), all=True)
    assert str(copy) == "backstory restore --to '/a folder' --all SESSION"
    assert str(Next("run", '"…"', S="01ab")) == 'backstory run -S 01ab "…"'


def test_a_face_shows_what_to_do_next_in_its_own_words() -> None:
    refused = BackstoryError("Nothing here. Try: ", Next("list", all=True))
    assert str(refused) == "Nothing here. Try: backstory list --all"
    assert refused.message(lambda command: f"<{command.command}>") == "Nothing here. Try: <list>"
