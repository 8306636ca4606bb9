"""What every agent's adapter promises, and which tests keep it: ``docs/agents.md`` is the table of both.

A test names its promise: ``promise`` runs it for each of some recorded homes, ``keeps`` is for a test of one agent. An
agent without an adapter is skipped, and the table says so. ``EXCUSED`` has the reasons for promises without a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PROMISES = {
    1: "Prompts, answers, calls, failed calls, edited files and tokens are those that were counted while it worked.",
    2: "A copy of a session names its origin, and what both hold counts once, in every order of arrival.",
    3: "A session in several files is one session.",
    4: "A cancelled turn is shown so where the log has a mark; else it is unfinished, never completed or failed.",
    5: "What no person typed is no prompt.",
    6: "A compaction is shown once, with its summary, and every prompt before it is still found.",
    7: "A subagent is a child of the session that called it, and its tokens count once.",
    8: "A database is read whole, also from its WAL and while another program writes, and nothing is left beside it.",
    9: "Bad input affects only its own log, which is kept and named with a reason.",
    10: "Every byte is kept and given back, and nothing is written into the agent's folder.",
    11: "A first ingest names the agent with its sessions and bytes, and obeys ingest.agents and exclude.",
    12: "The agent's own variable moves its folder, and what lies there and is not read is named.",
}
EXCUSED: dict[tuple[str, int], str] = {
    ("aider", 3): "one file holds many sessions",
    ("aider", 6): "it writes nothing of what it summarises",
    ("aider", 7): "it has no subagents",
    ("aider", 8): "it has no database",
    ("cline", 2): "it copies no session",
    ("cline", 3): "one file a session",
    ("cline", 6): "no run without a person at it compacted, so there is no recording",
    ("cline", 8): "its database is an index of what its files say, and is not opened",
    ("gemini", 2): "it copies no session",
    ("gemini", 6): "no run without a person at it compacted, so there is no recording",
    ("gemini", 8): "it has no database",
    ("kilo", 2): "it has no recording of one; its tables and their reader are opencode's",
    ("kilo", 3): "a database, no files",
    ("kilo", 4): "it has no recording of one; its tables and their reader are opencode's",
    ("kilo", 5): "it has no recording of one; its tables and their reader are opencode's",
    ("kilo", 6): "it has no recording of one; its tables and their reader are opencode's",
    ("kilo", 7): "it has no recording of one; its tables and their reader are opencode's",
    ("kilo", 9): "its tables and their reader are opencode's",
    ("opencode", 3): "a database, no files",
    ("openhands", 2): "it copies no session",
    ("openhands", 3): "one folder a session, which reads as one log",
    ("openhands", 6): "no run that condensed was recorded",
    ("openhands", 7): "no run with a subagent was recorded",
    ("openhands", 8): "it has no database",
    ("pi", 3): "one file a session",
    ("pi", 7): "it has no subagents",
    ("pi", 8): "it has no database",
    ("vibe", 2): "only its client for editors copies a session, and there is no recording of one",
    ("vibe", 7): "no recorded session called a helper",
    ("vibe", 8): "it has no database",
}
"""Why a promise has no test for an agent."""
KEPT: dict[tuple[str, int], list[str]] = {}
"""The tests of each promise for each agent, filled when their modules are imported."""


def promise(number: int, cases: Iterable[tuple[str, str]]) -> Callable[[Callable[..., None]], Any]:
    """Run a test with ``agent`` and ``case`` for each of ``cases``, and note that it keeps a promise."""
    given = list(cases)

    def decorate(test: Callable[..., None]) -> Any:
        for agent in dict.fromkeys(agent for agent, _ in given if has_adapter(agent)):
            KEPT.setdefault((agent, number), []).append(test.__name__)
        return pytest.mark.parametrize(("agent", "case"), [_param(*each) for each in given])(test)

    return decorate


def keeps(number: int, agent: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Note that a test keeps a promise for an agent."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        KEPT.setdefault((agent, number), []).append(test.__name__)
        return test

    return decorate


def has_adapter(agent: str) -> bool:
    return agent in agents.names()


def _param(agent: str, case: str) -> Any:
    missing = [] if has_adapter(agent) else [pytest.mark.skip(reason=f"{agent} has no adapter yet")]
    return pytest.param(agent, case, marks=missing, id=f"{agent}-{case}")
