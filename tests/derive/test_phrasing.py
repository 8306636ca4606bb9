"""What an agent is given that phrases a report, and how that is known again."""

from __future__ import annotations

from backstory.derive.phrasing import FACTS_CHARS_MAX, prompt_for


def test_facts_that_are_too_long_are_cut_at_a_line_and_said_to_be() -> None:
    lines = [f"- fact {n:06}" for n in range(10_000)]
    prompt = prompt_for("a stand-up", "\n".join(lines), mark="5f2a")
    given = prompt.partition("<facts 5f2a>\n")[2].partition("\n</facts 5f2a>")[0].splitlines()
    assert given[:-1] == lines[: len(given) - 1]
    assert given[-1] == f"({len(lines) - len(given) + 1:,} more lines are left out)"
    assert FACTS_CHARS_MAX - 20 < len("\n".join(given[:-1])) <= FACTS_CHARS_MAX


def test_facts_that_fit_are_given_whole() -> None:
    assert "<facts 5f2a>\n- one\n</facts 5f2a>" in prompt_for("a stand-up", "- one", mark="5f2a")
