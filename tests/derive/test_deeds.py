"""What commands of agents do that a person would report."""

from __future__ import annotations

import pytest

from backstory.derive.check_programs import DeedKind
from backstory.derive.deeds import Deed, commands_of, is_aside, succeeded, was_refused
from backstory.model import ToolCall
from tests.support.every import every

TEST, BUILD, COMMIT, PR = DeedKind.TEST, DeedKind.BUILD, DeedKind.COMMIT, DeedKind.PULL_REQUEST


def kinds(command: str, tool: str = "SHELL") -> list[DeedKind]:
    return [each.kind for each in commands_of(ToolCall(tool_name="Bash", tool=tool, input={"command": command}))]


@every(
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
        ("uv build", [BUILD]),
        ("uv run --extra dev pytest -q", [TEST]),
        ("uv run --group=dev -m pytest", [TEST]),
        ("pnpm --filter x build", [BUILD]),
        ("pnpm --filter test run build", [BUILD]),
        ("npm --prefix web run test", [TEST]),
        ("yarn workspace app test", [TEST]),
        ("yarn jest", [TEST]),
        ("timeout -s 9 60 pytest", [TEST]),
        ("timeout --signal=KILL -k 5 60 pytest", [TEST]),
        ("bazel test //...", [TEST]),
        ("bazel build //app", [BUILD]),
        ("mise run test:ci", [TEST]),
        ("mise exec -- pytest", [TEST]),
        ("just test-unit", [TEST]),
        ("make -C build test", [TEST]),
        ("make -j 4", [BUILD]),
        ("./gradlew :app:test", [TEST]),
        ("python manage.py test", [TEST]),
        ("python -W error -m pytest", [TEST]),
        ("./scripts/test-e2e.sh --keep", [TEST]),
        ("bash run_tests.sh", [TEST]),
        ("python -m build", [BUILD]),
        ("./build.sh --release", [BUILD]),
        ("coverage run -m pytest", [TEST]),
        ("hatch run test", [TEST]),
        ("npx playwright test", [TEST]),
        ("go test -c ./x", [BUILD]),
        ("git rebase --continue", [COMMIT]),
    ],
)
def test_what_a_command_does_is_known_by_its_words(command: str, expected: list[DeedKind]) -> None:
    assert kinds(command) == expected


@every(
    "command",
    [
        "echo pytest", "cat tests/test.py", "grep -rn 'go test' .", "git commit --dry-run", "git log --grep commit",
        "gh pr view 12", "npm install", "npm run start", "go run .", "make install", "docker ps", "ls test", "",
        "$X test", "git status # git commit",
        "cargo add test", "go get test", "go mod init build", "cargo run build", "docker run x build",
        "dotnet new test", "git commit --help", "gh pr create --dry-run", "pytest --version", "git merge --abort",
        "git cherry-pick -n a", "cargo clippy",
        "uv add pytest", "uv pip install pytest", "uv run --with pytest app.py", "make -n test", "npm run test:watch",
        "make test-fixtures", "mise run lint", "mise install test", "bazel query test", "git rebase main",
        "python build.py", "node server.js", "node test-server.js", "chmod +x test.sh", "gh pr list",
        "gh pr view create",
        "cargo test --no-run", "pnpm --filter build install", "timeout 60 sleep 5",
    ],
)  # fmt: skip
def test_words_that_only_look_so_do_nothing(command: str) -> None:
    assert kinds(command) == []


def test_another_tool_runs_no_commands() -> None:
    call = ToolCall(tool_name="mcp__notes__write", tool="OTHER", input={"command": "git commit -m x"})
    assert commands_of(call) == []


def test_a_pull_request_is_opened_by_a_tool_of_a_server_too() -> None:
    made = [
        commands_of(ToolCall(tool_name=name, tool="OTHER", input={}))
        for name in ("mcp__github__create_pull_request", "mcp__github__get_pull_request")
    ]
    assert [[each.kind for each in deeds] for deeds in made] == [[PR], []]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"command": "pytest"}, ""), ({"command": "cd /tmp/x && pytest"}, "/tmp/x"),
        ({"command": "cd sub && pytest", "workdir": "/p"}, "/p/sub"), ({"command": "git -C /r commit -m x"}, "/r"),
        ({"command": "cd $X && pytest", "workdir": "/p"}, ""),
    ],
)  # fmt: skip
def test_where_something_is_done_is_known_from_the_script_and_the_call(given: dict[str, str], expected: str) -> None:
    (deed,) = commands_of(ToolCall(tool_name="Bash", tool="SHELL", input=given))
    assert deed.folder == expected


@every(
    ("path", "expected"),
    [
        ("/tmp/a.py", True), ("/private/var/folders/x/T/a", True), ("/Users/a/.agent/plans/p.md", True),
        ("/Users/a/p/src/a.py", False), ("/Users/a/p/.github/ci.yml", False), ("/Users/a/other/x.py", False),
        ("src/a.py", False), ("/tmp/work/a.py", False), ("/tmpfs/a.py", False),
    ],
)  # fmt: skip
def test_scratch_files_are_no_work_unless_the_project_lies_there(path: str, expected: bool) -> None:
    assert is_aside(path, ["/Users/a/p", "/tmp/work"]) is expected


@every(
    ("is_error", "output", "expected"),
    [
        (True, "3 passed", None), (None, None, None), (False, None, True), (False, "12 passed in 3s", True),
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
    assert succeeded(Deed(kind=TEST, text="pytest | tail"), is_error, output) is expected


def test_a_commit_was_made_if_git_says_so_whatever_failed_after_it() -> None:
    commit = Deed(kind=COMMIT, text="git commit")
    assert succeeded(commit, True, "[main 1a2b3c4] Fix it\nfatal: no remote") is True
    assert succeeded(commit, True, "error: pathspec") is False
    assert succeeded(commit, None, None) is None


@every(
    ("kind", "failed", "output", "expected"),
    [
        (COMMIT, False, "nothing to commit, working tree clean", False),
        (COMMIT, False, "Already up to date.", False),
        (COMMIT, False, "Updating 1..2\nFast-forward\n a.py | 2", False),
        (COMMIT, False, "Merge made by the 'ort' strategy.", True),
        (COMMIT, True, "[detached HEAD 1a2b3c4] Fix\n! [rejected] main", True),
        (PR, True, "https://github.com/o/r/pull/12\nerror: browser", True),
        (PR, True, "a pull request already exists:\nhttps://github.com/o/r/pull/12", False),
        (PR, True, "[main 1a2b3c4] Fix\nGraphQL: no such base", False),
        (TEST, True, "3 passed\n[main 1a2b3c4] Fix\nfatal: no remote", True),
        (TEST, True, "lint: unused variable", None),
        (TEST, True, "1 failed\n[main 1a2b3c4] Fix", False),
        (TEST, False, "Command running in background with ID: b1", None),
        (BUILD, False, "[build] ERROR task failed", False),
    ],
)  # fmt: skip
def test_of_a_script_its_output_says_which_of_its_commands_went_well(
    kind: DeedKind, failed: bool, output: str, expected: bool | None
) -> None:
    assert succeeded(Deed(kind=kind, text="x"), failed, output) is expected


@every(
    ("script", "when_it_failed", "when_it_did_not"),
    [
        ("pytest", False, True), ("cd x && pytest -q\n", False, True), ("pytest && echo fine", False, True),
        ("bash -c 'pytest'", False, True),
        # Nobody knows which of them failed; had the first one, the others were not run.
        ("pytest && ruff check | tail -3", None, True), ("pytest && ruff check", None, True),
        # Here the exit code is that of another command.
        ("pytest | tail -3", None, True), ("pytest; true", None, True), ("pytest || true", None, True),
        ("(pytest) | tail", None, True), ("pytest\nls", None, True),
    ],
)  # fmt: skip
def test_what_the_exit_code_of_a_script_says_of_a_check_in_it(
    script: str, when_it_failed: bool | None, when_it_did_not: bool
) -> None:
    (deed,) = commands_of(ToolCall(tool_name="Bash", tool="SHELL", input={"command": script}))
    assert succeeded(deed, True, "x") is when_it_failed
    assert succeeded(deed, False, "x") is when_it_did_not
    # What else was printed says nothing where the exit code does.
    assert succeeded(deed, False, "1 failed") is deed.is_told


def test_what_a_person_refused_was_not_done() -> None:
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    assert was_refused(True, refusal)
    assert not was_refused(True, "1 failed")
    assert not was_refused(False, refusal)
