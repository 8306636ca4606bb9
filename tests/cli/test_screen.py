"""What a run looks like: on terminals of several widths, in a pipe; and how its end is told in the list."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from backstory.cli.output import columns
from tests.support.bench import Bench
from tests.support.going import DEADLINE_S, Going, delta

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

GOOD = {"result": True}
LONG = "cd /a/very/long/path/to/some/project && python -m pytest -q tests/unit/test_something.py -k 'not slow'"
ROWS = 40


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def line(value: dict[str, Any]) -> dict[str, str]:
    return {"raw": json.dumps(value) + "\n"}


def call(number: int, tool: str, **given: str) -> dict[str, str]:
    block = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": given}
    return line({"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [block]}})


def result(number: int, content: str, *, is_error: bool = False) -> dict[str, str]:
    block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": content, "is_error": is_error}
    return line({"type": "user", "message": {"role": "user", "content": [block]}})


def on_a_terminal(
    bench: Bench,
    width: int,
    *script: dict[str, Any],
    words: tuple[str, ...] = ("run", "-a", "claude", "go"),
    **environ: str,
) -> str:
    """What a terminal of so many columns is sent, stdout and stderr alike."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "backstory", *words], cwd=bench.project, stdin=subprocess.DEVNULL,
        stdout=theirs, stderr=theirs, env=bench.environ(list(script)) | {"TERM": "xterm-256color"} | environ,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    with suppress(OSError):
        while block := os.read(ours, 65536):
            seen += block
    os.close(ours)
    process.wait(timeout=DEADLINE_S)
    return seen.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_tool_is_one_line_with_its_result(bench: Bench, width: int) -> None:
    seen = on_a_terminal(
        bench, width,
        call(1, "Bash", command=LONG), result(1, "FAILED a\nline\n1 failed, 3 passed"),
        call(2, "Grep", pattern="漢字" * 100), result(2, "no such folder", is_error=True),
        GOOD, NO_COLOR="1",
    )  # fmt: skip
    bash, grep, end, rest = seen.split("\n")
    assert bash.startswith("  ● Bash cd /a/ver")
    assert " → 1 failed, " in bash
    assert re.search(r" ✗ no such fo", grep)
    assert max(columns(each) for each in (bash, grep)) <= width
    assert (end, rest) == ("S1 ✓ 1.2 s · $0.04 · 2 tools · context 0 %", "")


def test_tools_that_run_side_by_side_have_their_results_named(bench: Bench) -> None:
    done = bench.run(
        "go", call(1, "Bash", command="one"), call(2, "Read", file_path="/x"), result(1, "1st"), result(2, "2nd"), GOOD
    )
    assert done.stdout.splitlines() == ["  ● Bash one", "  ● Read /x", "  ↳ Bash one → 1st", "  ↳ Read /x → 2nd"]


def test_the_line_of_a_tool_is_begun_before_there_is_a_result(bench: Bench) -> None:
    with Going(bench, call(1, "Bash", command="sleep 9"), then=(result(1, "rested"), GOOD)) as going:
        out = going.process.stdout
        assert out is not None
        assert os.read(out.fileno(), 100).decode() == "  ● Bash sleep 9"
        going.go.touch()
        assert out.readline() == " → rested\n"


def test_text_that_was_streamed_is_not_told_again(bench: Bench) -> None:
    done = bench.run(
        "go",
        delta("In the "),
        delta("reeds.\n"),
        {"raw": "a notice\n"},
        {"say": "In the reeds.\n"},
        {"say": "Yes."},
        GOOD,
    )
    assert [each.strip() for each in done.stdout.splitlines()] == ["In the reeds.", "Hook: stdout · a notice", "Yes."]


def test_an_answer_that_was_streamed_in_part_is_told_to_its_end(bench: Bench) -> None:
    assert bench.run("go", delta("In the"), {"say": "In the reeds."}, GOOD).stdout == "In the reeds.\n"


def test_why_it_failed_is_a_message_of_the_system(bench: Bench) -> None:
    seen = on_a_terminal(bench, 80, delta("half an ans"), {"stderr": "no network " * 20}, {"exit": 3}, NO_COLOR="1")
    said, why, end, _ = seen.split("\n")
    assert said == "half an ans"
    assert why.strip() == f"! {'no network ' * 20}".strip()
    assert re.match(r"S1 ✗ \d\.\d s · 0 tools · context 0 % · failed · no network .*…$", end)


def test_an_error_that_was_shown_is_not_shown_again(bench: Bench) -> None:
    told = line(
        {"type": "assistant", "isApiErrorMessage": True, "message": {"content": [{"type": "text", "text": "529"}]}}
    )
    assert bench.run("go", told, {"exit": 1}).stdout.count("529") == 1


def test_colour_is_for_terminals_that_want_it(bench: Bench) -> None:
    script = (call(1, "Bash", command="ls"), result(1, "gone", is_error=True), GOOD)
    assert "\x1b[31m ✗ gone" in on_a_terminal(bench, 80, *script)
    assert "\x1b" not in on_a_terminal(bench, 80, *script, NO_COLOR="1")
    assert "\x1b" not in bench.run("go", *script).stdout


@pytest.fixture
def all_ends(bench: Bench) -> Bench:
    """A project with a session for each way to end, S1 to S4."""
    bench.run("one", GOOD, options=("-n",))
    bench.run("two", {"exit": 3}, options=("-n",))
    process = bench.start("run", "-n", "-a", "claude", "three", script=[{"say": "x"}, {"wait_for": "never"}])
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    bench.run("four", {"signal": 9}, options=("-n",))
    return bench


ENDS = [("S1", "✓", "completed"), ("S2", "✗", "failed"), ("S3", "■", "cancelled"), ("S4", "!", "crashed")]


def test_the_list_tells_every_end_from_every_other(all_ends: Bench) -> None:
    rows = [each.split() for each in all_ends.backstory("list").stdout.splitlines()[1:]]
    assert sorted((row[1], row[0]) for row in rows) == [(number, mark) for number, mark, _ in ENDS]
    found = json.loads(all_ends.backstory("list", "--json").stdout)
    told = {each["number"]: (each["outcome"], each["completed"]) for each in found}
    assert told == {number: (outcome, outcome == "completed") for number, _, outcome in ENDS}


def test_show_tells_how_a_turn_ended(all_ends: Bench) -> None:
    for number, mark, outcome in ENDS:
        how = "" if outcome == "completed" else f" {outcome}"
        assert f"── turn 1 {mark}{how}  " in all_ends.backstory("show", number).stdout


def test_a_session_has_no_badge_while_a_run_goes_on(bench: Bench) -> None:
    bench.run("first", GOOD)
    with Going(bench, {"say": "two"}):
        listed = bench.backstory("list")
        assert listed.stdout.splitlines()[1].split()[0] == "S1"
        assert "1 running: backstory ps" in listed.stderr
        assert json.loads(bench.backstory("list", "--json").stdout)[0]["outcome"] is None
    assert bench.backstory("list").stdout.splitlines()[1].startswith("✓  S1")


@pytest.mark.parametrize(("width", "heads"), [(40, "SESSION NAME"), (60, "SESSION NAME LAST ACTIVE")])
def test_a_narrow_terminal_gets_the_columns_that_fit(bench: Bench, width: int, heads: str) -> None:
    bench.run("a prompt that is too long for a line of a narrow terminal, whatever it shows", GOOD)
    lines = on_a_terminal(bench, width, words=("list",), NO_COLOR="1").splitlines()
    assert " ".join(lines[0].split()) == heads
    assert max(map(columns, lines)) <= width
