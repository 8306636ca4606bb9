"""Which edit put a line where it is, by values alone."""

from __future__ import annotations

import pytest

from backstory.derive.authorship import TimedEdit, is_telling, written_by_edits
from backstory.derive.git_values import UNCOMMITTED, BlamedLine, FileChange
from backstory.derive.written_lines import is_generated, is_version, of_path, written_by
from backstory.model import ToolCall
from tests.support.every import every


def edit(at: int, old: str, new: str, **more: object) -> TimedEdit:
    call = ToolCall(
        tool_name="Edit", tool="EDIT", input={"file_path": "a", "old_string": old, "new_string": new, **more}
    )
    (written,) = written_by(call)
    return TimedEdit(at=at, written=written)


def write(at: int, content: str) -> TimedEdit:
    (written,) = written_by(ToolCall(tool_name="Write", tool="WRITE", input={"file_path": "a", "content": content}))
    return TimedEdit(at=at, written=written)


def lines(text: str, commit: str = "c") -> list[BlamedLine]:
    return [
        BlamedLine(number=n, text=line, commit=commit, path="a") for n, line in enumerate(text.split("\n"), 1)
    ]  # fmt: skip


def found(
    text: str, *edits: TimedEdit, authored: int = 10_000, history: tuple[FileChange, ...] = ()
) -> list[int | None]:
    return written_by_edits(lines(text), edits, {"c": authored}, history)


def change(at: int, *, removed: tuple[str, ...], commit: str = "d") -> FileChange:
    return FileChange(
        commit=commit, authored=at, committed=at, path="a", hunks="".join(f"-{each}\n" for each in removed)
    )


def test_a_line_is_the_last_edits_before_its_commit_that_put_it_there() -> None:
    edits = edit(1, "", "alpha = 1"), edit(2, "alpha = 1", "alpha = 2"), edit(20_000, "alpha = 2", "alpha = 3")
    assert found("alpha = 2", *edits) == [1]
    assert found("alpha = 3", *edits) == [None]
    assert found("alpha = 1", *edits) == [None]


def test_a_commit_that_took_the_text_away_ends_it_unless_the_edit_came_later() -> None:
    taken = (change(5_000, removed=("alpha = 1",)),)
    assert found("alpha = 1", edit(1, "", "alpha = 1"), history=taken) == [None]
    assert found("alpha = 1", edit(6_000, "", "alpha = 1"), history=taken) == [0]


def test_the_commit_that_brought_a_line_and_moved_it_took_nothing_away() -> None:
    own = (change(10_000, removed=("alpha = 1",), commit="c"),)
    assert found("alpha = 1", edit(1, "", "alpha = 1"), history=own) == [0]


def test_a_part_of_a_line_is_known_by_the_line_that_the_commit_took_away() -> None:
    taken = (change(10_000, removed=("    total = count * 3",), commit="c"),)
    assert found("    total = count * 4", edit(1, "* 3", "* 4"), history=taken) == [0]
    assert found("    total = count * 4", edit(1, "* 3", "* 4")) == [None]
    assert found("    total = count", edit(1, " * 3", ""), history=taken) == [0]


def test_parts_follow_each_other() -> None:
    edits = edit(1, "", "first = alpha(1)"), edit(2, "alpha", "beta"), edit(3, "(1)", "(2)")
    assert found("first = beta(2)", *edits) == [2]
    assert found("first = beta(1)", *edits[:2]) == [1]


def test_a_text_that_was_replaced_everywhere_is_the_edits_in_every_line() -> None:
    edits = write(1, "use(alpha)\nother\nuse(alpha)\nelse_of(alpha, alpha)"), edit(2, "alpha", "beta", replace_all=True)
    assert found("use(beta)\nother\nuse(beta)\nelse_of(beta, beta)", *edits) == [1, 0, 1, 1]


def test_lines_that_several_edits_wrote_are_the_ones_around_them() -> None:
    one, two = "def first():\n    check_it(all)", "def second():\n    check_it(all)"
    edits = edit(1, "", one), edit(2, "", two)
    assert found(f"{one}\n{two}", *edits) == [0, 0, 1, 1]
    assert found(f"{two}\n{one}", *edits) == [1, 1, 0, 0]


def test_little_lines_need_a_run() -> None:
    edits = (edit(1, "", "}\n\nfunction_two() {\n}"),)
    assert found("}\n\n}", *edits) == [None] * 3
    assert found("}\n\nfunction_two() {\n}\n}", *edits) == [0, 0, 0, 0, None]


def test_what_is_not_committed_is_after_every_edit() -> None:
    edits = (edit(50_000, "", "alpha = 1"),)
    assert written_by_edits(lines("alpha = 1", UNCOMMITTED), edits, {}, ()) == [0]


@every("text", ["", "}", "});", "    else:", "return nil", "} else {", "try:", "---", "end"])
def test_lines_that_say_little(text: str) -> None:
    assert not is_telling(text)


@pytest.mark.parametrize("text", ["return total", "import os", "x = price", "# Why it is so"])
def test_lines_that_say_something(text: str) -> None:
    assert is_telling(text)


PATCH = """*** Begin Patch
*** Add File: a.py
+one
*** Update File: lib/b.py
*** Move to: lib/c.py
@@
 two
-three
+four
*** End Patch"""


@pytest.mark.parametrize(
    "call",
    [
        ToolCall(tool_name="apply_patch", tool="EDIT", input={"patch": PATCH}),
        ToolCall(tool_name="apply_patch", tool="EDIT", input={"input": PATCH}),
        ToolCall(tool_name="shell", tool="SHELL", input={"command": ["bash", "-lc", f"apply_patch <<'E'\n{PATCH}\nE"]}),
        ToolCall(tool_name="exec_command", tool="SHELL", input={"cmd": f"apply_patch <<'E'\n{PATCH}\nE\n"}),
    ],
)
def test_every_agents_patch_has_its_files(call: ToolCall) -> None:
    written = written_by(call)
    added, moved = of_path(written, "/w/a.py"), of_path(written, "/w/lib/c.py")
    assert added is not None and (added.lines, added.is_whole) == ((("+", "one"),), True)
    assert moved is not None and moved.lines == ((" ", "two"), ("-", "three"), ("+", "four"))
    assert of_path(written, "/w/lib/a.txt") is None


@pytest.mark.parametrize(
    "call",
    [
        ToolCall(tool_name="create", tool="WRITE", file_path="/w/a.py", input={"path": "a.py", "file_text": "one\n"}),
        ToolCall(tool_name="write", tool="WRITE", file_path="a.py", input={"path": "a.py", "content": "one\n"}),
        ToolCall(tool_name="MultiEdit", tool="EDIT", file_path="/w/a.py",
                 input={"file_path": "/w/a.py", "edits": [{"old_string": "", "new_string": "one"}]}),
        ToolCall(tool_name="str_replace_editor", tool="EDIT", file_path="/w/a.py",
                 input={"command": "insert", "path": "/w/a.py", "insert_line": 2, "new_str": "one"}),
        ToolCall(tool_name="apply_patch", tool="EDIT",
                 input={"changes": {"/w/a.py": {"type": "add", "content": "one\n"}}}),
    ],
)  # fmt: skip
def test_every_agents_way_to_write_a_file_says_its_lines(call: ToolCall) -> None:
    written = of_path(written_by(call), "/w/a.py")
    assert written is not None
    assert written.lines == (("+", "one"),)


@pytest.mark.parametrize(
    "given", [{}, {"command": "sed -i s/a/b/ a.py"}, {"content": 3}, {"edits": "x"}, {"edits": [3]}]
)
def test_a_call_that_does_not_say_its_lines_says_nothing(given: dict[str, object]) -> None:
    for tool in ("SHELL", "EDIT", "WRITE", "READ"):
        assert written_by(ToolCall(tool_name="x", tool=tool, input=given)) == []


def test_generated_files_by_their_names_and_by_what_they_say() -> None:
    assert is_generated("web/yarn.lock") and is_generated("app.min.css") and is_generated("go.sum")
    assert is_generated("a.go", ["// Code generated by x. DO NOT EDIT."])
    assert is_generated("a.js", ["x" * 2_000])
    assert not is_generated("src/lock.py", ["import os"])
    assert not is_generated("a.py", [*["line"] * 20, "# DO NOT EDIT"])


@pytest.mark.parametrize("text", ["1.2.3", "<version>1.0</version>", "__version__ = '2.0'", "## [1.2.0] - 2026-01-02"])
def test_lines_of_a_new_version(text: str) -> None:
    assert is_version(text)


@pytest.mark.parametrize("text", ["version = parse(text)", "address = '1.2.3.4'", "see version 1.2 of the paper", ""])
def test_lines_that_only_look_like_a_version(text: str) -> None:
    assert not is_version(text)
