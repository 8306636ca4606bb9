"""An answer of a tool, as it is filled."""

from __future__ import annotations

from backstory.mcp.answer import CHARS_MAX, ToolAnswer


def test_what_comes_behind_a_block_that_does_not_fit_is_left_out_and_not_asked_for() -> None:
    texts = iter(["first", "x" * CHARS_MAX, "behind", "last"])
    answer = ToolAnswer()
    assert answer.add_each(texts) == 1
    assert list(texts) == ["behind", "last"]
    shown = answer.text([])
    assert "first" in shown
    assert "behind" not in shown
