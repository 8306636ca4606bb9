"""One answer of an agent to a prompt of ours."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from backstory.agents.bounded import stream_reader
from backstory.errors import TemporaryFolderUnusable
from backstory.runs import answering
from backstory.runs.answering import Question, ask
from backstory.runs.process import MARKER, of_run
from tests.support.bench import Bench
from tests.support.running import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.agents.contract import Agent, Streamed, StreamReader

ANSWER: list[dict[str, Any]] = [{"say": "An answer."}, {"result": True}]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_an_agent_answers_in_a_folder_that_is_gone_behind_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    (bench.root / "temporary").mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", str(bench.root / "temporary"))
    answer = ask(Question(agent="claude", prompt="lone \ud800 surrogate"), bench.environ(ANSWER))
    assert (answer.text, answer.error) == ("An answer.", None)
    assert not list((bench.root / "temporary").iterdir())


def write_agent_that_makes(bench: Bench, *paths: str) -> Path:
    """Let the agent make folders and files, as its client does, in its own folder of what it is started in."""
    own = '"$HOME/.claude/projects/$(pwd -P | sed s/[^A-Za-z0-9]/-/g)"'
    made = [f"mkdir -p {own}/memory", *(f"touch {own}/{each}" for each in paths)]
    program = bench.bin / "claude"
    program.write_text("\n".join(["#!/bin/sh", *made, *program.read_text().splitlines()[1:], ""]))
    (others := bench.root / ".claude" / "projects" / "-another").mkdir(parents=True)
    return others.parent


def test_no_folder_of_an_answer_stays_among_those_of_its_agent(bench: Bench) -> None:
    projects = write_agent_that_makes(bench)
    assert ask(Question(agent="claude", prompt="Hello"), bench.environ(ANSWER)).error is None
    assert [each.name for each in projects.iterdir()] == ["-another"]


def test_what_an_agent_wrote_into_its_own_folder_stays(bench: Bench) -> None:
    projects = write_agent_that_makes(bench, "memory/MEMORY.md")
    ask(Question(agent="claude", prompt="Hello"), bench.environ(ANSWER))
    (kept,) = projects.glob("*-work/memory/*")
    assert kept.name == "MEMORY.md"


def test_the_folders_of_an_answer_that_was_given_up_are_removed_too(bench: Bench) -> None:
    projects = write_agent_that_makes(bench)
    script = bench.environ([{"touch": str(bench.root / "begun")}, {"wait_for": str(bench.root / "never")}])
    assert ask(Question(agent="claude", prompt="Hello", timeout_s=1), script).error
    assert [each.name for each in projects.iterdir()] == ["-another"]


def test_a_temporary_folder_that_takes_nothing_is_an_error_of_ours(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(bench.root / "nowhere"))
    with pytest.raises(TemporaryFolderUnusable, match="No such file or directory"):
        ask(Question(agent="claude", prompt="Hello"), bench.environ(ANSWER))


def test_an_agent_that_writes_without_an_end_is_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "OUTPUT_BYTES_MAX", 1024**2)
    answer = ask(Question(agent="claude", prompt="Hello", timeout_s=60), bench.environ([{"endless": True}]))
    assert answer.error == "the agent wrote more than 1 MB"


def test_an_agent_that_says_nothing_is_given_up(bench: Bench) -> None:
    silent = bench.environ([{"wait_for": str(bench.root / "never")}])
    answer = ask(Question(agent="claude", prompt="Hello", timeout_s=1), silent)
    assert answer.error == "there was no answer within 1 s"


def test_what_a_killed_process_left_is_removed_and_nothing_else(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := bench.root / "temporary").mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    left, new, used = (folder / f"{answering.PREFIX}{name}" for name in ("left", "new", "used"))
    other = folder / "of another program"
    for each in (left, new, other, used):
        each.mkdir()
        (each / "prompt").write_text("history")
    (folder / "backstory-answer-link").symlink_to(other)
    for each in (left, other, used):
        os.utime(each, (1, 1))
    agent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={MARKER: used.name})
    try:
        until(lambda: of_run(used.name))
        ask(Question(agent="claude", prompt="Hello"), bench.environ(ANSWER))
    finally:
        agent.communicate(b"\n")
    assert {each.name for each in folder.iterdir()} == {new.name, other.name, used.name, "backstory-answer-link"}


def test_a_record_that_its_adapter_fails_at_does_not_lose_the_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []

    def failing_once(agent: Agent) -> StreamReader:
        reader = stream_reader(agent)

        def read(line: bytes, real: Callable[[bytes], Streamed] = reader.read) -> Streamed:
            seen.append(line)
            if len(seen) == 1:
                raise KeyError("of an adapter")
            return real(line)

        monkeypatch.setattr(reader, "read", read)
        return reader

    monkeypatch.setattr(answering, "stream_reader", failing_once)
    answer = ask(Question(agent="claude", prompt="Hello"), bench.environ([{"say": "Well."}, *ANSWER]))
    assert (answer.error, len(seen) > 1) == (None, True)
    assert answer.text.endswith("An answer.")
