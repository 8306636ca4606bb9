"""Which lines below a commit's message name an agent or its session."""

from __future__ import annotations

import pytest

from backstory import agents

ID = "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f"


@pytest.mark.parametrize(
    ("agent", "key", "value", "session_id"),
    [
        ("claude", "Claude-Session", ID, ID),
        ("claude", "claude-session", ID.upper(), ID),
        ("claude", "Claude-Session", "https://claude.ai/code/session_01RppNtskp1EFoaBjU82erpY", None),
        ("claude", "Copilot-Session", ID, None),
        ("copilot", "Copilot-Session", ID, ID),
        ("copilot", "Copilot-Session", f"{ID} and more", None),
        ("codex", "Codex-Session", ID, None),
    ],
)
def test_the_session_that_a_line_names(agent: str, key: str, value: str, session_id: str | None) -> None:
    commits = agents.load(agent).commits
    assert commits is not None
    assert commits.session_id(key, value) == session_id


@pytest.mark.parametrize(
    ("agent", "email"),
    [
        ("claude", "noreply@anthropic.com"),
        ("copilot", "223556219+Copilot@users.noreply.github.com"),
        ("codex", "noreply@openai.com"),
    ],
)
def test_a_co_author_is_one_agent(agent: str, email: str) -> None:
    parts = {name: agents.load(name).commits for name in agents.names()}
    assert [name for name, part in parts.items() if part is not None and part.is_author(email)] == [agent]
