"""Which file of a repository is added to, by the agents that are used there and the files that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.errors import InstructionsNotText, NoRepository
from backstory.workspace.clients.instructions import instructions_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a repository without instructions."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "src").mkdir()
    return tmp_path / "repo"


@pytest.mark.parametrize(
    ("used", "there", "expected"),
    [
        ([("codex",)], [], "AGENTS.md"),
        ([("claude",)], [], "CLAUDE.md"),
        ([("copilot",)], [], ".github/copilot-instructions.md"),
        ([("claude",), ("codex",), ("codex", "claude"), ("codex",)], [], "AGENTS.md"),
        ([("claude",)], ["AGENTS.md"], "AGENTS.md"),
        ([("claude",)], ["AGENTS.md", "CLAUDE.md"], "CLAUDE.md"),
        ([("codex",)], ["AGENTS.md", "CLAUDE.md"], "AGENTS.md"),
        ([("copilot",)], ["AGENTS.md", "CLAUDE.md"], "AGENTS.md"),
        ([("azureal",), ("nobody",)], ["CLAUDE.md"], "CLAUDE.md"),
    ],
)
def test_the_file_is_that_of_the_agent_used_most(
    root: Path, used: list[tuple[str, ...]], there: list[str], expected: str
) -> None:
    for name in there:
        (root / name).write_text("# Here\n")
    found = instructions_of(root / "src", used)
    assert found.file.name == expected
    assert ("it is there" in found.why) is bool(there)


def test_a_file_is_named_from_where_the_person_is(root: Path) -> None:
    found = instructions_of(root / "src", [], "CLAUDE.md")
    assert (found.file.name, found.why) == ("src/CLAUDE.md", "you named it")


def test_what_stands_in_the_others_is_known_unless_nobody_can_read_it(root: Path) -> None:
    (root / "AGENTS.md").write_text("one\n")
    (root / "CLAUDE.md").write_text("two\n")
    (root / ".github").mkdir()
    (root / ".github" / "copilot-instructions.md").write_bytes(b"\xff")
    assert {"one\n", "two\n"} <= set(instructions_of(root, [("claude",)]).texts)


def test_a_file_that_is_no_text_is_refused(root: Path) -> None:
    (root / "AGENTS.md").write_bytes(b"\xff")
    with pytest.raises(InstructionsNotText):
        instructions_of(root, [("codex",)])


def test_a_folder_without_git_has_none(tmp_path: Path) -> None:
    with pytest.raises(NoRepository):
        instructions_of(tmp_path, [("codex",)])
