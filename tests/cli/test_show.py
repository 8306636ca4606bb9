"""``backstory show`` as a person reads it: results below their calls, what calls and sessions are about."""

from __future__ import annotations

import json
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import rewound, strange_records
from tests.support.machines import CASES
from tests.support.strange_records import PROMPT, put, record
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

END = re.compile(r" {7}[✓✗ ] (?:failed|\d)")
SESSION = "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f"


def said(role: str, content: Any) -> dict[str, Any]:
    return {"type": role, "message": {"role": role, "content": content}}


def called(name: str, made: int, **given: Any) -> dict[str, Any]:
    return said("assistant", [{"type": "tool_use", "id": f"toolu_{made}", "name": name, "input": given}])


def came(made: int, text: str, *, is_error: bool = False) -> dict[str, Any]:
    part = {"type": "tool_result", "tool_use_id": f"toolu_{made}", "content": text, "is_error": is_error}
    return said("user", [part])


def show(bare: Shell, *records: dict[str, Any], options: tuple[str, ...] = ()) -> list[str]:
    """What is shown of a session of these records, whose numbers begin at 1."""
    path = bare.home / ".claude" / "projects" / "p" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    whole = [
        {"sessionId": SESSION, "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "cwd": "/p",
         "version": "2.1.0", "timestamp": f"2026-05-01T10:00:{n:02}.000Z", **each}
        for n, each in enumerate(records)
    ]  # fmt: skip
    path.write_text("".join(f"{json.dumps(each)}\n" for each in whole))
    assert bare("ingest").code == 0
    done = bare("show", SESSION, *options)
    assert done.code == 0, done.err
    return without_end(done.out)


def without_end(out: str) -> list[str]:
    """The lines of a session without the one below its last turn."""
    *lines, end = [line.rstrip() for line in out.splitlines()]
    return [*lines, *([] if END.match(end) else [end])]


def on_a_terminal(bare: Shell, width: int, *words: str) -> list[str]:
    """What a terminal of so many columns shows."""
    command = [sys.executable, "-m", "backstory", *words]
    with Terminal(command, bare.cwd, bare.environ | {"PAGER": "cat"}, width=width) as terminal:
        return terminal.end().splitlines()


def test_results_of_calls_made_at_once_stand_below_them_with_their_own_numbers(bare: Shell) -> None:
    lines = show(
        bare, said("user", "look"),
        called("Grep", 1, pattern="one"), called("Bash", 2, command="two"), called("Read", 3, file_path="/p/three"),
        came(2, "2nd"), came(3, "3rd"), came(1, "1st", is_error=True),
    )  # fmt: skip
    assert lines[-6:] == [
        "@2     ● Grep one  failed", "@7       1st", "@3     ● Bash two  ok, ~2.0 s", "@5       2nd",
        "@4     ● Read three", "@6       3rd",
    ]  # fmt: skip


def test_a_result_that_comes_after_an_answer_stays_there_and_names_its_call(bare: Shell) -> None:
    lines = show(
        bare, said("user", "go"), called("Task", 1, description="Look around", prompt="…"),
        said("assistant", [{"type": "text", "text": "It is at work."}]), came(1, "Found it."),
    )  # fmt: skip
    assert lines[-4:] == [
        "@2     ● Task Look around",
        "@3       It is at work.",
        "@4     ↳ Task Look around",
        "         Found it.",
    ]


def test_a_call_whose_compact_form_says_nothing_is_shown_by_its_words(bare: Shell) -> None:
    lines = show(bare, said("user", "go"), called("AskUserQuestion", 1, questions=[{"question": "Red or blue?"}]))
    assert lines[-1] == "@2     ● AskUserQuestion Red or blue?"
    scanned = bare("scan", SESSION).out
    assert "AskUserQuestion Red or blue?" in scanned


def test_a_call_that_a_person_refused_says_so_and_what_they_said_once(bare: Shell) -> None:
    text = "The user doesn't want to proceed with this tool use. The tool use was rejected. "
    lines = show(
        bare, said("user", "go"), called("Bash", 1, command="one"),
        came(1, f"{text}STOP what you are doing.", is_error=True), called("Bash", 2, command="two"),
        came(2, f"{text}To tell you how to proceed, the user said:\nnot that", is_error=True),
    )  # fmt: skip
    calls = [line for line in lines if " ● " in line]
    assert calls == ["@2     ● Bash one  refused, ~1.0 s", "@4     ● Bash two  refused, ~1.0 s"]
    assert [line for line in lines if "not that" in line or "STOP" in line] == ["@5     ❯ not that"]
    assert "STOP what you are doing." in bare("show", SESSION, "--full").out


def test_an_edit_shows_some_of_the_lines_that_it_changes_and_all_with_full(bare: Shell) -> None:
    new = "\n".join(f"    line {n}" for n in range(9))
    made = called("Edit", 1, file_path="/p/a.py", old_string="    gone", new_string=new), came(1, "ok")
    lines = show(bare, said("user", "go"), *made)
    at = lines.index("@2     ● Edit a.py  +9 −1")
    assert lines[at + 1 : at + 3] == ["         -     gone", "         +     line 0"]
    assert lines[at + 7] == "         (+4 more changed; --full shows them)"
    full = bare("show", SESSION, "--full").out
    assert "+     line 8\n" in full


def test_of_a_long_path_a_terminal_shows_the_end(bare: Shell) -> None:
    path = f"/p/{'deep/' * 40}name.py"
    assert f"@2     ● Read {path.removeprefix('/p/')}" in show(
        bare, said("user", "go"), called("Read", 1, file_path=path)
    )
    (line,) = [each for each in on_a_terminal(bare, 60, "show", SESSION) if "Read" in each]
    assert line.startswith("@2     ● Read …") and line.endswith("deep/name.py")
    assert len(line) == 60


def test_a_session_without_a_title_is_called_by_its_first_words_and_its_uid_stands_once(bare: Shell) -> None:
    head, _, back, *_ = show(bare, said("user", "Implement the following plan:\n\n# Fix the cache\n\nFirst …"))
    assert head == "Fix the cache"
    uid = back.split()[3]
    assert back == f"resume: backstory resume {uid} · claude {SESSION}"
    assert bare("show", uid).out == bare("show", SESSION).out
    assert bare("show", SESSION).out.count(uid) == 1


@pytest.mark.parametrize("command", [("show",), ("chronicle", "recap")], ids=["show", "recap"])
def test_a_screen_names_the_session_that_no_word_named_once(bare: Shell, command: tuple[str, ...]) -> None:
    show(bare, {**said("user", "Count the nests"), "cwd": str(bare.cwd)})
    lines = on_a_terminal(bare, 90, *command)
    assert ["Count the nests" in line for line in lines[:2]] == [True, False]


def test_terminal_codes_in_commands_and_results_are_not_shown(bare: Shell) -> None:
    lines = show(
        bare, said("user", "<command-name>/compact</command-name>"),
        said("user", "<local-command-stdout>\x1b[2mCompacted\x1b[22m</local-command-stdout>"),
        said("user", "go"), called("Bash", 1, command="ls --color"), came(1, "\x1b[01;34mfolder\x1b[0m"),
    )  # fmt: skip
    assert lines[-1].split() == ["@5", "folder"]
    assert any("Compacted" in line for line in lines)
    assert "x1b" not in "\n".join(lines)


def test_a_notice_that_says_nothing_is_shown_only_with_full(bare: Shell) -> None:
    notice = said("assistant", [{"type": "text", "text": "No response requested."}])
    notice["message"]["model"] = "<synthetic>"
    assert "No response requested." not in "\n".join(show(bare, said("user", "go"), notice))
    assert "No response requested." in bare("show", SESSION, "--full").out


def test_a_plan_is_shown_with_its_text(bare: Shell) -> None:
    lines = show(
        bare, said("user", "plan it"), called("ExitPlanMode", 1, plan="# Fix it\n\nFirst this."), came(1, "ok")
    )
    at = next(n for n, line in enumerate(lines) if "Plan:" in line)
    assert lines[at + 1 : at + 4] == ["         # Fix it", "", "         First this."]


def test_a_command_that_printed_nothing_leaves_no_empty_line(bare: Shell) -> None:
    lines = show(
        bare, said("user", "<command-name>/exit</command-name>"),
        said("user", "<local-command-stdout></local-command-stdout>"), said("user", "go"),
    )  # fmt: skip
    assert not [line for line in lines if line.endswith("Command:")]


def test_what_a_command_printed_stands_below_it_in_its_lines(bare: Shell) -> None:
    printed = "\n".join(f"line {n}" for n in range(8))
    lines = show(
        bare, said("user", "<bash-input>git pull</bash-input>"),
        said("user", f"<bash-stdout>{printed}</bash-stdout><bash-stderr></bash-stderr>"), said("user", "go"),
    )  # fmt: skip
    at = lines.index("@1     Command: ! git pull")
    assert lines[at + 1 : at + 3] == ["@2       line 0", "         line 1"]
    assert lines[at + 7] == "         (+2 more)"
    whole = bare("show", SESSION, "--full").out
    assert "line 7" in whole
    assert "Command:\n" not in whole


def test_a_retry_says_which_it_is_and_why(bare: Shell) -> None:
    error = {"status": 429, "headers": {"date": "today"}, "error": {"error": {"message": "Too many."}}}
    again = {"type": "system", "subtype": "api_error", "error": error, "retryAttempt": 2, "content": ""}
    assert show(bare, said("user", "go"), again)[-1] == "@2     ↻ rate limit (429): Too many, trying again, 2"


def test_of_a_retry_the_reason_gives_way_and_not_the_number(bare: Shell) -> None:
    error = {"status": 500, "error": {"message": "word " * 100}}
    again = {"type": "system", "subtype": "api_error", "error": error, "retryAttempt": 2, "maxRetries": 10}
    assert "word word…" not in show(bare, said("user", "go"), again)[-1]
    line = without_end("\n".join(on_a_terminal(bare, 90, "show", SESSION)))[-1]
    assert line.startswith("@2     ↻ server error (500): word word")
    assert line.endswith("…, trying again, 2 of 10")
    assert len(line) <= 90


def test_a_notification_is_shown_by_what_it_says(bare: Shell) -> None:
    notice = (
        "<task-notification>\n<task-id>b1</task-id>\n<summary>The server is up</summary>\n"
        "<output-file>/tmp/b1</output-file>\n</task-notification>"
    )
    lines = show(bare, said("user", "go"), said("user", notice))
    assert lines[-1] == "@2     Hook: task-notification · The server is up"
    assert "/tmp/b1" in bare("show", SESSION, "--full").out


def test_an_error_in_json_is_shown_by_its_message(bare: Shell) -> None:
    text = 'API Error: 400 {"type":"error","error":{"message":"The prompt is too long."}}'
    failed = said("assistant", [{"type": "text", "text": text}]) | {"isApiErrorMessage": True}
    failed["message"]["model"] = "<synthetic>"
    assert show(bare, said("user", "go"), failed)[-1] == "@2     ! API Error: 400 The prompt is too long."
    assert text in bare("show", SESSION, "--full").out


def test_a_prompt_that_nobody_answered_has_no_duration(bare: Shell) -> None:
    lines = show(bare, said("user", "go"), said("assistant", [{"type": "text", "text": "Gone."}]), said("user", "on"))
    assert sum(bool(END.match(line)) for line in lines) == 1
    assert not END.match(bare("show", SESSION).out.splitlines()[-1])
    assert "0.0 s" not in bare("list", "--all").out


def test_a_session_in_which_nobody_asked_for_anything_is_called_so(bare: Shell) -> None:
    go_on = "<azureal-internal-auto-continue>\nContinue.\n</azureal-internal-auto-continue>"
    answer = said("assistant", [{"type": "text", "text": "Done already."}])
    assert show(bare, said("user", go_on), answer)[0] == "(no prompt)"
    assert "\t(no prompt)\t" in bare("list", "--all").out
    assert "  (no prompt)  " in bare("search", "already").out


def test_lines_of_a_patch_stand_below_the_file_that_they_are_of(bare: Shell) -> None:
    added = "".join(f"+line {n}\n" for n in range(6))
    patch = f"*** Begin Patch\n*** Update File: a.py\n@@\n-one\n+two\n*** Add File: b.py\n{added}*** End Patch"
    lines = show(bare, said("user", "go"), called("apply_patch", 1, patch=patch))
    at = lines.index("@2     ● apply_patch a.py, b.py  +7 −1")
    assert lines[at + 1 : at + 6] == ["         a.py", "         - one", "         + two", "         b.py",
                                      "         + line 0"]  # fmt: skip
    assert lines[at + 7] == "         (+4 more changed; --full shows them)"


def test_a_turn_that_its_log_lacks_since_a_rewind_is_marked(bare: Shell) -> None:
    path = bare.home / rewound.LOG
    path.parent.mkdir(parents=True)
    for numbers in ((1, 2, 3), (1,)):
        path.write_bytes(rewound.log(*numbers))
        assert bare("ingest").code == 0
    turns = [line for line in bare("show", rewound.SESSION).out.splitlines() if line.startswith("── turn")]
    assert [line.endswith("  rewound") for line in turns] == [False, True, True]
    told = json.loads(bare("show", rewound.SESSION, "--json").out)["turns"]
    assert [turn["rewound"] for turn in told] == [False, True, True]


def test_helpers_that_are_at_work_at_once_are_named(bare: Shell) -> None:
    (log,) = (CASES / "copilot/helpers-at-once").rglob("events.jsonl")
    shutil.copytree(log.parent, bare.home / ".copilot/session-state" / log.parent.name)
    assert bare("ingest").code == 0
    for options in ((), ("--full",)):
        shown = bare("show", "fc7a4387", *options).out
        for letter in "ABC":
            assert f"Subagent prompt: Run child-{letter} sleep command\n" in shown
            assert f"Subagent: Run child-{letter} sleep command\n         child-{letter}-done\n" in shown


def test_the_summary_of_a_task_is_shown_once(bare: Shell) -> None:
    (log,) = (CASES / "copilot/autopilot").rglob("events.jsonl")
    shutil.copytree(log.parent, bare.home / ".copilot/session-state" / log.parent.name)
    assert bare("ingest").code == 0
    said = "Created loop1.txt, loop2.txt, and loop3.txt in the current directory"
    uid = json.loads(bare("list", "--all", "--json").out)["sessions"][0]["uid"]
    assert bare("show", uid).out.count(said) == 1
    assert bare("show", uid, "--full").out.count(said) > 1


def of_codex(bare: Shell, *records: tuple[str, dict[str, Any]]) -> str:
    """What is shown of a session of these records, whose numbers begin at 2."""
    path = bare.home / f".codex/sessions/2026/05/01/rollout-2026-05-01T10-00-00-{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    whole = ("session_meta", {"id": SESSION, "cwd": "/p"}), *records
    lines = [{"timestamp": "2026-05-01T10:00:00.000Z", "type": kind, "payload": each} for kind, each in whole]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    assert bare("ingest").code == 0
    return bare("show", SESSION).out


def test_what_a_persons_command_printed_is_shown_without_its_wrapping(bare: Shell) -> None:
    def ran(command: str, code: int, printed: str) -> tuple[str, dict[str, Any]]:
        result = f"Exit code: {code}\nDuration: 0.0313 seconds\nOutput:\n{printed}"
        told = f"<command>\n{command}\n</command>\n<result>\n{result}\n</result>"
        text = f"<user_shell_command>\n{told}\n</user_shell_command>"
        return "response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}

    shown = of_codex(bare, ran("ls", 0, "a.py"), ran("exit 3", 3, ""), ran("true", 0, ""))
    assert [line.rstrip() for line in shown.splitlines()[3:]] == [
        "@2     Command: ! ls", "@2       a.py", "@3     Command: ! exit 3", "@3       Exit code: 3",
        "@4     Command: ! true", "@4       (nothing)",
    ]  # fmt: skip
    assert "Duration: 0.0313 seconds" in bare("show", SESSION, "--full").out


def test_what_a_helper_sends_is_shown_in_its_lines(bare: Shell) -> None:
    words = "Message Type: FINAL_ANSWER\nPayload:\nTwo files."
    message = {"type": "agent_message", "author": "/root/count", "content": [{"type": "text", "text": words}]}
    shown = of_codex(bare, ("response_item", message))
    assert "@2     Message from /root/count\n         Message Type: FINAL_ANSWER\n" in shown
    assert "         Two files.\n" in shown


def test_a_record_without_an_event_is_shown_as_its_agent_wrote_it(bare: Shell) -> None:
    put(bare, PROMPT, record(2, type="bridge-session", said="\x1b[2Jbeak"))
    shown = bare("show", strange_records.SESSION, "@2")
    assert shown.code == 0
    assert "says nothing that a session shows" in shown.err
    assert '"said": "' in shown.out
    assert "\x1b" not in shown.out
    printed = bare("show", strange_records.SESSION, "@2", "--json").json()
    assert (printed["seq"], printed["events"], json.loads(printed["record_text"])["type"]) == (2, [], "bridge-session")


def test_a_record_that_is_not_there_is_none(bare: Shell) -> None:
    put(bare, PROMPT)
    assert bare("show", strange_records.SESSION, "@3").code == 66
