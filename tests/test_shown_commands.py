"""Every command that backstory prints, or that a document shows, runs as it is shown, and none asks for a network."""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from backstory.cli import cli
from backstory.cli.commands.help_command import EXAMPLES, examples
from tests.support.shown_commands import SESSION, Shown, command_of, commands, in_documents, in_help, in_source, leaves
from tests.support.typing_commands import Typed, has_namespaces, type_all

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST = (("rename", "--trust", SESSION, "talk"), ("ingest",))
OTHERS = (
    ("report", "cost-tips"), ("report", "reindex"), ("steer", "words"), ("followup", "words", "--no-run"),
    ("queue", "edit", "1"), ("branch", "name", "@1", "main"), ("branch", "prune"), ("project", "moves"),
    ("scan",), ("branches",), ("config", "get", "run.agent"), ("merge", "nowhere"), ("mcp",),
    ("run", "-n", "-a", "claude", "hello"),
)  # fmt: skip
"""The commands that nothing shows with its words, and a run whose agent is there."""
LATE = [(each,) for each in ("branch", "config", "migrate-home", "optimize", "rm")]
"""First words of commands behind which another finds less."""

Words = tuple[str, ...]


def by_words(shown: Iterable[Shown]) -> dict[Words, Shown]:
    return {tuple(each.words): each for each in shown if not each.is_name}


@cache
def in_messages() -> list[Shown]:
    return [*in_source(), *in_help()]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> dict[Words, Typed]:
    """Every command, as it was typed on a machine of its own."""
    shown = by_words(chain(in_messages(), in_documents()))
    assert [each for words, each in shown.items() if "{" in "".join(words)] == [], "OPEN has no value for these"
    wanted = sorted({*shown, *OTHERS}, key=lambda words: (words[:1] in LATE or words[1:2] == ("rm",), words))
    done = type_all([*FIRST, *wanted], tmp_path_factory.mktemp("machine") / "home")
    return {tuple(each.words): each for each in done}


def refused(typed: dict[Words, Typed], shown: Iterable[Shown]) -> dict[str, tuple[str, str]]:
    """Return those of these commands that cannot be typed, with where they are shown and why."""
    found = by_words(shown)
    assert len(found) > 50
    return {each.typed: (each.where, why) for words, each in found.items() if (why := typed[words].refusal) is not None}


def test_what_errors_messages_and_help_say_to_do_next_can_be_typed(typed: dict[Words, Typed]) -> None:
    assert refused(typed, in_messages()) == {}


def test_the_commands_in_documents_can_be_typed(typed: dict[Words, Typed]) -> None:
    assert refused(typed, in_documents()) == {}


def test_no_command_asks_for_a_network(typed: dict[Words, Typed]) -> None:
    assert leaves() - {command_of(words) for words, each in typed.items() if each.refusal is None} == set()
    asked = {words: each.asked for words, each in typed.items() if each.asked}
    served = [each for words in [*asked] if words[0] in ("web", "serve") for each in asked.pop(words)]
    logins = [each for words in [*asked] if words[0] == "login" for each in asked.pop(words)]
    assert asked == {}
    # A login asks the server that was typed.
    typed_servers = ("socket.getaddrinfo(443, ", "socket.getaddrinfo(9, ", "socket.connect(('127.0.0.1', 9)")
    assert [each for each in logins if not each.startswith(typed_servers)] == []
    # Pages are at this machine alone, and ask for nothing.
    assert {each for each in served if not each.startswith("socket.bind(('127.0.0.1', ")} == set()
    if not has_namespaces():
        pytest.skip("NOT TESTED without a network: no namespace may be made here. No command asked Python for one.")


def test_the_help_of_every_command_ends_with_two_examples_of_it() -> None:
    shown = {name: examples(name) for name, _ in commands() if name}
    assert {name: found for name, found in shown.items() if len(found) != 2} == {}
    assert len(EXAMPLES.splitlines()) == len({each for found in shown.values() for each in found})
    for words in (("tree",), ("chronicle", "tips"), ("queue", "add")):
        last = CliRunner().invoke(cli, [*words, "--help"]).output.splitlines()[-3:]
        name = " ".join(words).replace("chronicle", "report")
        assert last == ["Examples:", *(f"  backstory {each}" for each in shown[name])]
