"""Lines added to files of instructions, as diffs that git applies to the byte."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from backstory.chronicle.proposals import HEADING, unified_diff, with_lines
from tests.support.every import every

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = {
    "none": None,
    "empty": "",
    "one line": "# A\n",
    "no newline at its end": "# A\n\ntext",
    "CRLF": "# A\r\n\r\ntext\r\n",
    "CRLF without one at its end": "# A\r\n\r\ntext",
    "blank lines at its end": "# A\n\n\n\n",
    "our section last": f"# A\n\n{HEADING}\n\n- x\n",
    "our section without a newline": f"# A\n\n{HEADING}\n\n- x",
    "our section alone": HEADING,
    "our section empty": f"{HEADING}\n\n## B\n",
    "our section in the middle": f"# A\n\n{HEADING}\n\n- x\n\n# B\n\ntext\n",
    "long": "".join(f"line {number}\n" for number in range(60)),
    "a mark of the byte order": "\ufeff# A\n",
    "odd separators": "a\x0cb\u2028c\x85d\re\n\x1cf\n",
    "our heading as code": f"```\n{HEADING}\n```\n",
}


@pytest.mark.parametrize("name", ["CLAUDE.md", ".github/copilot-instructions.md", 'a b/Ü "x"\\.md'])
@pytest.mark.parametrize("case", TEXTS)
def test_git_applies_the_diff_to_the_byte(tmp_path: Path, case: str, name: str) -> None:
    before = TEXTS[case]
    after = with_lines(before or "", ["one `x`", "two"])
    path = tmp_path / name
    if before is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(before.encode())
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    diff = unified_diff(name, before, after)
    done = subprocess.run(
        ["git", "-C", str(tmp_path), "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"],
        input=diff.encode(), capture_output=True, env=os.environ | {"HOME": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stderr, diff)
    assert path.read_bytes() == after.encode()


@every("case", [each for each in TEXTS if TEXTS[each]])
def test_all_that_stood_there_stands_there_still(case: str) -> None:
    before = str(TEXTS[case])
    after = with_lines(before, ["one"])
    kept = after.splitlines()
    position = 0
    for line in before.splitlines():
        position = kept.index(line, position) + 1
    assert after.count("- one") == 1


def test_line_ends_of_the_file_are_kept() -> None:
    after = with_lines("# A\r\ntext", ["one", "two"])
    assert after.count("\n") == after.count("\r\n")
    assert "\r" not in with_lines("# A\ntext", ["one"])


def test_lines_join_those_that_were_added_before() -> None:
    once = with_lines("# A\n\n## B\n", ["one"])
    assert with_lines(once, ["two"]) == f"# A\n\n## B\n\n{HEADING}\n\n- one\n- two\n"


def test_a_heading_in_code_is_no_section() -> None:
    assert with_lines(str(TEXTS["our heading as code"]), ["one"]).endswith(f"```\n\n{HEADING}\n\n- one\n")


def test_without_lines_nothing_changes() -> None:
    assert with_lines("# A", []) == "# A"
    assert unified_diff("CLAUDE.md", "# A", "# A") == ""
    assert unified_diff("CLAUDE.md", None, "") == ""
