"""The parts of the screen that need no screen: the table of actions, Markdown as lines, blocks of a session."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import model
from backstory.cli import output
from backstory.cli.tui import actions
from backstory.cli.tui.actions import (
    ACTIONS,
    ANYWHERE,
    COMPARED,
    FIELD,
    LINE,
    PANE,
    PROMPT,
    QUESTION,
    SESSION,
    SESSIONS,
    TAKE_LETTERS,
    TREE,
)
from backstory.cli.tui.app import Backstory
from backstory.cli.tui.asking import LineQuestion, YesOrNo
from backstory.cli.tui.compare_screen import CompareScreen
from backstory.cli.tui.markdown import COLUMNS_LEAST, markdown_lines
from backstory.cli.tui.session_pane import SessionPane
from backstory.cli.tui.session_screen import SessionScreen
from backstory.cli.tui.sessions_screen import SessionsScreen
from backstory.cli.tui.strips import strip_of
from backstory.cli.tui.tree_screen import TreeScreen
from backstory.workspace.history.blocks import ENTRIES_MOST, Content, blocks_of
from backstory.workspace.history.entries import OutlineColumns
from tests import set_keys

SCREENS = {
    SESSIONS: SessionsScreen, SESSION: SessionScreen, PANE: SessionPane, ANYWHERE: Backstory, QUESTION: YesOrNo,
    LINE: LineQuestion, TREE: TreeScreen, COMPARED: CompareScreen,
}  # fmt: skip


def drawn(text: str, columns: int = 40) -> list[str]:
    return [output.for_screen(line, is_coloured=False) for line in markdown_lines(text, columns)]


# actions --------------------------------------------------------------------------------------------------------------


def test_every_action_is_done_by_its_screen() -> None:
    lacking = [
        each.name
        for each in ACTIONS
        if each.place in SCREENS and not hasattr(SCREENS[each.place], f"action_{each.name.partition('(')[0]}")
    ]
    assert lacking == []


@pytest.mark.parametrize("place", [SESSIONS, FIELD, SESSION, PROMPT, QUESTION, LINE, TREE, COMPARED])
def test_no_key_means_two_things(place: str) -> None:
    keys = Counter(key for each in actions.of_place(place) for key in each.keys.split(","))
    assert [key for key, count in keys.items() if count > 1] == []


@pytest.mark.parametrize("place", [SESSIONS, FIELD, SESSION, PROMPT, QUESTION, LINE, TREE, COMPARED])
def test_the_foot_fits_the_narrowest_screen(place: str) -> None:
    foot = actions.foot(place, 60)
    assert 0 < output.columns_shown(foot) <= 60
    assert ("? keys" in foot) == (place not in TAKE_LETTERS)


def test_no_action_is_named_by_nothing() -> None:
    assert [each for each in ACTIONS if not (each.help and each.shown and each.keys)] == []


def test_the_document_lists_every_key() -> None:
    assert set_keys.DOCUMENT.read_text("utf-8").endswith(set_keys.table()), "python -m tests.set_keys"


# Markdown -------------------------------------------------------------------------------------------------------------


def test_lists_are_indented_below_their_signs() -> None:
    assert drawn("- one\n- two words\n  1. nested\n  2. more") == ["• one", "• two words", "  1. nested", "  2. more"]
    assert drawn("- one\n\n- two") == ["• one", "", "• two"]


def test_a_paragraph_is_wrapped_at_words_and_a_long_word_is_cut() -> None:
    assert drawn("aaa bbb ccc " + "d" * 30, 20) == ["aaa bbb ccc", "d" * 20, "d" * 10]


def test_code_stays_as_it_is() -> None:
    assert drawn("```py\nif a:\n    b()\n```") == ["  if a:", "      b()"]


def test_a_quote_has_a_bar_and_a_table_has_columns() -> None:
    assert drawn("> said\n> twice") == ["│ said twice"]
    assert drawn("|a|b|\n|-|-|\n|one|2|") == ["a    b", "one  2"]


def test_signs_in_a_paragraph_that_nobody_wrote_stay() -> None:
    assert next(iter(drawn("*a* " * 10_000))).startswith("*a* *a*")
    assert next(iter(drawn("*a* " * 1_000))).startswith("a a")


def test_a_link_shows_its_address_once() -> None:
    assert drawn("[docs](https://x.y/z) <https://x.y>") == ["docs (https://x.y/z) https://x.y"]


def test_east_asian_letters_take_two_columns() -> None:
    assert drawn("日本語" * 10, 20) == ["日本語日本語日本語日", "本語日本語日本語日本", "語日本語日本語日本語"]


MARKDOWN = st.text(st.sampled_from("ab \n#*_`~>|-+[]()!<&1.\\\t日é\u200d\x1b") | st.characters(), max_size=200)


@given(MARKDOWN, st.integers(20, 100))
def test_any_text_becomes_lines_that_fit_and_act_on_nothing(text: str, columns: int) -> None:
    is_code = "`" in text or "~" in text or "    " in text.expandtabs(4)
    for line in markdown_lines(text, columns):
        shown = output.for_screen(line, is_coloured=False)
        assert shown == output.clean(shown)
        # Code is not wrapped; what is nested deep keeps its least width.
        before = len(shown) - len(shown.lstrip(" │•.0123456789"))
        assert is_code or output.columns(shown) <= max(columns, before + COLUMNS_LEAST)


@given(st.text(max_size=60), st.integers(1, 80))
def test_a_strip_is_as_wide_as_it_should_be_and_has_no_acting_letter(text: str, columns: int) -> None:
    strip = strip_of(output.style(text, bold=True), columns)
    assert output.clean(strip.text) == strip.text
    assert strip.cell_length == columns


# blocks ---------------------------------------------------------------------------------------------------------------

KINDS = [model.UserMessage.kind, model.AssistantText.kind, model.ToolCall.kind, model.ToolResult.kind]


def entries(kinds: list[str]) -> OutlineColumns:
    count = len(kinds)
    return OutlineColumns(
        seqs=array("q", range(1, count + 1)), parts=array("q", [0] * count), kinds=kinds, turns=[1] * count,
        chars=array("q", [10] * count),
    )  # fmt: skip


@given(st.lists(st.sampled_from(KINDS), max_size=1_000))
def test_every_entry_is_in_one_block(kinds: list[str]) -> None:
    found = blocks_of(entries(kinds))
    assert [n for block in found for n in range(block.first, block.end)] == list(range(len(kinds)))
    assert all(0 < block.end - block.first <= ENTRIES_MOST for block in found)


def test_a_call_and_its_result_are_in_one_block() -> None:
    order = entries([model.AssistantText.kind, *[model.ToolCall.kind, model.ToolResult.kind] * 20] * 5)
    starts = {order.kinds[block.first] for block in blocks_of(order)}
    assert starts == {model.AssistantText.kind}


def test_an_entry_that_a_rewind_left_behind_is_found_in_the_block_where_it_is_shown() -> None:
    kept = entries([model.UserMessage.kind] * 100)
    # Entries 11 to 20 are off the branch that goes on: they come last.
    order = kept.picked([*range(10), *range(20, 100), *range(10, 20)])
    nothing: Any = None
    content = Content(
        located=nothing,
        transcript=nothing,
        order=order,
        blocks=blocks_of(order),
        aside=90,
        prompts=(),
        turns={},
        folder="",
    )
    assert [content.block_of((seq, 0)) for seq in (1, 15, 50, 100)] == [0, 3, 1, 2]
    assert (content.block_of((15, 7)), content.block_of((101, 0))) == (content.block_of((16, 0)), None)
