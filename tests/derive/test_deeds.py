"""What commands of agents do that a person would report."""

from __future__ import annotations

import pytest

from backstory.derive.deeds import DeedKind, commands_of, succeeded
from backstory.model import ToolCall

TEST, BUILD, COMMIT, PR = DeedKind.TEST, DeedKind.BUILD, DeedKind.COMMIT, DeedKind.PULL_REQUEST


def kinds(command: str, tool: str = "SHELL") -> list[DeedKind]:
    return [each.kind for each in commands_of(ToolCall(tool_name="Bash", tool=tool, input={"command": command}))]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest -q tests", [TEST]),
        ("cd x && python3 -m pytest 2>&1 | tail -20", [TEST]),
        ("uv run pytest", [TEST]),
        ("timeout 60 go test ./...", [TEST]),
        ("npm test", [TEST]),
        ("npm run test:unit -- --watch=false", [TEST]),
        ("pnpm run build", [BUILD]),
        ("npx tsc --noEmit", [BUILD]),
        ("cargo build && cargo test", [BUILD, TEST]),
        ("python -m unittest", [TEST]),
        ("npm t", [TEST]),
        ("git cherry-pick --continue", [COMMIT]),
        ("git revert --no-edit HEAD", [COMMIT]),
        ("./gradlew test", [TEST]),
        ("xcodebuild -scheme App test", [TEST]),
        ("make", [BUILD]),
        ("make -j4 test", [TEST]),
        ("git add . && git commit -m 'run pytest'", [COMMIT]),
        ("git -C /r commit --amend --no-edit", [COMMIT]),
        ("bash -c 'git commit -m x'", [COMMIT]),
        ("gh pr create --fill", [PR]),
        ("glab mr create", [PR]),
    ],
)
def test_what_a_command_does_is_known_by_its_words(command: str, expected: list[DeedKind]) -> None:
    assert kinds(command) == expected


@pytest.mark.parametrize(
    "command",
    [
        "echo pytest", "cat tests/test.py", "grep -rn 'go test' .", "git commit --dry-run", "git log --grep commit",
        "gh pr view 12", "npm install", "npm run start", "go run .", "make install", "docker ps", "ls test", "",
        "$X test", "git status # git commit",
        "cargo add test", "go get test", "go mod init build", "cargo run build", "docker run x build",
        "dotnet new test", "git commit --help", "gh pr create --dry-run", "pytest --version", "git merge --abort",
        "git cherry-pick -n a", "cargo clippy",
    ],
)  # fmt: skip
def test_words_that_only_look_so_do_nothing(command: str) -> None:
    assert kinds(command) == []


def test_another_tool_runs_no_commands() -> None:
    call = ToolCall(tool_name="mcp__notes__write", tool="OTHER", input={"command": "git commit -m x"})
    assert commands_of(call) == []


@pytest.mark.parametrize(
    ("is_error", "output", "expected"),
    [
        (True, "3 passed", False), (None, None, None), (False, None, True), (False, "12 passed in 3s", True),
        (False, "1 failed, 3 passed", False), (False, "0 failed, 3 passed", True), (False, "--- FAIL: TestX", False),
        (False, "Tests: 2 failed, 5 total", False), (False, "src/a.ts(1,2): error TS2304: Cannot find", False),
        (False, "Found 0 errors.", True), (False, "no failures", True), (None, "2 errors", False),
        (False, "FAILED (failures=2)", False), (False, "panic: no", False), (False, "1,000 failed", False),
        (False, "test_error: handles error: ok", True), (False, "3 passed\nerror: none", True),
        (False, "1 failed\n" + "later " * 2_000, True),
    ],
)  # fmt: skip
def test_how_a_check_ended_is_read_off_its_last_words_too(
    is_error: bool | None, output: str | None, expected: bool | None
) -> None:
    assert succeeded(TEST, is_error, output) is expected


def test_a_commit_was_made_if_git_says_so_whatever_failed_after_it() -> None:
    assert succeeded(COMMIT, True, "[main 1a2b3c4] Fix it\nfatal: no remote") is True
    assert succeeded(COMMIT, True, "error: pathspec") is False
    assert succeeded(COMMIT, None, None) is None
