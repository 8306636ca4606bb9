"""Pull requests and issues of a session whose repository nobody knows: one ref for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import claude_records as records

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

PULL = "see https://github.com/o/r/pull/158"
OTHER = "and https://github.com/x/y/pull/7"


def log(shell: Shell) -> Path:
    path = shell.home / ".claude" / "projects" / "p" / f"{records.SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def refs(shell: Shell) -> list[list[object]]:
    asked = "select ref_type, ref_value, repository, seq from session_refs order by seq, ref_value"
    return list(shell("sql", "--json", asked).json()["rows"])


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize(
    ("said", "found"),
    [
        (["PR #158 is red", PULL], [["pr", "o/r#158", "o/r", 1]]),
        ([PULL, "PR #158 is red", "PR #158 again"], [["pr", "o/r#158", "o/r", 1]]),
        (["PR #158 is red", PULL, OTHER], [["pr", "o/r#158", "o/r", 1], ["pr", "x/y#7", "x/y", 3]]),
        # It is of the repository that is named first, or nobody knows of which.
        ([PULL, OTHER, "PR #7"], [["pr", "o/r#158", "o/r", 1], ["pr", "x/y#7", "x/y", 2], ["pr", "7", None, 3]]),
        ([PULL, "fixes #158"], [["pr", "o/r#158", "o/r", 1], ["issue", "158", None, 2]]),
        (["PR #12", PULL], [["pr", "12", None, 1], ["pr", "o/r#158", "o/r", 2]]),
    ],
)  # fmt: skip
def test_a_number_alone_is_that_of_the_repository_that_is_named(
    bare: Shell, said: list[str], found: list[list[object]], in_pieces: bool
) -> None:
    lines = [records.user(text, uuid=f"u{n}") + b"\n" for n, text in enumerate(said)]
    for end in range(1 if in_pieces else len(lines), len(lines) + 1):
        log(bare).write_bytes(b"".join(lines[:end]))
        assert bare("ingest").code == 0
    assert refs(bare) == found
    assert bare("reindex").code == 0
    assert refs(bare) == found
