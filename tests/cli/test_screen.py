"""What a run looks like: on terminals of several widths, in a pipe; and how its end is told in the list."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from backstory.cli.output import columns
from tests.support import shell
from tests.support.bench import Bench
from tests.support.going import DEADLINE_S, Going, delta, states, until
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

GOOD = {"result": True}
RUN = ("run", "-a", "claude")
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
    variables = bench.environ(list(script)) | {"TERM": "xterm-256color"} | environ
    _, sent = shell.on_a_terminal(words, bench.project, variables, columns=width, rows=ROWS)
    return sent.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_tool_is_one_line_with_its_result(bench: Bench, width: int) -> None:
    seen = on_a_terminal(
        bench, width,
        call(1, "Bash", command=LONG), result(1, "FAILED a\nline\n1 failed, 3 passed"),
        call(2, "Grep", pattern="漢字" * 100), result(2, "no such folder", is_error=True),
        GOOD, NO_COLOR="1",
    )  # fmt: skip
    bash, grep, between, end, rest = seen.split("\n")
    assert bash.startswith("  ● Bash cd /a/ver")
    assert " → 1 failed, " in bash
    assert re.search(r" ✗ no such fo", grep)
    assert max(columns(each) for each in (bash, grep)) <= width
    assert (between, end, rest) == ("", "✓ S1 turn 1 · 1.2 s · $0.04 · 2 tools", "")


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
    said, *why, _, end, _ = seen.split("\n")
    assert said == "half an ans"
    assert " ".join(" ".join(why).split()) == f"! {'no network ' * 20}".strip()
    assert max(map(columns, why)) <= 80
    assert re.match(r"✗ S1 turn 1 · \d\.\d s · failed · no network .*…$", end)


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
    rows = [each.split("\t") for each in all_ends.backstory("list").stdout.splitlines()]
    assert sorted((row[1], row[6]) for row in rows) == [(number, outcome) for number, _, outcome in ENDS]
    screen = on_a_terminal(all_ends, 100, words=("list",), NO_COLOR="1").splitlines()
    marked = sorted((line.split()[1], line.split()[0]) for line in screen if " S" in line[:4])
    assert marked == [(number, mark) for number, mark, _ in ENDS]
    found = json.loads(all_ends.backstory("list", "--json").stdout)["sessions"]
    told = {each["number"]: (each["outcome"], each["completed"]) for each in found}
    assert told == {number: (outcome, outcome == "completed") for number, _, outcome in ENDS}


def test_show_tells_how_a_turn_ended(all_ends: Bench) -> None:
    for number, mark, outcome in ENDS:
        how = "" if outcome == "completed" else f"{outcome} · "
        end = all_ends.backstory("show", number).stdout.splitlines()[-1]
        assert end.startswith(f"       {mark} {how}")


def test_a_session_has_a_badge_of_its_own_while_it_runs(bench: Bench) -> None:
    bench.run("first", GOOD)
    with Going(bench, {"say": "two"}):
        listed = bench.backstory("list")
        assert listed.stdout.split("\t")[6] == "running"
        assert " ● S1  first" in on_a_terminal(bench, 100, words=("list",), NO_COLOR="1")
        assert "1 running: backstory ps" in listed.stderr
        assert json.loads(bench.backstory("list", "--json").stdout)["sessions"][0]["outcome"] is None
    assert bench.backstory("list").stdout.split("\t")[6] == "completed"


@pytest.mark.parametrize("width", [40, 60])
def test_on_a_narrow_terminal_a_session_has_two_lines(bench: Bench, width: int) -> None:
    bench.run("a prompt that is too long for a line of a narrow terminal, whatever it shows", GOOD)
    _, title, facts, *rest = on_a_terminal(bench, width, words=("list",), NO_COLOR="1").splitlines()
    assert title.startswith(" ✓ S1  a prompt that is too long")
    # What does not fit is left out from the end.
    assert facts.split(" · ")[-1] == ("$0.04" if width == 40 else "1.2 s")
    assert max(map(columns, (title, facts, *rest))) <= width


# before, and after -----------------------------------------------------------------------------------------------


def lines_of(seen: str) -> list[str]:
    return seen.rstrip("\n").split("\n")


def test_a_run_that_continues_a_session_names_it_first(bench: Bench) -> None:
    first = on_a_terminal(bench, 100, {"say": "Blue."}, GOOD, words=(*RUN, "Why is the sky blue?"), NO_COLOR="1")
    assert lines_of(first)[0] == "Blue."
    again = on_a_terminal(bench, 100, {"say": "Air."}, GOOD, words=(*RUN, "Why?"), NO_COLOR="1")
    named = '↳ S1 "Why is the sky blue?" · turn 2 · claude'
    assert lines_of(again)[0] == f"{named} · a new session: -n"
    assert lines_of(again)[-1].startswith("✓ S1 turn 2 · ")
    chosen = on_a_terminal(bench, 100, {"say": "Air."}, GOOD, words=(*RUN, "-S", "S1", "Why?"), NO_COLOR="1")
    assert lines_of(chosen)[0] == named.replace("2", "3")


@pytest.mark.parametrize("options", [("-n",), ("--json",)])
def test_a_new_session_and_a_program_are_told_of_none(bench: Bench, options: tuple[str, ...]) -> None:
    bench.run("first", GOOD)
    assert "↳" not in on_a_terminal(bench, 100, {"say": "x"}, GOOD, words=(*RUN, *options, "second"))
    assert "↳" not in bench.run("third", GOOD).stderr


def denied(*calls: tuple[str, dict[str, str]]) -> dict[str, str]:
    listed = [{"tool_name": tool, "tool_use_id": f"t{n}", "tool_input": given} for n, (tool, given) in enumerate(calls)]
    return line({"type": "result", "subtype": "success", "is_error": False, "permission_denials": listed})


EDIT = ("Edit", {"file_path": "calc.py"})
BASH = ("Bash", {"command": "pytest -q"})


@pytest.mark.parametrize(
    ("calls", "options", "told"),
    [
        ((EDIT,), (), ["1 call was refused: Edit calc.py",
                       '  allow edits: backstory run --permissions edit "…"',
                       "  always: backstory config set run.permissions edit"]),
        ((EDIT, BASH), (), ["2 calls were refused: Edit calc.py, Bash pytest -q",
                            '  allow edits: backstory run --permissions edit "…"   (everything: all)',
                            "  always: backstory config set run.permissions edit"]),
        ((BASH,), (), ["1 call was refused: Bash pytest -q",
                       '  allow everything: backstory run --permissions all "…"',
                       "  always: backstory config set run.permissions all"]),
        ((EDIT,), ("--permissions", "edit"), ["1 call was refused: Edit calc.py",
                                              '  allow everything: backstory run --permissions all "…"',
                                              "  always: backstory config set run.permissions all"]),
        ((EDIT,), ("--permissions", "all"), ["1 call was refused: Edit calc.py"]),
        ((EDIT,) * 6, ("--permissions", "all"), ["6 calls were refused: " + "Edit calc.py, " * 4 + "2 more"]),
        ((), (), []),
    ],
)  # fmt: skip
def test_what_was_refused_is_told_with_the_option_that_allows_it(
    bench: Bench, calls: tuple[tuple[str, dict[str, str]], ...], options: tuple[str, ...], told: list[str]
) -> None:
    done = bench.run("go", {"say": "No."}, denied(*calls), options=options)
    foot, *lines = done.stderr.splitlines()
    assert lines == told
    assert foot.endswith(f" · {len(calls)} refused") == bool(calls)
    tools = (call(1, "Bash", command="ls"), result(1, "x"))
    assert (" · 1 tool, " in bench.run("go", *tools, denied(*calls)).stderr) == bool(calls)


def test_what_was_refused_is_a_list_in_json(bench: Bench) -> None:
    done = bench.run("go", {"say": "No."}, denied(EDIT, BASH), options=("--json",))
    assert json.loads(done.stdout.splitlines()[-1])["refused"] == [
        {"tool_name": "Edit", "input": {"file_path": "calc.py"}},
        {"tool_name": "Bash", "input": {"command": "pytest -q"}}
    ]  # fmt: skip
    assert json.loads(bench.run("go", GOOD, options=("--json",)).stdout.splitlines()[-1])["refused"] == []


def test_records_that_nobody_understood_are_left_to_the_whole_session(bench: Bench) -> None:
    done = bench.run("go", line({"type": "system", "subtype": "of_tomorrow"}), {"say": "Yes."}, GOOD)
    assert done.stdout == "Yes.\n"
    assert re.fullmatch(r"✓ S1 turn 1 · 1\.2 s · \$0\.04\n", done.stderr)
    assert "system/of_tomorrow" in bench.backstory("show", "--full").stdout
    assert "system/of_tomorrow" in bench.backstory("show", "--json").stdout


def test_the_context_is_worth_a_word_from_a_tenth_on(bench: Bench) -> None:
    bench.backstory("config", "set", "compaction.chars", "5000")
    bench.run("go", {"say": "word " * 150}, GOOD)
    assert re.search(r" · context \d\d %", bench.run("again", GOOD).stderr)
    assert "context" not in bench.run("new", GOOD, options=("-n",)).stderr


def test_a_failure_in_json_is_told_in_words(bench: Bench) -> None:
    why = 'API Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"It is too long."}}'
    failed = {"type": "result", "subtype": "success", "is_error": True, "result": why}
    done = bench.run("go", line(failed), {"exit": 1})
    assert done.stdout.strip() == "! API Error: 400 It is too long."
    assert done.stderr.rstrip().endswith(" · failed · API Error: 400 It is too long.")


# pagers ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def pager(bench: Bench) -> str:
    """A pager that says that it was asked, and how."""
    program = bench.root / "pager"
    program.write_text('#!/bin/sh\necho "PAGED, LESS=$LESS"\ncat\n')
    program.chmod(0o755)
    return str(program)


def seen_by_a_person(bench: Bench, *words: str, width: int = 80, rows: int = ROWS, **environ: str) -> str:
    """What a terminal shows that is also where the keys are, without which there is no pager."""
    command = [sys.executable, "-m", "backstory", *words]
    with Terminal(command, bench.project, bench.environ([]) | environ, width=width, rows=rows) as terminal:
        return terminal.end()


def test_what_fits_the_terminal_needs_no_pager(bench: Bench, pager: str) -> None:
    bench.run("go", {"say": "\n".join(f"line {n} " + "word " * 10 for n in range(8))}, GOOD)
    assert "PAGED" not in seen_by_a_person(bench, "show", PAGER=pager)
    # Its lines take several rows each of a narrower one.
    assert "PAGED" in seen_by_a_person(bench, "show", PAGER=pager, width=20)
    assert "PAGED" in seen_by_a_person(bench, "show", PAGER=pager, rows=10)


def test_what_does_not_fit_is_paged_whole_as_git_does_it(bench: Bench, pager: str) -> None:
    bench.run("go", {"say": "\n".join(f"line {n}" for n in range(ROWS))}, GOOD)
    seen = seen_by_a_person(bench, "show", PAGER=pager)
    assert "PAGED, LESS=FRX\n" in seen
    assert all(f"line {n}\n" in seen for n in range(ROWS))
    assert "LESS=-S\n" in seen_by_a_person(bench, "show", PAGER=pager, LESS="-S")
    assert "PAGED" not in bench.backstory("show", environ={"PAGER": pager}).stdout


def test_a_long_list_is_paged(bench: Bench, pager: str) -> None:
    bench.run("go", GOOD)
    assert "PAGED" not in seen_by_a_person(bench, "list", PAGER=pager)
    assert "PAGED" in seen_by_a_person(bench, "list", PAGER=pager, rows=2)


# order ----------------------------------------------------------------------------------------------------------

CODEX = """#!/bin/sh
cat >/dev/null
say() { echo '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"'"$1"'"}}'; }
echo '{"type":"thread.started","thread_id":"t"}'
say 'I try.'
while [ ! -e ROOT/seen ]; do sleep 0.01; done
echo '2026-11-22T00:31:54Z ERROR codex_core::tools::router: error=It did not fit.' >&2
while [ ! -e ROOT/go ]; do sleep 0.01; done
say 'I stop.'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'
"""
IN_ORDER = ["I try.", "! It did not fit.", "I stop."]


@pytest.fixture
def stumbling(bench: Bench) -> Iterator[subprocess.Popen[str]]:
    """A run of which an error on stderr came in the middle, shown so far, and at work."""
    program = bench.bin / "codex"
    program.write_text(CODEX.replace("ROOT", str(bench.root)))
    program.chmod(0o755)
    process = bench.start("run", "-a", "codex", "go")
    assert process.stdout is not None
    assert process.stdout.readline() == "I try.\n"
    (bench.root / "seen").touch()
    assert process.stdout.readline().strip() == "! It did not fit."
    yield process
    (bench.root / "go").touch()
    process.communicate(timeout=DEADLINE_S)


def told_by_show(bench: Bench) -> list[str]:
    shown = [each[7:].strip() for each in bench.backstory("show", "S1").stdout.splitlines()]
    return [each for each in shown if each in IN_ORDER]


def test_an_error_on_stderr_is_stored_where_it_was_shown(bench: Bench, stumbling: subprocess.Popen[str]) -> None:
    (bench.root / "go").touch()
    out, _ = stumbling.communicate(timeout=DEADLINE_S)
    assert out.strip() == "I stop."
    assert told_by_show(bench) == IN_ORDER
    assert bench.store.verify().problems == []
    before = bench.backstory("show", "S1", "--json").stdout
    assert bench.backstory("reindex").returncode == 0
    assert bench.backstory("show", "S1", "--json").stdout == before


def test_of_a_run_whose_backstory_was_killed_the_order_is_known_as_far_as_it_saw(
    bench: Bench, stumbling: subprocess.Popen[str]
) -> None:
    stumbling.kill()
    stumbling.communicate(timeout=DEADLINE_S)
    (bench.root / "go").touch()
    until(lambda: told_by_show(bench) == IN_ORDER)
    until(lambda: states(bench) in ([], ["waiting"]))
    bench.backstory("ingest")
    assert states(bench) == []
    assert told_by_show(bench) == IN_ORDER


@pytest.mark.parametrize(
    "order", [b"", b"x y\n7\n\xff 1\n", b"0 0\n999999 999999\n", b"9" * 40 + b" 1\n", b"5 5\n3 3\n"]
)
def test_an_order_that_means_little_costs_nothing_else(
    bench: Bench, stumbling: subprocess.Popen[str], order: bytes
) -> None:
    stumbling.kill()
    stumbling.communicate(timeout=DEADLINE_S)
    (spool,) = (bench.home / "spool").iterdir()
    (spool / "order").write_bytes(order)
    (bench.root / "go").touch()
    until(lambda: states(bench) in ([], ["waiting"]))
    bench.backstory("ingest")
    assert sorted(told_by_show(bench)) == sorted(IN_ORDER)
    assert bench.store.verify().problems == []
