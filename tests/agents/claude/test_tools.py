"""Answers, calls and results."""

from __future__ import annotations

from backstory.model import (
    AssistantText,
    Plan,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from tests.support.claude_records import (
    PLAN,
    answer,
    assistant,
    only,
    record,
    refused,
    result,
    said,
    user,
)


def test_the_blocks_of_a_record_are_its_parts_in_order() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "/a.py"}}
    what = said(assistant({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I edit."}, call))
    assert [(part, type(event)) for _, part, *_, event in what.events] == [
        (0, Thinking),
        (1, AssistantText),
        (2, ToolCall),
    ]
    assert (only(what, ToolCall).tool, only(what, ToolCall).file_path) == (Tool.EDIT, "/a.py")


def test_a_result_has_the_name_and_the_path_of_its_call() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a.py"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "no"}], "is_error": True}
    found = only(said(assistant(call), user([result])), ToolResult)
    assert (found.tool_name, found.tool, found.file_path) == ("Read", Tool.READ, "/a.py")
    assert (found.content, found.is_error) == ("no", True)


def test_a_search_for_tools_gives_their_names() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "ToolSearch", "input": {"query": "select:Ask,Tell"}}
    named = [{"type": "tool_reference", "tool_name": name} for name in ("Ask", "Tell")]
    given = {"type": "tool_result", "tool_use_id": "t1", "content": named}
    assert only(said(assistant(call), user([given])), ToolResult).content == "Ask\nTell"


def test_a_plan_that_was_put_before_the_user_is_a_plan_too() -> None:
    assert only(said(user("go"), PLAN, result("User has approved your plan.", "t1")), Plan).content == "# Do it"


def test_a_plan_that_the_user_refused_was_put_before_the_user() -> None:
    assert only(said(user("go"), PLAN, refused("smaller, please", "t1")), Plan).content == "# Do it"


def test_a_plan_whose_call_failed_is_none() -> None:
    assert (
        said(user("go"), PLAN, result("ExitPlanMode is disabled for this session", "t1", is_error=True)).all(Plan) == []
    )


def test_a_blank_answer_is_no_event() -> None:
    assert said(user("go"), answer("\n\n"), answer("ok")).all(AssistantText) == [AssistantText(text="ok")]


def test_files_that_a_command_changed_are_told_as_the_client_saw_them() -> None:
    call = assistant({"type": "tool_use", "id": "b1", "name": "Bash", "input": {"command": "make"}})
    diff = {
        "files": [{"filePath": "/w/new.txt", "created": True}, {"filePath": "/w/old.txt", "hunks": []}],
        "moreFiles": 1,
        "changedFiles": ["/w/new.txt", "/w/old.txt", "/w/third.txt"],
    }
    what = said(user("go"), call, result("ok", "b1", toolUseResult={"stdout": "ok", "bashEditDiff": diff}))
    assert only(what, ToolResult).changes == {"/w/new.txt": "create", "/w/old.txt": "edit", "/w/third.txt": "edit"}


def test_two_records_on_a_line_keep_what_the_client_saw_a_command_change() -> None:
    call = assistant({"type": "tool_use", "id": "b1", "name": "Bash", "input": {"command": "make"}})
    diff = {"files": [{"filePath": "/w/new.txt", "created": True}], "changedFiles": ["/w/new.txt"]}
    told = result("ok", "b1", toolUseResult={"stdout": "ok", "bashEditDiff": diff})
    what = said(user("go"), call, told + record("last-prompt"))
    assert only(what, ToolResult).changes == {"/w/new.txt": "create"}
    assert what.unknown == {}
