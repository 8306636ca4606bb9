"""What a run is asked: words, what is piped in, and what is written in an editor, as people put them together."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory.store.tables.queue import Queue
from tests.support.running import DEADLINE_S, GOOD, until

if TYPE_CHECKING:
    from tests.support.bench import Bench

pytestmark = pytest.mark.slow

RUN = f'"{sys.executable}" -m backstory run -a claude'


def sh(bench: Bench, line: str, program: str = "sh", **environ: str) -> subprocess.CompletedProcess[str]:
    """A line as it is typed in a shell."""
    return subprocess.run(
        [program, "-c", line], cwd=bench.project, env=bench.environ([GOOD]) | environ, capture_output=True, text=True,
        check=False, stdin=subprocess.DEVNULL, timeout=DEADLINE_S,
    )  # fmt: skip


def prompts(bench: Bench) -> list[str]:
    return [turn.prompt for turn in bench.store.turns(1)] if bench.store.exists else []


def queued(bench: Bench) -> list[str]:
    """The texts that wait."""
    with Queue(bench.store.path) as queue:
        return [text.content for text in queue.prompts()]


def test_what_is_piped_in_follows_the_prompt(bench: Bench) -> None:
    done = sh(bench, f"printf 'a\\nb\\n' | {RUN} Explain 'this diff'")
    assert done.returncode == 0, done.stderr
    assert bench.sent() == "Explain this diff\n\na\nb\n"
    assert prompts(bench) == ["Explain this diff\n\na\nb\n"]


@pytest.mark.parametrize("given", ["true |", "printf '\\n' |", "", "exec <&-;", "exec < /dev/null;"])
def test_nothing_piped_in_adds_nothing(bench: Bench, given: str) -> None:
    done = sh(bench, f"{given} {RUN} Explain")
    assert (done.returncode, prompts(bench)) == (0, ["Explain"])
    assert done.stderr.startswith("✓ S1")


def test_a_file_that_is_piped_in_follows_the_prompt(bench: Bench) -> None:
    (bench.root / "notes").write_text("reeds\n")
    sh(bench, f"{RUN} Explain < {bench.root / 'notes'}")
    assert prompts(bench) == ["Explain\n\nreeds\n"]


def test_a_pipe_that_stays_open_delays_a_run_and_does_not_stop_it(bench: Bench) -> None:
    reading, writing = os.pipe()
    try:
        done = bench.start("run", "-a", "claude", "Explain", script=[GOOD], stdin=reading)
        _, err = done.communicate(timeout=DEADLINE_S)
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 0
    assert err.startswith("stdin was silent for 3 s, so it is not read. --stdin waits for it.\n")
    assert prompts(bench) == ["Explain"]


def test_a_slow_pipe_is_waited_for_when_that_is_asked(bench: Bench) -> None:
    sh(bench, f"(sleep 3.5; echo late) | {RUN} --stdin Explain")
    assert prompts(bench) == ["Explain\n\nlate\n"]


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_loop_over_a_file_runs_every_line(bench: Bench, shell: str) -> None:
    """The shell reads its next line from where the file stands; neither we nor the agent may move it."""
    (bench.root / "list").write_text("first\nsecond\nthird\n")
    done = sh(bench, f'while read -r line; do {RUN} "$line"; done < {bench.root / "list"}', shell)
    assert (done.returncode, prompts(bench)) == (0, ["first", "second", "third"])


def test_a_loop_over_a_pipe_runs_every_line_if_stdin_is_not_read(bench: Bench) -> None:
    sh(bench, f"printf 'first\\nsecond\\nthird\\n' | while read -r line; do {RUN} --no-stdin \"$line\"; done")
    assert prompts(bench) == ["first", "second", "third"]


def test_a_loop_over_a_pipe_gives_the_first_run_the_rest_unless_told(bench: Bench) -> None:
    sh(bench, f"printf 'first\\nsecond\\nthird\\n' | while read -r line; do {RUN} \"$line\"; done")
    assert prompts(bench) == ["first\n\nsecond\nthird\n"]


def test_stdin_that_is_not_read_is_no_prompt_either(bench: Bench) -> None:
    done = sh(bench, f"echo words | {RUN} --no-stdin")
    assert done.returncode == 64
    assert "There is no prompt" in done.stderr


def test_more_than_a_prompt_holds_is_refused_and_nothing_is_run(bench: Bench) -> None:
    done = sh(bench, f"head -c 10000001 /dev/zero | {RUN} Explain")
    assert done.returncode == 65
    assert "name that file in the prompt" in done.stderr
    assert not bench.received.exists()
    assert not bench.store.exists


def test_bytes_that_are_no_text_are_refused_and_nothing_is_run(bench: Bench) -> None:
    done = sh(bench, f"printf 'caf\\351' | {RUN} Explain")
    assert done.returncode == 65
    assert "byte 4 is the first invalid one" in done.stderr
    assert not bench.received.exists()


def test_what_is_piped_in_follows_a_prompt_behind_a_record(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    bench.run("second", {"say": "two"}, GOOD)
    sh(bench, f"echo data | {RUN} @2 instead")
    turn = bench.store.turns(1)[-1]
    assert (turn.prompt, turn.parent_seq) == ("instead\n\ndata\n", 2)


@pytest.mark.parametrize("command", ["steer", "followup"])
def test_what_is_piped_in_follows_a_message_too(bench: Bench, command: str) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    done = sh(bench, f'echo data | "{sys.executable}" -m backstory {command} --no-run Explain')
    assert done.returncode == 0, done.stderr
    assert queued(bench) == ["Explain\n\ndata\n"]


def test_messages_that_are_options_do_not_read_stdin(bench: Bench) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    done = sh(bench, f'head -c 10000001 /dev/zero | "{sys.executable}" -m backstory --followup Explain')
    assert "stdin was silent" not in done.stderr


# written in an editor -----------------------------------------------------------------------------------------


@pytest.fixture
def editor(bench: Bench) -> str:
    """An editor that keeps what it was given and adds a line."""
    program = bench.bin / "an-editor"
    program.write_text(f'#!/bin/sh\ncp "$2" {bench.root / "seen"}\nprintf "by hand\\n%s" "$1" >> "$2"\n')
    program.chmod(0o755)
    return "an-editor --wait"


def drafts(bench: Bench) -> list[Path]:
    return [path for path in (bench.home / "drafts").rglob("*") if path.is_file()]


def test_a_prompt_is_written_in_the_editor(bench: Bench, editor: str) -> None:
    done = sh(bench, f"{RUN} --edit Begin here", EDITOR=editor)
    assert done.returncode == 0, done.stderr
    assert (bench.root / "seen").read_text().startswith("Begin here\n")
    assert prompts(bench) == ["Begin here\n\nby hand\n--wait"]
    assert drafts(bench) == []


def test_what_is_piped_in_follows_what_is_written(bench: Bench, editor: str) -> None:
    sh(bench, f"echo data | {RUN} --edit", EDITOR=editor)
    assert "the text from stdin is added after" in (bench.root / "seen").read_text()
    assert prompts(bench) == ["by hand\n--wait\n\ndata\n"]


def test_an_empty_prompt_from_an_editor_is_not_run(bench: Bench) -> None:
    done = sh(bench, f"{RUN} --edit", EDITOR="true")
    assert done.returncode == 64
    assert "is empty, so nothing was run" in done.stderr
    assert not bench.store.exists
    assert drafts(bench) == []


def test_an_editor_that_fails_has_nothing_run_and_its_text_kept(bench: Bench) -> None:
    done = sh(bench, f"{RUN} --edit Precious words", EDITOR="false")
    assert done.returncode == 69
    (kept,) = drafts(bench)
    assert str(kept) in done.stderr
    assert kept.read_text() == "Precious words"
    assert not bench.store.exists


def test_a_text_is_kept_when_what_follows_refuses_it(bench: Bench, editor: str) -> None:
    done = sh(bench, f"{RUN} --edit -S S9 Precious words", EDITOR=editor)
    assert done.returncode == 66
    (kept,) = drafts(bench)
    assert str(kept) in done.stderr
    sh(bench, f"{RUN} < {shlex.quote(str(kept))}")
    assert prompts(bench) == ["Precious words\n\nby hand\n--wait"]


def test_without_an_editor_that_is_said(bench: Bench) -> None:
    done = sh(bench, f"{RUN} --edit", EDITOR="", VISUAL="")
    assert done.returncode == 69
    assert "neither VISUAL nor EDITOR is set" in done.stderr


def on_a_terminal(bench: Bench, *words: str, **environ: str) -> tuple[int, str]:
    """How a command ends that was typed on a terminal, and what it showed there."""
    ours, theirs = pty.openpty()
    process = bench.start("run", "-a", "claude", *words, script=[GOOD], stdin=theirs, environ=dict(environ))
    os.close(theirs)
    _, err = process.communicate(timeout=DEADLINE_S)
    with suppress(OSError):
        os.close(ours)
    return process.returncode, err


def test_without_a_prompt_a_terminal_opens_the_editor(bench: Bench, editor: str) -> None:
    assert on_a_terminal(bench, VISUAL=editor)[0] == 0
    assert prompts(bench) == ["by hand\n--wait"]


def test_a_record_alone_on_a_terminal_is_what_the_written_prompt_follows(bench: Bench, editor: str) -> None:
    bench.run("first", {"say": "one"}, GOOD)
    bench.run("second", {"say": "two"}, GOOD)
    on_a_terminal(bench, "@2", VISUAL=editor)
    turn = bench.store.turns(1)[-1]
    assert (turn.prompt, turn.parent_seq) == ("by hand\n--wait", 2)


def test_with_a_prompt_a_terminal_opens_no_editor(bench: Bench, editor: str) -> None:
    on_a_terminal(bench, "Explain", VISUAL=editor)
    assert prompts(bench) == ["Explain"]


def test_an_interrupt_is_for_the_editor_while_it_is_open(bench: Bench) -> None:
    program, is_open, go = bench.bin / "patient", bench.root / "open", bench.root / "go"
    program.write_text(
        f'#!/bin/sh\ntrap : INT\ntouch {is_open}\nuntil [ -e {go} ]; do sleep 0.01; done\necho written > "$1"\n'
    )
    program.chmod(0o755)
    how: dict[str, Any] = {"environ": {"EDITOR": "patient"}, "script": [GOOD]}
    process = bench.start("run", "-a", "claude", "--edit", **how)
    until(is_open.exists)
    os.killpg(process.pid, signal.SIGINT)
    go.touch()
    process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, prompts(bench)) == (0, ["written"])
