"""What agents say of their instructions and allow rules, and which calls they did not run."""

from __future__ import annotations

from backstory import agents
from backstory.agents.contract import GuidePart, NotRun
from tests.support.every import every


def guide(name: str) -> GuidePart:
    found = agents.load(name).guide
    assert found is not None
    return found


@every(
    ("agent", "tool", "words", "rule"),
    [
        ("claude", "Bash", ("git", "diff"), "Bash(git diff:*)"),
        ("claude", "Bash", (), None),
        ("claude", "Edit", (), "Edit"),
        ("claude", "Write", (), "Edit"),
        ("claude", "mcp__tracker__list", (), "mcp__tracker__list"),
        ("codex", "exec_command", ("git", "diff"), 'prefix_rule(pattern=["git", "diff"], decision="allow")'),
        ("codex", "apply_patch", (), None),
        ("copilot", "bash", ("git", "diff"), "--allow-tool 'shell(git diff:*)'"),
        ("copilot", "edit", (), "--allow-tool 'write'"),
        ("copilot", "bash", (), None),
    ],
)
def test_a_rule_allows_no_more_than_it_must(agent: str, tool: str, words: tuple[str, ...], rule: str | None) -> None:
    assert guide(agent).allow_rule(tool, words) == rule


@every(
    ("agent", "output", "fate"),
    [
        ("claude", "The user doesn't want to proceed with this tool use. The tool use was", NotRun.REFUSED),
        ("claude", "Permission for this tool use was denied. The tool use was rejected", NotRun.REFUSED),
        ("claude", "<tool_use_error>Sibling tool call errored</tool_use_error>", NotRun.DROPPED),
        ("claude", "bash: /etc/shadow: Permission denied", None),
        ("codex", "exec command rejected by user", NotRun.REFUSED),
        ("codex", "error: failed to push: rejected by the remote", None),
        ("copilot", "Permission denied and could not request permission from user", NotRun.REFUSED),
        ("copilot", "cat: /root/x: Permission denied", None),
    ],
)
def test_a_refusal_is_told_from_a_failure(agent: str, output: str, fate: NotRun | None) -> None:
    assert guide(agent).why_not_run(output) == fate
