"""Which pull requests, issues and commits are named, and which words only look like it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.derive.deriver import refs_in_call, refs_in_command
from backstory.derive.text_refs import NAMES_MAX, WRITTEN_MAX, refs_in_text
from backstory.model import Ref, Tool, ToolCall, ToolResult
from tests.support.every import every

SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"

URLS = [
    ("https://github.com/o/r/pull/12", Ref("pr", "o/r#12", "github.com", "o/r")),
    ("https://github.com/o/r/pull/12/files#diff-1", Ref("pr", "o/r#12", "github.com", "o/r")),
    ("https://github.com/o/r/pull/12#discussion_r27504", Ref("pr", "o/r#12", "github.com", "o/r")),
    ("https://www.github.com/o/r/issues/3?x=1", Ref("issue", "o/r#3", "github.com", "o/r")),
    (f"https://github.com/o/r.js/commit/{SHA}", Ref("commit", f"o/r.js@{SHA}", "github.com", "o/r.js")),
    ("https://github.com/o/r/commit/1234567", Ref("commit", "o/r@1234567", "github.com", "o/r")),
    ("https://api.github.com/repos/o/r/pulls/12/comments", Ref("pr", "o/r#12", "github.com", "o/r")),
    ("https://api.github.com/repos/o/r/issues/12", Ref("issue", "o/r#12", "github.com", "o/r")),
    ("https://git.corp.example/o/r/pull/12", Ref("pr", "o/r#12", "git.corp.example", "o/r")),
    ("https://git.corp.example:8443/o/r/issues/7", Ref("issue", "o/r#7", "git.corp.example:8443", "o/r")),
    ("https://git.corp.example/api/v3/repos/o/r/pulls/12", Ref("pr", "o/r#12", "git.corp.example", "o/r")),
    ("https://codeberg.org/o/r/pulls/12", Ref("pr", "o/r#12", "codeberg.org", "o/r")),
    ("https://gitlab.com/o/r/-/merge_requests/12", Ref("pr", "o/r#12", "gitlab.com", "o/r")),
    ("https://gitlab.com/a/b/c/r/-/merge_requests/12/diffs", Ref("pr", "a/b/c/r#12", "gitlab.com", "a/b/c/r")),
    ("https://gitlab.com/a/b/r/merge_requests/12", Ref("pr", "a/b/r#12", "gitlab.com", "a/b/r")),
    ("https://gitlab.corp.example/a/b/r/-/issues/5", Ref("issue", "a/b/r#5", "gitlab.corp.example", "a/b/r")),
    ("https://gitlab.com/a/r/-/work_items/5", Ref("issue", "a/r#5", "gitlab.com", "a/r")),
    (f"https://gitlab.com/a/b/r/-/commit/{SHA}", Ref("commit", f"a/b/r@{SHA}", "gitlab.com", "a/b/r")),
    ("https://dev.azure.com/o/p/_git/r/pullrequest/12", Ref("pr", "o/p/r#12", "dev.azure.com", "o/p/r")),
    ("https://dev.azure.com/o/_git/r/pullrequest/12", Ref("pr", "o/r/r#12", "dev.azure.com", "o/r/r")),
    ("https://o.visualstudio.com/p/_git/r/pullrequest/12", Ref("pr", "o/p/r#12", "dev.azure.com", "o/p/r")),
    (
        "https://o.visualstudio.com/DefaultCollection/p/_git/r/pullrequest/12",
        Ref("pr", "o/p/r#12", "dev.azure.com", "o/p/r"),
    ),
    (
        "https://dev.azure.com/o/my%20project/_git/r/pullrequest/12",
        Ref("pr", "o/my project/r#12", "dev.azure.com", "o/my project/r"),
    ),
    (f"https://me@dev.azure.com/o/p/_git/r/commit/{SHA}", Ref("commit", f"o/p/r@{SHA}", "dev.azure.com", "o/p/r")),
    ("https://dev.azure.com/o/p/_workitems/edit/12", Ref("issue", "o/p#12", "dev.azure.com", "o/p")),
    ("https://bitbucket.org/o/r/pull-requests/12/diff", Ref("pr", "o/r#12", "bitbucket.org", "o/r")),
    ("https://bitbucket.org/o/r/issues/12/a-title", Ref("issue", "o/r#12", "bitbucket.org", "o/r")),
    (f"https://bitbucket.org/o/r/commits/{SHA}", Ref("commit", f"o/r@{SHA}", "bitbucket.org", "o/r")),
    ("https://git.x.example/projects/P/repos/r/pull-requests/12/overview", Ref("pr", "P/r#12", "git.x.example", "P/r")),
]


@every(("url", "ref"), URLS)
@every("around", ["{}", "see {}.", "[x]({})", "**{}**", '{{"url":"{}"}}', "{}\\nmore", "<{}>"])
def test_a_page_of_a_forge_is_a_ref(url: str, ref: Ref, around: str) -> None:
    assert refs_in_text(around.format(url)) == [ref]


@every(
    "url",
    [
        "https://github.com/o/r/pull/new/branch",
        "https://github.com/o/r/pulls",
        "https://github.com/o/r/issues/new",
        "https://github.com/o/r/commits/main",
        "https://github.com/o/r/tree/main/issues/12",
        "https://github.com/o/r/commit/defaced",
        "https://api.github.com/repos/o/r/pulls/comments/275",
        "https://sentry.io/organizations/o/issues/12/",
        "https://tracker.example/issues/12",
        "https://example.com/a/b/c/d/issues/12",
        "https://github.com/o/r/issues/12-ideas",
    ],
)
def test_other_pages_are_none(url: str) -> None:
    assert refs_in_text(url) == []


def test_a_picked_commit_of_a_pull_request_is_named_with_it() -> None:
    url = f"https://github.com/o/r/pull/12/commits/{SHA}"
    assert [each.value for each in refs_in_text(url)] == ["o/r#12", f"o/r@{SHA}"]


WORDS: list[tuple[str, list[str]]] = [
    ("PR #12", ["pr 12"]),
    ("look at PR#60's branch", ["pr 60"]),
    ("**PR #7**: done", ["pr 7"]),
    ("Merge pull request #105 from o/x", ["pr 105"]),
    ("the rename PR (#175) landed", ["pr 175"]),
    ("MR !12 and merge request !13", ["pr 12", "pr 13"]),
    ("PRs #12, #13 and #14", ["pr 12", "pr 13", "pr 14"]),
    ("issue #12", ["issue 12"]),
    ("GitHub issue #3", ["issue 3"]),
    ("fixes #12", ["issue 12"]),
    ("Fixes: #3, #4", ["issue 3", "issue 4"]),
    ("closes [#12]", ["issue 12"]),
    ("fixed (#1)", ["issue 1"]),
    ("fixed (#1, #12)", ["issue 1", "issue 12"]),
    ("both PRs (#1, #2)", ["pr 1", "pr 2"]),
    ("Resolved #12.", ["issue 12"]),
    ("please fix #120", ["issue 120"]),
    ("GH-12", ["issue 12"]),
    ("o/r#12", ["issue o/r#12"]),
    ("see (o/r.js#12)", ["issue o/r.js#12"]),
    ("PR o/r#12", ["pr o/r#12"]),
    ("fixes o/r#12", ["issue o/r#12"]),
    ("a/b/r!12", ["pr a/b/r#12"]),
    ("commit 1a2b3c4", ["commit 1a2b3c4"]),
    ("Committed as `0bc3d58`.", ["commit 0bc3d58"]),
    ("**Commit:** `7e00b6e` - x", ["commit 7e00b6e"]),
    ("a commit (`eafc9512`)", ["commit eafc9512"]),
    ("commits cfae214 and 1dc1c5f", ["commit cfae214", "commit 1dc1c5f"]),
    ("commits (38cd6b4, a182587, aebbcde, b56f105)", ["commit 38cd6b4", "commit a182587", "commit b56f105"]),
    (f"commit {SHA}", [f"commit {SHA}"]),
    ("commit hash a8f68ce", ["commit a8f68ce"]),
]


@every(("text", "named"), WORDS)
def test_clear_words_name_a_ref(text: str, named: list[str]) -> None:
    assert [f"{each.type} {each.value}" for each in refs_in_text(text)] == named


@pytest.mark.parametrize(
    "text",
    [
        "#12",
        "Fixed (#1, #2, #4)",
        "resolved (#1 and #3)",
        "see #12",
        "issue #2 of the list above",
        "Fix #1: rename",
        "Task #12 created, bug #13, step #14",
        "PR 12",
        "PR #012",
        "PR #1.5",
        "PR #12ab",
        "PR #12345678",
        "colour #123456",
        "&#123;",
        "docs/page.md#12",
        "src/main.go#12",
        "a/b/c#12",
        "https://example.com/a/b#12",
        "@scope/name#12",
        "suffix #12",
        "compromise #12",
        "GH-12.5",
        "aGH-12",
        "hi!12",
        "commit main",
        "commit deadbeef",
        "commit defaced",
        "commit deadbeef12",
        "commit 1234567",
        "commit abc1234",
        "commit 1a2b3",
        "commit 1a2b3c4.txt",
        "commit 550e8400-e29b-41d4-a716-446655440000",
        "manual-commit session_id=28c304f6",
        "base_commit: 83cc4260",
        "recommit 83cc4260",
        "9f86d081",
        "# 12",
        "#",
        "!",
        "",
    ],
)
def test_unclear_words_name_none(text: str) -> None:
    assert refs_in_text(text) == []


def test_a_log_in_a_text_names_none_of_its_commits() -> None:
    log = f"commit {SHA} (HEAD -> main)\nAuthor: A <a@b.c>\n\n    x\n\ncommit {SHA[::-1]}\nMerge: 1a2b3c4 5d6e7f8\n"
    assert refs_in_text(log) == []


def test_refs_stand_in_order_and_once() -> None:
    text = "fixes #30, see PR #12 (https://github.com/o/r/pull/12), PR #12, commit 1a2b3c4d5e, commit 1a2b3c4"
    assert [each.value for each in refs_in_text(text, repository="o/r")] == ["30", "12", "1a2b3c4d5e"]


def test_without_a_repository_a_number_is_dropped_for_the_page_beside_it() -> None:
    assert refs_in_text("PR #12: https://github.com/o/r/pull/12") == [Ref("pr", "o/r#12", "github.com", "o/r")]


OWN = [
    ("o/r", "https://github.com/o/r/pull/12", "12"),
    ("O/R", "https://github.com/o/r/pull/12", "12"),
    ("https://github.com/o/r.git", "https://github.com/o/r/pull/12", "12"),
    ("git@github.com:o/r.git", "https://github.com/o/r/pull/12", "12"),
    ("ssh://git@git.x.example:2222/a/b/r.git", "https://git.y.example/a/b/r/-/issues/1", "a/b/r#1"),
    ("github.com/o/r", "https://github.com/o/r/pull/12", "12"),
    ("github.com/o/r", "https://git.corp.example/o/r/pull/12", "o/r#12"),
    ("git@gitlab.com:a/b/r.git", "https://gitlab.com/a/b/r/-/merge_requests/12", "12"),
    ("https://me@dev.azure.com/o/p/_git/r", "https://dev.azure.com/o/p/_git/r/pullrequest/12", "12"),
    ("git@ssh.dev.azure.com:v3/o/p/r", "https://o.visualstudio.com/p/_git/r/pullrequest/12", "12"),
    ("git@ssh.dev.azure.com:v3/o/p/r", "https://dev.azure.com/o/p/_workitems/edit/12", "12"),
    ("o/r", "o/r#12", "12"),
    ("o/r", f"https://github.com/o/r/commit/{SHA}", SHA),
    ("o/other", f"https://github.com/o/r/commit/{SHA}", f"o/r@{SHA}"),
    (None, "o/r#12", "o/r#12"),
]


@every(("repository", "text", "value"), OWN)
def test_the_sessions_own_repository_is_left_out_of_values(repository: str | None, text: str, value: str) -> None:
    assert [each.value for each in refs_in_text(text, repository=repository)] == [value]


def test_a_bare_number_belongs_to_the_sessions_repository() -> None:
    assert refs_in_text("PR #12", repository="o/r", host="ghe.example") == [Ref("pr", "12", "ghe.example", "o/r")]
    assert refs_in_text("PR #12", repository="git@gitlab.com:a/r.git") == [Ref("pr", "12", "gitlab.com", "a/r")]


PUSHED = """remote: Resolving deltas: 100% (1/1)
remote: View merge request for x:
remote:   https://gitlab.com/a/r/-/merge_requests/12
To gitlab.com:a/r.git
   4afd4e47..9a4894a7  x -> x
 + 1111aaa...2222bbb y -> y (forced update)
 * [new branch]      z -> z
"""
COMMANDS = [
    ("git commit -m x", "[main 1a2b3c4] x\n 1 file changed", ["commit 1a2b3c4"]),
    ("git commit -m x", "[main 1234567] x", ["commit 1234567"]),
    ("git commit -m x", "[main (root-commit) 1a2b3c4] x", ["commit 1a2b3c4"]),
    ("git commit -m x", "[detached HEAD 1a2b3c4] x", ["commit 1a2b3c4"]),
    ("git commit -m x", "[fix/#12-a@b 1a2b3c4] x", ["commit 1a2b3c4"]),
    ("cd a && git -C b -c c.d=e commit -m x", "[main 1a2b3c4] x", ["commit 1a2b3c4"]),
    ("git commit -m x; git commit -m y", "[main 1a2b3c4] x\n[main 5d6e7f8] y\n", ["commit 1a2b3c4", "commit 5d6e7f8"]),
    ("git commit -m 'a: b, fixes #12'", "[main 1a2b3c4] a", ["issue 12", "commit 1a2b3c4"]),
    ("git commit -qm x", "", []),
    ("make", "[main 1a2b3c4] x", []),
    ("git push", PUSHED, ["pr a/r#12", "commit 9a4894a7", "commit 2222bbb"]),
    ("git push", "remote: https://github.com/o/r/pull/new/x\nTo github.com:o/r\n", []),
    (
        "git pull && git push",
        "From x\n   1111aaa..2222bbb  x -> x\nTo x\n   2222bbb..3333ccc  x -> x",
        ["commit 3333ccc"],
    ),
    ("git cherry-pick 1a2b3c4 5d6e7f8", "[main 9a9b9c9] x", ["commit 1a2b3c4", "commit 5d6e7f8", "commit 9a9b9c9"]),
    ("git revert --no-edit 1a2b3c4", "", ["commit 1a2b3c4"]),
    ("git show 1a2b3c4:src/a.py | head", f"commit {SHA}", ["commit 1a2b3c4"]),
    ("git show --stat HEAD main 1234567 1a2b3c4~2 -- 5d6e7f8", "", []),
    ("git show 8312232", "commit 8312232561e5dac5cbaace813958853b9a79badb\nAuthor: A", ["commit 8312232"]),
    ("git show 20250101", "tag 20250101\nTagger: A\n\ncommit 1a2b3c4", []),
    ("gh pr view --json author,number", '{"author":"me","number":132}', ["pr 132"]),
    ("git log --oneline 1a2b3c4", f"1a2b3c4 x\ncommit {SHA}\nMerge pull request #12 from o/r", []),
    ("git diff 1a2b3c4", "PR #12", []),
    ("gh pr create --title 'a #5' --body x", "\nhttps://github.com/o/r/pull/12\n", ["pr o/r#12"]),
    (
        "gh pr create -t x",
        'a pull request for branch "x" already exists:\nhttps://ghe.example/o/r/pull/12',
        ["pr o/r#12"],
    ),
    ("gh pr view 12 --json title", '{"url":"https://github.com/o/r/pull/99"}', ["pr 12"]),
    ("gh pr view --json body,url", '{"body":"PR #5","url":"https://github.com/o/r/pull/12"}', ["pr o/r#12"]),
    (
        "gh pr view",
        "title:\tx\nurl:\thttps://github.com/o/r/pull/12\n--\nsee https://github.com/o/r/pull/5",
        ["pr o/r#12"],
    ),
    ("gh pr view https://github.com/o/r/pull/12", "", ["pr o/r#12"]),
    ("gh pr view some-branch", "no pull requests found", []),
    ("gh -R o/r pr merge --squash 12", "✓ Squashed and merged pull request o/r#12 (x)", ["pr o/r#12"]),
    ("gh pr merge --auto", "✓ Squashed and merged pull request #12 (x)", ["pr 12"]),
    ("gh pr checks 12 --repo ghe.example/o/r", "", ["pr o/r#12"]),
    (
        "gh pr comment 12 --body 'Fixed in commit 1a2b3c4'",
        "https://x.example/o/r/pull/12#i-3",
        ["pr 12", "commit 1a2b3c4"],
    ),
    ("gh pr list --limit 20", "12\tx\n13\ty\nhttps://github.com/o/r/pull/12", []),
    ("gh pr diff 12 | head -50", "", ["pr 12"]),
    ("gh pr view $N", "", []),
    ("gh issue create -t x -b y", "https://github.com/o/r/issues/12", ["issue o/r#12"]),
    ("gh issue close '#12'", "", ["issue 12"]),
    ("gh issue edit 12 13 --add-label 14", "", ["issue 12", "issue 13"]),
    ("gh api repos/o/r/pulls/12/comments --paginate", "", ["pr o/r#12"]),
    ("gh api repos/{owner}/{repo}/issues/12", "", ["issue 12"]),
    ("gh api repos/o/r/pulls/comments/275", "", []),
    ("glab mr create --fill", "!12 x (y)\n https://gitlab.com/a/b/r/-/merge_requests/12\n", ["pr a/b/r#12"]),
    ("glab mr view 12 -R a/b/r", "", ["pr a/b/r#12"]),
    ("glab mr merge '!12'", "", ["pr 12"]),
    ("glab issue note 12 -m x", "", ["issue 12"]),
    ("az repos pr show --id 12", "", ["pr 12"]),
    ("az repos pr create -t x", '{\n  "pullRequestId": 12,\n  "x": 1\n}', ["pr 12"]),
    ("az boards work-item show --id=12", "", ["issue 12"]),
    ("if true; then gh pr view 12; fi", "", ["pr 12"]),
    ("bash -lc 'gh pr view 12'", "", ["pr 12"]),
    ("echo gh pr view 12", "", []),
    ("ghost pr view 12", "", []),
]


@every(("command", "output", "named"), COMMANDS)
def test_a_command_names_what_it_is_about_and_what_it_made(command: str, output: str, named: list[str]) -> None:
    assert [f"{each.type} {each.value}" for each in refs_in_command(command, output)] == named


def test_a_command_in_the_sessions_repository_gives_bare_values() -> None:
    output = "[main 1a2b3c4] x\nhttps://github.com/o/r/pull/12"
    found = refs_in_command("git commit -m x && gh pr create -f", output, repository="o/r", host="github.com")
    assert found == [Ref("commit", "1a2b3c4", "github.com", "o/r"), Ref("pr", "12", "github.com", "o/r")]


CALLS: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("Bash", Tool.SHELL, {"command": "git commit -m x"}, ["commit 1a2b3c4"]),
    ("shell", "", {"command": ["bash", "-lc", "git commit -m x"]}, ["commit 1a2b3c4"]),
    ("powershell", Tool.SHELL, {"command": "git commit -m x"}, []),
    ("WebFetch", Tool.FETCH, {"url": "https://github.com/o/r/pull/12", "prompt": "PR #5"}, ["pr o/r#12"]),
    ("mcp__github__get_pull_request", "", {"owner": "o", "repo": "r", "pullNumber": 12}, ["pr o/r#12"]),
    ("github-mcp-server-issue_read", "", {"owner": "o", "repo": "r", "issue_number": "12"}, ["issue o/r#12"]),
    ("mcp__github__get_commit", "", {"owner": "o", "repo": "r", "sha": "1a2b3c4"}, ["commit o/r@1a2b3c4"]),
    ("mcp__github__list_commits", "", {"owner": "o", "repo": "r", "sha": "main"}, []),
    ("mcp__gitlab__get_merge_request", "", {"project_id": "a/b/r", "merge_request_iid": 12}, ["pr a/b/r#12"]),
    ("mcp__github__get_pull_request", "", {"pullNumber": 0}, []),
    ("Read", Tool.READ, {"file_path": "PR #12"}, []),
    ("Edit", Tool.EDIT, {"new_string": "// see https://github.com/o/r/issues/3), #5"}, ["issue o/r#3"]),
    ("Edit", Tool.EDIT, {"old_string": "// see https://github.com/o/r/issues/3", "new_string": ""}, []),
    ("MultiEdit", Tool.EDIT, {"edits": [{"new_string": "https://github.com/o/r/pull/4"}]}, ["pr o/r#4"]),
    ("Write", Tool.WRITE, {"content": "https://github.com/o/r/pull/4"}, ["pr o/r#4"]),
    ("Grep", Tool.GREP, {"pattern": "https://github.com/o/r/pull/4"}, []),
]


@every(("name", "tool", "given_", "named"), CALLS)
def test_a_call_names_by_its_arguments(name: str, tool: str, given_: dict[str, Any], named: list[str]) -> None:
    call = ToolCall(tool_name=name, tool=tool, input=given_)
    result = ToolResult(content="[main 1a2b3c4] x")
    assert [f"{each.type} {each.value}" for each in refs_in_call(call, result)] == named


def test_addresses_behind_the_first_part_of_a_long_text_that_is_written_are_not_looked_for() -> None:
    text = "x" * WRITTEN_MAX + " https://github.com/o/r/pull/12"
    assert refs_in_call(ToolCall(tool_name="Write", tool=Tool.WRITE, input={"content": text}), None) == []


def test_a_call_without_a_result_still_names_its_arguments() -> None:
    call = ToolCall(tool_name="Bash", tool=Tool.SHELL, input={"command": "gh pr view 12"})
    assert [each.value for each in refs_in_call(call, None)] == ["12"]


PIECES = st.sampled_from([
    "#", "!", "1", "12", "PR ", "fixes ", "issue ", "o/r", "/", "commit ", "1a2b3c4", "https://", "github.com/",
    "pull/", "-/", "_git/", "issues/", "GH-", " ", "\n", "(", "`", ",", " and ", "gh pr view ", "git commit ", "[a ",
    "] ", "'", "$(", "To ", "remote: ", "\0", "é",
])  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join), st.lists(PIECES).map("".join), st.none() | st.text())
def test_any_text_is_read_without_a_fault(text: str, output: str, repository: str | None) -> None:
    found = refs_in_text(text, repository=repository)
    assert len(set(found)) == len(found)
    assert {each.type for each in found} <= {"pr", "issue", "commit"}
    refs_in_command(text, output, repository=repository)


@given(st.text(), st.text(), st.none() | st.text(), st.none() | st.text())
def test_any_characters_are_read_without_a_fault(
    text: str, output: str, repository: str | None, host: str | None
) -> None:
    assert isinstance(refs_in_text(text, repository=repository, host=host), list)
    assert isinstance(refs_in_command(f"git {text}", output, repository=repository, host=host), list)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "#" * 60_000,
        "#1" * 60_000,
        "x" * 600_000,
        "a/b#1 " * 60_000,
        "PR #1 and " * 60_000,
        "https://" * 60_000,
        "https://a/b/pull/1 " * 30_000,
        "https://a/" + "b/" * 300_000,
        "commit " + "1a2b3c4, " * 60_000,
        "commit (" * 60_000,
        "git " * 60_000,
        "git commit; git push; gh pr create;\n" * 300,
        "To x\n" + "  a1b2c3d..a1b2c3d  x -> x\n" * 60_000,
        "[a " * 60_000,
    ],
    ids=lambda text: text[:24],
)
def test_megabytes_take_linear_time(text: str) -> None:
    begun = time.process_time()
    refs_in_text(text)
    refs_in_command(text, text)
    refs_in_command("git commit; git push; gh pr create; az repos pr create", text)
    assert time.process_time() - begun < 1.5


def test_of_a_text_with_very_many_only_the_first_are_looked_at() -> None:
    text = "".join(f"PR #{number}\n" for number in range(1, NAMES_MAX + 10))
    assert len(refs_in_text(text)) == NAMES_MAX


@pytest.mark.parametrize(
    "text", ["see ENT-221", "https://linear.app/acme/issue/ENT-221/a-title", "ENT-221: fix it", "(ENT-221)"]
)
def test_a_trackers_key_is_an_issue(text: str) -> None:
    assert [(each.type, each.value) for each in refs_in_text(text)] == [("issue", "ENT-221")]


@every(
    "text",
    ["UTF-8", "SHA-256 and AES-128", "CVE-2024-1234", "ISO-8601", "GPT-4", "RFC-2119", "ent-221", "ENT-0", "E-2E-3",
     "x86-64", "FOO_BAR-1-2", "A-1", "ENT-221-fix"],
)  # fmt: skip
def test_what_only_looks_like_a_trackers_key_is_none(text: str) -> None:
    assert refs_in_text(text) == []


def test_a_trackers_tool_is_given_a_key() -> None:
    call = ToolCall(tool_name="mcp__linear__get_issue", input={"id": "ENT-221"})
    assert [each.value for each in refs_in_call(call, None)] == ["ENT-221"]
    assert refs_in_call(ToolCall(tool_name="lookup", input={"id": "ENT-221"}), None) == []
