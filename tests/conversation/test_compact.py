"""What is kept of an event beside its bytes: the per-tool rules, one by one, with the values others expect."""

from __future__ import annotations

import msgspec
import pytest

from backstory.conversation import compact
from backstory.conversation.compact import compact_event, compact_input, compact_result, lines_of, uncut_event
from backstory.derive import index_text
from backstory.model import (
    AssistantText,
    Compacted,
    Event,
    ModelSwitch,
    Plan,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
    event_from_json,
    event_to_json,
)
from tests.support.every import every


def numbered(count: int, word: str = "line") -> str:
    return "\n".join(f"{word} {n}" for n in range(count))


def kept_of(tool_name: str, content: str, tool: str = "") -> str:
    event = compact_event(ToolResult(tool_name=tool_name, tool=tool, content=content))
    assert isinstance(event, ToolResult)
    return event.content


# results ------------------------------------------------------------------------------------------------------

GOLDEN_RESULTS = [
    ("Read", numbered(100), "line 0\n  (100 lines)\nline 99"),
    ("Bash", "line1\n\nline2\nline3\nline4", "line3\nline4"),
    ("Grep", numbered(10), "line 0\nline 1\nline 2\n  (+7 more)"),
    ("Glob", numbered(5), "5 files"),
    ("Task", numbered(20), "line 0\nline 1\nline 2\nline 3\nline 4\n  (+15 more lines)"),
    ("WebFetch", "a\nb\nc\nd\ne", "a\nb\nc\n  (+2 more)"),
]


@pytest.mark.parametrize(("tool_name", "content", "kept"), GOLDEN_RESULTS, ids=[each[0] for each in GOLDEN_RESULTS])
def test_results_come_out_as_azureal_writes_them(tool_name: str, content: str, kept: str) -> None:
    assert kept_of(tool_name, content) == kept


@pytest.mark.parametrize(("tool_name", "content", "kept"), GOLDEN_RESULTS, ids=[each[0] for each in GOLDEN_RESULTS])
def test_a_tool_may_also_be_spelled_in_lower_case(tool_name: str, content: str, kept: str) -> None:
    assert kept_of(tool_name.lower(), content) == kept


@pytest.mark.parametrize("tool_name", ["READ", "rEad", "ReadFile", "read_file"])
def test_no_other_spelling_means_the_tool(tool_name: str) -> None:
    assert kept_of(tool_name, numbered(10)) == "line 0\nline 1\nline 2\n  (+7 more)"


@pytest.mark.parametrize(
    ("tool", "like"),
    [(Tool.READ, "Read"), (Tool.SHELL, "Bash"), (Tool.GREP, "Grep"), (Tool.GLOB, "Glob"), (Tool.TASK, "Task")],
)
def test_a_tool_of_another_name_follows_the_rule_of_what_it_does(tool: Tool, like: str) -> None:
    assert kept_of("some_other_name", numbered(30), tool) == kept_of(like, numbered(30))


def test_a_known_name_wins_over_what_the_adapter_says_it_does() -> None:
    assert kept_of("Glob", numbered(30), Tool.READ) == "30 files"


@pytest.mark.parametrize("content", ["", "one", "one\ntwo", "one\r\ntwo"])
def test_a_read_of_two_lines_is_kept_as_it_is(content: str) -> None:
    assert kept_of("Read", content) == content


def test_a_read_ends_with_its_last_line_that_says_something() -> None:
    assert kept_of("Read", "first\nmiddle\nlast\n \t\n\u2003\n.") == "first\n  (6 lines)\n."
    assert kept_of("Read", "first\n\n  \nlast\n\n\n") == "first\n  (4 lines)\nlast"


def test_a_command_without_output_leaves_nothing() -> None:
    assert kept_of("Bash", "\n \n\t\n") == ""


def test_a_command_of_one_line_leaves_that_line() -> None:
    assert kept_of("Bash", "done\n") == "done"


def test_a_search_of_three_lines_is_kept_as_it_is() -> None:
    assert kept_of("Grep", "a\nb\nc") == "a\nb\nc"
    assert kept_of("Grep", "a\nb\nc\n\n") == "a\nb\nc"


def test_a_search_of_four_lines_says_that_one_is_left_out() -> None:
    assert kept_of("Grep", "a\nb\nc\nd") == "a\nb\nc\n  (+1 more)"


@pytest.mark.parametrize(("content", "kept"), [("", "0 files"), ("No files found", "1 files"), ("a\nb\n", "2 files")])
def test_a_listing_is_always_counted(content: str, kept: str) -> None:
    assert kept_of("Glob", content) == kept


def test_a_helpers_answer_of_five_lines_is_kept_as_it_is() -> None:
    assert kept_of("Task", numbered(5)) == numbered(5)


def test_a_helper_called_agent_is_kept_like_any_other_tool() -> None:
    assert kept_of("Agent", numbered(6)) == "line 0\nline 1\nline 2\n  (+3 more)"


@pytest.mark.parametrize("tool_name", ["Edit", "Write", "WebSearch", "LSP", "TodoWrite", "mcp__server__tool", ""])
def test_all_other_results_leave_three_lines(tool_name: str) -> None:
    assert kept_of(tool_name, numbered(8)) == "line 0\nline 1\nline 2\n  (+5 more)"


def test_everything_from_a_reminder_on_is_dropped() -> None:
    assert kept_of("Read", "a\nb\n\n<system-reminder>be good</system-reminder>\nc\nd") == "a\nb"


CODEX = "Chunk ID: 4d9db0\nWall time: 0.3796 seconds\nProcess exited with code {}\nOriginal token count: 7\nOutput:\n{}"


@every(
    ("tool", "content", "kept"),
    [
        (Tool.SHELL, CODEX.format(0, ""), ""),
        (Tool.SHELL, CODEX.format(0, "calc.py\n"), "calc.py"),
        (Tool.SHELL, CODEX.format(1, ""), "Process exited with code 1"),
        (
            Tool.SHELL,
            "Chunk ID: 1\nWall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\nstarted\n",
            "Process running with session ID 7\nstarted",
        ),
        (
            Tool.EDIT,
            "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess. Updated:\nA calc.py\n",
            "Success. Updated:\nA calc.py",
        ),
        (Tool.EDIT, "Exit code: 2\nWall time: 0 seconds\nOutput:\nno", "Exit code: 2\nno"),
        (Tool.OTHER, "Script completed\nWall time 0.1 seconds\nOutput:\n\nnotes.txt\n", "notes.txt"),
        (Tool.OTHER, "Script failed\nWall time 0.0 seconds\nOutput:\n\nError: boom", "Script failed\nError: boom"),
        (Tool.OTHER, 'Wall time: 0.0021 seconds\nOutput:\n{"sum":5}', '{"sum":5}'),
        (Tool.SHELL, "one\n<shellId: 0 completed with exit code 0>", "one"),
        (Tool.SHELL, "<shellId: cmd-echo completed with exit code 0>", ""),
        (
            Tool.SHELL,
            "one\n<shellId: 0 completed with exit code 3>",
            "one\n<shellId: 0 completed with exit code 3>",
        ),
        (
            Tool.SHELL,
            "<persisted-output>\nOutput too large (30KB). Full output saved to: /a.txt\n\nPreview (first 2KB):\n"
            "first\nsecond\nthird\n...\n</persisted-output>",
            "Output too large (30KB). Full output saved to: /a.txt\nfirst",
        ),
        (Tool.EDIT, "<tool_use_error>File does not exist.</tool_use_error>", "File does not exist."),
    ],
)
def test_what_an_agent_puts_around_an_output_is_no_part_of_it(tool: Tool, content: str, kept: str) -> None:
    assert kept_of("some_tool", content, tool) == kept


@pytest.mark.parametrize(
    "content", ["Output:\nas a program wrote it", "Wall time: 3 seconds", "Exit code: 0\nOutput:\nits own words"]
)
def test_words_of_a_program_that_look_a_little_alike_stay(content: str) -> None:
    assert kept_of("Bash", content) == "\n".join(content.split("\n")[-2:])


def test_the_blanks_at_the_end_are_dropped_whatever_they_are_in_unicode() -> None:
    assert kept_of("Edit", "done \u2003\u00a0\u3000\u0085\r\n") == "done"


def test_separators_that_only_python_calls_blank_are_content() -> None:
    assert kept_of("Edit", "done\x1c\x1f") == "done\x1c\x1f"
    assert kept_of("Bash", "one\n\x1d\nthree") == "\x1d\nthree"


def test_lines_end_at_newlines_only() -> None:
    assert kept_of("Glob", "a\x0bb\x0cc\u2028d\x85e\rf") == "1 files"


def test_windows_line_ends_are_dropped_where_lines_are_picked() -> None:
    assert kept_of("Grep", "a\r\nb\r\nc\r\nd\r\ne") == "a\nb\nc\n  (+2 more)"
    assert kept_of("Bash", "a\r\n\r\nb\r\nc") == "b\nc"
    assert kept_of("Read", "a\r\nb\r\nc\r\n") == "a\n  (3 lines)\nc"


def test_a_long_line_is_not_cut() -> None:
    assert kept_of("Bash", "x" * 1_000_000) == "x" * 1_000_000


def test_what_else_a_result_says_stays() -> None:
    result = ToolResult(tool_use_id="t1", tool_name="Grep", file_path="/a", content=numbered(9), is_error=True)
    kept = compact_event(result)
    assert isinstance(kept, ToolResult)
    assert (kept.tool_use_id, kept.tool_name, kept.file_path, kept.is_error) == ("t1", "Grep", "/a", True)


@pytest.mark.parametrize("tool_name", ["Read", "Grep", "Glob", "Task", "WebFetch"])
def test_a_second_pass_would_count_the_marker_so_only_one_is_made(tool_name: str) -> None:
    once = kept_of(tool_name, numbered(20))
    assert kept_of(tool_name, once) != once


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\r\r\nb", ["a\r", "b"]),
    ],
)
def test_lines_are_counted_as_the_rules_count_them(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines


# inputs -------------------------------------------------------------------------------------------------------

EVERYTHING = {
    "file_path": "/f", "path": "/p", "command": "make", "cmd": "ls", "query": "q", "pattern": "*.py", "url": "http://h",
    "subagent_type": "explore", "description": "look", "prompt": "long", "operation": "hover", "filePath": "/l",
    "offset": 3, "limit": 4, "old_string": "a", "new_string": "b",
}  # fmt: skip

KEPT_FIELDS = [
    ("Read", ["file_path", "path"]),
    ("Glob", ["pattern"]),
    ("Grep", ["pattern"]),
    ("WebFetch", ["url"]),
    ("WebSearch", ["query"]),
    ("Agent", ["subagent_type", "description"]),
    ("Task", ["subagent_type", "description"]),
    ("LSP", ["operation", "filePath"]),
    ("MultiEdit", ["file_path", "path", "command", "query", "pattern"]),
]


@every(("tool_name", "fields"), KEPT_FIELDS, ids=[each[0] for each in KEPT_FIELDS])
def test_an_input_is_reduced_to_its_key_fields(tool_name: str, fields: list[str]) -> None:
    assert compact_input(tool_name, "", EVERYTHING) == {name: EVERYTHING[name] for name in fields}


@every("tool_name", [name for name, _ in KEPT_FIELDS[:-1]] + ["Bash", "Edit", "Write"])
def test_the_input_of_a_lower_case_tool_is_reduced_alike(tool_name: str) -> None:
    assert compact_input(tool_name.lower(), "", EVERYTHING) == compact_input(tool_name, "", EVERYTHING)


def test_of_a_command_only_the_command_is_kept() -> None:
    assert compact_input("Bash", "", {"command": "make", "timeout": 5, "description": "d"}) == {"command": "make"}


@pytest.mark.parametrize("tool_name", ["TodoWrite", "AskUserQuestion", "NotebookEdit"])
def test_an_input_without_a_key_field_leaves_nothing(tool_name: str) -> None:
    assert compact_input(tool_name, "", {"todos": [1, 2], "notebook_path": "/n"}) == {}


@pytest.mark.parametrize("given", [None, "text", 3, ["command"], True])
def test_an_input_that_is_no_object_becomes_an_empty_one(given: object) -> None:
    assert compact_input("Edit", "", given) == {}


def test_an_edit_is_kept_in_full() -> None:
    edit = {"file_path": "/f", "old_string": "a\nb", "new_string": "c", "replace_all": True, "extra": [1]}
    assert compact_input("Edit", "", edit) == edit
    assert compact_input("apply_patch", Tool.EDIT, {"patch": "*** Begin"}) == {"patch": "*** Begin"}


def test_what_is_written_is_summed_up() -> None:
    given = {"file_path": "/f.py", "content": "import os\n\n# What it is for.\nx = 1\n"}
    assert compact_input("Write", "", given) == {"file_path": "/f.py", "_lines": 4, "_purpose": "# What it is for."}


@pytest.mark.parametrize("start", ["// why", "# why", "/* why */", '"""why"""'])
def test_the_first_comment_tells_the_purpose_of_what_is_written(start: str) -> None:
    assert compact_input("Write", "", {"content": f"x\r\n  {start}\u2003\ny"}) == {"_lines": 3, "_purpose": start}


def test_without_a_comment_the_first_line_tells_it() -> None:
    assert compact_input("Write", "", {"content": "  hello \nworld"}) == {"_lines": 2, "_purpose": "hello"}


def test_nothing_tells_the_purpose_of_an_empty_first_line() -> None:
    assert compact_input("Write", "", {"content": "\nhello"}) == {"_lines": 2}
    assert compact_input("Write", "", {"content": ""}) == {"_lines": 0}


def test_a_write_without_text_keeps_its_path() -> None:
    assert compact_input("Write", "", {"path": "/p", "content": [1]}) == {"file_path": "/p"}
    assert compact_input("Write", "", {"file_path": "/f", "path": "/p"}) == {"file_path": "/f"}


def test_the_path_of_a_call_survives_its_input() -> None:
    kept = compact_event(ToolCall(tool_use_id="t", tool_name="TodoWrite", file_path="/f", input={"todos": []}))
    assert kept == ToolCall(tool_use_id="t", tool_name="TodoWrite", file_path="/f", input={})


def test_the_event_given_is_left_as_it_was() -> None:
    given = {"command": "make", "timeout": 5}
    call = ToolCall(tool_name="Bash", input=given)
    compact_event(call)
    assert call.input == {"command": "make", "timeout": 5}


@pytest.mark.parametrize(
    "event",
    [
        UserMessage(content=numbered(50)),
        AssistantText(text=numbered(50)),
        Thinking(text="x" * compact.THOUGHT_CHARS),
        Plan(name="plan", content=numbered(50)),
        Compacted(summary=numbered(50)),
    ],
    ids=lambda event: event.kind,
)
def test_all_other_events_are_kept_whole(event: Event) -> None:
    assert compact_event(event) == event


def test_of_a_long_thought_the_beginning_is_kept() -> None:
    thought = Thinking(text="x" * (compact.THOUGHT_CHARS + 1))
    assert compact_event(thought) == Thinking(text="x" * compact.THOUGHT_CHARS + "…")


# what others read ---------------------------------------------------------------------------------------------


def test_a_prompt_is_written_as_azureal_writes_it() -> None:
    prompt = UserMessage(content="hello")
    assert event_to_json(prompt) == b'{"UserMessage":{"content":"hello"}}'
    assert index_text.char_len(prompt) == 5


def test_a_model_switch_is_written_as_azureal_writes_it() -> None:
    assert event_to_json(ModelSwitch(model="opus")) == b'{"ModelSwitch":{"model":"opus"}}'


def test_what_azureal_wrote_can_be_read() -> None:
    written = b'{"ToolResult":{"tool_use_id":"t1","tool_name":"Bash","file_path":null,"content":"ok","is_error":false}}'
    assert event_from_json(written) == ToolResult(tool_use_id="t1", tool_name="Bash", content="ok")


def test_the_compact_form_is_smaller_than_a_kilobyte_for_a_file_of_a_megabyte() -> None:
    result = ToolResult(tool_name="Read", content=numbered(100_000))
    assert len(msgspec.json.encode(compact_event(result))) < 1_000


def test_the_rules_know_every_name_twice() -> None:
    names = compact._RULE_OF_NAME
    assert all(names[name.lower()] == names[name] for name in names)


def test_a_result_that_needs_no_cut_is_not_copied() -> None:
    result = ToolResult(tool_name="Edit", content="ok")
    assert compact_event(result) is result
    assert compact_result("Edit", "", result.content) is result.content


# the whole again ----------------------------------------------------------------------------------------------

CUT = [
    ToolResult(tool_name="Bash", tool="SHELL", content=numbered(40)),
    ToolResult(tool_name="Read", tool="READ", content=numbered(40), is_error=True),
    ToolCall(tool_name="Grep", tool="GREP", input={"pattern": "flange", "output_mode": "content"}),
    Thinking(text="flange " * 100),
]


def record_of(event: Event) -> bytes:
    """A record as an agent may write it: with another text of the same length, and the event twice."""
    told = msgspec.to_builtins(event)
    other = {"text": "x" * index_text.char_len(event)}
    return msgspec.json.encode({"id": 7, "message": {"content": [other, told]}, "result": told})


@pytest.mark.parametrize("event", CUT, ids=lambda event: event.kind)
def test_a_cut_event_is_found_whole_in_its_record(event: Event) -> None:
    compacted = compact_event(event)
    assert compacted != event
    assert uncut_event(compacted, index_text.char_len(event), record_of(event)) == event


@pytest.mark.parametrize("record", [b"", b"no JSON", b'"\xff"', b"[" * 100_000, b'{"content":"else"}'])
def test_what_is_not_in_one_piece_in_the_record_is_for_the_agent_to_say(record: bytes) -> None:
    assert uncut_event(compact_event(CUT[0]), index_text.char_len(CUT[0]), record) is None


def test_an_output_that_is_in_a_file_is_for_the_agent_to_say() -> None:
    event = ToolResult(tool_name="Bash", content="<persisted-output>\nOutput too large (9KB)\n\nPreview:\none\ntwo\n")
    assert compact_event(event) != event
    assert uncut_event(compact_event(event), index_text.char_len(event), record_of(event)) is None


def test_kinds_that_are_kept_whole_are_not_looked_for() -> None:
    event = UserMessage(content="flange")
    assert uncut_event(event, 6, record_of(event)) is None
