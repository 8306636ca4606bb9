"""Which commands check work, how they begin, and why some cannot work."""

from __future__ import annotations

from backstory.derive.checks import checks_in, head_of
from backstory.derive.faults import fault_in
from tests.support.every import every


@every(
    ("script", "expected"),
    [
        ("pytest -q", [("tests", "pytest")]),
        ("cd x && uv run pytest -q tests/test_a.py 2>&1 | tail -5", [("tests", "uv run pytest")]),
        ("python -m pytest -x", [("tests", "python -m pytest")]),
        ("go test -v ./... -run TestX", [("tests", "go test")]),
        ("mise run test:ci", [("tests", "mise run test:ci")]),
        ("mise run fmt && mise run lint", [("the linter", "mise run lint")]),
        ("npm run lint -- --fix", [("the linter", "npm run lint")]),
        ("make build", [("builds", "make build")]),
        ("golangci-lint run ./...", [("the linter", "golangci-lint run")]),
        ("ruff check . && mypy", [("the linter", "ruff check"), ("the linter", "mypy")]),
        ("cargo clippy --all", [("the linter", "cargo clippy")]),
        ("go vet ./...", [("the linter", "go vet")]),
        ("npm run test:unit && npm run build", [("tests", "npm run test:unit"), ("builds", "npm run build")]),
        ("ruff format .", []),
        ("ruff --version", []),
        ("git commit -m 'run the tests'", []),
        ("echo pytest", []),
        ("mise run deploy test", [("tests", "mise run deploy test")]),
        ("cat lint", []),
    ],
)
def test_checks_of_a_script(script: str, expected: list[tuple[str, str]]) -> None:
    assert [(each.kind, each.head) for each in checks_in(script)] == expected


def test_the_beginning_of_a_command_has_no_options_files_or_variables() -> None:
    assert head_of(["gh", "pr", "diff", "88", "--stat"]) == "gh pr diff"
    assert head_of(["bash", "run.sh"]) == "bash"
    assert head_of(["make", None, "test"]) == "make"


@every(
    ("script", "output", "expected"),
    [
        ("pytest -q", "bash: pytest: command not found", ("no such program", "pytest", "pytest")),
        ("rg x | head", "zsh: command not found: rg", ("no such program", "rg", "rg")),
        ("gh pr diff 88 --stat", "unknown flag: --stat\n\nUsage:", ("no such option", "gh pr diff", "--stat")),
        (
            "git show x --no-stat",
            "fatal: unrecognized argument: --no-stat",
            ("no such option", "git show", "--no-stat"),
        ),
        ("npm run lnt", 'npm error Missing script: "lnt"', ("no such task", "npm run lnt", "lnt")),
        ("make tset", "make: *** No rule to make target 'tset'.  Stop.", ("no such task", "make tset", "tset")),
        ("pytest -q", "ModuleNotFoundError: No module named 'backstory'", ("a module is missing", "pytest", "")),
        # What the output says of something else, or of what the command does not name.
        ("gh pr diff 88", "unknown flag: --stat", None),
        ("make test", "bash: rm -rf /: command not found", None),
        ("cat notes.txt", "curl: command not found", None),
        ("uv run app", "No module named 'backstory'", None),
        ("go test ./...", "--- FAIL: TestX", None),
        ("ls x", "ls: x: No such file or directory", None),
    ],
)
def test_why_a_command_could_not_work(script: str, output: str, expected: tuple[str, str, str] | None) -> None:
    fault = fault_in(script, output)
    assert (None if fault is None else (fault.kind, fault.head, fault.word)) == expected
