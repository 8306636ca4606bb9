"""What a call is about, which lines an edit changed, and what a text would be called."""

from __future__ import annotations

from typing import Any

import pytest

from backstory.derive.essence import (
    changed_lines,
    essence,
    exit_code,
    result_body,
    result_facts,
    without_terminal_codes,
    words_of,
)
from backstory.model import KINDS, Event, Tool, ToolCall, ToolResult
from tests.support.every import every

PATCH = "*** Begin Patch\n*** Add File: new.md\n+# New\n*** Update File: notes.txt\n@@\n-alpha\n+beta\n*** End Patch"
FIRST = "*** Begin Patch\n*** Add File: new.md\n+# New\n*** End Patch"
SECOND = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-alpha\n+beta\n*** End Patch"
DIFF = "--- notes.txt\n+++ notes.txt\n@@ -1 +1 @@\n-alpha\n+beta\n"
IN_CODE = PATCH.replace("\n", "\\n")


SAYS_NOTHING = {"Init", "Complete"}
NOT_DRAWN_APART = {"ModelSwitch", "Unknown"}


@every("kind", KINDS.values(), ids=lambda kind: kind.kind)
def test_the_words_of_every_kind_of_event_have_what_it_holds(kind: type[Event]) -> None:
    texts = {name: f"<{name}>" for name in ("name", "tool_name", "content", "text", "message", "summary", "output")}
    held = {name: text for name, text in texts.items() if name in kind.__struct_fields__}
    rest = {"input": {}, "model": "m", "type": "t", "success": True, "tool_use_id": "i"}
    event = kind(**held, **{name: value for name, value in rest.items() if name in kind.__struct_fields__})
    words = words_of(event)
    assert (words.tone == "") == (kind.kind in SAYS_NOTHING)
    assert (words.tone == "other") == (kind.kind in NOT_DRAWN_APART)
    if kind.kind not in SAYS_NOTHING | NOT_DRAWN_APART:
        assert {words.head, words.body} - {""} == set(held.values())


def call(name: str, tool: str = "", /, path: str | None = None, **given: Any) -> ToolCall:
    return ToolCall(tool_name=name, tool=tool, file_path=path, input=given)


@every(
    ("made", "words"),
    [
        (call("Bash", command="ls -l", description="Lists files"), "ls -l"),
        (call("shell", command=["git", "status"]), "git status"),
        (call("Read", file_path="/a/b.py", limit=3), "/a/b.py"),
        (call("Write", Tool.WRITE, file_path="/a/b.py", _lines=2, _purpose="# B"), "/a/b.py (2 lines)"),
        (call("Write", Tool.WRITE, file_path="/a/b.py", _lines=1), "/a/b.py (1 line)"),
        (call("AskUserQuestion", questions=[{"question": "Which?", "header": "H"}]), "Which?"),
        (call("AskUserQuestion", questions=[{"question": "Which?"}, {"question": "Why?"}]), "Which? / Why?"),
        (call("Skill", skill="review", args="PR 12"), "review PR 12"),
        (call("TaskCreate", description="At length: …", subject="Fix the cache"), "Fix the cache"),
        (call("TaskUpdate", taskId="2", addBlockedBy=["1"]), "#2 addBlockedBy 1"),
        (call("TaskGet", taskId="2"), "#2"),
        (call("TodoWrite", todos=[{"content": "A", "status": "completed"}, {"content": "B", "status": "in_progress"}]),
         "1/2 B"),
        (call("TodoWrite", todos=[{"content": "A", "status": "completed"}]), "1/1 all done"),
        (call("update_plan", plan=[{"step": "Look", "status": "pending"}]), "0/1 Look"),
        (call("ExitPlanMode", allowedPrompts=[{"tool": "Bash"}], plan="Hm.\n\n# Plan: Fix it"), "Plan: Fix it"),
        (call("ExitPlanMode", plan="\nFirst this.\nThen that."), "First this."),
        (call("mcp__tracker__create_issue", team="Core", title="It breaks", description="At length"), "It breaks"),
        (call("mcp__tracker__get_issue", id="ENT-250"), "ENT-250"),
        (call("mcp__calculator__add", a=2, b=-3.5, exact=True), "a=2 b=-3.5 exact=true"),
        (call("write_stdin", session_id=7, chars=""), "session_id=7"),
        (call("mcp__tracker__list", limit=5, team="Core"), "Core"),
        (call("mcp__chat__send", to=["c0ffee"], content={"body": "All is well"}), "All is well"),
        (call("apply_patch", patch=PATCH), "new.md, notes.txt"),
        (call("TaskList"), ""),
    ],
)  # fmt: skip
def test_a_call_says_what_a_person_would_read_first(made: ToolCall, words: str) -> None:
    assert essence(made) == words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('const r = await tools.exec_command({cmd: "echo \\"a\\" > n; ls"});\ntext(r.output);', 'echo "a" > n; ls'),
        ("await tools.exec_command({ 'cmd': 'ls', workdir: '/x' })", "ls"),
        (f'text(await tools.apply_patch("{IN_CODE}"));', "patch new.md, notes.txt"),
        (
            f"await tools.exec_command({{cmd: `ls`}}); await tools.apply_patch('{IN_CODE}')",
            "ls; patch new.md, notes.txt",
        ),
        ("const meta = {\n  name: 'fan-out',\n  description: 'Three agents',\n}", "fan-out: Three agents"),
        ('\nthrow new Error("boom")', 'throw new Error("boom")'),
    ],
)
def test_a_script_of_calls_says_the_commands_in_it_and_the_files_it_patches(code: str, words: str) -> None:
    assert essence(call("exec", input=code)) == words


def test_an_input_that_is_no_object_is_no_error() -> None:
    assert essence(ToolCall(tool_name="x", input=["plain words"])) == "plain words"
    assert essence(ToolCall(tool_name="x", input=None)) == ""


def test_a_long_script_takes_time_that_grows_with_its_length() -> None:
    assert essence(call("exec", input="cmd: '" + "\\'" * 1_000_000)).startswith("cmd: ")


def test_the_first_two_hundred_thousand_characters_of_a_patch_are_searched_for_files() -> None:
    begun = "*** Begin Patch\n*** Add File: first\n"
    filled = begun + "+" * (200_000 - len(begun) - len("\n*** Add File: a")) + "\n*** Add File: a"
    assert essence(call("apply_patch", patch=filled + "b")) == "first, a"


def test_an_edit_says_the_lines_that_change_and_no_others() -> None:
    made = call(
        "Edit", file_path="a.py", old_string="def f():\n    return 1\n# end", new_string="def f():\n    return 2\n# end"
    )
    assert list(changed_lines(made)) == [("-", "    return 1"), ("+", "    return 2")]


def test_an_edit_that_takes_away_or_puts_in_says_only_that() -> None:
    assert list(changed_lines(call("Edit", old_string="a\nb", new_string="a"))) == [("-", "b")]
    assert list(changed_lines(call("Edit", old_string="", new_string="a"))) == [("+", "a")]
    assert list(changed_lines(call("Read", file_path="a.py"))) == []


def test_several_edits_and_patches_say_their_lines_in_order() -> None:
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}]
    assert [line for _, line in changed_lines(call("MultiEdit", edits=edits))] == ["a", "b", "c", "d"]
    lines = [("-", "alpha"), ("+", "beta")]
    one = "*** Begin Patch\n*** Update File: n\n@@\n-alpha\n+beta\n*** End Patch"
    assert list(changed_lines(call("apply_patch", patch=one))) == lines
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-alpha\n+beta"
    assert list(changed_lines(call("edit", changes={"/n": {"unified_diff": diff}}))) == lines


OF_BOTH = [("", "new.md"), ("+", "# New"), ("", "notes.txt"), ("-", "alpha"), ("+", "beta")]


@every(
    "given",
    [
        {"patch": PATCH},
        {"input": PATCH},
        {"command": ["apply_patch", PATCH]},
        {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"]},
        {"cmd": f'apply_patch "{PATCH}"'},
        {"input": f'text(await tools.apply_patch("{IN_CODE}"));'},
        {"input": f"await tools.apply_patch(`{FIRST}`); await tools.apply_patch(`{SECOND}`)"},
        {"changes": {"new.md": {"type": "add", "content": "# New\n"}, "notes.txt": {"unified_diff": DIFF}}},
        {"changes": [{"path": "new.md", "content": "# New"}, {"path": "notes.txt", "diff": DIFF}]},
    ],
)
def test_lines_of_several_files_stand_below_the_name_of_theirs(given: dict[str, Any]) -> None:
    made = call("apply_patch", **given)
    assert list(changed_lines(made)) == OF_BOTH
    assert essence(made).rpartition("patch ")[2] == "new.md, notes.txt"


def test_a_command_that_only_speaks_of_a_patch_is_shown_as_it_is() -> None:
    made = call("Bash", command="grep '*** Begin Patch' log; echo '*** Add File: a'")
    assert (essence(made), list(changed_lines(made))) == (made.input["command"], [])


def test_of_several_files_in_one_folder_only_the_first_is_told_with_it() -> None:
    changes = {"/w/new.md": {"type": "add", "content": "a"}, "/w/notes.txt": {"type": "delete", "content": "b"}}
    made = call("apply_patch", Tool.EDIT, "/w/new.md", changes=changes)
    assert essence(made) == "/w/new.md, notes.txt"
    assert list(changed_lines(made)) == [("", "/w/new.md"), ("+", "a"), ("", "/w/notes.txt"), ("-", "b")]


def test_a_line_that_begins_with_more_of_these_signs_is_a_line_like_others() -> None:
    patch = "*** Begin Patch\n*** Update File: a.sql\n@@\n--- old\n+++ new\n*** End Patch"
    assert list(changed_lines(call("apply_patch", patch=patch))) == [("-", "-- old"), ("+", "++ new")]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[2mCompacted\x1b[22m", "Compacted"),
        ("\x1b[38;5;196mred\x1b[0m \x1b[1;31mbold\x1b[m", "red bold"),
        ("\x1b]8;;https://a.b\x07link\x1b]8;;\x1b\\", "link"),
        ("\x1b[2K\x1b[1Gdone\x1b(B", "done"),
        ("no code: [2m, \x1b", "no code: [2m, \x1b"),
    ],
)
def test_terminal_codes_are_taken_out_of_what_was_written(text: str, plain: str) -> None:
    assert without_terminal_codes(text) == plain


@every(
    ("output", "is_error", "code"),
    [
        ("Exit code 2\nno such file", True, 2),
        ("Exit code: 3", True, 3),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nok", False, 0),
        ("Chunk ID: 8836c7\nWall time: 0.0000 seconds\nProcess exited with code 127\nOutput:\n", True, 127),
        ("child-B-done\n<shellId: 2 completed with exit code 0>", False, 0),
        ("x\n<exited with exit code 5>\n", True, 5),
        ("x: command not found\n\n\nCommand exited with code 127", True, 127),
        # In a compact form blank lines are left out.
        ("x: command not found\nCommand exited with code 127", True, 127),
        ("Output: x: command not found\nExit Code: 127", True, 127),
        # A command that prints such words fails nothing.
        ("Exit code: 1", False, None),
        ("all is well\n\nCommand exited with code 1", False, None),
        ("Output: all is well\nExit Code: 1", False, None),
        ("Output: x\nExit Code: 1\nand on", True, None),
        ("exit code: 1", False, None),
        ("Exit code 1\n", False, None),
        ("all is well\nExit code: 1", False, None),
        ("all is well\nExit code: 1\n", True, None),
        ("Process exited with code 3, said the log", False, None),
        ("EXIT_CODE=4", False, None),
        ("<exited with exit code 5>\nand on", False, None),
        ("Exit code: 99999999999999999999\nWall time: 1", False, None),
    ],
)  # fmt: skip
def test_an_exit_code_stands_where_the_client_puts_it(output: str, is_error: bool, code: int | None) -> None:
    assert exit_code(output, is_error=is_error) == code


def test_a_command_that_prints_an_exit_code_did_not_fail() -> None:
    result = ToolResult(tool_use_id="a", tool=Tool.SHELL, content="Exit code: 1")
    assert (result_facts(result), result_body(result)) == ("ok", "Exit code: 1")
