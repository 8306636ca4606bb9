"""Which files an event touched: from tools' inputs, patches and shell commands, as their records say."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.derive.deriver import Deriver
from backstory.derive.file_touches import Touch, place, resolve_touches, touches
from backstory.model import KINDS, At, Tool, ToolCall, ToolResult, UserMessage
from tests.support.every import every

PATCH = """*** Begin Patch
*** Add File: docs/new.md
+# New
+*** Delete File: not/a/header
*** Update File: src/a.py
@@
-old
+new
*** Update File: src/b.py
*** Move to: src/c.py
@@
 same
*** Delete File: old name.txt
*** End Patch
*** Delete File: after/the/end
"""
AT = At(seq=1, part=0, turn_uid=None, at=None)
PATCHED = [("create", "docs/new.md"), ("edit", "src/a.py"), ("rename", "src/b.py"), ("delete", "old name.txt")]


def call(name: str, given: Any, tool: str = "", path: str | None = None) -> ToolCall:
    return ToolCall(tool_use_id="1", tool_name=name, tool=tool, file_path=path, input=given)


def shell(command: Any, **more: Any) -> ToolCall:
    return call("Bash", {"command": command, **more}, Tool.SHELL)


def told(event: ToolCall, cwd: str | None = None) -> list[tuple[str, str]]:
    return [(each.action, each.path) for each in touches(event, cwd)]


TOOLS = [
    (call("Read", {"file_path": "/a.py", "offset": 3}, Tool.READ), [("read", "/a.py")]),
    (call("Edit", {"file_path": "/a.py", "old_string": "x", "new_string": "y"}, Tool.EDIT), [("edit", "/a.py")]),
    (call("MultiEdit", {"file_path": "/a.py", "edits": [{"old_string": "x"}]}, Tool.EDIT), [("edit", "/a.py")]),
    (call("Write", {"file_path": "/a.py", "content": "x"}, Tool.WRITE), [("edit", "/a.py")]),
    (call("NotebookEdit", {"notebook_path": "/a.ipynb", "edit_mode": "delete"}, Tool.EDIT), [("edit", "/a.ipynb")]),
    (call("view", {"path": "/a.py"}), [("read", "/a.py")]),
    (call("create", {"path": "/a.py", "file_text": "x"}), [("create", "/a.py")]),
    (call("edit", {"path": "/a.py", "old_str": "x", "new_str": "y"}), [("edit", "/a.py")]),
    (call("str_replace_editor", {"command": "view", "path": "/a.py"}), [("read", "/a.py")]),
    (call("str_replace_editor", {"command": "create", "path": "/a.py"}), [("create", "/a.py")]),
    (call("str_replace_based_edit_tool", {"command": "str_replace", "path": "/a"}), [("edit", "/a")]),
    (call("str_replace_editor", {"command": "unheard-of", "path": "/a.py"}), []),
    (call("write_file", {"absolute_path": "/a.py"}), [("edit", "/a.py")]),
    (call("edit", {"filePath": "a.py"}), [("edit", "a.py")]),
    (call("delete_file", {"target_file": "a.py"}), [("delete", "a.py")]),
    (call("read_many_files", {"paths": ["a.py", "b/*.py", "c.py"]}), [("read", "a.py"), ("read", "c.py")]),
    (
        call("edit", {"edits": [{"path": "a.py"}, {"path": "b.py"}, {"path": "a.py"}]}),
        [("edit", "a.py"), ("edit", "b.py")],
    ),
    (call("mcp__filesystem__read_text_file", {"path": "a.py"}), [("read", "a.py")]),
    (call("mcp__notes__create", {"path": "a.py"}), []),
    (call("mcp__forge__delete_file", {"owner": "o", "repo": "r", "path": "a.py"}), []),
    (call("Grep", {"pattern": "x", "path": "/src"}, Tool.GREP), []),
    (call("Task", {"prompt": "x", "path": "/src"}, Tool.TASK), []),
    (call("Read", {"file_path": "https://example.com/a.py"}, Tool.READ), []),
    (call("Read", {"uri": "file:///a.py"}, Tool.READ), [("read", "file:///a.py")]),
    (call("Read", {"file_path": ""}, Tool.READ), []),
    (call("Read", {}, Tool.READ, path="/a.py"), [("read", "/a.py")]),
    (call("Read", None, Tool.READ), []),
    (call("apply_patch", {"patch": PATCH}, Tool.EDIT), PATCHED),
    (call("apply_patch", {"input": PATCH}), PATCHED),
    (call("apply_patch", PATCH), PATCHED),
    (call("apply_patch", {"patch": PATCH.replace("\n", "\r\n")}, Tool.EDIT), PATCHED),
    (
        call("apply_patch", {"changes": [{"path": "/a", "kind": "add"}, {"path": "/b", "kind": {"type": "update"}}]}),
        [("create", "/a"), ("edit", "/b")],
    ),
    (
        call("apply_patch", {"changes": {"/a": {"type": "delete"}, "/b": {"type": "update", "move_path": None}}}),
        [("delete", "/a"), ("edit", "/b")],
    ),
    (call("edit", {"fileEdits": [{"path": "/a", "kind": "create"}]}), [("create", "/a")]),
]


@every(("event", "expected"), TOOLS)
def test_a_tool_tells_what_it_touches(event: ToolCall, expected: list[tuple[str, str]]) -> None:
    assert told(event) == expected


@every(
    ("event", "to"),
    [
        (call("apply_patch", {"patch": PATCH}, Tool.EDIT), "src/c.py"),
        (call("apply_patch", {"changes": {"src/b.py": {"type": "update", "move_path": "src/c.py"}}}), "src/c.py"),
        (call("mcp__filesystem__move_file", {"source": "src/b.py", "destination": "src/c.py"}), "src/c.py"),
        (shell("git mv src/b.py src/c.py"), "src/c.py"),
        (shell("mv -f src/b.py src/c.py"), "src/c.py"),
        (shell("mv src/b.py lib/"), "lib/b.py"),
        (shell("mv src/b.py src/a.py lib"), "lib/b.py"),
        (shell("mv -t lib src/b.py"), "lib/b.py"),
        (shell("mv src/b.py lib"), None),
        (shell("mv src/b.py $LIB"), None),
    ],
)
def test_a_rename_tells_the_new_path_where_it_is_sure(event: ToolCall, to: str | None) -> None:
    (renamed,) = [each for each in touches(event) if each.path == "src/b.py"]
    assert (renamed.action, renamed.to) == ("rename", to)


COMMANDS = [
    ("cat a.py b.py", [("read", "a.py"), ("read", "b.py")]),
    ("cat -n a.py | head -20", [("read", "a.py")]),
    ("head -n 5 a.py; tail -20 b.py; tail -c 3 c.py", [("read", "a.py"), ("read", "b.py"), ("read", "c.py")]),
    ("sed -n '1,20p' a.py", [("read", "a.py")]),
    ("sed -n -e 1p -e 2p a.py", [("read", "a.py")]),
    ("sed -i 's/a/b/' a.py b.py", [("edit", "a.py"), ("edit", "b.py")]),
    ("sed -i '' -e 's/a/b/' a.py", [("edit", "a.py")]),
    ("sed -i .bak 's/a/b/' a.py", [("edit", "a.py")]),
    ('sed -Ei.bak "s/$A/b/" a.py', [("edit", "a.py")]),
    ("x | sed -i s/a/b/ a.py", [("edit", "a.py")]),
    ("rm -rf build a.py", [("delete", "build"), ("delete", "a.py")]),
    ("rm -- -a", [("delete", "-a")]),
    ("git rm -q a.py", [("delete", "a.py")]),
    ("git rm --cached a.py", []),
    ("git -C sub rm a.py", [("delete", "sub/a.py")]),
    ("git -C $X rm a.py", []),
    ("cp a.py b.py", [("read", "a.py"), ("edit", "b.py")]),
    ("cp a.py lib", [("read", "a.py")]),
    ("cp a.py lib/", [("read", "a.py"), ("edit", "lib/a.py")]),
    ("cp -r a lib/", []),
    ("touch -d now a.py", [("edit", "a.py")]),
    ("make | tee -a log.txt", [("edit", "log.txt")]),
    ("echo x > a.txt; echo y >> b.txt", [("edit", "a.txt"), ("edit", "b.txt")]),
    ("make > /dev/null 2>&1", []),
    ("make 2> err.txt", [("edit", "err.txt")]),
    ("sort < in.txt > 'out file.txt'", [("read", "in.txt"), ("edit", "out file.txt")]),
    ("cat > a.py <<'EOF'\nrm b.py\n> c.py\nEOF\nrm d.py", [("edit", "a.py"), ("delete", "d.py")]),
    ("cd sub && cat a.py && cat /b.py", [("read", "sub/a.py"), ("read", "/b.py")]),
    ("cd $SUB && cat a.py /b.py", [("read", "/b.py")]),
    ("cat *.py $A a.py", [("read", "a.py")]),
    ("cat - < a.py", [("read", "a.py")]),
    ("test -f a || touch a", []),
    ("for f in a b; do rm x; done", []),
    ("echo rm a.py '> b.py'", []),
    ("ssh host cat a.py", []),
    ("git commit -m \"$(cat <<'EOF'\nrm a > b\nEOF\n)\"", []),
    ("git log --format='%an <%ae>' | head -5", []),
    (f"cd sub && apply_patch <<'EOF'\n{PATCH}EOF\n", [(action, f"sub/{path}") for action, path in PATCHED]),
    (f"cat > doc.md <<'EOF'\n{PATCH}EOF\n", [("edit", "doc.md")]),
    (["bash", "-lc", "cat 'a b.py'"], [("read", "a b.py")]),
    (["apply_patch", PATCH], PATCHED),
    ("rm 'not closed", []),
]


@every(("command", "expected"), COMMANDS)
def test_a_shell_command_tells_only_what_is_sure(command: Any, expected: list[tuple[str, str]]) -> None:
    assert told(shell(command)) == expected


def test_the_tool_is_named_as_the_log_names_it() -> None:
    assert touches(shell("rm a.py")) == [Touch("a.py", "delete", "Bash", None)]


def test_a_call_that_ran_elsewhere_is_joined_to_where_it_ran() -> None:
    assert told(shell("cat a.py", workdir="/w/sub"), cwd="/w") == [("read", "/w/sub/a.py")]
    assert told(shell("cat a.py", workdir="/w"), cwd="/w") == [("read", "a.py")]


def test_another_shells_backslashes_are_left_alone() -> None:
    assert told(call("powershell", {"command": r"cat .\src\a.py"}, Tool.SHELL)) == []


def test_only_calls_touch_files() -> None:
    assert touches(UserMessage(content="rm a.py")) == []
    assert touches(ToolResult(tool_name="Read", tool=Tool.READ, file_path="/a.py", content="x")) == []


WRITE = call("Write", {"file_path": "/a.py"}, Tool.WRITE)
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected"
SETTLED = [
    (WRITE, "File created successfully at: /a.py", False, [("create", "/a.py")]),
    (WRITE, "The file /a.py has been updated. Here's the result", False, [("edit", "/a.py")]),
    (WRITE, "Created file /a.py with 10 characters", False, [("create", "/a.py")]),
    (WRITE, "Successfully created and wrote to new file: /a.py", False, [("create", "/a.py")]),
    (WRITE, "Successfully overwrote file: /a.py", False, [("edit", "/a.py")]),
    (WRITE, "no space left", True, []),
    (call("create", {"path": "/a.py"}), "The file /a.py has been overwritten", False, [("edit", "/a.py")]),
    (call("Read", {"file_path": "/a"}, Tool.READ), "Created file x", False, [("read", "/a")]),
    (call("Read", {"file_path": "/a"}, Tool.READ), "File does not exist.", True, []),
    (shell("rm a.py"), "", False, [("delete", "a.py")]),
    (shell("rm a.py"), "Exit code 1\nrm: cannot remove 'a.py': No such file or directory", True, []),
    (shell("rm a.py"), REFUSED, True, []),
    (shell("sed -i s/a/b/ a.py && make"), "Exit code 2\nmake: *** failed", True, [("edit", "a.py")]),
    (shell("rm a.py && make"), "x" * 999 + "\n<exited with exit code 2>", True, [("delete", "a.py")]),
    (shell("make > log.txt"), "Exit code 2", True, [("edit", "log.txt")]),
    (shell("cat a.py b.py; true"), "cat: a.py: No such file or directory\nx", False, [("read", "b.py")]),
    (shell("echo > a/b && stat a/b"), "Exit code 1\nstat: a/b: No such file or directory", True, [("edit", "a/b")]),
    (shell("echo > a/b; true"), "bash: a/b: No such file or directory", False, []),
    (shell("cat a.py; ls b"), "ls: cannot access 'b': No such file or directory", False, [("read", "a.py")]),
]


@every(("event", "content", "is_error", "expected"), SETTLED)
def test_a_result_settles_what_its_call_touched(
    event: ToolCall, content: str, is_error: bool, expected: list[tuple[str, str]]
) -> None:
    result = ToolResult(content=content, is_error=is_error)
    assert [(each.action, each.path) for each in resolve_touches(event, result)] == expected


PLACES = [
    ("a.py", "/w", "/w", ("/w/a.py", "a.py")),
    ("/w/src/a.py", "/w", "/w", ("/w/src/a.py", "src/a.py")),
    ("../a.py", "/w/src", "/w", ("/w/a.py", "a.py")),
    ("./a/./b//c/../d", "/w", "/w", ("/w/a/b/d", "a/b/d")),
    ("../../../../etc/x", "/w", "/w", ("/etc/x", None)),
    ("/wide/a.py", "/w", "/w", ("/wide/a.py", None)),
    ("/w", "/w", "/w", ("/w", ".")),
    ("/a.py", "/", "/", ("/a.py", "a.py")),
    ("//w//a.py", None, "/w/", ("/w/a.py", "a.py")),
    ("a.py", "/w", None, ("/w/a.py", None)),
    ("src/../a.py", None, "/w", ("a.py", None)),
    ("~/a.py", "/home/me/w", "/home/me", ("/home/me/a.py", "a.py")),
    ("~", "/Users/me", None, ("/Users/me", None)),
    ("~/a.py", "/srv/w", "/srv/w", ("~/a.py", None)),
    ("file:///w/a%20b.py", None, "/w", ("/w/a b.py", "a b.py")),
    ("file://localhost/w/a.py", "/x", "/w", ("/w/a.py", "a.py")),
    ("file:///c:/w/a.py", None, "C:\\w", ("C:/w/a.py", "a.py")),
    ("file://server/share/a.py", None, "\\\\server\\share", ("//server/share/a.py", "a.py")),
    ("C:\\w\\src\\..\\a.py", None, "c:/w", ("C:/w/a.py", "a.py")),
    ("src\\a.py", "C:\\W", "c:\\w", ("C:/W/src/a.py", "src/a.py")),
    ("src/a.py", "C:/w", "C:/w", ("C:/w/src/a.py", "src/a.py")),
    ("/c/w/a.py", "C:\\w", "C:\\w", ("C:/w/a.py", "a.py")),
    ("~\\a.py", "C:\\Users\\me\\w", "C:\\Users\\me", ("C:/Users/me/a.py", "a.py")),
    ("\\\\?\\C:\\w\\a.py", None, "C:\\w", ("C:/w/a.py", "a.py")),
    ("D:\\a.py", "C:\\w", "C:\\w", ("D:/a.py", None)),
    ("a\\b.py", "/w", "/w", ("/w/a\\b.py", "a\\b.py")),
    ("", "/w", "/w", ("/w", ".")),
]


@every(("path", "cwd", "root", "expected"), PLACES)
def test_a_path_has_one_place(path: str, cwd: str | None, root: str | None, expected: tuple[str, str | None]) -> None:
    assert place(path, cwd, root) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(
        ["path", "file_path", "command", "cmd", "patch", "changes", "edits", "kind", "to", "cwd", "input", "files"]
    ), inner),
    max_leaves=8,
)  # fmt: skip
NAMES = st.sampled_from(["Read", "Edit", "Write", "Bash", "apply_patch", "str_replace_editor", "move_file", "x", ""])


@given(NAMES, st.sampled_from([*map(str, Tool), ""]), JSON, st.text(), st.booleans())
def test_no_input_is_a_fault(name: str, tool: str, given_: Any, content: str, is_error: bool) -> None:
    event = call(name, given_, tool)
    told_of = touches(event, "/w")
    assert all(each.path for each in told_of)
    assert {each.path for each in resolve_touches(event, ToolResult(content=content, is_error=is_error), "/w")} <= {
        each.path for each in told_of
    }


@given(st.text(), st.none() | st.text(), st.none() | st.text())
def test_no_path_is_a_fault_and_a_place_is_its_own(path: str, cwd: str | None, root: str | None) -> None:
    absolute, relative = place(path, cwd, root)
    assert relative is None or (root is not None and absolute.endswith(relative if relative != "." else ""))


@given(st.lists(st.sampled_from(["a", "b", "..", ".", ""]), max_size=6).map("/".join))
def test_what_lies_below_the_root_is_found_from_it_again(path: str) -> None:
    absolute, relative = place(path, "/w/x", "/w")
    assert relative is None or place(relative, "/w", "/w") == (absolute, relative)


def test_every_kind_of_event_may_be_asked() -> None:
    assert "ToolCall" in KINDS
    assert touches(ToolCall(tool_name="")) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["rm a;" * 300_000, "cat <<E\n" * 300_000, "> " * 1_500_000, "x" * 12_000_000])
def test_a_command_of_megabytes_takes_linear_time(command: str) -> None:
    begun = time.process_time()
    touches(shell(command))
    assert time.process_time() - begun < 1.5


def test_what_the_agent_saw_a_command_change_counts_instead_of_what_the_command_seems_to_do() -> None:
    call = ToolCall(
        tool_name="Bash", tool="SHELL", input={"command": "cat in.txt; python3 gen.py > out.txt; mv a.py b.py"}
    )
    changes = {"/w/out.txt": "create", "/w/made.txt": "create", "/w/a.py": "delete", "/w/b.py": "create"}
    told = resolve_touches(call, ToolResult(content="", changes=changes), "/w")
    assert [(each.action, each.path, each.to) for each in told] == [
        ("read", "in.txt", None), ("rename", "a.py", "b.py"),
        ("create", "/w/out.txt", None), ("create", "/w/made.txt", None),
    ]  # fmt: skip


def test_the_newest_two_hundred_calls_wait_for_their_results() -> None:
    deriver = Deriver()
    for n in range(201):
        deriver.take(ToolCall(tool_use_id=str(n), tool_name="Read", tool=Tool.READ, file_path=f"{n}.py"), AT, None)
    for n in (0, 1, 200):
        deriver.take(ToolResult(tool_use_id=str(n), content="text"), AT, None)
    assert [each.path for each in deriver.cut(None).touches] == ["1.py", "200.py"]
