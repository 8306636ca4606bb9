"""Every command that backstory prints, or that a document shows, runs as it is shown."""

from __future__ import annotations

import os
import shutil
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from backstory.cli import cli
from backstory.errors import BackstoryError
from backstory.model import AssistantText, UserMessage
from backstory.store import open_store
from tests.support.machines import case, place
from tests.support.shown_commands import Shown, in_documents, in_help, in_source

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDLESS = {"--watch", "--follow"}
LATE = ("branch", "config", "migrate-home", "optimize", "rm")
"""Commands behind which another finds less."""


class Machine:
    """A home with a project of two sessions, and a log; no agent. Its commands run in this process."""

    def __init__(self, home: Path) -> None:
        log, (git,) = home / place("claude/tools"), filter(None, [shutil.which("git")])
        for folder in (log.parent, home / "bin", home / "work"):
            folder.mkdir(parents=True)
        log.write_bytes(case("claude/tools"))
        (home / "bin" / "git").symlink_to(git)
        self.work, self.environ = home / "work", {
            "HOME": str(home), "BACKSTORY_HOME": str(home / "backstory"), "PATH": str(home / "bin"), "EDITOR": "true",
        }  # fmt: skip
        with open_store(self.work / ".backstory" / "sessions.bks") as store:
            for title in ("Fix the build", "Go on"):
                store.append_events(
                    store.create_session(title), [UserMessage(content=title), AssistantText(text="Yes")]
                )

    def __call__(self, *words: str) -> Refusal:
        """Run a command and return what is wrong with how it was typed, if anything."""
        with Path(os.devnull).open("rb") as nothing:
            done = CliRunner(env=self.environ).invoke(cli, words, input=nothing)
        if done.exception is None or isinstance(done.exception, BackstoryError | SystemExit):
            return done.output.strip().rpartition("\n")[2] if done.exit_code == click.UsageError.exit_code else None
        raise done.exception


Refusal = str | None


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(machine.work)
        assert machine("rename", "--trust", "S1", "talk") is None
        assert machine("ingest") is None
    return machine


@pytest.fixture
def machine(ready: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.chdir(ready.work)
    return ready


def refused(machine: Machine, shown: Iterator[Shown]) -> dict[str, tuple[str, Refusal]]:
    """Run each of these commands that is more than a name; returns those that cannot be typed, with where and why."""
    by_words = {tuple(each.words): each for each in shown if not each.is_name}
    assert len(by_words) > 50
    assert [each for words, each in by_words.items() if "{" in "".join(words)] == [], "OPEN has no value for these"
    finite = [words for words in by_words if not ENDLESS & {*words}]
    said = {words: machine(*words) for words in sorted(finite, key=lambda words: (words[0] in LATE, words))}
    return {by_words[words].typed: (by_words[words].where, why) for words, why in said.items() if why is not None}


def test_what_errors_messages_and_help_say_to_do_next_can_be_typed(machine: Machine) -> None:
    assert refused(machine, chain(in_source(), in_help())) == {}


def test_the_commands_in_documents_can_be_typed(machine: Machine) -> None:
    assert refused(machine, in_documents()) == {}
